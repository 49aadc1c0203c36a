"""Writes and reads columns of tools as Arrow data: in the project's own layout, and in two of KNIME's.

The project's own layout is a struct of the nine fields, named "0" to "8", as KNIME names the fields of a
struct. The *carrier* is the cell type that today's KNIME has for workflow tools; it holds MCP tools, too. The
third layout is that of KNIME's future cell type for both kinds of tools. Reading respects slices, chunks and
nulls. JSON texts are not parsed here, but when an attribute is first read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

import pyarrow as pa

from .errors import SettingInvalid, ToolFormatError
from .routing import ServerRoute, split_tool
from .texts import collector_paused
from .tool import (
    FIELD_NAMES,
    MESSAGE_INDEX,
    TOOL_TYPE,
    MCPTool,
    Tool,
    ToolPort,
    ToolType,
    WorkflowTool,
    from_fields,
    to_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

TOOL_STORAGE: Final = pa.struct(
    [
        pa.field(str(i), pa.int32() if i in {TOOL_TYPE, MESSAGE_INDEX} else pa.string())
        for i in range(len(FIELD_NAMES))
    ]
)
"""The Arrow type of a tool. Field 0 is int32 because KNIME's Python API has no byte type."""

_AT_ONCE: Final = 4_000
"""Tools that are read or written together. Larger parts are slower, as the first tools have left the
processor's cache when the next field is read."""

_LONG: Final = 2_000
"""The smallest column in which looking for equal texts saves time."""

_SAMPLE: Final = 64
"""Texts at the start of a column that are checked for repetitions."""


def encode_tools(tools: Sequence[Tool | None]) -> pa.StructArray:
    """Writes tools, None for a missing cell, as one array of type `TOOL_STORAGE`."""
    starts = range(0, max(1, len(tools)), _AT_ONCE)
    return pa.concat_arrays([_encode(tools[start : start + _AT_ONCE]) for start in starts])


def decode_tools(data: pa.Array | pa.ChunkedArray, *, rows: Sequence[str] | None = None) -> list[Tool | None]:
    """Reads tools from structs as in `TOOL_STORAGE`, bare or as the storage of an extension type.

    Field 0 may be any integer type and text any string type. Null, "" and -1 all mean that a field does not
    apply to a tool; a null struct is None. ``rows`` are RowIDs for errors, or None for positions from 0.
    Raises `ToolFormatError` if the Arrow type differs, a discriminator is unknown, or a field is missing; the
    message names row and field.
    """
    _check_layout(data.type, rows[0] if rows else "0" if len(data) else None)
    labels = range(len(data)) if rows is None else rows
    tools: list[Tool | None] = []
    for chunk in data.chunks if isinstance(data, pa.ChunkedArray) else [data]:
        for start in range(0, len(chunk), _AT_ONCE):
            part = chunk.slice(start, _AT_ONCE)
            with collector_paused():
                tools += _decode(part, labels[len(tools) : len(tools) + len(part)])
    return tools


