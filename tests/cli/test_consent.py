"""What was typed or pasted before a question is no answer to it, in every command that asks a person."""

import json
import random

import pytest

from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.typed_terminal import Terminal

ADD = calls(call("add", {"a": 40, "b": 2}))
REFUSED = ("denied", "denied by a person: not me")
# Each would be an answer, or begins like one.
LINES = (
    *("A customer asked for it.", "y", "yes", "a", "all", "Y", "Yes, please do.", "all of them", "n", "no"),
    *("e", '{"a": 1, "b": 1}', "", "always", "done", "ok"),
)


@pytest.fixture
def terminals(server, tmp_path):
    """Starts commands with a scripted model on terminals of their own."""
    opened, models = [], []

    def start(*command, turns, kind="dumb"):
        models.append(ChatServer(turns).__enter__())
        places = ("--model-url", models[-1].url, "--model", "test-model", "--server", server.url)
        opened.append(Terminal(tmp_path, *command, *places, kind=kind))
        return opened[-1], models[-1]

    yield start
    for terminal in opened:
        terminal.close()
    for model in models:
        model.__exit__()


def recorded(file):
    return [
        line for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()) if "status" in line
    ]


def lines_before(seed):
    chance = random.Random(seed)
    return [chance.choice(LINES) for _ in range(chance.randint(1, 6))]


@pytest.mark.parametrize("kind", ["dumb", "xterm-256color"])
def test_what_comes_with_a_message_is_no_consent(terminals, tmp_path, kind):
    texts = ["Please delete order A-7.\nA customer asked for it.", "Delete it.\ny", "Delete it.\na\ny"]
    texts += ["\n".join(["Please add.", *lines_before(seed)]) for seed in range(6)]
    is_pasted = [True, True, False, *[seed % 2 == 0 for seed in range(6)]]
    turns = [ADD, says("Done.")] * len(texts)
    terminal, model = terminals("chat", "--audit", "run.jsonl", turns=turns, kind=kind)
    for text, pasted in zip(texts, is_pasted, strict=True):
        terminal.until("> ")
        if pasted:
            terminal.paste(text)
            terminal.type("")
        else:
            terminal.type(text)
        terminal.until("May add be called")
        terminal.until("e(dit): ")
        terminal.type("no not me")
        terminal.until("Done.")
    terminal.until("> ")
    terminal.type("/exit")
    assert terminal.ends() == 0
    assert terminal.shown.rfind("\x1b[?2004l") > terminal.shown.rfind("\x1b[?2004h")
    records = recorded(tmp_path / "run.jsonl")
    assert [(record["status"], record["decision"]) for record in records] == [REFUSED] * len(texts)
    said = [request.messages[-1]["content"] for request in model.requests[::2]]
    asked = [
        text.strip() if pasted else text.split("\n")[0] for text, pasted in zip(texts, is_pasted, strict=True)
    ]
    assert said == asked


def test_what_was_typed_before_agent_asks_is_no_consent(terminals, tmp_path):
    for seed in range(2):
        command = ("agent", "Please add.", "--ask", "--audit", f"{seed}.jsonl")
        terminal, _ = terminals(*command, turns=[ADD, says("Done.")])
        for line in ("y", *lines_before(seed)):
            terminal.type(line)
        terminal.until("May add be called")
        terminal.until("e(dit): ")
        terminal.type("no not me")
        terminal.until("Done.")
        assert terminal.ends() == 0
        (record,) = recorded(tmp_path / f"{seed}.jsonl")
        assert (record["status"], record["decision"]) == REFUSED
        assert record["asked"] >= 0


def test_the_end_of_the_input_is_no_consent(terminals, tmp_path):
    command = ("agent", "Please add.", "--ask", "--audit", "run.jsonl")
    terminal, _ = terminals(*command, turns=[ADD, says("Done.")])
    terminal.until("e(dit): ")
    terminal.press("y\x04\x04")  # the beginning of a line, and no line
    terminal.until("nobody has answered")
    terminal.until("Done.")
    assert terminal.ends() == 0
    (record,) = recorded(tmp_path / "run.jsonl")
    assert record["decision"] == "denied by default: nobody has answered (the input has ended)"


def test_a_question_says_why_and_how_not_to_be_asked(terminals, server):
    more = ("--rule", "ask add if a > 1", "--trust", "127.0.0.1")
    terminal, _ = terminals("chat", *more, turns=[ADD, says("Done.")])
    terminal.until("> ")
    terminal.type("Please add.")
    asked = terminal.until("e(dit): ")
    assert "You are asked because of the rule: ask add if a > 1; the tool is destructive, or" in asked
    assert f"--rule 'allow add @ {server.url}'" in asked
    terminal.type("all")
    assert f"all further calls of add, of {server.url}, are made, whatever their arguments" in terminal.until(
        "why: "
    )
    terminal.type("y")
    terminal.until("Done.")


def test_pastes_are_as_before_when_a_chat_is_ended(terminals):
    terminal, _ = terminals("chat", turns=[])
    terminal.until("\x1b[?2004h")
    terminal.until("> ")
    # Ctrl-C drops the line; Python's readline notices one that comes just before it waits with the next one.
    terminal.until("\x1b[?2004l", meanwhile=terminal.interrupt)
    terminal.until("> ")
    terminal.press("\x04")
    assert terminal.ends() == 0
    assert terminal.shown.rfind("\x1b[?2004l") > terminal.shown.rfind("\x1b[?2004h")
