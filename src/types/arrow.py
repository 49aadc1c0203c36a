"""Writes and reads columns of tools as Arrow data: in the project's own layout, and in two of KNIME's.

The project's own layout is a struct of the nine fields, named "0" to "8", as KNIME names the fields of a
struct. The *carrier* is the cell type that today's KNIME has for workflow tools; it holds MCP tools, too. The
third layout is that of KNIME's future cell type for both kinds of tools. Reading respects slices, chunks and
nulls. JSON texts are not parsed here, but when an attribute is first read.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from functools import cache, lru_cache
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, assert_never, cast

import pyarrow as pa

from .errors import SettingInvalid, ToolFormatError
from .routing import ServerRoute, split_tool
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
    from_json_text,
    to_fields,
    to_json_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TOOL_STORAGE: Final = pa.struct(
    [
        pa.field(str(i), pa.int32() if i in {TOOL_TYPE, MESSAGE_INDEX} else pa.string())
        for i in range(len(FIELD_NAMES))
    ]
)
"""The Arrow type of a tool. Field 0 is int32 because KNIME's Python API has no byte type."""


def encode_tools(tools: Sequence[Tool | None]) -> pa.StructArray:
    """Writes tools, None for a missing cell, as one array of type `TOOL_STORAGE`."""
    # Row after row in one list, as keeping a tuple per tool costs more than its texts.
    values: list[int | str | None] = []
    for tool in tools:
        values += (None,) * len(FIELD_NAMES) if tool is None else to_fields(tool)
    columns = [values[i :: len(FIELD_NAMES)] for i in range(len(FIELD_NAMES))]
    arrays = [pa.array(column, entry.type) for column, entry in zip(columns, TOOL_STORAGE, strict=True)]
    # Only if need be, as `is_valid` below: both import `pyarrow.compute`, which takes long.
    missing = [tool is None for tool in tools]
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    return pa.StructArray.from_arrays(arrays, fields=list(TOOL_STORAGE), mask=mask)


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
        structs = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
        # Unlike field(i), flatten applies the struct's validity and offset.
        columns = [
            to_list(column if column.type == wanted.type else _cast(column, wanted))
            for column, wanted in zip(structs.flatten(), TOOL_STORAGE, strict=True)
        ]
        present = to_list(structs.is_valid()) if structs.null_count else [True] * len(structs)
        tools += _from_columns(columns, present, labels[len(tools) :])
    return tools


