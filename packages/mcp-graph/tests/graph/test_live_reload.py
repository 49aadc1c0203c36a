"""A document that is changed while calls run."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from knime_mcp.client.mcp_client import MCPClient
from tests.support.waiting import until

from .graphs import STUBBORN, call, transform
from .live import (
    DEADLINE,
    REVISIONS,
    SERVE,
    children,
    connected,
    graph_file,
    is_alive,
    served,
    waiting_file,
)


def change(file, *nodes, **options):
    """Writes the document anew, in one step, as editors do."""
    (file.parent / "new").mkdir(exist_ok=True)
    graph_file(file.parent / "new", *nodes, **options).replace(file)


@pytest.mark.requirement("G4")
def test_a_run_ends_with_its_document_and_then_the_old_connections_close(tmp_path):
    file, begun, let_go = waiting_file(tmp_path, servers=STUBBORN)
    with (
        served(*SERVE, file, "--http", "0") as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        slow = threads.submit(client.call_tool, "t", {}, timeout=DEADLINE)
        until(begun.exists)
        (old,) = children(server.process.pid)
        change(file, call("count", following="y"), transform("{'new': x.pid}", node="y"))
        server.line("The changed document is served now")
        new = client.call_tool("t", {}).structured_content["new"]
        assert set(children(server.process.pid)) == {old, new}
        assert not slow.done()
        let_go.touch()
        assert slow.result(DEADLINE).structured_content == {"pid": old}
        until(lambda: not is_alive(old), "the connection of the old document was not closed")
        assert client.call_tool("t", {}).structured_content == {"new": new}


@pytest.mark.parametrize("end", ["SIGTERM", "stdin"])
def test_the_end_also_closes_connections_of_documents_that_are_served_no_more(tmp_path, end):
    file, begun, _ = waiting_file(tmp_path, servers=STUBBORN)
    with served(*SERVE, file) as server:
        server.greet()
        server.send("tools/call", 2, name="t", arguments={})
        until(begun.exists)
        (old,) = children(server.process.pid)
        change(file, transform("{'r': 1}"))
        server.line("The changed document is served now")
        assert server.end(end) == 0, server.said
        until(lambda: not is_alive(old), "the child of the old document outlived it")
    assert "Traceback" not in "".join(server.said)


def test_calls_never_meet_a_document_that_is_half_changed(tmp_path):
    def nodes(version):
        return (
            call("echo", f"{{v: {version}}}", following="y"),
            transform(f"{{'first': x.received.v, 'second': {version}}}", node="y"),
        )

    file = graph_file(tmp_path, *nodes(0))
    with (
        served(*SERVE, file, "--http", "0") as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        over = threading.Event()
        seen = set()

        def keep_calling():
            while not over.is_set():
                result = client.call_tool("t", {}, timeout=DEADLINE)
                assert not result.is_error, result.text
                found = result.structured_content
                assert found["first"] == found["second"]
                seen.add(found["first"])

        callers = [threads.submit(keep_calling) for _ in range(6)]
        for version in range(1, 6):
            change(file, *nodes(version))
            until(lambda version=version: version in seen or any(caller.done() for caller in callers))
        over.set()
        for caller in callers:
            caller.result(DEADLINE)
        assert seen == set(range(6))
        until(lambda: len(children(server.process.pid)) == 1, "old connections were not closed")


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_clients_are_told_of_a_change_and_call_what_came_with_it(tmp_path, transport, revision):
    file = graph_file(tmp_path, transform("{'r': 1}"))
    with connected(file, transport, revision) as client:
        client.watch_tools()
        assert [tool.name for tool in client.list_tools()] == ["t"]
        until(lambda: is_told(client, file), "the client was not told")
        assert [tool.name for tool in client.list_tools()] == ["other"]
        assert client.call_tool("other", {}).structured_content == {"r": 2}


def is_told(client, file):
    """Changes the document; again and again, since a client may begin to listen after the first change."""
    change(file, transform("{'r': 2}"), name="other")
    time.sleep(0.5)
    return client.tool_changes > 0
