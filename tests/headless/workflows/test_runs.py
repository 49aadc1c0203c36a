"""Whole workflows: order, variables, ports of every kind, failures, cancel, and what is refused."""

import json

import pytest

from knime_mcp.headless.workflows import CredentialValue, NodeStatus, NotRunnable, RunError
from knime_mcp.headless.workflows.making import new_node
from knime_mcp.headless.workflows.results import end_tables
from knime_mcp.knwf import (
    PYTHON_FACTORY,
    Config,
    NativeNode,
    NodeState,
    OtherNode,
    VariableControl,
    WorkflowCredential,
    WorkflowVariable,
    boundary_node,
    concatenate_node,
    read_workflow,
    write_workflow,
)
from knime_mcp.knwf.settings import string
from tests.headless.workflows.building import context, numbers, run, seen, table_of, variable, workflow


def statuses(report):
    return {outcome.node.id: outcome.status for outcome in report.outcomes}


def test_data_and_variables_arrive_where_the_lines_lead(trial, tmp_path):
    node = context(trial, 4, inputs={"First": 1, "Others": 2}, outputs={"Copies": 2})
    flow = workflow(
        numbers(1, 1, 2),
        numbers(2, 1, 2, 3),
        variable(3, "x", 5),
        node,
        lines=[(3, 1, 4, 0), (1, 1, 4, 1), (2, 1, 4, 2), (1, 1, 4, 3)],
    )
    report = run(trial, flow, tmp_path)
    assert report.ok, report.outcomes
    got = seen(report, 4)
    assert (got["first"], got["others"]) == ([2, 1, ["n"]], [3, 2])
    assert got["variables"] == {"x": 5, "configured": True}
    assert len(report.outcome(4).done.outputs) == 3
    assert "<p>page</p>" in report.outcome(4).done.view_html
    assert [(own.outcome.node.id, own.port) for own in end_tables(report)] == [
        (4, "Out"),
        (4, "Copies"),
        (4, "Copies"),
    ]


def test_the_file_runs_as_the_workflow_that_was_written(trial, tmp_path):
    flow = workflow(variable(1, "x", 5), context(trial, 2), lines=[(1, 1, 2, 0)])
    write_workflow(flow, tmp_path / "w.knwf")
    report = run(trial, read_workflow(tmp_path / "w.knwf"), tmp_path)
    assert seen(report, 2)["variables"] == {"x": 5, "configured": True}


def test_an_optional_port_may_be_absent_or_open(trial, tmp_path):
    flow = workflow(context(trial, 1), context(trial, 2, inputs={"First": 1}))
    report = run(trial, flow, tmp_path)
    assert seen(report, 1)["first"] is None
    assert seen(report, 2)["first"] is None


def test_variables_of_the_workflow_reach_its_sources_only_and_those_behind(trial, tmp_path):
    flow = workflow(
        context(trial, 1),
        context(trial, 2),
        lines=[(1, 0, 2, 0)],
        variables=(WorkflowVariable("w", "INTARRAY", (1, 2)), WorkflowVariable("s", "STRING", "x")),
    )
    report = run(trial, flow, tmp_path, settings={"s": "y"})
    for node_id in (1, 2):
        assert seen(report, node_id)["variables"] == {"w": [1, 2], "s": "y", "configured": True}


def test_the_flow_variable_port_wins_over_data_ports(trial, tmp_path):
    first, second = variable(1, "x", 1), variable(2, "x", 2)
    through = context(trial, 3), context(trial, 4)
    last = context(trial, 5, inputs={"First": 1})
    lines = [(1, 1, 3, 0), (2, 1, 4, 0), (3, 0, 5, 0), (4, 1, 5, 1)]
    report = run(trial, workflow(first, second, *through, last, lines=lines), tmp_path)
    assert seen(report, 5)["variables"]["x"] == 1
    swapped = [(1, 1, 3, 0), (2, 1, 4, 0), (4, 0, 5, 0), (3, 1, 5, 1)]
    report = run(trial, workflow(first, second, *through, last, lines=swapped), tmp_path)
    assert seen(report, 5)["variables"]["x"] == 2


def test_variables_control_settings_and_settings_become_variables(trial, tmp_path):
    node = new_node(
        trial,
        2,
        "Settings",
        variables=[
            VariableControl(("more", "inner", "depth"), used="depth"),
            VariableControl(("number",), used="number", exposed="the number"),
        ],
    )
    flow = workflow(
        variable(1, "depth", 3),
        variable(4, "number", 2),
        node,
        context(trial, 3),
        lines=[(1, 1, 4, 0), (4, 1, 2, 0), (2, 0, 3, 0)],
    )
    report = run(trial, flow, tmp_path)
    assert report.ok, report.outcome(2).message
    assert seen(report, 2)["depth"] == 3
    assert seen(report, 3)["variables"]["the number"] == 2.0