def _from_columns(
    columns: Sequence[Sequence[Any]], present: Sequence[bool], rows: Sequence[str | int]
) -> list[Tool | None]:
    """Makes the tools of a column from the values of each of the nine fields, as `from_fields` makes one.

    A row that is not present has no tool, thus None.
    """
    return [
        from_fields(*fields, row=rows[position]) if is_present else None
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
    cells = [None if row is None else {"0": row[0], "1": _by_place(row[1:])} for row in rows]
    return pa.array(cells, storage)


def _by_place(values: Sequence[Any]) -> dict[str, Any]:
    """A struct of KNIME's, whose names are positions; a list of ports is one of structs."""
    return {
        str(place): [*map(_by_place, cast("tuple[PortTexts, ...]", value))]
        if isinstance(value, tuple)
        else value
        for place, value in enumerate(values)
    }


def _decode_cells(cells: Any) -> list[list[Any]]:
    """The values of all cells for the file store keys, then for each field of the struct.

    A list of ports is a tuple of `PortTexts`, empty for a missing list.
    """
    keys, inner = cells.flatten()
    return [
        _decode_ports(column) if column.type == PORTS else to_list(column)
        for column in (keys, *inner.flatten())
    ]


def _decode_ports(lists: Any) -> list[tuple[PortTexts, ...]]:
    ports = [*zip(*(to_list(column) for column in lists.flatten().flatten()), strict=True)]
    cells: list[tuple[PortTexts, ...]] = []
    start = 0
    for count in to_list(lists.value_lengths().fill_null(0)):
        cells.append(tuple(ports[start : start + count]))
        start += count
    return cells


# KNIME accepts no new cell type from a Python extension. But the cell of a workflow tool can hold an MCP
# tool: its file store has the definition, behind a workflow that calls the tool (`tools/tool_segment.py`). So
# one column holds both kinds of tools, KNIME's nodes concatenate, filter and store it, and its agents run it.

MARKER: Final = "mcp-tool.json"
"""The entry in a cell's file store that makes it an MCP tool: the nine fields as JSON text."""

CARRIER_STORAGE: Final = _cell_storage(pa.string(), pa.string(), pa.string(), PORTS, PORTS, pa.int32())
"""File store keys, then name, description, schema, inputs, outputs, index of the message output."""

_LARGEST_MARKER: Final = 64 << 20


class CarrierCell(Protocol):
    """What KNIME reads of an MCP tool's cell, and the content of its file store."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameter_schema(self) -> str: ...
    @property
    def has_records(self) -> bool: ...
    @property
    def store(self) -> bytes: ...


def encode_carrier(
    tools: Sequence[Tool | None], cells: Sequence[CarrierCell] | None = None
) -> pa.StructArray:
    """Writes tools, None for a missing cell, as an array of KNIME's workflow tool cells.

    ``cells`` are for each tool what its cell is for KNIME; without them KNIME's agents cannot run the tools,
    unless these came from such cells. MCP tools can be written only while a node executes, as KNIME creates
    file stores only then.
    """
    stored: dict[str, str] = {}

    def row(position: int, tool: Tool) -> tuple[object, ...]:  # @ToolTypeDispatch
        match tool:
            case WorkflowTool():
                ports = (_texts_of(tool.input_ports), _texts_of(tool.output_ports))
                about = (tool.name, tool.description, tool.schema_json)
                return (tool.filestore_keys, *about, *ports, tool.message_output_port_index)
            case MCPTool():
                if cells is not None:
                    cell = cells[position]
                    key = _create_file_store(cell.store)
                    outputs = (_RECORDS,) if cell.has_records else ()
                    return (key, cell.name, cell.description, cell.parameter_schema, (), outputs, 0)
                if tool.cell is not None:  # as it came
                    return tool.cell
                text = to_json_text(tool)
                if text not in stored:  # the calls of one tool share a file
                    stored[text] = _create_file_store(_only_marker(text))
                return (stored[text], tool.name, tool.description, "", (), (), -1)
            case _:
                assert_never(tool)

    return _encode_cells(
        [None if tool is None else row(position, tool) for position, tool in enumerate(tools)],
        CARRIER_STORAGE,
    )


_RECORDS: Final = ("records", "The records of the result", "Table", "")


def decode_carrier(
    cells: Any, rows: Sequence[str], native: Callable[[int], object | None]
) -> list[Tool | None]:
    """Reads tools from KNIME's workflow tool cells, possibly a slice; `native` is by position."""
    values = _decode_cells(cells)
    markers: dict[str | None, str | None] = {}
    tools: list[Tool | None] = []
    for position, (present, fields) in enumerate(
        zip(to_list(cells.is_valid()), zip(*values, strict=True), strict=True)
    ):
        keys, name, description, schema, inputs, outputs, index = fields
        # Once per file store, as cells of a column may share one, and opening a zip takes longer than all
        # else here.
        if present and keys not in markers:
            markers[keys] = _marker_in(keys)
        marker = markers[keys] if present else None
        if not present:
            tools.append(None)
        elif marker is not None:
            tools.append(from_json_text(marker, row=rows[position], cell=fields))
        else:
            ports = (_ports_of(inputs), _ports_of(outputs))
            about = (0, name, description, schema, *ports, index, keys, None)
            tools.append(from_fields(*about, row=rows[position], native=native(position)))
    return tools


def store_file(keys: str | None) -> Path | None:
    """The first file store of a cell; None where it cannot be resolved.

    Works only in the thread that executes a node: only there does KNIME resolve file stores.
    """
    if not keys:
        return None
    from knime.api.types import FileStorePythonValueFactory

    class Store(FileStorePythonValueFactory):
        # A value factory is the public way to the path of a file store.
        def read(self, file_paths: list[str], table_data: Any) -> Path | None:  # noqa: ARG002
            return Path(file_paths[0]) if file_paths else None

    try:
        path = Store(str).decode({"0": keys, "1": None})
    except Exception:  # KNIME raises different exceptions for a missing store
        return None
    return path if path is not None and path.is_file() else None


def _marker_in(keys: str | None) -> str | None:
    """The marker in a cell's file store; None for a workflow, whose zip KNIME does not finish."""
    path = store_file(keys)
    if path is None:
        return None
    try:
        with zipfile.ZipFile(path) as store:
            entry = store.getinfo(MARKER)
            return store.read(entry).decode() if entry.file_size <= _LARGEST_MARKER else None
    except (zipfile.BadZipFile, KeyError, OSError, UnicodeDecodeError):
        return None


def _only_marker(text: str) -> bytes:
    made = io.BytesIO()
    entry = zipfile.ZipInfo(MARKER)
    entry.create_system = 3  # otherwise it is the system on which it is written
    with zipfile.ZipFile(made, "w") as store:
        store.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _create_file_store(data: bytes) -> str:
    # A value factory is the only public access to a file store; its value is not used.
    from knime.api.types import FileStorePythonValueFactory

    class Store(FileStorePythonValueFactory):
        def write(self, file_store_creator: Callable[[], str], value: bytes) -> None:
            Path(file_store_creator()).write_bytes(value)

    return Store(bytes).encode(data)["0"]


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
    ports = [*map(_ports_of, inputs)]
    specs = [
        declaration if kind == ToolType.MCP else _ports_of(output)
        for kind, output, declaration in zip(kinds, outputs, declared, strict=True)
    ]
    routes = [*map(_with_credential, uris, credentials)]
    columns = (kinds, names, descriptions, schemas, ports, specs, indices, keys, routes)
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
