"""KNIME's own nodes that the example workflows have, with the settings that these need.

*Tool Message Output* stands at the end of a workflow that KNIME makes a tool of: the first cell of its table
becomes the message for the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from knime_mcp.knwf import CanvasPosition, Config, NativeNode, PortGroup, SettingsEntry
from knime_mcp.knwf.settings_xml import array, boolean, integer, string
from knime_mcp.knwf.workflow_model import KNIME_VENDOR, ORIGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Name, symbolic name and vendor of the plug-ins that bring the nodes.
_AI = ("KNIME AI Extension Java", "org.knime.ai.core", KNIME_VENDOR)
_BASE = ("KNIME Base Nodes", "org.knime.base", KNIME_VENDOR)
_FILES = ("KNIME Filehandling Nodes", "org.knime.filehandling.utility.nodes", KNIME_VENDOR)

MESSAGE_OUTPUT_FACTORY = "org.knime.ai.core.node.tool.output.ToolMessageOutputNodeFactory"
CONCATENATE_FACTORY = "org.knime.base.node.preproc.append.row.AppendedRowsNodeFactory"
_STRING_TO_PATH_FACTORY = "org.knime.filehandling.utility.nodes.stringtopath.StringToPathNodeFactory"
_WORKFLOW_TO_TOOL_FACTORY = "org.knime.ai.core.node.tool.workflow2tool.WorkflowToToolNodeFactory"
#: Not `TableCreator3NodeFactory`, which KNIME has since 5.11: archives open in 5.8, too, and later releases
#: run this one as before, and call it deprecated.
TABLE_CREATOR_FACTORY = "org.knime.base.node.io.tablecreator.TableCreator2NodeFactory"
_ROW_FILTER = "org.knime.base.node.preproc.filter.row3."
_ROW_FILTER_FACTORY = f"{_ROW_FILTER}RowFilterNodeFactory"
_COLUMN_RENAMER_FACTORY = "org.knime.base.node.preproc.column.renamer.ColumnRenamerNodeFactory"
#: For a connection to a file system, which another node provides.
_CONNECTION = PortGroup("File System Connection")

#: What is the same for all nodes of a kind: name, plug-in, outputs, and the groups of its ports.
_KINDS: dict[str, tuple[str, tuple[str, str, str], int, tuple[PortGroup, ...]]] = {
    MESSAGE_OUTPUT_FACTORY: ("Tool Message Output", _AI, 0, ()),
    CONCATENATE_FACTORY: ("Concatenate", _BASE, 1, (PortGroup("input"), PortGroup("Concatenated tables"))),
    _STRING_TO_PATH_FACTORY: (
        *("String to Path", _FILES, 1),
        (_CONNECTION, PortGroup("Data Table"), PortGroup("Output table")),
    ),
    _WORKFLOW_TO_TOOL_FACTORY: (
        *("Workflow to Tool", _AI, 1),
        (_CONNECTION, PortGroup("Paths"), PortGroup("Tools")),
    ),
    TABLE_CREATOR_FACTORY: ("Table Creator", _BASE, 1, ()),
    _ROW_FILTER_FACTORY: ("Row Filter", _BASE, 1, ()),
    _COLUMN_RENAMER_FACTORY: ("Column Renamer", _BASE, 1, ()),
}


def _node(
    node_id: int,
    factory: str,
    model: Iterable[SettingsEntry | Config],
    position: CanvasPosition,
    annotation: str,
) -> NativeNode:
    name, bundle, outputs, groups = _KINDS[factory]
    return NativeNode(
        id=node_id,
        name=name,
        factory=factory,
        model=Config("model", tuple(model)),
        outputs=outputs,
        port_groups=groups,
        position=position,
        annotation=annotation,
        bundle=bundle,
    )


def message_output_node(
    node_id: int, *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    model = [string("parameterName", "tool-message-output")]
    return _node(node_id, MESSAGE_OUTPUT_FACTORY, model, position, annotation)


def concatenate_node(node_id: int, *, position: CanvasPosition = ORIGIN, annotation: str = "") -> NativeNode:
    """Keeps the columns that both tables have; makes new RowIDs."""
    model = (
        boolean("intersection_of_columns", value=True),
        boolean("create_new_rowids", value=True),
        boolean("fail_on_duplicates", value=False),
        boolean("append_suffix", value=False),
        string("suffix", "_dup"),
        boolean("enable_hiliting", value=False),
    )
    return _node(node_id, CONCATENATE_FACTORY, model, position, annotation)


def string_to_path_node(
    node_id: int, column: str, *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    """Adds the column *Path*, with paths that start at the workflow: ``../x`` is beside it."""
    model = (
        *_setting("file_system", _beside_the_workflow()),
        *_setting("string", string("selected_column_name", column)),
        *_setting("boolean", boolean("fail_on_missing_file_folder", value=False)),
        *_setting("boolean", boolean("fail_on_missing_values", value=True)),
        *_setting("string", string("generated_column_mode", "APPEND_NEW")),
        *_setting("string", string("appended_column_name", "Path")),
    )
    return _node(node_id, _STRING_TO_PATH_FACTORY, model, position, annotation)


def _setting(kind: str, setting: SettingsEntry | Config) -> tuple[Config, SettingsEntry | Config]:
    """A setting, after the internals that KNIME's settings models write before it."""
    internals = (string("SettingsModelID", f"SMID_{kind}"), boolean("EnabledStatus", value=True))
    return Config(f"{setting.key}_Internals", internals), setting


