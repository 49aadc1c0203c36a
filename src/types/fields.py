"""The nine fields of a tool in every stored form, and the forms of a single tool: JSON text and bytes.

This module alone assigns the fields to the kinds of tools, so that Arrow structs, bytes, JSON text and
KNIME's per-cell factory agree. A new kind of tool is added here.

*JSON text* is for CSV files and any version of KNIME: canonical JSON whose keys are `FIELD_NAMES`. The two
numbers are numbers, all other values are text or null. Schema and specs are JSON texts within the JSON, so
that they keep the order of their keys and every character. Fields that do not apply are null; on reading they
may be absent.

*Bytes* are the type in one byte, the fields of every tool, then the fields of the tool's type. Each text is
its length in bytes as an unsigned 32-bit big-endian number, followed by its UTF-8; a length of all ones means
None. The index of the message output is a signed 32-bit big-endian number. No bytes follow the last field.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from .canonical import canonical_json, without_surrogates
from .errors import ToolFormatError
from .tool import MCPTool, Tool, ToolType, WorkflowTool, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .tool import ToolPort

FIELD_NAMES: Final = (
    "tool_type",
    "name",
    "description",
    "parameter_schema",
    "input_spec",
    "output_spec",
    "message_output_port_index",
    "workflow_filestore",
    "server_uri",
)
"""Field names in stored order."""

TOOL_TYPE: Final = 0
"""Position of the discriminator, a number."""

MESSAGE_INDEX: Final = 6
"""Position of the index of the message output, a number."""

Fields = tuple[int, str, str, str, str | None, str | None, int, str | None, str | None]
"""The values of the nine fields in stored order."""


def to_fields(tool: Tool) -> Fields:
    """The values of the nine fields; None, or -1 for the message output, if a field does not apply."""
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            return (
                0,
                tool.name,
                tool.description,
                tool.schema_json,
                tool.input_spec,
                tool.output_spec,
                tool.message_output_port_index,
                tool.filestore_keys,
                None,
            )
        case MCPTool():
            return (
                1,
                tool.name,
                tool.description,
                tool.schema_json,
                None,
                tool.declared_json,
                -1,
                None,
                tool.cell_uri,
            )
        case _:
            assert_never(tool)


def from_fields(
    tool_type: int | None,
    name: str | None,
    description: str | None,
    parameter_schema: str | None,
    input_spec: str | tuple[ToolPort, ...] | None,
    output_spec: str | tuple[ToolPort, ...] | None,
    message_output_port_index: int | None,
    workflow_filestore: str | None,
    server_uri: str | None,
    *,
    row: str | int | None = None,
    native: object | None = None,
) -> Tool:
    """Makes a tool from the values of the nine fields, without parsing JSON text.

    None means the same as "" or, for the index, -1. The name, and the server of an MCP tool, are required.

    Args:
        tool_type: The discriminator, see `ToolType`.
        name: Name of the tool.
        description: Description.
        parameter_schema: JSON text.
        input_spec: Workflow: the inputs, or their JSON text.
        output_spec: Workflow: the outputs, or their JSON text. MCP: JSON text of the server's output
            schema, annotations and title.
        message_output_port_index: Workflow: the output with the message.
        workflow_filestore: Workflow: file store keys.
        server_uri: MCP: URL and routing.
        row: The row of the fields, for errors.
        native: Workflow: KNIME's own value.

    Raises:
        ToolFormatError: The discriminator is unknown, or a field is missing.
    """
    if not name:
        raise _missing_field("name", row)
    # Plain numbers, as comparing with members of the enum takes a fifth of the time of a cell.
    match tool_type:  # @ToolTypeDispatch
        case 0:
            return WorkflowTool.from_cell(
                name=name,
                description=description or "",
                schema_json=parameter_schema or "",
                input_spec=input_spec,
                output_spec=output_spec,
                message_output_port_index=-1
                if message_output_port_index is None
                else message_output_port_index,
                filestore_keys=workflow_filestore or None,
                native=native,
                row=row,
            )
        case 1:
            if not server_uri:
                raise _missing_field("server_uri", row, tool=name)
            cell: Any = (name, description, parameter_schema, output_spec, server_uri, row)
            return MCPTool.from_cells(*((part,) for part in cell))[0]
        case _:
            raise unknown_tool_type(tool_type, row, tool=name)


def to_columns(tools: Sequence[Tool | None]) -> Sequence[list[Any] | int | None]:
    """The values of the nine fields of many tools, column by column.

    Returns:
        For each of the nine fields the values of all tools, None for a missing tool; or, instead of a list,
        the value that all tools have.
    """
    if {*map(type, tools)} == {MCPTool}:
        # The usual column, in a third of the time that `to_fields` takes for each tool.
        mcp_tools = cast("Sequence[MCPTool]", tools)
        return (
            1,
            [tool.name for tool in mcp_tools],
            [tool.description for tool in mcp_tools],
            [tool.schema_json for tool in mcp_tools],
            None,
            [tool.declared_json for tool in mcp_tools],
            -1,
            None,
            [tool.server_uri if tool.tool_name == tool.name else tool.cell_uri for tool in mcp_tools],
        )
    width = len(FIELD_NAMES)
    # Row after row in one list, as keeping a tuple per tool costs more than its texts.
    values: list[int | str | None] = []
    for tool in tools:
        values += (None,) * width if tool is None else to_fields(tool)
    return [values[i::width] for i in range(width)]


def from_columns(
    columns: Sequence[Sequence[Any]],
    present: Sequence[bool],
    rows: Sequence[str | int],
    native: Callable[[int], object | None] = lambda _: None,
) -> list[Tool | None]:
    """Makes the tools of a column, as `from_fields` makes one; None for a row without a tool.

    Args:
        columns: For each of the nine fields the values of all tools.
        present: For each row whether it has a tool.
        rows: The rows of the tools, for errors.
        native: Returns KNIME's own value of a workflow tool, by position.

    Raises:
        ToolFormatError: The discriminator of a tool is unknown, or a field is missing.
    """
    kinds, names, descriptions, schemas, _, declared, _, _, uris = columns
    if kinds.count(1) == len(kinds) and all(names) and all(uris):
        # The usual column, in a third of the time that `from_fields` takes for each tool.
        return cast(
            "list[Tool | None]", MCPTool.from_cells(names, descriptions, schemas, declared, uris, rows)
        )
    return [
        from_fields(*fields, row=rows[position], native=native(position) if fields[0] == 0 else None)
        if is_present
        else None
        for position, (is_present, *fields) in enumerate(zip(present, *columns, strict=True))
    ]


def unknown_tool_type(value: object, row: str | int | None, *, tool: str | None = None) -> ToolFormatError:
    """Makes the error for an unknown discriminator; its message names the value."""
    known = ", ".join(f"{member.value} ({member.name.lower()})" for member in ToolType)
    return ToolFormatError(
        f"The tool type {value} is unknown; known are {known}",
        field=FIELD_NAMES[TOOL_TYPE],
        tool=tool,
        row=None if row is None else str(row),
        fix="Update the extension: a newer version may know it",
    )


def _missing_field(field: str, row: str | int | None, *, tool: str | None = None) -> ToolFormatError:
    return ToolFormatError(
        f"The field {field} of the tool is missing",
        field=field,
        tool=tool,
        row=None if row is None else str(row),
        fix="Make the tool again with the node that lists it",
    )


def to_json_text(tool: Tool) -> str:
    """A tool as canonical JSON of the nine fields, cached for repeated calls."""
    return _text_of(to_fields(tool))


def from_json_text(text: str, *, row: str | None = None) -> Tool:
    """Reads a tool from the JSON of `to_json_text`, in any layout.

    ``row`` is the row of the text, for errors.

    Raises:
        ToolFormatError: The text is no JSON object, or has an unknown key or tool type, a value of the wrong
            type, or a missing field; the message names the field.
    """
    try:
        value = parse_json(text)
    except ValueError as error:
        raise _unreadable(f"The tool cannot be read: {error}", FIELD_NAMES[TOOL_TYPE], row) from None
    return from_json_value(value, row=row)


def from_json_value(value: Any, *, row: str | None = None) -> Tool:
    """Reads a tool from a parsed JSON value, as `from_json_text` does."""
    if not isinstance(value, dict):
        raise _unreadable("The tool is JSON, but not an object", FIELD_NAMES[TOOL_TYPE], row)
    members = cast("dict[str, Any]", value)
    unknown = next((key for key in members if key not in FIELD_NAMES), None)
    if unknown is not None:
        shown, known = without_surrogates(unknown), ", ".join(FIELD_NAMES)
        raise _unreadable(f"The tool has an unknown field '{shown}'; known are {known}", unknown, row)
    fields: list[Any] = []
    for i, name in enumerate(FIELD_NAMES):
        field_value = members.get(name)
        if i in {TOOL_TYPE, MESSAGE_INDEX}:
            fits, kind = _is_number(field_value), "a number of 32 bits"
        else:
            fits, kind = isinstance(field_value, str), "text"
        if field_value is not None and not fits:
            raise _unreadable(f"The field {name} of the tool must be {kind}", name, row)
        fields.append(without_surrogates(field_value) if isinstance(field_value, str) else field_value)
    return from_fields(*fields, row=row)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 32


# Cached by the texts and not by the tool: tools with schemas in different order are equal.
@lru_cache(maxsize=256)
def _text_of(fields: Fields) -> str:
    return canonical_json(dict(zip(FIELD_NAMES, fields, strict=True)))


def _unreadable(what: str, field: str, row: str | None) -> ToolFormatError:
    return ToolFormatError(what, field=field, row=row, fix="Make the tool again with the node that lists it")


_NO_TEXT: Final = 0xFFFF_FFFF


def to_bytes(tool: Tool) -> bytes:
    """Writes a tool as bytes; the first byte is the tool's type. KNIME's own value is not written."""
    common = [bytes([tool.tool_type]), *map(_text_bytes, (tool.name, tool.description, tool.schema_json))]
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            fields = [
                _text_bytes(tool.input_spec),
                _text_bytes(tool.output_spec),
                struct.pack(">i", tool.message_output_port_index),
                _text_bytes(tool.filestore_keys),
            ]
        case MCPTool():
            fields = [_text_bytes(tool.declared_json), _text_bytes(tool.cell_uri)]
        case _:
            assert_never(tool)
    return b"".join(common + fields)


def from_bytes(data: bytes) -> Tool:
    """Reads the tool that `to_bytes` wrote.

    Raises:
        ToolFormatError: The type byte is unknown, or the bytes end too early or too late; the message names
            the field.
    """
    reader = _ByteReader(data)
    kind = reader.take(1, "tool_type")[0]
    name, description, schema_json = map(reader.text, FIELD_NAMES[1:4])
    match kind:  # @ToolTypeDispatch
        case ToolType.WORKFLOW:
            input_spec, output_spec = map(reader.text, FIELD_NAMES[4:6])
            (message_index,) = struct.unpack(">i", reader.take(4, "message_output_port_index"))
            fields = (input_spec, output_spec, message_index, reader.text("workflow_filestore"), None)
        case ToolType.MCP:
            declared_json = reader.text("output_spec")
            fields = (None, declared_json, -1, None, reader.text("server_uri"))
        case _:
            raise unknown_tool_type(kind, None)
    reader.end()
    return from_fields(kind, name, description, schema_json, *fields)


def _text_bytes(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">I", _NO_TEXT)
    data = text.encode()
    return struct.pack(">I", len(data)) + data


class _ByteReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int, field: str) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) < count:
            raise ToolFormatError(f"The bytes of the tool end within the field {field}", field=field)
        self._at += count
        return part

    def text(self, field: str) -> str | None:
        (length,) = struct.unpack(">I", self.take(4, field))
        if length == _NO_TEXT:
            return None
        try:
            return self.take(length, field).decode()
        except UnicodeDecodeError:
            raise ToolFormatError(f"The field {field} of the tool's bytes is no UTF-8", field=field) from None

    def end(self) -> None:
        rest = len(self._data) - self._at
        if rest:
            raise ToolFormatError(
                f"{rest} unknown bytes follow the last field of the tool", field="server_uri"
            )
