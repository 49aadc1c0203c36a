"""The node *MCP Agent Chat*: its view's service as KNIME and the page use it, and what it hands on."""

import json
import time
from dataclasses import replace
from pathlib import Path

from knime_mcp.audit.calls_table import journal_calls, records_of
from knime_mcp.audit.verify import verify_file
from knime_mcp.types.columns import read_tools
from tests.agents.chat.conftest import DEADLINE
from tests.support.chat_server import call, calls, fails, says


def texts(page, kind="answer"):
    return [event["text"] for event in page.of(kind)]


def test_the_answer_appears_piece_by_piece_and_is_then_whole(chat, script):
    page = chat(script(says("Hello, I am here to help you.")))
    page.answered("Hello?")
    kinds = [event["kind"] for event in page.events]
    assert kinds[0] == "question"
    assert kinds[-1] == "end"
    assert texts(page) == ["Hello, I am here to help you."]
    assert page.cost["read"] > 0
    assert page.cost["calls"] == 0


def test_a_page_that_comes_later_gets_whole_answers_only(chat, script):
    page = chat(script(says("Hello, I am here.")))
    page.answered("Hello?")
    late = type(page)(page.call)
    late.poll()
    assert [event["kind"] for event in late.events] == ["question", "answer", "end"]


def test_a_call_waits_for_the_person_who_allows_it(chat, script, servers, tools_of):
    first, _ = servers
    model = script(calls(call("add", {"a": 1, "b": 2})), says("It is 3."))
    page = chat(model, tools_of(first.url("/one")))
    assert page.call("ask", "What is 1 and 2?") is None
    asked = page.until("ask")
    assert asked["name"] == "add"
    assert asked["server"] == first.url("/one")
    assert json.loads(asked["arguments"]) == {"a": 1, "b": 2}
    assert not page.of("result")
    assert page.call("decide", asked["number"], "allow") is None
    page.done()
    (card,) = page.of("result")
    assert card["status"] == "ok"
    assert card["decision"] == "allowed by a person"
    assert "3" in card["text"]
    assert texts(page)[-1] == "It is 3."
    assert page.call("decide", asked["number"], "deny") is not None


def test_a_person_denies_and_edits_calls(chat, script, servers, tools_of):
    first, _ = servers
    model = script(calls(call("add", {"a": 1, "b": 2})), calls(call("add", {"a": 3, "b": 4})), says("Done."))
    page = chat(model, tools_of(first.url("/one")))
    page.call("ask", "Add.")
    page.call("decide", page.until("ask")["number"], "deny", "not these")
    number = page.until("ask")["number"]
    assert "JSON" in page.call("decide", number, "edit", "{")
    assert "braces" in page.call("decide", number, "edit", "[1]")
    assert page.call("decide", number, "edit", '{"a": 30, "b": 40}') is None
    page.done()
    denied, edited = page.of("result")
    assert denied["status"] == "denied"
    assert "not these" in denied["text"]
    assert json.loads(edited["arguments"]) == {"a": 30, "b": 40}
    assert "70" in edited["text"]


def test_a_person_thinks_and_no_seconds_of_the_call_count_it(
    chat, executed, script, servers, tools_of, rows_of
):
    first, _ = servers
    tools = tools_of(first.url("/one"))
    model = script(calls(call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4})), says("Done."))
    page = chat(model, tools)
    began = time.monotonic()
    page.call("ask", "Add.")
    thought = []
    for _ in range(2):
        number = page.until("ask")["number"]
        seen = time.monotonic()
        time.sleep(0.5)  # the person thinks
        thought.append(time.monotonic() - seen)
        page.call("decide", number, "allow")
    page.done()
    took = time.monotonic() - began
    assert all(card["seconds"] <= took - min(thought) + 0.01 for card in page.of("result"))
    result = executed(model, tools, view_data=page.hand_on())
    stood = [row["Asked (s)"] for row in rows_of(result, 1)]
    assert sum(stood) >= sum(thought) - 0.01


def test_always_asks_once(chat, script, servers, tools_of):
    first, _ = servers
    model = script(calls(call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4})), says("Done."))
    page = chat(model, tools_of(first.url("/one")))
    page.call("ask", "Add.")
    page.call("decide", page.until("ask")["number"], "always")
    page.done()
    assert len(page.of("ask")) == 1
    assert [event["status"] for event in page.of("result")] == ["ok", "ok"]


def test_rules_are_stronger_than_the_person(chat, script, servers, tools_of):
    first, _ = servers
    model = script(calls(call("add", {"a": 1, "b": 2})), says("I may not."))
    page = chat(model, tools_of(first.url("/one")), rules="deny add")
    page.answered("Add.")
    assert page.of("ask") == []
    assert page.of("result")[0]["status"] == "denied"


