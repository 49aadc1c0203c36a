import os
import subprocess
import threading

import pytest

from knime_mcp.client.conversation import memory
from tests.support.scripted_server import legacy, modern
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _nothing_remembered():
    # Ports are used again by the operating system; what one server spoke says nothing about the next one.
    memory.clear()


@pytest.fixture(params=[legacy, modern])
def era(request):
    """The script of a server, of either era."""
    return request.param


@pytest.fixture
def nothing_is_left():
    """No process and no thread of a server is left when a test ends."""

    def threads():
        return [t.name for t in threading.enumerate() if t.name.startswith("knime-mcp-stdio")]

    def children():
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
            capture_output=True,
            text=True,
            check=False,
        )
        return [line for line in listed.stdout.splitlines() if "ps -o" not in line]

    before = children()
    yield
    until(lambda: not threads(), f"threads end: {threads()}")
    assert set(children()) <= set(before)  # one of an earlier test may end meanwhile
