"""``knime-mcp agent``: a scripted model, a real server, a command, and what people see of it."""

import json
import shlex
import signal
import sys
import time
from pathlib import Path

import httpx
import pytest

from knime_mcp.agents.agent_events import ToolFinished
from knime_mcp.agents.model.model_errors import model_error, status_error
from knime_mcp.cli import agent_run
from knime_mcp.cli.agent import AgentSettings
from knime_mcp.cli.agent_run import AgentRun
from knime_mcp.cli.command_errors import at_terminal
from knime_mcp.cli.connection_options import ConnectionOptions
from knime_mcp.cli.terminal import Answer
from tests.support.chat_server import ChatServer, call, calls, fails, says
from tests.support.messages_server import MessagesServer

CHILD = Path(__file__).parents[1] / "client" / "stdio_child.py"
CANARY = "canary-7f3a9c51d2"


@pytest.fixture
def model():
    """Starts a scripted model; checks at the end that the script was played without a complaint."""
    running = []

    def start(*turns, **options):
        server = ChatServer(turns, **options)
        server.__enter__()
        running.append(server)
        return server

    yield start
    for server in running:
        server.__exit__()
    assert [(server.complaints, server.unplayed) for server in running] == [([], 0) for _ in running]


def words(chat, *arguments, question="What is it?"):
    return ["agent", question, "--model-url", chat.url, "--model", "test-model", *arguments]


def test_the_answer_on_one_stream_the_timeline_on_the_other(cli, server, model):
    chat = model(calls(call("add", {"a": 41, "b": 1}), text="Let me add."), says("It is 42."))
    done = cli(*words(chat, "--server", server.url))
    assert done.code == 0, done.err
    assert done.out == "It is 42.\n"
    lines = done.err.splitlines()
    assert lines[0].startswith("Turn 1 · ")
    assert lines[1] == "  Let me add."
    assert lines[2].startswith("  ⚡ MCP      add ok · ")
    assert '{"a":41,"b":1}' in lines[2]
    assert lines[3] == "    → 42"
    assert lines[4].startswith("Turn 2 · ")
    assert all(request.body["stream"] for request in chat.requests)