def test_stop_ends_a_question_that_waits_for_the_person(chat, script, servers, tools_of):
    first, _ = servers
    page = chat(script(calls(call("add", {"a": 1, "b": 2}))), tools_of(first.url("/one")))
    page.call("ask", "Add.")
    page.until("ask")
    page.call("stop")
    page.done()
    assert page.of("stopped")
    assert page.hand_on() is not None


def test_stop_ends_an_answer_while_it_is_written(chat, script, gate):
    model = script(says("Slow.", hold=gate), says("Fast."))
    page = chat(model)
    page.call("ask", "One?")
    assert model.arrived.wait(DEADLINE)
    assert page.call("ask", "Two?") == "The last question is still being answered."
    page.call("stop")
    page.done()
    gate.set()
    assert texts(page, "stopped")
    page.answered("Two?")
    assert texts(page) == ["Fast."]


def test_an_error_is_told_and_the_chat_goes_on(chat, script):
    page = chat(script(fails(400), says("Now it works.")))
    page.answered("One?")
    assert len(page.of("error")) == 1
    page.answered("Two?")
    assert texts(page) == ["Now it works."]


def test_the_next_question_knows_the_conversation_and_undo_forgets(chat, script):
    model = script(says("One."), says("Two."), says("Three."))
    page = chat(model)
    page.answered("First?")
    page.answered("Second?")
    assert [m["content"] for m in model.requests[1].messages if m["role"] != "system"] == [
        "First?",
        "One.",
        "Second?",
    ]
    assert page.call("undo") is None
    page.answered("Third?")
    assert "Second?" not in [m["content"] for m in model.requests[2].messages]


