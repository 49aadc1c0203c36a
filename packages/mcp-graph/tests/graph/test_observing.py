"""Spans, audit records and the command line: what is kept of a run, and what is not."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.cli.files import recorded_run
from knime_mcp.client.mcp_client import MCPClient
from knime_mcp_graph import McpGraphApi, RunError
from knime_mcp_graph.graph_spans import GraphSpans
from tests.graph.graphs import ENTRY, EXIT, SERVER, call, document, load, tool, transform, yaml
from tests.graph.live import SERVE, graph_file, served
from tests.support import commands

GRAPH = commands.words_of("mcpgraph")


@pytest.mark.requirement("G11")
def test_a_span_per_run_and_node_without_values():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    nodes = (
        "{id: x, type: parallel, branches: [a, b], next: exit}",
        call("echo", "{v: {expr: entry.v}}", node="a"),
        call("fail", "{message: hush}", node="b"),
    )
    with (
        McpGraphApi(document(ENTRY, *nodes, EXIT), spans=GraphSpans(provider)) as api,
        pytest.raises(RunError),
    ):
        api.execute_tool("t", {"v": "hush"})
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"tools/call t", "entry entry", "parallel x", "mcp a", "mcp b"}
    run, called, failed = spans["tools/call t"], spans["mcp a"], spans["mcp b"]
    assert run.kind is SpanKind.SERVER
    assert called.kind is SpanKind.CLIENT
    assert called.parent.span_id == run.context.span_id
    assert called.attributes["gen_ai.tool.name"] == "echo"
    assert called.attributes["mcp.method.name"] == "tools/call"
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == "call"
    assert "hush" not in "".join(span.to_json() for span in spans.values())


@contextmanager
def collector():
    """Takes what is sent over OTLP; gives where to, and what gives the spans, each with its resource."""
    received = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    def spans():
        return [
            (resource.resource, span)
            for request in received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", spans
        server.shutdown()


def test_otel_settings_send_spans_to_a_receiver(tmp_path):
    file = graph_file(tmp_path, transform("{'r': 1}"))
    with collector() as (where, spans):
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": where,
            "OTEL_SERVICE_NAME": "mine",
            "PATH": "/usr/bin:/bin",
        }
        ended = commands.run(
            [*GRAPH, "run", str(file), "t"],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        found = spans()
    assert ended.returncode == 0, ended.stderr
    assert {span.name for _, span in found} == {"tools/call t", "entry entry", "transform x", "exit exit"}
    for resource, _ in found:
        names = {a.key: a.value.string_value for a in resource.attributes}
        assert names["service.name"] == "mine"


@pytest.mark.requirement("G11")
@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT"])
def test_a_server_sends_the_spans_of_its_runs_also_the_last_ones(tmp_path, end):
    file = graph_file(
        tmp_path,
        "{id: x, type: parallel, branches: [a, b], next: exit}",
        call("echo", "{v: {expr: entry.v}}", node="a"),
        call("fail", "{message: hush}", node="b", more=", onError: c"),
        transform("'rescued'", node="c"),
    )
    with collector() as (where, spans):
        with (
            served(*SERVE, file, "--http", "0", OTEL_EXPORTER_OTLP_ENDPOINT=where) as server,
            MCPClient(server.url) as client,
        ):
            for _ in range(3):
                assert not client.call_tool("t", {"v": "hush"}).is_error
            assert server.end(end) == 0
        found = [span for _, span in spans()]
    runs = {span.span_id: span for span in found if span.name == "tools/call t"}
    assert len(runs) == len({span.trace_id for span in runs.values()}) == 3
    for run_id, run in runs.items():
        nodes = {span.name: span for span in found if span.parent_span_id == run_id}
        assert set(nodes) == {
            "entry entry", "parallel x", "mcp a", "mcp b", "transform c", "exit exit",
        }  # fmt: skip
        assert {span.trace_id for span in nodes.values()} == {run.trace_id}
        for span in nodes.values():
            assert run.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= run.end_time_unix_nano
    assert not any(b"hush" in span.SerializeToString() for span in found)


def test_calls_of_a_graph_are_recorded(tmp_path):
    journal_file = tmp_path / "calls.jsonl"
    nodes = (call("echo", "{v: {expr: entry.v}}", following="y"), call("fail", node="y"))
    with (
        recorded_run(journal_file, about="test") as run,
        McpGraphApi(document(ENTRY, *nodes, EXIT), run=run) as api,
        pytest.raises(RunError, match="it failed"),
    ):
        api.execute_tool("t", {"v": 5})
    records = read_journal(journal_file).records
    assert [(record.tool_name, record.status) for record in records] == [
        ("echo", "ok"),
        ("fail", "tool error"),
    ]
    assert json.loads(records[0].arguments) == {"v": 5}
    assert json.loads(records[0].structured_result) == {"received": {"v": 5}}
    assert records[0].server == "stdio:fx"


@pytest.mark.requirement("G5")
def test_run_prints_each_node_and_with_trace_what_it_did(tmp_path):
    file, saved = tmp_path / "graph.yaml", tmp_path / "run.json"
    file.write_text(yaml(tool(ENTRY, transform("{'r': entry.v + 1}"), EXIT)))
    ended = commands.run(
        [*GRAPH, "run", str(file), "t", '{"v": 5}', "--trace", "--save-run", str(saved)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"r": 6}
    for part in ("x (transform)", "{'r': entry.v + 1}", '{"entry": {"v": 5}}', '{"r": 6}'):
        assert part in ended.stderr
    history = json.loads(saved.read_text())["executionHistory"]
    assert [record["nodeId"] for record in history] == ["entry", "x", "exit"]


TOKEN = "tok-4f9d2c71ab"
WITH_TOKEN = SERVER.replace("]}", f"], env: {{TOKEN: {TOKEN}}}}}")


@pytest.mark.parametrize("tool_name", ["echo", "fail"])
def test_a_server_that_repeats_its_token_puts_it_into_no_trace_file_or_error(tmp_path, tool_name):
    file, saved = tmp_path / "graph.yaml", tmp_path / "run.json"
    called = call(tool_name, "{v: {expr: entry.v}, message: {expr: entry.v}}")
    file.write_text(yaml(tool(ENTRY, called, EXIT), servers=WITH_TOKEN))
    ended = commands.run(
        [*GRAPH, "run", str(file), "t", f"v=Bearer {TOKEN}", "--trace", "--save-run", str(saved)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == (0 if tool_name == "echo" else 1)
    assert TOKEN not in ended.stderr + saved.read_text()
    assert "Bearer ⟨secret " in ended.stderr
    assert TOKEN not in ended.stdout
    if tool_name == "echo":
        assert "Bearer ⟨secret " in ended.stdout
        assert "The answer of 't' held a secret in 2 places" in ended.stderr


def test_credentials_in_headers_and_urls_of_servers_are_marked():
    servers = f"""mcpServers:
  a: {{type: streamableHttp, url: "http://127.0.0.1:1/?api_key=key-{TOKEN}&page=start"}}
  b: {{type: sse, url: "http://127.0.0.1:1/", headers: {{Authorization: Bearer {TOKEN}}}}}
