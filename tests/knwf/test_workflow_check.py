from dataclasses import replace

import pytest

from knime_mcp.knwf import (
    Connection,
    DeclaredPort,
    NativeNode,
    OtherNode,
    PortGroup,
    VariableControl,
    Workflow,
    WorkflowCredential,
    WorkflowVariable,
    check,
    extension_node,
    write_workflow,
)
from tests.knwf import by_hand
from tests.support.archives import check_archive, read_workflow

pytestmark = pytest.mark.quick


def node(node_id, inputs=0, outputs=1, **options):
    return extension_node(
        node_id,
        "N",
        extension_id="org.example",
        extension_node_id="n",
        version="1.0.0",
        parameters={"model": {"url": "", "group": {"a": 1}}},
        inputs=[DeclaredPort(name=f"In {i}") for i in range(inputs)],
        outputs=[DeclaredPort(name=f"Out {i}") for i in range(outputs)],
        **options,
    )


def control(*path):
    return VariableControl(path, used="v")


FINE = Workflow("w", (node(1), node(2, inputs=1)), (Connection(1, 1, 2, 1),))


def test_a_sound_workflow_has_no_problems(tmp_path):
    assert check(FINE) == []
    write_workflow(FINE, tmp_path / "w.knwf")
    assert check_archive(tmp_path / "w.knwf") == []


def test_errors_are_named(subtests):
    for changes, problem in [
        ({"nodes": (node(1), node(1))}, "workflow: it has two nodes with the id 1"),
        ({"nodes": (node(-1),)}, "node -1 (N): ids of nodes count from 0"),
        ({"connections": (Connection(1, 1, 9, 1),)}, "connection 1:1 -> 9:1: node 9 does not exist"),
        (
            {"connections": (Connection(1, 2, 2, 1),)},
            "connection 1:2 -> 2:1: node 1 (N) has no output port 2; it has 1",
        ),
        (
            {"connections": (Connection(1, 1, 2, 1), Connection(1, 1, 2, 2))},
            "connection 1:1 -> 2:2: node 2 (N) has no input port 2; it has 1",
        ),
        ({"connections": (Connection(1, -1, 2, 1),)}, "connection 1:-1 -> 2:1: ports count from 0"),
        (
            {"connections": (Connection(1, 1, 2, 1), Connection(1, 0, 2, 1))},
            "node 2: more than one connection leads to its input port 1",
        ),
        (
            {
                "nodes": (node(1, inputs=1), node(2, inputs=1)),
                "connections": (Connection(1, 1, 2, 1), Connection(2, 1, 1, 1)),
            },
            "workflow: it has a cycle; these nodes wait for each other: node 1 (N), node 2 (N)",
        ),
        ({"nodes": (node(1), NativeNode(2, "N", ""))}, "node 2 (N): it has no factory"),
        (
            {"nodes": (node(1), replace(node(2, inputs=1), port_groups=(PortGroup("a"), PortGroup("a"))))},
            "node 2 (N): it has two port groups 'a'",
        ),
        (
            {"nodes": (node(1, variables=[control("url"), control("url")]), node(2, inputs=1))},
            "node 1 (N): the parameter url has two flow variable controls",
        ),
        (
            {"nodes": (node(1, variables=[control("group"), control("group", "a")]), node(2, inputs=1))},
            "node 1 (N): flow variables control 'group.a' and also the group that it is in",
        ),
        (
            {"nodes": (node(1, variables=[control()]), node(2, inputs=1))},
            "a flow variable control says no parameter",
        ),
        ({"credentials": (WorkflowCredential("a"), WorkflowCredential("a"))}, "two credentials 'a'"),
        ({"credentials": (WorkflowCredential(" "),)}, "a credential has no name"),
        ({"variables": (WorkflowVariable("a", "INTEGER", 1),) * 2}, "two workflow variables 'a'"),
        ({"variables": (WorkflowVariable("knime.x", "INTEGER", 1),)}, "belong to KNIME"),
        (
            {"nodes": (node(1), OtherNode(2, "M", "metanode", "M (#2)/workflow.knime"))},
            "node 2 (M): its file 'M (#2)/workflow.knime' is missing",
        ),
        (
            {"nodes": (node(1), OtherNode(2, "M", "broken", "M", problem="it is torn"))},
            "node 2 (M): it is torn",
        ),
    ]:
        with subtests.test(changes=changes, problem=problem):
            found = [p for p in check(replace(FINE, **changes)) if p.severity == "error"]
            assert problem in "\n".join(map(str, found))


def test_what_was_probably_not_meant_is_a_warning():
    open_input = replace(FINE, connections=())
    assert [str(p) for p in check(open_input)] == [
        "warning: node 2 (N): nothing is connected to its input port 1 ('In 0')"
    ]
    misspelled = replace(
        FINE, nodes=(node(1, variables=[control("ulr"), control("group", "a")]), FINE.nodes[1])
    )
    assert [str(p) for p in check(misspelled)] == [
        "warning: node 1 (N): a flow variable controls its parameter 'ulr', which it does not have"
    ]


@pytest.mark.parametrize("version", ["1.3.0", "2.0.0", "2.6.0"])
def test_a_format_from_before_2_8_is_one_problem(tmp_path, version):
    """KNIME wrote less of each node then, with other keys, so all other checks would be wrong."""
    files = {
        "workflow.knime": by_hand.workflow(version=version, nodes=by_hand.node(1) + by_hand.node(2)),
        "N (#1)/settings.xml": '<config key="s"><entry key="factory" type="xstring" value="o.F"/></config>',
        "N (#2)/settings.xml": '<config key="s"><entry key="factory" type="xstring" value="o.F"/></config>',
    }
    workflow = read_workflow(by_hand.archive(tmp_path, files))
    assert len(workflow.nodes) == 2
    (problem,) = check(workflow)
    assert (problem.severity, problem.where) == ("error", "workflow.knime")
    assert f"{version}" in problem.what
    assert "open it in a current KNIME and save it" in problem.what


def test_a_format_that_is_newer_is_read_all_the_same(tmp_path):
    files = {"workflow.knime": by_hand.workflow(version="19.1.0", nodes=by_hand.node(1))}
    problems = check(read_workflow(by_hand.archive(tmp_path, files)))
    assert [problem.severity for problem in problems] == ["warning", "error"]
    assert "N (#1)/settings.xml is missing" in problems[1].what
