"""KNIME's *Row Filter* and *Column Renamer*: makes them from their settings, and reads these again. Pure.

Written are the keys and classes of today's KNIME; comparisons of numbers are also read as older ones saved
them (``predicateValues``). A criterion that only KNIME can decide, such as one on row numbers or dates, is an
error when it is read: never a row too many or too few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .native_nodes import CELL_CLASSES, COLUMN_RENAMER_FACTORY, ROW_FILTER_FACTORY, native_node
from .settings_xml import Config, EntryType, KnwfError, SettingsEntry, boolean, string
from .workflow_model import ORIGIN, CanvasPosition, NativeNode, model_of, node_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .native_nodes import ColumnType

COMPARISONS: Final = ("EQ", "NEQ", "NEQ_MISS", "LT", "LTE", "GT", "GTE")
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
_COMPARED: Final = frozenset({_ROW_ID, *(name for name, _ in _VALUES.values())})
_TEXT_PATTERN: Final = "pattern.PatternWithCaseParameters"
_NUMBER_PATTERN: Final = "pattern.PatternFilterParameters"
_NO_COLUMNS: Final = ("<row-keys>", "<row-numbers>")  # what older versions saved for RowID and row number
_CASE: Final = ("CASE_INSENSITIVE", "CASE_SENSITIVE")


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion of a Row Filter."""

    column: str | None  # the column; None for the RowID
    operator: str  # one of `COMPARISONS`, `PATTERNS` and `CONDITIONS`
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


def read_row_filter(node: NativeNode) -> RowFilter:
    """Reads the settings of a Row Filter node; KnwfError for others, and for what only KNIME decides."""
    model = model_of(node, ROW_FILTER_FACTORY, "Row Filter node")
    stored = model.config("predicates") or Config("predicates")
    if not stored.children:
        raise KnwfError(f"{node_label(node)} has no criterion")
    return RowFilter(
        tuple(_read_criterion(node, own) for own in stored.configs()),
        any=model.text("matchCriteria") == "OR",
        keep=model.text("outputMode") != "NON_MATCHING",
    )


def _older(stored: Config) -> Criterion | None:
    """A comparison with a number, as older versions of KNIME saved it; None for all others."""
    values = (stored.config("predicateValues") or stored).config("values")
    given = None if values is None else values.config("0")
    chosen = stored.config("columnV2") or stored.config("column") or stored
    column, operator = chosen.text("regularChoice") or chosen.text("selected"), stored.text("operator")
    if given is None or operator not in COMPARISONS or not column or column in _NO_COLUMNS:
        return None
    cell_class = (given.config("typeIdentifier") or given).text("cell_class")
    kinds: list[ColumnType] = [kind for kind in _VALUES if CELL_CLASSES[kind] == cell_class]
    value = given.value("value")
    if not kinds or kinds == ["string"] or value is None:
        return None
    return Criterion(column, operator, value, kinds[0])


def _read_criterion(node: NativeNode, stored: Config) -> Criterion:
    if (older := _older(stored)) is not None:
        return older
    chosen, operator = stored.config("columnV2") or stored, stored.text("operator")
    column, special = chosen.value("regularChoice"), chosen.text("specialChoice_Internals")
    name = column if isinstance(column, str) else None
    parameters = stored.config("filterValueParameters") or Config("filterValueParameters")
    class_name = parameters.text("@class").removeprefix(_OPERATORS)
    value = parameters.value("pattern" if operator in PATTERNS else "value")
    known = {_TEXT_PATTERN, _NUMBER_PATTERN} if operator in PATTERNS else _COMPARED
    compares = operator in (*COMPARISONS, *PATTERNS) and class_name in known and value is not None
    if (name is None and special != "ROW_ID") or not (compares or operator in CONDITIONS):
        what = f"'{operator}' on {name or special or 'no column'}, {class_name or 'without a value'}"
        raise KnwfError(f"{node_label(node)} has a criterion that only KNIME decides: {what}")
    if operator in CONDITIONS:
        return Criterion(name, operator)
    kinds: dict[str, ColumnType] = {own: kind for kind, (own, _) in _VALUES.items()}
    kind = kinds.get(class_name, "long" if class_name == _NUMBER_PATTERN else "string")
    sensitive = parameters.text("caseSensitivity", _CASE[True]) == _CASE[True]
    return Criterion(name, operator, value, kind, sensitive)


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


def read_column_renamer(node: NativeNode) -> dict[str, str]:
    """Reads the new names of a Column Renamer by the present ones; KnwfError where KNIME refuses them."""
    model = model_of(node, COLUMN_RENAMER_FACTORY, "Column Renamer node")
    stored = (model.config("renamings") or Config("renamings")).configs()
    names = {own.text("oldName"): own.text("newName") for own in stored}
    if len(names) < len(stored) or len(set(names.values())) < len(stored):
        raise KnwfError(f"{node_label(node)} renames one column twice, or two columns to one name")
    if any(not name.strip() for name in names.values()):
        raise KnwfError(f"{node_label(node)} has a new name that is blank")
    return names
