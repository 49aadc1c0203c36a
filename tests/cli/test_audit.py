"""``--audit`` and ``knime-mcp audit``: journals written, verified, shown."""

import csv
import json
import os
import re
import signal
import subprocess

import pytest

from examples.knime_nodes import Column, table_creator
from knime_mcp.knwf import Connection, Workflow, write_workflow
from tests.audit.calls import write_run
from tests.support.chat_server import ChatServer, call, calls
from tests.support.files import ended_lines, json_lines
from tests.support.new_node import new_node
from tests.support.pages import RunPage

from .conftest import SECRET


@pytest.fixture
def journal(cli, server, tmp_path):
    (tmp_path / "p.csv").write_text("text,times\na,1\nb,many\nc,2\n", encoding="utf-8")
    done = cli("batch", server.url, "echo", "p.csv", "--audit", "run.jsonl", "--concurrency", "1")
    assert done.code == 1
    return tmp_path / "run.jsonl"


def killed(process, until, begun):
    """Waits until something has begun, and ends the process as a crash would."""
    try:
        until(begun, "the last call began", 60)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            pytest.fail("was killed, and still runs")


def finished_calls(cli, journal):
    """What is on disk of a run that was killed, after checking that it verifies up to there."""
    done = cli("audit", "verify", journal)
    assert done.code == 1
    assert f"{journal.name}: end missing" in done.out
    assert "has no closing record" in done.err
    assert "changed" not in done.out + done.err
    lines = json_lines(journal)
    return [(line["tool_name"], line["status"], line["result"]) for line in lines if line["kind"] == "call"]