def test_a_variable_that_a_setting_does_not_take_fails_the_node(trial, tmp_path):
    node = new_node(trial, 2, "Settings", variables=[VariableControl(("number",), used="number")])
    report = run(trial, workflow(variable(1, "number", -1.0), node, lines=[(1, 1, 2, 0)]), tmp_path)
    assert statuses(report)[2] is NodeStatus.FAILED
    assert "no negative numbers" in report.outcome(2).message
    missing = workflow(variable(1, "other", 1.0), node, lines=[(1, 1, 2, 0)])
    assert (
        "'number', which sets 'number', does not arrive here"
        in run(trial, missing, tmp_path).outcome(2).message
    )


def test_credentials_of_the_workflow_and_of_nodes(trial, tmp_path):
    asks = context(trial, 2, parameters={"credential": "prod"})
    flow = workflow(
        variable(1, "prod", "default user", kind="credentials"),
        asks,
        lines=[(1, 1, 2, 0)],
        credentials=(WorkflowCredential("other", "o"), WorkflowCredential("absent")),
    )
    known = {"prod": CredentialValue("", "secret"), "other": CredentialValue("o", "p")}
    report = run(trial, flow, tmp_path, find_credential=known.get)
    got = seen(report, 2)
    assert got["credential"] == ["default user", "secret", "prod"]
    assert sorted(got["names"]) == ["other", "prod"]
    assert got["variables"] == {"configured": True}


def test_credentials_that_are_nowhere_fail_their_node(trial, tmp_path):
    report = run(trial, workflow(variable(1, "prod", "me", kind="credentials")), tmp_path)
    assert "There is no password for the credentials 'prod'" in report.outcomes[0].message


def test_ports_of_the_extensions_own_types(trial, tmp_path):
    speak = new_node(trial, 1, "Speak")
    listen = new_node(trial, 2, "Listen", inputs={"Further": 2})
    again = new_node(trial, 3, "Listen", inputs={"Bytes": 1})
    lines = [(1, 1, 2, 1), (1, 1, 2, 2), (1, 2, 2, 3), (1, 2, 3, 1), (2, 1, 3, 2)]
    report = run(trial, workflow(speak, listen, again, lines=lines), tmp_path)
    assert report.ok, [o.message for o in report.outcomes]
    assert report.outcome(2).done.outputs == (b"Words; hello; hello; HELLO; None",)
    assert report.outcome(3).done.outputs[0].startswith(b"Loud; HELLO; b'Words; hello")


def test_a_port_of_another_type_fails_the_node(trial, tmp_path):
    flow = workflow(new_node(trial, 1, "Speak"), new_node(trial, 2, "Listen"), lines=[(1, 3, 2, 1)])
    assert "port 'Words' needs" in run(trial, flow, tmp_path).outcome(2).message


def test_what_knime_would_not_let_a_person_connect(trial, tmp_path):
    """Bytes into ports of tables: the node fails and says so, the others run."""
    speak, listen = new_node(trial, 1, "Speak"), new_node(trial, 2, "Listen")
    flow = workflow(
        speak,
        listen,
        concatenate_node(3),
        boundary_node(4, "input"),
        numbers(5, 1),
        lines=[(1, 1, 2, 1), (2, 1, 3, 1), (5, 1, 3, 2), (2, 1, 4, 1)],
    )
    report = run(trial, flow, tmp_path)
    assert "Something else than a table arrives" in report.outcome(3).message
    assert report.outcome(4).message.startswith("Unexpected ")
    assert [statuses(report)[i] for i in (1, 2, 5)] == [NodeStatus.EXECUTED] * 3


def test_a_number_that_is_too_large_for_its_column(trial, tmp_path):
    report = run(trial, workflow(numbers(1, 2**40)), tmp_path)
    assert "too large for its column" in report.outcome(1).message


def test_a_failure_stops_what_is_behind_it_and_nothing_else(trial, tmp_path):
    flow = workflow(
        context(trial, 1, "odd variable"),
        numbers(2, 1),
        context(trial, 3, inputs={"First": 1}),
        concatenate_node(4),
        lines=[(1, 1, 4, 1), (2, 1, 4, 2), (2, 1, 3, 1)],
    )
    report = run(trial, flow, tmp_path)
    assert statuses(report) == {
        1: NodeStatus.FAILED,
        2: NodeStatus.EXECUTED,
        3: NodeStatus.EXECUTED,
        4: NodeStatus.NOT_RUN,
    }
    assert "flow variable 'x'" in report.outcome(1).message
    assert report.outcome(4).message == "Context (#1) was not executed"
    assert [outcome.node.id for outcome in report.ends] == [3]


def test_cancel(trial, tmp_path):
    asked = []

    def is_canceled():
        asked.append(1)
        return len(asked) > 1

    flow = workflow(numbers(1, 1), context(trial, 2, "cancel", inputs={"First": 1}), lines=[(1, 1, 2, 1)])
    report = run(trial, flow, tmp_path, is_canceled=is_canceled)
    assert report.canceled
    assert statuses(report) == {1: NodeStatus.EXECUTED, 2: NodeStatus.CANCELED}