def test_json_page_and_journal(cli, server, model):
    chat = model(calls(call("add", {"a": 1, "b": 1})), says("<b>2</b>"))
    files = ["--html", "run.html", "--audit", "run.jsonl"]
    done = cli(*words(chat, "--server", server.url, "--json", *files, "--system", "Be brief."))
    assert done.code == 0, done.err
    answer = done.json
    assert (answer["answer"], answer["ending"], answer["iterations"]) == ("<b>2</b>", "answer", 2)
    assert answer["input_tokens"] > 0
    assert [row["role"] for row in answer["conversation"]] == ["user", "ai", "tool", "ai"]
    assert answer["calls"][0]["tool_name"] == "add"
    page = (cli.folder / "run.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;2&lt;/b&gt;" in page
    assert "<b>2</b>" not in page
    verified = cli("audit", "verify", "run.jsonl", "--json")
    assert verified.json["verdict"] == "complete in itself, but nobody vouches for it"
    assert chat.requests[0].messages[0] == {"role": "system", "content": "Be brief."}


def test_an_answer_that_must_have_a_form(cli, server, model):
    chat = model(calls(call("add", {"a": 41, "b": 1})), says("It is 42."), says('{"sum": 42}'))
    (cli.folder / "form.txt").write_text("sum: integer", encoding="utf-8")
    done = cli(*words(chat, "--server", server.url, "--answer-schema", "@form.txt", "--json"))
    assert done.code == 0, done.err
    assert done.json["structured_answer"] == {"sum": 42}
    assert done.json["answer"] == '{"sum":42}'
    never = cli(*words(model(*[says("no")] * 4), "--answer-schema", "sum: integer"))
    assert never.code != 0
    assert "does not fit the schema" in never.err
    wrong = cli(*words(model(), "--answer-schema", "sum"))
    assert wrong.code == 2
    assert "Line 1 of the schema" in wrong.err


def test_seconds_leave_out_how_long_a_person_thinks(server, model, monkeypatch):
    def thinks(*_, **__):
        time.sleep(0.5)
        return Answer("yes")

    monkeypatch.setattr(agent_run, "can_ask", lambda: True)
    monkeypatch.setattr(agent_run, "asked", thinks)
    chat = model(calls(call("add", {"a": 1, "b": 1}), call("add", {"a": 2, "b": 2})), says("Done."))
    settings = AgentSettings(model="test-model", model_url=chat.url, rule=["ask *"])
    connection = ConnectionOptions()
    run = AgentRun(settings, connection, lambda: False)
    with run.opened(routes=connection.routes([server.url]), what={"kind": "agent", "question": "?"}):
        began = time.monotonic()
        run.turn("?", [])
        passed = time.monotonic() - began
    asked = sum(record.asked for record in run.agent.records)
    assert asked >= 1.0
    assert run.answered.timeline.seconds + asked <= passed
    shown = [each.duration for each in run.answered.timeline.events if isinstance(each, ToolFinished)]
    assert len(shown) == 2
    assert sum(shown) <= passed - asked


def test_two_servers_and_a_command(cli, server, model):
    chat = model(lambda request: says(", ".join(t["function"]["name"] for t in request.body["tools"])))
    stdio = f"mine={shlex.join([sys.executable, str(CHILD), 'modern'])}"
    other = server.base + "/stateful/mcp"
    done = cli(*words(chat, "--server", server.url, "--server", other, "--stdio", stdio, "--include", "add"))
    assert done.code == 0, done.err
    assert len(set(done.out.split(", "))) >= 2


def test_a_dead_server_does_not_lose_the_others(cli, server, model):
    chat = model(lambda request: says(str(len(request.body["tools"]))))
    done = cli(*words(chat, "--server", "http://127.0.0.1:9/mcp", "--server", server.url))
    assert done.code == 0
    assert int(done.out) > 3
    assert "127.0.0.1:9" in done.err
    assert "Going on without this server." in done.err


def test_no_server_left(cli, model):
    done = cli(*words(model(), "--server", "http://127.0.0.1:9/mcp"))
    assert done.code == 1
    assert done.out == ""
    assert "cannot be reached" in done.err


def test_without_tools(cli, model):
    chat = model(says("just an answer"))
    done = cli(*words(chat))
    assert (done.code, done.out) == (0, "just an answer\n")
    assert "tools" not in chat.requests[0].body


@pytest.mark.parametrize("way", ["variable", "credential"])
def test_the_key_comes_from_the_environment(cli, model, way):
    chat = model(says("hello"), key=CANARY)
    if way == "variable":
        done = cli(*words(chat, "--api-key-env", "MY_KEY"), env={"MY_KEY": CANARY})
    else:
        done = cli(*words(chat, "--api-key", "llm"), env={"KNIME_MCP_LLM_PASSWORD": CANARY})
    assert (done.code, done.out) == (0, "hello\n")


def test_a_model_that_does_not_answer(cli, model):
    done = cli(*words(model(fails(401, "wrong key"))))
    assert done.code == 1
    assert done.out == ""
    assert "401" in done.err
    as_json = cli(*words(model(fails(401, "wrong key")), "--json"))
    assert as_json.code == 1
    assert (as_json.json["answer"], as_json.json["ending"]) == (None, "error")
    assert "401" in as_json.json["error"]


def test_limits_of_the_model_are_options(cli, model):
    chat = model(says("late").after(60), says("short"))
    done = cli(*words(chat, "--token-limit", 50, "--model-timeout", 0.5))
    assert (done.code, done.out) == (0, "short\n")
    assert "did not answer in time" in done.err
    assert chat.requests[0].body["max_completion_tokens"] == 50


def test_next_steps_in_a_nodes_dialog_are_options_here():
    late = model_error(httpx.ReadTimeout("late"), model="m", server="http://127.0.0.1/v1")
    assert "Raise 'Timeout', with --model-timeout, or" in at_terminal(late)
    refused = status_error(401, "no")
    assert "in the node" in str(refused)
    assert "with --api-key-env or --api-key" in at_terminal(refused)


def test_rules_and_failed_calls(cli, server, model):
    chat = model(calls(call("add", {"a": 1, "b": 1}), call("fail", {"why": "rain"})), says("sorry"))
    done = cli(*words(chat, "--server", server.url, "--rule", "deny add", "--rule", "allow *"))
    assert done.code == 0
    assert "add denied" in done.err
    assert "fail tool error" in done.err
    assert "It went wrong: rain" in done.err
    assert "2 of 2 tool calls failed" in done.err


def test_the_limit_still_gives_an_answer(cli, server, model):
    chat = model(*[calls(call("add", {"a": 1, "b": 1}))] * 2, says("about 2"))
    done = cli(*words(chat, "--server", server.url, "--max-iterations", "1"))
    assert (done.code, done.out) == (0, "about 2\n")
    assert "The iteration limit was reached" in done.err


def test_ctrl_c_cancels_model_and_tool(cli, server, model, until):
    chat = model(calls(call("slow", {"seconds": 60, "label": "agent-stop"})))
    process = cli.start(*words(chat, "--server", server.url, "--audit", "run.jsonl"))
    until(lambda: "started agent-stop" in server.said(), "the call reached the server")
    process.send_signal(signal.SIGINT)
    done = cli.finish(process)
    assert done.code == 3
    assert done.out == ""
    until(
        lambda: "canceled" in server.said()[server.said().index("started agent-stop") :], "the server heard"
    )
    assert (cli.folder / "run.jsonl").read_text(encoding="utf-8").splitlines()[-1].count('"canceled"') == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--audit", "run.txt"], "should end in .jsonl"),
        (["--html", "run.txt"], "should end in .html"),
        (["--html", "nowhere/run.html"], "no folder nowhere"),
        (["--api-key", "a", "--api-key-env", "B"], "cannot be used together"),
        (["--api-key", "nobody"], "There is no credential 'nobody'"),
        (["--server", "no url"], "neither a URL nor a name"),
        (["--rule", "perhaps add"], "rules for calls"),
    ],
)
def test_command_lines_that_cannot_work(cli, model, arguments, said):
    done = cli(*words(model(), *arguments))
    assert done.code == 2
    assert said in done.err


