"""``knime-mcp replay``: the process, its output and its exit code."""

import csv
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.record import CallStatus
from knime_mcp.types.tool import to_json_text
from tests.audit.calls import FLOW
from tests.audit.calls import record as a_call
from tests.support.files import csv_rows, json_lines
from tests.support.pages import RunPage
from tests.support.recordings import record_calls

from .conftest import RECORDED

pytestmark = pytest.mark.requirement("T49")


SAME = [("add", {"a": 1, "b": 2}), ("fail", {"why": "no"}), ("note", {"text": "x"})]
IGNORED = ("--ignore", "/at", "--ignore", "/items/*/id", "--ignore", r"call \d+")


def test_everything_is_the_same(cli, record):
    record(SAME)
    done = cli("replay", "run.jsonl")
    assert done.code == 0, done.err
    assert "2 same, 1 skipped" in done.out


def test_differences_are_told_with_a_patch_and_can_be_ignored(cli, record):
    record()
    done = cli("replay", "run.jsonl", "--json")
    assert done.code == 1
    assert done.json["counts"] == {"same": 3, "different": 2, "skipped": 1}
    assert done.json["calls"][1]["patch"][0]["path"] == "/result"
    assert cli("replay", "run.jsonl", *IGNORED).code == 0


def test_page_table_and_journal_of_a_replay(cli, record, tmp_path):
    record()
    done = cli("replay", "run.jsonl", "--html", "r.html", "--out", "r.jsonl", "--audit", "again.jsonl")
    assert done.code == 1
    page = RunPage((tmp_path / "r.html").read_text("utf-8"))
    assert [bool(step.get("differences")) for step in page.steps][:2] == [False, True]
    assert [row["Verdict"] for row in json_lines(tmp_path / "r.jsonl")][:2] == ["same", "different"]
    assert cli("audit", "verify", "again.jsonl").code == 4


def test_many_calls(cli, record, tmp_path):
    """The table is written in pieces, and of the calls only those to look into are printed."""
    record([("add", {"a": number}) for number in range(201)] + [("count", {})])
    done = cli("replay", "run.jsonl", "--out", "r.csv")
    assert (done.code, "201 same, 1 different" in done.out) == (1, True)
    assert done.out.count("different") == 2
    assert "201 more calls not shown" in done.err
    assert [row["Call"] for row in csv_rows(tmp_path / "r.csv")] == [str(call) for call in range(1, 203)]


def test_another_server_and_other_names_of_tools(cli, record, replayed):
    record(SAME)
    old = replayed.url("/base")
    done = cli("replay", "run.jsonl", "--server", f"{old}={replayed.url('/described')}")
    assert done.code == 1
    assert "tool changed" in done.out
    changed = cli("replay", "run.jsonl", "--server", f"{old}={replayed.url('/described')}", "--call-changed")
    assert changed.code == 0
    renamed = ("replay", "run.jsonl", "--server", f"{old}={replayed.url('/renamed')}")
    assert cli(*renamed).code == 1
    assert cli(*renamed, "--tool", "add=sum").code == 0
    assert cli(*renamed, "--tool", "add").code == 2
    gone = cli("replay", "run.jsonl", "--server", f"{old}=http://127.0.0.1:9/mcp", "--json")
    assert (gone.code, gone.json["counts"]) == (1, {"failed": 3})


def saved_again(path, delimiter):
    """As spreadsheets and pandas do: sorted otherwise, whole numbers as floats, everything quoted, CRLF."""
    rows = csv_rows(path)
    for row in rows:
        row["Call"], row["Attempts"] = f"{row['Call']}.0", f"{row['Attempts']}.0"
    rows.sort(key=lambda row: row["Call"], reverse=True)
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    return rows


@pytest.mark.parametrize("delimiter", [None, ",", ";", "\t"])
def test_a_csv_that_was_opened_and_saved_again(cli, record, tmp_path, delimiter):
    record()
    assert cli("audit", "show", "run.jsonl", "--out", "t.csv").code == 0
    if delimiter is not None:
        saved_again(tmp_path / "t.csv", delimiter)
    done = cli("replay", "t.csv", "--json", *IGNORED)
    assert done.json["counts"] == {"same": 5, "skipped": 1}
    assert done.json["records"] == "complete in itself, but nobody vouches for it"
    assert done.code == 0