def test_a_journal_that_an_editor_saved(cli, server, journal, tmp_path):
    """With a mark at its beginning, line ends of Windows, a time without a zone, an endless duration."""
    text = journal.read_text("utf-8")
    (tmp_path / "saved.jsonl").write_bytes(("\ufeff" + text.replace("\n", "\r\n")).encode())
    assert cli("audit", "verify", "saved.jsonl").code == 4
    assert cli("batch", server.url, "echo", "p.csv", "--resume", "saved.jsonl").code == 1  # one row is bad
    assert cli("audit", "verify", "saved.jsonl").out.count(", complete") == 2
    lines = json_lines(journal)
    lines[2] |= {"started_at": "2026-01-31T12:00:00", "duration": 9e11}
    (tmp_path / "edited.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    shown = cli("audit", "show", "edited.jsonl", "--html", "edited.html")
    assert shown.code == 1
    assert "changed: Call 1 of run" in shown.err
    assert "Records: changed at line" in (tmp_path / "edited.html").read_text("utf-8")
    on_terminal = cli("audit", "show", "edited.jsonl")
    assert (on_terminal.code, "changed: Call 1 of run" in on_terminal.err) == (1, True)


def test_a_table_without_calls_is_not_intact(cli, tmp_path):
    (tmp_path / "t.csv").write_text("Name,Age\n", encoding="utf-8")
    done = cli("audit", "verify", "t.csv")
    assert (done.code, done.out) == (1, "")
    assert done.err == "The table has none of the columns of Tool calls: it holds no calls. [KMCP-TABLE]\n"


def test_a_table_is_not_written_over_itself(cli, journal):
    assert cli("audit", "show", "run.jsonl", "--out", "t.csv").code == 0
    done = cli("audit", "show", "t.csv", "--out", "./t.csv")
    assert done.code == 2
    assert "is the file to show" in done.err


def test_an_intact_journal(cli, journal):
    done = cli("audit", "verify", "run.jsonl")
    assert done.code == 4
    assert "No signature, time-stamp or head that you noted covers the file" in done.err
    assert done.out.startswith("run.jsonl: complete in itself, but nobody vouches for it\n")
    assert "3 calls, complete" in done.out
    head = re.search(r"head (sha256:[0-9a-f]{64}-[0-9a-f]{64})", done.out)[1]
    end = json_lines(journal)[-1]
    assert head == f"{end['head']}-{end['chain']}"
    done = cli("audit", "verify", "run.jsonl", "--head", head)
    assert (done.code, done.out.splitlines()[0]) == (0, "run.jsonl: unchanged since you noted its head")
    done = cli("audit", "verify", "run.jsonl", "--head", end["head"])
    assert done.code == 4
    assert "A given head covers calls, and not what else stands in the file" in done.err
    assert cli("audit", "verify", "run.jsonl", "--head", head, "--head", "sha256:" + "0" * 64).code == 1
    wrong = cli("audit", "verify", "run.jsonl", "--head", "sha256:" + "0" * 64)
    assert wrong.code == 1
    assert "The given head 000000000000… is not in it" in wrong.err


def test_a_tampered_journal_is_named(cli, journal):
    text = journal.read_text("utf-8")
    journal.write_text(text.replace('"result":"a', '"result":"A'), encoding="utf-8")
    done = cli("audit", "verify", "run.jsonl")
    assert done.code == 1
    assert "run.jsonl: changed at line" in done.out
    assert "Call 1" in done.err
    assert "line 3" in done.err
    found = cli("audit", "verify", "run.jsonl", "--json")
    assert (found.code, found.json["verdict"]) == (1, "changed")


@pytest.mark.parametrize("form", [(), ("--json",), ("--html", "page.html"), ("--out", "t.csv")])
def test_whoever_looks_at_an_altered_journal_is_told(form, cli, journal):
    assert cli("audit", "show", "run.jsonl", *form).code == 0
    text = journal.read_text("utf-8")
    journal.write_text(text.replace('"result":"a', '"result":"A'), encoding="utf-8")
    done = cli("audit", "show", "run.jsonl", *form)
    assert (done.code, "changed: Call 1" in done.err) == (1, True)
    if form == ("--html", "page.html"):
        assert "changed at line" in (journal.parent / "page.html").read_text("utf-8")


def test_a_folder_is_told_with_its_newest_journal(cli, tmp_path):
    (tmp_path / "runs").mkdir()
    for command in ("verify", "show"):
        assert "runs is a folder, and not a file of records, and has no" in cli("audit", command, "runs").err
    for name in ("20260101T1.jsonl", "20260201T1.jsonl"):
        (tmp_path / "runs" / name).touch()
    told = " ".join(cli("audit", "verify", "runs").err.split())
    assert "is a folder, and not a file of records: name one of its files, such as" in told
    assert told.endswith("20260201T1.jsonl. [KMCP-JOURNAL]")


def test_missing_calls_and_a_missing_end_are_told_apart(cli, journal, tmp_path):
    lines = journal.read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_text("".join(lines[:3] + lines[5:]), encoding="utf-8")
    (tmp_path / "b.jsonl").write_text("".join(lines[:-1]), encoding="utf-8")
    missing, truncated = cli("audit", "verify", "a.jsonl"), cli("audit", "verify", "b.jsonl")
    assert (missing.code, truncated.code) == (1, 1)
    assert "changed: Line 4: changed" in missing.err
    assert "rows missing: Call 2" in missing.err
    assert "end missing: " in truncated.err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_from_a_journal(cli, journal, ending):
    done = cli("audit", "show", "run.jsonl", "--out", f"t.{ending}")
    assert (done.code, done.out) == (0, "")
    assert len(cli("audit", "show", "run.jsonl", "--out", f"t.{ending}", "--json").json) == 3
    done = cli("audit", "verify", f"t.{ending}")
    assert done.code == 4
    assert "complete in itself, but nobody vouches for it" in done.out
    assert "mcp_audit_head" in done.err
    head = cli("audit", "verify", "run.jsonl", "--json").json["runs"][0]["head"]
    assert cli("audit", "verify", f"t.{ending}", "--head", head).code == 0
    shown = [cli("audit", "show", file, "--json").json for file in ("run.jsonl", f"t.{ending}")]
    assert [{name: value for name, value in call.items() if name != "key"} for call in shown[0]] == shown[1]


def test_the_calls_are_shown_as_a_timeline(cli, journal):
    done = cli("audit", "show", "run.jsonl")
    assert (done.code, done.err) == (0, "")
    for words in ("Run 2", "mcp echo", "invalid arguments", '{"text":"a","times":1}', "c c"):
        assert words in done.out
    records = cli("audit", "show", "run.jsonl", "--json").json
    assert [record["call"] for record in records] == [1, 2, 3]
    assert records[0]["arguments"] == {"text": "a", "times": 1}


def test_a_journal_of_many_calls_is_not_a_table_of_many_rows(cli, tmp_path):
    write_run(tmp_path / "many.jsonl", 1100)
    done = cli("audit", "show", "many.jsonl")
    assert done.code == 0
    assert done.out.count(" search ") + done.out.count(" Flow ") == 1000
    assert done.err == "100 more calls not shown. All: --json, or --out FILE\n"


def test_a_journal_without_calls_is_not_exported(cli, tmp_path):
    write_run(tmp_path / "none.jsonl", 0)
    (tmp_path / "empty.jsonl").touch()
    for name in ("none.jsonl", "empty.jsonl"):
        done = cli("audit", "export", name, "none.knwf")
        assert (done.code, done.out, done.err) == (
            1,
            "",
            f"{name} holds no calls to export. [KMCP-COMMAND]\n",
        )
    assert not (tmp_path / "none.knwf").exists()


def test_the_page_shows_the_verdict_and_every_call(cli, journal, tmp_path):
    done = cli("audit", "show", "run.jsonl", "--html", "run.html")
    assert (done.code, done.out) == (0, "")
    page = (tmp_path / "run.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    for words in ("Records: complete in itself, but nobody vouches for it", "1 invalid arguments", "sha256:"):
        assert words in RunPage(page).html
    assert {"invalid arguments", "ok"} <= {step.get("status") for step in RunPage(page).calls}


def test_a_page_of_hostile_results(cli, server, tmp_path):
    assert cli("call", server.url, "echo", "text=<script>alert(1)</script>", "--audit", "c.jsonl").code == 0
    assert cli("audit", "show", "c.jsonl", "--html", "c.html").code == 0
    page = (tmp_path / "c.html").read_text("utf-8")
    assert page.count("<script") == 2  # the data, and the page's own
    assert "<script>alert" not in page
    assert "alert(1)" not in RunPage(page).html
    assert RunPage(page).calls[0]["came"] == "<script>alert(1)</script>"


def test_calls_go_into_one_journal_one_after_the_other(cli, server, tmp_path):
    assert cli("call", server.url, "echo", "text=a", "--audit", "c.jsonl").code == 0
    assert cli("call", server.url, "fail", "why=b", "--audit", "c.jsonl").code == 1
    done = cli("call", server.url, "echo", "text=c", "--audit", "c.jsonl", "--json")
    lines = ended_lines(tmp_path / "c.jsonl")
    assert [line["kind"] for line in lines] == ["start", "call", "end"] * 3
    assert done.json["hash"] == lines[-1]["head"]
    assert lines[4]["previous_hash"] == lines[1]["hash"]
    head = f"{lines[-1]['head']}-{lines[-1]['chain']}"
    verified = cli("audit", "verify", "c.jsonl", "--head", head)
    assert (verified.code, verified.err) == (0, "")


def test_a_canceled_call_is_recorded(cli, server, until, tmp_path):
    process = cli.start("call", server.url, "slow", "seconds=60", "label=audited", "--audit", "c.jsonl")
    until(lambda: "started audited" in server.said(), "the call reached the server")
    process.send_signal(signal.SIGINT)
    assert cli.finish(process).code == 3
    lines = ended_lines(tmp_path / "c.jsonl")
    assert [line.get("status") or line.get("outcome") for line in lines[1:]] == ["canceled", "canceled"]


def test_killed_in_the_middle_of_a_batch(cli, server, until, tmp_path):
    (tmp_path / "p.csv").write_text("seconds,label\n0,k1\n0,k2\n60,k3\n0,k4\n", encoding="utf-8")
    process = cli.start("batch", server.url, "slow", "p.csv", "--concurrency", "1", "--audit", "k.jsonl")
    killed(process, until, lambda: "started k3" in server.said())
    assert len(finished_calls(cli, tmp_path / "k.jsonl")) == 2
    (tmp_path / "p.csv").write_text("seconds,label\n0,k1\n0,k2\n0,k3\n0,k4\n", encoding="utf-8")
    assert cli("batch", server.url, "slow", "p.csv", "--resume", "k.jsonl").code == 0
    lines = ended_lines(tmp_path / "k.jsonl")
    first = next(line for line in lines if line.get("resumed_from"))
    assert first["previous_hash"] == lines[2]["hash"]
    records = cli("audit", "show", "k.jsonl", "--json").json
    assert [record["call"] for record in records] == [1, 2, 1, 2, 3, 4]


def test_secrets_are_in_no_audit(cli, server, tmp_path):
    options = ("--bearer-env", "TOKEN_OF_MINE", "--audit", "s.jsonl")
    env = {"TOKEN_OF_MINE": SECRET}
    done = cli("call", f"{server.base}/guarded/mcp", "echo", f"text={SECRET}", *options, env=env)
    assert done.code == 0
    cli("audit", "show", "s.jsonl", "--html", "s.html")
    cli("audit", "show", "s.jsonl", "--out", "s.csv")
    for name in ("s.jsonl", "s.html", "s.csv"):
        assert SECRET not in (tmp_path / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["verify", "nowhere.jsonl"], 1, "nowhere.jsonl"),
        (["verify", "x.txt"], 1, "the ending of its name has to be"),
        (["show", "x.csv"], 1, "none of the columns of Tool calls"),
        (["show", "x.jsonl"], 1, "line 1"),
        (["show", "x.csv", "--html", "x.txt"], 2, "should end in .html"),
        (["show", "x.csv", "--out", "x.json"], 2, "the ending of its name has to be"),
        (["verify"], 2, "Missing argument"),
    ],
)
def test_what_cannot_be_read(cli, tmp_path, arguments, code, words):
    for name in ("x.txt", "x.csv", "x.jsonl"):
        (tmp_path / name).write_text("hello\n", encoding="utf-8")
    done = cli("audit", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


@pytest.mark.parametrize(("name", "code"), [("c.txt", 2), ("diary.jsonl", 1)])
def test_call_refuses_a_file_that_is_no_journal(cli, server, tmp_path, name, code):
    (tmp_path / "diary.jsonl").write_text("dear diary\n", encoding="utf-8")
    before = len(server.said())
    done = cli("call", server.url, "echo", "text=a", "--audit", name)
    assert (done.code, done.out) == (code, "")
    assert name in done.err
    assert (tmp_path / "diary.jsonl").read_text("utf-8") == "dear diary\n"
    assert len(server.said()) == before


def test_killed_in_the_middle_of_an_agent(cli, server, until, tmp_path):
    slow = {"seconds": 60, "label": "killed agent"}
    turns = [
        calls(call("add", {"a": 1, "b": 2})),
        calls(call("echo", {"text": "x"})),
        calls(call("slow", slow)),
    ]
    with ChatServer(turns) as model:
        process = cli.start(
            *("agent", "Add.", "--server", server.url, "--model-url", model.url, "--model", "test-model"),
            *("--audit", "agent.jsonl"),
        )
        journal = tmp_path / "agent.jsonl"
        killed(process, until, lambda: "started killed agent" in server.said())
    assert finished_calls(cli, journal) == [("add", "ok", "3"), ("echo", "ok", "x")]


def test_killed_in_the_middle_of_a_caller_node(host, cli, linear, server, until, tmp_path):
    rows = [
        Column("seconds", "double", (0.0, 0.0, 60.0, 0.0)),
        Column("label", "string", ("a", "b", "c", "d")),
    ]
    settings = {"server_url": server.url, "tool_name": "slow"}
    settings |= {"connection_options": "concurrency = 1"}
    caller = new_node(host, 2, "mcp_tool_caller", settings, inputs={"Parameters": 1})
    line = Connection(1, 1, 2, caller.input_port("Parameters"))
    write_workflow(Workflow("w", (table_creator(1, rows), caller), (line,)), tmp_path / "w.knwf")
    before = server.said().count("started c")
    process = linear.start("w.knwf", "out")
    killed(process, until, lambda: server.said().count("started c") > before)
    (journal,) = (tmp_path / "out").rglob("*.jsonl")
    assert [(name, status) for name, status, _ in finished_calls(cli, journal)] == [("slow", "ok")] * 2


@pytest.mark.parametrize("arguments", ["{a: 1}", '{"a": NaN}', "[" * 3000])
def test_arguments_that_somebody_edited_are_shown_as_they_are(cli, tmp_path, arguments):
    with (tmp_path / "edited.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("Tool name", "Arguments"), ("echo", arguments)])
    done = cli("audit", "show", "edited.csv", "--json")
    assert done.code == 0, done.err
    assert done.json[0]["arguments"] == ({"a": None} if "NaN" in arguments else arguments)


@pytest.mark.parametrize("duration", ["nan", "inf", ""])
def test_a_duration_that_is_no_number_is_a_missing_one(cli, tmp_path, duration):
    (tmp_path / "edited.csv").write_text(
        f"Tool name,Arguments,Duration (s)\necho,{{}},{duration}\n", encoding="utf-8"
    )
    done = cli("audit", "show", "edited.csv", "--json")
    assert done.code == 0, done.err
    assert "duration" not in done.json[0]


def test_a_link_to_itself(cli, tmp_path):
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    done = cli("audit", "show", "loop.jsonl", "--out", "o.csv")
    assert done.code == 1
    assert "loop.jsonl: too many levels of symbolic links" in done.err
