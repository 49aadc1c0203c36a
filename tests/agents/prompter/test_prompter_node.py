"""The node *MCP Agent Prompter*, as KNIME runs it, with a scripted model and real servers."""

import json
import threading
import time

import pyarrow as pa
import pytest

from knime_mcp.agents.agent_events import LIMIT_PROMPT
from knime_mcp.agents.toolbox import tool_executor
from knime_mcp.types.routing import server_labels
from tests.support.chat_server import call, calls, fails, refuses, says

AS_A_ROW = {"data": [{"text": ["What is the answer?"]}], "prompt_column": "text"}


@pytest.fixture
def workflow_tools(host):
    """Columns of workflow tools as *Workflow to Tool* writes them: one with data ports, one without."""
    from knime.types.tool import ToolPort, WorkflowTool

    host.add_file_store("segment", b"workflow")
    table = ToolPort("Orders", "The orders", "Table", None)
    report = ToolPort("Report", "The report", "Table", None)
    schema = {"city": {"type": "string"}}
    return host.tool_column(
        [
            WorkflowTool("Monthly report", "Makes a report", schema, 0, [table], [report], "segment"),
            WorkflowTool("Greet", "Says hello", schema, 0, [], [], "segment"),
        ]
    )


def report(tool, parameters, inputs, hints):
    """Runs the workflow tools, as KNIME does."""
    if tool.name == "Greet":
        return f"Hello {parameters['city']}", []
    (orders,) = inputs
    rows = orders.num_rows
    assert hints["execution-mode"] == "DEFAULT"
    return f"{rows} orders in {parameters['city']}", [
        pa.table({"city": [parameters["city"]], "orders": [rows]})
    ]


@pytest.mark.requirement("T24", "T25", "T26", "T28", "T68")
def test_two_servers_and_workflows_in_one_column(
    host, servers, script, ask, said, rows_of, tools_of, workflow_tools, journals
):
    first, second = servers
    mcp = tools_of(first.url("/one"), second.url("/two"), column_form="carrier", include="add, who")
    cells = mcp["Tool"].get().to_pyarrow().column(1)
    mixed = pa.chunked_array([workflow_tools, *cells.chunks]).combine_chunks()
    tools = host.table(pa.table({"Tool": mixed}))

    def ask_for_all(request):
        functions = {tool["function"]["name"]: tool["function"] for tool in request.body["tools"]}
        who = [name for name in functions if name.startswith("who")]
        assert len(who) == 2
        return calls(
            *(call(name) for name in who),
            call(
                "Monthly_report",
                {"configuration": {"city": "Konstanz"}, "data_inputs": {"Orders": "0"}},
            ),
            call("Greet", {"configuration": {"city": "Bodman"}}),
        )

    server = script(ask_for_all, says("All done."))
    result = ask(
        server,
        tools,
        data=[{"order": [1, 2, 3]}],
        user_message="Who is there?",
        developer_message="Be brief.",
        tool_handler=report,
    )
    talk = said(result)
    assert [(who, names) for who, _, names in talk][:2] == [("USER", []), ("USER", [])]
    assert "input_table_1" in talk[0][1]
    assert talk[1][1] == "Who is there?"
    assert talk[2][0] == "AI"
    assert sorted(talk[2][2])[:2] == ["Greet", "Monthly report"]
    answers = [text for who, text, _ in talk if who == "TOOL"]
    urls = [server.url(path) for server, path in zip(servers, ("/one", "/two"), strict=True)]
    labels = server_labels(urls)
    assert answers[:2] == [f"[from {labels[0]}]\none", f"[from {labels[1]}]\ntwo"]
    assert answers[2].startswith("3 orders in Konstanz")
    assert answers[3] == "Hello Bodman"
    assert talk[-1] == ("AI", "All done.", [])
    assert server.requests[0].messages[0] == {"role": "system", "content": "Be brief."}

    recorded = rows_of(result, 1)
    assert sorted(row["Tool type"] for row in recorded) == ["mcp", "mcp", "workflow", "workflow"]
    assert {row["Status"] for row in recorded} == {"ok"}
    assert [row["Call"] for row in recorded] == [1, 2, 3, 4]
    assert {row["Iteration"] for row in recorded} == {1}
    assert rows_of(result, 3) == [{"city": "Konstanz", "orders": 3}]
    assert result.warnings == []

    (lines,) = journals()
    assert [line["kind"] for line in lines] == ["start", *["call"] * 4, "end"]
    assert result.flow_variables["mcp_audit_head"] == f"{recorded[-1]['Hash']}-{lines[-1]['chain']}"
    assert [message for _, message in result.progress if message.startswith("step 1: ")][-1].count(",") == 3
    page = result.view_html
    for word in ("MCP", "workflow", "Monthly report", "All done.", "4 tool calls"):
        assert word in page


