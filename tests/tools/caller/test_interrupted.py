"""Runs that fail or are canceled in the middle, and what happens then."""

import pytest

from knime_mcp.audit.journal import held
from knime_mcp.tools import MCPClient

IN_TURN = {"connection_options": "concurrency = 1"}


def added(rows_of, call, tools):
    """How often the server was asked to add, by what it says itself."""
    text = rows_of(call(tools, tool_name="called"))[0]["Result"]
    return int(text.split()[0].split("=")[1])


def waited(client):
    return int(client.call_tool("called").text.split("wait=")[1])


def test_failing_names_the_journal_and_resuming_calls_only_the_rest(
    server, tools_of, call, rows_of, journals
):
    tools = tools_of(server.url("/one"))
    before = added(rows_of, call, tools)
    rows = {"a": [1, 2, None, 4, 5, 6], "b": [0] * 6}
    failed = call(tools, rows, tool_name="add", on_error="fail", **IN_TURN)
    assert not failed.ok
    message = failed.failure["message"]
    assert "Row2" in message
    assert "mcp-audit" in message
    assert "Resume" in message
    lines = journals()[-1]
    assert lines[-1]["outcome"] == "failed"
    done = [line for line in lines if line["kind"] == "call" and line["status"] == "ok"]
    assert f"{len(lines) - 2} of 6" in message

    resumed = call(tools, rows, tool_name="add", resume=True)
    results = rows_of(resumed)
    assert [row["Status"] for row in results] == ["ok", "ok", "invalid arguments", "ok", "ok", "ok"]
    assert [row["Result"] for row in results if row["Result"]] == ["1", "2", "4", "5", "6"]
    assert added(rows_of, call, tools) - before == 5
    assert "filled in from the run before" in resumed.view_html
    resumed_lines = [line for line in journals()[-2] if line.get("resumed_from")]
    assert len(resumed_lines) == len(done)

    again = call(tools, rows, tool_name="add", resume=True)
    assert [row["Status"] for row in rows_of(again)].count("ok") == 5
    assert added(rows_of, call, tools) - before == 10


def test_cancel_after_half_of_the_rows_and_resume(server, tools_of, call, rows_of, journals):
    tools = tools_of(server.url("/one"))
    rows = {"seconds": [0.01] * 10 + [300.0] * 10}

    with MCPClient(server.url("/one")) as client:
        before = waited(client)

        def after_half():
            lines = journals()[-1:] or [[]]
            return sum(line["kind"] == "call" for line in lines[0]) >= 10 and waited(client) > before + 10

        canceled = call(tools, rows, tool_name="wait", cancel=after_half)
    assert not canceled.ok
    assert "Canceled after 10 of 20 calls" in canceled.failure["message"]
    assert "mcp-audit" in canceled.failure["message"]
    lines = journals()[-1]
    assert lines[-1]["outcome"] == "canceled"
    assert sum(line.get("status") == "ok" for line in lines) == 10

    rows["seconds"][10:] = [0.02] * 10
    resumed = call(tools, rows, tool_name="wait", resume=True)
    results = rows_of(resumed)
    assert [row["Status"] for row in results] == ["ok"] * 20
    assert "had sent these calls, and got no result: wait (row Row1" in resumed.warnings[-1]
    started_at = [row["Started at"] for row in results]
    assert max(started_at[:10]) < min(started_at[10:])


def test_a_call_that_was_under_way_is_named_once(server, tools_of, call, rows_of):
    tools = tools_of(server.url("/one"))
    rows = {"seconds": [0.0, 300.0]}

    with MCPClient(server.url("/one")) as client:
        before = waited(client)
        both = call(tools, rows, tool_name="wait", cancel=lambda: waited(client) == before + 2)
    assert not both.ok
    resumed = call(tools, rows, tool_name="wait", resume=True)
    assert [row["Status"] for row in rows_of(resumed)] == ["ok", "outcome unknown"]
    assert "may have been carried out, nobody knows: wait (row Row1)" in resumed.warnings[-1]
    assert "had sent these calls" not in resumed.warnings[-1]


def test_a_resumed_run_that_ends_at_once_loses_nothing_of_the_run_before(server, tools_of, call, rows_of):
    tools = tools_of(server.url("/one"))
    before = added(rows_of, call, tools)
    ending = {"tool_name": "add", "on_error": "fail"} | IN_TURN
    assert not call(tools, {"a": [1, 2, 3, None], "b": [0] * 4}, **ending).ok
    assert not call(tools, {"a": [None, 2, 3, None], "b": [0] * 4}, **ending, resume=True).ok
    results = rows_of(call(tools, {"a": [1, 2, 3, 4], "b": [0] * 4}, tool_name="add", resume=True))
    assert [row["Result"] for row in results] == ["1", "2", "3", "4"]
    assert added(rows_of, call, tools) - before == 5  # rows 2 and 3 once