def test_a_csv_that_lost_columns(cli, record, tmp_path):
    """The Tool cell, the hashes and most of the rest."""
    record()
    assert cli("audit", "show", "run.jsonl", "--out", "t.csv").code == 0
    rows = saved_again(tmp_path / "t.csv", ",")
    few = ["Tool name", "Server", "Arguments", "Digest", "Result", "Structured result", "Status", "Error"]
    with (tmp_path / "few.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, few, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    done = cli("replay", "few.csv", "--json", *IGNORED)
    assert done.json["counts"] == {"same": 5, "skipped": 1}
    assert done.json["records"] == "not verifiable"


def test_calls_of_several_runs_are_told_apart(cli, replayed, tmp_path):
    """Each `knime-mcp call --audit` is a run of its own, whose only call has the number 1."""
    for run in ("run-one", "run-two"):
        record_calls(tmp_path / f"{run}.jsonl", replayed.url("/base"), SAME[:1], run=run)
    assert "run-one" not in cli("replay", "run-one.jsonl").out
    both = [(tmp_path / f"{run}.jsonl").read_text("utf-8") for run in ("run-one", "run-two")]
    (tmp_path / "both.jsonl").write_text("".join(both), "utf-8")
    shown = cli("replay", "both.jsonl").out
    assert [line.split()[:2] for line in shown.splitlines() if " same " in line] == [
        ["run-one", "1"],
        ["run-two", "1"],
    ]


def test_a_csv_that_lost_the_results(cli, record, tmp_path):
    """Nothing says that the answers are different, or that they are the same."""
    record()
    assert cli("audit", "show", "run.jsonl", "--out", "t.csv").code == 0
    few = ["Tool name", "Server", "Arguments", "Digest"]
    with (tmp_path / "few.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, few, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(saved_again(tmp_path / "t.csv", ","))
    done = cli("replay", "few.csv", "--json")
    assert done.json["counts"] == {"skipped": 6}
    made = [call for call in done.json["calls"] if "new_status" in call]
    assert len(made) == 5
    for call in made:
        now = f"It is '{call['new_status']}' now"
        assert call["reason"] == f"{now}, but the table has no column Result to compare with"


@pytest.mark.real_knime
def test_tables_that_pandas_saved_again(cli, record, tmp_path):
    """With the real one, which KNIME's Python brings."""
    import pandas

    record()
    for ending in ("csv", "parquet"):
        assert cli("audit", "show", "run.jsonl", "--out", f"t.{ending}").code == 0
    pandas.read_csv(tmp_path / "t.csv").sort_values("Call", ascending=False).to_csv(
        tmp_path / "t2.csv", index=False
    )
    done = cli("replay", "t2.csv", "--json", *IGNORED)
    assert (done.code, done.json["records"]) == (0, "complete in itself, but nobody vouches for it")
    pandas.read_parquet(tmp_path / "t.parquet").iloc[1:4].to_parquet(tmp_path / "t2.parquet")
    done = cli("replay", "t2.parquet", "--json", *IGNORED)
    assert (done.code, done.json["records"]) == (0, "rows missing")
    assert done.json["counts"] == {"same": 2, "skipped": 1}


def test_altered_records_are_no_success(cli, record, tmp_path):
    record(SAME)
    text = (tmp_path / "run.jsonl").read_text("utf-8")
    (tmp_path / "run.jsonl").write_text(
        text.replace('"iteration"', '"x"').replace('"attempts":1', '"attempts":2', 1)
    )
    done = cli("replay", "run.jsonl", "--audit", "new.jsonl")
    assert done.code == 1
    assert "The records are changed at line 2, so nothing was called" in done.err
    assert '"kind":"call"' not in (tmp_path / "new.jsonl").read_text("utf-8")
    forced = cli("replay", "run.jsonl", "--force-altered", "--json")
    assert forced.code == 1
    assert "Records changed" in forced.err
    assert forced.json["counts"]["same"]


def test_a_head_that_is_not_there_is_no_success(cli, record, tmp_path):
    record(SAME)
    done = cli("replay", "run.jsonl", "--head", "0" * 64, "--json")
    assert "end missing" in done.err
    assert (done.code, done.json["good"]) == (1, False)
    right = json_lines(tmp_path / "run.jsonl")[-1]["head"]
    assert cli("replay", "run.jsonl", "--head", right).code == 0


def test_a_dry_run_says_that_nothing_was_called(cli, record):
    record(SAME)
    done = cli("replay", "run.jsonl", "--dry-run")
    assert done.code == 0
    assert "No call was made" in done.err


def test_a_command_as_server(cli, tmp_path):
    """stdio servers are started only by this command line."""
    script = Path(__file__).parents[1] / "client" / "stdio_child.py"
    command = f"{sys.executable} {script}"
    assert cli("call", "--stdio", f"child={command}", "echo", "text=hi", "--audit", "run.jsonl").code == 0
    without = cli("replay", "run.jsonl", "--call", "*", "--json")
    assert (without.code, without.json["counts"]) == (1, {"failed": 1})
    assert "which command stdio:child is" in without.json["calls"][0]["reason"]
    done = cli("replay", "run.jsonl", "--call", "*", "--server", f"stdio:child={command}", "--json")
    assert (done.code, done.json["counts"]) == (0, {"same": 1})
    assert "--server child" not in without.err
    env = {"KNIME_MCP_SERVERS": str(tmp_path / "servers.json")}
    assert cli("config", "add", "child", "--stdio", command, env=env).code == 0
    hinted = cli("replay", "run.jsonl", "--call", "*", "--json", env=env)
    assert (hinted.json["counts"], "--server child" in hinted.err) == ({"failed": 1}, True)
    named = cli("replay", "run.jsonl", "--call", "*", "--server", "child", "--json", env=env)
    assert (named.code, named.json["counts"], "--server child" in named.err) == (0, {"same": 1}, False)
    unknown = cli("replay", "run.jsonl", "--server", "nobody", env=env)
    assert (unknown.code, "no server called 'nobody'" in unknown.err) == (2, True)
    over_http = cli("replay", "run.jsonl", "--server", "stdio:child=http://127.0.0.1:9/mcp", "--json")
    assert "http://127.0.0.1:9/mcp" in over_http.json["calls"][0]["reason"]


def test_help_shows_no_option_that_is_refused(cli):
    shown = cli("replay", "--help").out
    assert "--with-credential" in shown
    assert not {"--bearer-env", "--send-credentials-as", "--transport"} & set(shown.split())


def test_credentials_are_not_sent_unasked(cli, record, tmp_path, replayed):
    record(SAME)
    lines = (tmp_path / "run.jsonl").read_text("utf-8").splitlines()
    named = [line.replace("#digest=", "#credential=prod&digest=") for line in lines]
    (tmp_path / "run.jsonl").write_text("\n".join(named) + "\n", encoding="utf-8")
    env = {"KNIME_MCP_PROD_PASSWORD": "canary-7f3a9c51d2"}
    done = cli("replay", "run.jsonl", "--json", "--force-altered", env=env)
    assert done.json["counts"] == {"failed": 3}
    assert "--with-credential prod" in done.json["calls"][0]["reason"]
    allowed = cli("replay", "run.jsonl", "--json", "--force-altered", "--with-credential", "prod", env=env)
    assert allowed.json["counts"] == {"same": 2, "skipped": 1}


def test_a_secret_argument(cli, record, tmp_path):
    record([("login", {"user": "anna", "password": "canary-7f3a9c51d2"})])
    assert cli("replay", "run.jsonl", "--json").json["counts"] == {"skipped": 1}
    entry = json.loads((tmp_path / "run.jsonl").read_text("utf-8").splitlines()[1])
    mark = json.loads(entry["arguments"])["password"].split()[1].rstrip("⟩")
    env = {"MY_PASSWORD": "canary-7f3a9c51d2"}
    done = cli("replay", "run.jsonl", "--secret", f"{mark}=MY_PASSWORD", env=env)
    assert done.code == 0, done.err
    assert cli("replay", "run.jsonl", "--secret", f"{mark}=OTHER").code == 2


def test_options_that_cannot_work(cli, record, tmp_path):
    record(SAME)
    for arguments, words in (
        (("--server", "nowhere"), "--server OLD=NEW"),
        (("--credential", "x"), "--with-credential"),
        (("--send-credentials-as", "basic"), "--with-credential"),
        (("--transport", "sse"), "--with-credential"),
        (("--html", "x.txt"), ".html"),
        (("--audit", "x.csv"), ".jsonl"),
        (("--ignore", "("), "regular expression"),
        (("--rows", "4-9"), "No call on record is one of --rows; they are 1 to 3."),
        (("--tool", "add=sum", "--tool", "add=total"), "--tool names 'add' twice"),
        (
            ("--secret", f"{'0' * 12}=HOME", "--secret", f"{'0' * 12}=PATH"),
            "--secret names '000000000000' twice",
        ),
    ):
        done = cli("replay", "run.jsonl", *arguments)
        assert done.code == 2
        assert words in done.err
    assert cli("replay", "missing.jsonl").code == 1


@pytest.mark.parametrize("option", ["--server=http://nobody.invalid/mcp=URL", "--tool=nobody=else"])
def test_a_replay_that_replaces_what_is_not_on_record(cli, server, option):
    done = cli("replay", RECORDED, option.replace("URL", server.url))
    assert done.code == 2
    assert "No call on record" in done.err
    assert "nobody" in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_replay_that_is_stopped_keeps_what_is_done(cli, server, tmp_path, until, number):
    label = f"replay-{number}"
    (tmp_path / "p.csv").write_text(f"seconds,label\n0,a\n0.5,{label}\n0,c\n", encoding="utf-8")
    done = cli("batch", server.url, "slow", "p.csv", "--concurrency", "1", "--audit", "run.jsonl")
    assert done.code == 0, done.err
    text = (tmp_path / "run.jsonl").read_text("utf-8")
    (tmp_path / "run.jsonl").write_text(
        text.replace(r"\"seconds\":0.5", r"\"seconds\":60.5"), encoding="utf-8"
    )
    options = ("--out", "r.csv", "--html", "r.html", "--audit", "again.jsonl", "--force-altered")
    process = cli.start("replay", "run.jsonl", "--call", "slow", "--json", *options)
    until(lambda: server.said().count(f"started {label}") == 2, "the second call began", 60)
    process.send_signal(number)
    stopped = cli.finish(process)
    assert stopped.code == 3
    assert "Canceled after 1 of 3 calls." in stopped.err
    assert stopped.json["counts"] == {"same": 1}
    assert [row["Verdict"] for row in csv_rows(tmp_path / "r.csv")] == ["same"]
    assert "on record, " in (tmp_path / "r.html").read_text("utf-8")
    assert cli("audit", "verify", "again.jsonl", "--json").json["runs"][0]["outcome"] == "canceled"


@pytest.mark.parametrize(("name", "content"), [("empty.jsonl", ""), ("empty.csv", "Tool name,Arguments\n")])
def test_nothing_to_replay_is_no_success(cli, tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    done = cli("replay", name)
    assert (done.code, done.err) == (1, f"{name} holds no calls to replay. [KMCP-COMMAND]\n")


def test_rules_are_learned_written_taken_and_named(cli, record, tmp_path):
    record()
    twice = cli("replay", "run.jsonl", "--twice", "--write-rules", "rules.json", "--json")
    assert twice.code == 0, twice.err
    assert twice.json["counts"] == {"same": 5, "skipped": 1}
    learned = json.loads((tmp_path / "rules.json").read_text("utf-8"))["rules"]
    assert learned == twice.json["learned"]
    assert {rule["tool"] for rule in learned} == {"count", "items"}
    assert {rule.get("volatile") for rule in learned if rule["tool"] == "items"} == {"/at", "/items/*/id"}
    again = cli("replay", "run.jsonl", "--rules", "rules.json", "--json", "--html", "r.html")
    assert again.code == 0, again.out
    left_out = [call["rules"] for call in again.json["calls"] if "rules" in call]
    assert left_out
    assert all("Left out by rules" in call["reason"] for call in again.json["calls"] if "rules" in call)
    assert "What may differ, by rules" in (tmp_path / "r.html").read_text("utf-8")
    shown = cli("replay", "run.jsonl", "--rules", "rules.json", "--tolerance", "1e-9")
    assert "Rule tolerance 1e-09: left something out of 0 calls" in shown.err
    assert cli("replay", "run.jsonl", "--rules", "run.jsonl").code == 2


def test_a_run_with_a_workflow_and_an_invented_tool_is_replayed(cli, tmp_path):
    """As an agent in KNIME makes it: a workflow runs there only."""
    made_up = {"tool": None, "tool_name": "invented", "tool_type": None, "server": None, "digest": None}
    journal = Journal(tmp_path / "run.jsonl", run="r1")
    journal.append(a_call(4, tool=to_json_text(replace(FLOW, input_ports=()))))
    journal.append(a_call(1, **made_up, status=CallStatus.NOT_FOUND, result=None, structured_result=None))
    journal.close("complete")
    done = cli("replay", "run.jsonl", "--json")
    assert done.code == 0
    assert done.json["counts"] == {"skipped": 1, "same": 1}
    (skipped,) = [made for made in done.json["calls"] if made["verdict"] == "skipped"]
    assert "runs only in KNIME" in skipped["reason"]
