"""Servers that die while a graph uses them, and the end of a graph server while calls run."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.client.mcp_client import MCPClient
from tests.support.waiting import until

from .graphs import STUBBORN, call, transform
from .live import DEADLINE, REVISIONS, SERVE, children, graph_file, is_alive, served, waiting_file


@pytest.mark.requirement("G4")
def test_a_server_that_dies_in_a_run_is_started_again_in_the_same_run(tmp_path):
    file = graph_file(
        tmp_path,
        call("count", following="dies"),
        call("die", node="dies", following="never", more=", onError: again"),
        transform("'unreachable'", node="never", following="again"),
        call("count", node="again", following="out"),
        transform("{'before': x.pid, 'after': again.pid, 'said': dies.error.message}", node="out"),
    )
    with served(*SERVE, file, "--http", "0") as server, MCPClient(server.url) as client:
        for _ in range(3):
            found = client.call_tool("t", {}, timeout=DEADLINE).structured_content
            assert found["before"] != found["after"]
            assert "'die' on the server 'fx'" in found["said"]
            assert not is_alive(found["before"])


def test_calls_beside_one_that_kills_their_server_fail_or_succeed_and_later_ones_succeed(tmp_path):
    file = graph_file(
        tmp_path,
        "{id: x, type: switch, conditions: [{rule: {var: entry.die}, next: dies}], next: sleeps}",
        call("sleep", "{seconds: 0.3}", node="sleeps"),
        call("die", node="dies"),
    )
    with (
        served(*SERVE, file, "--http", "0") as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(20) as threads,
    ):
        asked = [{"die": number == 10} for number in range(20)]
        found = list(threads.map(lambda arguments: client.call_tool("t", arguments, timeout=DEADLINE), asked))
        assert found[10].is_error
        for number, result in enumerate(found):
            assert result.is_error or result.structured_content == {"slept": 0.3}
            assert not result.is_error or f"'{'dies' if number == 10 else 'sleeps'}'" in result.text
        assert client.call_tool("t", {"die": False}).structured_content == {"slept": 0.3}


def test_a_server_over_http_dies_in_a_run_and_comes_back(tmp_path):
    below, above = tmp_path / "below", tmp_path / "above"
    below.mkdir()
    above.mkdir()
    inner = graph_file(below, call("sleep", "{seconds: {expr: entry.s}}"))
    with served(*SERVE, inner, "--http", "0") as first, ThreadPoolExecutor(1) as threads:
        url = first.url
        port = url.split(":")[2].partition("/")[0]
        outer = graph_file(
            above,
            "{id: x, type: mcp, server: below, tool: t, args: {s: {expr: entry.s}}, next: exit}",
            servers=f"mcpServers: {{below: {{type: streamableHttp, url: '{url}'}}}}\n",
        )
        with served(*SERVE, outer, "--http", "0") as top, MCPClient(top.url) as client:
            assert client.call_tool("t", {"s": 0}).structured_content == {"slept": 0}
            running = threading.Event()
            slow = threads.submit(
                client.call_tool, "t", {"s": 90}, on_progress=lambda progress: running.set()
            )
            assert running.wait(DEADLINE)
            first.close()
            result = slow.result(DEADLINE)
            assert result.is_error
            assert "'below'" in result.text
            away = client.call_tool("t", {"s": 0})
            assert away.is_error
            assert "'below'" in away.text
            with served(*SERVE, inner, "--http", port) as second:
                assert second.url == url
                assert client.call_tool("t", {"s": 0}).structured_content == {"slept": 0}


@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT"])
def test_an_http_server_that_is_told_to_end_closes_everything(tmp_path, end):
    file, begun, _ = waiting_file(tmp_path, servers=STUBBORN)
    journal = tmp_path / "calls.jsonl"
    with (
        served(*SERVE, file, "--http", "0", "--audit", journal) as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        slow = threads.submit(client.call_tool, "t", {}, timeout=DEADLINE)
        until(begun.exists)
        (child,) = children(server.process.pid)
        assert server.end(end) == 0, server.said
        assert slow.exception(DEADLINE) is not None or slow.result().is_error
        until(lambda: not is_alive(child), "its child outlived it")
    found = read_journal(journal)
    assert [record.tool_name for record in found.records] == ["count", "hold"]
    assert json.loads(journal.read_text().splitlines()[-1])["kind"] == "end"
    assert "Traceback" not in "".join(server.said)


@pytest.mark.parametrize("end", ["stdin", "SIGTERM", "SIGINT"])
def test_over_stdio_it_ends_in_the_middle_of_a_call(tmp_path, end):
    file, begun, _ = waiting_file(tmp_path, servers=STUBBORN)
    journal = tmp_path / "calls.jsonl"
    with served(*SERVE, file, "--audit", journal) as server:
        server.greet()
        server.send("tools/call", 2, name="t", arguments={"secret": "hush-hush"})
        until(begun.exists)
        (child,) = children(server.process.pid)
        assert server.end(end) == 0, server.said
        until(lambda: not is_alive(child), "its child outlived it")
    assert json.loads(journal.read_text().splitlines()[-1])["kind"] == "end"
    assert "Traceback" not in "".join(server.said)
    assert "hush-hush" not in "".join(server.said)


def test_killed_it_leaves_no_children(tmp_path):
    file, begun, _ = waiting_file(tmp_path, servers=STUBBORN)
    with served(*SERVE, file) as server:
        server.greet()
        server.send("tools/call", 2, name="t", arguments={})
        until(begun.exists)
        (child,) = children(server.process.pid)
        server.process.kill()
        until(lambda: not is_alive(child), "its child outlived it")


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_http_server_ends_quietly_while_clients_listen_for_changes(tmp_path, revision):
    file = graph_file(tmp_path, transform("{'r': 1}"))
    with (
        served(*SERVE, file, "--http", "0") as server,
        MCPClient(server.url, protocol_version=revision) as client,
    ):
        client.watch_tools()
        assert [tool.name for tool in client.list_tools()] == ["t"]
        until(lambda: has_listened(file, client))
        assert server.end("SIGTERM") == 0
    assert not [line for line in server.said if "Serving" not in line and "[INFO]" not in line]


def has_listened(file, client):
    file.touch()
    time.sleep(0.3)
    return client.tool_changes > 0


def test_a_client_that_leaves_before_its_request_is_whole_is_no_error(tmp_path):
    file = graph_file(tmp_path, transform("{'a': 1}"))
    with served(*SERVE, file, "--http", "0") as server, MCPClient(server.url) as client:
        address = urlsplit(server.url)
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Length: 999\r\n\r\n{"
        )
        for _ in range(3):
            with socket.create_connection((address.hostname, address.port), timeout=DEADLINE) as connection:
                connection.sendall(head.encode())
        assert client.call_tool("t", {}).structured_content == {"a": 1}
        assert server.end("SIGTERM") == 0
        assert "Traceback" not in "".join(server.said)


def test_a_request_whose_id_is_none_is_refused_over_http(tmp_path):
    file = graph_file(tmp_path, transform("{'id': entry.id}"))
    headers = {"Accept": "application/json, text/event-stream"}
    with served(*SERVE, file, "--http", "0") as server, MCPClient(server.url) as client:
        for number in (None, True, 1.5, [1], {}):
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
            answer = httpx.post(server.url, json=request, headers=headers, timeout=DEADLINE)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
            assert "whole number" in answer.json()["error"]["message"]
            assert client.call_tool("t", {"id": number}).structured_content == {"id": number}
