"""What clients get wrong, on purpose or not."""

import asyncio
import socket

import httpx
import pytest

from knime_mcp.web.listening import bound

V1 = "/api/v1/mcp"
JSON = {"content-type": "application/json"}
CALL = {"name": "get_node_types", "arguments": {}}


def raw(gateway, data, *, seconds=60):
    """Sends bytes and reads until the other side closes."""
    with socket.create_connection(gateway.address, timeout=seconds) as connection:
        connection.sendall(data)
        found = b""
        while part := connection.recv(65536):
            found += part
    return found


@pytest.mark.requirement("W7", "W11")
def test_bad_bodies_get_an_error_that_says_what(subtests, client):
    for content, code, rpc in [
        (b"{broken", 400, -32700),
        (b"", 400, -32600),
        (b"\xff\xfe{}", 400, -32700),
        (b"[" * 100_000, 400, -32700),
        (b"[]", 400, -32600),
        (b"null", 400, -32600),
        (b"7", 400, -32600),
        (b"{}", 400, -32600),
        (b'{"name": 7}', 400, -32600),
        (b'{"name": ""}', 400, -32600),
        (b'{"name": "get_node_types", "arguments": []}', 400, -32600),
        (b'{"name": "get_node_types", "more": 1}', 400, -32600),
        (b'{"method": "tools/list", "jsonrpc": "2.0", "id": 1}', 400, -32600),
        (b'{"name": "get_node_types", "arguments": {"max_results": 1e999}}', 400, -32602),
        (b'{"name": "get_node_types", "arguments": {"max_results": NaN}}', 400, -32602),
        (b'{"name": "get_node_types", "arguments": {"max_results": "many"}}', 400, -32602),
        (b'{"name": "get_node_types", "arguments": {"nonsense": 1}}', 400, -32602),
        (b'{"name": "nothing"}', 404, -32602),
    ]:
        with subtests.test(content=content, code=code, rpc=rpc):
            response = client.post(f"{V1}/invoke", content=content, headers=JSON)
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (code, rpc)
            assert error["message"].startswith("Error: ")
            assert error["data"]["isError"] is True
            assert error["data"]["user_message"]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_only_json_is_taken(client, kind):
    headers = {"content-type": kind} if kind else {}
    for path in (f"{V1}/invoke", "/mcp/invoke"):
        response = client.post(path, content=b'{"name": "get_node_types"}', headers=headers)
        assert response.status_code == 415
    with_charset = {"content-type": "application/json; charset=utf-8"}
    assert client.post(f"{V1}/invoke", json=CALL, headers=with_charset).status_code == 200
    packed = JSON | {"content-encoding": "gzip"}
    assert client.post(f"{V1}/invoke", content=b"x", headers=packed).status_code == 415


def test_large_bodies_end_where_they_should(client):
    def post(size):
        start, end = b'{"name": "search_nodes", "arguments": {"query": "', b'"}}'
        return client.post(
            f"{V1}/invoke", content=start + b"x" * (size - len(start) - len(end)) + end, headers=JSON
        )

    assert post(1_000_000).status_code == 200
    assert post(1_048_576).status_code == 200
    too_large = post(1_048_577)
    assert too_large.status_code == 413
    assert too_large.json()["error"]["data"]["details"] == {"max_bytes": 1_048_576}
    assert post(5_000_000).status_code == 413
    chunks = (b"x" * 65536 for _ in range(40))
    assert client.post("/mcp/invoke", content=chunks, headers=JSON).status_code == 413
    assert client.get(f"{V1}/health").status_code == 200


def test_lone_surrogates_and_strange_text_are_answered(client):
    for query in (r"\ud800", r"\u0000", "'; DROP TABLE nodes; --", '\\" OR *', "NEAR(", "x" * 10_000):
        content = b'{"name": "search_nodes", "arguments": {"query": "' + query.encode() + b'"}}'
        response = client.post(f"{V1}/invoke", content=content, headers=JSON)
        assert response.status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/public/health", f"{V1}/tools", "/mcp/tools", "/", "/nothing"])
def test_head_is_get_without_the_body(client, path):
    got, head = client.get(path), client.head(path)
    assert head.status_code == got.status_code
    assert head.headers["content-type"] == got.headers["content-type"]
    assert head.content == b""


def test_unknown_paths_and_methods_have_the_same_form(client):
    missing = client.get("/nothing")
    assert (missing.status_code, missing.json()["error_type"]) == (404, "VALIDATION_ERROR")
    wrong = client.delete("/mcp/tools")
    assert (wrong.status_code, wrong.json()["success"]) == (405, False)
    assert wrong.headers["allow"] == "GET"
    assert client.get("/docs").status_code == 404


