"""``POST /mcp`` of the gateway: the MCP server behind keys, scopes and limits."""

import httpx
import pytest

from knime_mcp.tools import BearerAuth, HeaderAuth, MCPClient
from knime_mcp.types.errors import MCPError
from knime_node_knowledge.gateway.api_keys import Scope

LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
CALLING = LISTING | {
    "method": "tools/call",
    "params": {"name": "search_nodes", "arguments": {"query": "send mail", "max_results": 1}},
}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


def posted(running, message, key="", **headers):
    with running.client(key) as client:
        return client.post("/mcp", json=message, headers=HEADERS | headers)


def metrics(running):
    return httpx.get(f"{running.internal}/metrics", verify=False).text


@pytest.mark.parametrize("auth", [BearerAuth, lambda key: HeaderAuth("X-API-Key", key)])
@pytest.mark.parametrize("end", ["", "/"])
def test_a_client_lists_and_calls_tools_with_its_key(start, auth, end):
    running = start()
    key = running.key(name="team")
    with MCPClient(f"{running.url}/mcp{end}", auth=auth(key)) as client:
        names = [tool.name for tool in client.list_tools()]
        assert names[:3] == ["get_node_types", "get_node_details", "search_nodes"]
        found = client.call_tool("get_node_details", {"nodes": ["HTTP_REQUEST"]})
        assert found.structured_content["nodes"][0]["subtype"] == "HTTP_REQUEST"
        refused = client.call_tool("find_compatible", {"node": "nothing at all"})
        assert refused.is_error
    counted = metrics(running)
    assert 'tool_calls_total{outcome="ok",tool="get_node_details"} 1.0' in counted
    assert 'tool_calls_total{outcome="PARAMETER_ERROR",tool="find_compatible"} 1.0' in counted
    assert 'route="/mcp"' in counted  # both spellings


def test_without_a_key_there_is_nothing(start):
    running = start()
    assert posted(running, LISTING).status_code == 401
    assert posted(running, LISTING, "kmcp_no_key").status_code == 401
    assert posted(running, LISTING, Authorization="Bearer kmcp_no_key").status_code == 401
    with pytest.raises(MCPError):
        MCPClient(f"{running.url}/mcp").connect()


def test_scopes_count(start):
    running = start()
    reads, calls = running.key(Scope.TOOLS_READ), running.key(Scope.TOOLS_EXECUTE)
    assert posted(running, LISTING, reads).status_code == 200
    answer = posted(running, CALLING, reads)
    assert (answer.status_code, answer.json()["details"]["missing_scope"]) == (403, "tools:execute")
    assert posted(running, [CALLING], reads).status_code == 403
    assert posted(running, CALLING, calls).json()["result"]["structuredContent"]["total"] > 0
    assert posted(running, LISTING, calls).status_code == 403


def test_limits_count(start):
    running = start(gateway_max_body_bytes=1024, mcp_max_results_per_tool=2)
    key = running.key(rate_limit=3)
    assert posted(running, LISTING | {"id": "x" * 2000}, key).status_code == 413
    listed = posted(running, LISTING, key).json()["result"]["tools"]
    limits = {tool["name"]: tool["inputSchema"]["properties"] for tool in listed}
    assert limits["search_nodes"]["max_results"]["maximum"] == 2
    assert posted(running, LISTING, key).status_code == 200
    assert posted(running, LISTING, key).headers["Retry-After"]
    many = {"name": "search_nodes", "arguments": {"query": "data", "max_results": 50}}
    found = posted(running, CALLING | {"params": many}, running.key()).json()["result"]["structuredContent"]
    assert len(found["nodes"]) == 2
    assert "max_results is 2" in found["warning"]


def test_it_can_be_switched_off_and_takes_posts_of_json_only(start):
    running = start()
    key = running.key()
    with running.client(key) as client:
        assert client.get("/mcp").status_code == 405
        assert client.post("/mcp", data={"a": "b"}).status_code == 415
        assert (
            client.post("/mcp", content="{", headers={"Content-Type": "application/json"}).status_code == 400
        )
    off = start(environment={"MCP_ENABLED": "false"})
    assert posted(off, LISTING, off.key()).status_code == 503


def test_only_pages_of_named_origins_may_call(start):
    running = start(environment={"GATEWAY_CORS_ORIGINS": "https://team.example"})
    key = running.key()
    assert posted(running, LISTING, key, Origin="https://team.example").status_code == 200
    assert posted(running, LISTING, key, Origin="https://elsewhere.example").status_code == 403
    # Behind a proxy the name of the host is another; the key decides.
    assert posted(running, LISTING, key, Host="knowledge.example").status_code == 200


def test_the_log_has_the_call_and_not_its_content(start, caplog):
    running = start()
    with caplog.at_level("INFO", "knime_node_knowledge.gateway"):
        posted(running, CALLING, running.key(name="team"))
    (line,) = [record for record in caplog.records if "search_nodes" in record.getMessage()]
    assert line.getMessage() == "POST /mcp search_nodes 200 for client team"
    assert "send mail" not in str(line.__dict__)
    assert line.fields["query_hash"]
