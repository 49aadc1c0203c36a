"""``knime-nodes`` for people: search, show, types, in a process of its own."""

import json

import pytest


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home where no catalogue was built."""
    folder = tmp_path_factory.mktemp("home")
    return {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_DATA_HOME": str(folder / "data")}


@pytest.fixture
def nodes(cli, home):
    """Runs a command of the group there."""
    return lambda *arguments: cli("knime-nodes", *arguments, env=home)


def test_search_finds_by_what_other_tools_call_it(nodes):
    done = nodes("search", "VLOOKUP")
    assert done.code == 0, done.err
    assert "Value Lookup" in done.out
    assert "vlookup (Excel)" in done.out
    assert "spec pack workflow-engine" in done.err


def test_search_as_json_is_what_the_tool_answers(nodes):
    done = nodes("search", "group", "by", "-n", "1", "--json")
    assert [node["name"] for node in done.json["nodes"]] == ["GroupBy"]
    assert done.json["catalogue"]["version"]


def test_nothing_found_is_exit_code_1(nodes):
    done = nodes("search", "qqqqqq")
    assert (done.code, "Nothing was found" in done.err) == (1, True)


def test_show_tells_ports_and_settings(nodes):
    assert "Matching criteria" in nodes("show", "Joiner").out
    done = nodes("show", "trigger.webhook")
    assert done.code == 0, done.err
    assert "TRIGGER.WEBHOOK" in done.out
    assert "Outputs" in done.out
    assert "Settings" in done.out
    assert nodes("show", "Joiner", "--json").json["input_ports"][0]["type"] == "Table"


def test_show_of_a_node_that_is_not_there_says_what_was_meant(nodes):
    done = nodes("show", "FLOW.IFF")
    assert done.code == 1
    assert "Did you mean FLOW.IF" in done.err


def test_types_are_counted_and_listed(nodes):
    done = nodes("types")
    assert done.out.index("MANIPULATOR") < done.out.index("HUMAN_IN_THE_LOOP")
    assert json.loads(nodes("types", "ACTION_NODE", "--json").out) == {
        "ACTION": ["HTTP_REQUEST", "DATA_TRANSFORMATION"]
    }
    wrong = nodes("types", "NOPE")
    assert (wrong.code, "Types: TRIGGER" in wrong.err) == (2, True)


def test_a_catalogue_that_is_missing_says_how_to_build_it(nodes, tmp_path):
    done = nodes("search", "x", "--catalogue", str(tmp_path / "none.sqlite"))
    assert done.code == 1
    assert "knime-nodes build" in done.err
