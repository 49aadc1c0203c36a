"""KNIME's own future type for both kinds of tools, where a KNIME has it.

KNIME's prototype stores file store keys beside a struct of ten fields: the nine of our own Arrow form in the
same order, with the ports as lists, and the name of the credential. Its field 7 is reserved; for an MCP tool
it holds what the server declared beyond the schema.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, assert_never

import pyarrow as pa

from .arrow import to_list
from .errors import SettingInvalid
from .fields import missing_field, unknown_tool_type
from .ports import PORTS_STORAGE, decode_ports, encode_ports, port_texts
from .routing import ServerRoute, split_tool
from .tool import MCPTool, Tool, ToolPort, ToolType, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Sequence

JAVA_FACTORY: Final = "org.knime.core.node.agentic.tool.ToolValueFactory"
"""The Java class by which KNIME knows the cell type."""

_INNER: Final = [
    pa.int32(),
    *(pa.string(),) * 3,
    PORTS_STORAGE,
    PORTS_STORAGE,
    pa.int32(),
    *(pa.string(),) * 3,
]
KNIME_TOOL_STORAGE: Final = pa.struct(
    [
        pa.field("0", pa.string()),
        pa.field("1", pa.struct([pa.field(str(i), kind) for i, kind in enumerate(_INNER)])),
    ]
)
"""File store keys, and: type, name, description, schema, inputs, outputs, message index, reserved, server
URI, credential."""


def encode_knime_tools(tools: Sequence[Tool | None]) -> pa.StructArray:
    """Writes tools as KNIME's own tool cells.

    Args:
        tools: The tools, None for a missing cell.

    Returns:
        An array of type `KNIME_TOOL_STORAGE`.
    """
    rows = [(None,) * 11 if tool is None else _to_row(tool) for tool in tools]
    keys, *fields = zip(*rows, strict=True) if rows else ((),) * 11
    data = [
        encode_ports(column) if kind == PORTS_STORAGE else pa.array(column, kind)
        for column, kind in zip(fields, _INNER, strict=True)
    ]
    missing = pa.array([tool is None for tool in tools], pa.bool_())
    inner = pa.StructArray.from_arrays(data, fields=list(KNIME_TOOL_STORAGE.field(1).type), mask=missing)
    return pa.StructArray.from_arrays(
        [pa.array(keys, pa.string()), inner], fields=list(KNIME_TOOL_STORAGE), mask=missing
    )


def decode_knime_tools(cells: Any, rows: Sequence[str]) -> list[Tool | None]:
    """Reads tools from KNIME's own tool cells.

    Nothing of a workflow tool's cell is kept: KNIME executes the older kind of value, which is made of the
    fields.

    Args:
        cells: An array of type `KNIME_TOOL_STORAGE`, possibly a slice.
        rows: The RowID of each cell.

    Returns:
        One tool per cell, None for a missing one.

    Raises:
        ToolFormatError: The type is unknown or a field is missing; the message names row and field.
    """
    keys, data = cells.flatten()
    columns = [
        decode_ports(column) if kind == PORTS_STORAGE else to_list(column)
        for column, kind in zip(data.flatten(), _INNER, strict=True)
    ]
    present = to_list(cells.is_valid())
    return [
        _from_row(key, *fields, row=row) if present[position] else None
        for position, (row, key, *fields) in enumerate(zip(rows, to_list(keys), *columns, strict=True))
    ]


def _to_row(tool: Tool) -> tuple[object, ...]:
    common = (tool.tool_type.value, tool.name, tool.description, tool.schema_json)
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            ports = (port_texts(tool.input_ports), port_texts(tool.output_ports))
            own = (*ports, tool.message_output_port_index, None, None, None)
            return (tool.filestore_keys, *common, *own)
        case MCPTool():
            # KNIME's own reader takes a missing key for a mistake, an empty one for no file store.
            credential = tool.route.credential
            return ("", *common, None, None, -1, tool.declared_json, tool.cell_uri, credential)
        case _:
            assert_never(tool)


def _from_row(
    keys: str | None,
    kind: int | None,
    name: str | None,
    description: str | None,
    schema: str | None,
    inputs: tuple[ToolPort, ...],
    outputs: tuple[ToolPort, ...],
    message_index: int | None,
    declared: str | None,
    server_uri: str | None,
    credential: str | None,
    *,
    row: str,
) -> Tool:
    if not name:
        raise missing_field("name", row)
    match kind:  # @ToolTypeDispatch
        case ToolType.WORKFLOW:
            return WorkflowTool.from_cell(
                name=name,
                description=description or "",
                schema_json=schema or "",
                input_spec=inputs,
                output_spec=outputs,
                message_output_port_index=-1 if message_index is None else message_index,
                filestore_keys=keys or None,
                row=row,
            )
        case ToolType.MCP:
            if not server_uri:
                raise missing_field("server_uri", row, tool=name)
            return MCPTool.from_cell(
                name=name,
                description=description or "",
                schema_json=schema or "",
                declared_json=declared or None,
                server_uri=_with_credential(server_uri, credential),
                row=row,
            )
        case _:
            raise unknown_tool_type(kind, row, tool=name)


def _with_credential(server_uri: str, credential: str | None) -> str:
    """Adds the credential that KNIME's own provider names in a field of its own."""
    if not credential or "credential=" in split_tool(server_uri)[0].partition("#")[2]:
        return server_uri
    try:
        return replace(ServerRoute.parse(server_uri), credential=credential).uri
    except SettingInvalid:
        return server_uri  # the tool's route says what is wrong when somebody wants to call it
