"""Workflows as tools: made as KNIME makes them, and run through a node's ``_execute_tool``."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from knime_mcp.headless.workflows import (
    CredentialValue,
    NotRunnable,
    ToolRunner,
    WorkflowError,
    make_workflow_tool,
    tools_table,
)
from knime_mcp.headless.workflows.new_node import new_node
from knime_mcp.knwf import (
    CanvasPosition,
    Config,
    PortOf,
    boundary_node,
    concatenate_node,
    read_segment,
    table_creator,
    write_workflow,
)
from knime_mcp.knwf.native_nodes import Column
from tests.headless.workflows.building import context, numbers, variable, workflow


def at(node, y):
    return replace(node, position=CanvasPosition(0, y))


def through(node_id):
    """Nodes that hand on the table at the first input of the first one, as it is."""
    return (concatenate_node(node_id), table_creator(node_id + 1, []))


def tool_file(trial, folder, what="", **parts):
    """Two inputs, two outputs and the message between them; from top to bottom, against the order of ids."""
    nodes = (
        at(variable(1, "x", 5, parameter="the-x", description="an x"), 0),
        at(variable(2, "flag", True, parameter="flag"), 0),
        at(variable(3, "real", 0.5, parameter="real", description="a number"), 0),
        at(variable(4, "text", "a", parameter="text"), 0),
        at(boundary_node(10, "input", parameter="lower", description="the lower one"), 300),
        at(boundary_node(11, "input", parameter="upper"), 100),
        at(numbers(12, 1, 2, name="number"), 0),
        at(context(trial, 20, what, inputs={"First": 1, "Others": 1}, outputs={"Copies": 1}), 0),
        at(boundary_node(30, "output", parameter="second", description="the second"), 900),
        at(boundary_node(31, "output", parameter="first"), 500),
        at(table_creator(32, [Column("Message", "string", ("done", "not this"))]), 0),
        at(boundary_node(33, "message"), 700),
        *through(50),
        at(context(trial, 40, "odd variable", inputs={"First": 1}), 0),
    )
    lines = [
        *((i, 1, i + 1, 0) for i in (1, 2, 3)),
        (4, 1, 20, 0),
        (12, 1, 10, 1),
        (10, 1, 20, 1),
        (11, 1, 20, 2),
        (20, 1, 31, 1),
        (10, 1, 50, 1),
        (51, 1, 50, 2),
        (50, 1, 30, 1),
        (32, 1, 33, 1),
    ]
    flow = workflow(*nodes[:-1], lines=lines, description="What it is for", **parts)
    path = folder / "tool.knwf"
    write_workflow(flow, path)
    return path


@pytest.fixture
def tool(trial, tmp_path):
    return make_workflow_tool(tool_file(trial, tmp_path), host=trial)


def arrow(trial, *cells, name="q"):
    import pyarrow as pa

    return trial.table(pa.table({name: list(cells)}))


def data(table):
    return table._data


def test_what_a_workflow_is_as_a_tool(tool):
    assert (tool.name, tool.description) == ("trial", "What it is for")
    assert tool.parameter_schema == {
        "the-x": {"type": "integer", "default": 5, "description": "an x"},
        "flag": {"type": "boolean", "default": True, "description": ""},
        "real": {"type": "number", "default": 0.5, "description": "a number"},
        "text": {"type": "string", "default": "a", "description": ""},
    }
    assert [(p.name, p.description, p.type) for p in tool.input_ports] == [
        ("upper", "", "Table"),
        ("lower", "the lower one", "Table"),
    ]
    assert json.loads(tool.input_ports[1].spec)["columns"] == [{"name": "number", "type": "Number (Integer)"}]
    assert [(p.name, p.description) for p in tool.output_ports] == [("first", ""), ("second", "the second")]
    assert tool.message_output_port_index == 1
    assert tool.filestore_keys


def test_a_tool_may_be_called_something_else(trial, tmp_path):
    tool = make_workflow_tool(tool_file(trial, tmp_path), name="other", description="d", host=trial)
    assert (tool.name, tool.description) == ("other", "d")


def test_the_cell_keeps_a_segment_as_knime_does(trial, tool):
    """Without input and output nodes; where these were connected is said beside the workflow."""
    path = trial.file_stores.file_store_key_to_absolute_path(tool.filestore_keys)
    segment = read_segment(Path(path).read_bytes())
    assert [node.id for node in segment.workflow.nodes] == [1, 2, 3, 4, 20, 32, 50, 51]
    assert segment.inputs == ((PortOf(20, 2),), (PortOf(20, 1), PortOf(50, 1)))
    assert segment.outputs == (PortOf(20, 1), PortOf(32, 1), PortOf(50, 1))


def test_an_input_that_is_an_output_is_no_tool(trial, tmp_path):
    flow = workflow(
        boundary_node(1, "input", parameter="in"), boundary_node(2, "output"), lines=[(1, 1, 2, 1)]
    )
    write_workflow(flow, tmp_path / "w.knwf")
    with pytest.raises(WorkflowError, match="'in' leads straight to an output"):
        make_workflow_tool(tmp_path / "w.knwf", host=trial)


def test_a_tool_runs(trial, tool):
    inputs = [data(arrow(trial, 1, 2, 3)), data(arrow(trial, "a"))]
    message, outputs, views = ToolRunner(trial)(tool, {"the-x": 9, "flag": "false"}, inputs, {})
    assert (message, views) == ("done", [])
    said = {row[1]: json.loads(row[2]) for row in _rows(trial, outputs[0])}
    assert said["variables"] == {"x": 9, "flag": False, "real": 0.5, "text": "a", "configured": True}
    assert (said["first"], said["others"]) == ([1, 1, ["q"]], [3])
    assert [row[1:] for row in _rows(trial, outputs[1])] == [["a"]]


def _rows(trial, table):
    with trial.tables_usable():
        columns = [column.to_pylist() for column in table.to_pyarrow().columns]
    return [list(row) for row in zip(*columns, strict=True)]


def test_ids_of_nodes_with_views(trial, tool):
    inputs = [data(arrow(trial, 1)), data(arrow(trial, 1))]
    assert ToolRunner(trial)(tool, {}, inputs, {"with-view-nodes": "true"})[2] == ["20"]
    assert ToolRunner(trial)(tool, {}, inputs, {"with-view-nodes": "False"})[2] == []


@pytest.mark.parametrize(
    ("parameters", "count", "message"),
    [
        (
            {"y": 1},
            2,
            'Parameter name "y" doesn\'t match any node in the workflow, valid parameter names are',
        ),
        ({"the-x": None}, 2, "'the-x' has to be a JSON integer, not null"),
        ({"the-x": "many"}, 2, "it has to be a whole number"),
        ({}, 1, "It has 2 inputs, but 1 tables were given"),
    ],
)
def test_calls_that_fail_before_anything_runs(trial, tool, parameters, count, message):
    inputs = [data(arrow(trial, 1))] * count
    text, outputs, _ = ToolRunner(trial)(tool, parameters, inputs, {})
    assert outputs is None
    assert text.startswith("Failed to execute tool: trial: ")
    assert message in text


def test_a_node_that_fails_fails_the_tool(trial, tmp_path):
    tool = make_workflow_tool(tool_file(trial, tmp_path, "odd variable"), host=trial)
    inputs = [data(arrow(trial, 1)), data(arrow(trial, 1))]
    message, outputs, _ = ToolRunner(trial)(tool, {}, inputs, {})
    assert outputs is None
    assert message.startswith(
        "Tool execution failed with: Workflow contains one node with execution failure:"
    )
    assert "Context #20: flow variable 'x'" in message


def test_an_execution_mode_that_knime_does_not_have(trial, tool):
    for mode in ("DEFAULT", "DETACHED", "DEBUG"):
        ToolRunner(trial)(tool, {}, [], {"execution-mode": mode})
    with pytest.raises(RuntimeError, match="no execution mode 'FAST'"):
        ToolRunner(trial)(tool, {}, [], {"execution-mode": "FAST"})


def message_tool(trial, folder, *cells, columns=True):
    creator = table_creator(1, [Column("Message", "string", cells)] if columns else [])
    path = folder / "message.knwf"
    write_workflow(workflow(creator, boundary_node(2, "message"), lines=[(1, 1, 2, 1)]), path)
    return make_workflow_tool(path, host=trial)


def test_the_message_of_a_tool_is_the_first_cell(trial, tmp_path):
    run = ToolRunner(trial)
    assert run(message_tool(trial, tmp_path, "hello 😀"), {}, [], {})[:2] == ("hello 😀", [])
    empty = "Tool executed successfully (empty custom tool message)"
    assert run(message_tool(trial, tmp_path), {}, [], {})[0] == empty
    assert run(message_tool(trial, tmp_path, columns=False), {}, [], {})[0] == empty
    assert run(message_tool(trial, tmp_path, None, "x"), {}, [], {})[0] == "?"
    path = tmp_path / "none.knwf"
    write_workflow(workflow(numbers(1, 1)), path)
    none = make_workflow_tool(path, host=trial)
    assert none.message_output_port_index == -1
    assert run(none, {}, [], {})[0] == "Tool executed successfully (no custom tool message output)"


def test_workflows_of_which_no_tool_can_be_made(trial, tmp_path):
    path = tmp_path / "w.knwf"
    write_workflow(workflow(variable(1, "a", 1, parameter="p"), variable(2, "b", 1, parameter="p")), path)
    with pytest.raises(WorkflowError, match="two parameters called 'p'"):
        make_workflow_tool(path, host=trial)
    twice = [numbers(1, 1), boundary_node(2, "message"), boundary_node(3, "message")]
    write_workflow(workflow(*twice, lines=[(1, 1, 2, 1), (1, 1, 3, 1)]), path)
    with pytest.raises(WorkflowError, match="2 Tool Message Output nodes"):
        make_workflow_tool(path, host=trial)
    write_workflow(workflow(boundary_node(2, "message")), path)
    with pytest.raises(NotRunnable, match="Nothing is connected to its input 'Tool message'"):
        make_workflow_tool(path, host=trial)
    broken = replace(variable(1, "a", 1), model=Config("model"))
    write_workflow(workflow(broken), path)
    with pytest.raises(
        WorkflowError, match=r"w\.knwf cannot be read as a workflow: .* does not say which flow"
    ):
        make_workflow_tool(path, host=trial)
    path.write_bytes(b"no zip")
    with pytest.raises(WorkflowError, match=r"w\.knwf is no workflow"):
        make_workflow_tool(path, host=trial)


def test_a_default_that_json_does_not_have(trial, tmp_path):
    path = tmp_path / "w.knwf"
    write_workflow(workflow(variable(1, "a", float("nan"), parameter="p")), path)
    tool = make_workflow_tool(path, host=trial)
    assert tool.parameter_schema == {"p": {"type": "number", "description": ""}}


def test_what_only_feeds_an_input_is_not_run(trial, tmp_path):
    """The default of an input is not part of the tool, so it may fail or be anything."""
    path = tmp_path / "w.knwf"
    nodes = [
        boundary_node(2, "input", parameter="in"),
        boundary_node(3, "output", parameter="out"),
        *through(4),
    ]
    lines = [(1, 1, 2, 1), (2, 1, 4, 1), (5, 1, 4, 2), (4, 1, 3, 1)]
    for default in (context(trial, 1, "odd variable"), replace(numbers(1, 1), model=None)):
        write_workflow(workflow(default, *nodes, lines=lines), path)
        tool = make_workflow_tool(path, host=trial)
        message, outputs, _ = ToolRunner(trial)(tool, {}, [data(arrow(trial, 1, 2))], {})
        assert message == "Tool executed successfully (no custom tool message output)"
        assert outputs[0].num_rows == 2


def test_credentials_reach_the_tools_nodes(trial, tmp_path):
    path = tmp_path / "w.knwf"
    asks = context(trial, 2, parameters={"credential": "prod"})
    nodes = [
        variable(1, "prod", "", kind="credentials", parameter="login"),
        asks,
        boundary_node(3, "output"),
    ]
    write_workflow(workflow(*nodes, lines=[(1, 1, 2, 0), (2, 1, 3, 1)]), path)
    tool = make_workflow_tool(path, host=trial)
    assert tool.parameter_schema["login"]["type"] == "object"
    found = ToolRunner(trial, find_credential={"prod": CredentialValue("me", "pw")}.get)(tool, {}, [], {})
    said = {row[1]: json.loads(row[2]) for row in _rows(trial, found[1][0])}
    assert said["credential"] == ["me", "pw", "prod"]
    given = {"login": {"username": "you", "password": "own"}}
    said = {row[1]: json.loads(row[2]) for row in _rows(trial, ToolRunner(trial)(tool, given, [], {})[1][0])}
    assert said["credential"] == ["you", "own", "prod"]


def test_a_node_runs_a_tool_without_being_told_how(trial, tmp_path):
    path = tmp_path / "w.knwf"
    flow = workflow(
        variable(1, "a", 1, parameter="a"),
        boundary_node(2, "input", parameter="in"),
        boundary_node(3, "output", parameter="out"),
        *through(4),
        lines=[(2, 1, 4, 1), (5, 1, 4, 2), (4, 1, 3, 1)],
    )
    write_workflow(flow, path)
    table = tools_table(trial, [make_workflow_tool(path, host=trial)])
    result = trial.run_node("RunTool", (table.as_input(),))
    assert result.ok, result.failure
    answer = json.loads(result.outputs[0].to_pylist()[0]["value"])
    assert answer[:3] == ["Tool executed successfully (no custom tool message output)", "trial", [3]]


def test_a_workflow_runs_tools_that_run_tools(trial, tmp_path):
    """The table of tools comes in through a Workflow Input; the node inside runs the inner tool."""
    inner = tmp_path / "inner.knwf"
    flow = workflow(
        variable(1, "a", 1, parameter="a"), boundary_node(2, "input"),
        boundary_node(3, "output"), *through(4),
        lines=[(2, 1, 4, 1), (5, 1, 4, 2), (4, 1, 3, 1)],
    )  # fmt: skip
    write_workflow(flow, inner)
    outer = tmp_path / "outer.knwf"
    nodes = [
        boundary_node(1, "input", parameter="tools"),
        new_node(trial, 2, "RunTool"),
        boundary_node(3, "output"),
    ]
    write_workflow(workflow(*nodes, lines=[(1, 1, 2, 1), (2, 1, 3, 1)]), outer)
    tools = tools_table(trial, [make_workflow_tool(inner, host=trial)])
    made = make_workflow_tool(outer, host=trial)
    message, outputs, _ = ToolRunner(trial)(made, {}, [tools.arrow], {})
    assert outputs is not None, message
    answer = json.loads(_rows(trial, outputs[0])[0][2])
    assert answer[1:3] == ["trial", [3]]


def test_the_files_of_a_tool_are_its_own_for_each_run(trial, tmp_path):
    path = tool_file(trial, tmp_path, files={"data/x.txt": b"x"})
    tool = make_workflow_tool(path, host=trial)
    path.unlink()
    inputs = [data(arrow(trial, 1)), data(arrow(trial, 1))]
    assert ToolRunner(trial)(tool, {}, inputs, {})[0] == "done"
