"""KNIME's Table Creator node: makes one from columns of constants, and reads its columns. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from .nodes import KNIME_VENDOR
from .settings import (
    Config,
    KnwfError,
    Scalar,
    array,
    array_values,
    boolean,
    integer,
    string,
)
from .workflow import ORIGIN, NativeNode, Position, node_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

TABLE_CREATOR_FACTORY: Final = "org.knime.base.node.io.tablecreator.TableCreator2NodeFactory"
_BASE_BUNDLE: Final = ("KNIME Base Nodes", "org.knime.base", KNIME_VENDOR)

ColumnType = Literal["string", "int", "long", "double", "boolean"]
_CELL_CLASSES: Final[Mapping[ColumnType, str]] = {
    "string": "org.knime.core.data.def.StringCell",
    "int": "org.knime.core.data.def.IntCell",
    "long": "org.knime.core.data.def.LongCell",
    "double": "org.knime.core.data.def.DoubleCell",
    "boolean": "org.knime.core.data.def.BooleanCell",
}
_COLUMN_TYPES: Final[Mapping[str, ColumnType]] = {
    cell_class: name for name, cell_class in _CELL_CLASSES.items()
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a Table Creator: its name, type and cells, None for a missing cell."""

    name: str
    type: ColumnType
    cells: tuple[str | int | float | bool | None, ...]


def table_creator(
    node_id: int, columns: Sequence[Column], *, position: Position = ORIGIN, annotation: str = ""
) -> NativeNode:
    """Makes a Table Creator: a table of constants with the RowIDs Row0, Row1, ….

    An empty text becomes a missing cell, as the node cannot tell them apart.

    Raises:
        KnwfError: Two columns have one name, columns have different lengths, or a cell has another type than
            its column.
    """
    _check_names([column.name for column in columns])
    if len({len(column.cells) for column in columns}) > 1:
        raise KnwfError("the columns of a Table Creator must all have the same number of cells")
    cells = [
        (row, index, _cell_text(column, cell))
        for row in range(len(columns[0].cells) if columns else 0)
        for index, column in enumerate(columns)
        for cell in [column.cells[row]]
    ]
    model = (
        array("rowIndices", "xint", (row for row, _, _ in cells)),
        array("columnIndices", "xint", (index for _, index, _ in cells)),
        array("values", "xstring", (text for _, _, text in cells)),
        string("rowIdPrefix", "Row"),
        string("rowIdSuffix", ""),
        integer("rowIdStartValue", 0),
        boolean("highlightOutputTable", value=False),
        Config("columnProperties", tuple(_column(str(i), column) for i, column in enumerate(columns))),
    )
    return NativeNode(
        id=node_id,
        name="Table Creator",
        factory=TABLE_CREATOR_FACTORY,
        model=Config("model", model),
        inputs=0,
        outputs=1,
        position=position,
        annotation=annotation,
        bundle=_BASE_BUNDLE,
    )


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise KnwfError(f"a Table Creator cannot have two columns of one name; it has: {', '.join(names)}")
    if "" in names:
        raise KnwfError("a Table Creator cannot have a column without a name")


def _column(key: str, column: Column) -> Config:
    cell_class = (string("cell_class", _CELL_CLASSES[column.type]), boolean("is_null", value=False))
    return Config(
        key,
        (
            boolean("UserSetValues", value=True),
            string("MissValuePattern", ""),
            string("FormatParameter", None),
            boolean("ReadPossValsFromFile", value=False),
            boolean("SkipThisColumn", value=False),
            string("ColumnName", column.name),
            Config("ColumnClass", cell_class),
        ),
    )


_NUMBERS: Final = ("int", "long", "double")


def _cell_text(column: Column, cell: str | float | None) -> str:
    match cell:
        case None:
            return ""
        case bool() if column.type == "boolean":
            return "true" if cell else "false"
        case int() if column.type in _NUMBERS and not isinstance(cell, bool):
            return str(cell)
        case float() if column.type == "double":
            return repr(cell)
        case str() if column.type == "string":
            return cell
        case _:
            raise KnwfError(f"column {column.name!r} holds {cell!r}, which is no {column.type}")


def created_columns(node: NativeNode) -> tuple[Column, ...]:
    """Reads the columns of the table that a Table Creator makes.

    Raises:
        KnwfError: The node is of another kind, or its settings are broken or hold an unsupported type.
    """
    model = node.model
    if node.factory != TABLE_CREATOR_FACTORY or model is None:
        raise KnwfError(f"{node_label(node)} is no Table Creator with settings")
    properties = model.config("columnProperties") or Config("columnProperties")
    rows, indices = (
        _elements(model, key, _is_index, "whole numbers from 0 on") for key in ("rowIndices", "columnIndices")
    )
    texts = _elements(model, "values", _is_text, "texts")
    if not len(rows) == len(indices) == len(texts):
        raise KnwfError(f"{node_label(node)} has not as many cells as places for them")
    cells = dict(zip(zip(rows, indices, strict=True), texts, strict=True))
    height = max((row for row, _ in cells), default=-1) + 1
    if height > len(texts) * 1000:
        raise KnwfError(f"{node_label(node)} has a cell in row {height - 1}, but hardly any cells")
    columns: list[Column] = []
    for column in sorted(properties.configs(), key=lambda config: config.key.zfill(9)):
        if column.value("SkipThisColumn") is True:
            continue
        cell_class = (column.config("ColumnClass") or column).text("cell_class")
        if cell_class not in _COLUMN_TYPES or not column.key.isdecimal():
            what = f"column {column.text('ColumnName')!r} holds {cell_class or 'no cells'}"
            raise KnwfError(f"{node_label(node)}: {what}, which cannot be read")
        values = (cells.get((row, int(column.key)), "") for row in range(height))
        columns.append(_read_column(node, column, _COLUMN_TYPES[cell_class], values))
    _check_names([column.name for column in columns])
    return tuple(columns)


def _read_column(node: NativeNode, column: Config, kind: ColumnType, texts: Iterable[str]) -> Column:
    name, missing = column.text("ColumnName"), column.text("MissValuePattern")
    try:
        cells = tuple(None if text in ("", missing) else _cell(kind, text) for text in texts)
    except ValueError as error:
        raise KnwfError(f"{node_label(node)}: column {name!r}: {error}") from None
    return Column(name, kind, cells)


def _cell(kind: ColumnType, text: str) -> str | int | float | bool:
    match kind:
        case "string":
            return text
        case "int" | "long":
            return int(text)
        case "double":
            return float(text)
        case "boolean":
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{text!r} is neither true nor false")
            return text.lower() == "true"


def _elements(model: Config, key: str, is_valid: Callable[[Scalar], bool], expected: str) -> list[Any]:
    stored = model.config(key)
    values = [] if stored is None else array_values(stored)
    if not all(map(is_valid, values)):
        raise KnwfError(f"the Table Creator's {key} are no {expected}")
    return values


def _is_index(value: Scalar) -> bool:
    return isinstance(value, int) and value >= 0


def _is_text(value: Scalar) -> bool:
    return isinstance(value, str)
