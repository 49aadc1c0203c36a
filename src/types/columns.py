"""The columns in which tools travel: this module decides the form, writes it, and reads all forms, mixed.

KNIME takes no new cell type from a Python extension, so the form depends on where a node runs. What is there
is found out by asking KNIME's registry, never by a version.
"""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

import pyarrow as pa

from . import carrier, knime_tool
from .arrow import TOOL_STORAGE, decode_tools, encode_tools, to_list
from .column_kinds import AUTO
from .errors import MCPError, SettingInvalid, ToolFormatError
from .portable import from_json_text, from_json_value, to_json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import knime.extension as knext

    from .tool import Tool, WorkflowTool

NATIVE_FACTORY: Final = "org.knime_mcp.types.ToolValueFactory"
"""The name by which the registry knows the native form; there is no such Java class."""

_PORTABLE_NAME: Final = re.compile(r"Tool \(JSON\)( \(.+\))?")
_JSON_FACTORY: Final = "org.knime.core.data.json.JSONValueFactory"
_TOOL_FACTORIES: Final = frozenset({NATIVE_FACTORY, knime_tool.JAVA_FACTORY, carrier.JAVA_FACTORY})


class ColumnForm(StrEnum):
    """The ways in which a column can hold tools."""

    NATIVE = "native"
    """A cell type for tools of both kinds: KNIME's own where it has one, ours outside KNIME."""

    CARRIER = "carrier"
    """KNIME's cell type for workflow tools; an MCP tool travels in it."""

    PORTABLE = "portable"
    """A String column with JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class NativeCell:
    """KNIME's own cell of a workflow tool, kept as it is for execution.

    Attributes:
        kind: The cell's type, whose value factory makes the value.
        cells: The cells of the column.
        position: The cell among them.
    """

    kind: Any
    cells: Any
    position: int

    def value(self) -> object:
        """Decodes the cell with KNIME's value factory."""
        return self.kind.decode(self.cells[self.position].as_py())


def choose_form(wanted: Literal["auto", "native", "carrier", "portable"]) -> ColumnForm:
    """Decides how a node writes tools, as its setting says; ``auto`` takes the first form that works here.

    Raises:
        SettingInvalid: The form that is wanted does not work here.
    """
    if wanted == "auto":
        return next(form for form in ColumnForm if _type_of(form) is not None)
    form = ColumnForm(wanted)
    knime_type(form)  # refuses one that does not work
    return form


def column_name(form: ColumnForm) -> str:
    """Names the tool column: ``Tool``, or ``Tool (JSON)`` for a column of text."""
    return "Tool (JSON)" if form is ColumnForm.PORTABLE else "Tool"


def knime_type(form: ColumnForm) -> Any:
    """Returns KNIME's type of a column of the form, for a node's configure.

    Raises:
        SettingInvalid: The form does not work here.
    """
    kind = _type_of(form)
    if kind is None:
        raise SettingInvalid(
            f"This KNIME has no cell type for tool columns of the form '{form}'",
            setting="column_form",
            fix="Choose 'auto'",
        )
    return kind


def write_tools(tools: Sequence[Tool | None], form: ColumnForm) -> pa.Array:
    """Makes the tool column of a node's output.

    Args:
        tools: The tools, None for a missing cell. In carrier form only while a node executes.
        form: The column's form, as `choose_form` decided.

    Returns:
        An Arrow array of the type that `knext.Table.from_pyarrow` wants for such a column.

    Raises:
        SettingInvalid: The form does not work here.
        ToolFormatError: KNIME's cell type has another layout than we know.
    """
    if form is ColumnForm.PORTABLE:
        return pa.array([None if tool is None else to_json_text(tool) for tool in tools], pa.string())
    kind = knime_type(form).to_pyarrow()
    match form:
        case ColumnForm.CARRIER:
            layout, encode = carrier.CARRIER_STORAGE, carrier.encode_carrier
        case ColumnForm.NATIVE if kind.storage_type == knime_tool.KNIME_TOOL_STORAGE:
            layout, encode = knime_tool.KNIME_TOOL_STORAGE, knime_tool.encode_knime_tools
        case ColumnForm.NATIVE:
            layout, encode = TOOL_STORAGE, encode_tools
        case _:
            assert_never(form)
    if kind.storage_type != layout:
        raise _unknown_layout(kind.storage_type, layout, None)
    return pa.ExtensionArray.from_storage(kind, encode(tools))


