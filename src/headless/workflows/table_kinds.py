"""Runs *Row Filter* and *Column Renamer*: what KNIME's nodes would make of the same settings and tables."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, Final

from ...knwf import read_column_renamer, read_row_filter
from ...knwf.table_nodes import PATTERNS
from ...runs.argument_sources import cells_are_shared
from ..node_results import OutputTable
from .native_kinds import arriving_table
from .node_kind import Done, Ports, Ready, WorkflowError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...knwf import Criterion, NativeNode
    from .node_kind import Job

_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "NEQ_MISS": operator.ne,
    "LT": operator.lt,
    "LTE": operator.le,
    "GT": operator.gt,
    "GTE": operator.ge,
    "IS_NOT_MISSING": lambda _cell, _value: True,
    "IS_TRUE": lambda cell, _value: cell is True,
    "IS_FALSE": lambda cell, _value: cell is False,
}
#: Criteria that a missing cell fits; it fits no other.
_FIT_MISSING: Final = frozenset({"NEQ", "IS_MISSING"})


class RowFilterNode:
    def ready(self, node: NativeNode) -> Ready:
        for criterion in read_row_filter(node).criteria:
            # A pattern that cannot be read is found before anything runs.
            _test(criterion)
        return Ready(Ports(("Data Table",), (True,), ("Filtered Table",)))

    def run(self, job: Job) -> Done:
        import pyarrow as pa

        settings, table = read_row_filter(job.node), arriving_table(job.inputs[0])
        fits = [_rows_that_fit(criterion, table) for criterion in settings.criteria]
        combined = any if settings.any else all
        if cells_are_shared(table.arrow):
            raise WorkflowError(
                "The table has cells that are stored once for many rows, which only KNIME filters"
            )
        kept = [place for place, row in enumerate(zip(*fits, strict=True)) if combined(row) is settings.keep]
        return Done(outputs=(OutputTable(table.arrow.take(pa.array(kept, pa.int64())), (), job.world.host),))


def _rows_that_fit(criterion: Criterion, table: OutputTable) -> list[bool]:
    name = criterion.column
    if name is not None and name not in table.column_names:
        raise WorkflowError(f"The column '{name}' of a criterion is not in the table")
    cells = table.row_ids if name is None else table.column(name)
    of_numbers = criterion.type != "string"
    wrong = next((cell for cell in cells if cell is not None and _is_other(cell, criterion)), None)
    if wrong is not None:
        expected = "numbers" if of_numbers else "texts"
        raise WorkflowError(f"The criterion on '{name}' compares {expected}, but the column holds {wrong!r}")
    fits, missing = _test(criterion), criterion.operator in _FIT_MISSING
    return [missing if cell is None else fits(cell) for cell in cells]


def _is_other(cell: Any, criterion: Criterion) -> bool:
    """Whether a cell is of another kind than the values of the criterion, if this has any."""
    if criterion.value is None:
        return False
    # A boolean is an `int` for Python, but no number for KNIME.
    is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
    return not (is_number if criterion.type != "string" else isinstance(cell, str))


def _test(criterion: Criterion) -> Callable[[Any], bool]:
    """Tells whether a cell that is not missing fits."""
    value, flags = criterion.value, 0 if criterion.case_sensitive else re.IGNORECASE
    if criterion.operator in PATTERNS:
        text = str(value)
        if criterion.operator == "WILDCARD":
            text = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
        try:
            pattern = re.compile(text, flags | re.DOTALL | re.MULTILINE)
        except re.error as error:
            raise WorkflowError(
                f"The pattern '{value}' cannot be read here: {error}",
                fix="Java's regular expressions differ in places; run the workflow in KNIME",
            ) from None
        return lambda cell: pattern.fullmatch(str(cell)) is not None
    compares: Callable[[Any, Any], bool]
    compares = _COMPARED.get(criterion.operator, lambda _cell, _value: False)  # IS_MISSING
    if flags and isinstance(value, str):
        return lambda cell: compares(cell.casefold(), value.casefold())
    return lambda cell: compares(cell, value)


class ColumnRenamer:
    def ready(self, node: NativeNode) -> Ready:
        read_column_renamer(node)
        return Ready(Ports(("Table with columns to rename",), (True,), ("Table with renamed columns",)))

    def run(self, job: Job) -> Done:
        names, table = read_column_renamer(job.node), arriving_table(job.inputs[0])
        shown = [names.get(name, name) for name in table.column_names]
        if len(set(shown)) < len(shown):
            raise WorkflowError("A new name is that of another column", fix="Choose another one")
        absent = ", ".join(repr(name) for name in names if name not in table.column_names)
        arrow = table.arrow.rename_columns([table.arrow.schema.names[0], *shown])
        warnings = (f"Columns to rename that are not there: {absent}",) if absent else ()
        return Done(outputs=(OutputTable(arrow, (), job.world.host),), warnings=warnings)
