"""What was said in a chat outlives its view, a reset of its node, and KNIME."""

import pytest

from knime_mcp.agents.chat.kept_chat import ChatFolder, KeptChat
from knime_mcp.audit.journal import new_run_id
from knime_mcp.audit.verify import verify_file
from tests.audit.calls import write_run
from tests.support.chat_server import call, calls, says
from tests.support.scripted_server import ScriptedServer, discover, modern, rpc
from tests.support.waiting import until

ADD = calls(call("add", {"a": 1, "b": 2}))
FREE = {"ask_first": "rules"}


@pytest.fixture
def opened(chat, executed):
    """A page as KNIME opens it: behind an executed node, with the settings that it has set."""

    def begin(model, tools, **more):
        settings = executed(model, tools, **more).parameters["model"]
        return chat(model, tools, **settings)

    return begin


def test_a_chat_is_given_out_after_a_reset_and_goes_on_in_the_next_view(
    opened, executed, script, servers, tools_of, rows_of, tmp_path
):
    """KNIME asks the open view for its data at a reset, and forgets them if nobody has handed on."""
    tools = tools_of(servers[0].url("/one"))
    model = script(ADD, says("It is 3."), says("Still 3."))
    page = opened(model, tools, **FREE)
    page.answered("What is 1 and 2?")
    page.hand_on()
    result = executed(model, tools, **FREE)
    assert len(rows_of(result, 0)) == 4
    assert [row["Tool name"] for row in rows_of(result, 1)] == ["add"]
    (journal,) = (tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl")
    assert verify_file(journal, head=result.flow_variables["mcp_audit_head"]).findings == ()
    later = opened(model, tools, **FREE)
    later.answered("Are you sure?")
    assert [event["kind"] for event in later.events][:4] == ["question", "call", "result", "answer"]
    again = executed(model, tools, view_data=later.hand_on(), **FREE)
    assert len(rows_of(again, 0)) == 6
    assert [row["Tool name"] for row in rows_of(again, 1)] == ["add"]


def test_a_page_that_is_loaded_again_has_the_conversation_and_undoes_it(opened, executed, script, rows_of):
    """Also where KNIME has ended the service of the page before, without a word."""
    model = script(says("One."), says("Two."))
    page = opened(model, None)
    page.answered("First?")
    again = opened(model, None)
    again.answered("Second?")
    assert [event["text"] for event in again.of("answer")] == ["One.", "Two."]
    assert "another view" in page.call("ask", "Third?")  # and nothing of the other is written over
    again.call("undo")
    assert len(rows_of(executed(model), 0)) == 2


@pytest.mark.parametrize("moment", ["waits for the person", "is on its way"])
def test_knime_is_closed_while_a_call_is_under_way(
    moment, opened, executed, chat, script, servers, tools_of, rows_of, chats
):
    tools = tools_of(servers[0].url("/one"))
    waits = calls(call("wait", {"seconds": 600}))
    model = script(calls(call("add", {"a": 1})), says("It is 2."), waits)
    page = opened(model, tools, rules="allow add")
    page.answered("What is 1 and 1?")
    page.call("ask", "Wait for me")
    asked = page.until("ask")
    if moment == "is on its way":
        page.call("decide", asked["number"], "allow")
        (journal,) = chats.glob("*/*.jsonl")
        until(lambda: '"tool":"wait"' in journal.read_text())
    result = executed(model, tools, rules="allow add")  # in a KNIME that was started anew
    assert len(rows_of(result, 0)) == 4
    assert [row["Tool name"] for row in rows_of(result, 1)] == ["add"]
    (warning,) = result.warnings
    assert "ask it again: Wait for me" in warning
    assert ("unknown: wait" in warning) == (moment == "is on its way")
    assert result.flow_variables["mcp_audit_head"]
    later = chat(model, tools, **result.parameters["model"])
    later.poll()
    assert "ask it again: Wait for me" in later.of("note")[0]["text"]
    page.call("stop")
    page.done()


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def drawing(request):
    """A picture and records, which say which call it was."""
    number = request.params["arguments"]["n"]
    picture = {"type": "image", "mimeType": "image/png", "data": PIXEL}
    rows = [{"n": number, "name": f"row {i}"} for i in range(3)]
    content = [picture, {"type": "text", "text": f"drawn {number}"}]
    return rpc({"content": content, "structuredContent": {"rows": rows}, "resultType": "complete"})(request)


def test_ten_calls_with_pictures_and_records_are_handed_on_and_kept(
    opened, executed, script, tools_of, rows_of, chats
):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = {"name": "draw", "inputSchema": schema, "annotations": {"readOnlyHint": True}}
    listed = rpc({"tools": [tool], "resultType": "complete"})
    with ScriptedServer(
        modern(server__discover=discover(), tools__list=listed, tools__call=drawing)
    ) as server:
        tools = tools_of(server.url)
        turns = [turn for n in range(10) for turn in (calls(call("draw", {"n": n})), says(f"Drawn {n}."))]
        model = script(*turns)
        page = opened(model, tools, **FREE)
        for n in range(10):
            page.answered(f"Draw {n}")
        assert [len(card["pictures"]) for card in page.of("result")] == [1] * 10
        handed_on = page.hand_on()
        for view_data in (handed_on, None):
            result = executed(model, tools, view_data=view_data, outputs=2, **FREE)
            assert result.ok, result.failure
            assert [row["Call"] for row in rows_of(result, 1)] == list(range(1, 11))
            said = [part.type.value for row in rows_of(result, 0) for part in row["Conversation"].content]
            texts = [part.data for row in rows_of(result, 0) for part in row["Conversation"].content]
            assert [f"Drawn {n}.".encode() in texts for n in range(10)] == [True] * 10
            assert said.count("png") == 10
            for output, n in ((2, 8), (3, 9)):
                rows = result.outputs[output].to_pylist()
                assert [(row["n"], row["name"]) for row in rows] == [(n, f"row {i}") for i in range(3)]
        (kept,) = chats.glob("*/chat.json")
        assert kept.read_text().count(PIXEL) == 10
        assert kept.stat().st_mode & 0o077 == 0


def test_a_journal_that_cannot_be_closed_is_told_and_loses_nothing(
    opened, executed, script, servers, tools_of, rows_of, chats
):
    """Otherwise KNIME loses the conversation, and no message says so."""
    tools = tools_of(servers[0].url("/one"))
    model = script(ADD, says("It is 3."))
    page = opened(model, tools, **FREE)
    page.answered("What is 1 and 2?")
    (journal,) = chats.glob("*/*.jsonl")
    with journal.open("a") as file:
        file.write("{}\n")
    result = executed(model, tools, view_data=page.hand_on(), **FREE)
    assert result.ok, result.failure
    assert len(rows_of(result, 0)) == 4
    assert [row["Tool name"] for row in rows_of(result, 1)] == ["add"]
    assert "Somebody else wrote into it" in result.warnings[0]


def test_what_was_said_before_knime_was_opened_comes_first(chat, opened, executed, script, rows_of):
    """KNIME does not know what the node has set, once the workflow was closed."""
    model = script(says("One."), says("Two."))
    opened(model, None).answered("First?")
    orphan = chat(model)
    assert orphan.call("start")["finds_earlier"] is False
    orphan.answered("Second?")
    for view_data in (orphan.hand_on(), None):
        result = executed(model, view_data=view_data)
        said = [row["Conversation"].content[0].data.decode() for row in rows_of(result, 0)]
        assert said == ["First?", "One.", "Second?", "Two."]


def test_a_chat_is_started_over(opened, executed, script, servers, tools_of, rows_of):
    tools = tools_of(servers[0].url("/one"))
    model = script(ADD, says("It is 3."), says("Hello."))
    page = opened(model, tools, **FREE)
    page.answered("What is 1 and 2?")
    assert page.call("start_over") is None
    later = opened(model, tools, **FREE)
    later.poll()
    assert later.events == []
    later.answered("Hello?")
    assert [
        len(message["content"]) for message in model.requests[-1].messages if message["role"] == "user"
    ] == [6]
    result = executed(model, tools, **FREE)
    assert len(rows_of(result, 0)) == 2
    assert [row["Tool name"] for row in rows_of(result, 1)] == ["add"]  # it was called


def test_a_new_workflow_where_another_one_was_has_a_chat_of_its_own(
    opened, executed, script, rows_of, tmp_path
):
    file = tmp_path / "workflow" / "workflow.knime"
    file.parent.mkdir()
    line = '<config key="authorInformation"><entry key="authored-when" type="xstring" value="{}"/></config>'
    first, second = (line.format(f"2026-11-0{day} 10:00:00 +0100") for day in (1, 2))
    model = script(says("One."))
    file.write_text(first)
    opened(model, None).answered("First?")
    file.write_text(second)
    page = opened(model, None)
    page.poll()
    assert page.events == []
    file.write_text(f"<!-- saved again -->{first}")
    assert len(rows_of(executed(model), 0)) == 2


def test_a_kept_chat_that_is_broken_is_told(opened, executed, script, chats):
    model = script(says("One."))
    opened(model, None).answered("First?")
    (kept,) = chats.glob("*/chat.json")
    kept.write_text("{")
    result = executed(model)
    assert not result.ok
    assert str(kept.parent) in result.failure["message"]
    assert "move the folder away" in result.failure["message"]


def test_a_workflow_cannot_name_any_folder(chat, script, tmp_path):
    (tmp_path / "chat.json").write_text("{}")
    page = chat(script(), chat="../../../..")
    assert page.call("start")["finds_earlier"] is False
    assert page.call("start")["problem"] == ""


def test_a_journal_that_cannot_be_begun_is_said_in_the_view(chat, script, monkeypatch):
    monkeypatch.setenv("KNIME_MCP_AUDIT_FSYNC", "often")
    page = chat(script())
    assert "KNIME_MCP_AUDIT_FSYNC is 'often'" in page.call("start")["problem"]
    assert "KNIME_MCP_AUDIT_FSYNC" in page.call("ask", "Well?")


@pytest.mark.parametrize("name", ["private.key", "chat.json", "notes.jsonl"])
def test_a_workflow_cannot_have_any_file_copied(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("secret")
    folder = ChatFolder("0" * 64)
    kept = folder.joined(KeptChat(), [], str(tmp_path / "mine" / name))
    (tmp_path / "workflow").mkdir()
    folder.give_journals(kept, tmp_path / "workflow")
    assert kept.journals == ()
    assert list((tmp_path / "workflow").iterdir()) == []


def test_all_files_of_a_journal_are_given_with_the_workflow(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("KNIME_MCP_AUDIT_PART", "300")
    journal = tmp_path / f"{new_run_id()}.jsonl"
    write_run(journal, 3)
    folder = ChatFolder("0" * 64)
    (tmp_path / "workflow").mkdir()
    folder.give_journals(folder.joined(KeptChat(), [], str(journal)), tmp_path / "workflow")
    there = {file.name for file in (tmp_path / "workflow").iterdir()}
    assert there == {file.name for file in tmp_path.glob("*.jsonl*")}
    assert len(there) > 1
