"""KNIME's own nodes that run here: makes each from its settings, and reads these again. Pure.

*Workflow Input*, *Workflow Output* and *Tool Message Output* stand at the edge of a workflow. When KNIME
makes a tool of the workflow, it removes them: inputs and outputs become the tool's ports, and the first cell
of the table at the Tool Message Output becomes the message for the model. The others are *Concatenate*,
*String to Path*, *Workflow to Tool* and *Table Creator*; for *Row Filter* and *Column Renamer* see
`table_nodes`, for Configuration nodes `configuration_nodes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from .settings_xml import (
    Config,
    KnwfError,
    Scalar,
    SettingsEntry,
    array,
    array_values,
    boolean,
    integer,
    string,
)
from .workflow_model import (
    KNIME_VENDOR,
    ORIGIN,
    CanvasPosition,
    NativeNode,
    PortGroup,
    node_label,
    object_class,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

# Name, symbolic name and vendor of the plug-ins that bring the nodes.
_AI: Final = ("KNIME AI Extension Java", "org.knime.ai.core", KNIME_VENDOR)
_BASE: Final = ("KNIME Base Nodes", "org.knime.base", KNIME_VENDOR)
_FILES: Final = ("KNIME Filehandling Nodes", "org.knime.filehandling.utility.nodes", KNIME_VENDOR)
_SERVICES_NAME: Final = "KNIME Nodes to build and use KNIME workflow services"
_SERVICES: Final = (_SERVICES_NAME, "org.knime.workflowservices", KNIME_VENDOR)
_CALLEE: Final = "org.knime.workflowservices.knime.callee"
_TABLE: Final = object_class("PortType.TABLE")

BoundaryKind = Literal["input", "output", "message"]
BOUNDARY_FACTORIES: Final[dict[str, BoundaryKind]] = {
    f"{_CALLEE}.WorkflowInputNodeFactory": "input",
    f"{_CALLEE}.WorkflowOutputNodeFactory": "output",
    "org.knime.ai.core.node.tool.output.ToolMessageOutputNodeFactory": "message",
}
CONCATENATE_FACTORY: Final = "org.knime.base.node.preproc.append.row.AppendedRowsNodeFactory"
STRING_TO_PATH_FACTORY: Final = "org.knime.filehandling.utility.nodes.stringtopath.StringToPathNodeFactory"
WORKFLOW_TO_TOOL_FACTORY: Final = "org.knime.ai.core.node.tool.workflow2tool.WorkflowToToolNodeFactory"
#: Not `TableCreator3NodeFactory`, which KNIME has since 5.11: archives open in 5.8, too, and later releases
#: run this one as before, and call it deprecated.
TABLE_CREATOR_FACTORY: Final = "org.knime.base.node.io.tablecreator.TableCreator2NodeFactory"
ROW_FILTER_FACTORY: Final = "org.knime.base.node.preproc.filter.row3.RowFilterNodeFactory"
COLUMN_RENAMER_FACTORY: Final = "org.knime.base.node.preproc.column.renamer.ColumnRenamerNodeFactory"
#: The port group for a connection to a file system, which another node provides.
CONNECTION_GROUP: Final = "File System Connection"
#: The inputs of every Concatenate node; a user can add more to the group.
CONCATENATE_INPUTS: Final = 2
_INPUT_GROUP: Final = "input"

#: What is the same for all nodes of a kind: name, plug-in, inputs, outputs, and the groups of its ports.
_KINDS: Final[dict[str, tuple[str, tuple[str, str, str], int, int, tuple[PortGroup, ...]]]] = {
    f"{_CALLEE}.WorkflowInputNodeFactory": (
        *("Workflow Input", _SERVICES, 1, 1),
        (PortGroup("Callee Workflow Input", (_TABLE,), exchangeable=True),),
    ),
    f"{_CALLEE}.WorkflowOutputNodeFactory": (
        *("Workflow Output", _SERVICES, 1, 0),
        (PortGroup("Callee Workflow Output", (_TABLE,), exchangeable=True),),
    ),
    "org.knime.ai.core.node.tool.output.ToolMessageOutputNodeFactory": ("Tool Message Output", _AI, 1, 0, ()),
    CONCATENATE_FACTORY: (
        *("Concatenate", _BASE, CONCATENATE_INPUTS, 1),
        (PortGroup(_INPUT_GROUP), PortGroup("Concatenated tables")),
    ),
    STRING_TO_PATH_FACTORY: (
        *("String to Path", _FILES, 1, 1),
        (PortGroup(CONNECTION_GROUP), PortGroup("Data Table"), PortGroup("Output table")),
    ),
    WORKFLOW_TO_TOOL_FACTORY: (
        *("Workflow to Tool", _AI, 1, 1),
        (PortGroup(CONNECTION_GROUP), PortGroup("Paths"), PortGroup("Tools")),
    ),
    TABLE_CREATOR_FACTORY: ("Table Creator", _BASE, 0, 1, ()),
    ROW_FILTER_FACTORY: ("Row Filter", _BASE, 1, 1, ()),
    COLUMN_RENAMER_FACTORY: ("Column Renamer", _BASE, 1, 1, ()),
}


def native_node(
    node_id: int,
    factory: str,
    model: Iterable[SettingsEntry | Config],
    position: CanvasPosition,
    annotation: str,
) -> NativeNode:
    """Makes a node of one of these kinds; ``model`` are its settings."""
    name, bundle, inputs, outputs, groups = _KINDS[factory]
    return NativeNode(
        id=node_id,
        name=name,
        factory=factory,
        model=Config("model", tuple(model)),
        inputs=inputs,
        outputs=outputs,
        port_groups=groups,
        position=position,
        annotation=annotation,
        bundle=bundle,
    )


def known_inputs(factory: str, groups: tuple[PortGroup, ...]) -> int | None:
    """The number of inputs of a node of these kinds, some of which depend on its groups; None for others."""
    if factory not in _KINDS:
        return None
    inputs = _KINDS[factory][2]
    if factory in (STRING_TO_PATH_FACTORY, WORKFLOW_TO_TOOL_FACTORY):
        return inputs + sum(group.count for group in groups)
    return inputs + sum(group.count for group in groups if group.id == _INPUT_GROUP)


_DEFAULT_PARAMETERS: Final = {
    "input": "input-parameter",
    "output": "output-parameter",
    "message": "tool-message-output",
}


def boundary_node(
    node_id: int,
    kind: BoundaryKind,
    *,
    parameter: str = "",
    description: str = "",
    position: CanvasPosition = ORIGIN,
    annotation: str = "",
) -> NativeNode:
    """Makes a node at the edge of a workflow, for a table: input, output, or the message for the model.

    ``parameter`` is its name for callers, by default KNIME's; ``description`` tells callers its purpose.
    """
    settings = [string("parameterName", parameter or _DEFAULT_PARAMETERS[kind])]
    if kind != "message":
        settings.append(string("parameterDescription", description))
    factory = next(name for name, known in BOUNDARY_FACTORIES.items() if known == kind)
    return native_node(node_id, factory, settings, position, annotation)


RowIds = Literal["new", "fail", "suffix", "skip"]


@dataclass(frozen=True, slots=True)
class Concatenation:
    """The settings of a Concatenate node."""

    #: True keeps only the columns that all tables have; False keeps all columns, with missing cells.
    intersection: bool = False
    #: ``new`` makes new RowIDs. The others keep the tables' RowIDs; for a duplicate they fail, add the suffix
    #: until it is unique, or skip the row.
    row_ids: RowIds = "new"
    suffix: str = "_dup"


def concatenate_node(
    node_id: int,
    settings: Concatenation | None = None,
    *,
    inputs: int = CONCATENATE_INPUTS,
    position: CanvasPosition = ORIGIN,
    annotation: str = "",
) -> NativeNode:
    """Makes a Concatenate node; without settings it has KNIME's defaults. `KnwfError` for too few inputs."""
    settings = settings or Concatenation()
    if inputs < CONCATENATE_INPUTS:
        raise KnwfError(f"a Concatenate node has at least {CONCATENATE_INPUTS} inputs, not {inputs}")
    added = (object_class("PortType.TABLE"),) * (inputs - CONCATENATE_INPUTS)
    model = (
        boolean("intersection_of_columns", settings.intersection),
        boolean("create_new_rowids", settings.row_ids == "new"),
        boolean("fail_on_duplicates", settings.row_ids == "fail"),
        boolean("append_suffix", settings.row_ids == "suffix"),
        string("suffix", settings.suffix),
        boolean("enable_hiliting", value=False),
    )
    node = native_node(node_id, CONCATENATE_FACTORY, model, position, annotation)
    return replace(node, inputs=inputs, port_groups=(PortGroup(_INPUT_GROUP, added), *node.port_groups[1:]))


