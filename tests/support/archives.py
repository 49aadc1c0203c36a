"""Reads workflow archives and shared components, which the product only writes."""

import zipfile
from dataclasses import replace

from examples.knime_nodes import CELL_CLASSES, TABLE_CREATOR_FACTORY, Column
from knime_mcp.knwf import (
    COMPONENT_INPUT_FACTORY,
    COMPONENT_OUTPUT_FACTORY,
    CONFIGURATION_FACTORIES,
    Component,
    Config,
    KnwfError,
    NativeNode,
    OtherNode,
    Workflow,
    WorkflowProblem,
    check,
    read_configuration,
    read_files,
)
from knime_mcp.knwf.component_file import TEMPLATE_FILE
from knime_mcp.knwf.settings_xml import array_values, boolean, from_xml
from knime_mcp.knwf.workflow_file import folder_name, workflow_files

COLUMN_TYPES = {cell_class: name for name, cell_class in CELL_CLASSES.items()}


def read_workflow(path) -> Workflow:
    """The workflow of an archive; the folder's name is the workflow's, if that says none."""
    with zipfile.ZipFile(path) as archive:
        (folder,) = {name.partition("/")[0] for name in archive.namelist()}
        names = [name for name in archive.namelist() if not name.endswith("/")]
        return read_files(folder, {name.partition("/")[2]: archive.read(name) for name in names})


def read_inside(workflow: Workflow, node: OtherNode) -> Workflow:
    """The workflow in a metanode or component, whose files the outer workflow has."""
    start = f"{node.settings_file.rpartition('/')[0]}/"
    inside = {path[len(start) :]: data for path, data in workflow.files.items() if path.startswith(start)}
    return read_files(node.name, inside)


def around(component: Workflow) -> Workflow:
    """The workflow that has nothing but a shared component; others unchanged."""
    if TEMPLATE_FILE not in component.files:
        return component
    folder = f"{folder_name(component.name)} (#1)"
    files = {f"{folder}/{path}": data for path, data in workflow_files(component).items()}
    node = OtherNode(1, component.name, "component", f"{folder}/settings.xml")
    return Workflow(component.name, (node,), files=files)


def check_archive(path) -> list[WorkflowProblem]:
    """The problems of the archive of a workflow or a component; empty for a valid archive."""
    try:
        workflow = read_workflow(path)
        problems = check(workflow)
        if TEMPLATE_FILE in workflow.files and not any(own.severity == "error" for own in problems):
            whole = around(workflow)
            read_component(whole, whole.nodes[0])
    except KnwfError as error:
        return [WorkflowProblem("error", "archive", str(error))]
    return problems


def read_component(workflow: Workflow, node: OtherNode) -> Component:
    """What is in a component of a workflow; KnwfError if the files are no component."""
    inside = read_inside(workflow, node)
    settings = from_xml(workflow.files[node.settings_file], node.settings_file)
    entry = _end(inside, settings, "virtual-in-ID", COMPONENT_INPUT_FACTORY)
    leaving = _end(inside, settings, "virtual-out-ID", COMPONENT_OUTPUT_FACTORY)
    if any(line.source == leaving or line.destination == entry for line in inside.connections):
        raise KnwfError("a connection leads out of its Component Output, or into its Component Input")
    dialog = settings.config("model") or Config("model")
    nodes = tuple(_as_set(own, dialog) if isinstance(own, NativeNode) else own for own in inside.nodes)
    return Component(replace(inside, nodes=nodes), entry, leaving)


def _end(inside, settings, key, factory) -> int:
    number = settings.integer(key)
    node = inside.node(number)
    if not isinstance(node, NativeNode) or node.factory != factory:
        raise KnwfError(f"node {number} is not the node that {key} says")
    return number


def _as_set(node: NativeNode, dialog: Config) -> NativeNode:
    """A Configuration node with the value of the component's dialog, which is stored as its default is."""
    if node.factory not in CONFIGURATION_FACTORIES:
        return node
    parameter = read_configuration(node).parameter
    value = dialog.config(f"{parameter}-{node.id}" if parameter else str(node.id))
    if value is None:
        return node
    default = Config("defaultValue", tuple(value))
    # A date that was set is no longer the moment of the execution.
    given = {default.key: default, "use_default_exec_time": boolean("use_default_exec_time", value=False)}
    kept = tuple(given.get(child.key, child) for child in node.model)
    return replace(node, model=Config(node.model.key, kept))


def created_columns(node: NativeNode) -> tuple[Column, ...]:
    """The columns of the table that a Table Creator makes."""
    assert node.factory == TABLE_CREATOR_FACTORY
    rows, indices, texts = (
        array_values(node.model.config(key)) for key in ("rowIndices", "columnIndices", "values")
    )
    cells = dict(zip(zip(rows, indices, strict=True), texts, strict=True))
    columns = []
    # Keys are numbers as texts, of which 10 would stand before 2.
    for own in sorted(node.model.config("columnProperties").configs(), key=lambda config: int(config.key)):
        kind = COLUMN_TYPES[own.config("ColumnClass").text("cell_class")]
        values = (cells[row, int(own.key)] for row in sorted(set(rows)))
        columns.append(Column(own.text("ColumnName"), kind, tuple(_cell(kind, text) for text in values)))
    return tuple(columns)


def _cell(kind, text):
    match kind:
        case _ if text == "":
            return None
        case "int" | "long":
            return int(text)
        case "double":
            return float(text)
        case "boolean":
            return text == "true"
        case _:
            return text
