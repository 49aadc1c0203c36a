"""Writes and reads tools as Arrow structs of nine fields, a column at a time.

The fields are named "0" to "8", as KNIME names the fields of a struct. Reading respects slices, chunks and
nulls. JSON texts are not parsed here, but when an attribute is first read.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from .collector import collector_paused
from .errors import ToolFormatError
from .fields import FIELD_NAMES, MESSAGE_INDEX, TOOL_TYPE, from_columns, to_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tool import Tool

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
    """Reads tools from an Arrow array or column.

    Field 0 may be any integer type and text any string type. Null, "" and -1 all mean that a
    field does not apply to a tool.

    Args:
        data: Structs as in `TOOL_STORAGE`, bare or as the storage of an extension type.
        rows: RowIDs for errors; positions, counted from 0, if None.

    Returns:
        One tool per struct, None for a null struct.

    Raises:
        ToolFormatError: The Arrow type differs, a discriminator is unknown, or a field is missing; the
            message names row and field.
    """
    _check_layout(data.type, rows[0] if rows else "0" if len(data) else None)
    labels = range(len(data)) if rows is None else rows
    tools: list[Tool | None] = []
    with collector_paused():
        for chunk in data.chunks if isinstance(data, pa.ChunkedArray) else [data]:
            for start in range(0, len(chunk), _AT_ONCE):
                part = chunk.slice(start, _AT_ONCE)
                tools += _decode(part, labels[len(tools) : len(tools) + len(part)])
    return tools


def _encode(tools: Sequence[Tool | None]) -> pa.StructArray:
    arrays = [
        pa.array(values, entry.type)
        if isinstance(values, list)
        else pa.repeat(pa.scalar(values, entry.type), len(tools))
        for values, entry in zip(to_columns(tools), TOOL_STORAGE, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(TOOL_STORAGE), mask=arrays[TOOL_TYPE].is_null())


def _decode(chunk: Any, rows: Sequence[str | int]) -> list[Tool | None]:
    structs = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
    # Unlike field(i), flatten applies the struct's validity and offset.
    columns = [
        _values(column if column.type == wanted.type else _cast(column, wanted))
        for column, wanted in zip(structs.flatten(), TOOL_STORAGE, strict=True)
    ]
    return from_columns(columns, to_list(structs.is_valid()), rows)


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