def is_tool_column(column: knext.Column) -> bool:
    """Returns whether a column holds tools, as far as its type says; text counts by its name only."""
    factory = _java_factory(column.ktype)
    return factory in _TOOL_FACTORIES or (_is_text(column) and bool(_PORTABLE_NAME.fullmatch(column.name)))


def may_hold_tools(column: knext.Column) -> bool:
    """Returns whether a person may choose a column as tool column: any text or JSON, too."""
    return is_tool_column(column) or _is_text(column) or _java_factory(column.ktype) == _JSON_FACTORY


def tool_column_names(schema: knext.Schema, wanted: str | None = AUTO) -> list[str]:
    """Finds the tool columns of a table.

    Args:
        schema: The table's schema.
        wanted: A column's name; `AUTO`, None or "" for all tool columns.

    Returns:
        The names in the table's order, empty if there is no tool column.

    Raises:
        SettingInvalid: The column that is wanted is not there, or cannot hold tools.
    """
    if not wanted or wanted == AUTO:
        return [column.name for column in schema if is_tool_column(column)]
    found = next((column for column in schema if column.name == wanted), None)
    if found is None or not may_hold_tools(found):
        tools = ", ".join(f"'{column.name}'" for column in schema if is_tool_column(column))
        raise SettingInvalid(
            f"The column '{wanted}' holds no tools"
            if found is not None
            else f"There is no column '{wanted}'",
            setting="tool_column",
            fix=f"Choose {AUTO} or one of the tool columns: {tools}" if tools else _NO_TOOLS,
        )
    return [wanted]


def read_tools(table: knext.Table, column: str | None = AUTO) -> list[Tool | None]:
    """Reads the tools of a table, whatever form its columns have.

    Args:
        table: An input table.
        column: The tool column; `AUTO`, None or "" for all, where the first that is not missing counts.

    Returns:
        One tool per row, None where all cells are missing.

    Raises:
        SettingInvalid: There is no such column, or no tool column at all.
        ToolFormatError: A cell cannot be read; the message names row and field.
    """
    names = tool_column_names(table.schema, column)
    if not names:
        raise SettingInvalid("The table has no tool column", setting="tool_column", fix=_NO_TOOLS)
    data = table[names].to_pyarrow()
    if isinstance(data, pa.RecordBatch):  # so KNIME gives a batch
        data = pa.Table.from_batches([data])
    rows = [row for chunk in data.column(0).chunks for row in to_list(chunk)]
    tools: list[Tool | None] = [None] * len(rows)
    for name in names:
        cells = _read_column(data.column(name), rows, name)
        tools = [cell if tool is None else tool for tool, cell in zip(tools, cells, strict=True)]
    return tools


def knime_value(tool: WorkflowTool) -> object:
    """Returns KNIME's own value of a workflow tool, which is what KNIME executes.

    Args:
        tool: A workflow tool, as a rule one that was read from a table.

    Returns:
        The value to hand to the execution context.

    Raises:
        MCPError: The tool does not say where its workflow is, or this KNIME has no workflow tools.
    """
    if isinstance(tool.native, NativeCell):
        return tool.native.value()
    if tool.native is not None:
        return tool.native
    if not tool.filestore_keys or _registered("knime.types.tool", "WorkflowTool") is None:
        raise MCPError(
            "The workflow of this tool is not here",
            tool=tool.name,
            fix="Connect the table that the node Workflow to Tool made, in the same KNIME",
        )
    kt: Any = importlib.import_module("knime.types.tool")

    def ports(own: Iterable[Any]) -> list[Any]:
        return [kt.ToolPort(port.name, port.description, port.type, port.spec) for port in own]

    return kt.WorkflowTool(
        tool.name,
        tool.description,
        tool.parameter_schema,
        tool.message_output_port_index,
        ports(tool.input_ports),
        ports(tool.output_ports),
        tool.filestore_keys,
    )


