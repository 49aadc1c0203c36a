"""Calls of a served graph, on record: other processes verify the journal, and replay its calls."""

import json
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.client.mcp_client import MCPClient
from tests.support import commands
from tests.support.waiting import until

from .graphs import FIXTURE, call, transform
from .live import DEADLINE, SERVE, command, graph_file, served

KNIME_MCP = commands.words_of()

SERVER = f"fx={shlex.join([sys.executable, str(FIXTURE)])}"
NODES = (
    call("echo", "{n: {expr: entry.n}}", following="each"),
    "{id: each, type: forEach, items: {expr: '[1..3]'}, do: one, next: text}",
    call("text", "{text: {expr: \"'entry ' & each.item & ' of ' & entry.n\"}}", node="one", following="text"),
    call("large", "{rows: 3}", node="text", following="out"),
    transform("{'n': x.received.n, 'texts': each, 'rows': $count(text.rows)}", node="out"),
)


@pytest.mark.requirement("G4")
@pytest.mark.requirement("T49")
def test_calls_through_a_server_verify_and_replay_as_the_same(tmp_path):
    journal = tmp_path / "calls.jsonl"
    file = graph_file(tmp_path, *NODES)
    with (
        served(*SERVE, file, "--http", "0", "--audit", journal) as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        asked = [{"n": number} for number in range(20)]
        for result in threads.map(lambda arguments: client.call_tool("t", arguments), asked):
            assert not result.is_error, result.text
            assert result.structured_content["rows"] == 3
        assert server.end("SIGTERM") == 0
    records = read_journal(journal).records
    assert sorted(record.tool_name for record in records) == sorted(["echo", "large", *["text"] * 3] * 20)
    verified = command("audit", "verify", journal, program=KNIME_MCP)
    assert verified.returncode == 4, verified.stdout + verified.stderr
    assert "complete in itself, but nobody vouches for it" in verified.stdout
    replayed = command("replay", journal, "--stdio", SERVER, "--json", program=KNIME_MCP)
    assert replayed.returncode == 0, replayed.stdout[-2000:] + replayed.stderr
    found = json.loads(replayed.stdout)
    assert found["counts"] == {"same": 100}
    assert {each["verdict"] for each in found["calls"]} == {"same"}


def test_a_journal_of_a_server_that_was_killed_in_a_run(tmp_path):
    journal = tmp_path / "calls.jsonl"
    begun = tmp_path / "begun"
    wait = f"{{begun: {str(begun)!r}, until: {str(tmp_path / 'never')!r}}}"
    nodes = (*NODES[:-1], call("hold", wait, node="out"))
    file = graph_file(tmp_path, *nodes)
    with (
        served(*SERVE, file, "--http", "0", "--audit", journal) as server,
        MCPClient(server.url) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        slow = threads.submit(client.call_tool, "t", {"n": 7}, timeout=DEADLINE)
        until(begun.exists)
        server.process.kill()
        assert slow.exception(DEADLINE) is not None
    verified = command("audit", "verify", journal, program=KNIME_MCP)
    assert verified.returncode == 1
    assert "end missing" in verified.stdout
    assert "It has 5 calls up to there" in verified.stderr
    replayed = command("replay", journal, "--stdio", SERVER, "--json", program=KNIME_MCP)
    assert json.loads(replayed.stdout)["counts"] == {"same": 5}, replayed.stderr
    assert replayed.returncode == 0

    # The same journal goes on with another server.
    plain = graph_file(tmp_path, *NODES)
    with served(*SERVE, plain, "--http", "0", "--audit", journal) as server, MCPClient(server.url) as client:
        assert not client.call_tool("t", {"n": 8}).is_error
        assert server.end("SIGTERM") == 0
    verified = command("audit", "verify", journal, program=KNIME_MCP)
    found = [line.partition(": ")[2] for line in verified.stdout.splitlines() if line.startswith("run ")]
    assert found == ["5 calls", "5 calls, complete"]
    assert verified.stderr.count("no closing record") == 1
    replayed = command("replay", journal, "--stdio", SERVER, "--json", program=KNIME_MCP)
    assert json.loads(replayed.stdout)["counts"] == {"same": 10}, replayed.stderr


def test_a_call_that_was_changed_on_record_is_found(tmp_path):
    journal = tmp_path / "calls.jsonl"
    file = graph_file(tmp_path, *NODES)
    with served(*SERVE, file, "--http", "0", "--audit", journal) as server, MCPClient(server.url) as client:
        assert not client.call_tool("t", {"n": 4}).is_error
        assert server.end("SIGTERM") == 0
    lines = journal.read_text("utf-8").splitlines(keepends=True)
    place = next(index for index, line in enumerate(lines) if '"kind":"call"' in line)
    lines[place] = lines[place].replace('"n\\":4', '"n\\":5')
    journal.write_text("".join(lines), "utf-8")
    verified = command("audit", "verify", journal, program=KNIME_MCP)
    assert verified.returncode == 1
    assert "changed" in verified.stdout + verified.stderr
    refused = command("replay", journal, "--stdio", SERVER, "--json", program=KNIME_MCP)
    assert (refused.returncode, refused.stdout) == (1, "")
    replayed = command("replay", journal, "--stdio", SERVER, "--json", "--force-altered", program=KNIME_MCP)
    assert json.loads(replayed.stdout)["counts"].get("same", 0) < 5
