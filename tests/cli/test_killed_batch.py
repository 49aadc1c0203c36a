"""A batch that is killed at any moment: no row is lost, none is called twice unless somebody asks for it."""

import json
import signal
import time
from collections import defaultdict

import pytest

from knime_mcp.audit.journal import held
from knime_mcp.audit.journal_reading import read_journal
from tests.support import waiting
from tests.support.scripted_server import ScriptedServer, modern, rpc, text, tool

ROWS = 24


def pays(hints=None, seconds=0.03):
    """A server whose tool does something each time, and takes its time."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    definition = tool("pay", inputSchema=schema, annotations=hints or {})

    def pay(request):
        time.sleep(seconds)
        return rpc(text(f"paid {request.json['params']['arguments']['n']}"))(request)

    return ScriptedServer(modern(tools__list=rpc({"tools": [definition]}), tools__call=pay))


def calls_of(server):
    """The idempotency keys that arrived, by row."""
    keys = defaultdict(list)
    for request in server.named("tools/call"):
        params = request.json["params"]
        keys[params["arguments"]["n"]].append(params["_meta"].get("knime-mcp/idempotency-key"))
    return keys


def killed_after(cli, server, number, *options):
    process = cli.start("batch", server.url, "pay", "p.csv", "--audit", "r.jsonl", "--out", "o.csv", *options)
    try:
        waiting.until(lambda: len(server.named("tools/call")) >= number, f"{number} calls arrive")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    # What was on its way still arrives.
    waiting.until(lambda: time.monotonic() - server.requests[-1].at > 0.5, "nothing arrives any more")


@pytest.fixture
def rows(tmp_path):
    (tmp_path / "p.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(ROWS)))


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("number", [1, 9])
def test_no_row_is_lost_and_none_called_twice_unasked(cli, tmp_path, number):
    with pays() as server:
        killed_after(cli, server, number)
        unknown = {int(call.input_row) - 1 for call in read_journal(tmp_path / "r.jsonl").unanswered}
        go_on = ("batch", server.url, "pay", "p.csv", "--resume", "r.jsonl", "--json")

        resumed = cli(*go_on)
        statuses = [record["status"] for record in resumed.json]
        assert len(statuses) == ROWS
        assert {row for row, status in enumerate(statuses) if status == "outcome unknown"} == unknown
        assert {row for row, status in enumerate(statuses) if status != "ok"} == unknown
        assert resumed.code == (1 if unknown else 0)
        for row in sorted(unknown)[:8]:
            assert f"pay (row {row + 1})" in resumed.err
        assert all(len(keys) == 1 for row, keys in calls_of(server).items() if row not in unknown)
        before = {row: keys[:] for row, keys in calls_of(server).items()}

        again = cli(*go_on)  # nothing new is known
        assert [record["status"] for record in again.json] == statuses
        assert calls_of(server) == before

        asked = cli(*go_on, "--repeat-unknown")
        assert [record["status"] for record in asked.json] == ["ok"] * ROWS
        assert asked.code == 0
        for row, keys in calls_of(server).items():
            assert len(keys) == len(before.get(row, [])) + (row in unknown)
            assert len(set(keys)) == 1, "a call that is repeated has the key of the first time"
        assert "r.jsonl: end missing" in cli("audit", "verify", "r.jsonl").out  # the killed run has no end


@pytest.mark.usefixtures("rows")
def test_a_tool_that_changes_nothing_is_simply_called_again(cli, tmp_path):
    with pays({"readOnlyHint": True}) as server:
        killed_after(cli, server, 5)
        resumed = cli("batch", server.url, "pay", "p.csv", "--resume", "r.jsonl", "--json")
        assert [record["status"] for record in resumed.json] == ["ok"] * ROWS
        assert set(map(tuple, calls_of(server).values())) <= {(None,), (None, None)}
    assert b'"sent"' not in (tmp_path / "r.jsonl").read_bytes()


@pytest.mark.usefixtures("rows")
def test_two_runs_do_not_go_on_from_one_journal_at_once(cli, tmp_path):
    with pays(seconds=0.3) as server:
        killed_after(cli, server, 3)
        go_on = ("batch", server.url, "pay", "p.csv", "--resume", "r.jsonl", "--json")
        first = cli.start(*go_on, "--concurrency", 1)
        written = tmp_path / "r.jsonl"
        waiting.until(lambda: written.read_bytes().count(b'"kind":"start"') == 2, "the first goes on")
        first.send_signal(signal.SIGSTOP)  # however long the second one takes
        try:
            second = cli(*go_on)
        finally:
            first.send_signal(signal.SIGCONT)
            out, _ = first.communicate(timeout=60)
        assert second.code == 1
        assert "r.jsonl is being written by another run: wait for its end, or stop it" in second.err
        assert len(json.loads(out)) == ROWS


@pytest.mark.usefixtures("rows")
def test_a_run_is_not_gone_on_with_in_two_other_files_at_once(cli, tmp_path):
    with pays() as server:
        killed_after(cli, server, 3)
        made = len(server.named("tools/call"))
        go_on = ("batch", server.url, "pay", "p.csv", "--resume", "r.jsonl", "--audit", "other.jsonl")
        with held(tmp_path / "r.jsonl"):  # as a run does that goes on with it
            second = cli(*go_on)
        assert second.code == 1
        assert "r.jsonl is being written by another run" in second.err
        assert len(server.named("tools/call")) == made
        (tmp_path / "other.jsonl").touch()
        assert "may have been carried out" in cli(*go_on).err
