"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable

import pytest


def until(
    condition: Callable[[], object], what: str | Callable[[], str] = "it happens", seconds: float = 60
) -> None:
    """Waits until a condition holds, or fails and says what was waited for; a function is asked only then.

    The deadline only detects a hang: on a machine with other work, starting a process can take half a minute.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what() if callable(what) else what}", pytrace=False)
        time.sleep(0.005)
