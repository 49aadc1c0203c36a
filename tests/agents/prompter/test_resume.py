"""Interrupted runs of many prompts, and the runs that resume them."""

import json
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from knime_mcp.audit.journal import held
from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.runs.resuming import repeated_calls
from knime_mcp.types.tool import MCPTool, to_json_text
from tests.support.chat_server import call, calls, fails, says

from .test_prompter_rows import echo

FIVE = {"data": [{"text": ["a", "b", "c", "d", "e"]}], "prompt_column": "text"}
TWO = {"data": [{"text": ["a", "b"]}], "prompt_column": "text", "resume": True}


def prompt_of(request):
    return next(m["content"] for m in request.messages[::-1] if m["role"] == "user")


def late(waiting):
    """An answer that comes too late: the run is canceled while it waits for it."""
    waiting.set()
    return says("late").after(15.0)


def interrupted(script, ask, tools, **options):
    """A run that is canceled while two of its prompts wait: two others are finished, one has not begun."""
    waiting = []

    def turn(request):
        prompt = prompt_of(request)
        if prompt in ("b", "d"):
            waiting.append(prompt)
            return says("late").after(15.0)
        return says(f"answer, {prompt}") if request.messages[-1]["role"] == "tool" else calls(call("called"))

    return ask(
        script(*[turn] * 6),
        tools,
        **FIVE,
        prompt_concurrency=2,
        cancel=lambda: sorted(waiting) == ["b", "d"],
        **options,
    )


def test_equal_nodes_of_a_workflow_do_not_go_on_with_each_others_runs(
    servers, script, ask, answers_of, tools_of
):
    tools = tools_of(servers[0].url("/one"))
    assert not interrupted(script, ask, tools, number="7").ok
    other = ask(script(*[echo] * 5), tools, **FIVE, resume=True, number="8")
    assert answers_of(other) == [f"You said {prompt}" for prompt in "abcde"]
    resumed = ask(script(*[echo] * 3), tools, **FIVE, resume=True, number="7")
    assert answers_of(resumed) == ["answer, a", "You said b", "answer, c", "You said d", "You said e"]


def test_what_was_finished_before_a_cancel_is_not_asked_again(
    servers, script, ask, rows_of, answers_of, tools_of, journals
):
    tools = tools_of(servers[0].url("/one"))
    said = interrupted(script, ask, tools).failure["message"]
    assert "Canceled after 2 of 5 prompts. Switch on 'Resume an interrupted run'" in said

    server = script(echo, fails(401, "no"), fails(401, "no"))
    result = ask(server, tools, **FIVE, resume=True)
    last = rows_of(result, 2)
    assert [row["Answer"] for row in last] == ["answer, a", "You said b", "answer, c", None, None]
    assert [row["Iterations"] for row in last][:3] == [2, 1, 2]
    assert last[0]["Input tokens"] > 0
    assert len([row for row in rows_of(result) if row["Input row"] == "Row0"]) == 4
    assert [row["Input row"] for row in rows_of(result, 1)] == ["Row0", "Row2"]
    first, second = journals()
    assert {line["resumed_from"] for line in second[1:-1]} == {first[0]["run"]}
    assert "2 prompts" in result.view_html

    assert "execute again: only what is missing is asked then" in result.warnings[0]

    again = ask(script(echo, echo), tools, **FIVE, resume=True)
    assert answers_of(again) == ["answer, a", "You said b", "answer, c", "You said d", "You said e"]
    assert again.warnings == []

    again = ask(script(*[echo] * 5), tools, **FIVE, resume=True)  # all were answered before
    assert len(rows_of(again, 2)) == 5


def test_calls_on_record_are_not_made_again(servers, script, ask, tools_of, rows_of):
    waiting = threading.Event()

    def turn(request):
        if request.messages[-1]["role"] != "tool":
            return calls(call("add", {"a": 1}), call("echo", {"value": {}}), call("login", {}))
        return says("ok") if prompt_of(request) == "a" else late(waiting)

    tools = tools_of(servers[0].url("/one"))
    canceled = ask(script(*[turn] * 4), tools, **TWO, cancel=waiting.is_set)
    assert "The 6 tool calls are on record in" in canceled.failure["message"]
    again = script(echo)
    result = ask(again, tools, **TWO)
    assert len(again.requests) == 1
    assert [m["role"] for m in again.requests[0].messages][-4:] == ["assistant", "tool", "tool", "tool"]
    assert len(rows_of(result, 1)) == 6
    assert not any("twice" in text for text in result.warnings)


def test_a_run_that_was_killed_and_is_interrupted_again(
    servers, script, ask, answers_of, tools_of, journal_files
):
    tools = tools_of(servers[0].url("/one"))
    interrupted(script, ask, tools)
    (journal,) = journal_files()
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))  # no end
    conversations = journal.with_suffix(".conversations")
    conversations.write_bytes(conversations.read_bytes() + b'{"row": "Row3", "pro')
    waiting = threading.Event()

    again = ask(script(echo, lambda _: late(waiting)), tools, **FIVE, resume=True, cancel=waiting.is_set)
    assert "Canceled after 3 of 5 prompts" in again.failure["message"]
    result = ask(script(echo, echo), tools, **FIVE, resume=True)
    assert answers_of(result) == ["answer, a", "You said b", "answer, c", "You said d", "You said e"]


