import re
import stat
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings

from examples.knime_nodes import Column, table_creator
from knime_mcp.knwf import (
    Annotation,
    CanvasPosition,
    Config,
    Connection,
    DeclaredPort,
    KnwfError,
    NodeState,
    OtherNode,
    VariableControl,
    Workflow,
    WorkflowCredential,
    WorkflowVariable,
    check,
    extension_node,
    write_workflow,
)
from knime_mcp.knwf.settings_xml import from_xml, string
from tests.knwf.by_hand import archive, workflow
from tests.knwf.java_streams import workflow_files
from tests.knwf.strategies import workflows
from tests.support import real_knime as rig
from tests.support.archives import created_columns, read_workflow

NAMES = [
    "100% %% %%00065",
    "a/b\\c:d*e?f\"g<h>i|j#k~l",
    "..",
    ".hidden",
    "../../etc/passwd",
    "tab\tnew\nline\x00\x1b",
    "😀 Überblick 表",
    "x" * 5000,
    "é" * 300,
    "con",
    "NUL.txt",
    " padded. ",
    "/",
]  # fmt: skip


def extension(node_id, name="A node", **options):
    given = {"extension_id": "org.example", "extension_node_id": "a_node", "version": "1.0.0"}
    return extension_node(node_id, name, **(given | options))


def source(node_id):
    return extension(node_id, outputs=[DeclaredPort(name="Out")])


def step(node_id, **options):
    return extension(node_id, inputs=[DeclaredPort(name="In")], outputs=[DeclaredPort(name="Out")], **options)


def written(workflow, folder):
    path = folder / "w.knwf"
    write_workflow(workflow, path)
    return path


@given(workflow=workflows())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_workflows_come_back(workflow, tmp_path):
    path = written(workflow, tmp_path)
    again = read_workflow(path)
    assert again == replace(workflow, nodes=tuple(sorted(workflow.nodes, key=lambda node: node.id)))
    assert again.problems == ()
    data = path.read_bytes()
    assert written(again, tmp_path).read_bytes() == data
    assert rig.check_knwf(str(path))["problems"] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_of_any_name_is_written_and_read(name, tmp_path):
    workflow = Workflow(name, (step(1, name=name, annotation=name), source(2)), (Connection(2, 1, 1, 1),))
    path = written(workflow, tmp_path)
    assert read_workflow(path) == workflow
    assert rig.check_knwf(str(path))["problems"] == []
    for entry in zipfile.ZipFile(path).namelist():
        parts = entry.split("/")
        assert not {"", ".", ".."} & set(parts)
        assert all(len(part.encode()) <= 255 for part in parts)
        assert not set('*?:"<>%|~\\\0\t\n\x1b') & set(entry)


def test_everything_a_workflow_has_comes_back(tmp_path):
    columns = [
        Column("text", "string", ("a", None, "%%\t")),
        Column("int", "int", (1, None, -3)),
        Column("long", "long", (2**40, 0, None)),
        Column("double", "double", (0.5, 1, None)),
        Column("bool", "boolean", (True, False, None)),
    ]
    caller = extension(
        7,
        "Caller",
        parameters={"model": {"url": "x", "more": {"n": 1}}},
        inputs=[
            DeclaredPort(name="Tools", optional=True, present=0),
            DeclaredPort(name="Data", group=True, present=2),
        ],
        outputs=[DeclaredPort(name="Results")],
        variables=[
            VariableControl(("url",), used="u"),
            VariableControl(("more", "n"), used="n", exposed="m"),
        ],
        position=CanvasPosition(1, -2, 3, 4),
        annotation="label\nof two lines",
    )
    caller = replace(caller, description="what it does", other=(Config("view", (string("v", "1"),)),))
    workflow = Workflow(
        "everything",
        (table_creator(2, columns), caller),
        (Connection(2, 1, 7, caller.input_port("Data", 1)), Connection(2, 0, 7, 0)),
        (Annotation("note", 1, 2, 3, 4, "text/html", 5, 6, 7, 8, "CENTER"),),
        (WorkflowCredential("prod", "me"), WorkflowCredential("test")),
        (WorkflowVariable("u", "STRING", "https://host/mcp"),),
        "description",
        files={"data/in.csv": b"a,b"},
        other=(Config("tableBackend", (string("class", "x"),)),),
    )
    again = read_workflow(written(workflow, tmp_path))
    assert again == workflow
    assert created_columns(again.node(2)) == tuple(columns)
    node = again.node(7)
    assert node.parameters == {"model": {"url": "x", "more": {"n": 1}}}
    assert (node.parameters_version, node.extension_id, node.node_id) == ("1.0.0", "org.example", "a_node")
    assert (node.input_names, node.output_names) == (("Data", "Data"), ("Results",))
    assert node.output_port("Results") == 1
    with pytest.raises(KnwfError, match="no input 'Tools' 0; it has: Data, Data"):
        node.input_port("Tools")


def test_nodes_are_written_configured(tmp_path):
    """Stored idle, a node with settings that it refuses would silently get its defaults in KNIME."""
    assert source(1).state is NodeState.CONFIGURED
    executed = Workflow("w", (replace(source(1), state=NodeState.EXECUTED),))
    assert read_workflow(written(executed, tmp_path)).node(1).state is NodeState.CONFIGURED
    idle = Workflow("w", (replace(source(1), state=NodeState.IDLE),))
    assert read_workflow(written(idle, tmp_path)).node(1).state is NodeState.IDLE


