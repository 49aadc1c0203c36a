"""The table *Tool calls* as an output of a node: its columns with KNIME's types, and its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...audit.table import COLUMNS
from ...audit.table import calls_table as plain_calls_table
from ...types.column_kinds import knime_columns
from ...types.columns import choose_form, column_name, knime_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from ...audit.record import CallRecord


def calls_schema() -> Any:
    """Makes the spec of *Tool calls* that ``configure`` returns, a `knext.Schema`."""
    import knime.extension as knext

    form = choose_form("auto")
    columns = [knext.Column(knime_type(form), column_name(form))]
    columns += knime_columns((name, kind) for name, _, kind in COLUMNS)
    return knext.Schema.from_columns(columns)


def calls_table(records: Iterable[CallRecord]) -> pa.Table:
    """Makes the table of some calls. While a node executes.

    Args:
        records: The calls; they are put in the order in which they ended.

    Returns:
        An Arrow table with KNIME's types. It has no RowIDs.
    """
    ordered = sorted(records, key=lambda record: record.call)
    return plain_calls_table(ordered, form=choose_form("auto"))
