"""Texts that a spreadsheet would run as formulas: the guard before them in CSV files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

# A spreadsheet runs what begins like this as a formula: https://owasp.org/www-community/attacks/CSV_Injection
_SIGN: Final = r"[=+\-@\t\r\n＝＋－＠]"
_BARE_FORMULA: Final = f"^{_SIGN}"
_FORMULA: Final = f"^'*{_SIGN}"
_NUMBER: Final = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_GUARDED: Final = re.compile(f"'+{_SIGN}")
_OURS: Final = (
    frozenset({"Tool name", "Hash"}),
    frozenset({"Input row", "Structured result", "Duration (s)"}),
    frozenset({"Result", "Status", "Error"}),
)
"""Columns of our own tables, *Tool calls* and *Results*, of which the guard is taken off."""


def is_ours(names: Sequence[str]) -> bool:
    return any(own <= {*names} for own in _OURS)


def _formulas(column: Any, pattern: str = _FORMULA) -> Any:
    """For each text of a column, whether a spreadsheet would run it, or would if its guard were taken off."""
    import pyarrow.compute as pc

    compute: Any = pc
    return compute.and_not(
        compute.match_substring_regex(column, pattern), compute.match_substring_regex(column, _NUMBER)
    )


def guarded_names(names: Sequence[str]) -> list[str]:
    """Names of columns, guarded as texts are: a server may have chosen them."""
    import pyarrow as pa

    formulas = _formulas(pa.array(names, pa.string())).to_pylist()
    return [f"'{name}" if is_formula else name for name, is_formula in zip(names, formulas, strict=True)]


def guarded(table: pa.Table) -> pa.Table:
    """The table with ' before texts that a spreadsheet would take for a formula, but not before numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    compute: Any = pc
    for position, (field, column) in enumerate(zip(table.schema, table.columns, strict=True)):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            is_formula = _formulas(column)
            if compute.any(is_formula).as_py():
                mark, nothing = pa.scalar("'", field.type), pa.scalar("", field.type)
                quoted = compute.binary_join_element_wise(mark, column, nothing)
                table = table.set_column(position, field.name, compute.if_else(is_formula, quoted, column))
    return table


def unguarded(table: pa.Table) -> pa.Table:
    """A table of ours without the guard of `guarded`; tables of other programs stay as they are.

    A file with a formula that has no guard was written without any.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    compute: Any = pc
    if not is_ours(table.column_names) or any(
        compute.any(_formulas(column, _BARE_FORMULA)).as_py() for column in table.columns
    ):
        return table
    for position, (field, column) in enumerate(zip(table.schema, table.columns, strict=True)):
        texts = column.to_pylist()
        if any(text is not None and _GUARDED.match(text) for text in texts):
            bare = [text[1:] if text is not None and _GUARDED.match(text) else text for text in texts]
            table = table.set_column(position, field.name, pa.array(bare, pa.string()))
    return table
