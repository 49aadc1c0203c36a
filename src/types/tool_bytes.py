"""A tool as bytes.

The bytes are the type in one byte, the fields of every tool, then the fields of the tool's type. Each text is
its length in bytes as an unsigned 32-bit big-endian number, followed by its UTF-8; a length of all ones means
None. The index of the message output is a signed 32-bit big-endian number. No bytes follow the last field.
"""

from __future__ import annotations

import struct
from typing import Final, assert_never

from .errors import ToolFormatError
from .tool import FIELD_NAMES, MCPTool, Tool, ToolType, WorkflowTool, from_fields, unknown_tool_type

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
    """Reads the tool that `to_bytes` wrote; a `ToolFormatError` names the field that is wrong."""
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
        # A newer layout would add fields here: better refused than half read.
        if rest:
            raise ToolFormatError(
                f"{rest} unknown bytes follow the last field of the tool", field="server_uri"
            )
