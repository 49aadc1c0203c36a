"""The bodies, field by field, as the sources show them; what differs from run to run is replaced."""

import json
import re
from pathlib import Path

import httpx
import pytest

from knime_mcp.version import VERSION

pytestmark = pytest.mark.quick


GOLDEN = Path(__file__).parent / "golden"
V1 = "/api/v1/mcp"
AI = {"nodes": [{"node_type": "AI_AGENT", "subtype": "OPENAI_CHATGPT"}], "include_examples": True}
HEX = re.compile(r"[0-9a-f]{32}")
#: Case -> (method, path, body, listener)
CASES = {
    "tools": ("GET", f"{V1}/tools", None, "public"),
    "tool": ("GET", f"{V1}/tools/get_node_types", None, "public"),
    "tool-unknown": ("GET", f"{V1}/tools/get_node_type", None, "public"),
    "invoke": (
        "POST",
        f"{V1}/invoke",
        {"name": "get_node_types", "arguments": {"type_filter": "AI_AGENT"}},
        "public",
    ),
    "invoke-rpc": (
        "POST",
        f"{V1}/invoke",
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "get_node_types", "arguments": {"type_filter": "MEMORY"}},
        },
        "public",
    ),
    "invoke-unknown": ("POST", f"{V1}/invoke", {"name": "serach_nodes", "arguments": {}}, "public"),
    "invoke-arguments": ("POST", f"{V1}/invoke", {"name": "get_node_details", "arguments": {}}, "public"),
    "health": ("GET", f"{V1}/health", None, "public"),
    "public-health": ("GET", "/api/v1/public/health", None, "public"),
    "simple-tools": ("GET", "/mcp/tools", None, "public"),
    "simple-invoke": (
        "POST",
        "/mcp/invoke",
        {"tool_name": "get_node_types", "params": {"type_filter": "AI_AGENT"}},
        "public",
    ),
    "simple-unknown": ("POST", "/mcp/invoke", {"tool_name": "nothing", "params": {}}, "public"),
    "simple-arguments": (
        "POST",
        "/mcp/invoke",
        {"tool_name": "node_knowledge_retriever", "params": {"node_names": "x"}},
        "public",
    ),
    "internal-tools": ("GET", f"{V1}/tools/internal", None, "internal"),
    "internal-invoke": (
        "POST",
        f"{V1}/invoke/internal",
        {"name": "get_node_types", "arguments": {"type_filter": "AI_AGENT"}},
        "internal",
    ),
    "internal-unknown": ("POST", f"{V1}/invoke/internal", {"name": "nothing"}, "internal"),
    "retriever": (
        "POST",
        "/mcp/invoke",
        {
            "tool_name": "node_knowledge_retriever",
            "params": {"node_names": ["KEY_VALUE_STORE", "zzzz"], "include_metadata": True},
        },
        "public",
    ),
}
CHANGING = {
    "_execution_time_ms": float,
    "execution_time_ms": float,
    "processing_time_ms": (float, int),
    "timestamp": (int, str),
    "built_at": str,
    "catalogue_version": str,
}


#: What the catalogue and the tools say about themselves, and tests of their own look at.
TOLD = {
    "description": str,
    "parameters": dict,
    "knowledge": str,
    "workflow_guidance": str,
    "usage_examples": list,
}