def _encode(tools: Sequence[Tool | None]) -> pa.StructArray:
    arrays = [
        pa.array(values, entry.type)
        if isinstance(values, list)
        else pa.repeat(pa.scalar(values, entry.type), len(tools))
        for values, entry in zip(_to_columns(tools), TOOL_STORAGE, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(TOOL_STORAGE), mask=arrays[TOOL_TYPE].is_null())


def _decode(chunk: Any, rows: Sequence[str | int]) -> list[Tool | None]:
    structs = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
    # Unlike field(i), flatten applies the struct's validity and offset.
    columns = [
        _values(column if column.type == wanted.type else _cast(column, wanted))
        for column, wanted in zip(structs.flatten(), TOOL_STORAGE, strict=True)
    ]
    return _from_columns(columns, to_list(structs.is_valid()), rows)


def _to_columns(tools: Sequence[Tool | None]) -> Sequence[list[Any] | int | None]:
    """For each of the nine fields the values of all tools, None for a missing tool.

    Instead of a list it may be the one value that all tools have.
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


def _from_columns(
    columns: Sequence[Sequence[Any]],
    present: Sequence[bool],
    rows: Sequence[str | int],
    native: Callable[[int], object | None] = lambda _: None,
) -> list[Tool | None]:
    """Makes the tools of a column from the values of each of the nine fields, as `from_fields` makes one.

    A row that is not present has no tool, thus None. ``native`` returns KNIME's own value of a workflow tool,
    by position.
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


def _check_layout(kind: pa.DataType, row: str | None) -> None:
    """Refuses any type that is not the struct of nine fields; names the first field that differs."""
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if kind == TOOL_STORAGE:
        return
    if not pa.types.is_struct(kind):
        raise _wrong_layout(kind, FIELD_NAMES[0], "it is no struct", row)
    for i, (name, wanted) in enumerate(zip(FIELD_NAMES, TOOL_STORAGE, strict=True)):
        if i >= kind.num_fields or kind.field(i).name != wanted.name:
            raise _wrong_layout(kind, name, f"field {i} ({name}) is missing or has another name", row)
        actual = kind.field(i).type
        fits = pa.types.is_integer(actual) if pa.types.is_integer(wanted.type) else _is_text(actual)
        if not fits and not pa.types.is_null(actual):
            raise _wrong_layout(kind, name, f"field {i} ({name}) is {actual}, not {wanted.type}", row)
    if kind.num_fields > len(FIELD_NAMES):
        extra = kind.field(len(FIELD_NAMES)).name
        raise _wrong_layout(kind, extra, f"field '{extra}' is unknown", row)


def _cast(column: pa.Array, wanted: pa.Field) -> pa.Array:
    try:
        return column.cast(wanted.type)
    except pa.ArrowInvalid as error:
        name = FIELD_NAMES[int(wanted.name)]
        raise ToolFormatError(f"The field {name} of a tool cannot be read: {error}", field=name) from None


def _values(column: pa.Array) -> list[Any]:
    """Converts a column as `to_list` does; in a long column, equal texts become one object."""
    if column.null_count == len(column):
        return [None] * len(column)
    if len(column) < _LONG or not pa.types.is_string(column.type):
        return to_list(column)
    if len(column.slice(0, _SAMPLE).unique()) > _SAMPLE // 4:
        return to_list(column)
    encoded = column.dictionary_encode(null_encoding="encode")
    values = to_list(encoded.dictionary)
    if len(values) == 1:
        return values * len(column)
    return [values[index] for index in to_list(encoded.indices)]


def to_list(column: pa.Array) -> list[Any]:
    """The values of a plain Arrow array of texts, integers or booleans.

    The result is that of ``column.to_pylist()``, ten times faster with versions of Arrow that make a scalar
    object for each value.
    """
    exact = pa.types.is_string(column.type) or not column.null_count  # numpy has no null for numbers
    return column.to_numpy(zero_copy_only=False).tolist() if exact and _has_numpy() else column.to_pylist()


@cache
def _has_numpy() -> bool:
    return find_spec("numpy") is not None


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"


def _wrong_layout(kind: pa.DataType, field: str, reason: str, row: str | None) -> ToolFormatError:
    return ToolFormatError(
        f"This is no tool column: {reason}. Found {kind}, wanted {TOOL_STORAGE}",
        field=field,
        row=row,
        fix="Choose a column made by MCP Tool Provider or Workflow to Tool, or update the extension",
    )


# KNIME's cell types for tools have in common: file store keys beside a struct, and lists of ports in it. A
# port is a plain tuple of its texts here: each cell of an MCP tool has one, and a `ToolPort`, which cleans
# its texts, would take a third more time.

PORTS: Final = pa.list_(pa.struct([pa.field(str(i), pa.string()) for i in range(4)]))
"""Name, description, type and spec of each port."""

PortTexts = tuple[str | None, ...]
_PARTS: Final = attrgetter(*ToolPort.__slots__)


def _texts_of(ports: Sequence[ToolPort]) -> tuple[PortTexts, ...]:
    return tuple(map(_PARTS, ports))


@lru_cache(maxsize=1024)
def _ports_of(texts: tuple[PortTexts, ...]) -> tuple[ToolPort, ...]:
    """Makes ports once for all cells with the same texts; a missing text is "", a missing spec None."""
    return tuple(
        ToolPort(name or "", description or "", kind or "", spec) for name, description, kind, spec in texts
    )


def _cell_storage(*kinds: pa.DataType) -> pa.StructType:
    """The Arrow type of a kind of cell: file store keys, and a struct of the given types."""
    inner = pa.struct([pa.field(str(i), kind) for i, kind in enumerate(kinds)])
    return pa.struct([pa.field("0", pa.string()), pa.field("1", inner)])


def _encode_cells(rows: Sequence[Sequence[Any] | None], storage: pa.StructType) -> pa.StructArray:
    """Writes for each cell its file store keys and the values of its struct; None for a missing cell."""
    inner = storage.field(1).type
    missing = pa.array([row is None for row in rows], pa.bool_())
    empty_row = (None,) * (1 + inner.num_fields)
    keys, *columns = zip(*(row or empty_row for row in rows), strict=True) if rows else ((),) * len(empty_row)
    data = [
        _encode_ports(column) if entry.type == PORTS else pa.array(column, entry.type)
        for column, entry in zip(columns, inner, strict=True)
    ]
    parts = [pa.array(keys, pa.string()), pa.StructArray.from_arrays(data, fields=[*inner], mask=missing)]
    return pa.StructArray.from_arrays(parts, fields=[*storage], mask=missing)


def _decode_cells(cells: Any) -> list[list[Any]]:
    """The values of all cells for the file store keys, then for each field of the struct.

    A list of ports is a tuple of `PortTexts`, empty for a missing list.
    """
    keys, inner = cells.flatten()
    return [
        _decode_ports(column) if column.type == PORTS else to_list(column)
        for column in (keys, *inner.flatten())
    ]


def _encode_ports(cells: Iterable[Sequence[PortTexts] | None]) -> pa.Array:
    offsets: list[int | None] = []
    flat: list[PortTexts] = []
    for ports in cells:
        offsets.append(None if ports is None else len(flat))  # None makes a missing list
        flat += ports or ()
    columns = zip(*flat, strict=True) if flat else ((),) * PORTS.value_type.num_fields
    texts = [pa.array(column, pa.string()) for column in columns]
    structs = pa.StructArray.from_arrays(texts, fields=[*PORTS.value_type])
    return pa.ListArray.from_arrays(pa.array([*offsets, len(flat)], pa.int32()), structs)


def _decode_ports(lists: Any) -> list[tuple[PortTexts, ...]]:
    ports = [*zip(*(to_list(column) for column in lists.flatten().flatten()), strict=True)]
    cells: list[tuple[PortTexts, ...]] = []
    start = 0
    for count in to_list(lists.value_lengths().fill_null(0)):
        cells.append(tuple(ports[start : start + count]))
        start += count
    return cells


# KNIME accepts no new cell type from a Python extension. But the cell of a workflow tool can hold an MCP
# tool: as one input port of a special type, with the route as its description and the server's declaration
# as its spec. So one column holds both kinds of tools, and KNIME's own nodes can concatenate, filter and
# store it. KNIME writes the first file store of such a cell whenever it copies the cell, and fails without
# one; so the cells of a column share one small file.

MARKER_TYPE: Final = "knime-mcp/server"
"""Type of the single input port that marks a workflow tool's cell as an MCP tool."""

CARRIER_STORAGE: Final = _cell_storage(pa.string(), pa.string(), pa.string(), PORTS, PORTS, pa.int32())
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
    return _encode_cells(
        [None if tool is None else _carrier_row(tool, store) for tool in tools], CARRIER_STORAGE
    )


def decode_carrier(
    cells: Any, rows: Sequence[str], native: Callable[[int], object | None]
) -> list[Tool | None]:
    """Reads tools from KNIME's workflow tool cells, possibly a slice; `native` is by position."""
    keys, names, descriptions, schemas, inputs, outputs, indices = _decode_cells(cells)
    fields = [
        (1, None, ins[0][3], ins[0][1])
        if len(ins) == 1 and ins[0][2] == MARKER_TYPE
        else (0, _ports_of(ins), _ports_of(outs), None)
        for ins, outs in zip(inputs, outputs, strict=True)
    ]
    kinds, inputs, outputs, uris = zip(*fields, strict=True) if fields else ((),) * 4
    columns = (kinds, names, descriptions, schemas, inputs, outputs, indices, keys, uris)
    return _from_columns(columns, to_list(cells.is_valid()), rows, native)


def _carrier_row(tool: Tool, store: str | None) -> tuple[object, ...]:
    common = (tool.name, tool.description, tool.schema_json)
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            ports = (_texts_of(tool.input_ports), _texts_of(tool.output_ports))
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


# KNIME's own future cell type, as in its prototype (branch mcp-tools): the nine fields in the same order,
# with the ports as lists, and the name of the credential. Field 7 is reserved; for an MCP tool it holds the
# server's output schema, annotations and title.

KNIME_TOOL_STORAGE: Final = _cell_storage(
    pa.int32(), *(pa.string(),) * 3, PORTS, PORTS, pa.int32(), *(pa.string(),) * 3
)
"""File store keys, then type, name, description, schema, inputs, outputs, message index, reserved, server
URI, credential."""


def encode_knime_tools(tools: Sequence[Tool | None]) -> pa.StructArray:
    """Writes tools, None for a missing cell, as an array of type `KNIME_TOOL_STORAGE`."""
    return _encode_cells(
        [None if tool is None else _knime_tool_row(tool) for tool in tools], KNIME_TOOL_STORAGE
    )


def decode_knime_tools(cells: Any, rows: Sequence[str]) -> list[Tool | None]:
    """Reads tools from KNIME's own tool cells.

    A workflow tool keeps no reference to its cell: KNIME executes the older kind of value, which is made from
    the fields.
    """
    keys, kinds, names, descriptions, schemas, inputs, outputs, indices, declared, uris, credentials = (
        _decode_cells(cells)
    )
    columns = (
        kinds,
        names,
        descriptions,
        schemas,
        [*map(_ports_of, inputs)],
        [
            declaration if kind == ToolType.MCP else _ports_of(ports)
            for kind, ports, declaration in zip(kinds, outputs, declared, strict=True)
        ],
        indices,
        keys,
        [*map(_with_credential, uris, credentials)],
    )
    return _from_columns(columns, to_list(cells.is_valid()), rows)


def _knime_tool_row(tool: Tool) -> tuple[object, ...]:
    common = (tool.tool_type.value, tool.name, tool.description, tool.schema_json)
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            ports = (_texts_of(tool.input_ports), _texts_of(tool.output_ports))
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