def test_a_node_that_is_canceled_while_it_runs(trial, tmp_path):
    stop = []

    class Watcher:
        def started(self, step, position, total):
            stop.append(step.node.id)

        def progressed(self, step, progress, message):
            pass

        def finished(self, outcome):
            pass

    report = run(
        trial,
        workflow(context(trial, 1, "cancel")),
        tmp_path,
        is_canceled=lambda: bool(stop),
        watcher=Watcher(),
    )
    assert statuses(report) == {1: NodeStatus.CANCELED}


def test_a_watcher_sees_everything(trial, tmp_path):
    events = []

    class Watcher:
        def started(self, step, position, total):
            events.append(("started", step.node.id, position, total))

        def progressed(self, step, progress, message):
            events.append(("progress", progress, message))

        def finished(self, outcome):
            events.append(("finished", outcome.status.value))

    run(trial, workflow(context(trial, 1)), tmp_path, watcher=Watcher())
    assert events == [("started", 1, 0, 1), ("progress", 1.0, "done"), ("finished", "executed")]


def test_the_data_area_is_where_nodes_look_for_it(trial, tmp_path):
    flow = workflow(context(trial, 1), files={"data/a/b.txt": b"x", "data/old.txt": b"new"})
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old.txt").write_bytes(b"old")
    report = run(trial, flow, tmp_path)
    assert seen(report, 1)["data area"] == "data"
    assert (tmp_path / "data/a/b.txt").read_bytes() == b"x"
    assert (tmp_path / "data/old.txt").read_bytes() == b"old"


def broken_settings(trial, state):
    node = new_node(trial, 1, "Settings", {"number": 2.0})
    children = [
        child if child.key != "number" else type(child)("number", "xdouble", 99.0) for child in node.model
    ]
    fields = {name: getattr(node, name) for name in node.__dataclass_fields__}
    # A validator of the node's own refuses negative numbers.
    children = [
        child if child.key != "number" else type(child)("number", "xdouble", -1.0) for child in children
    ]
    return NativeNode(**{**fields, "model": Config("model", tuple(children)), "state": state})


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


def java_node(node_id, name, factory, **parts):
    return NativeNode(id=node_id, name=name, factory=factory, bundle=("b", "b", "v"), **parts)


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
        java_node(1, "Chunk Loop Start", loop, outputs=1, inputs=1),
        java_node(2, "CSV Reader", unknown, outputs=1, inputs=0, annotation="orders"),
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
        "Clean up (#4)",
        "Part (#5)",
    }
    assert "loop" in problems["Chunk Loop Start (#1)"]
    assert loop in problems["Chunk Loop Start (#1)"]
    assert unknown in problems["CSV Reader 'orders' (#2)"]
    assert text.count("What runs here: the nodes of this extension, Table Creator, Concatenate") == 1
    assert "org.other.x" in problems["Odd (#3)"]
    assert "metanode, with Row Filter (#4:2) inside" in problems["Clean up (#4)"]
    assert "component" in problems["Part (#5)"]
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
    newer = new_node(trial, 1, "versions")
    fields = {name: getattr(newer, name) for name in newer.__dataclass_fields__}
    settings = Config("s", (string("extension_id", trial.id), string("node_id", "from the future")))
    unknown, _ = refused(
        trial, tmp_path, workflow(NativeNode(**{**fields, "factory_settings": settings, "name": "New"}))
    )
    assert "has no node 'from the future'" in unknown["New (#1)"]


def test_settings_that_the_workflow_does_not_have(trial, tmp_path):
    flow = workflow(variable(1, "x", 5, parameter="the-x"), variables=(WorkflowVariable("w", "STRING", ""),))
    with pytest.raises(RunError, match="nothing called 'y' to set; it has: x, w"):
        run(trial, flow, tmp_path, settings={"y": "1"})
    with pytest.raises(RunError, match="'x' is 'a', but it has to be a whole number"):
        run(trial, flow, tmp_path, settings={"x": "a"})
    twice = workflow(variable(1, "x", 5), variable(2, "x", 6))
    with pytest.raises(RunError, match="could be any of the Configuration nodes #1, #2"):
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
    with pytest.raises(RunError, match="no input called 'row'; it has: rows"):
        run(trial, flow, tmp_path, inputs={"row": pa.table({"q": [1]})})
    default = workflow(numbers(3, 1), *flow.nodes, lines=[(3, 1, 1, 1), (1, 1, 2, 1)])
    assert table_of(run(trial, default, tmp_path), 1)[1] == [{"n": 1}]


def test_odd_names_run(trial, tmp_path):
    name = "100% %%00065 \t\x01 😀 <&>\" '"
    node = context(trial, 2, annotation=name)
    flow = workflow(variable(1, name, name), numbers(3, name, name=name, kind="string"), node,
                    lines=[(1, 1, 2, 0)])  # fmt: skip
    write_workflow(flow, tmp_path / "w.knwf")
    report = run(trial, read_workflow(tmp_path / "w.knwf"), tmp_path, settings={name: name + "!"})
    assert seen(report, 2)["variables"][name] == name + "!"
    assert table_of(report, 3)[1] == [{name: name}]
    assert json.dumps(report.outcome(2).label)