_NO_TOOLS: Final = "Connect the output of MCP Tool Provider or Workflow to Tool"


def _read_column(column: Any, rows: Sequence[str], name: str) -> list[Tool | None]:
    tools: list[Tool | None] = []
    for chunk in column.chunks:
        part = rows[len(tools) : len(tools) + len(chunk)]
        tools += _read_chunk(chunk, part, name)
    return tools


def _read_chunk(chunk: Any, rows: Sequence[str], name: str) -> list[Tool | None]:
    kind = chunk.type
    factory = _java_factory(kind)
    is_plain = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    if factory is None and not is_plain:
        raise SettingInvalid(f"The column '{name}' holds no tools", setting="tool_column", fix=_NO_TOOLS)
    if factory in {None, _JSON_FACTORY}:
        read = from_json_text if factory is None else from_json_value
        values = zip(chunk.to_pylist(), rows, strict=True)
        return [None if value is None else read(value, row=row) for value, row in values]
    cells = chunk.storage
    first = rows[0] if rows else None
    if factory == carrier.JAVA_FACTORY:
        if cells.type != carrier.CARRIER_STORAGE:
            raise _unknown_layout(cells.type, carrier.CARRIER_STORAGE, first)
        return carrier.decode_carrier(cells, rows, lambda position: NativeCell(kind, cells, position))
    if factory == knime_tool.JAVA_FACTORY and cells.type == knime_tool.KNIME_TOOL_STORAGE:
        return knime_tool.decode_knime_tools(cells, rows)
    return decode_tools(cells, rows=rows)  # KNIME's type may one day have the documented nine fields


def _type_of(form: ColumnForm) -> Any:
    """KNIME's type of such a column, None where there is none."""
    import knime.api.schema as ks

    match form:
        case ColumnForm.NATIVE:
            return _registered("knime.types.tool", "Tool") or _own_type()
        case ColumnForm.CARRIER:
            return _registered("knime.types.tool", "WorkflowTool")
        case ColumnForm.PORTABLE:
            return ks.string()
        case _:
            assert_never(form)


def _own_type() -> Any:
    """Returns our own cell type, which only the stand-in accepts; KNIME's Java side would refuse it."""
    if _has_java():
        return None
    from knime.api.types import register_python_value_factory

    package = __name__.rpartition(".")[0]
    fields = ["int", "string", "string", "string", "string", "string", "int", "string", "string"]
    logical_type = json.dumps({"value_factory_class": NATIVE_FACTORY}, separators=(",", ":"))
    traits: dict[str, Any] = {
        "type": "struct",
        "traits": {"logical_type": logical_type},
        "inner": [{"type": "simple", "traits": {}} for _ in fields],
    }
    if _registered(f"{package}.tool", "MCPTool") is None:
        for value_class in ("WorkflowTool", "MCPTool"):
            register_python_value_factory(
                f"{package}.factories",
                "ToolValueFactory",
                "Tool",
                json.dumps({"type": "struct", "inner_types": fields}),
                json.dumps(traits),
                f"{package}.tool.{value_class}",
            )
    return _registered(f"{package}.tool", "MCPTool")


def _has_java() -> bool:
    """Returns whether this is KNIME's own API, which has a gateway to Java, and not the stand-in."""
    try:
        return find_spec("knime._backend._gateway") is not None
    except ModuleNotFoundError:
        return False


def _registered(module: str, name: str) -> Any:
    import knime.api.schema as ks

    try:
        return ks.logical(getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, TypeError):
        return None


def _java_factory(kind: Any) -> str | None:
    """Reads the Java class from a column type, KNIME's or Arrow's; None for plain types."""
    try:
        return json.loads(getattr(kind, "logical_type", "") or "{}").get("value_factory_class")
    except ValueError:
        return None


def _is_text(column: knext.Column) -> bool:
    import knime.api.schema as ks

    return column.ktype == ks.string()


def _unknown_layout(found: Any, wanted: Any, row: str | None) -> ToolFormatError:
    return ToolFormatError(
        f"KNIME's tool cells have a layout that is unknown here. Found {found}, wanted {wanted}",
        field="tool_type",
        row=row,
        fix="Update the extension, or choose 'portable' as column form",
    )
