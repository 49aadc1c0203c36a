"""The cells of an input table as Python values, as far as KNIME has values for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a cell that Python cannot read.

    Attributes:
        why: The reason, for an error message.
    """

    why: str


def values_of(column: Any) -> list[Any]:
    """Reads an Arrow column of an input table; an unreadable cell does not affect the other cells.

    Returns:
        A value per cell: None for a missing cell, `Unreadable` for one that Python cannot read.
    """
    if not _has_values(column.type):
        unknown = Unreadable("KNIME does not tell Python how to read its type")
        return [unknown if present else None for present in column.is_valid().to_pylist()]
    try:
        return column.to_pylist()
    except Exception:  # a value factory of any extension may fail in any way
        return [_value(cell) for cell in column]


def _value(cell: Any) -> Any:
    try:
        return cell.as_py()
    except Exception as error:
        return Unreadable(type(error).__name__)


def _has_values(kind: Any) -> bool:
    """Returns whether KNIME has a value factory for such cells; without one it gives their stored parts."""
    import pyarrow as pa
    from knime.api.types import FallbackPythonValueFactory, get_converter

    if isinstance(kind, pa.BaseExtensionType):
        if pa.types.is_struct(kind.storage_type):
            converter = get_converter(getattr(kind, "logical_type", ""))
            return not isinstance(converter, FallbackPythonValueFactory)
        return _has_values(kind.storage_type)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return not is_list or _has_values(kind.value_type)
