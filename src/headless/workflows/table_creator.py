"""Runs *Table Creator*."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...knwf import KnwfError, created_columns
from .errors import RunError
from .job import Done, Ports, Ready
from .tables import made_table

if TYPE_CHECKING:
    from ...knwf import NativeNode
    from .job import Job


class TableCreator:
    """Gives the table that a person typed."""

    def ready(self, node: NativeNode) -> Ready:
        """See `NodeKind`."""
        try:
            created_columns(node)
        except KnwfError as error:
            raise RunError(str(error)) from None
        return Ready(Ports(outputs=("Manually created table",)), node.model)

    def run(self, job: Job) -> Done:
        """See `NodeKind`."""
        from dataclasses import replace

        import pyarrow as pa

        types = {
            "string": pa.string(),
            "int": pa.int32(),
            "long": pa.int64(),
            "double": pa.float64(),
            "boolean": pa.bool_(),
        }
        columns = created_columns(replace(job.node, model=job.model))
        try:
            arrays = [pa.array(column.cells, types[column.type]) for column in columns]
        except (pa.ArrowInvalid, OverflowError) as error:
            raise RunError(f"A number in the table is too large for its column: {error}") from None
        data = pa.table(arrays, names=[column.name for column in columns])
        model = job.model
        start = (model.integer("rowIdStartValue") if model else None) or 0
        prefix, suffix = (
            (model.text("rowIdPrefix", "Row"), model.text("rowIdSuffix")) if model else ("Row", "")
        )
        ids = [f"{prefix}{start + i}{suffix}" for i in range(data.num_rows)]
        return Done(outputs=(made_table(job.world.host, data, ids),))