def settled(value, key=""):
    """The same, with a type's name where the value changes from run to run."""
    if key in CHANGING:
        if value is None:
            return None
        assert isinstance(value, CHANGING[key])
        return f"<{key}>"
    if value and key in TOLD:
        assert isinstance(value, TOLD[key])
        return f"<{key}>"
    if key in ("origin", "_catalogue", "catalogue"):
        return f"<{key}>"
    if key == "version" and value == VERSION:
        return "<version>"
    if key in ("id", "request_id", "_request_id") and isinstance(value, str) and HEX.fullmatch(value):
        return "<request id>"
    if isinstance(value, dict):
        return {name: settled(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [settled(entry) for entry in value]
    return value


def ask(gateway, method, path, body, listener):
    base = gateway.url if listener == "public" else gateway.internal
    headers = {"X-API-Key": gateway.key()} if listener == "public" else {}
    return httpx.request(method, base + path, json=body, headers=headers, timeout=30)


@pytest.mark.requirement("N13", "N14", "N16", "N18", "N19", "N20", "W1", "W3", "V3")
def test_body_is_as_recorded(subtests, gateway):
    for case in CASES:
        with subtests.test(case=case):
            response = ask(gateway, *CASES[case])
            found = {"status": response.status_code, "body": settled(response.json())}
            assert response.headers["content-type"] == "application/json"
            file = GOLDEN / f"{case}.json"
            text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
            if not file.exists():
                file.write_text(text, "utf-8")
                pytest.fail(f"{file.name} was not there; look at what was written")
            assert text == file.read_text("utf-8")


@pytest.mark.requirement("N13")
def test_lists_of_tools_have_the_fields_of_the_source(client):
    body = client.get(f"{V1}/tools").json()
    assert list(body) == ["jsonrpc", "id", "result"]
    assert body["jsonrpc"] == "2.0"
    by_name = {tool["name"]: tool for tool in body["result"]["tools"]}
    assert {"get_node_types", "get_node_details", "search_nodes", "node_knowledge_retriever"} <= set(by_name)
    assert "elasticsearch" not in by_name
    for tool in by_name.values():
        assert list(tool) == ["name", "description", "parameters", "category", "tags"]
    assert by_name["get_node_types"]["category"] == "workflow"
    assert by_name["get_node_types"]["tags"] == ["nodes", "workflow", "specifications"]


@pytest.mark.requirement("N14", "N15", "N16")
def test_a_call_answers_as_the_source_shows(client):
    response = client.post(f"{V1}/invoke", json={"name": "get_node_details", "arguments": AI})
    body = response.json()
    result = body["result"]
    assert list(result) == [
        "content",
        "isError",
        "structuredContent",
        "_tool_name",
        "_execution_time_ms",
        "_request_id",
    ]
    text = "Tool 'get_node_details' executed successfully"
    assert result["content"] == [{"type": "text", "text": text}]
    assert result["isError"] is False
    node = result["structuredContent"]["nodes"][0]
    assert (node["node_type"], node["subtype"]) == ("AI_AGENT", "OPENAI_CHATGPT")
    assert result["_tool_name"] == "get_node_details"
    assert body["id"] == result["_request_id"] == response.headers["x-request-id"]


RPC = {"jsonrpc": "2.0", "id": "mine", "method": "tools/call", "params": {"name": "get_node_types"}}


def test_what_mcp_clients_say_beside_a_call_is_left_alone(client):
    meta = {"progressToken": 7, "io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    response = client.post(f"{V1}/invoke", json=RPC | {"params": RPC["params"] | {"_meta": meta}})
    assert (response.status_code, response.json()["id"]) == (200, "mine")
    refused = client.post(f"{V1}/invoke", json={"name": "get_node_types", "_meta": meta})
    assert refused.status_code == 400


def test_null_is_no_arguments(client):
    call = {"name": "get_node_types", "arguments": None}
    for body in (call, RPC | {"params": call}):
        assert client.post(f"{V1}/invoke", json=body).status_code == 200
    assert client.post("/mcp/invoke", json={"tool_name": "get_node_types", "params": None}).status_code == 200


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"nme": "x"}, ["name", "nme"]),
        ([], ["body"]),
        (RPC | {"id": 1.5}, ["id", "id"]),
        (RPC | {"params": {"name": 7}}, ["params.name"]),
        ({"name": "x", "arguments": [1]}, ["arguments"]),
    ],
)
def test_fields_are_named_as_they_were_sent(client, body, fields):
    error = client.post(f"{V1}/invoke", json=body).json()["error"]
    assert [entry["field"] for entry in error["data"]["details"]["errors"]] == fields
    assert f"{fields[0]}: " in error["message"]


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"method": "tools/list"}, "mine"),
        ({"params": {"nme": "x"}}, "mine"),
        ({"params": {"name": "nothing"}}, "mine"),
        ({"id": 0, "params": []}, 0),
        ({"id": None}, None),
        ({"id": True}, None),
        ({"id": [1]}, None),
        ({"id": "\ud800"}, None),
        ({"jsonrpc": "1.0"}, "mine"),
    ],
)
def test_the_id_of_a_request_comes_back_with_its_error(client, changed, found):
    text = json.dumps(RPC | changed)
    response = client.post(f"{V1}/invoke", content=text, headers={"content-type": "application/json"})
    assert response.status_code in (400, 404)
    assert response.json()["id"] == (response.headers["x-request-id"] if found is None else found)


