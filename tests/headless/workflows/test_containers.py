"""Metanodes and components that nothing is connected to: what is in them runs, or they are left out."""

from dataclasses import replace

import pytest

from knime_mcp.headless.workflows import NodeStatus, NotRunnable
from knime_mcp.knwf import OtherNode, boundary_node, read_workflow, write_workflow
from knime_mcp.knwf.workflow_file import workflow_files
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
from tests.knwf.by_hand import NODE, archive
from tests.knwf.by_hand import workflow as xml_workflow


def metanode(node_id, inner, name="Part", kind="metanode"):
    """A metanode with a workflow in it, and its files."""
    folder = f"{name} (#{node_id})"
    files = {f"{folder}/{path}": data for path, data in workflow_files(inner).items()}
    file = "settings.xml" if kind == "component" else "workflow.knime"
    files.setdefault(f"{folder}/{file}", b"<config/>")
    return OtherNode(node_id, name, kind, f"{folder}/{file}"), files


def outside(trial, node, files, *others, **parts):
    return workflow(variable(1, "x", 5), context(trial, 2), node, *others, lines=[(1, 1, 2, 0)], files=files,
                    **parts)  # fmt: skip


def test_what_is_in_a_metanode_runs(trial, tmp_path):
    inner = workflow(variable(1, "y", 7), numbers(2, 1, 2), context(trial, 3, inputs={"First": 1}),
                     lines=[(1, 1, 3, 0), (2, 1, 3, 1)])  # fmt: skip
    write_workflow(outside(trial, *metanode(9, inner)), tmp_path / "w.knwf")
    report = run(trial, read_workflow(tmp_path / "w.knwf"), tmp_path)
    assert report.ok
    assert report.plan.left_out == ()
    assert len(report.outcomes) == 5
    assert seen(report, 2)["variables"] == {"x": 5, "configured": True}
    (own,) = [o for o in report.outcomes if o.step.inside and o.node.name == "Context"]
    assert own.label == f"Context (#{own.node.id}) in 'Part'"
    got = seen(report, own.node.id)
    assert got["variables"]["y"] == 7
    assert "x" not in got["variables"]
    assert got["first"] == [2, 1, ["n"]]


def test_metanodes_in_metanodes(trial, tmp_path):
    deep, files = metanode(4, workflow(numbers(1, 42)), name="Deep")
    alone, more = metanode(5, workflow(java_node(1)), name="Alone")
    report = run(
        trial,
        outside(trial, *metanode(3, workflow(numbers(7, 1), deep, alone, files={**files, **more}))),
        tmp_path,
    )
    assert report.ok
    tables = {o.step.label: table_of(report, o.node.id)[1] for o in report.outcomes if o.step.inside}
    assert sorted(rows[0]["n"] for rows in tables.values()) == [1, 42]
    assert [(own.node.name, own.why) for own in report.plan.left_out] == [
        ("Alone", "only KNIME runs what is in it (Row Filter (#1))")
    ]


def test_a_metanode_that_is_too_deep_is_left_out(trial, tmp_path):
    node, files = metanode(1, workflow(numbers(1, 1)))
    for _ in range(25):
        node, files = metanode(1, workflow(node, numbers(2, 1), files=files))
    report = run(trial, outside(trial, replace(node, id=9), files), tmp_path)
    assert report.ok
    assert [own.why for own in report.plan.left_out] == ["metanodes are in each other more than 20 deep"]


@pytest.mark.parametrize("kind", ["MetaNode", "SubNode"])
def test_a_folder_that_is_named_often_is_read_once(trial, tmp_path, kind):
    """Ten lines in each of 18 metanodes that all name the next one would be 10 ** 18 nodes."""
    entry = NODE.replace("N (#{id})", "N (#1)")
    line = "".join(entry.format(id=own, type=kind) for own in range(10))
    last = workflow_files(workflow(numbers(1, 1)))
    files = {f"{'N (#1)/' * 18}{path}": data for path, data in last.items()}
    files |= {f"{'N (#1)/' * depth}workflow.knime": xml_workflow(nodes=line) for depth in range(18)}
    flow = read_workflow(archive(tmp_path, files))
    with pytest.raises(NotRunnable, match="is also that of another node"):
        run(trial, flow, tmp_path)


def test_a_metanode_with_the_number_of_another_node(trial, tmp_path):
    node, files = metanode(2, workflow(numbers(1, 1)))
    with pytest.raises(NotRunnable, match="two nodes with the id 2"):
        run(trial, workflow(numbers(2, 1), node, files=files), tmp_path)


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        (workflow(java_node(1)), r"Only KNIME runs what is in it \(Row Filter \(#1\)\)"),
        (workflow(boundary_node(1, "input"), numbers(2, 1)), "It wants an input table"),
        (None, "It cannot be read: workflow.knime is missing"),
    ],
)
def test_a_workflow_of_nothing_but_such_a_metanode_says_why(trial, tmp_path, inner, why):
    node, files = metanode(9, inner or workflow(numbers(1, 1)))
    with pytest.raises(NotRunnable, match=rf"Part \(#9\): {why}"):
        run(trial, workflow(node, files=files if inner else {}), tmp_path)


@pytest.mark.parametrize(
    ("kind", "inner", "why"),
    [
        ("component", workflow(numbers(1, 1)), "only KNIME runs components"),
        ("metanode", workflow(java_node(1)), "only KNIME runs what is in it (Row Filter (#1))"),
        ("metanode", workflow(boundary_node(1, "input", parameter="rows"), numbers(2, 1)),
         "it wants an input table"),
    ],
)  # fmt: skip
def test_what_does_not_run_here_is_left_out(trial, tmp_path, kind, inner, why):
    report = run(trial, outside(trial, *metanode(9, inner, kind=kind)), tmp_path)
    assert report.ok
    assert [outcome.node.id for outcome in report.outcomes] == [1, 2]
    assert [(own.node.id, own.why) for own in report.plan.left_out] == [(9, why)]


def test_a_metanode_that_cannot_be_read_is_left_out(trial, tmp_path):
    node, files = metanode(9, workflow(numbers(1, 1)))
    files[node.settings_file] = b"<config"
    report = run(trial, outside(trial, node, files), tmp_path)
    assert [outcome.status for outcome in report.outcomes] == [NodeStatus.EXECUTED] * 2
    assert report.plan.left_out[0].why.startswith("it cannot be read: ")


def test_a_long_label_is_named_by_its_first_line(trial, tmp_path):
    report = run(trial, workflow(replace(context(trial, 1), annotation="\n one \ntwo")), tmp_path)
    assert report.outcomes[0].label == "Context 'one' (#1)"
