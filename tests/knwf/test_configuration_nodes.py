"""Configuration nodes: made, written, read; and KNIME's own settings of nodes."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from knime_mcp.knwf import (
    Config,
    Configuration,
    Connection,
    KnwfError,
    SettingsEntry,
    Workflow,
    configuration_node,
    extension_node,
    read_configuration,
    write_workflow,
)
from knime_mcp.knwf.node_file import read_node
from knime_mcp.knwf.settings_xml import boolean, from_xml, string
from knime_mcp.knwf.workflow_model import CanvasPosition
from tests.support.archives import read_workflow

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


_TESTS = "org.knime.core.workflow.tests/src/org/knime/core/node/workflow"
_KNIMES_OWN = [
    (f"{_TESTS}/bugAP21890_UnsetVariablesOnReset/Concatenate (#4)", None, None),
    (
        f"{_TESTS}/bugAP15980_ProblemSavingComponentProjectWithFlowVariables/String Configuration (#1232)",
        read_configuration,
        0,
    ),
    (f"{_TESTS}/enhAP12286_ExternalConfiguration/Double Configuration (#2)", read_configuration, 0),
    (f"{_TESTS}/enhAP12286_ExternalConfiguration/Credentials Configuration (#16)", read_configuration, 0),
    (f"{_TESTS}/enhAP23936_BDTRefReaderNoCopy/Workflow Service Input (#15)", None, None),
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
