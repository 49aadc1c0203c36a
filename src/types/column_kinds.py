"""The kinds of columns in the nodes' tables, as Arrow types and as KNIME types; special column names.

A node promises its columns in ``configure`` and delivers them in ``execute``. Both are made here from the
same list of columns, so that they cannot differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

AUTO: Final = "<auto>"
"""The value of the setting *Tool column* for all tool columns."""

ROW_ID: Final = "<RowID>"
"""The name of the first column of Arrow data, from which KNIME takes the RowIDs."""

ColumnKind = Literal["string", "int32", "int64", "double", "boolean", "moment"]
"""The kind of values in a column. A moment is in UTC, with microseconds."""


def arrow_type(kind: ColumnKind) -> pa.DataType:
    """The Arrow type that KNIME accepts for a kind of column."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "moment": pa.timestamp("us", tz="UTC"),
    }
    return types[kind]


def arrow_columns(
    columns: Sequence[tuple[str, ColumnKind]], rows: Sequence[Sequence[Any]]
) -> dict[str, pa.Array]:
    """The columns of a table.

    Args:
        columns: Names and kinds of the columns.
        rows: The rows, each with one value per column.
    """
    import pyarrow as pa

    return {
        name: pa.array([row[place] for row in rows], arrow_type(kind))
        for place, (name, kind) in enumerate(columns)
    }


def knime_columns(columns: Iterable[tuple[str, ColumnKind]]) -> list[Any]:
    """The columns of a schema, a `knext.Column` for each name and kind."""
    import knime.extension as knext

    types = {
        "string": knext.string(),
        "int32": knext.int32(),
        "int64": knext.int64(),
        "double": knext.double(),
        "boolean": knext.bool_(),
        "moment": knext.datetime(date=True, time=True, timezone=True),
    }
    return [knext.Column(types[kind], name) for name, kind in columns]
