"""Reads tables for the inputs of a workflow from files, with column types that KNIME has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..audit.table_formats import as_text, in_microseconds
from .errors import CommandError
from .files import read_table

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from ..headless.host import ExtensionHost


def read_input(file: Path, host: ExtensionHost) -> Any:
    """Reads a table; a workflow becomes a table with one tool.

    Args:
        file: A ``.knwf`` file, or a table in one of `table_formats.FORMATS`.
        host: Turns workflows into tools.

    Raises:
        CommandError: The file cannot be read, or KNIME cannot have such a table.
    """
    if file.suffix.lower() == ".knwf":
        from ..headless.workflows import make_workflow_tool, tools_table

        return tools_table(host, [make_workflow_tool(file, host)])
    table = read_table(file).table
    if not table.num_columns:
        raise CommandError(f"{file} has no columns.")
    if not all(name.strip() for name in table.column_names):
        raise CommandError(f"{file} has a column without a name. Name it, or remove it.")
    for position, field in enumerate(table.schema):
        table = table.set_column(position, field.name, _knime_column(table.column(position)))
    return table


def _knime_column(column: pa.ChunkedArray[Any]) -> Any:
    """The column with a type that KNIME has, otherwise as text."""
    import pyarrow as pa

    column = in_microseconds(column)
    kind = _knime_type(column.type)
    try:
        return as_text(column) if kind is None else column.cast(kind)
    except pa.ArrowInvalid:  # a number that is too large
        return as_text(column)


def _knime_type(kind: Any) -> Any:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _knime_type(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _knime_type(kind.value_type)
        is_plain = inner is not None and not types.is_nested(inner) and not types.is_temporal(inner)
        return pa.list_(inner) if is_plain else None
    if types.is_integer(kind):
        return pa.int64() if kind.bit_width == 64 or kind == pa.uint32() else pa.int32()
    if types.is_floating(kind) or types.is_decimal(kind):
        return pa.float64()
    if str(kind) in ("string", "large_string", "string_view"):
        return pa.string()
    return kind if types.is_boolean(kind) or types.is_null(kind) or types.is_temporal(kind) else None
