"""The pause of the garbage collector: ends with its block, and leaves a disabled collector off."""

import gc
import threading
from collections.abc import Iterator

import pytest

from knime_mcp.types.texts import collector_paused

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Restores the collector's state after a test."""
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


def test_it_is_off_inside_and_on_after():
    gc.enable()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_on_again_after_an_error():
    gc.enable()
    with pytest.raises(ZeroDivisionError), collector_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_one_that_was_off_stays_off():
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_a_pause_ends_with_its_own_block_whatever_other_threads_do():
    gc.enable()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collector_paused():
            inside.set()
            assert leave.wait(30)

    thread = threading.Thread(target=other)
    with collector_paused():
        thread.start()
        assert inside.wait(30)
        assert not gc.isenabled()
    assert gc.isenabled()
    leave.set()
    thread.join(30)
    assert gc.isenabled()
