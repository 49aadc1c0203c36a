"""Whole workflows: order, variables, ports of every kind, failures, cancel, and files."""

import json
import os
from dataclasses import replace

import pytest

from knime_mcp.headless.workflows import CredentialValue, NodeStatus, Watcher, WorkflowError
from knime_mcp.headless.workflows.new_node import new_node
from knime_mcp.headless.workflows.run_results import end_tables, write_results
from knime_mcp.knwf import (
    PathConversion,
    VariableControl,
    WorkflowCredential,
    WorkflowVariable,
    boundary_node,
    concatenate_node,
    read_workflow,
    string_to_path_node,
    write_workflow,
)
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
    again = new_node(trial, 3, "Listen")
    lines = [(1, 1, 2, 1), (1, 1, 2, 2), (1, 2, 2, 3), (1, 2, 3, 1)]
    report = run(trial, workflow(speak, listen, again, lines=lines), tmp_path)
    assert report.ok, [o.message for o in report.outcomes]
    heard = [report.outcome(i).done.outputs[0].column("value") for i in (2, 3)]
    assert heard == [["Words; hello; hello; HELLO"], ["Loud; HELLO"]]


def test_a_port_of_another_type_fails_the_node(trial, tmp_path):
    flow = workflow(new_node(trial, 1, "Speak"), new_node(trial, 2, "Listen"), lines=[(1, 3, 2, 1)])
    assert "port 'Words' needs" in run(trial, flow, tmp_path).outcome(2).message


def test_what_knime_would_not_let_a_person_connect(trial, tmp_path):
    """Words into ports of tables: the node fails and says so, the others run."""
    flow = workflow(
        new_node(trial, 1, "Speak"),
        concatenate_node(3),
        boundary_node(4, "input"),
        numbers(5, 1),
        lines=[(1, 1, 3, 1), (5, 1, 3, 2), (1, 1, 4, 1)],
    )
    report = run(trial, flow, tmp_path)
    assert "Something else than a table arrives" in report.outcome(3).message
    assert "Something else than a table arrives" in report.outcome(4).message
    assert [statuses(report)[i] for i in (1, 5)] == [NodeStatus.EXECUTED] * 2


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


def test_a_canceled_run_stops_before_the_next_node(trial, tmp_path):
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

    class Stopping(Watcher):
        def started(self, step, position, total):
            stop.append(step.node.id)

    flow = workflow(context(trial, 1, "cancel"))
    report = run(trial, flow, tmp_path, is_canceled=lambda: bool(stop), watcher=Stopping())
    assert statuses(report) == {1: NodeStatus.CANCELED}


def test_a_watcher_sees_everything(trial, tmp_path):
    events = []

    class Noting(Watcher):
        def started(self, step, position, total):
            events.append(("started", step.node.id, position, total))

        def progressed(self, step, progress, message):
            events.append(("progress", progress, message))

        def finished(self, outcome):
            events.append(("finished", outcome.status.value))

    run(trial, workflow(context(trial, 1)), tmp_path, watcher=Noting())
    assert events == [("started", 1, 0, 1), ("progress", 1.0, "done"), ("finished", "executed")]


def test_the_data_area_is_where_nodes_look_for_it(trial, tmp_path):
    flow = workflow(context(trial, 1), files={"data/a/b.txt": b"x", "data/old.txt": b"new"})
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old.txt").write_bytes(b"old")
    report = run(trial, flow, tmp_path)
    assert seen(report, 1)["data area"] == "data"
    assert (tmp_path / "data/a/b.txt").read_bytes() == b"x"
    assert (tmp_path / "data/old.txt").read_bytes() == b"old"


def test_files_that_cannot_be_unpacked(trial, tmp_path):
    for files in ({"data/a": b"", "data/a/b": b""}, {f"data/{'n' * 300}": b""}):
        with pytest.raises(WorkflowError, match=r"The workflow's file 'data/.*' cannot be unpacked: "):
            run(trial, workflow(numbers(1, 1), files=files), tmp_path)


def test_settings_that_a_flow_variable_breaks_fail_the_node(trial, tmp_path):
    control = VariableControl(("selected_column_name",), used="empty")
    node = replace(string_to_path_node(2, PathConversion("n")), variables=(control,))
    flow = workflow(numbers(1, "a", kind="string"), variable(3, "empty", ""), node,
                    lines=[(1, 1, 2, 1), (3, 1, 2, 0)])  # fmt: skip
    message = run(trial, flow, tmp_path).outcome(2).message
    assert message == "node 2 (String to Path) does not say which column it converts to which file system"


def test_a_table_that_knime_would_not_take_fails_the_node(trial, tmp_path):
    report = run(trial, workflow(numbers(1, 1, name="<RowID>")), tmp_path)
    assert report.outcome(1).message.startswith("no node could deliver this input table: duplicate column")


def test_long_names_of_nodes_become_names_of_files(trial, tmp_path):
    node = replace(numbers(1, 1), name="表" * 120)
    report = run(trial, workflow(node), tmp_path)
    for file in write_results(report, tmp_path / "out"):
        assert file.is_file()


def test_results_are_written_to_a_folder_whose_name_is_not_utf8(trial, tmp_path):
    report = run(trial, workflow(numbers(1, 1)), tmp_path)
    files = write_results(report, tmp_path / os.fsdecode(b"M\xfcll"))
    assert [file.suffix for file in files if file.stat().st_size] == [".csv", ".parquet"]


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
