"""The node *MCP Prompt*."""

import base64

import pyarrow as pa
import pytest

from tests.support.scripted_server import ScriptedServer, legacy, rpc

pytestmark = pytest.mark.quick


NODE = "mcp_prompt"
GREET = {
    "name": "greet",
    "description": "Greets.",
    "arguments": [{"name": "who", "description": "Whom", "required": True}, {"name": "tone"}],
}


def filled_in(request):
    given = request.params.get("arguments", {})
    picture = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}
    file = {"type": "resource", "resource": {"uri": "a:b", "text": "from a file"}}
    messages = [
        {
            "role": "user",
            "content": {"type": "text", "text": f"Greet {given.get('who')}, {given.get('tone')}"},
        },
        {"role": "user", "content": picture},
        {"role": "user", "content": file},
        {"role": "assistant", "content": {"type": "text", "text": "Hello"}},
    ]
    return rpc({"messages": messages})(request)


@pytest.fixture
def server():
    with ScriptedServer(legacy(prompts__list=rpc({"prompts": [GREET]}), prompts__get=filled_in)) as running:
        yield running


@pytest.fixture
def prompt(host, server, tmp_path):
    def run(rows=None, **settings):
        arguments = settings.pop("arguments", {})
        settings["arguments"] = [{"name": name, "value": value} for name, value in arguments.items()]
        table = None if rows is None else host.table(pa.table(rows))
        given = {"server_url": server.url, "prompt": "greet", **settings}
        return host.run(NODE, [table, None], given, workflow_dir=tmp_path / "workflow")

    return run


def messages(result):
    assert result.ok, result.failure
    assert not result.problems
    return result.outputs[0].to_pylist()


def test_prompts_are_listed(prompt, server):
    result = prompt(prompt="")
    assert messages(result) == []
    (listed,) = result.outputs[1].to_pylist()
    assert listed["Arguments"] == "who: Whom\ntone"
    assert listed["Required"] == "who"
    assert listed["Digest"].startswith("sha256:")
    assert server.named("prompts/get") == []


def test_a_prompt_is_filled_in(prompt):
    rows = messages(prompt(arguments={"who": "Ada", "tone": "kindly"}))
    assert [row["Role"] for row in rows] == ["user", "user", "user", "ai"]
    assert rows[0]["Text"] == "Greet Ada, kindly"
    assert rows[1]["File"].endswith(".png")
    assert rows[2]["Text"] == "from a file"


def test_once_per_row_where_the_rows_own_values_win(prompt):
    rows = messages(prompt({"who": ["Ada", None], "tone": [None, "x"]}, arguments={"tone": "kindly"}))
    assert rows[0]["Text"] == "Greet Ada, kindly"
    assert rows[4]["Input row"] == "Row1"
    assert "needs who" in rows[4]["Error"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"prompt": "gret"}, "Choose one of greet"),
        ({"arguments": {"who": "x", "whom": "y"}, "on_error": "fail"}, "It has who, tone"),
        ({"on_error": "fail"}, "needs who"),
    ],
)
def test_what_cannot_be_filled_in_says_why(prompt, settings, said):
    assert said in prompt(**settings).failure["message"]


def test_a_prompt_that_changed_is_noticed(prompt):
    digest = prompt(prompt="").outputs[1].to_pylist()[0]["Digest"]
    assert prompt(arguments={"who": "x"}, pinned_digest=digest).warnings == []
    other = "sha256:" + "0" * 64
    assert "not the one" in prompt(arguments={"who": "x"}, pinned_digest=other).warnings[-1]
    (row,) = messages(prompt(arguments={"who": "x"}, pinned_digest=other, if_changed="fail"))
    assert "not the one" in row["Error"]


def test_messages_are_the_history_of_an_agent(host, prompt):
    from knime_mcp.agents.prompter.conversation_table import conversation_columns, read_conversation

    result = prompt(arguments={"who": "Ada", "tone": "kindly"})
    table = result.outputs[0].as_input()
    column = conversation_columns(table.schema)[-1] if "Message" in result.outputs[0].column_names else "Text"
    entries = read_conversation(table, column)
    assert [type(entry.message).__name__ for entry in entries] == ["HumanMessage"] * 3 + ["AIMessage"]
