"""Configuration, boundary and Concatenate nodes: made, written, read; and KNIME's own settings of them."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from knime_mcp.knwf import (
    Column,
    Concatenation,
    Config,
    Configuration,
    Connection,
    KnwfError,
    PathConversion,
    PortGroup,
    SettingsEntry,
    ToolColumn,
    Workflow,
    boundary_node,
    check,
    concatenate_node,
    configuration_node,
    created_columns,
    extension_node,
    read_configuration,
    read_workflow,
    string_to_path_node,
    table_creator,
    workflow_to_tool_node,
    write_workflow,
)
from knime_mcp.knwf.node_file import read_node
from knime_mcp.knwf.settings_xml import array, boolean, from_xml, string, to_xml
from knime_mcp.knwf.workflow_model import CanvasPosition

NASTY = "100% %%00065 \t\n\x01 😀 <&>\" '"
CONFIGURATIONS = [
    Configuration(
        kind="string", variable=NASTY, parameter="a-b_c", value=NASTY, label=NASTY, description=NASTY
    ),
    Configuration(kind="string", variable="s", parameter="", value="a", pattern="[ab]", message="? is wrong"),
    Configuration(kind="integer", variable="i", parameter="i", value=-5, minimum=-10, maximum=2**31 - 1),
    Configuration(kind="integer", variable="i", parameter="i", value=5),
    Configuration(kind="double", variable="d", parameter="d", value=1.5, maximum=2.5),
    Configuration(kind="boolean", variable="b", parameter="b", value=True, as_number=True),
    Configuration(kind="credentials", variable="c", parameter="c", value="me"),
]


def written_and_read(tmp_path, *nodes, lines=()):
    workflow = Workflow("w", nodes, tuple(Connection(*line) for line in lines))
    write_workflow(workflow, tmp_path / "w.knwf")
    again = read_workflow(tmp_path / "w.knwf")
    assert again == workflow
    return again


@pytest.mark.parametrize("says", CONFIGURATIONS)
def test_configurations_are_read_as_they_were_written(tmp_path, says):
    again = written_and_read(tmp_path, configuration_node(1, says, annotation=NASTY))
    assert read_configuration(again.node(1)) == says
    assert (again.node(1).inputs, again.node(1).outputs) == (0, 1)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({"kind": "string", "variable": "", "value": ""}, "flow variable is empty"),
        ({"kind": "integer", "variable": "x", "value": 1.5}, "is no integer"),
        ({"kind": "integer", "variable": "x", "value": True}, "is no integer"),
        ({"kind": "string", "variable": "x", "value": 1}, "is no string"),
        ({"kind": "boolean", "variable": "x", "value": 1}, "is no boolean"),
        ({"kind": "string", "variable": "x", "value": "", "parameter": "a b"}, "name of a parameter"),
        ({"kind": "string", "variable": "x", "value": "", "parameter": "a1"}, "name of a parameter"),
    ],
)
def test_configurations_that_knime_would_refuse_are_not_made(says, message):
    with pytest.raises(KnwfError, match=message):
        configuration_node(1, Configuration(**{"parameter": "", **says}))


@pytest.mark.parametrize("kind", ["input", "output", "message"])
def test_boundaries_are_read_as_they_were_written(tmp_path, kind):
    made = boundary_node(2, kind, parameter="rows", description="" if kind == "message" else NASTY)
    creator = table_creator(1, [])
    again = written_and_read(tmp_path, creator, made, lines=[(1, 1, 2, 1)])
    assert (again.node(2).inputs, again.node(2).outputs) == (1, 1 if kind == "input" else 0)
    assert check(again) == []


def test_a_port_whose_type_was_exchanged_keeps_it(tmp_path):
    java = "org.knime.core.node.port.flowvariable.FlowVariablePortObject"
    groups = (PortGroup("Callee Workflow Input", (java,), exchangeable=True),)
    again = written_and_read(tmp_path, replace(boundary_node(1, "input"), port_groups=groups))
    assert again.node(1).port_groups == groups


@pytest.mark.parametrize("row_ids", ["new", "fail", "suffix", "skip"])
@pytest.mark.parametrize("inputs", [2, 4])
def test_concatenations_are_read_as_they_were_written(tmp_path, row_ids, inputs):
    says = Concatenation(True, row_ids, "_x")
    again = written_and_read(tmp_path, concatenate_node(1, says, inputs=inputs))
    assert again.node(1).inputs == inputs


def test_connections_to_known_nodes_are_checked():
    """The file does not say how many inputs a Java node has; of these it is known."""
    nodes = (table_creator(1, []), concatenate_node(2))
    beyond = Workflow("w", nodes, (Connection(1, 1, 2, 3),))
    assert "has no input port 3; it has 2" in "\n".join(map(str, check(beyond)))


def test_another_kind_of_node_is_refused():
    other = extension_node(1, "N", extension_id="e", extension_node_id="n", version="1.0.0")
    with pytest.raises(KnwfError, match="node 1"):
        read_configuration(other)


def test_settings_with_parts_missing_are_refused():
    made = configuration_node(1, CONFIGURATIONS[3])
    for lost in ("flowVariableName", "defaultValue"):
        rest = Config("model", tuple(child for child in made.model if child.key != lost))
        with pytest.raises(KnwfError, match="node 1"):
            read_configuration(replace(made, model=rest))


@pytest.mark.parametrize(
    ("kind", "entry"), [("integer", string("integer", "3")), ("string", SettingsEntry("string", "xint", 3)),
                        ("boolean", string("boolean", "yes")), ("double", boolean("double", value=True))]
)  # fmt: skip
def test_a_default_of_another_type_is_refused(kind, entry):
    made = configuration_node(1, next(own for own in CONFIGURATIONS if own.kind == kind))
    rest = tuple(child for child in made.model if child.key != "defaultValue")
    broken = replace(made, model=Config("model", (*rest, Config("defaultValue", (entry,)))))
    with pytest.raises(KnwfError, match=rf"node 1 \(.*\): .* is no {kind}"):
        read_configuration(broken)


@pytest.mark.parametrize(
    ("key", "own", "message"),
    [
        ("rowIndices", array("", "xstring", ["a", "b"]), "rowIndices are no whole numbers"),
        ("columnIndices", array("", "xdouble", [0.0, float("inf")]), "columnIndices are no whole numbers"),
        ("rowIndices", array("", "xint", [0, -1]), "rowIndices are no whole numbers from 0 on"),
        ("rowIndices", array("", "xint", [0, 2_000_000_000]), "cell in row 2000000000"),
        ("rowIndices", array("", "xint", [0]), "not as many cells"),
        ("values", array("", "xint", [1, 2]), "values are no texts"),
    ],
)
def test_broken_tables_are_refused(key, own, message):
    made = table_creator(1, [Column("a", "string", ("x", "y"))])
    model = tuple(own.with_key(key) if child.key == key else child for child in made.model)
    with pytest.raises(KnwfError, match=message):
        created_columns(replace(made, model=Config("model", model)))


@pytest.mark.parametrize(("name", "message"), [("a", "two columns of one name"), ("", "without a name")])
def test_columns_that_no_table_can_have_are_refused(name, message):
    made = table_creator(1, [Column(own, "string", ("x",)) for own in ("a", "b")])
    text = to_xml(made.model).replace(b'type="xstring" value="b"', f'type="xstring" value="{name}"'.encode())
    with pytest.raises(KnwfError, match=message):
        created_columns(replace(made, model=from_xml(text, "model")))


_TESTS = "org.knime.core.workflow.tests/src/org/knime/core/node/workflow"
_KNIMES_OWN = [
    (f"{_TESTS}/bugAP21890_UnsetVariablesOnReset/Concatenate (#4)", None, 2),
    (
        f"{_TESTS}/bugAP15980_ProblemSavingComponentProjectWithFlowVariables/String Configuration (#1232)",
        read_configuration,
        0,
    ),
    (f"{_TESTS}/enhAP12286_ExternalConfiguration/Double Configuration (#2)", read_configuration, 0),
    (f"{_TESTS}/enhAP12286_ExternalConfiguration/Credentials Configuration (#16)", read_configuration, 0),
    (f"{_TESTS}/enhAP23936_BDTRefReaderNoCopy/Workflow Service Input (#15)", None, 1),
]


@pytest.mark.real_knime
@pytest.mark.parametrize(("folder", "read", "inputs"), _KNIMES_OWN)
def test_settings_that_knime_wrote_are_read(folder, read, inputs):
    git = Path(os.environ["KNIME_CORE_GIT"])
    git = git if (git / "HEAD").is_file() else git / ".git"
    path = f"HEAD:{folder}/settings.xml"
    data = subprocess.run(
        ["git", f"--git-dir={git}", "show", path], capture_output=True, check=True, timeout=60
    ).stdout
    node, _ = read_node(from_xml(data, path), 1, CanvasPosition())
    assert node.inputs == inputs
    assert read is None or read(node)


@pytest.mark.parametrize(
    "says",
    [
        PathConversion("text"),
        PathConversion(NASTY, specifier="knime.workflow.data", new_column=None, must_exist=True),
        PathConversion("text", category="LOCAL", specifier=None, new_column=NASTY, fail_on_missing=False),
    ],
)
def test_string_to_path_is_read_as_it_was_written(tmp_path, says):
    (node,) = written_and_read(tmp_path, string_to_path_node(1, says)).nodes
    assert (node.inputs, node.outputs) == (1, 1)


@pytest.mark.parametrize(
    "says",
    [ToolColumn("Path"), ToolColumn(NASTY, "REPLACE"), ToolColumn("Path", "REPLACE_AND_RENAME", NASTY)],
)
def test_workflow_to_tool_is_read_as_it_was_written(tmp_path, says):
    (node,) = written_and_read(tmp_path, workflow_to_tool_node(1, says)).nodes
    assert (node.inputs, node.outputs) == (1, 1)
