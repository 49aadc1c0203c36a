"""The workflows of ``examples/``: what their script makes, sound, and running on the demo's server."""

import base64
import json
import re
from html import escape
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from knime_mcp.knwf import NativeNode, NodeState, check, read_workflow
from tests.examples.running import EXAMPLES, command, without_nulls
from tests.support import real_knime as rig
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.host import get_host

DOCS = EXAMPLES.parent / "docs"
NAMES = ["first-call", "batch", "report", "word-count-tool", "agent", "chat"]


def run(name, folder, *options, code=0):
    words = ("-m", "knime_mcp.cli.app", "run", EXAMPLES / f"{name}.knwf", *options)
    return command(*words, folder=folder, code=code)


def test_all_workflows_are_what_one_script_makes(tmp_path):
    """Whoever changes a setting of a node sees here that the examples have to be made again."""
    command(EXAMPLES / "make_examples.py", tmp_path, folder=tmp_path)
    kept = sorted(path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.knwf"))
    assert kept == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.knwf"))
    for path in kept:
        same = read_workflow(tmp_path / path) == read_workflow(EXAMPLES / path)
        assert same, f"run: python examples/make_examples.py ({path})"


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
    run("first-call", tmp_path, "--set", f"server_url={demo}", "--out", "out")
    (row,) = pq.read_table(tmp_path / "out" / "3 MCP Tool Caller.parquet").to_pylist()
    assert row["Status"] == "ok"
    assert "desk" in row["Result"].lower()


def test_the_batch_has_a_row_per_file_and_one_that_failed(demo, tmp_path):
    run("batch", tmp_path, "--set", f"server_url={demo}", "--out", "out", code=1)
    rows = pq.read_table(tmp_path / "out" / "4 MCP Tool Caller.parquet").to_pylist()
    assert [row["Status"] for row in rows] == ["ok", "ok", "ok", "tool error"]
    assert [row["words"] is not None for row in rows] == [True, True, True, False]


def test_the_report_has_a_page_on_each_column_that_needs_a_look(demo, tmp_path):
    """Rows, Caller, Records, Row Filter, and a Caller that gets pictures and answers with files."""
    done = run("report", tmp_path, "--set", f"server_url={demo}", "--out", "out")
    rows = pq.read_table(tmp_path / "out" / "8 MCP Tool Caller.parquet").to_pylist()
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
    assert "'List'" not in done.stderr  # what Records says of its calls is no argument, and no surprise
    assert "'readings'" in done.stderr


def test_the_tool_runs_as_a_workflow_of_its_own(demo, tmp_path):
    options = ("--set", f"server_url={demo}", "--set", "path=orders.csv", "--out", "out")
    run("word-count-tool", tmp_path, *options)
    message = pq.read_table(tmp_path / "out" / "6 Tool Message Output.parquet").to_pylist()
    assert json.loads(message[0]["Result"])["path"] == "orders.csv"


CALL_TOOL = """
import json, sys
from knime_mcp.headless import load_own_extension, make_workflow_tool
from knime_mcp.headless.workflows import tools_table

host, tool = load_own_extension(), make_workflow_tool(sys.argv[1])
arguments = [{"name": name, "value": value} for name, value in json.loads(sys.argv[2]).items()]
settings = {"tool_name": "word-count-tool", "arguments": arguments}
result = host.run_node("mcp_tool_caller", (tools_table(host, [tool]).as_input(), None, None), settings)
assert result.ok, result.failure
(row,) = result.outputs[0].to_pylist()
print(json.dumps({name: row[name] for name in ("Status", "Tool type", "Result", "Error")}))
"""


def tool_results(folder, arguments):
    """The Caller's row, from a process without KNIME's sources: these have no workflows to run."""
    file = EXAMPLES / "word-count-tool.knwf"
    return json.loads(command("-c", CALL_TOOL, file, json.dumps(arguments), folder=folder).stdout)


def test_the_caller_runs_the_tool(demo, tmp_path):
    """From the node through ``ctx._execute_tool`` into the workflow, and there again through the node."""
    row = tool_results(tmp_path, {"server-url": demo, "path": "orders.csv"})
    assert (row["Status"], row["Tool type"], row["Error"]) == ("ok", "workflow", None)
    assert json.loads(row["Result"])["path"] == "orders.csv"


def test_a_tool_that_fails_is_a_row_that_says_why(demo, tmp_path):
    row = tool_results(tmp_path, {"server-url": demo, "path": "not_there.txt"})
    assert row["Status"] == "tool error"
    assert "Workflow contains one node with execution failure" in row["Error"]
    assert "There is no file 'not_there.txt'" in row["Error"]
    unknown = tool_results(tmp_path, {"server-url": demo, "file": "orders.csv"})
    assert unknown["Status"] == "tool error"
    assert 'Parameter name "file" doesn\'t match any node' in unknown["Error"]


BOTH_KINDS = """
import sys
from knime_mcp.headless import load_own_extension
from knime_mcp.headless.workflows.new_node import new_node
from knime_mcp.knwf import Connection, Workflow, boundary_node, concatenate_node, write_workflow

host, url = load_own_extension(), sys.argv[2]

def call(node_id, tool, **arguments):
    pairs = [{"name": name.replace("_", "-"), "value": value} for name, value in arguments.items()]
    settings = {"tool_name": tool, "arguments": pairs, "on_error": "fail"}
    return new_node(host, node_id, "mcp_tool_caller", settings, inputs={"Tools": 1})

nodes = (
    new_node(host, 1, "mcp_tool_provider", {"server_url": url}),
    boundary_node(2, "input", parameter="tools"),
    concatenate_node(3),
    call(4, "word-count-tool", server_url=url, path="orders.csv"),
    call(5, "count_words", path="orders.csv"),
)
lines = [(1, 1, 3, 1), (2, 1, 3, 2), (3, 1, 4, 1), (3, 1, 5, 1)]
write_workflow(Workflow("both", nodes, tuple(Connection(*line) for line in lines)), sys.argv[1])
"""


def test_both_kinds_of_tools_in_one_column(demo, tmp_path):
    """A server's tools and a workflow go through Concatenate into nodes that call either."""
    command("-c", BOTH_KINDS, tmp_path / "both.knwf", demo, folder=tmp_path)
    options = ("--input", f"tools={EXAMPLES / 'word-count-tool.knwf'}", "--out", "out")
    command("-m", "knime_mcp.cli.app", "run", tmp_path / "both.knwf", *options, folder=tmp_path)
    rows = [pq.read_table(tmp_path / "out" / f"{i} MCP Tool Caller.parquet").to_pylist()[0] for i in (4, 5)]
    assert [(row["Tool type"], row["Status"]) for row in rows] == [("workflow", "ok"), ("mcp", "ok")]
    assert [json.loads(row["Result"])["words"] for row in rows] == [719, 719]


@pytest.mark.requirement("T26")
def test_the_agent_runs_without_knime(demo, tmp_path):
    def looks(request):
        names = {tool["function"]["name"] for tool in request.body["tools"]}
        assert names == {
            "list_files",
            "search_text",
            "summarize_csv",
            "convert_csv",
            "plot_column",
            "check_columns",
            "report_page",
            "word-count-tool",
        }
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
        settings = [f"server_url={demo}", f"model_url={chat.url}", "model=test-model"]
        options = [word for setting in settings for word in ("--set", setting)]
        run("agent", tmp_path, *options, "--out", "out")
        assert chat.complaints == []
        assert chat.unplayed == 0
    files = {path.name: path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    (recorded,) = [path for name, path in files.items() if "Tool calls" in name and name.endswith(".parquet")]
    rows = pq.read_table(recorded).to_pylist()
    assert {(row["Tool name"], row["Status"]) for row in rows} == {
        ("search_text", "ok"),
        ("plot_column", "ok"),
        ("word-count-tool", "ok"),
    }
    (talk,) = [path for name, path in files.items() if "Conversation" in name and name.endswith(".csv")]
    text = talk.read_text(encoding="utf-8")
    assert "user: Which product" in text
    assert "search_text(" in text
    assert "tool plot_column: " in text
    assert "ai: Desks, says orders.csv." in text
    (page,) = [path for name, path in files.items() if name.endswith(".html") and "Agent" in name]
    assert "Desks, says orders.csv." in page.read_text(encoding="utf-8")
    (exported,) = [path for name, path in files.items() if name.endswith(".knwf")]
    steps = [node.name for node in read_workflow(exported).nodes]
    assert len(steps) == len(rows)


def test_the_chat_asks_its_question_without_a_view(demo, tmp_path):
    answers = [lambda _: calls(call("check_columns", {"path": "orders.csv"})), lambda _: says("unit_price.")]
    with ChatServer(answers) as chat:
        settings = [f"server_url={demo}", f"model_url={chat.url}", "model=test-model"]
        options = [word for setting in settings for word in ("--set", setting)]
        run("chat", tmp_path, *options, "--out", "out")
        assert (chat.complaints, chat.unplayed) == ([], 0)
    (table,) = (tmp_path / "out").glob("*Tool calls.parquet")
    (row,) = pq.read_table(table).to_pylist()
    assert (row["Tool name"], row["Status"]) == ("check_columns", "ok")


@pytest.mark.requirement("T68")
def test_the_tool_workflow_runs_for_an_agent(demo, tmp_path):
    def counts(request):
        (function,) = [tool["function"] for tool in request.body["tools"]]
        assert "Counts the words" in function["description"]
        return calls(call(function["name"], {"configuration": {"server-url": demo, "path": "orders.csv"}}))

    with ChatServer([counts, lambda request: says(f"It says {request.last}")]) as chat:
        done = command(
            "-m",
            "knime_mcp.cli.app",
            "agent",
            "How many words?",
            "--workflow",
            EXAMPLES / "word-count-tool.knwf",
            "--model-url",
            chat.url,
            "--model",
            "test-model",
            folder=tmp_path,
        )
        assert chat.complaints == []
    assert "orders.csv" in done.stdout
    assert "⧉ workflow word-count-tool ok" in done.stderr
