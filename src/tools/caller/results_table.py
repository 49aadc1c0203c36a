"""The table *Results*: its columns, planned before the first call, and its rows, written as calls finish.

The columns are known in ``configure`` and ``execute`` delivers exactly these: the columns of the parameter
table in front, then what became of each call, then the structured values that were asked for.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ...types.canonical import canonical_json, without_surrogates
from ...types.columns import column_name, knime_type, write_tools
from ...types.errors import SettingInvalid
from .pictures import image_cells, image_type
from .pieces import rows_per_piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from ...audit.dispatch import CallOutcome
    from ...types.columns import ColumnForm

ROW_ID: Final = "<RowID>"
Kind = Literal["string", "int32", "int64", "double", "boolean", "moment", "image"]
JsonKind = Literal["string", "number", "integer", "boolean", "json"]

_BEFORE_IMAGE: Final[tuple[tuple[str, Kind], ...]] = (
    ("Tool name", "string"),
    ("Tool type", "string"),
    ("Server", "string"),
    ("Digest", "string"),
    ("Input row", "string"),
    ("Arguments", "string"),
    ("Status", "string"),
    ("Result", "string"),
    ("Structured result", "string"),
    ("Error", "string"),
)
_AFTER_IMAGE: Final[tuple[tuple[str, Kind], ...]] = (
    ("Files", "string"),
    ("Started at", "moment"),
    ("Duration (s)", "double"),
    ("Attempts", "int32"),
)
_JSON_KINDS: Final[dict[str, JsonKind]] = {
    "string": "string",
    "text": "string",
    "number": "number",
    "double": "number",
    "integer": "integer",
    "boolean": "boolean",
    "json": "json",
}
_ENTRY: Final = re.compile(r"[,;\n]")


@dataclass(frozen=True, slots=True)
class StructuredColumn:
    """A top-level property of the structured result that gets a column of its own.

    Attributes:
        key: The property.
        kind: What the column holds.
        column: The column's name.
    """

    key: str
    kind: JsonKind
    column: str

    @property
    def type(self) -> Kind:
        """The column's type."""
        kinds: dict[JsonKind, Kind] = {"number": "double", "integer": "int64", "boolean": "boolean"}
        return kinds.get(self.kind, "string")


@dataclass(frozen=True, slots=True)
class ResultsLayout:
    """The columns of *Results*.

    Attributes:
        inputs: Columns of the parameter table: name there, name here.
        form: In which form tools are written.
        images: Whether there is an *Image* column.
        structured: Columns for properties of the structured result.
    """

    inputs: tuple[tuple[str, str], ...]
    form: ColumnForm
    images: bool
    structured: tuple[StructuredColumn, ...]

    @property
    def own(self) -> tuple[tuple[str, Kind], ...]:
        """Names and types of the columns that say what became of a call, without the tool."""
        image: tuple[tuple[str, Kind], ...] = (("Image", "image"),) if self.images else ()
        return (*_BEFORE_IMAGE, *image, *_AFTER_IMAGE)

    def schema(self, parameters: Any | None) -> Any:
        """Makes the spec that ``configure`` returns.

        Args:
            parameters: Spec of the parameter table, None without one.

        Returns:
            A `knext.Schema`.
        """
        import knime.extension as knext

        renamed = dict(self.inputs)
        kept = [] if parameters is None else [c for c in parameters if c.name in renamed]
        columns = [knext.Column(column.ktype, renamed[column.name]) for column in kept]
        columns.append(knext.Column(knime_type(self.form), column_name(self.form)))
        columns += [knext.Column(_ktype(kind), name) for name, kind in self.own]
        columns += [knext.Column(_ktype(entry.type), entry.column) for entry in self.structured]
        return knext.Schema.from_columns(columns)


def plan_results(
    input_columns: Iterable[str], *, form: ColumnForm, images: bool, expand: str = ""
) -> ResultsLayout:
    """Decides on the columns.

    A column of the parameter table that is named like one of ours becomes ``X (input)``.

    Args:
        input_columns: Columns of the parameter table.
        form: In which form tools are written.
        images: Whether PNG images can be written.
        expand: The setting ``expand_structured``, see `parse_expand`.

    Returns:
        The layout; all its column names are different.

    Raises:
        SettingInvalid: ``expand`` cannot be read.
    """
    bare = ResultsLayout((), form, images, ())
    taken = {column_name(form), *(name for name, _ in bare.own)}
    names = list(input_columns)
    inputs: list[tuple[str, str]] = []
    for name in names:
        shown = name if name not in taken else _free(f"{name} (input)", taken | set(names))
        taken.add(shown)
        inputs.append((name, shown))
    structured: list[StructuredColumn] = []
    for key, kind in parse_expand(expand):
        shown = key if key not in taken else _free(f"{key} (result)", taken)
        taken.add(shown)
        structured.append(StructuredColumn(key, kind, shown))
    return ResultsLayout(tuple(inputs), form, images, tuple(structured))


def parse_expand(text: str) -> list[tuple[str, JsonKind]]:
    """Reads the setting ``expand_structured``.

    Args:
        text: Property names separated by commas, semicolons or line breaks, each with its type after a
            colon if it is not text: ``city, temperature: number, tags: json``.

    Returns:
        Property and type, each property once.

    Raises:
        SettingInvalid: An unknown type.
    """
    found: dict[str, JsonKind] = {}
    for entry in _ENTRY.split(text):
        key, colon, said = (part.strip() for part in entry.rpartition(":"))
        if not colon:
            key, said = said, "string"
        kind = _JSON_KINDS.get(said.lower())
        if kind is None:
            raise SettingInvalid(
                f"'{said}' is not a type of column",
                setting="expand_structured",
                fix=f"Write one of {', '.join(_JSON_KINDS)} after the colon",
            )
        if key:
            found[key] = kind
    return list(found.items())


