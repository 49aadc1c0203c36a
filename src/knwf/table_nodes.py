"""KNIME's *Row Filter* and *Column Renamer*: makes them from their settings, and reads these again. Pure.

Written are the keys and classes of today's KNIME; comparisons of numbers are also read as older ones saved
them (``predicateValues``). A criterion that only KNIME can decide, such as one on row numbers or dates, is an
error when it is read: never a row too many or too few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .native_nodes import CELL_CLASSES, COLUMN_RENAMER_FACTORY, ROW_FILTER_FACTORY, native_node
from .settings_xml import Config, EntryType, SettingsEntry, boolean, string
from .workflow_model import ORIGIN, CanvasPosition, NativeNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .native_nodes import ColumnType

PATTERNS: Final = ("WILDCARD", "REGEX")
CONDITIONS: Final = ("IS_MISSING", "IS_NOT_MISSING", "IS_TRUE", "IS_FALSE")
"""The operators of criteria without a value."""

_OPERATORS: Final = f"{ROW_FILTER_FACTORY.rpartition('.')[0]}.operators."
_VALUES: Final[Mapping[ColumnType, tuple[str, EntryType]]] = {
    "string": ("defaults.StringWithCaseParameters", "xstring"),
    "int": ("defaults.IntParameters", "xint"),
    "long": ("defaults.LongParameters", "xlong"),
    "double": ("defaults.DoubleParameters", "xdouble"),
}
_ROW_ID: Final = "rowkey.RowKeyEqualsParameters"
_TEXT_PATTERN: Final = "pattern.PatternWithCaseParameters"
_NUMBER_PATTERN: Final = "pattern.PatternFilterParameters"
_CASE: Final = ("CASE_INSENSITIVE", "CASE_SENSITIVE")


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion of a Row Filter."""

    column: str | None  # the column; None for the RowID
    operator: str  # EQ, NEQ, NEQ_MISS, LT, LTE, GT, GTE, or one of `PATTERNS` and `CONDITIONS`
    value: str | float | None = None  # to compare with, or the pattern; None for a condition
    type: ColumnType = "string"  # of the column
    case_sensitive: bool = True


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The settings of a Row Filter node."""

    criteria: tuple[Criterion, ...]
    any: bool = False  # whether one criterion is enough; otherwise a row has to fit all of them
    keep: bool = True  # whether the rows that fit are kept; otherwise all others are


def row_filter_node(
    node_id: int, settings: RowFilter, *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    model = (
        string("matchCriteria", "OR" if settings.any else "AND"),
        Config("predicates", tuple(_criterion(str(i), own) for i, own in enumerate(settings.criteria))),
        string("domains", "RETAIN"),
        string("outputMode", "MATCHING" if settings.keep else "NON_MATCHING"),
    )
    return native_node(node_id, ROW_FILTER_FACTORY, model, position, annotation)


def _criterion(key: str, own: Criterion) -> Config:
    column = (
        string("regularChoice", own.column),
        string("specialChoice_Internals", "ROW_ID" if own.column is None else None),
    )
    cell_class = () if own.column is None else (string("cell_class", CELL_CLASSES[own.type]),)
    parts = (
        Config("columnV2", column),
        boolean("expectColumnTypePresent", value=True),
        Config("columnType", (*cell_class, boolean("is_null", value=own.column is None))),
        string("operator", own.operator),
    )
    if own.operator in CONDITIONS:
        return Config(key, parts)
    case = (string("caseSensitivity", _CASE[own.case_sensitive]),) if own.type == "string" else ()
    if own.operator in PATTERNS:
        class_name = _TEXT_PATTERN if case else _NUMBER_PATTERN
        value = string("pattern", str(own.value))
    else:
        class_name, entry_type = _VALUES[own.type]
        class_name = _ROW_ID if own.column is None else class_name
        value = SettingsEntry("value", entry_type, own.value)
    stored = (string("@class", f"{_OPERATORS}{class_name}"), value, *case)
    return Config(key, (*parts, Config("filterValueParameters", stored)))


def column_renamer_node(
    node_id: int, names: Mapping[str, str], *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    """Makes a Column Renamer; ``names`` has the new name of each column by its present one."""
    renamings = tuple(
        Config(str(place), (string("oldName", old), string("newName", new)))
        for place, (old, new) in enumerate(names.items())
    )
    model = (Config("renamings", renamings), boolean("doNotAllowPaddedColumnName", value=True))
    return native_node(node_id, COLUMN_RENAMER_FACTORY, model, position, annotation)
