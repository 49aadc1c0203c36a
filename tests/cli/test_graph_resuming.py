"""``knime-mcp graph run --resume``: a run that ended before its end goes on in its journal."""

import json
import signal
import threading

import pytest

from tests.graph.graphs import yaml
from tests.graph.test_durable_runs import SHORT, paid, paying
from tests.support import waiting
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool


@pytest.fixture
def server(tmp_path):
    with paying({"readOnlyHint": True}) as server:  # so that they can be replayed
        servers = f"mcpServers:\n  s: {{type: streamableHttp, url: {server.url!r}}}\n"
        (tmp_path / "g.yaml").write_text(yaml(SHORT, servers=servers), "utf-8")
        yield server


def test_a_run_goes_on_once_somebody_can_decide(cli, server):
    run = ("graph", "run", "g.yaml")
    assert cli(*run, "t", "--audit", "j.jsonl").code == 1  # nobody could be asked
    done = cli(*run, "--resume", "j.jsonl", "--approve", "ask")
    assert (done.code, done.json) == (0, {"n": 2}), done.err
    assert paid(server) == [1, 2]
    done = cli(*run, "--resume", "j.jsonl")  # it may have been killed before its result was seen
    assert (done.code, done.json) == (0, {"n": 2})
    assert paid(server) == [1, 2]
    shown = cli("audit", "show", "j.jsonl", "--json").json
    assert [call["input_row"].split("/")[1] for call in shown] == ["x", "y"]
    assert cli("audit", "verify", "j.jsonl").code == 4
    replayed = cli("replay", "j.jsonl", "--json")
    assert json.loads(replayed.out)["counts"] == {"same": 2}, replayed.err


def test_a_run_that_was_stopped_says_how_to_go_on(cli, tmp_path):
    answered = threading.Event()

    def answer(request):
        answered.wait(60)
        return rpc({"content": []})(request)

    with ScriptedServer(modern(tools__list=rpc({"tools": [tool("pay")]}), tools__call=answer)) as server:
        servers = f"mcpServers:\n  s: {{type: streamableHttp, url: {server.url!r}}}\n"
        (tmp_path / "g.yaml").write_text(yaml(SHORT, servers=servers), "utf-8")
        process = cli.start("graph", "run", "g.yaml", "t", "--audit", "j.jsonl")
        waiting.until(lambda: server.named("tools/call"), "the call arrives")
        process.send_signal(signal.SIGTERM)
        done = cli.finish(process)
        answered.set()
    assert done.code == 3
    assert "Go on with: --resume j.jsonl" in done.err


def test_a_run_that_failed_has_failed_for_who_reads_its_journal(cli, server):
    assert cli("graph", "run", "g.yaml", "t", "--audit", "j.jsonl").code == 1
    assert [run["outcome"] for run in cli("audit", "verify", "j.jsonl", "--json").json["runs"]] == ["failed"]
    assert "1 call, failed" in cli("audit", "verify", "j.jsonl").out
    for told in (cli("audit", "show", "j.jsonl"), cli("replay", "j.jsonl")):
        assert "did not come to its end: it failed" in told.err.replace("\n", " "), told.err


def test_what_cannot_be_gone_on_with(cli, server, tmp_path):
    run = ("graph", "run", "g.yaml")
    for _ in range(2):
        assert cli(*run, "t", "--audit", "j.jsonl").code == 1
    done = cli(*run, "--resume", "j.jsonl")
    assert done.code == 2
    assert "several runs" in done.err
    assert cli(*run, "--resume", "j.jsonl", "--run", "nobody").code == 2
    assert cli(*run, "--resume", "j.jsonl", "--audit", "k.jsonl").code == 2
    assert cli(*run, "t", "--repeat-unknown").code == 2
    file = tmp_path / "g.yaml"
    file.write_text(file.read_text("utf-8").replace("n: 1", "n: 3"), "utf-8")
    text = (tmp_path / "j.jsonl").read_text("utf-8")
    first = next(entry["graph"] for entry in map(json.loads, text.splitlines()) if entry["kind"] == "graph")
    done = cli(*run, "--resume", "j.jsonl", "--run", first)
    assert done.code == 1
    assert "node 'x' of the tool 't' changed" in done.err
    assert paid(server) == [1, 1]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_every_line_of_a_signed_run_is_covered(cli, server, tmp_path, jobs):
    assert cli("audit", "key", "new").code == 0
    assert cli("graph", "run", "g.yaml", "t", "--audit", "j.jsonl").code == 1
    assert cli("graph", "run", "g.yaml", "--resume", "j.jsonl", "--approve", "ask").code == 0
    verify = ("audit", "verify", "j.jsonl", "--jobs", jobs)
    assert cli(*verify).code == 0
    journal = tmp_path / "j.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    kinds = [json.loads(line)["kind"] for line in lines]
    graph_lines = [n for n, kind in enumerate(kinds) if kind in {"graph", "node", "result"}]
    assert {"graph", "node", "result"} <= set(kinds)
    for number in graph_lines:
        changed = lines[number].replace(b"true", b"false").replace(b"1", b"7").replace(b"2", b"7")
        for others in ([], [changed]):
            journal.write_bytes(b"".join([*lines[:number], *others, *lines[number + 1 :]]))
            assert cli(*verify).code == 1, lines[number]
