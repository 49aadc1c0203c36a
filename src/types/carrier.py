"""MCP tools inside the cell type that today's KNIME has for workflow tools.

KNIME accepts no new cell type from a Python extension. But a workflow tool's cell can hold an MCP tool: as
one input port of a special type, with the route as its description and the server's declaration as its spec.
So one column holds both kinds of tools, and KNIME's own nodes can concatenate, filter and store it. KNIME
writes the first file store of such a cell whenever it copies the cell, and fails without one; so the cells of
a column share one small file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

import pyarrow as pa

from .arrow import to_list
from .fields import from_columns
from .knime_cells import PORTS, cell_storage, decode_cells, encode_cells, ports_of, texts_of
from .tool import MCPTool, Tool, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JAVA_FACTORY: Final = "org.knime.core.node.agentic.tool.WorkflowToolValueFactory"
"""The Java class by which KNIME knows the cell type."""

MARKER_TYPE: Final = "knime-mcp/server"
"""Type of the single input port that marks a workflow tool's cell as an MCP tool."""

CARRIER_STORAGE: Final = cell_storage(pa.string(), pa.string(), pa.string(), PORTS, PORTS, pa.int32())
"""File store keys, then name, description, schema, inputs, outputs, index of the message output."""

_NOTE: Final = (
    "This cell holds a tool on an MCP server, not a workflow."
    " Call it with the nodes MCP Tool Caller or MCP Agent Prompter.\n"
)


def encode_carrier(tools: Sequence[Tool | None]) -> pa.StructArray:
    """Writes tools, None for a missing cell, as an array of KNIME's workflow tool cells.

    MCP tools can be written only while a node executes, as KNIME creates file stores only then.
    """
    store = _create_file_store() if any(isinstance(tool, MCPTool) for tool in tools) else None
    return encode_cells([None if tool is None else _to_row(tool, store) for tool in tools], CARRIER_STORAGE)


def decode_carrier(
    cells: Any, rows: Sequence[str], native: Callable[[int], object | None]
) -> list[Tool | None]:
    """Reads tools from KNIME's workflow tool cells.

    Args:
        cells: An array of type `CARRIER_STORAGE`, possibly a slice.
        rows: The RowID of each cell.
        native: Returns the `native` value of a workflow tool, by position.

    Returns:
        One tool per cell, None for a missing one.

    Raises:
        ToolFormatError: A field is missing; the message names row and field.
    """
    keys, names, descriptions, schemas, inputs, outputs, indices = decode_cells(cells)
    fields = [
        (1, None, ins[0][3], ins[0][1])
        if len(ins) == 1 and ins[0][2] == MARKER_TYPE
        else (0, ports_of(ins), ports_of(outs), None)
        for ins, outs in zip(inputs, outputs, strict=True)
    ]
    kinds, inputs, outputs, uris = zip(*fields, strict=True) if fields else ((),) * 4
    columns = (kinds, names, descriptions, schemas, inputs, outputs, indices, keys, uris)
    return from_columns(columns, to_list(cells.is_valid()), rows, native)


def _to_row(tool: Tool, store: str | None) -> tuple[object, ...]:
    common = (tool.name, tool.description, tool.schema_json)
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            ports = (texts_of(tool.input_ports), texts_of(tool.output_ports))
            return (tool.filestore_keys, *common, *ports, tool.message_output_port_index)
        case MCPTool():
            marker = ("MCP server", tool.cell_uri, MARKER_TYPE, tool.declared_json)
            return (store, *common, (marker,), (), -1)
        case _:
            assert_never(tool)


def _create_file_store() -> str:
    # A value factory is the only public access to a file store; its value is not used.
    from knime.api.types import FileStorePythonValueFactory

    class Note(FileStorePythonValueFactory):
        def write(self, file_store_creator: Callable[[], str], value: str) -> None:
            Path(file_store_creator()).write_text(value, encoding="utf-8")

    return Note(str).encode(_NOTE)["0"]
