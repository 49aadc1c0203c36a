"""Metanodes and components: what is in them runs, or they are left out if nothing is connected to them."""

from dataclasses import replace

import pytest

from knime_mcp.headless.workflows import NodeStatus, NotRunnable
from knime_mcp.knwf import (
    Config,
    WorkflowVariable,
    boundary_node,
    concatenate_node,
    read_workflow,
    write_workflow,
)
from knime_mcp.knwf.settings_xml import integer, string
from knime_mcp.knwf.workflow_file import workflow_files
from tests.headless.workflows.building import (
    component,
    context,
    java_node,
    metanode,
    numbers,
    run,
    seen,
    table_of,
    variable,
    workflow,
)
from tests.knwf.by_hand import NODE, archive
from tests.knwf.by_hand import workflow as xml_workflow


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
    assert own.label == "Context (#9:3) in 'Part'"
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
        ("component", workflow(numbers(1, 1)),
         "it cannot be read: the component's settings have no virtual-in-ID"),
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


def inner(report, name):
    (found,) = [o for o in report.outcomes if o.step.inside and o.node.name == name]
    return found


def test_tables_go_through_a_metanode(trial, tmp_path):
    node, files = metanode(
        5,
        workflow(context(trial, 1, inputs={"First": 1})),
        border=[(-1, 0, 1, 1), (1, 1, -1, 1), (-1, 0, -1, 0)],  # one output is the input itself
    )
    flow = workflow(
        numbers(1, 1, 2, 3), node, context(trial, 7, inputs={"First": 1}),
        context(trial, 8, inputs={"First": 1}), files=files, lines=[(1, 1, 5, 0), (5, 0, 7, 1), (5, 1, 8, 1)],
    )  # fmt: skip
    write_workflow(flow, tmp_path / "w.knwf")
    report = run(trial, read_workflow(tmp_path / "w.knwf"), tmp_path)
    assert report.ok, [o.message for o in report.outcomes]
    assert inner(report, "Context").label == "Context (#5:1) in 'Part'"
    assert seen(report, inner(report, "Context").node.id)["first"] == [3, 1, ["n"]]
    assert seen(report, 7)["first"] == [3, 1, ["n"]]
    assert seen(report, 8)["first"][2] == ["name", "value"]


def test_a_port_of_a_metanode_that_nothing_reaches(trial, tmp_path):
    inside = workflow(concatenate_node(1))
    node, files = metanode(5, inside, border=[(-1, 0, 1, 1), (-1, 1, 1, 2), (1, 1, -1, 0)])
    flow = workflow(
        numbers(1, 1), node, context(trial, 7, inputs={"First": 1}), files=files,
        lines=[(1, 1, 5, 0), (5, 0, 7, 1)],
    )  # fmt: skip
    with pytest.raises(
        NotRunnable, match=r"Concatenate \(#5:1\) in 'Part': Nothing is connected to its input 'Table 2'"
    ):
        run(trial, flow, tmp_path)


def test_a_component_passes_tables_and_the_variables_that_it_selects(trial, tmp_path):
    node, files = component(
        5,
        variable(1, "inside", 7),
        context(trial, 2, inputs={"First": 1}),
        variable(3, "made", 1),
        lets_in=("wanted",), lets_out=("made",),
        lines=[(100, 1, 2, 1), (1, 1, 2, 0), (2, 1, 101, 1), (3, 1, 101, 0)],
    )  # fmt: skip
    flow = workflow(
        numbers(1, 4, 5), variable(2, "wanted", 1), variable(3, "secret", 2), node,
        context(trial, 7, inputs={"First": 1}), files=files,
        lines=[(2, 1, 3, 0), (3, 1, 5, 0), (1, 1, 5, 1), (5, 1, 7, 1)],
    )  # fmt: skip
    write_workflow(flow, tmp_path / "w.knwf")
    report = run(trial, read_workflow(tmp_path / "w.knwf"), tmp_path)
    assert report.ok, [o.message for o in report.outcomes]
    within = seen(report, inner(report, "Context").node.id)
    assert within["first"] == [2, 1, ["n"]]
    assert within["variables"].items() >= {"wanted": 1, "inside": 7}.items()
    assert "secret" not in within["variables"]
    after = seen(report, 7)
    assert after["first"][2] == ["name", "value"]
    assert after["variables"].items() >= {"wanted": 1, "secret": 2, "made": 1}.items()
    assert "inside" not in after["variables"]


