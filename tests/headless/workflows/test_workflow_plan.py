"""What is looked at before anything runs: nodes that do not run here, what callers set, inputs."""

from dataclasses import replace

import pytest

from knime_mcp.headless.workflows import NotRunnable, WorkflowError
from knime_mcp.headless.workflows.new_node import new_node
from knime_mcp.knwf import (
    PYTHON_FACTORY,
    Config,
    NativeNode,
    NodeState,
    OtherNode,
    WorkflowVariable,
    boundary_node,
    concatenate_node,
)
from knime_mcp.knwf.settings_xml import string
from tests.headless.workflows.building import (
    context,
    java_node,
    numbers,
    run,
    seen,
    table_of,
    variable,
    workflow,
)


def broken_settings(trial, state):
    """A node whose own validator refuses its settings: negative numbers."""
    node = new_node(trial, 1, "Settings", {"number": 2.0})
    children = [replace(child, value=-1.0) if child.key == "number" else child for child in node.model]
    return replace(node, model=Config("model", tuple(children)), state=state)


def test_invalid_settings_of_an_idle_node_become_defaults_and_it_is_said(trial, tmp_path):
    report = run(trial, workflow(broken_settings(trial, NodeState.IDLE)), tmp_path)
    assert report.ok
    assert seen(report, 1)["mode"] == "PLAIN"
    (note,) = report.plan.notes
    assert note.startswith("Settings (#1): it does not accept its settings (")
    assert "no negative numbers" in note
    assert note.endswith("runs with the defaults, as KNIME would do")


def refused(trial, tmp_path, flow, **options):
    with pytest.raises(NotRunnable) as caught:
        run(trial, flow, tmp_path / "never", **options)
    assert not (tmp_path / "never").exists(), "something was run"
    return dict(caught.value.problems), str(caught.value)


def test_invalid_settings_of_a_configured_node_are_refused(trial, tmp_path):
    problems, _ = refused(trial, tmp_path, workflow(broken_settings(trial, NodeState.CONFIGURED)))
    assert "no negative numbers" in problems["Settings (#1)"]


def test_every_node_that_does_not_run_here_is_named(trial, tmp_path):
    loop = "org.knime.base.node.meta.looper.chunk.ChunkLoopStartNodeFactory"
    unknown = "org.knime.base.node.io.filehandling.csv.reader.CSVTableReaderNodeFactory"
    foreign = Config("factory_settings", (string("extension_id", "org.other.x"), string("node_id", "y")))
    inside = b"""<?xml version="1.0" encoding="UTF-8"?>
<config xmlns="http://www.knime.org/2008/09/XMLConfig" key="workflow.knime"><config key="nodes">
<config key="node_2"><entry key="id" type="xint" value="2"/><entry key="node_type" type="xstring"
 value="NativeNode"/><entry key="node_settings_file" type="xstring"
 value="Row Filter (#2)/settings.xml"/></config>
</config></config>"""
    flow = workflow(
        java_node(1, "Chunk Loop Start", loop, inputs=1),
        java_node(2, "CSV Reader", unknown, annotation="orders"),
        NativeNode(
            id=3, name="Odd", factory=PYTHON_FACTORY, factory_settings=foreign, bundle=("b", "b", "v")
        ),
        OtherNode(4, "Clean up", "metanode", "Clean up (#4)/workflow.knime"),
        OtherNode(5, "Part", "component", "Part (#5)/settings.xml"),
        context(trial, 6),
        files={"Clean up (#4)/workflow.knime": inside, "Part (#5)/settings.xml": b"<config/>"},
        lines=[(2, 1, 1, 1), (4, 1, 5, 1)],
    )
    problems, text = refused(trial, tmp_path, flow)
    assert set(problems) == {
        "Chunk Loop Start (#1)",
        "CSV Reader 'orders' (#2)",
        "Odd (#3)",
        "Row Filter (#4:2) in 'Clean up'",
        "Part (#5)",
    }
    assert "loop" in problems["Chunk Loop Start (#1)"]
    assert loop in problems["Chunk Loop Start (#1)"]
    assert unknown in problems["CSV Reader 'orders' (#2)"]
    assert text.count("What runs here: the nodes of this extension, Table Creator, Row Filter") == 1
    assert "org.other.x" in problems["Odd (#3)"]
    assert "component: it cannot be read" in problems["Part (#5)"]
    assert "nothing was run" in text


def test_what_else_is_in_the_way(trial, tmp_path):
    open_input, _ = refused(
        trial, tmp_path, workflow(concatenate_node(1), numbers(2, 1), lines=[(2, 1, 1, 1)])
    )
    assert "Nothing is connected to its input 'Table 2'" in open_input["Concatenate (#1)"]
    no_port, _ = refused(trial, tmp_path, workflow(numbers(1, 1), context(trial, 2), lines=[(1, 1, 2, 1)]))
    assert "input port 1, which it does not have" in no_port["Context (#2)"]
    ring = workflow(context(trial, 1), context(trial, 2), lines=[(1, 0, 2, 0), (2, 0, 1, 0)])
    assert "cycle" in refused(trial, tmp_path, ring)[0]["workflow"]
    nobody, _ = refused(trial, tmp_path, workflow())
    assert "no nodes" in nobody["workflow"]
    settings = Config("s", (string("extension_id", trial.id), string("node_id", "from the future")))
    newer = replace(new_node(trial, 1, "versions"), factory_settings=settings, name="New")
    unknown, _ = refused(trial, tmp_path, workflow(newer))
    assert "has no node 'from the future'" in unknown["New (#1)"]


def test_settings_that_the_workflow_does_not_have(trial, tmp_path):
    flow = workflow(variable(1, "x", 5, parameter="the-x"), variables=(WorkflowVariable("w", "STRING", ""),))
    with pytest.raises(WorkflowError, match="nothing called 'y' to set; it has: x, w"):
        run(trial, flow, tmp_path, settings={"y": "1"})
    with pytest.raises(WorkflowError, match="'x' is 'a', but it has to be a whole number"):
        run(trial, flow, tmp_path, settings={"x": "a"})
    twice = workflow(variable(1, "x", 5), variable(2, "x", 6))
    with pytest.raises(WorkflowError, match="could be any of the Configuration nodes #1, #2"):
        run(trial, twice, tmp_path, settings={"x": "1"})
    for name in ("x", "the-x", "the-x-1"):
        report = run(trial, flow, tmp_path, settings={name: "7"})
        assert report.outcome(1).stack[-1].value == 7


def test_inputs_of_the_workflow(trial, tmp_path):
    import pyarrow as pa

    flow = workflow(
        boundary_node(1, "input", parameter="rows"),
        boundary_node(2, "output", parameter="result"),
        lines=[(1, 1, 2, 1)],
    )
    report = run(trial, flow, tmp_path, inputs={"rows": pa.table({"q": ["a", "b"]})})
    assert table_of(report, 1)[1] == [{"q": "a"}, {"q": "b"}]
    without = run(trial, flow, tmp_path)
    assert "Nobody gave the workflow its input 'rows'" in without.outcome(1).message
    with pytest.raises(WorkflowError, match="no input called 'row'; it has: rows"):
        run(trial, flow, tmp_path, inputs={"row": pa.table({"q": [1]})})
    default = workflow(numbers(3, 1), *flow.nodes, lines=[(3, 1, 1, 1), (1, 1, 2, 1)])
    assert table_of(run(trial, default, tmp_path), 1)[1] == [{"n": 1}]
