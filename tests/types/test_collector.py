"""The pause of the garbage collector: ends with the last block, and leaves a disabled collector off."""

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from knime_mcp.types import collector
from knime_mcp.types.collector import collector_paused


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


@pytest.mark.parametrize(("longest", "joins"), [(60.0, True), (-1.0, False)])
def test_the_last_of_several_threads_turns_it_on_if_it_joined_in_time(monkeypatch, longest, joins):
    monkeypatch.setattr(collector, "LONGEST_SECONDS", longest)
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
    assert gc.isenabled() is not joins
    leave.set()
    thread.join(30)
    assert gc.isenabled()


def test_blocks_that_always_overlap_do_not_keep_it_off(monkeypatch):
    monkeypatch.setattr(collector, "LONGEST_SECONDS", 0.05)
    gc.enable()
    before = gc.get_stats()[0]["collections"]
    over = threading.Event()

    def overlap() -> None:
        while not over.is_set():
            with collector_paused():
                kept = [[] for _ in range(2000)]
                over.wait(0.01)
            del kept

    threads = [threading.Thread(target=overlap) for _ in range(8)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 30
    while gc.get_stats()[0]["collections"] < before + 3 and time.monotonic() < deadline:
        over.wait(0.01)
    found = gc.get_stats()[0]["collections"] - before
    over.set()
    for thread in threads:
        thread.join(30)
    assert found >= 3
    assert gc.isenabled()
