"""``knime-mcp chat`` on a terminal: a scripted model, a real server, and what people type and see."""

import json
import re

import pytest

from tests.support import peers
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.noting import noting_server
from tests.support.typed_terminal import Terminal


@pytest.fixture
def chat(server, tmp_path):
    """Starts a chat with a scripted model; at the end the script was played."""
    opened, models = [], []

    def start(*turns, more=(), command=("chat",), servers=(server.url,)):
        model = ChatServer(turns)
        model.__enter__()
        models.append(model)
        url = ["--model-url", model.url, "--model", "test-model"]
        named = [word for url in servers for word in ("--server", url)]
        opened.append(Terminal(tmp_path, *command, *url, *named, *more))
        return opened[-1], model

    yield start
    for terminal in opened:
        terminal.close()
    for model in models:
        model.__exit__()
    assert [(model.complaints, model.unplayed) for model in models] == [([], 0)] * len(models)


@pytest.fixture(scope="module")
def asking():
    with peers.running(peers.asking()) as server:
        yield server.url("/mcp")


@pytest.fixture
def noted(tmp_path):
    """A server with a name, one of whose tools is said to read only."""
    with peers.running(noting_server(tmp_path / "notes.txt")) as server:
        entry = {"url": server.url("/mcp")}
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"noted": entry}}))
        yield server


ADD = calls(call("add", {"a": 40, "b": 2}))


def test_a_conversation(chat, tmp_path):
    terminal, model = chat(ADD, says("It is 42."), says("Yes."), says("No."))
    terminal.until("tools. /help")
    terminal.until("> ")
    terminal.type("What is 40 + 2?")
    terminal.until("May add be called")
    terminal.until("e(dit): ")
    terminal.type("y")
    terminal.until("It is 42.")
    terminal.until("> ")
    terminal.type("Sure?")
    terminal.until("Yes.")
    terminal.until("> ")
    terminal.type("/undo")
    terminal.until("Forgotten")
    terminal.type("Really?")
    terminal.until("No.")
    terminal.until("> ")
    terminal.type("/tools")
    terminal.until("add")
    terminal.type("/cost")
    terminal.until("1 tool calls")
    terminal.type("/save talk.json")
    terminal.until("6 messages are in talk.json")
    terminal.type("/exit")
    assert terminal.ends() == 0
    saved = json.loads((tmp_path / "talk.json").read_text(encoding="utf-8"))
    assert [row["Role"] for row in saved] == ["user", "ai", "tool", "ai", "user", "ai"]
    asked = [message["content"] for message in model.requests[-1].messages if message["role"] == "user"]
    assert asked == ["What is 40 + 2?", "Really?"]
    assert all(request.body["stream"] for request in model.requests)


def recorded(file):
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [(line["status"], line["decision"], line.get("result")) for line in lines if line.get("status")]


def test_a_person_decides_about_a_call_of_an_agent(chat, tmp_path):
    more = ["--ask", "--audit", "run.jsonl"]
    terminal, _ = chat(ADD, says("done"), more=more, command=("agent", "What is 40 + 2?"))
    terminal.until("e(dit): ")
    terminal.type("y")
    terminal.until("done")
    assert terminal.ends() == 0
    assert recorded(tmp_path / "run.jsonl") == [("ok", "allowed by a person", "42")]


def test_a_person_decides_about_each_call(chat, tmp_path):
    decisions = [
        (["no too much"], ("denied", "denied by a person: too much", None)),
        (["what", "yes please", "n too much", "n"], ("denied", "denied by a person", None)),
        (["e", "{no", "e", '{"a": 1, "b": 2}'], ("ok", "edited by a person: a", "3")),
        (["a", "n", "y"], ("ok", "allowed by a person", "42")),
        (["a", "y"], ("ok", "allowed by a person, for all calls of the tool", "42")),
        ([], ("ok", "allowed by a person, for all calls of the tool", "42")),
    ]
    terminal, _ = chat(*[ADD, says("done")] * len(decisions), more=["--audit", "run.jsonl"])
    for typed, _ in decisions:
        terminal.until("> ")
        terminal.type("What is 40 + 2?")
        for before, line in zip(["", *typed], typed, strict=False):
            terminal.until(
                "JSON: " if line.startswith("{") else "n(o) or no and why: " if before == "a" else "e(dit): "
            )
            terminal.type(line)
        terminal.until("done")
    terminal.until("> ")
    terminal.type("/exit")
    assert terminal.ends() == 0
    assert recorded(tmp_path / "run.jsonl") == [record for _, record in decisions]


def test_control_c_stops_the_turn_and_not_the_program(chat, server, until):
    slow = calls(call("slow", {"seconds": 60, "label": "chat-stop"}))
    terminal, _ = chat(slow, says("Still here."), more=["--rule", "allow *"])
    terminal.until("> ")
    terminal.type("Wait.")
    until(lambda: "started chat-stop" in server.said(), "the call reached the server")
    terminal.interrupt()
    terminal.until("Stopped.")
    terminal.until("> ")
    terminal.type("Hello?")
    terminal.until("Still here.")
    terminal.until("> ")
    terminal.type("/exit")
    assert terminal.ends() == 0