"""
    with McpGraphApi(load(yaml(tool(ENTRY, transform("1"), EXIT), servers=servers))) as api:
        shown = api.secrets.data([f"key-{TOKEN}", TOKEN, f"Bearer {TOKEN}", "start"])
    assert TOKEN not in str(shown)
    assert shown[3] == "start"


def test_arguments_of_a_run_are_written_as_those_of_a_call(tmp_path):
    file = tmp_path / "graph.yaml"
    properties = "n: {type: number}, list: {type: array}, text: {type: string}"
    schema = f"{{type: object, properties: {{{properties}}}}}"
    file.write_text(yaml(tool(ENTRY, transform("{'r': entry}"), EXIT, schema=schema)))

    def run(*words):
        return commands.run(
            [*GRAPH, "run", str(file), "t", *words], capture_output=True, text=True, timeout=60, check=False
        )

    ended = run("n=5", "text=5", 'list=["a"]', "other:=null")
    assert json.loads(ended.stdout) == {"r": {"n": 5, "text": "5", "list": ["a"], "other": None}}
    assert "The tool declares no argument 'other'." in ended.stderr
    assert json.loads(run('{"n": 1, "text": "a"}', "n=2").stdout) == {"r": {"n": 2, "text": "a"}}
    unnamed = commands.run(
        [*GRAPH, "run", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (unnamed.returncode, "The document has: t." in unnamed.stderr) == (2, True)
    for words, message in [
        (["Ada"], "Write it as key=value"),
        (["n=1", "n=2"], "'n' is given 2 times"),
        (["n:=[1"], "is not JSON"),
        (["{n: 1}"], "Write them as key=value"),
    ]:
        refused = run(*words)
        assert refused.returncode == 2
        assert message in " ".join(refused.stderr.split())


def test_run_says_what_failed(tmp_path):
    file = tmp_path / "graph.yaml"
    file.write_text(yaml(tool(ENTRY, transform("$error('mine')"), EXIT)))
    ended = commands.run(
        [*GRAPH, "run", str(file), "t"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "node 'x'" in ended.stderr
    assert "mine" in ended.stderr
    ended = commands.run(
        [*GRAPH, "run", str(file), "t", "[1]"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
