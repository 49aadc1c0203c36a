"""Workflows of other programs: broken, old, or with unknown content."""

import pytest

from knime_mcp.knwf import NodeState, OtherNode
from tests.knwf.by_hand import NODE, archive, node, settings, workflow
from tests.support.archives import check_archive, read_workflow

pytestmark = pytest.mark.quick


def test_a_folder_belongs_to_one_node(tmp_path):
    """Were it not so, a few nested metanodes that name one folder often would hold more than any machine."""
    shared = NODE.replace("N (#{id})", "N (#1)")
    deep = NODE.replace("N (#{id})", "N (#1)/deeper")
    nodes = node(1) + shared.format(id=2, type="MetaNode") + deep.format(id=3, type="NativeNode")
    files = {
        "workflow.knime": workflow(nodes=nodes),
        "N (#1)/settings.xml": settings(),
        "N (#1)/deeper/settings.xml": settings(),
    }
    found = read_workflow(archive(tmp_path, files))
    assert [own.id for own in found.nodes if isinstance(own, OtherNode)] == [2, 3]
    assert [str(problem) for problem in found.problems] == [
        "error: node 2 (N): its folder 'N (#1)' is also that of another node",
        "error: node 3 (N): its settings file is not in a folder of its own",
    ]


def test_a_missing_node_folder_is_named(tmp_path):
    path = archive(tmp_path, {"workflow.knime": workflow(nodes=node(1))})
    read = read_workflow(path)
    assert isinstance(read.node(1), OtherNode)
    assert [str(p) for p in check_archive(path)] == ["error: node 1 (N): N (#1)/settings.xml is missing"]


def test_a_folder_is_found_in_other_letter_case_as_knime_finds_it(tmp_path):
    files = {"workflow.knime": workflow(nodes=node(1)), "n (#1)/settings.xml": settings()}
    read = read_workflow(archive(tmp_path, files))
    assert read.problems == ()
    assert read.node(1).factory == "org.example.F"
    assert read.files == {}


def test_missing_keys_are_named(tmp_path):
    keys = ("state", "workflow_credentials", "connections")
    text = workflow(nodes=node(1))
    for key in keys:
        text = text.replace(f'key="{key}"', f'key="{key}s"')
    files = {"workflow.knime": text, "N (#1)/settings.xml": settings().replace("hasContent", "hasContents")}
    assert [str(problem) for problem in check_archive(archive(tmp_path, files))] == [
        *(f"error: workflow.knime: the key '{key}' is missing" for key in keys),
        "error: node 1 (N): the key 'hasContent' is missing in its settings",
    ]


def test_an_empty_workflow_as_knime_hub_makes_it_is_read(tmp_path):
    text = '<config key="workflow.knime"><config key="nodes"/><config key="connections"/></config>'
    read = read_workflow(archive(tmp_path, {"workflow.knime": text}))
    assert (read.name, read.nodes) == ("w", ())
    [problem] = read.problems
    assert problem.severity == "warning"
    assert "says no version" in problem.what


def test_broken_nodes_and_connections_are_named(tmp_path):
    nodes = node(1) + node(2) + node(3, "LoopNode") + '<config key="node_4"/>'
    connections = '<config key="connection_0"><entry key="sourceID" type="xint" value="1"/></config>'
    files = {
        "workflow.knime": workflow(nodes=nodes, connections=connections),
        "N (#1)/settings.xml": settings().replace('key="factory"', 'key="fabric"'),
        "N (#2)/settings.xml": "<config",
    }
    found = "\n".join(map(str, check_archive(archive(tmp_path, files))))
    assert "node 1 (N): its settings do not say which node it is" in found
    assert "node 2 (N): N (#2)/settings.xml is not well-formed XML" in found
    assert "node 3 (N): it is a 'LoopNode', which is no kind of node" in found
    assert "'node_4' has no id or no settings file" in found
    assert "'connection_0' has no destID, sourcePort, destPort" in found


@pytest.mark.parametrize(
    ("version", "message"),
    [("4.1.0", "older format 4.1.0"), ("6.0.0", "'6.0.0', which is not known"), ("", "no version")],
)
def test_other_versions_are_warned_about(version, message, tmp_path):
    [problem] = read_workflow(archive(tmp_path, {"workflow.knime": workflow(version=version)})).problems
    assert problem.severity == "warning"
    assert message in problem.what


def test_executed_nodes_are_read_without_their_data(tmp_path):
    files = {
        "workflow.knime": workflow(nodes=node(1)),
        "N (#1)/settings.xml": settings("EXECUTED", '<config key="view"/>'),
        "N (#1)/port_1/data.zip": "x" * 1000,
        "workflow.svg": "<svg/>",
        ".artifacts/x.json": "{}",
        "data/in.csv": "a",
    }
    read = read_workflow(archive(tmp_path, files))
    assert read.problems == ()
    assert read.node(1).state is NodeState.EXECUTED
    assert [kept.key for kept in read.node(1).other] == ["view"]
    assert read.files == {"data/in.csv": b"a"}


def test_an_unknown_state_counts_as_idle(tmp_path):
    files = {"workflow.knime": workflow(nodes=node(1)), "N (#1)/settings.xml": settings("EXECUTING")}
    read = read_workflow(archive(tmp_path, files))
    assert read.node(1).state is NodeState.IDLE
    assert "EXECUTING" in read.problems[0].what


def test_a_variable_of_unknown_type_is_left_out(tmp_path):
    more = '<config key="workflow_variables"><config key="Var_0"><entry key="name" type="xstring" value="p"/>'
    more += '<entry key="class" type="xstring" value="FSLOCATION"/><config key="value"/></config></config>'
    read = read_workflow(archive(tmp_path, {"workflow.knime": workflow(more=more)}))
    assert read.variables == ()
    assert "'FSLOCATION' cannot be read; it is left out" in read.problems[0].what