@pytest.mark.requirement("W2")
def test_arguments_are_compared_with_the_tools_schema(gateway):
    call = gateway.call
    status, body = call("node_knowledge_retriever", node_names=["a", 7])
    assert (status, body["error_type"]) == (400, "PARAMETER_ERROR")
    assert body["details"]["pointer"] == "/node_names/1"
    status, body = call("node_knowledge_retriever", node_names=["a"], extra=1)
    assert status == 400
    assert "node_names (required), include_metadata" in body["error"]
    status, body = call("get_node_details", nodes=[{"subtype": "MANUAL"}])
    assert (status, body["details"]["pointer"]) == (400, "/nodes/0")
    assert call("get_node_details", nodes=["FLOW.IF", {"id": "FLOW.IF"}])[0] == 200
    # What MCP clients may send is not taken here: the schema is the contract.
    assert call("search_nodes", query="mail", max_results="3")[0] == 400
    assert call("get_node_types", type_filter=None)[0] == 400
    # What fits the schema: old names are answered, with a warning; names of nothing are not there.
    assert call("get_node_types", type_filter="ACTION_NODE")[0] == 200
    for tool, arguments in (
        ("get_node_types", {"type_filter": "NOTHING"}),
        ("find_compatible", {"node": "nothing at all"}),
        ("search_nodes", {"query": "mail", "cursor": "elsewhere"}),
    ):
        status, body = call(tool, **arguments)
        assert (status, body["error_type"]) == (404, "PARAMETER_ERROR")
        assert body["details"]["pointer"]


@pytest.mark.requirement("W5")
def test_results_are_bounded(start):
    running = start(mcp_max_results_per_tool=3)
    with running.client() as client:
        tools = {
            tool["name"]: tool["parameters"]["properties"]
            for tool in client.get("/mcp/tools").json()["tools"]
        }
        assert tools["search_nodes"]["max_results"]["maximum"] == 3
        assert tools["search_nodes"]["max_results"]["default"] == 3
        assert tools["node_knowledge_retriever"]["node_names"]["maxItems"] == 3
    assert len(running.call("search_nodes", query="slack")[1]["result"]["nodes"]) == 3
    assert running.call("search_nodes", query="slack", max_results=4)[0] == 400
    assert running.call("node_knowledge_retriever", node_names=["a"] * 4)[0] == 400


def test_tools_can_be_switched_off(start):
    with start(environment={"MCP_ENABLED": "false"}).client() as client:
        assert client.get("/mcp/tools").status_code == 503
        assert client.post(f"{V1}/invoke", json=CALL).status_code == 503
        assert client.get(f"{V1}/health").json()["available_tools"] == []
        assert client.get("/api/v1/public/health").status_code == 200


def test_a_body_that_comes_slowly_is_cut_off(start):
    running = start(gateway_request_timeout=0.5)
    head = f"POST /mcp/invoke HTTP/1.1\r\nHost: x\r\nX-API-Key: {running.key()}\r\n"
    body = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    assert raw(running, (head + body).encode()).startswith(b"HTTP/1.1 408")
    assert raw(running, b"NONSENSE\r\n\r\n").startswith(b"HTTP/1.1 400")
    with running.client() as client:
        assert client.get("/mcp/tools").status_code == 200


def test_half_open_clients_do_not_keep_others_out(start):
    running = start(gateway_request_timeout=30)
    idle = [socket.create_connection(running.address, timeout=30) for _ in range(100)]
    try:
        with running.client() as client:
            assert client.get("/mcp/tools").status_code == 200
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.long
@pytest.mark.requirement("N24")
def test_two_hundred_clients_at_once_get_their_own_answers(gateway):
    headers = {"X-API-Key": gateway.key()}
    limits = httpx.Limits(max_connections=200)

    async def one(client, number):
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
        query = {"name": "search_nodes", "arguments": {"query": f"slack {number}", "max_results": 1}}
        response = await client.post(f"{V1}/invoke", json=body | {"params": query})
        return response.status_code, response.json().get("id")

    async def everybody():
        async with httpx.AsyncClient(
            base_url=gateway.url, headers=headers, timeout=60, verify=False, limits=limits
        ) as client:
            return await asyncio.gather(*(one(client, number) for number in range(200)))

    assert asyncio.run(everybody()) == [(200, number) for number in range(200)]


def test_small_answers_are_sent_at_once():
    found = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport):
            accepted = transport.get_extra_info("socket")
            found.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def connect():
        listening = bound("127.0.0.1", 0)
        async with await asyncio.get_running_loop().create_server(Accepted, sock=listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
            await writer.wait_closed()

    asyncio.run(connect())
    assert len(found) == 1
    assert found != [0]