@pytest.mark.requirement("T30")
def test_with_workflow_tools_only_it_is_knimes_agent(host, script, ask, said, rows_of, workflow_tools):
    tools = host.table(pa.table({"Tool": workflow_tools}))
    server = script(
        calls(
            call("Monthly_report", {"configuration": {"city": "Ulm"}, "data_inputs": {"Orders": 0}}),
            text="First the report.",
        ),
        says("One order."),
    )
    result = ask(server, tools, data=[{"order": [7]}], user_message="How many?", tool_handler=report)
    assert result.outputs[0].column_names == ["Conversation", "Origin"]
    talk = said(result)
    assert [who for who, *_ in talk] == ["USER", "USER", "AI", "TOOL", "AI"]
    assert talk[2][1:] == ("First the report.", ["Monthly report"])
    message = rows_of(result)[3]["Conversation"]
    assert message.name == "Monthly report"
    assert message.tool_call_id == rows_of(result)[2]["Conversation"].tool_calls[0].id
    assert rows_of(result)[2]["Conversation"].tool_calls[0].arguments == {
        "configuration": {"city": "Ulm"},
        "data_inputs": {"Orders": 0},
    }
    assert rows_of(result, 3) == [{"city": "Ulm", "orders": 1}]


def test_without_tools_and_data_outputs(script, ask, said):
    result = ask(script(says("42")), outputs=0)
    assert said(result) == [("USER", "What is the answer?", []), ("AI", "42", [])]
    assert len(result.outputs) == 3


def test_empty_tables_fill_the_data_outputs(script, ask, rows_of):
    result = ask(script(says("42")), data=[{"a": [1]}], user_message="?", outputs=2)
    assert rows_of(result, 3) == [{"a": 1}]
    assert result.outputs[4].arrow.num_rows == 0


@pytest.mark.requirement("T28")
def test_failed_tools_are_told_to_the_model_and_counted(servers, script, ask, said, rows_of, tools_of):
    server = script(
        calls(call("add", {"a": "x"}), call("fail", {"why": "no luck"}), call("nothing", {})),
        says("It did not work."),
    )
    result = ask(server, tools_of(servers[0].url("/one")))
    texts = [text for who, text, _ in said(result) if who == "TOOL"]
    assert "/a" in texts[0]
    assert "integer" in texts[0]
    assert "no luck" in texts[1]
    assert "nothing" in texts[2]
    assert sorted(row["Status"] for row in rows_of(result, 1)) == [
        "invalid arguments",
        "not found",
        "tool error",
    ]
    (warning,) = result.warnings
    assert warning.startswith("3 of 3 tool calls failed; first: ")


def test_structured_results_become_data(servers, script, ask, rows_of, tools_of):
    server = script(calls(call("weather", {"city": "Konstanz"})), says("Nice."))
    result = ask(server, tools_of(servers[0].url("/one")))
    (row,) = rows_of(result, 1)
    assert json.loads(row["Structured result"])["city"] == "Konstanz"