def test_a_saved_conversation_goes_on(chat, tmp_path):
    rows = [{"Role": "user", "Conversation": "My name is Ada."}, {"Role": "ai", "Conversation": "Hello Ada."}]
    (tmp_path / "talk.json").write_text(json.dumps(rows), encoding="utf-8")
    command = ("agent", "Who am I?")
    terminal, model = chat(says("Ada."), more=["--history", "talk.json"], command=command)
    terminal.until("Ada.")
    assert terminal.ends() == 0
    assert [m["content"] for m in model.requests[0].messages][1:] == [
        "My name is Ada.",
        "Hello Ada.",
        "Who am I?",
    ]


def test_without_a_terminal_nobody_is_asked(cli, server):
    with ChatServer([ADD, says("no")]) as model:
        url = ["--model-url", model.url, "--model", "test-model", "--server", server.url]
        done = cli("agent", "x", "--ask", *url)
    assert (done.code, done.out) == (0, "no\n")
    assert re.search(r"add denied", done.err)
    assert "nobody can be asked" in done.err


def test_a_server_asks_for_a_form(chat, asking):
    answers = [
        (["", "Ada", "many", "3", "2", "yes"], "accept Order(name='Ada', pieces=3, size='large', gift=True)"),
        (["Ada", "", "", ""], "accept Order(name='Ada', pieces=1, size='small', gift=None)"),
        (["Ada", "/decline"], "decline None"),
        (["/cancel"], "cancel None"),
    ]
    turns = [calls(call("order")), says("Done.")] * len(answers)
    terminal, _ = chat(*turns, more=["--rule", "allow *"], servers=[asking])
    for typed, action in answers:
        terminal.until("> ")
        terminal.type("Order.")
        terminal.until("Who orders?")
        for line in typed:
            terminal.until("]: ")
            terminal.type(line)
        assert action in terminal.until("Done.")


def test_a_server_asks_the_model(chat, asking):
    summarize = calls(call("summarize", {"text": "x"}))
    terminal, model = chat(
        summarize, says("Short."), says("Done."), more=["--rule", "allow *"], servers=[asking]
    )
    terminal.until("> ")
    terminal.type("Summarize.")
    terminal.until("the server wants to ask your model")
    terminal.until("e(dit): ")
    terminal.type("y")
    terminal.until("get this answer of your model?")
    assert '"text": "Short."' in terminal.until("e(dit): ")
    terminal.type("e")
    terminal.until("one line of JSON: ")
    terminal.type('{"text": "Shorter."}')
    assert "test-model: Shorter." in terminal.until("Done.")
    assert [message["content"] for message in model.requests[1].messages][:1] == ["Be short."]


def test_prompts_of_servers(chat, asking):
    terminal, model = chat(says("Dear Ada."), says("Dear Bob."), servers=[asking])
    terminal.until("> ")
    terminal.type("/prompts")
    terminal.until("letter to=… [tone=…]")
    terminal.until("> ")
    terminal.type("/prompts leter")
    terminal.until("There is no prompt leter")
    terminal.until("> ")
    terminal.type("/prompts letter tone=short")
    terminal.until("to: ")
    terminal.type("Ada")
    terminal.until("Dear Ada.")
    terminal.until("> ")
    terminal.type("/undo")
    terminal.until("Forgotten")
    terminal.until("> ")
    terminal.type("/prompts letter to=Bob")
    terminal.until("Dear Bob.")
    terminal.until("> ")
    texts = [message["content"] for request in model.requests for message in request.messages[1:]]
    assert texts == ["Write a short letter to Ada.", "Write a friendly letter to Bob."]


def test_sigterm_at_the_prompt_and_in_a_turn_ends_the_chat(chat, server, until):
    slow = calls(call("slow", {"seconds": 60, "label": "chat-term"}))
    at_prompt, _ = chat()
    in_turn, _ = chat(slow, more=["--rule", "allow *"])
    in_turn.until("> ")
    in_turn.type("Wait.")
    at_prompt.until("> ")
    until(lambda: "started chat-term" in server.said(), "the call reached the server")
    for terminal in (at_prompt, in_turn):
        terminal.terminate()
        assert terminal.ends() == 0


def test_why_it_asks_and_how_to_trust_are_said_and_what_is_trusted_is_not_asked(chat, noted, cli):
    look = calls(call("look", {"text": "x"}))
    terminal, _ = chat(look, says("Looked."), servers=["noted"])
    terminal.type("Look.")
    terminal.until("May look be called")
    why = terminal.until("e(dit): ")
    assert "the server is not trusted, so what it says of its tools does not count" in why
    assert "The server says that this tool only reads." in why
    assert "knime-mcp config trust noted" in why
    terminal.type("n")
    terminal.until("Looked.")
    terminal.type("/exit")
    assert cli("config", "trust", "noted").code == 0
    terminal, _ = chat(
        look, says("Seen."), calls(call("note", {"text": "x"})), says("Done."), servers=["noted"]
    )
    terminal.type("Look.")
    assert "May look" not in terminal.until("Seen.")
    terminal.type("Note.")
    terminal.until("May note be called")
    assert "config trust" not in terminal.until("e(dit): ")
    terminal.type("y")
    terminal.until("Done.")
