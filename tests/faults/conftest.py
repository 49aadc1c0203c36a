"""Every test here must leave nothing behind: no thread, no socket."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from knime_mcp.client.conversation import memory
from tests.support import commands

_DESCRIPTORS = Path("/proc/self/fd")
_PATIENCE = 30.0


def open_sockets():
    """The sockets of this process, as far as the operating system tells."""
    found = set()
    for entry in _DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else ():
        try:
            target = os.readlink(entry)  # noqa: PTH115 - the target is no path
        except OSError:
            continue  # the descriptor of the directory itself
        if target.startswith("socket:"):
            found.add((entry.name, target))
    return found


@pytest.fixture(autouse=True, scope="session")
def forks():
    """The socket to the process that forks commands is there before sockets are counted."""
    commands.run([sys.executable, "-c", ""], check=True)


@pytest.fixture(autouse=True)
def nothing_left_behind(monkeypatch):
    """Threads and sockets are the same before and after, and no thread died of an error."""
    memory.clear()
    died = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    threads, sockets = set(threading.enumerate()), open_sockets()
    yield
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        left = {thread for thread in threading.enumerate() if thread.is_alive()} - threads
        more = open_sockets() - sockets
        if not left and not more:
            break
        time.sleep(0.01)
    assert not left
    assert not more
    assert not [hook.exc_value for hook in died]