def _beside_the_workflow() -> Config:
    chooser = (
        boolean("has_fs_port", value=False),
        boolean("overwritten_by_variable", value=False),
        string("convenience_fs_category", "RELATIVE"),
        string("relative_to", "knime.workflow"),
        string("mountpoint", "LOCAL"),
        string("spaceId", ""),
        string("spaceName", ""),
        integer("custom_url_timeout", 10_000),
        boolean("connected_fs", value=True),
    )
    location = (
        boolean("location_present", value=True),
        string("file_system_type", "RELATIVE"),
        string("file_system_specifier", "knime.workflow"),
    )
    return Config(
        "file_system", (Config("file_system_chooser__Internals", chooser), Config("location_spec", location))
    )


def workflow_to_tool_node(
    node_id: int, path_column: str, *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    """Adds the column *Tool* with the workflows at the paths."""
    model = (
        string("inputColumnName", path_column),
        string("outputColumnPolicy", "APPEND"),
        string("outputColumnName", "Tool"),
    )
    return _node(node_id, _WORKFLOW_TO_TOOL_FACTORY, model, position, annotation)


ColumnType = Literal["string", "int", "long", "double", "boolean"]
CELL_CLASSES: dict[ColumnType, str] = {
    "string": "org.knime.core.data.def.StringCell",
    "int": "org.knime.core.data.def.IntCell",
    "long": "org.knime.core.data.def.LongCell",
    "double": "org.knime.core.data.def.DoubleCell",
    "boolean": "org.knime.core.data.def.BooleanCell",
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
    """A table of constants with the RowIDs Row0, Row1, …; an empty text is a missing cell to the node."""
    cells = [
        (row, index, _cell_text(column.cells[row]))
        for row in range(len(columns[0].cells) if columns else 0)
        for index, column in enumerate(columns)
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
    return _node(node_id, TABLE_CREATOR_FACTORY, model, position, annotation)


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


def _cell_text(cell: str | float | None) -> str:
    match cell:
        case None:
            return ""
        case bool():
            return "true" if cell else "false"
        case _:
            return str(cell)


def row_filter_node(
    node_id: int, columns: Sequence[str], *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    """Keeps the rows with more than 0 in one of the columns, which are of long integers."""
    model = (
        string("matchCriteria", "OR"),
        Config("predicates", tuple(_criterion(str(i), column) for i, column in enumerate(columns))),
        string("domains", "RETAIN"),
        string("outputMode", "MATCHING"),
    )
    return _node(node_id, _ROW_FILTER_FACTORY, model, position, annotation)


def _criterion(key: str, column: str) -> Config:
    chosen = (string("regularChoice", column), string("specialChoice_Internals", None))
    kind = (string("cell_class", CELL_CLASSES["long"]), boolean("is_null", value=False))
    value = (
        string("@class", f"{_ROW_FILTER}operators.defaults.LongParameters"),
        SettingsEntry("value", "xlong", 0),
    )
    parts = (
        Config("columnV2", chosen),
        boolean("expectColumnTypePresent", value=True),
        Config("columnType", kind),
        string("operator", "GT"),
        Config("filterValueParameters", value),
    )
    return Config(key, parts)


def column_renamer_node(
    node_id: int, names: Mapping[str, str], *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    """``names`` has the new name of each column by its present one."""
    renamings = tuple(
        Config(str(place), (string("oldName", old), string("newName", new)))
        for place, (old, new) in enumerate(names.items())
    )
    model = (Config("renamings", renamings), boolean("doNotAllowPaddedColumnName", value=True))
    return _node(node_id, _COLUMN_RENAMER_FACTORY, model, position, annotation)
