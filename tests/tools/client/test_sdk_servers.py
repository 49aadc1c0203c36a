"""The official SDK's server, as installed here: both eras over both transports. More peers: tests/peers."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import Canceled, ConnectError, TimedOut

SCRIPT = Path(__file__).with_name("sdk_server.py")
MODES = {"stateful": "/mcp", "stateless": "/mcp", "json": "/mcp", "sse": "/sse"}
STREAMS = {"stateful", "stateless", "sse"}


@pytest.fixture(scope="module", params=MODES)
def server(request, tmp_path_factory):
    log = tmp_path_factory.mktemp("sdk") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, SCRIPT, request.param], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 60
        while (url := re.search(r"Uvicorn running on (http://[\d.:]+)", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield request.param, f"{url[1]}{MODES[request.param]}"
    finally:
        process.kill()
        process.wait(30)


@pytest.mark.requirement("T27")
@pytest.mark.requirement("T28")
@pytest.mark.parametrize("version", [None, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_list_and_call(server, version):
    mode, url = server
    with MCPClient(url, protocol_version=version) as client:
        assert client.server.protocol_version == (version or "2026-07-28")
        assert (client.server.name, client.server.transport) == ("sdk", "sse" if mode == "sse" else "http")
        assert [tool.name for tool in client.list_tools()] == ["add", "fail", "count"]
        result = client.call_tool("add", {"a": 1, "b": 2})
        assert result.text == "3"
        assert result.structured_content == {"result": 3}
        assert client.call_tool("fail").is_error
        assert client.call_tool("nothing").is_error


@pytest.mark.parametrize("version", [None, "2025-11-25"])
def test_progress_cancel_and_timeout(server, version):
    mode, url = server
    told = []
    with MCPClient(url, protocol_version=version) as client:
        assert client.call_tool("count", {"steps": 3}, on_progress=told.append).text == "counted"
        if mode in STREAMS:
            assert [progress.message for progress in told] == ["step 0", "step 1", "step 2"]
        started = time.monotonic()
        with pytest.raises(Canceled):
            client.call_tool("count", {"steps": 5000}, is_canceled=lambda: time.monotonic() > started + 0.3)
        with pytest.raises(TimedOut):
            client.call_tool("count", {"steps": 5000}, timeout=0.3)
        assert time.monotonic() - started < 30  # the server counts for 100 s
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"


def test_a_wrong_path_is_named(server):
    _, url = server
    with pytest.raises(ConnectError, match="404"):
        MCPClient(url.rpartition("/")[0] + "/wrong").connect()