@pytest.mark.requirement("T30")
def test_an_error_fails_the_node_or_becomes_a_row(script, ask, said):
    failed = ask(script(fails(401, "wrong key")))
    assert not failed.ok
    assert "401" in failed.failure["message"]
    kept = ask(script(fails(401, "wrong key")), **AS_A_ROW)
    assert kept.outputs[0].column_names == ["Input row", "Conversation", "Origin", "Errors"]
    talk = said(kept)
    assert talk[0] == ("USER", "What is the answer?", [])
    assert talk[1][0] == "error"
    assert "401" in talk[1][1]
    assert "401" in kept.warnings[0]


def test_a_failed_run_names_the_journal(servers, script, ask, tools_of, journals):
    server = script(calls(call("who")), fails(401, "wrong key"))
    result = ask(server, tools_of(servers[0].url("/one")))
    assert not result.ok
    assert "The tool call is on record in " in result.failure["message"]
    (lines,) = journals()
    assert [line["kind"] for line in lines] == ["start", "call", "end"]


@pytest.mark.parametrize("limit", [1, 2])
def test_the_iteration_limit_fails_or_asks_for_an_answer(servers, script, ask, said, tools_of, limit):
    turns = [calls(call("who")) for _ in range(limit + 1)]
    tools = tools_of(servers[0].url("/one"))
    failed = ask(script(*turns), tools, recursion_limit=limit)
    assert not failed.ok
    assert "limit" in failed.failure["message"]
    server = script(*turns, says("As far as I know: one."))
    result = ask(
        server,
        tools,
        recursion_limit=limit,
        recursion_limit_handling="FINAL_RESPONSE",
    )
    assert said(result)[-1] == ("AI", "As far as I know: one.", [])
    assert LIMIT_PROMPT not in [text for _, text, _ in said(result)]
    assert server.requests[-1].last == LIMIT_PROMPT
    assert server.requests[-1].body["tool_choice"] == "none"
    assert result.warnings[0].startswith("The iteration limit was reached")


def test_a_denied_call_is_an_answer_and_a_row(servers, script, ask, said, rows_of, tools_of):
    server = script(calls(call("who"), call("add", {"a": 1})), says("ok"))
    result = ask(server, tools_of(servers[0].url("/one")), rules="deny who\nallow *")
    texts = [text for who, text, _ in said(result) if who == "TOOL"]
    assert "not allowed" in texts[0]
    assert texts[1] == "2"
    assert [row["Status"] for row in rows_of(result, 1) if row["Tool name"] == "who"] == ["denied"]


def test_many_tools_are_searched(servers, script, ask, said, tools_of, monkeypatch):
    monkeypatch.setattr(tool_executor, "TOOL_TOKENS", 10)

    def finds(request):
        (function,) = [tool["function"]["name"] for tool in request.body["tools"]]
        return calls(call(function, {"query": "adds whole numbers"}))

    server = script(finds, calls(call("add", {"a": 41})), says("42"))
    result = ask(server, tools_of(servers[0].url("/one")))
    assert "add" in [tool["function"]["name"] for tool in server.requests[1].body["tools"]]
    assert said(result)[-1] == ("AI", "42", [])


def test_a_cancel_ends_a_call_and_closes_the_journal(servers, script, ask, tools_of, journals):
    answered = []

    def waits(request):
        answered.append(1)
        return calls(call("wait", {"seconds": 30}))

    result = ask(
        script(waits), tools_of(servers[0].url("/one")), cancel=lambda: bool(answered), idle_timeout=20
    )
    assert not result.ok
    assert result.failure["message"].startswith("The run was canceled")
    (lines,) = journals()
    assert lines[-1]["outcome"] == "canceled"


def test_a_refusal_is_an_answer_with_a_warning(script, ask, said):
    result = ask(script(refuses("I will not say that.")))
    assert said(result)[-1] == ("AI", "I will not say that.", [])
    assert result.warnings == ["The model refused to answer."]


def test_a_filter_before_the_model_is_an_error(script, ask, said):
    turn = fails(400, "The prompt was filtered.", "content_filter")
    assert "filter" in ask(script(turn)).failure["message"]
    kept = ask(script(turn), **AS_A_ROW)
    assert [who for who, *_ in said(kept)] == ["USER", "error"]


