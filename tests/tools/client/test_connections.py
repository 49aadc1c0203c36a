"""Connections are kept for the next request, however many there are."""

import threading
from concurrent.futures import ThreadPoolExecutor

from knime_mcp.tools import MCPClient
from tests.support.scripted_server import ScriptedServer, modern, rpc, text

AT_ONCE = 40


def test_forty_calls_at_once_use_forty_connections_again_and_again():
    together = threading.Barrier(AT_ONCE, timeout=20)

    def answer(request):
        together.wait()
        return b"".join(rpc(text("ok", resultType="complete"))(request))

    with (
        ScriptedServer(modern(tools__call=lambda _: [answer])) as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        for _ in range(3):
            calls = [threads.submit(client.call_tool, "echo", timeout=20) for _ in range(AT_ONCE)]
            assert all(call.result().text == "ok" for call in calls)
        assert server.connections == AT_ONCE