def test_what_was_said_leaves_the_node_and_is_known_to_the_next_view(
    chat, executed, script, servers, tools_of, rows_of, tmp_path
):
    first, _ = servers
    tools = tools_of(first.url("/one"))
    model = script(calls(call("add", {"a": 1, "b": 2})), says("It is 3."), says("Still 3."))
    page = chat(model, tools)
    page.call("ask", "What is 1 and 2?")
    page.call("decide", page.until("ask")["number"], "allow")
    page.done()
    handed_on = page.hand_on()
    result = executed(model, tools, view_data=handed_on)
    assert [row["Tool name"] for row in rows_of(result, 1)] == ["add"]
    assert rows_of(result, 1)[0]["Decision"] == "allowed by a person"
    assert len(rows_of(result, 0)) == 4
    journals = list((tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl"))
    assert len(journals) == 1
    assert result.flow_variables["mcp_audit_head"]
    assert verify_file(journals[0], head=result.flow_variables["mcp_audit_head"]).findings == ()

    later = chat(model, tools, view_data=handed_on)
    later.poll()
    assert [event["kind"] for event in later.events] == ["question", "call", "result", "answer"]
    later.answered("Are you sure?")
    second = executed(model, tools, view_data=later.hand_on())
    assert len(rows_of(second, 0)) == 6
    assert [row["Tool name"] for row in rows_of(second, 1)] == ["add"]
    assert "handed on" in page.call("ask", "More?")


def records_in(host, output):
    """The records in *Tool calls*, with the tools of its cells."""
    with host.executing():
        return records_of(output.arrow, read_tools(output.as_input()))


def records_of_journal(file):
    """Those of a journal, without what has no column."""
    return [replace(record, key=None) for record in journal_calls(file)]


def test_a_view_hands_on_all_calls_and_what_they_gave(
    host, chat, executed, script, servers, tools_of, rows_of, journal_files
):
    """A view makes no tool cells, as KNIME gives it no file stores: they are made when the node executes."""
    tools = tools_of(servers[0].url("/one"), include="add, pixel, weather")
    model = script(
        calls(call("add", {"a": 1, "b": 2}), call("pixel"), call("weather", {"city": "Ulm"})),
        says("All of it."),
        calls(*(call("add", {"a": number}) for number in range(4)), call("pixel")),
        says("And more."),
    )
    settings = {"ask_first": "rules"}
    page = chat(model, tools, **settings)
    page.answered("What is there?")
    first = page.hand_on()
    result = executed(model, tools, view_data=first)
    said = rows_of(result, 0)
    assert len(said) == 6
    assert "png" in pictured(said)
    records = records_in(host, result.outputs[1])
    assert sorted(json.loads(record.tool)["name"] for record in records) == ["add", "pixel", "weather"]
    assert records == records_of_journal(*journal_files())

    later = chat(model, tools, view_data=first, **settings)
    later.answered("And then?")
    again = executed(model, tools, view_data=later.hand_on())
    assert len(rows_of(again, 0)) == 14
    found = records_in(host, again.outputs[1])
    assert found[:3] == records
    assert found[3:] == records_of_journal(journal_files()[-1])
    named = sorted(json.loads(record.tool)["name"] for record in found[3:])
    assert named == [*["add"] * 4, "pixel"]  # calls at once are recorded as they end


def pictured(rows):
    """The kinds of all parts of a conversation, on either host."""
    return {part.type.value for row in rows for part in row["Conversation"].content}


def test_nobody_has_talked_yet(executed, script, rows_of):
    result = executed(script())
    assert rows_of(result, 0) == []
    assert rows_of(result, 1) == []
    assert result.outputs[2].arrow.num_rows == 0


def test_questions_are_asked_without_a_person(executed, script, servers, tools_of, rows_of):
    first, _ = servers
    model = script(calls(call("add", {"a": 1, "b": 2})), says("I may not."), says("Bye."))
    result = executed(model, tools_of(first.url("/one")), questions="What is 1 and 2?\n\nBye?")
    (denied,) = rows_of(result, 1)
    assert denied["Status"] == "denied"
    assert "nobody can be asked" in denied["Decision"]
    assert len(rows_of(result, 0)) == 6
    assert model.requests[2].messages[-1]["content"] == "Bye?"


def test_a_history_is_gone_on_with(chat, executed, script, rows_of):
    model = script(says("One."), says("Two."))
    first = executed(model, questions="First?")
    page = chat(model, history=first.outputs[0].as_input())
    page.poll()
    assert [event["text"] for event in page.events] == ["First?", "One."]
    page.answered("Second?")
    assert texts(page) == ["One.", "Two."]


def test_no_chat_without_a_credential_says_why(chat, script, host, model_of):
    server = script()
    model = model_of(server, stored={"key": ("", "secret")}, credentials="key")
    page = host.data_service("mcp_agent_chat", [model, None, None, [], None], {})
    assert "key" in page("start")["problem"]
    assert page("ask", "Hello?") == page("start")["problem"]
    assert page.view_data() is not None


def test_what_the_page_is_told_at_the_start(chat, script, servers, tools_of):
    first, _ = servers
    page = chat(script(), tools_of(first.url("/one"), include="add"), questions="What?\nHow?")
    start = page.call("start")
    assert start["suggestions"] == ["What?", "How?"]
    assert start["tools"] == [{"name": "add", "server": first.url("/one")}]
    assert start["hands_on"] is False
    assert start["can_hand_on"] is True


def test_tables_of_workflows_are_shown_known_later_and_handed_on(
    chat, executed, script, workflow_tool, rows_of
):
    import pyarrow as pa

    tools = workflow_tool("Report", outputs=["Report"])
    model = script(calls(call("Report")), says("Made."), says("Yes."))
    page = chat(
        model,
        tools,
        ask_first="rules",
        tool_handler=lambda *_: ("ready", [pa.table({"city": ["Ulm", *[None] * 24], "orders": range(25)})]),
    )
    page.answered("Make it.")
    assert page.of("result")[0]["status"] == "ok", page.of("result")
    (table,) = page.of("table")
    assert (table["columns"], table["total"]) == (["city", "orders"], 25)
    assert table["rows"] == [["Ulm", "0"], *(["?", str(orders)] for orders in range(1, 20))]
    page.answered("Do you still know it?")
    listed = [m["content"] for m in model.requests[2].messages if "Data repository" in str(m["content"])]
    assert '"city"' in listed[-1]
    result = executed(model, tools, view_data=page.hand_on())
    assert result.ok, result.failure
    assert [row["city"] for row in result.outputs[2].to_pylist()] == ["Ulm", *[None] * 24]


def test_the_journal_of_a_chat_is_readable_for_its_user_only(chat, script):
    page = chat(script(says("Hello.")))
    page.answered("Hello?")
    handed_on = page.hand_on()
    data = handed_on["data"] if isinstance(handed_on, dict) else json.loads(handed_on.data())
    folder = Path(data["journal"]).parent
    assert folder.stat().st_mode & 0o077 == 0


def test_what_a_person_decides_on_has_nothing_invisible(chat, script, servers, tools_of):
    first, _ = servers
    hidden = "a\u202eb\U000e0041\x1b[31m"
    model = script(calls(call("add", {"a": 1, "b": 2, "note": hidden})))
    page = chat(model, tools_of(first.url("/one")))
    page.call("ask", "Add.")
    asked = page.until("ask")
    assert hidden not in asked["arguments"]
    assert json.loads(asked["arguments"])["note"] == hidden
    assert asked["arguments"].isascii()
    page.call("stop")
    page.done()
