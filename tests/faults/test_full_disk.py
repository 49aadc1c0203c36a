"""A disk that is full, a journal that is deleted: the run ends, and nothing is recorded as something else."""

import contextlib
import functools
import json
import resource
import shutil
import sys

import pyarrow as pa
import pytest

from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.audit.verify import verify_file
from tests.faults.rows import good_reply, script_for
from tests.support import commands
from tests.support.scripted_server import ScriptedServer, rpc, text, tool

ROWS = 20
LARGE = "x" * 20_000
LIMIT = 50_000
TOOL = tool(inputSchema={"type": "object", "properties": {"row": {"type": "integer"}, "bad": {}}})


@contextlib.contextmanager
def at_most(size):
    """Files of this process grow no larger, as on a disk that is full."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@pytest.fixture
def server():
    def call(request):
        number = request.params["arguments"]["row"]
        if number % 3:
            return good_reply("modern-json")(request)
        return rpc(text(f"row {number} {LARGE}", resultType="complete"))(request)

    script = script_for("modern-json", None)
    script |= {"tools/call": call, "tools/list": rpc({"tools": [TOOL], "resultType": "complete"})}
    with ScriptedServer(script) as running:
        yield running


def called(server):
    return [request.params["arguments"]["row"] for request in server.named("tools/call")]


def check_journal(path):
    """The rows whose results were kept. Calls under way at that moment may be there as canceled."""
    content = read_journal(path)
    assert {str(record.status) for record in content.records} <= {"ok", "canceled"}
    assert content.outcome != "complete"
    assert not [found for found in verify_file(path).findings if found.verdict != "end missing"]
    return [json.loads(record.arguments)["row"] for record in content.records if record.ok]


def test_batch_ends_names_the_file_and_can_be_resumed(server, tmp_path):
    (tmp_path / "t.jsonl").write_text("".join(f'{{"row": {row}, "bad": false}}\n' for row in range(ROWS)))

    def batch(*options, limit=None):
        command = [sys.executable, "-m", "knime_mcp.cli.app", "batch", server.url, "echo", "t.jsonl"]
        return commands.run(
            [*command, *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=limit,
        )

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (LIMIT, hard))
    done = batch("--audit", "a.jsonl", "--json", limit=limit)
    assert done.returncode == 1
    assert "a.jsonl: file too large" in done.stderr
    kept = check_journal(tmp_path / "a.jsonl")
    assert len(kept) < ROWS
    assert len(called(server)) < ROWS

    before = len(called(server))
    done = batch("--resume", "a.jsonl", "--json", "--repeat-unknown")
    assert done.returncode == 0, done.stderr
    assert [record["status"] for record in json.loads(done.stdout)] == ["ok"] * ROWS
    assert sorted(called(server)[before:] + kept) == list(range(ROWS))


def test_the_caller_node_ends_and_names_the_file(server, host, tmp_path):
    calls = pa.table({"j": [json.dumps({"row": row, "bad": False}) for row in range(ROWS)]})
    settings = {"server_url": server.url, "tool_name": "echo", "connection_options": "concurrency = 2"}
    with at_most(LIMIT):
        result = host.run(
            "mcp_tool_caller",
            [None, host.table(calls), None],
            {**settings, "arguments_column": "j"},
            workflow_dir=tmp_path / "workflow",
        )
    assert not result.ok
    (journal,) = (tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl")
    assert journal.name in str(result.failure)
    assert check_journal(journal)


def test_a_journal_that_is_deleted_ends_the_run(host, tmp_path):
    folder = tmp_path / "workflow" / "data" / "mcp-audit"

    def call(request):
        row = request.params["arguments"]["row"]
        if row == 5:
            shutil.rmtree(folder)
        pause = [1.1] if row == 6 else []  # the file is looked for once a second
        return [*pause, *good_reply("modern-json")(request)]

    script = script_for("modern-json", None)
    script |= {"tools/call": call, "tools/list": rpc({"tools": [TOOL], "resultType": "complete"})}
    calls = pa.table({"j": [json.dumps({"row": row, "bad": False}) for row in range(ROWS)]})
    with ScriptedServer(script) as server:
        result = host.run(
            "mcp_tool_caller",
            [None, host.table(calls), None],
            {
                "server_url": server.url,
                "tool_name": "echo",
                "connection_options": "concurrency = 1",
                "arguments_column": "j",
            },
            workflow_dir=tmp_path / "workflow",
        )
        assert called(server) in ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 6])
    assert not result.ok
    assert "deleted" in str(result.failure)
