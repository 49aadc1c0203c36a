"""Runs *Concatenate*, which appends the rows of several tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....knwf import read_concatenation
from ...results import OutputTable
from ...value_types import factory_of
from ..errors import RunError
from .node_kind import Done, Ports, Ready
from .tables import arriving_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....knwf import Concatenation, NativeNode
    from ...host import ExtensionHost
    from .node_kind import Job

_VALUE: Final = "org.knime.core.data.v2.value."
_VOID: Final = f"{_VALUE}VoidValueFactory"
#: Numeric types from the narrowest to the widest. Cells of a type can be converted to all later types.
_NUMBERS: Final = tuple(f"{_VALUE}{name}ValueFactory" for name in ("Boolean", "Int", "Long", "Double"))


class Concatenate:
    """Runs Concatenate nodes."""

    def ready(self, node: NativeNode) -> Ready:
        """See `NodeKind`."""
        read_concatenation(node)
        count = node.inputs or 2
        names = tuple(f"Table {i + 1}" for i in range(count))
        return Ready(Ports(names, (True,) * count, ("Concatenated tables",)))

    def run(self, job: Job) -> Done:
        """See `NodeKind`."""
        settings = read_concatenation(job.node)
        inputs = [arriving_table(value) for value in job.inputs]
        tables: list[Any] = [table.arrow for table in inputs]
        names = _names(tables, settings)
        keys = [table.row_ids for table in inputs]
        ids, kept = _unique(keys, settings)
        columns = [
            _column(name, tables) if (own := _tools(name, inputs, job.world.host)) is None else own
            for name in names
        ]
        dropped = sum(map(len, keys)) - len(ids)
        arrow = _built(tables[0].schema.field(0), ids, columns, names, kept if dropped else None)
        warnings = (f"Filtered out {dropped} duplicate row(s).",) if dropped else ()
        return Done(outputs=(OutputTable(arrow, (), job.world.host),), warnings=warnings)


def _names(tables: Sequence[Any], settings: Concatenation) -> list[str]:
    found = dict.fromkeys(name for table in tables for name in table.schema.names[1:])
    if not settings.intersection:
        return list(found)
    return [name for name in found if all(name in table.schema.names[1:] for table in tables)]


def _unique(keys: Sequence[Sequence[str]], settings: Concatenation) -> tuple[list[str], list[int]]:
    """The RowIDs of the result, and the positions of the rows that are kept."""
    whole = [key for own in keys for key in own]
    if settings.row_ids == "new":
        return [f"Row{i}" for i in range(len(whole))], list(range(len(whole)))
    ids: dict[str, int] = {}
    for position, own in enumerate(whole):
        key = own
        if key in ids and settings.row_ids == "skip":
            continue
        if key in ids and settings.row_ids == "fail":
            raise RunError(
                f"The RowID '{key}' is in the tables more than once",
                fix="Let the Concatenate node make new RowIDs or append a suffix",
            )
        while key in ids:
            key += settings.suffix
        ids[key] = position
    return list(ids), list(ids.values())


def _tools(name: str, tables: Sequence[OutputTable], host: ExtensionHost) -> Any:
    """The concatenated column, if it has tools in several forms; None for other columns.

    KNIME has one cell type for tools of workflows and of servers. Outside KNIME there can be two, which are
    converted to one here, so that the result is the same.
    """
    import pyarrow as pa

    from ....types.columns import ColumnForm, read_tools, tool_column_names, write_tools

    has = [name in table.column_names for table in tables]
    if len({t.logical_types[name] for t, own in zip(tables, has, strict=True) if own}) < 2:
        return None
    sources = [table.as_input() for table in tables]
    if [name in tool_column_names(source.schema) for source in sources] != has:
        return None
    tools: list[Any] = []
    with host.tables_usable():
        for source, own in zip(sources, has, strict=True):
            tools += read_tools(source, name) if own else [None] * source.num_rows
        column = write_tools(tools, ColumnForm.NATIVE)
    return host.table(pa.table([column], names=[name]))._data.column(1).combine_chunks()


def _column(name: str, tables: Sequence[Any]) -> Any:
    """The concatenated column, with missing cells for tables that do not have the column."""
    import pyarrow as pa

    types = [table.schema.field(name).type for table in tables if name in table.schema.names]
    wanted = _common(name, types)
    storage: list[Any] = [pa.array([], wanted.storage_type)]
    for table in tables:
        own = table.column(name) if name in table.schema.names else None
        if own is None or (own.type != wanted and factory_of(own.type) == _VOID):
            storage.append(pa.nulls(table.num_rows, wanted.storage_type))
        elif own.type == wanted:
            storage += [chunk.storage for chunk in own.chunks]
        else:
            storage += [_widened(chunk.storage, wanted) for chunk in own.chunks]
    # One chunk, because the chunks of KNIME's tables have the same size.
    return pa.ExtensionArray.from_storage(wanted, pa.concat_arrays(storage))


def _widened(storage: Any, wanted: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_boolean(storage.type):
        storage = storage.cast(pa.int32())
    return storage.cast(wanted.storage_type, safe=False)


def _common(name: str, types: Sequence[Any]) -> Any:
    """The type for the cells of all tables.

    Raises:
        RunError: KNIME makes a column of mixed types, which is not possible here.
    """
    known = [kind for kind in types if factory_of(kind) != _VOID] or list(types)
    if all(kind == known[0] for kind in known):
        return known[0]
    factories = [factory_of(kind) for kind in known]
    if all(factory in _NUMBERS for factory in factories):
        return known[factories.index(max(factories, key=_NUMBERS.index))]
    shown = " and ".join(
        sorted({factory.rpartition(".")[2].removesuffix("ValueFactory") for factory in factories})
    )
    raise RunError(
        f"The column '{name}' has different types in the tables ({shown}), which only KNIME can put into one",
        fix="Rename the column in one of the tables, or convert it",
    )


def _built(
    row_id_field: Any,
    ids: Sequence[str],
    columns: Sequence[Any],
    names: Sequence[str],
    kept: list[int] | None,
) -> Any:
    import pyarrow as pa

    if kept is not None:
        columns = [_taken(column, kept) for column in columns]
    key = pa.ExtensionArray.from_storage(row_id_field.type, pa.array(ids, row_id_field.type.storage_type))
    return pa.table([key, *columns], names=[row_id_field.name, *names])


def _taken(column: Any, kept: list[int]) -> Any:
    import pyarrow as pa

    return pa.ExtensionArray.from_storage(column.type, column.storage.take(pa.array(kept, pa.int64())))
