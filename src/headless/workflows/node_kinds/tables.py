"""Makes the tables of native nodes from plain Arrow data, with KNIME's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....types.column_kinds import ROW_ID
from ...results import OutputTable
from ..errors import RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ...host import ExtensionHost


def made_table(host: ExtensionHost, columns: pa.Table, row_ids: Sequence[str] | None = None) -> OutputTable:
    """Makes a table with KNIME's types.

    Args:
        host: The host of the table.
        columns: The columns with plain Arrow types, without RowIDs.
        row_ids: The RowIDs; by default Row0, Row1, …
    """
    import pyarrow as pa

    ids = [f"Row{i}" for i in range(columns.num_rows)] if row_ids is None else list(row_ids)
    whole = pa.table([pa.array(ids, pa.string()), *columns.columns], names=[ROW_ID, *columns.column_names])
    return given_table(host, whole, "keep")


def given_table(host: ExtensionHost, data: Any, row_ids: str = "auto") -> OutputTable:
    """The caller's table, from an `OutputTable`, Arrow data, or a table of the API."""
    return data if isinstance(data, OutputTable) else OutputTable(host.table(data, row_ids)._data, (), host)


def arriving_table(value: Any) -> OutputTable:
    """The table that arrives at a port.

    Raises:
        RunError: The input is not a table.
    """
    if not isinstance(value, OutputTable):
        raise RunError("Something else than a table arrives at its input")
    return value


def first_cell(table: OutputTable) -> str | None:
    """The text of the first cell; None if the table has no cells."""
    if not table.arrow.num_rows or not table.column_names:
        return None
    value = table.column(table.column_names[0])[0]
    return "?" if value is None else str(value)