_URL_TIMEOUT: Final = 10_000


@dataclass(frozen=True, slots=True)
class PathConversion:
    """The settings of a String to Path node."""

    column: str  # the column with the texts
    category: str = "RELATIVE"  # the kind of file system of the paths: ``RELATIVE``, ``LOCAL``, …
    #: The file system of that kind: ``knime.workflow`` (paths start at the workflow, ``../x`` is beside it),
    #: ``knime.workflow.data`` (its data area), ``knime.space``, …; None if the kind has only one.
    specifier: str | None = "knime.workflow"
    new_column: str | None = "Path"  # name of the added column; None replaces `column`
    must_exist: bool = False  # whether a path without a file or folder fails
    fail_on_missing: bool = True  # whether a missing cell fails; otherwise its path is missing


def string_to_path_node(
    node_id: int, settings: PathConversion, *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    model = (
        *_setting("file_system", _file_system(settings)),
        *_setting("string", string("selected_column_name", settings.column)),
        *_setting("boolean", boolean("fail_on_missing_file_folder", value=settings.must_exist)),
        *_setting("boolean", boolean("fail_on_missing_values", value=settings.fail_on_missing)),
        *_setting(
            "string",
            string(
                "generated_column_mode", "REPLACE_SELECTED" if settings.new_column is None else "APPEND_NEW"
            ),
        ),
        *_setting("string", string("appended_column_name", settings.new_column or "Path")),
    )
    return native_node(node_id, STRING_TO_PATH_FACTORY, model, position, annotation)


def _setting(kind: str, setting: SettingsEntry | Config) -> tuple[Config, SettingsEntry | Config]:
    """A setting, after the internals that KNIME's settings models write before it."""
    internals = (string("SettingsModelID", f"SMID_{kind}"), boolean("EnabledStatus", value=True))
    return Config(f"{setting.key}_Internals", internals), setting


def _file_system(settings: PathConversion) -> Config:
    relative = settings.specifier if settings.category == "RELATIVE" else None
    chooser = (
        boolean("has_fs_port", value=False),
        boolean("overwritten_by_variable", value=False),
        string("convenience_fs_category", settings.category),
        string("relative_to", relative or "knime.workflow"),
        string("mountpoint", "LOCAL"),
        string("spaceId", ""),
        string("spaceName", ""),
        integer("custom_url_timeout", _URL_TIMEOUT),
        boolean("connected_fs", value=True),
    )
    location = (
        boolean("location_present", value=True),
        string("file_system_type", settings.category),
        string("file_system_specifier", settings.specifier),
    )
    return Config(
        "file_system", (Config("file_system_chooser__Internals", chooser), Config("location_spec", location))
    )


OutputColumnPolicy = Literal["APPEND", "REPLACE", "REPLACE_AND_RENAME"]


@dataclass(frozen=True, slots=True)
class ToolColumn:
    """The settings of a Workflow to Tool node."""

    path_column: str  # the column with the paths of the workflows
    #: Adds the tools as a new column, or replaces the paths, under the same or another name.
    policy: OutputColumnPolicy = "APPEND"
    name: str = "Tool"  # name of the new or renamed column


def workflow_to_tool_node(
    node_id: int, settings: ToolColumn, *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    model = (
        string("inputColumnName", settings.path_column),
        string("outputColumnPolicy", settings.policy),
        string("outputColumnName", settings.name),
    )
    return native_node(node_id, WORKFLOW_TO_TOOL_FACTORY, model, position, annotation)


ColumnType = Literal["string", "int", "long", "double", "boolean"]
CELL_CLASSES: Final[Mapping[ColumnType, str]] = {
    "string": "org.knime.core.data.def.StringCell",
    "int": "org.knime.core.data.def.IntCell",
    "long": "org.knime.core.data.def.LongCell",
    "double": "org.knime.core.data.def.DoubleCell",
    "boolean": "org.knime.core.data.def.BooleanCell",
}
_COLUMN_TYPES: Final[Mapping[str, ColumnType]] = {
    cell_class: name for name, cell_class in CELL_CLASSES.items()
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a Table Creator; None is a missing cell."""

    name: str
    type: ColumnType
    cells: tuple[str | int | float | bool | None, ...]


def table_creator(
    node_id: int, columns: Sequence[Column], *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    """Makes a Table Creator: a table of constants with the RowIDs Row0, Row1, ….

    An empty text becomes a missing cell, as the node cannot tell them apart.

    Raises:
        KnwfError: Two columns have one name, columns have different lengths, or a cell has another type than
            its column.
    """
    _check_names([column.name for column in columns])
    if len({len(column.cells) for column in columns}) > 1:
        raise KnwfError("the columns of a Table Creator must all have the same number of cells")
    cells = [
        (row, index, _cell_text(column, cell))
        for row in range(len(columns[0].cells) if columns else 0)
        for index, column in enumerate(columns)
        for cell in [column.cells[row]]
    ]
    model = (
        array("rowIndices", "xint", (row for row, _, _ in cells)),
        array("columnIndices", "xint", (index for _, index, _ in cells)),
        array("values", "xstring", (text for _, _, text in cells)),
        string("rowIdPrefix", "Row"),
        string("rowIdSuffix", ""),
        integer("rowIdStartValue", 0),
        boolean("highlightOutputTable", value=False),
        Config("columnProperties", tuple(_column(str(i), column) for i, column in enumerate(columns))),
    )
    return native_node(node_id, TABLE_CREATOR_FACTORY, model, position, annotation)


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise KnwfError(f"a Table Creator cannot have two columns of one name; it has: {', '.join(names)}")
    if "" in names:
        raise KnwfError("a Table Creator cannot have a column without a name")


def _column(key: str, column: Column) -> Config:
    cell_class = (string("cell_class", CELL_CLASSES[column.type]), boolean("is_null", value=False))
    return Config(
        key,
        (
            boolean("UserSetValues", value=True),
            string("MissValuePattern", ""),
            string("FormatParameter", None),
            boolean("ReadPossValsFromFile", value=False),
            boolean("SkipThisColumn", value=False),
            string("ColumnName", column.name),
            Config("ColumnClass", cell_class),
        ),
    )


_NUMBERS: Final = ("int", "long", "double")


def _cell_text(column: Column, cell: str | float | None) -> str:
    match cell:
        case None:
            return ""
        case bool() if column.type == "boolean":
            return "true" if cell else "false"
        case int() if column.type in _NUMBERS and not isinstance(cell, bool):
            return str(cell)
        case float() if column.type == "double":
            return repr(cell)
        case str() if column.type == "string":
            return cell
        case _:
            raise KnwfError(f"column {column.name!r} holds {cell!r}, which is no {column.type}")


def created_columns(node: NativeNode) -> tuple[Column, ...]:
    """Reads the columns of the table that a Table Creator makes.

    Raises KnwfError: the node is of another kind, or its settings are broken or hold an unsupported type.
    """
    model = node.model
    if node.factory != TABLE_CREATOR_FACTORY or model is None:
        raise KnwfError(f"{node_label(node)} is no Table Creator with settings")
    properties = model.config("columnProperties") or Config("columnProperties")
    rows, indices = (
        _elements(model, key, _is_index, "whole numbers from 0 on") for key in ("rowIndices", "columnIndices")
    )
    texts = _elements(model, "values", _is_text, "texts")
    if not len(rows) == len(indices) == len(texts):
        raise KnwfError(f"{node_label(node)} has not as many cells as places for them")
    cells = dict(zip(zip(rows, indices, strict=True), texts, strict=True))
    height = max((row for row, _ in cells), default=-1) + 1
    # A few cells with a large row number would make a table that fills the memory.
    if height > len(texts) * 1000:
        raise KnwfError(f"{node_label(node)} has a cell in row {height - 1}, but hardly any cells")
    columns: list[Column] = []
    # Keys are numbers as texts, of which 10 would stand before 2.
    for column in sorted(properties.configs(), key=lambda config: config.key.zfill(9)):
        if column.value("SkipThisColumn") is True:
            continue
        cell_class = (column.config("ColumnClass") or column).text("cell_class")
        if cell_class not in _COLUMN_TYPES or not column.key.isdecimal():
            what = f"column {column.text('ColumnName')!r} holds {cell_class or 'no cells'}"
            raise KnwfError(f"{node_label(node)}: {what}, which cannot be read")
        values = (cells.get((row, int(column.key)), "") for row in range(height))
        columns.append(_read_column(node, column, _COLUMN_TYPES[cell_class], values))
    _check_names([column.name for column in columns])
    return tuple(columns)


def _read_column(node: NativeNode, column: Config, kind: ColumnType, texts: Iterable[str]) -> Column:
    name, missing = column.text("ColumnName"), column.text("MissValuePattern")
    try:
        cells = tuple(None if text in ("", missing) else _cell(kind, text) for text in texts)
    except ValueError as error:
        raise KnwfError(f"{node_label(node)}: column {name!r}: {error}") from None
    return Column(name, kind, cells)


def _cell(kind: ColumnType, text: str) -> str | int | float | bool:
    match kind:
        case "string":
            return text
        case "int" | "long":
            return int(text)
        case "double":
            return float(text)
        case "boolean":
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{text!r} is neither true nor false")
            return text.lower() == "true"


def _elements(model: Config, key: str, is_valid: Callable[[Scalar], bool], expected: str) -> list[Any]:
    stored = model.config(key)
    values = [] if stored is None else array_values(stored)
    if not all(map(is_valid, values)):
        raise KnwfError(f"the Table Creator's {key} are no {expected}")
    return values


def _is_index(value: Scalar) -> bool:
    return isinstance(value, int) and value >= 0


def _is_text(value: Scalar) -> bool:
    return isinstance(value, str)