def test_a_run_that_is_interrupted_early_loses_nothing_of_the_one_before(script, ask, answers_of, tmp_path):
    def but_the_first(request):
        return says("late").after(15.0) if request.last == "a" else echo(request)

    def four_are_kept():
        files = (tmp_path / "workflow").rglob("*.conversations")
        return sum(file.read_bytes().count(b'"outcome"') for file in files) == 4

    again = {**FIVE, "resume": True}
    assert not ask(script(*[but_the_first] * 5), **again, prompt_concurrency=2, cancel=four_are_kept).ok
    server = script(but_the_first)
    second = ask(server, **again, cancel=lambda: bool(server.requests))
    assert "Resume an interrupted run" in second.failure["message"]
    result = ask(script(echo), **again)
    assert answers_of(result) == [f"You said {t}" for t in "abcde"]


def test_tables_of_mcp_tools_are_taken_over(host, shapes, script, ask, rows_of, tools_of):
    rows = [{"z": 1, "a": "x"}, {"z": 2.5, "m": True}]
    waiting = threading.Event()

    def turn(request):
        if prompt_of(request) == "b":
            return late(waiting)
        return (
            says("ok") if request.messages[-1]["role"] == "tool" else calls(call("empty_schema", {"r": rows}))
        )

    tools = tools_of(shapes.url("/legacy/json/parameterless"))
    assert not ask(script(*[turn] * 3), tools, **TWO, cancel=waiting.is_set).ok
    result = ask(script(echo), tools, **TWO)
    assert result.outputs[3].column_names == ["z", "a", "m"]
    assert rows_of(result, 3) == [{"z": 1.0, "a": "x", "m": None}, {"z": 2.5, "a": None, "m": True}]
    assert result.warnings == []


@pytest.mark.parametrize("outputs", [0, 1])
def test_tables_of_workflows_that_are_not_taken_over_are_said(workflow_tool, script, ask, outputs):
    tools = workflow_tool("make", outputs=["Out"])
    waiting = threading.Event()

    def turn(request):
        if prompt_of(request) == "b":
            return late(waiting)
        return says("ok") if request.messages[-1]["role"] == "tool" else calls(call("make"))

    asks = {**TWO, "outputs": outputs, "tool_handler": lambda *_: ("made", [pa.table({"n": [1]})])}
    assert not ask(script(*[turn] * 3), tools, **asks, cancel=waiting.is_set).ok
    result = ask(script(echo), tools, **asks)
    assert result.ok, result.failure
    assert len(result.warnings) == outputs
    assert all("The Data outputs lack tables of workflows" in text for text in result.warnings)


def test_other_prompts_and_other_settings_are_asked_again(servers, script, ask, answers_of, tools_of):
    tools = tools_of(servers[0].url("/one"))
    interrupted(script, ask, tools)
    other = {**FIVE, "data": [{"text": ["a", "b", "other", "d", "e"]}]}
    waiting = threading.Event()

    again = ask(
        script(echo, echo, lambda _: late(waiting)), tools, **other, resume=True, cancel=waiting.is_set
    )
    assert "Canceled after 3 of 5 prompts" in again.failure["message"]
    result = ask(script(*[echo] * 5), tools, **FIVE, resume=True, developer_message="Be brief.")
    assert answers_of(result) == [f"You said {t}" for t in "abcde"]


def test_a_file_that_somebody_changed_is_not_resumed_from(servers, script, ask, tools_of, tmp_path):
    tools = tools_of(servers[0].url("/one"))
    interrupted(script, ask, tools)
    (file,) = (tmp_path / "workflow" / "data" / "mcp-audit").glob("*.conversations")
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(file.read_bytes() + b"{}\n")
    result = ask(script(), tools, **FIVE, resume=True)
    assert f"Line {len(file.read_bytes().splitlines())} of" in result.failure["message"]
    assert "switch off 'Resume an interrupted run'" in result.failure["message"]


@pytest.mark.parametrize("named", ["itself", "no such run", "../elsewhere", ""])
def test_a_run_that_is_said_to_go_on_from_what_it_cannot(script, ask, answers_of, tmp_path, named):
    waiting = threading.Event()

    def but_the_first(request):
        return echo(request) if request.last == "a" else late(waiting)

    assert not ask(script(*[but_the_first] * 2), **TWO, cancel=waiting.is_set).ok
    (file,) = (tmp_path / "workflow" / "data" / "mcp-audit").glob("*.conversations")
    follows = file.stem if named == "itself" else named
    file.write_text(file.read_text("utf-8") + json.dumps({"follows": follows}) + "\n", "utf-8")
    result = ask(script(echo), **TWO)
    assert answers_of(result) == ["You said a", "You said b"]