@pytest.mark.parametrize(
    ("lets_out", "options", "seen_after"),
    [
        ("a*", {}, {"ab", "ac"}),
        (("ab",), {"excludes": True}, {"ac", "b"}),
        ("a?", {"prefix": "p_"}, {"p_ab", "p_ac"}),
    ],
)  # fmt: skip
def test_which_variables_leave_a_component(trial, tmp_path, lets_out, options, seen_after):
    node, files = component(
        5, variable(1, "ab", 1), variable(2, "ac", 2), variable(3, "b", 3), outs=0, ins=0, lets_out=lets_out,
        out=options, lines=[(1, 1, 2, 0), (2, 1, 3, 0), (3, 1, 101, 0)],
    )  # fmt: skip
    flow = workflow(node, context(trial, 7), files=files, lines=[(5, 0, 7, 0)])
    report = run(trial, flow, tmp_path)
    assert report.ok, [o.message for o in report.outcomes]
    assert seen(report, 7)["variables"].keys() - {"configured"} == seen_after


def test_nodes_in_a_component_do_not_see_variables_of_the_workflow(trial, tmp_path):
    node, files = component(5, context(trial, 1), ins=0, outs=0)
    flow = workflow(node, context(trial, 7), files=files, variables=(WorkflowVariable("x", "INTEGER", 5),))
    report = run(trial, flow, tmp_path)
    assert "x" not in seen(report, inner(report, "Context").node.id)["variables"]
    assert seen(report, 7)["variables"]["x"] == 5


def test_a_component_runs_with_what_its_dialog_says(trial, tmp_path):
    dialog = (Config("city-1", (string("string", "Oslo"),)), Config("2", (integer("integer", 9),)))
    node, files = component(
        5, variable(1, "v1", "Rome", parameter="city"), variable(2, "v2", 1), context(trial, 3),
        ins=0, outs=0, dialog=dialog, lines=[(1, 1, 2, 0), (2, 1, 3, 0)],
    )  # fmt: skip
    flow = workflow(node, context(trial, 7), files=files)
    report = run(trial, flow, tmp_path)
    got = seen(report, inner(report, "Context").node.id)["variables"]
    assert got.items() >= {"v1": "Oslo", "v2": 9}.items()
    report = run(trial, flow, tmp_path, settings={"city": "Bern"})
    assert seen(report, inner(report, "Context").node.id)["variables"]["v1"] == "Bern"


def test_a_component_ends_when_all_in_it_has_run(trial, tmp_path):
    """As in KNIME since 5.1: the failure of any node in it is that of the component."""
    node, files = component(
        5, numbers(1, 1), context(trial, 2, "odd variable"), ins=0, lines=[(1, 1, 101, 1)],
    )  # fmt: skip
    flow = workflow(node, context(trial, 7, inputs={"First": 1}), files=files, lines=[(5, 1, 7, 1)])
    report = run(trial, flow, tmp_path)
    assert {o.label: o.status for o in report.outcomes} == {
        "Component Input (#5:100) in 'Comp'": NodeStatus.EXECUTED,
        "Table Creator (#5:1) in 'Comp'": NodeStatus.EXECUTED,
        "Context (#5:2) in 'Comp'": NodeStatus.FAILED,
        "Component Output (#5:101) in 'Comp'": NodeStatus.NOT_RUN,
        "Context (#7)": NodeStatus.NOT_RUN,
    }


def test_components_in_components(trial, tmp_path):
    deep, deep_files = component(
        3, context(trial, 1, inputs={"First": 1}), lines=[(100, 1, 1, 1), (1, 1, 101, 1)], name="Deep"
    )
    node, files = component(5, deep, files=deep_files, lines=[(100, 1, 3, 1), (3, 1, 101, 1)])
    flow = workflow(
        numbers(1, 4, 5), node, context(trial, 7, inputs={"First": 1}), files=files,
        lines=[(1, 1, 5, 1), (5, 1, 7, 1)],
    )  # fmt: skip
    report = run(trial, flow, tmp_path)
    assert report.ok, [o.message for o in report.outcomes]
    assert inner(report, "Context").label == "Context (#5:3:1) in 'Comp'"
    assert seen(report, inner(report, "Context").node.id)["first"] == [2, 1, ["n"]]


def test_what_only_knime_runs_in_a_connected_component_is_named(trial, tmp_path):
    node, files = component(5, java_node(1, inputs=1), lines=[(100, 1, 1, 1), (1, 1, 101, 1)])
    flow = workflow(numbers(1, 4), node, files=files, lines=[(1, 1, 5, 1)])
    with pytest.raises(NotRunnable, match=r"Row Filter \(#5:1\) in 'Comp': Only KNIME runs this node"):
        run(trial, flow, tmp_path)
