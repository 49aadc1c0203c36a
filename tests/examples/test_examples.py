"""The workflows of ``examples/``: what their script makes, sound, and running on the demo's server."""

import base64
import json
import re
from html import escape
from pathlib import Path

import pytest

from examples.knime_nodes import concatenate_node, table_creator
from knime_mcp.knwf import Connection, NativeNode, NodeState, Workflow, check
from tests.examples.running import EXAMPLES, command, run, without_nulls
from tests.support import real_knime as rig
from tests.support.archives import read_workflow
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.host import get_host
from tests.support.linear_run import LinearRun, tools_of
from tests.support.new_node import new_node

DOCS = EXAMPLES.parent / "docs"
NAMES = ["first-call", "batch", "report", "word-count-tool", "agent", "chat"]


def test_all_workflows_are_what_one_script_makes(tmp_path):
    """Whoever changes a setting of a node sees here that the examples have to be made again."""
    command("-m", "examples.make_examples", tmp_path, folder=EXAMPLES.parent)
    kept = sorted(path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.knwf"))
    assert kept == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.knwf"))
    for path in kept:
        same = read_workflow(tmp_path / path) == read_workflow(EXAMPLES / path)
        assert same, f"run: python -m examples.make_examples ({path})"


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.knwf")), ids=lambda path: path.stem)
def test_every_node_has_all_of_its_settings(path):
    """KNIME refuses a node in which one is missing."""
    own = [node for node in read_workflow(path).nodes if node.extension_id]
    assert own
    for node in own:
        assert node.parameters["model"].keys() == get_host().dialog(node.node_id)["data"]["model"].keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_workflow_is_sound_and_explains_itself(name):
    workflow = read_workflow(EXAMPLES / f"{name}.knwf")
    errors = [problem for problem in check(workflow) if "nothing is connected" not in problem.what]
    assert errors == []
    assert workflow.annotations
    assert workflow.description
    places = {(node.position.x, node.position.y) for node in workflow.nodes}
    assert len(places) == len(workflow.nodes)
    for node in workflow.nodes:
        assert isinstance(node, NativeNode)
        assert node.state is NodeState.CONFIGURED
        assert node.annotation


@pytest.mark.parametrize("name", NAMES)
def test_the_guide_has_the_workflow_drawn_and_to_download(name):
    """After a change of a workflow: ``make pictures``."""
    drawn = (DOCS / "images" / f"workflow-{name}.svg").read_text(encoding="utf-8")
    for node in read_workflow(EXAMPLES / f"{name}.knwf").nodes:
        assert f">{escape(node.name)}<" in drawn
        assert f">{escape(node.annotation)}<" in drawn
    assert f"](../examples/{name}.knwf)" in (DOCS / "knime.md").read_text(encoding="utf-8")


def test_the_pictures_of_the_guide_are_there_and_small():
    linked = set(re.findall(r"\]\((images/[^)]*)\)", (DOCS / "knime.md").read_text(encoding="utf-8")))
    assert len(linked) > 15
    assert all((DOCS / picture).is_file() for picture in linked)
    assert sum(file.stat().st_size for file in (DOCS / "images").iterdir()) < 3_000_000


@pytest.mark.parametrize("name", NAMES)
def test_the_nodes_load_their_settings(name):
    host = get_host()
    own = [node for node in read_workflow(EXAMPLES / f"{name}.knwf").nodes if node.extension_id]
    assert own
    for node in own:
        loaded = host.load_parameters(node.node_id, node.parameters, node.parameters_version)
        assert without_nulls(loaded["model"]) == node.parameters["model"]


@pytest.mark.real_knime
@pytest.mark.parametrize("name", NAMES)
def test_the_rig_finds_nothing_wrong(name):
    assert rig.check_knwf(str(EXAMPLES / f"{name}.knwf"), get_host().host)["problems"] == []


def test_the_first_call_finds_desks(demo, tmp_path):
    (row,) = run("first-call", tmp_path, server_url=demo).rows(3)
    assert row["Status"] == "ok"
    assert "desk" in row["Result"].lower()


def test_the_batch_has_a_row_per_file_and_one_that_failed(demo, tmp_path):
    rows = run("batch", tmp_path, server_url=demo).rows(4)
    assert [row["Status"] for row in rows] == ["ok", "ok", "ok", "tool error"]
    assert [row["Result"] is not None for row in rows] == [True, True, True, False]


def test_the_report_has_a_page_on_each_column_that_needs_a_look(demo, tmp_path):
    """Rows, Caller, Records, Row Filter, and a Caller that gets pictures and answers with files."""
    done = run("report", tmp_path, server_url=demo)
    rows = done.rows(8)
    assert [(row["path"], row["column"], row["missing"], row["outliers"]) for row in rows] == [
        ("orders.csv", "unit_price", 0, 26),
        ("climate.csv", "temperature_c", 4, 0),
    ]
    assert [row["Status"] for row in rows] == ["ok", "ok"]
    for row in rows:
        assert row["Files"].endswith(".pdf")
        written = Path(row["Files"]).read_bytes()
        assert written.startswith(b"%PDF-1.4")
        assert f"(Please look at: {row['column']})".encode() in written
        # The picture as the argument was: base64 of the PNG cell, whose pixels are in the page.
        picture = base64.b64decode(json.loads(row["Arguments"])["picture"])
        assert picture.startswith(b"\x89PNG")
        assert picture[picture.index(b"IDAT") + 4 : picture.index(b"IEND") - 8] in written
    said = " ".join(done.results[8].warnings)
    assert "'List'" not in said  # what Records says of its calls is no argument, and no surprise
    assert "'readings'" in said


def test_the_tool_runs_as_a_workflow_of_its_own(demo, tmp_path):
    (row,) = run("word-count-tool", tmp_path, server_url=demo, path="orders.csv").rows(6)
    assert json.loads(row["Result"])["path"] == "orders.csv"


def tool_result(host, folder, arguments):
    """The row of a Caller that is to call the workflow."""
    pairs = [{"name": name, "value": value} for name, value in arguments.items()]
    caller = new_node(
        host, 2, "mcp_tool_caller", {"tool_name": "word-count-tool", "arguments": pairs}, inputs={"Tools": 1}
    )
    workflow = Workflow("calls", (table_creator(1, []), caller), (Connection(1, 1, 2, 1),))
    does = {1: lambda: [tools_of(EXAMPLES / "word-count-tool.knwf")]}
    (row,) = LinearRun(folder / "workflow", does=does).run(workflow).rows(2)
    return row


def test_the_caller_runs_the_tool(host, demo, tmp_path):
    """From the node through ``ctx._execute_tool`` into the workflow, and there again through the node."""
    row = tool_result(host, tmp_path, {"server-url": demo, "path": "orders.csv"})
    assert (row["Status"], row["Error"]) == ("ok", None)
    assert json.loads(row["Result"])["path"] == "orders.csv"


def test_a_tool_that_fails_is_a_row_that_says_why(host, demo, tmp_path):
    row = tool_result(host, tmp_path, {"server-url": demo, "path": "not_there.txt"})
    assert row["Status"] == "tool error"
    assert "Workflow contains one node with execution failure" in row["Error"]
    assert "There is no file 'not_there.txt'" in row["Error"]
    unknown = tool_result(host, tmp_path, {"server-url": demo, "file": "orders.csv"})
    assert unknown["Status"] == "tool error"
    assert 'Parameter name "file" doesn\'t match any node' in unknown["Error"]


def test_both_kinds_of_tools_in_one_column(host, demo, tmp_path):
    """A server's tools and a workflow go through Concatenate into nodes that call either."""

    def call(node_id, tool, **arguments):
        pairs = [{"name": name.replace("_", "-"), "value": value} for name, value in arguments.items()]
        settings = {"tool_name": tool, "arguments": pairs, "on_error": "fail", "all_columns": True}
        return new_node(host, node_id, "mcp_tool_caller", settings, inputs={"Tools": 1})

    nodes = (
        new_node(host, 1, "mcp_tool_provider", {"server_url": demo}),
        table_creator(2, []),
        concatenate_node(3),
        call(4, "word-count-tool", server_url=demo, path="orders.csv"),
        call(5, "count_words", path="orders.csv"),
    )
    lines = [(1, 1, 3, 1), (2, 1, 3, 2), (3, 1, 4, 1), (3, 1, 5, 1)]
    does = {2: lambda: [tools_of(EXAMPLES / "word-count-tool.knwf")]}
    workflow = Workflow("both", nodes, tuple(Connection(*line) for line in lines))
    done = LinearRun(tmp_path / "workflow", does=does).run(workflow)
    rows = [done.rows(node)[0] for node in (4, 5)]
    assert [(row["Tool type"], row["Status"]) for row in rows] == [("workflow", "ok"), ("mcp", "ok")]
    assert [json.loads(row["Result"])["words"] for row in rows] == [719, 719]


@pytest.mark.requirement("T26", "T68")
def test_the_agent_calls_a_server_and_a_workflow(host, demo, tmp_path):
    def looks(request):
        functions = {tool["function"]["name"]: tool["function"] for tool in request.body["tools"]}
        assert functions.keys() == {
            "list_files",
            "search_text",
            "summarize_csv",
            "convert_csv",
            "plot_column",
            "check_columns",
            "report_page",
            "word-count-tool",
        }
        assert "Counts the words" in functions["word-count-tool"]["description"]
        counted = {"server-url": demo, "path": "customer_letter.txt"}
        return calls(
            call("search_text", {"text": "desk"}),
            call("plot_column", {"path": "orders.csv", "column": "quantity"}),
            call("word-count-tool", {"configuration": counted}),
        )

    def reads(request):
        kinds = [message["role"] for message in request.messages]
        assert kinds[:6] == ["system", "user", "assistant", "tool", "tool", "tool"]
        return says("Desks, says orders.csv.")

    with ChatServer([looks, reads]) as chat:
        done = run("agent", tmp_path, server_url=demo, model_url=chat.url, model="test-model")
        assert chat.complaints == []
        assert chat.unplayed == 0
    rows = done.rows(10, 2)
    assert {(row["Tool name"], row["Status"]) for row in rows} == {
        ("search_text", "ok"),
        ("plot_column", "ok"),
        ("word-count-tool", "ok"),
    }
    (counted,) = [row["Result"] for row in rows if row["Tool name"] == "word-count-tool"]
    assert json.loads(counted)["path"] == "customer_letter.txt"
    text = str(done.rows(10))
    assert "Which product" in text
    assert "Desks, says orders.csv." in text
    assert "Desks, says orders.csv." in done.results[10].view_html
    (exported,) = (tmp_path / "workflow" / "data").rglob("*.knwf")
    steps = [node.name for node in read_workflow(exported).nodes]
    assert len(steps) == len(rows)


def test_the_chat_asks_its_question_without_a_view(demo, tmp_path):
    answers = [lambda _: calls(call("check_columns", {"path": "orders.csv"})), lambda _: says("unit_price.")]
    with ChatServer(answers) as chat:
        done = run("chat", tmp_path, server_url=demo, model_url=chat.url, model="test-model")
        assert (chat.complaints, chat.unplayed) == ([], 0)
    (row,) = done.rows(6, 2)
    assert (row["Tool name"], row["Status"]) == ("check_columns", "ok")
