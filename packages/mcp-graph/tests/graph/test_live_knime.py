"""A graph server from KNIME's side: the Provider lists it, Caller and agent call its tools."""

import copy
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pyarrow as pa
import pytest

from tests.support.chat_server import ChatServer, calls, says
from tests.support.chat_server import call as model_call

from .graphs import ENTRY, EXIT, call, tool, transform, yaml
from .live import DEADLINE, REVISIONS, SERVE, served

ADD = tool(
    ENTRY,
    call("echo", "{a: {expr: entry.a}, b: {expr: entry.b}}", following="sum"),
    transform("{'sum': x.received.a + x.received.b, 'runs': $executionCount('x')}", node="sum"),
    EXIT,
    name="add_up",
    schema="{type: object, properties: {a: {type: integer}, b: {type: integer, default: 1}}, required: [a]}",
    output="{type: object, properties: {sum: {type: integer}}, required: [sum]}",
)
FAIL = tool(ENTRY, transform("$error('not today')"), EXIT, name="fail")


@pytest.fixture(scope="module")
def graph_url(tmp_path_factory):
    """A graph server over HTTP."""
    file = tmp_path_factory.mktemp("graph") / "graph.yaml"
    file.write_text(yaml(ADD, FAIL))
    with served(*SERVE, file, "--http", "0") as server:
        yield server.url


@contextmanager
def without_discovery(url):
    """The same server, as those of the handshake era look: it does not know the probe of the modern one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            message = json.loads(body)
            if message.get("method") == "server/discover":
                error = {"code": -32601, "message": "Method not found"}
                answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
                self.answer(400, {"Content-Type": "application/json"}, answer)
            else:
                self.pass_on(body)

        def do_DELETE(self):
            self.pass_on(b"")

        def do_GET(self):
            self.answer(405, {}, b"")

        def pass_on(self, body):
            dropped = {"host", "content-length", "connection", "accept-encoding"}
            headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
            found = client.request(self.command, url, content=body, headers=headers)
            kept = {
                name: found.headers[name]
                for name in ("content-type", "mcp-session-id")
                if name in found.headers
            }
            self.answer(found.status_code, kept, found.content)

        def answer(self, status, headers, body):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    with httpx.Client(timeout=DEADLINE) as client, Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()


@pytest.fixture(params=REVISIONS)
def server(request, graph_url):
    """The address of a server of each era, and the revision that is agreed on with it."""
    if request.param == "2026-07-28":
        yield graph_url, request.param
    else:
        with without_discovery(graph_url) as address:
            yield address, request.param


@pytest.fixture
def node(host, tmp_path):
    """Runs a node."""

    def run(name, inputs, parameters, **options):
        result = host.run(name, inputs, parameters, workflow_dir=tmp_path / "workflow", **options)
        assert result.ok, result.failure
        assert not result.problems
        return result

    return run


@pytest.fixture
def tools(node, server):
    """The Provider's result."""
    # A process that has much to do may take long to accept.
    return node(
        "mcp_tool_provider",
        [None, None],
        {"server_url": server[0], "connection_options": "connect_timeout = 60"},
    )


def rows(result, port=0):
    """The rows of an output, without tool cells."""
    table = copy.copy(result.outputs[port])
    kept = table.arrow.drop_columns([name for name in table.column_names if name == "Tool"])
    object.__setattr__(table, "arrow", kept)
    return table.to_pylist()


def test_the_provider_lists_the_tools_of_a_document(server, tools):
    listed = {row["Tool name"]: row for row in rows(tools)}
    assert set(listed) == {"add_up", "fail"}
    schema = json.loads(listed["add_up"]["Parameters"])
    assert schema["properties"]["b"] == {"type": "integer", "default": 1}
    assert schema["required"] == ["a"]
    assert {row["Server"] for row in listed.values()} == {server[0]}
    (seen,) = rows(tools, 1)
    assert (seen["Status"], seen["Protocol"], seen["Tools"]) == ("ok", server[1], 2)


def test_the_caller_calls_once(server, tools, node):
    result = node(
        "mcp_tool_caller",
        [tools.outputs[0].as_input(), None, None],
        {
            "tool_name": "add_up",
            "all_columns": True,
            "arguments": [{"name": "a", "value": "2"}, {"name": "b", "value": "40"}],
        },
    )
    (row,) = rows(result)
    assert (row["Status"], row["Tool name"]) == ("ok", "add_up")
    assert json.loads(row["Structured result"]) == {"sum": 42, "runs": 1}


def test_the_caller_calls_per_row_with_a_state_for_each(server, tools, node, host):
    count = 60
    table = host.table(pa.table({"a": list(range(count)), "b": [10 * n for n in range(count)]}))
    result = node(
        "mcp_tool_caller",
        [tools.outputs[0].as_input(), table, None],
        {"tool_name": "add_up", "all_columns": True, "connection_options": "concurrency = 16"},
    )
    found = rows(result)
    assert {row["Error"] for row in found} == {None}
    assert [json.loads(row["Structured result"]) for row in found] == [
        {"sum": 11 * n, "runs": 1} for n in range(count)
    ]


def test_what_a_graph_says_when_it_fails_is_in_the_row(tools, node, host):
    result = node(
        "mcp_tool_caller",
        [tools.outputs[0].as_input(), host.table(pa.table({"n": [1, 2]})), None],
        {"tool_name": "fail"},
    )
    for row in rows(result):
        assert row["Status"] == "tool error"
        assert "not today" in row["Error"]
        assert "node 'x'" in row["Error"]


def test_wrong_arguments_do_not_reach_the_graph(tools, node, host):
    table = host.table(pa.table({"a": ["two", "3"]}))
    result = node(
        "mcp_tool_caller",
        [tools.outputs[0].as_input(), table, None],
        {"tool_name": "add_up", "all_columns": True},
    )
    (row, _) = rows(result)
    assert (row["Status"], row["Attempts"]) == ("invalid arguments", 0)
    assert "/a" in row["Error"]


def test_an_agent_calls_tools_of_a_graph(server, tools, node, host):
    turns = [
        calls(model_call("add_up", {"a": 2, "b": 40}), model_call("add_up", {"a": 1, "b": 1})),
        calls(model_call("fail", {})),
        says("42 and 2, but not today."),
    ]
    with ChatServer(turns) as chat:
        model = node("openai_compatible_chat_model", [], {"base_url": chat.url, "model_name": "test-model"})
        result = node(
            "mcp_agent_prompter",
            [host.port_object(model.outputs[0]), tools.outputs[0].as_input(), None, [], None],
            {"user_message": "Add up."},
            output_groups={"Data outputs": 1},
        )
    assert (chat.complaints, chat.unplayed) == ([], 0)
    asked = {each["function"]["name"]: each["function"] for each in chat.requests[0].body["tools"]}
    assert asked["add_up"]["parameters"]["properties"]["a"] == {"type": "integer"}
    told = [message["content"] for message in chat.requests[2].messages if message["role"] == "tool"]
    assert [json.loads(text)["sum"] for text in told[:2]] == [42, 2]
    assert "not today" in told[2]
    recorded = rows(result, 1)
    assert [row["Status"] for row in recorded] == ["ok", "ok", "tool error"]
    assert {row["Tool name"] for row in recorded} == {"add_up", "fail"}