def test_the_limit_of_tokens_holds(cli, server):
    add = calls(call("add", {"a": 40, "b": 2}))
    with ChatServer([add, says("42.")]) as model:
        url = ["--model-url", model.url, "--model", "test-model", "--server", server.url]
        done = cli("agent", "x", "--json", *url, "--max-tokens", "1")
    told = json.loads(done.out)
    assert (done.code, told["answer"], told["ending"]) == (0, "42.", "iteration limit")
    assert told["calls"] == []
    assert any("The tokens are used up" in note for note in told["notes"])


def test_anthropics_models_by_their_own_protocol(cli, server):
    key = "sk-ant-secret-0123456789"
    add = calls(call("add", {"a": 40, "b": 2}), thoughts="Hm.")
    with MessagesServer([add, says("42."), fails(401)], key=key) as claude:
        where = ["--model", "anthropic:test-model", "--model-url", claude.url, "--api-key-env", "A_KEY"]
        done = cli("agent", "x", "--server", server.url, *where, env={"A_KEY": key})
        assert (done.code, done.out) == (0, "42.\n"), done.err
        done = cli("agent", "x", *where, env={"A_KEY": key})
        assert (done.code, claude.complaints, len(claude.requests)) == (1, [], 3)
        assert "does not accept the credential (401)" in done.err
    done = cli("agent", "x", "--model", "test-model")
    assert (done.code, "--model-url" in done.err) == (2, True)
