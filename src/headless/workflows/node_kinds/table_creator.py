"""Runs *Table Creator*."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....knwf import Config, created_columns
from ..errors import RunError
from .node_kind import Done, Ports, Ready
from .tables import made_table

if TYPE_CHECKING:
    from ....knwf import NativeNode
    from .node_kind import Job


class TableCreator:
    """Runs Table Creator nodes, which output a table that a person typed."""

    def ready(self, node: NativeNode) -> Ready:
        """See `NodeKind`."""
        created_columns(node)
        return Ready(Ports(outputs=("Manually created table",)))

    def run(self, job: Job) -> Done:
        """See `NodeKind`."""
        import pyarrow as pa

        types = {
            "string": pa.string(),
            "int": pa.int32(),
            "long": pa.int64(),
            "double": pa.float64(),
            "boolean": pa.bool_(),
        }
        columns = created_columns(job.node)
        try:
            arrays = [pa.array(column.cells, types[column.type]) for column in columns]
        except (pa.ArrowInvalid, OverflowError) as error:
            raise RunError(f"A number in the table is too large for its column: {error}") from None
        data = pa.table(arrays, names=[column.name for column in columns])
        model = job.node.model or Config("model")
        start = model.integer("rowIdStartValue") or 0
        prefix, suffix = model.text("rowIdPrefix", "Row"), model.text("rowIdSuffix")
        ids = [f"{prefix}{start + i}{suffix}" for i in range(data.num_rows)]
        return Done(outputs=(made_table(job.world.host, data, ids),))
