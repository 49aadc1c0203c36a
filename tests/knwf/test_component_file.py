"""Components in files of their own: written as KNIME's *Share component* does, read again, checked."""

import os
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from examples.knime_nodes import Column, table_creator
from knime_mcp.knwf import (
    Component,
    ComponentFace,
    Configuration,
    Connection,
    KnwfError,
    Workflow,
    configuration_node,
    edge_node,
    read_configuration,
    with_value,
    write_component,
)
from knime_mcp.knwf.settings_xml import array_values, from_xml
from tests.support.archives import around, check_archive, read_component, read_workflow

pytestmark = pytest.mark.quick


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def numbers(node_id, *cells):
    return table_creator(node_id, [Column("n", "int", cells)])


NASTY = "a <b> & \"c\" 'd' \x01\n é 😀"
FACE = ComponentFace(
    description=NASTY,
    kind="Source",
    icon=b"\x89PNG\r\n\x1a\n",
    outputs=(("Rows", "What <is> in it"), (NASTY, "")),
)


def component(name="Part", *nodes, **parts):
    leaving = edge_node(9, "output", FACE.outputs)
    lines = (Connection(1, 1, 9, 1), Connection(1, 1, 9, 2))
    inside = Workflow(name, (numbers(1, 7), edge_node(8, "input", ()), leaving, *nodes), lines, **parts)
    return Component(inside, 8, 9)


def files_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_what_is_written_is_a_shared_component_and_is_read_again(tmp_path):
    path = tmp_path / "c.knwf"
    write_component(component("Find: things?"), FACE, path, changed=NOW)
    assert check_archive(path) == []
    files = files_of(path)
    assert {name.partition("/")[0] for name in files} == {"Find_ things_"}
    template = from_xml(files["Find_ things_/template.knime"], "template.knime")
    about = template.config("workflow_template_information")
    assert (template.text("version"), about.text("role"), about.text("templateType")) == (
        "5.1.0",
        "Template",
        "SubNode",
    )
    assert about.text("timestamp") == "2026-01-02 03:04:05 +0000"
    whole = around(read_workflow(path))
    (node,) = whole.nodes
    found = read_component(whole, node)
    assert (found.entry, found.exit, len(found.workflow.nodes)) == (8, 9, 3)
    names = found.workflow.node(9).model.config("port-names")
    assert array_values(names)[0] == "Rows"
    settings = from_xml(whole.files[node.settings_file], "settings.xml")
    assert [own.key for own in settings.config("outports").configs()] == ["outport_0", "outport_1"]
    assert settings.config("inports").configs() == ()


def test_the_face_is_xml_that_the_schema_of_knime_allows(tmp_path):
    write_component(component(), FACE, tmp_path / "c.knwf", changed=NOW)
    root = ET.fromstring(files_of(tmp_path / "c.knwf")["Part/component-metadata.xml"])
    space = "{http://www.knime.org/core/node/workflow/metadata/v1.0}"
    # The order is that of the sequence in metadata-1.0.xsd; the type of the content must be said.
    order = ["last-modified", "description", "component-type", "icon", "in-ports", "out-ports"]
    assert [child.tag for child in root] == [f"{space}{name}" for name in order]
    assert root.get("content-type") == "text/plain"
    assert root.findtext(f"{space}description") == NASTY.replace("\x01", "")
    ports = root.findall(f"{space}out-ports/{space}port")
    assert [(port.get("name"), port.text) for port in ports] == [
        ("Rows", "What <is> in it"),
        (NASTY.replace("\x01", ""), None),
    ]


def test_a_file_that_says_the_same_keeps_its_moment(tmp_path):
    """KNIME asks people to update a linked component whose file has a later moment."""
    path, later = tmp_path / "c.knwf", NOW + timedelta(days=1)
    write_component(component(), FACE, path, changed=NOW)
    first, os_time = path.read_bytes(), path.stat().st_mtime_ns
    os.utime(path, ns=(0, os_time - 5_000_000_000))
    write_component(component(), FACE, path, changed=later)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (first, os_time - 5_000_000_000)
    write_component(component(), replace(FACE, description="new"), path, changed=later)
    assert b"2026-01-03 03:04:05" in files_of(path)["Part/template.knime"]
    path.write_bytes(b"no archive")
    write_component(component(), FACE, path, changed=later)
    assert check_archive(path) == []


def test_a_component_without_its_edge_is_a_problem(tmp_path):
    path = tmp_path / "c.knwf"
    write_component(replace(component(), exit=1), FACE, path, changed=NOW)
    (problem,) = check_archive(path)
    assert "is not the node that virtual-out-ID says" in problem.what
    with pytest.raises(KnwfError, match="two nodes with the id 1"):
        write_component(component("Part", numbers(1, 2)), FACE, path, changed=NOW)


def test_a_workflow_is_no_component(tmp_path):
    flow = Workflow("w", (numbers(1, 1),))
    assert around(flow) is flow


@pytest.mark.parametrize(
    ("kind", "value", "more"),
    [
        ("choice", "up", {"choices": ("", "up", "down")}),
        ("date", "2026-01-02T03:04:05+01:00[Europe/Berlin]", {"date": "LOCAL_DATE", "now": True}),
        ("date", "2026-01-02T03:04:05Z", {"date": "ZONED_DATE_TIME"}),
        ("file", "", {}),
        ("file", "/tmp/x.png", {}),
        ("string", "[1]", {"multi_line": True}),
    ],
)
def test_settings_of_all_kinds_are_read_as_they_were_written(kind, value, more):
    made = Configuration(kind=kind, variable="v", parameter="p", value=value, label="L", **more)
    node = configuration_node(3, made)
    assert read_configuration(node) == made
    changed = with_value(node, "down" if kind == "choice" else value)
    assert read_configuration(changed) == replace(made, value="down" if kind == "choice" else value)


def test_a_choice_of_nothing_is_an_empty_text():
    node = configuration_node(1, Configuration(kind="choice", variable="v", parameter="", value="a"))
    empty = from_xml(
        b'<config key="model"><config key="defaultValue"/>'
        b'<entry key="flowVariableName" type="xstring" value="v"/></config>',
        "model",
    )
    assert read_configuration(replace(node, model=empty)).value == ""