def test_images_reach_the_model_and_the_conversation(servers, script, ask, rows_of, tools_of):
    server = script(calls(call("pixel")), says("a dot"))
    tools = tools_of(servers[0].url("/one"))
    result = ask(server, tools)
    (part,) = [
        part for row in rows_of(result) for part in row["Conversation"].content if part.type.value == "png"
    ]
    assert part.data.startswith(b"\x89PNG")
    assert "data:image/png;base64," in str(server.requests[1].messages[-1])
    assert "data:image/png;base64," in result.view_html


def test_long_results_are_cut_for_the_model_only(servers, script, ask, rows_of, said, tools_of):
    def reads_on(request):
        assert len(request.last) < 21_000
        (reader,) = [name for name in _names(request) if "read" in name]
        return calls(call(reader, {"id": "r1", "offset": 900_000}))

    server = script(calls(call("big", {"megabytes": 1})), reads_on, says("long"))
    result = ask(server, tools_of(servers[0].url("/one")))
    assert [len(row["Result"]) for row in rows_of(result, 1)] == [1024 * 1024]
    assert len(said(result)) == 6
    assert len(result.view_html) < 100_000


@pytest.mark.requirement("T63")
def test_clocks_tick_while_a_workflow_runs(host, servers, script, ask, tools_of, workflow_tools, journals):
    where = []

    def slow(tool, parameters, inputs, hints):
        where.append(threading.current_thread())
        until = time.monotonic() + 30
        while len(journals()[0]) < 2:  # the call beside it was ended, and is on record
            assert time.monotonic() < until
            time.sleep(0.05)
        return "late", []

    mcp = tools_of(servers[0].url("/one"), column_form="carrier", include="wait")
    cells = mcp["Tool"].get().to_pyarrow().column(1)
    mixed = pa.chunked_array([workflow_tools, *cells.chunks]).combine_chunks()
    server = script(calls(call("Greet", {"configuration": {"city": "Ulm"}}), call("wait", {"seconds": 30})))
    tools = host.table(pa.table({"Tool": mixed}))
    result = ask(server, tools, time_limit="1", tool_handler=slow)
    assert "was not done after 1 seconds" in result.failure["message"]
    assert [thread.name.startswith(("agent", "prompt")) for thread in where] == [False]  # the node's own
    (lines,) = journals()
    assert [line.get("status") for line in lines[1:3]] == ["canceled", "ok"]


def test_no_workflow_begins_after_the_time_limit(host, script, ask, workflow_tools):
    began = []

    def slow(tool, parameters, inputs, hints):
        began.append(tool.name)
        time.sleep(1.5)  # KNIME cannot be interrupted either
        return "late", []

    greet = call("Greet", {"configuration": {"city": "Ulm"}})
    tools = host.table(pa.table({"Tool": workflow_tools}))
    result = ask(script(calls(greet, greet, greet)), tools, time_limit="1", tool_handler=slow)
    assert "was not done after 1 seconds" in result.failure["message"]
    assert began == ["Greet"]


def test_a_time_limit_ends_a_call(servers, script, ask, tools_of):
    server = script(calls(call("wait", {"seconds": 30})))
    result = ask(server, tools_of(servers[0].url("/one")), time_limit="1")
    assert not result.ok
    assert "was not done after 1 seconds" in result.failure["message"]


def _names(request):
    return [tool["function"]["name"] for tool in request.body["tools"]]


def test_the_journal_has_question_turns_and_answer(script, ask, journal_files):
    from tests.support.files import json_lines

    assert ask(script(says("It is 3.")), user_message="How many?").ok
    (file,) = journal_files()
    said = {line["kind"]: line for line in json_lines(file)}
    assert said["prompt"]["text"] == "How many?"
    assert (said["turn"]["text"], said["turn"]["iteration"]) == ("It is 3.", 1)
    assert (said["answer"]["text"], said["answer"]["ending"]) == ("It is 3.", "answer")
    what = said["start"]["what"]
    assert what["question"] == "How many?"
    assert {"model", "endpoint", "system", "rules", "settings", "tools"} <= what.keys()