@pytest.mark.requirement("N16")
def test_a_clients_own_request_id_is_kept_if_it_is_a_good_one(client):
    kept = client.get(f"{V1}/health", headers={"X-Request-ID": "req-123"})
    assert kept.json()["request_id"] == kept.headers["x-request-id"] == "req-123"
    for bad in ("x" * 65, "a b", "<script>"):
        response = client.get(f"{V1}/health", headers={"X-Request-ID": bad})
        assert HEX.fullmatch(response.json()["request_id"])


@pytest.mark.requirement("N17")
def test_a_tool_that_fails_says_so_in_both_ways(start, tmp_path, catalogue):
    copy = tmp_path / "nodes.sqlite"
    copy.write_bytes(catalogue.read_bytes())
    running = start(catalogue=copy)
    copy.unlink()
    with running.client() as client:
        response = client.post(f"{V1}/invoke", json={"name": "get_node_types"})
        assert response.status_code == 500
        error = response.json()["error"]
        assert error["code"] == -32603
        assert error["message"].startswith("Error: Tool execution failed: The node catalogue cannot be read")
        data = error["data"]
        assert data["content"] == [{"type": "text", "text": error["message"]}]
        assert (data["isError"], data["_tool_name"]) == (True, "get_node_types")
        assert data["error_type"] == "DATABASE_ERROR"
        assert data["user_message"] in error["message"]
        assert str(tmp_path) not in response.text
        simple = client.post("/mcp/invoke", json={"tool_name": "get_node_types"})
        assert (simple.status_code, simple.json()["error_type"]) == (500, "DATABASE_ERROR")
        health = client.get(f"{V1}/health")
        assert (health.status_code, health.json()["healthy"]) == (503, False)
        assert health.json()["error"]
        assert client.get("/api/v1/public/health").status_code == 503
        assert client.get(f"{V1}/tools/get_node_types").json()["available"] is False
    internal = httpx.post(running.internal + f"{V1}/invoke/internal", json={"name": "get_node_types"})
    assert internal.status_code == 500
    assert internal.json()["isError"] is True


@pytest.mark.requirement("V4")
def test_an_unknown_node_in_a_batch_leaves_the_others(client):
    nodes = [{"node_type": "TRIGGER", "subtype": "NOPE"}, {"node_type": "TRIGGER", "subtype": "MANUAL"}]
    result = client.post(
        "/mcp/invoke", json={"tool_name": "get_node_details", "params": {"nodes": nodes}}
    ).json()
    first, second = result["result"]["nodes"]
    assert "error" in first
    assert second["subtype"] == "MANUAL"


@pytest.mark.requirement("N29")
def test_the_openapi_document_names_every_endpoint(gateway):
    with gateway.client("") as client:
        document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {
        f"{V1}/tools",
        f"{V1}/tools/{{tool_name}}",
        f"{V1}/invoke",
        f"{V1}/health",
        "/api/v1/public/health",
        "/mcp/tools",
        "/mcp/invoke",
    }
    statuses = {
        status
        for path in document["paths"].values()
        for operation in path.values()
        for status in operation["responses"]
    }
    assert statuses == {"200", "400", "401", "403", "404", "408", "413", "415", "429", "500", "503"}
    assert document["components"]["securitySchemes"]["ApiKey"]["name"] == "X-API-Key"