def test_a_row_that_changed_is_called_again(server, tools_of, call, rows_of):
    tools = tools_of(server.url("/one"))
    failed = call(tools, {"a": [1, 2, None]}, tool_name="add", on_error="fail", **IN_TURN)
    assert not failed.ok
    results = rows_of(call(tools, {"a": [1, 20, 3]}, tool_name="add", resume=True))
    assert [row["Result"] for row in results] == ["2", "21", "4"]


def test_without_resume_everything_is_called_again(server, tools_of, call, rows_of):
    tools = tools_of(server.url("/one"))
    before = added(rows_of, call, tools)
    call(tools, {"a": [1, 2, None]}, tool_name="add", on_error="fail", **IN_TURN)
    rows_of(call(tools, {"a": [1, 2, 3]}, tool_name="add"))
    assert added(rows_of, call, tools) - before == 5


def test_images_survive_resuming(server, tools_of, call, rows_of):
    tools = tools_of(server.url("/one"))
    rows = {"which": ["pixel", "fail"]}
    failed = call(tools, rows, tool_per_row_column="which", on_error="fail", **IN_TURN)
    assert not failed.ok
    results = rows_of(call(tools, rows, tool_per_row_column="which", resume=True))
    assert results[0]["Files"].endswith(".png")
    assert [row["Status"] for row in results] == ["ok", "tool error"]


def test_a_run_that_is_canceled_before_the_first_call_fails(server, tools_of, call):
    tools = tools_of(server.url("/one"))
    result = call(tools, {"a": [1, 2]}, tool_name="add", cancel=True)
    assert not result.ok


@pytest.mark.parametrize("what", ["altered", "missing", "broken"])
def test_a_journal_that_somebody_changed_is_not_resumed(server, tools_of, call, rows_of, journal_files, what):
    tools = tools_of(server.url("/one"))
    before = added(rows_of, call, tools)
    rows = {"a": [1, 2, 3, None], "b": [0] * 4}
    assert not call(tools, rows, tool_name="add", on_error="fail", **IN_TURN).ok
    file = journal_files()[-1]
    lines = file.read_text("utf-8").splitlines(keepends=True)
    changed = {
        "altered": [lines[0], lines[1].replace('"result":"1"', '"result":"9"'), *lines[2:]],
        "missing": [lines[0], lines[1], *lines[3:]],
        "broken": [lines[0], "{}\n", *lines[2:]],
    }
    assert changed[what] != lines
    file.write_text("".join(changed[what]), "utf-8")
    refused = call(tools, rows, tool_name="add", resume=True)
    assert not refused.ok
    message = refused.failure["message"]
    assert file.name in message
    assert "Nothing is taken from the journal" in message
    assert "switch off resuming" in message
    assert added(rows_of, call, tools) - before == 3

    file.write_text("".join(lines[:3]), "utf-8")  # its end is missing: that is what an interrupted run leaves
    resumed = rows_of(call(tools, rows, tool_name="add", resume=True))
    assert [row["Result"] for row in resumed] == ["1", "2", "3", None]
    assert added(rows_of, call, tools) - before == 4


def test_two_executions_do_not_go_on_with_one_run_at_once(server, tools_of, call, rows_of, tmp_path):
    tools = tools_of(server.url("/one"))
    before = added(rows_of, call, tools)
    rows = {"a": [1, 2, None, 4], "b": [0] * 4}
    assert not call(tools, rows, tool_name="add", on_error="fail", **IN_TURN).ok
    interrupted = max((tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl"))
    with held(interrupted):  # as an execution does that goes on with it
        second = call(tools, rows, tool_name="add", resume=True)
    assert not second.ok
    assert f"{interrupted.name} is being written by another run" in second.failure["message"]
    assert added(rows_of, call, tools) - before == 2
    assert call(tools, rows, tool_name="add", resume=True).ok
    assert added(rows_of, call, tools) - before == 3


def test_equal_nodes_of_a_workflow_do_not_go_on_with_each_others_runs(server, tools_of, call, rows_of):
    tools = tools_of(server.url("/one"))
    before = added(rows_of, call, tools)
    rows = {"a": [1, 2, None, 4], "b": [0] * 4}
    for number in ("7", "8", "4:7"):  # each adds 1 and 2
        assert not call(tools, rows, tool_name="add", on_error="fail", **IN_TURN, number=number).ok
    assert added(rows_of, call, tools) - before == 6
    rows["a"] = [1, 2, 3, 4]
    for number in ("8", "4:7", "7"):  # each adds 3 and 4
        resumed = rows_of(call(tools, rows, tool_name="add", resume=True, number=number))
        assert [row["Result"] for row in resumed] == ["1", "2", "3", "4"]
    assert added(rows_of, call, tools) - before == 12
    rows_of(call(tools, rows, tool_name="add", resume=True, number="9"))  # a copy of one of them
    assert added(rows_of, call, tools) - before == 16