@dataclass(slots=True)
class ResultsWriter:
    """Collects finished calls and hands them over as tables of equal size, so that they can be written out.

    Attributes:
        layout: The columns.
        parameters: The parameter table with its RowIDs as first column, None without one.
        sink: Takes each piece.
        unfit: Structured values that did not fit their column's type.
    """

    layout: ResultsLayout
    parameters: pa.Table | None
    sink: Callable[[pa.Table], None]
    unfit: int = 0
    _rows_per_piece: int = field(init=False)
    _waiting: list[CallOutcome] = field(default_factory=list["CallOutcome"])
    _written: int = 0
    _pieces: int = 0

    def __post_init__(self) -> None:
        self._rows_per_piece = rows_per_piece(self.parameters)

    def add(self, outcome: CallOutcome) -> None:
        """Takes the next finished call, in the order of the rows.

        Args:
            outcome: The call.
        """
        self._waiting.append(outcome)
        if len(self._waiting) >= self._rows_per_piece:
            self._flush()

    def close(self) -> None:
        """Writes what is left; an empty table gets its columns, too."""
        if self._waiting or not self._pieces:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        outcomes, self._waiting = self._waiting, []
        names: list[str] = []
        columns: list[Any] = []
        if self.parameters is None:
            row_ids = pa.array([f"Row{self._written + i}" for i in range(len(outcomes))], pa.string())
        else:
            piece = self.parameters.slice(self._written, len(outcomes)).combine_chunks()
            row_ids = piece.column(0)
            for source, shown in self.layout.inputs:
                names.append(shown)
                columns.append(piece.column(source))
        names = [ROW_ID, *names, column_name(self.layout.form)]
        columns = [row_ids, *columns, write_tools([outcome.tool for outcome in outcomes], self.layout.form)]
        for name, values, kind in self._own_columns(outcomes):
            names.append(name)
            columns.append(_array(values, kind))
        self.sink(pa.table([_whole(column) for column in columns], names=names))
        self._written += len(outcomes)
        self._pieces += 1

    def _own_columns(self, outcomes: Sequence[CallOutcome]) -> Iterator[tuple[str, list[Any], Kind]]:
        records = [outcome.record for outcome in outcomes]
        values: dict[str, list[Any]] = {
            "Tool name": [record.tool_name for record in records],
            "Tool type": [record.tool_type for record in records],
            "Server": [record.server for record in records],
            "Digest": [record.digest for record in records],
            "Input row": [record.input_row for record in records],
            "Arguments": [record.arguments for record in records],
            "Status": [record.status.value for record in records],
            "Result": [record.result for record in records],
            "Structured result": [record.structured_result for record in records],
            "Error": [record.error for record in records],
            "Image": [record.image for record in records],
            "Files": ["\n".join(record.files) or None for record in records],
            "Started at": [record.moment for record in records],
            "Duration (s)": [record.duration for record in records],
            "Attempts": [record.attempts for record in records],
        }
        for name, kind in self.layout.own:
            yield name, values[name], kind
        if self.layout.structured:
            objects = [_object(record.structured_result) for record in records]
            for entry in self.layout.structured:
                yield entry.column, [self._fit(found.get(entry.key), entry) for found in objects], entry.type

    def _fit(self, value: Any, entry: StructuredColumn) -> Any:
        """Fits a JSON value into its column; what does not fit is missing, and counted."""
        match entry.kind, value:
            case _, None:
                return None
            case "json", _:
                return canonical_json(value)
            case "string", str():
                return without_surrogates(value)
            case "string", _:
                return canonical_json(value)
            case "boolean", bool():
                return value
            case "number", int() | float() if not isinstance(value, bool):
                return float(value)
            case "integer", int() if not isinstance(value, bool) and -(2**63) <= value < 2**63:
                return value
            case "integer", float() if value.is_integer() and abs(value) < 2**63:
                return int(value)
            case _:
                self.unfit += 1
                return None


def _free(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} #{number}"
    return found


def _ktype(kind: Kind) -> Any:
    import knime.extension as knext

    match kind:
        case "string":
            return knext.string()
        case "int32":
            return knext.int32()
        case "int64":
            return knext.int64()
        case "double":
            return knext.double()
        case "boolean":
            return knext.bool_()
        case "moment":
            return knext.datetime(date=True, time=True, timezone=True)
        case "image":
            return image_type()


def _array(values: list[Any], kind: Kind) -> Any:
    import pyarrow as pa

    match kind:
        case "image":
            return image_cells(values)
        case "moment":
            return pa.array(values, pa.timestamp("us", tz="UTC"))
        case "string":
            return pa.array(values, pa.string())
        case "int32":
            return pa.array(values, pa.int32())
        case "int64":
            return pa.array(values, pa.int64())
        case "double":
            return pa.array(values, pa.float64())
        case "boolean":
            return pa.array(values, pa.bool_())


def _object(text: str | None) -> dict[str, Any]:
    value = None if text is None else json.loads(text)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _whole(column: Any) -> Any:
    """One array instead of chunks: KNIME wants all batches of a table to have the same number of rows."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
