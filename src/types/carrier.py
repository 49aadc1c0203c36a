"""MCP tools inside the cell type that today's KNIME has for workflow tools.

KNIME accepts no new cell type from a Python extension, but a workflow tool's cell has room: one input port of
a type of our own has the route as its description and what the server declared as its spec. So one column
holds both kinds of tools and KNIME's own nodes can concatenate, filter and store it. KNIME writes the first
file store of such a cell whenever it copies the cell, and fails where there is none; so the cells of a column
share one small file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

import pyarrow as pa

from .arrow import to_list
from .fields import missing_field
from .ports import PORTS_STORAGE, PortTexts, decode_ports, encode_ports, port_texts
from .tool import MCPTool, Tool, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JAVA_FACTORY: Final = "org.knime.core.node.agentic.tool.WorkflowToolValueFactory"
"""The Java class by which KNIME knows the cell type."""

MARKER_TYPE: Final = "knime-mcp/server"
"""Type of the one input port that makes a workflow tool's cell carry an MCP tool."""

CARRIER_STORAGE: Final = pa.struct(
    [
        pa.field("0", pa.string()),
        pa.field(
            "1",
            pa.struct(
                [
                    *(pa.field(str(i), pa.string()) for i in range(3)),
                    pa.field("3", PORTS_STORAGE),
                    pa.field("4", PORTS_STORAGE),
                    pa.field("5", pa.int32()),
                ]
            ),
        ),
    ]
)
"""File store keys, and: name, description, schema, inputs, outputs, index of the message output."""

_NOTE: Final = (
    "This cell holds a tool on an MCP server, not a workflow."
    " Call it with the nodes MCP Tool Caller or MCP Agent Prompter.\n"
)


def encode_carrier(tools: Sequence[Tool | None]) -> pa.StructArray:
    """Writes tools as KNIME's workflow tool cells.

    Args:
        tools: The tools, None for a missing cell. Works for MCP tools only while a node executes, because
            only then KNIME creates file stores.

    Returns:
        An array of type `CARRIER_STORAGE`.
    """
    store = _create_file_store() if any(isinstance(tool, MCPTool) for tool in tools) else None
    rows = [_MISSING if tool is None else _to_row(tool, store) for tool in tools]
    keys, names, descriptions, schemas, inputs, outputs, indices = (
        zip(*rows, strict=True) if rows else ((),) * 7
    )
    texts = [pa.array(column, pa.string()) for column in (names, descriptions, schemas)]
    data = [*texts, encode_ports(inputs), encode_ports(outputs), pa.array(indices, pa.int32())]
    missing = pa.array([tool is None for tool in tools], pa.bool_())
    inner = pa.StructArray.from_arrays(data, fields=list(CARRIER_STORAGE.field(1).type), mask=missing)
    return pa.StructArray.from_arrays(
        [pa.array(keys, pa.string()), inner], fields=list(CARRIER_STORAGE), mask=missing
    )


def decode_carrier(
    cells: Any, rows: Sequence[str], native: Callable[[int], object | None]
) -> list[Tool | None]:
    """Reads tools from KNIME's workflow tool cells.

    Args:
        cells: An array of type `CARRIER_STORAGE`, possibly a slice.
        rows: The RowID of each cell.
        native: Gives what to keep as a workflow tool's `native`, by position.

    Returns:
        One tool per cell, None for a missing one.

    Raises:
        ToolFormatError: A field is missing; the message names row and field.
    """
    keys, data = cells.flatten()
    names, descriptions, schemas, inputs, outputs, indices = data.flatten()
    texts = (to_list(column) for column in (keys, names, descriptions, schemas, indices))
    columns = zip(*texts, decode_ports(inputs), decode_ports(outputs), strict=True)
    tools: list[Tool | None] = []
    present = to_list(cells.is_valid())
    for position, (key, name, description, schema, index, ins, outs) in enumerate(columns):
        row = rows[position]
        if not present[position]:
            tools.append(None)
        elif not name:
            raise missing_field("name", row)
        elif len(ins) == 1 and ins[0].type == MARKER_TYPE:
            marker = ins[0]
            if not marker.description:
                raise missing_field("server_uri", row, tool=name)
            tools.append(
                MCPTool.from_cell(
                    name=name,
                    description=description or "",
                    schema_json=schema or "",
                    declared_json=marker.spec or None,
                    server_uri=marker.description,
                    row=row,
                )
            )
        else:
            tools.append(
                WorkflowTool.from_cell(
                    name=name,
                    description=description or "",
                    schema_json=schema or "",
                    input_spec=ins,
                    output_spec=outs,
                    message_output_port_index=-1 if index is None else index,
                    filestore_keys=key or None,
                    native=native(position),
                    row=row,
                )
            )
    return tools


_Row = tuple[
    str | None,
    str | None,
    str | None,
    str | None,
    tuple[PortTexts, ...] | None,
    tuple[PortTexts, ...] | None,
    int | None,
]
_MISSING: Final[_Row] = (None, None, None, None, None, None, None)


def _to_row(tool: Tool, store: str | None) -> _Row:
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            return (
                tool.filestore_keys,
                tool.name,
                tool.description,
                tool.schema_json,
                port_texts(tool.input_ports),
                port_texts(tool.output_ports),
                tool.message_output_port_index,
            )
        case MCPTool():
            return store, tool.name, tool.description, tool.schema_json, (_marker(tool),), (), -1
        case _:
            assert_never(tool)


def _marker(tool: MCPTool) -> PortTexts:
    return ("MCP server", tool.cell_uri, MARKER_TYPE, tool.declared_json)


def _create_file_store() -> str:
    # A value factory is the public way to a file store; nothing else of it is used.
    from knime.api.types import FileStorePythonValueFactory

    class Note(FileStorePythonValueFactory):
        def write(self, file_store_creator: Callable[[], str], value: str) -> None:
            Path(file_store_creator()).write_text(value, encoding="utf-8")

    return Note(str).encode(_NOTE)["0"]
