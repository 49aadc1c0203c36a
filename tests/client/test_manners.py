"""What a client owes a server beside the calls: how it begins, what it remembers, how it leaves."""

import pytest

from knime_mcp.client.listing import ttl_seconds
from knime_mcp.tools import BearerAuth, MCPClient
from tests.support.scripted_server import MODERN, ScriptedServer, http, initialize, legacy, modern

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("refusal", [http(405, ""), http(404, ""), http(500, "no"), http(200, "{}")])
def test_a_server_that_does_not_end_sessions_is_left_all_the_same(refusal):
    with ScriptedServer(legacy(session="s-1", DELETE=refusal)) as server:
        with MCPClient(server.url) as client:
            assert client.call_tool("echo").text == "hi"
        (end,) = [request for request in server.requests if request.method == "DELETE"]
        assert end.headers["mcp-session-id"] == "s-1"


@pytest.mark.parametrize("session", ["", "two words", "s\x7f", "s\xe9"])
def test_a_session_id_that_is_not_visible_ascii_is_not_sent_back(session):
    script = legacy(initialize=initialize(session=session))
    with ScriptedServer(script) as server:
        with MCPClient(server.url) as client:
            assert client.call_tool("echo").text == "hi"
        assert all("mcp-session-id" not in request.headers for request in server.requests)


def test_what_a_server_speaks_is_remembered_for_the_same_caller_only():
    with ScriptedServer(legacy()) as server:
        for token, probes in (("one", 1), ("one", 1), ("two", 2)):
            with MCPClient(server.url, auth=BearerAuth(token)):
                assert server.methods.count("server/discover") == probes
        server.script = modern()
        with MCPClient(server.url, auth=BearerAuth("three")) as client:
            assert client.server.protocol_version == MODERN


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [(0, 0), (1500, 1.5), (86_400_000, 86_400), (10**15, 86_400), (-5, 0), ("60000", 0), (True, 0)],
)
def test_a_listing_is_kept_for_a_day_at_most(ttl, seconds):
    assert ttl_seconds({"ttlMs": ttl}) == seconds
