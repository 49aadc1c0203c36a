"""How the server over HTTP ends, and what it says of clients that go away."""

import queue
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.types.errors import MCPError

from .conftest import DEADLINE, ERAS, data, served

BATCH = {"nodes": [{"id": f"excel reader {number}"} for number in range(100)]}
ACCEPT = "Accept: application/json, text/event-stream"
BEGUN = (
    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    f"{ACCEPT}\r\nMcp-Protocol-Version: {{version}}\r\nContent-Length: 999\r\n\r\n{{{{"
)
STREAM = f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{{port}}\r\n{ACCEPT}\r\n\r\n"
IDLE = "GET /nothing HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"


@contextmanager
def sending(address, text, version=ERAS[0]):
    """A connection on which something was sent, and answered if it was a whole request."""
    port = int(address.rpartition(":")[2].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as connection:
        connection.sendall(text.format(port=port, version=version).encode())
        if text is not BEGUN:
            assert connection.recv(100).startswith(b"HTTP/1.1 ")
        yield connection


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
@pytest.mark.parametrize("text", [None, IDLE, STREAM, BEGUN], ids=["unused", "idle", "stream", "half a body"])
def test_a_signal_ends_it_cleanly(catalogue_file, text, number):
    with (
        served(catalogue_file) as (address, process),
        sending(address, text) if text else nullcontext(),
    ):
        process.send_signal(number)
        assert process.wait(DEADLINE) == 0
        assert process.stderr.read() == ""


def test_a_signal_lets_running_calls_end(catalogue_file):
    answers = queue.SimpleQueue()

    def call(address):
        with MCPClient(address) as client, suppress(MCPError):
            while True:
                answers.put(data(client.call_tool("get_node_details", BATCH, timeout=DEADLINE)))

    with served(catalogue_file) as (address, process), ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(call, address) for _ in range(4)]
        answers.get(timeout=DEADLINE)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
        assert process.stderr.read() == ""
        for ended in calls:
            ended.result(DEADLINE)


def test_a_second_signal_ends_it_at_once(catalogue_file):
    with served(catalogue_file) as (address, process), sending(address, BEGUN):
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 3
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("version", ERAS)
def test_a_client_that_leaves_early_is_no_error(catalogue_file, version):
    said = "[INFO] knime_mcp.web.tool_server: A client left before its request was complete\n"
    with served(catalogue_file, "--log-level", "info") as (address, process):
        with sending(address, BEGUN, version):
            pass
        while said != process.stderr.readline():
            assert process.poll() is None
        with MCPClient(address) as client:
            assert data(client.call_tool("get_node_types", {}, timeout=DEADLINE))
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
        assert "rror" not in process.stderr.read()
