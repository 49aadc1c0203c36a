"""Logs, spans and figures: everything about a request, and nothing of what was sent."""

import json
import logging
import re
import signal
import socket
import threading

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from knime_node_knowledge.gateway.api_keys import KeyStore, Scope
from knime_node_knowledge.gateway.observing import GatewaySpans, JsonFormatter, TextFormatter
from tests.knowledge.gateway.running import start_process
from tests.support.waiting import until

CANARY = "canary-5c1d"
V1 = "/api/v1/mcp"


@pytest.fixture
def lines():
    """What is logged, as JSON."""
    found = []

    class Keep(logging.Handler):
        def emit(self, record):
            found.append(json.loads(JsonFormatter().format(record)))
            TextFormatter().format(record)

    logger = logging.getLogger("knime_node_knowledge.gateway")
    handler, level = Keep(), logger.level
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    yield found
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.requirement("W10", "N21", "N28", "V6", "V7")
def test_a_request_is_one_line_without_what_was_sent(gateway, lines):
    key = gateway.key(name="reports")
    with gateway.client(key) as client:
        for query in (CANARY, CANARY.upper(), "other"):
            response = client.post(
                f"{V1}/invoke", json={"name": "search_nodes", "arguments": {"query": query}}
            )
        client.get(f"/{CANARY}", params={"q": CANARY})
        client.post(f"{V1}/invoke", json={"name": CANARY, "arguments": {CANARY: CANARY}})
        client.post(f"{V1}/invoke", json={"name": "get_node_types", "arguments": {CANARY: CANARY}})
        client.post(f"{V1}/invoke", json={CANARY: CANARY})
        client.get(f"{V1}/health", headers={"X-API-Key": CANARY})
    assert len(lines) == 8
    called = lines[2]
    assert called["request_id"] == response.headers["x-request-id"]
    assert (called["client"], called["tool"], called["status"]) == ("reports", "search_nodes", 200)
    assert (called["route"], called["listener"], called["event"]) == (f"{V1}/invoke", "public", "request")
    assert called["duration_ms"] >= called["tool_ms"] > 0
    assert "for client reports" in called["message"]
    assert lines[0]["query_hash"] == lines[1]["query_hash"] != lines[2]["query_hash"]
    assert [line["error_type"] for line in lines[3:]] == [
        "VALIDATION_ERROR",
        "TOOL_NOT_FOUND",
        "PARAMETER_ERROR",
        "VALIDATION_ERROR",
        "VALIDATION_ERROR",
    ]
    text = json.dumps(lines)
    assert CANARY not in text
    assert key.split("_", 2)[2] not in text


def test_a_client_that_leaves_early_is_no_error(start, lines):
    running = start()
    head = f"POST /mcp/invoke HTTP/1.1\r\nHost: x\r\nX-API-Key: {running.key()}\r\n"
    with socket.create_connection(running.address, timeout=30) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{".encode())
    until(lambda: lines)
    assert [(line["level"], line["status"], line.get("error")) for line in lines] == [("INFO", 499, None)]
    assert "gateway_errors_total{" not in httpx.get(f"{running.internal}/metrics").text


@pytest.mark.requirement("W10", "V7", "N28")
def test_figures_are_on_the_internal_listener_only(start):
    running = start()
    with running.client() as client:
        client.post(f"{V1}/invoke", json={"name": "get_node_types"})
        client.post(f"{V1}/invoke", json={"name": CANARY})
        client.get(f"/{CANARY}")
        assert client.get("/metrics").status_code == 404
    with running.client("") as client:
        client.get("/mcp/tools")
    response = httpx.get(f"{running.internal}/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    figures = response.text
    assert 'knime_nodes_gateway_tool_calls_total{outcome="ok",tool="get_node_types"} 1.0' in figures
    assert 'knime_nodes_gateway_tool_seconds_count{tool="get_node_types"} 1.0' in figures
    assert 'knime_nodes_gateway_errors_total{error_type="TOOL_NOT_FOUND"} 1.0' in figures
    assert 'knime_nodes_gateway_refused_total{reason="key"} 1.0' in figures
    assert "knime_nodes_gateway_healthy 1.0" in figures
    assert re.search(
        r'requests_total\{listener="public",method="GET",route="unmatched",status="404"\} 2.0', figures
    )
    assert CANARY not in figures


@pytest.mark.requirement("W10")
def test_questions_without_an_answer_are_counted_over_http_and_mcp(start):
    running = start()
    nothing = {"name": "search_nodes", "arguments": {"query": "qqqxyzzyqqq"}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "search_nodes",
    }
    with running.client() as client:
        assert client.post(f"{V1}/invoke", json=nothing).status_code == 200
        client.post(f"{V1}/invoke", json={"name": "search_nodes", "arguments": {"query": "joiner"}})
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": nothing | {"_meta": meta}}
        assert client.post("/mcp", json=body, headers=headers).json()["result"]["structuredContent"]
    figures = httpx.get(f"{running.internal}/metrics").text
    assert 'knime_nodes_gateway_empty_answers_total{tool="search_nodes"} 2.0' in figures
    assert "qqqxyzzyqqq" not in figures


@pytest.mark.requirement("W10")
def test_a_span_per_request_and_call_below_the_clients(start):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    running = start(spans=GatewaySpans(provider))
    trace = "0af7651916cd43dd8448eb211c80319c"
    with running.client() as client:
        headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        body = {"name": "search_nodes", "arguments": {"query": CANARY}}
        client.post(f"{V1}/invoke", json=body, headers=headers)
    until(lambda: len(exporter.get_finished_spans()) == 2)
    called, request = exporter.get_finished_spans()
    assert (called.name, request.name) == ("tools/call search_nodes", f"POST {V1}/invoke")
    assert called.parent.span_id == request.context.span_id
    assert request.parent.span_id == 0xB7AD6B7169203331
    assert f"{request.context.trace_id:032x}" == trace
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["knime_mcp.client"] == "tester"
    assert CANARY not in str([dict(span.attributes) for span in (called, request)])


@pytest.mark.requirement("N24", "W11")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_killed_under_load_it_loses_no_key_and_no_line(tmp_path, catalogue, end):
    file = tmp_path / "log"
    answered, keys, stop = [], [], threading.Event()
    with start_process(tmp_path, catalogue) as (process, url):

        def load():
            with (
                KeyStore(tmp_path / "keys.sqlite") as store,
                httpx.Client(base_url=url, timeout=30) as client,
            ):
                while not stop.is_set():
                    secret, _ = store.create("load", [Scope.TOOLS_READ])
                    keys.append(secret)
                    try:
                        response = client.get("/mcp/tools", headers={"X-API-Key": secret})
                    except httpx.HTTPError:
                        return
                    assert response.status_code == 200
                    answered.append(response.headers["x-request-id"])

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(answered) >= 40)
        process.send_signal(end)
        code = process.wait(40)
        stop.set()
        for thread in threads:
            thread.join(30)
    assert code == (-signal.SIGKILL if end == signal.SIGKILL else 0)
    logged = [json.loads(line)["request_id"] for line in file.read_text().splitlines() if '"request"' in line]
    assert set(answered) <= set(logged)
    with KeyStore(tmp_path / "keys.sqlite") as store:
        assert all(store.verify(key) for key in keys)
    with start_process(tmp_path, catalogue) as (process, url):
        assert httpx.get(f"{url}/mcp/tools", headers={"X-API-Key": keys[0]}).status_code == 200
        process.terminate()
        assert process.wait(40) == 0
