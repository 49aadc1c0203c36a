"""Where ``knime-mcp graph run`` asks a person: options, the terminal, and nobody."""

import json

import pytest

from tests.graph.graphs import ENTRY, EXIT, one_tool, transform
from tests.support.typed_terminal import Terminal

NODES = (
    ENTRY,
    '{id: x, type: approve, message: {expr: \'"Delete " & entry.path & "?"\'}, next: y}',
    transform("{'said': x}", node="y"),
    EXIT,
)
RUN = ("graph", "run", "g.yaml", "t", "path=/a")


@pytest.fixture(autouse=True)
def graph(tmp_path):
    (tmp_path / "g.yaml").write_text(one_tool(*NODES), "utf-8")


def test_options_decide(cli):
    done = cli(*RUN, "--approve", "x")
    assert (done.code, done.json) == (0, {"said": {"approved": True, "by": "option --approve"}})
    done = cli(*RUN, "--deny", "x")
    assert (done.code, done.out) == (1, "")
    assert "Denied by option --deny" in done.err
    done = cli(*RUN, "--approve", "y")
    assert (done.code, done.out) == (2, "")
    assert "no approve node 'y'" in done.err


def test_without_a_terminal_nobody_is_asked(cli):
    done = cli(*RUN)
    assert (done.code, done.out) == (1, "")
    assert "nobody can be asked: Delete /a?" in done.err


def test_a_person_decides_at_the_terminal(tmp_path):
    terminal = Terminal(tmp_path, *RUN)
    try:
        terminal.until("x asks: Delete /a?")
        for typed in ("perhaps", "yes it is old", "yes"):
            terminal.until("y(es), n(o) or no and why: ")
            terminal.type(typed)
        assert terminal.ends() == 0
        said = json.loads(terminal.shown[terminal.shown.index("{\r\n") :].replace("\r", ""))
    finally:
        terminal.close()
    assert said == {"said": {"approved": True, "by": "a person"}}


def test_a_recorded_case_has_the_decision(cli):
    assert cli("graph", "record", *RUN[2:], "--approve", "x", "--name", "yes").code == 0
    done = cli("graph", "test", "g.yaml")
    assert (done.code, done.out) == (0, "ok    yes\ng.yaml: 1 case, 0 failed, 4 of 4 nodes ran\n")
