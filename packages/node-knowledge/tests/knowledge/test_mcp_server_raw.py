"""Requests written by hand: what clients send that no library of ours would."""

import httpx
import pytest

from .conftest import DEADLINE, META, TOOL_NAMES, served

HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@pytest.fixture(scope="module")
def send(catalogue_file):
    with (
        served(catalogue_file) as (url, _),
        httpx.Client(headers=HEADERS, timeout=DEADLINE, verify=False) as client,
    ):

        def ask(method, params=None, *, http="POST", **headers):
            message = {"jsonrpc": "2.0", "id": 1, "method": method} | ({"params": params} if params else {})
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            return client.request(http, url, json=message, headers=sent)

        yield ask


def call(tool, **arguments):
    return {"name": tool, "arguments": arguments}


def stateless(method, **headers):
    return {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method, **headers}


@pytest.mark.parametrize("cursor", ["", None])
def test_an_empty_cursor_is_the_first_page(send, cursor):
    for params, headers in (
        ({"cursor": cursor}, {}),
        ({"cursor": cursor, "_meta": META}, stateless("tools/list")),
    ):
        found = send("tools/list", params, **headers).json()["result"]
        assert [tool["name"] for tool in found["tools"]] == TOOL_NAMES
        assert "nextCursor" not in found


@pytest.mark.parametrize(
    ("method", "params", "code", "said"),
    [
        ("tools/list", {"cursor": "x"}, -32602, "first page"),
        ("tools/call", call("nothing"), -32602, "There is no tool 'nothing'. Tools: get_node_types"),
        ("tools/call", {"arguments": {}}, -32602, ""),
        ("tools/call", {"name": "get_node_types", "arguments": []}, -32602, ""),
        ("logging/setLevel", {"level": "debug"}, -32601, ""),
        ("resources/templates/list", None, -32601, ""),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}},
            -32601,
            "",
        ),
        ("no/such", None, -32601, ""),
    ],
)
def test_what_is_not_there_is_an_error_of_the_protocol(send, method, params, code, said):
    error = send(method, params).json()["error"]
    assert error["code"] == code
    assert said in error["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        call("find_compatible", node="CSV Reader", port=1.5),
        call("find_compatible", node={"id": 7}),
        call("search_nodes", query="row", cursor="9" * 400),
        call("search_nodes", query="row", max_results=10**400),
        call("get_node_details", nodes=[[["Joiner"]]]),
        call("check_configuration", node="ACTION.HTTP_REQUEST", settings={"timeout_seconds": 10**400}),
        call("get_node_types", type_filter=-1e300),
        call("search_nodes", query="™"),
    ],
    ids=str,
)
def test_odd_arguments_are_answered_by_the_tool(send, arguments):
    for params, headers in (
        (arguments, {}),
        (arguments | {"_meta": META}, stateless("tools/call", Mcp_Name=arguments["name"])),
    ):
        result = send("tools/call", params, **headers).json()["result"]
        text = result["content"][0]["text"]
        assert "Unexpected" not in text
        assert "damaged" not in text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://localhost:5173"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Mcp_Session_Id": "of-another-life"}, 200),
        ({"Accept": "*/*"}, 200),
        ({"Accept": "text/html"}, 406),
        ({"Content_Type": "text/plain"}, 400),
        ({"http": "DELETE"}, 405),
        ({"http": "PUT"}, 405),
    ],
    ids=str,
)
def test_who_is_let_in(send, headers, status):
    assert send("ping", **headers).status_code == status
