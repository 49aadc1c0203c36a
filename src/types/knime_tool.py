"""KNIME's own future cell type for both kinds of tools, as in its prototype.

The prototype stores file store keys beside a struct of ten fields: the nine of the project's Arrow form in
the same order, with the ports as lists, and the name of the credential. Its field 7 is reserved; for an MCP
tool it holds the server's output schema, annotations and title.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, assert_never

import pyarrow as pa

from .arrow import to_list
from .errors import SettingInvalid
from .fields import from_columns
from .knime_cells import PORTS, cell_storage, decode_cells, encode_cells, ports_of, texts_of
from .routing import ServerRoute, split_tool
from .tool import MCPTool, Tool, ToolType, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Sequence

JAVA_FACTORY: Final = "org.knime.core.node.agentic.tool.ToolValueFactory"
"""The Java class by which KNIME knows the cell type."""

KNIME_TOOL_STORAGE: Final = cell_storage(
    pa.int32(), *(pa.string(),) * 3, PORTS, PORTS, pa.int32(), *(pa.string(),) * 3
)
"""File store keys, then type, name, description, schema, inputs, outputs, message index, reserved, server
URI, credential."""


def encode_knime_tools(tools: Sequence[Tool | None]) -> pa.StructArray:
    """Writes tools, None for a missing cell, as an array of type `KNIME_TOOL_STORAGE`."""
    return encode_cells([None if tool is None else _to_row(tool) for tool in tools], KNIME_TOOL_STORAGE)


def decode_knime_tools(cells: Any, rows: Sequence[str]) -> list[Tool | None]:
    """Reads tools from KNIME's own tool cells.

    A workflow tool keeps no reference to its cell: KNIME executes the older kind of value, which is made from
    the fields.

    Args:
        cells: An array of type `KNIME_TOOL_STORAGE`, possibly a slice.
        rows: The RowID of each cell.

    Returns:
        One tool per cell, None for a missing one.

    Raises:
        ToolFormatError: The type is unknown or a field is missing; the message names row and field.
    """
    keys, kinds, names, descriptions, schemas, inputs, outputs, indices, declared, uris, credentials = (
        decode_cells(cells)
    )
    columns = (
        kinds,
        names,
        descriptions,
        schemas,
        [*map(ports_of, inputs)],
        [
            declaration if kind == ToolType.MCP else ports_of(ports)
            for kind, ports, declaration in zip(kinds, outputs, declared, strict=True)
        ],
        indices,
        keys,
        [*map(_with_credential, uris, credentials)],
    )
    return from_columns(columns, to_list(cells.is_valid()), rows)


def _to_row(tool: Tool) -> tuple[object, ...]:
    common = (tool.tool_type.value, tool.name, tool.description, tool.schema_json)
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            ports = (texts_of(tool.input_ports), texts_of(tool.output_ports))
            return (tool.filestore_keys, *common, *ports, tool.message_output_port_index, None, None, None)
        case MCPTool():
            # KNIME's own reader refuses a missing key; an empty key means no file store.
            credential = tool.route.credential
            return ("", *common, None, None, -1, tool.declared_json, tool.cell_uri, credential)
        case _:
            assert_never(tool)


def _with_credential(server_uri: str | None, credential: str | None) -> str | None:
    """Adds the credential, which KNIME's own provider writes into a separate field, to the URI."""
    if not server_uri or not credential:
        return server_uri
    if "credential=" in split_tool(server_uri)[0].partition("#")[2]:
        return server_uri
    try:
        return replace(ServerRoute.parse(server_uri), credential=credential).uri
    except SettingInvalid:
        return server_uri  # `MCPTool.route` raises when the tool is called
