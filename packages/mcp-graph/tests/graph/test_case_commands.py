"""``mcpgraph record``, ``test`` and ``eval``, and ``check`` with a server."""

import json

import pytest

from tests.graph.graphs import ENTRY, EXIT, SERVER, call, tool, transform, yaml

NODES = (
    call("echo", "{n: {expr: entry.n}}", following="y"),
    transform("{'twice': x.received.n * 2}", node="y"),
)


@pytest.fixture
def graph(tmp_path):
    file = tmp_path / "g.yaml"
    file.write_text(yaml(tool(ENTRY, *NODES, EXIT)), "utf-8")
    return file


def test_record_then_test_without_the_server(cli, graph, tmp_path):
    done = cli("mcpgraph", "record", "g.yaml", "t", "n:=4", "--name", "four")
    assert done.code == 0, done.err
    assert "Saved 'four' in g.tests.json: entry → x → y → exit, 1 call" in done.err
    assert cli("mcpgraph", "record", "g.yaml", "t", "n:=5", "--name", "five").code == 0
    text = graph.read_text("utf-8")
    graph.write_text(
        text.replace(SERVER, "mcpServers:\n  fx: {command: /nowhere, args: ['${NOT_SET}']}\n"), "utf-8"
    )
    done = cli("mcpgraph", "test", "g.yaml")
    assert (done.code, done.out) == (
        0,
        "ok    four\nok    five\ng.yaml: 2 cases, 0 failed, 4 of 4 nodes ran\n",
    )
    graph.write_text(text.replace("n * 2", "n * 3"), "utf-8")
    done = cli("mcpgraph", "test", "g.yaml", "--case", "five")
    assert done.code == 1
    assert "FAIL  five\n      result.twice: expected 10, got 15\n" in done.out
    told = cli("mcpgraph", "test", "g.yaml", "--json").json
    assert told["ok"] is False
    assert told["nodes"] == {"all": 4, "ran": 4, "never": []}
    assert [one["failures"] for one in told["cases"]] == [
        ["result.twice: expected 8, got 12"],
        ["result.twice: expected 10, got 15"],
    ]


def test_a_case_of_the_same_name_is_replaced(cli, graph, tmp_path):
    for number in (1, 2):
        assert cli("mcpgraph", "record", "g.yaml", "t", f"n:={number}", "--name", "one").code == 0
    (case,) = json.loads((tmp_path / "g.tests.json").read_text("utf-8"))["cases"]
    assert case["arguments"] == {"n": 2}


def test_check_online_looks_into_results(cli, graph):
    nodes = call("measure", following="y"), transform("{'a': x.size.widht}", node="y")
    graph.write_text(yaml(tool(ENTRY, *nodes, EXIT)), "utf-8")
    assert cli("mcpgraph", "check", "g.yaml", "--strict").code == 0
    done = cli("mcpgraph", "check", "g.yaml", "--online", "--strict")
    assert done.code == 1
    assert "the outputSchema of 'measure' has no field 'widht' in 'x.size'" in done.err
    assert "Did you mean 'width'?" in done.err


def test_what_does_not_repeat_is_told_at_once(cli, graph):
    graph.write_text(graph.read_text("utf-8").replace("x.received.n * 2", "$random()"), "utf-8")
    done = cli("mcpgraph", "record", "g.yaml", "t", "n:=4")
    assert done.code == 1
    assert "The case does not repeat itself" in done.err
    assert "result.twice: expected" in done.err


def test_what_cannot_be_tested(cli, graph, tmp_path):
    done = cli("mcpgraph", "test", "g.yaml")
    assert done.code == 2
    assert "mcpgraph record g.yaml TOOL" in " ".join(done.err.split())
    (tmp_path / "g.tests.json").write_text('{"cases": []}')
    assert "has no cases" in cli("mcpgraph", "test", "g.yaml").err
    (tmp_path / "g.tests.json").write_text('{"cases": [{"name": "one", "tool": "t"}]}')
    done = cli("mcpgraph", "test", "g.yaml", "--case", "on")
    assert done.code == 2
    assert "Did you mean 'one'?" in done.err
    done = cli("mcpgraph", "test", "g.yaml")
    assert done.code == 1
    assert "no reply is recorded for 'echo' on 'fx' with {}" in done.out
    done = cli("mcpgraph", "record", "g.yaml", "tt")
    assert done.code == 1
    assert "Tool not found: tt" in done.err