def test_calls_of_all_interrupted_runs_are_taken_over(servers, script, ask, tools_of, rows_of):
    """The second run is canceled before its first call: the third run still knows the calls of the first."""
    tools = tools_of(servers[0].url("/one"))

    def turn(request):
        if request.messages[-1]["role"] != "tool":
            return calls(call("echo", {"value": {}}))
        return says("ok") if request.messages[-3]["content"] == "a" else late(waiting)

    waiting = threading.Event()
    assert not ask(script(*[turn] * 4), tools, **TWO, cancel=waiting.is_set).ok
    waiting = threading.Event()
    second = ask(script(lambda _: late(waiting)), tools, **TWO, cancel=waiting.is_set)
    assert "Resume an interrupted run" in second.failure["message"]
    again = script(echo)
    assert len(rows_of(ask(again, tools, **TWO), 1)) == 2
    assert len(again.requests) == 1


def test_calls_of_a_prompt_that_is_another_one_now_are_said(servers, script, ask, tools_of):
    tools = tools_of(servers[0].url("/one"))
    waiting = threading.Event()

    def turn(request):
        if request.messages[-1]["role"] != "tool":
            return calls(call("echo", {"value": {}}))
        return says("ok") if prompt_of(request) == "a" else late(waiting)

    assert not ask(script(*[turn] * 4), tools, **TWO, cancel=waiting.is_set).ok
    (warning,) = ask(script(echo), tools, **{**TWO, "data": [{"text": ["a", "other"]}]}).warnings
    assert "prompts that were asked again: echo (row Row1); look at" in warning


def test_a_run_that_is_killed_while_it_takes_over_loses_nothing(
    servers, script, ask, rows_of, answers_of, tools_of, tmp_path
):
    tools = tools_of(servers[0].url("/one"))
    interrupted(script, ask, tools)
    waiting = threading.Event()
    stuck = script(lambda _: late(waiting))
    assert not ask(stuck, tools, **FIVE, resume=True, cancel=waiting.is_set).ok
    *_, journal = sorted((tmp_path / "workflow").rglob("*.jsonl"))
    for file in (journal, journal.with_suffix(".conversations")):
        file.write_bytes(file.read_bytes().partition(b"\n")[0] + b"\n")
    result = ask(script(*[echo] * 3), tools, **FIVE, resume=True)
    assert answers_of(result) == ["answer, a", "You said b", "answer, c", "You said d", "You said e"]
    assert [row["Input row"] for row in rows_of(result, 1)] == ["Row0", "Row2"]


def test_a_run_that_answered_all_keeps_no_conversations(script, ask, tmp_path):
    waiting = threading.Event()
    assert not ask(script(echo, lambda _: late(waiting)), **FIVE, cancel=waiting.is_set).ok
    assert len(list((tmp_path / "workflow").rglob("*.conversations"))) == 1
    assert ask(script(*[echo] * 4), **FIVE, resume=True).ok
    assert list((tmp_path / "workflow").rglob("*.conversations")) == []
    assert len(list((tmp_path / "workflow").rglob("*.jsonl"))) == 2


def test_what_was_never_sent_is_not_made_again():
    tool = to_json_text(MCPTool("order", "", {}, "https://host.example/mcp", "order"))
    begun = CallRecord(
        run="r", tool=tool, tool_name="order", status=CallStatus.CANCELED, started_at="2026-01-01T00:00:00Z"
    )
    assert repeated_calls([replace(begun, duration=1.0)]) == ""  # canceled while it waited for a session
    assert repeated_calls([replace(begun, duration=1.0, attempts=1)]) == "order"
    assert repeated_calls([begun]) == "order"  # still under way when the run ended
    fields = json.loads(tool)
    for text in ("{", json.dumps({**fields, "output_spec": "{"})):  # its effects are unknown
        assert repeated_calls([replace(begun, tool=text)]) == "order"


def test_conversations_that_cannot_be_kept_are_a_warning_and_no_answer_is_lost(
    script, ask, answers_of, tmp_path
):
    def turn(request):
        (journal,) = (tmp_path / "workflow").rglob("*.jsonl")
        kept = journal.with_suffix(".conversations")
        if kept.is_file():
            kept.unlink()
            kept.mkdir()
        return echo(request)

    result = ask(script(turn, turn), data=[{"text": ["a", "b"]}], prompt_column="text")
    assert answers_of(result) == ["You said a", "You said b"]
    assert any(w.startswith("Finished conversations cannot be kept: ") for w in result.warnings)


def test_two_executions_do_not_go_on_with_one_run_at_once(servers, script, ask, tools_of, tmp_path):
    tools = tools_of(servers[0].url("/one"))
    interrupted(script, ask, tools)
    (journal,) = (tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl")
    model = script()
    with held(journal):  # as an execution does that goes on with it
        second = ask(model, tools, **FIVE, resume=True)
    assert f"{journal.name} is being written by another run" in second.failure["message"]
    assert not model.requests
