"""Converts tables for the inputs and from the outputs of nodes, and finds what KNIME's Java side refuses."""

import json
from collections import Counter
from typing import Any

from knime._arrow import LogicalTypeExtensionType, schema_of, spec_of
from knime._arrow._table_data import check_batches
from knime.api import table as knime_table
from knime.api.schema import Column, Schema, wrap_primitive

from .errors import HeadlessError
from .value_types import JavaType, factory_of, java_type


def table_problems(data: Any) -> list[str]:
    """The problems for which KNIME cannot read a table with its own types."""
    names = data.schema.names
    problems = [f"duplicate column names {names}"] if len(set(names)) != len(names) else []
    for field in data.schema:
        problems += _column_problems(field.name, field.type)
    return problems + _row_id_problems(data)


def _column_problems(name: str, dtype: Any) -> list[str]:
    if not isinstance(dtype, LogicalTypeExtensionType):
        return [f"column {name!r}: no logical type (plain Arrow {dtype})"]
    known = java_type(dtype)
    if known is None:
        return [f"column {name!r}: KNIME has no value factory {dtype.logical_type}"]
    if known.storage is not None and known.storage != spec_of(dtype):
        wanted, found = json.dumps(known.storage), json.dumps(spec_of(dtype))
        return [f"column {name!r}: storage {found}, but {known.shown} is stored as {wanted}"]
    return []


def _row_id_problems(data: Any) -> list[str]:
    ids = [row_id for chunk in data.column(0).chunks for row_id in chunk.storage.to_pylist()]
    twice = [row_id for row_id, count in Counter(ids).items() if count > 1]
    problems = ["a RowID is missing"] if None in ids else []
    return problems + ([f"duplicate RowIDs, e.g. {twice[:3]}"] if twice else [])


def promise_problems(port: int, promised: Any, data: Any) -> list[str]:
    """The differences between a table and the schema that configure() returned for its port."""
    if not isinstance(promised, Schema):
        return []
    names = list(data.schema.names[1:])
    if names != promised.column_names:
        return [f"output {port}: columns {names} but configure promised {promised.column_names}"]
    wanted = [factory_of(wrap_primitive(column.ktype)) for column in promised]
    given = [factory_of(field.type) for field in list(data.schema)[1:]]
    return [] if wanted == given else [f"output {port}: column types {given} but configure promised {wanted}"]


def type_problems(spec: Any) -> list[str]:
    """The problems of a schema from configure() that has columns with types unknown to KNIME."""
    columns = [column for column in spec if _known_type(column) is None] if isinstance(spec, Schema) else []
    return [f"configure: Java has no columns of the type {c.ktype}, as {c.name!r} is" for c in columns]


def _known_type(column: Column) -> JavaType | None:
    return java_type(wrap_primitive(column.ktype))


def described(schema: Schema) -> Schema:
    """The schema with KNIME's additions to the metadata of input columns.

    Raises:
        HeadlessError: KNIME has no columns of a column's type.
    """
    return Schema.from_columns([_described(column) for column in schema])


def _described(column: Column) -> Column:
    known = _known_type(column)
    if known is None:
        raise HeadlessError(f"column {column.name!r}: KNIME has no columns of the type {column.ktype}")
    own = {"preferred_value_type": known.preferred, "displayed_column_type": known.shown}
    return Column(column.ktype, column.name, {**(column.metadata or {}), **own})


def source_table(data: Any, row_ids: str) -> Any:
    """A table for execute(), from Arrow data or a table. Needs a running backend.

    Raises:
        HeadlessError: KNIME has no such tables.
    """
    if isinstance(data, knime_table.ArrowSourceTable):
        return data
    made: Any = (
        data if isinstance(data, knime_table.Table) else knime_table.Table.from_pyarrow(data, row_ids=row_ids)
    )
    arrow = _as_read(whole(made._data))
    problems = table_problems(arrow)
    if problems:
        raise HeadlessError("no node could deliver this input table: " + "; ".join(problems))
    return knime_table.made(arrow, described(schema_of(arrow)))


def _as_read(data: Any) -> Any:
    """Arrow data as KNIME reads it from a file: all columns with the same chunks, and empty metadata."""
    import pyarrow as pa

    schema = pa.schema([field.with_metadata({}) for field in data.schema])
    return pa.Table.from_batches(data.to_batches(), schema)


def whole(data: Any) -> Any:
    """Arrow data as a table, also if it is a record batch."""
    import pyarrow as pa

    return pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data


def written(table: Any) -> Any:
    """The data of an output table in the form that is written for KNIME.

    Raises:
        TypeError: the output is not a table. (A lazy view in a list of outputs needs a call of its get().)
        ValueError: the batches differ in size, or there are no batches.
    """
    if isinstance(table, knime_table.BatchOutputTable):
        data: Any = table._all()  # pyright: ignore[reportPrivateUsage]
        if data is None:
            raise ValueError("a BatchOutputTable without batches has no columns")
    elif isinstance(table, knime_table.Table):
        data = whole(table._data)  # pyright: ignore[reportPrivateUsage]
    else:
        raise TypeError(f"a table port needs a Table or BatchOutputTable, not {type(table).__name__}")
    check_batches([len(batch) for batch in data.to_batches()])
    return data
