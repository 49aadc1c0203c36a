"""What the tests of graphs share."""

import gc
from collections.abc import Iterator

import pytest

from tests.cli.conftest import cli  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def no_callbacks_while_collecting() -> Iterator[None]:
    """Takes away what hypothesis runs while Python collects garbage.

    The end of an expression's time is an exception that comes from another thread. Where such a callback runs
    just then, Python reports it and goes on; it is raised once more a moment later.
    """
    kept = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = kept