def test_writing_replaces_the_file_as_a_whole(tmp_path):
    path = written(Workflow("first"), tmp_path)
    path.chmod(0o640)
    broken = Workflow("second", (source(1), source(1)))
    with pytest.raises(KnwfError, match="two nodes with the id 1"):
        write_workflow(broken, path)
    unwritable = Workflow("third", (replace(source(1), other=(Config("a\x01"),)),))
    with pytest.raises(KnwfError, match="node 1"):
        write_workflow(unwritable, path)
    assert read_workflow(path).name == "first"
    write_workflow(Workflow("fourth"), path)
    assert read_workflow(path).name == "fourth"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [file.name for file in tmp_path.iterdir()] == ["w.knwf"]


def test_nothing_is_left_where_writing_fails(tmp_path):
    (tmp_path / "w.knwf").mkdir()
    with pytest.raises(OSError, match="knwf"):
        write_workflow(Workflow("w"), tmp_path / "w.knwf")
    assert [file.name for file in tmp_path.iterdir()] == ["w.knwf"]


def test_files_stay_in_the_folder(tmp_path):
    for name in ("../x", "/x", "a/../../x", "a\\b", "C:x"):
        with pytest.raises(KnwfError, match="no path below"):
            write_workflow(Workflow("w", files={name: b""}), tmp_path / "w.knwf")


def test_a_cycle_is_named():
    workflow = Workflow("w", (step(1), step(2)), (Connection(1, 1, 2, 1), Connection(2, 1, 1, 1)))
    assert str(check(workflow)[-1]).endswith("wait for each other: node 1 (A node), node 2 (A node)")


def test_containers_are_kept(tmp_path):
    files = {"Part (#3)/workflow.knime": b"<inner/>", "Part (#3)/Node (#1)/settings.xml": b"<x/>"}
    node = OtherNode(3, "Part", "metanode", "Part (#3)/workflow.knime", CanvasPosition(1, 2, 3, 4))
    workflow = Workflow("w", (source(1), node), (Connection(1, 1, 3, 0),), files=files)
    again = read_workflow(written(workflow, tmp_path))
    assert again == workflow
    assert [(p.severity, p.where) for p in again.problems] == [("warning", "node 3 (Part)")]
    assert "metanode" in again.problems[0].what


def test_impossible_ports_are_refused():
    for port in (
        DeclaredPort(name="a", present=0),
        DeclaredPort(name="a", optional=True, present=2),
        DeclaredPort(name="a", present=2),
    ):
        with pytest.raises(KnwfError, match="cannot be there"):
            extension(1, inputs=[port])


def test_knime_finds_the_description_where_it_looks(tmp_path):
    """Since 5.1 in a file of its own, by a schema in which order and presence of the elements count."""
    path = written(Workflow("w", (source(1),), description='a < b & "c"\r\nd\x08'), tmp_path)
    root = ElementTree.fromstring(zipfile.ZipFile(path).read("w/workflow-metadata.xml"))
    space = "{http://www.knime.org/core/node/workflow/metadata/v1.0}"
    assert (root.tag, root.attrib) == (f"{space}workflow-metadata", {"content-type": "text/plain"})
    assert [child.tag for child in root] == [f"{space}last-modified", f"{space}description"]
    assert root[1].text == 'a < b & "c"\r\nd'
    assert read_workflow(path).description == 'a < b & "c"\r\nd'


def test_what_knime_says_of_a_workflow_is_kept(tmp_path):
    about = dict(workflow_files())["Word count/workflow-metadata.xml"]
    path = archive(tmp_path, {"workflow.knime": workflow(), "workflow-metadata.xml": about})
    read = read_workflow(path)
    assert read.description == "Counts"
    again = read_workflow(written(read, tmp_path))
    assert (again.description, again.files["workflow-metadata.xml"]) == ("Counts", about)
    changed = read_workflow(written(replace(read, description="Counts more"), tmp_path))
    assert changed.description == "Counts more"
    for broken in (b"<", b"<!DOCTYPE a><a/>", b"<a><description>d</description></a>"):
        path = archive(tmp_path, {"workflow.knime": workflow(), "workflow-metadata.xml": broken})
        assert read_workflow(path).files["workflow-metadata.xml"] == broken


def test_a_node_names_the_extension_that_it_needs(tmp_path):
    """KNIME shows these names where the extension is missing, and looks for the feature to install."""
    node = extension(1, "Caller", extension_id="org.knime_mcp.mcp", title="MCP tools", vendor="us")
    path = written(Workflow("w", (node,)), tmp_path)
    settings = from_xml(zipfile.ZipFile(path).read("w/Caller (#1)/settings.xml"), "s")
    named = {child.key: child.value for child in settings if re.match("node-(bundle|feature)-", child.key)}
    assert named == {
        "node-bundle-name": "MCP tools",
        "node-bundle-symbolic-name": "org.knime_mcp.mcp",
        "node-bundle-vendor": "us",
        "node-feature-name": "MCP tools",
        "node-feature-symbolic-name": "org.knime_mcp.features.mcp.feature.group",
        "node-feature-vendor": "us",
    }
