"""What the Caller says of its calls: the table *Results*, written piece by piece, and the view."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ...runs.parameter_rows import LARGE, cells_are_shared, rows_per_piece
from ...types.columns import (
    ROW_ID,
    ColumnForm,
    ColumnKind,
    arrow_type,
    cells_without_gaps,
    column_name,
    knime_columns,
    knime_type,
    write_tools,
)
from ...types.errors import ResultTooLarge
from ...types.texts import numbered, visible
from ..views.html import meaning_of, note, paragraph
from ..views.run_page import Steps, run_page, status_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import pyarrow as pa

    from ...audit.record import CallRecord
    from ...runs.call_values import CallOutcome
    from ...runs.table_run import RunSummary


ResultKind = ColumnKind | Literal["image"] | ColumnForm
ResultColumn = tuple[str, str, ResultKind]
"""Name, attribute of the record, and kind of a column; a form is that of the tool's cells."""

_OUTCOME: Final[tuple[ResultColumn, ...]] = (
    ("Result", "result", "string"),
    ("Status", "status", "string"),
    ("Error", "error", "string"),
)
RESULT_COLUMNS: Final[tuple[ResultColumn, ...]] = (
    *_OUTCOME,
    ("Structured result", "structured_result", "string"),
    ("Image", "image", "image"),
    ("Files", "files", "string"),
    ("Tool name", "tool_name", "string"),
    ("Tool type", "tool_type", "string"),
    ("Server", "server", "string"),
    ("Protocol", "protocol", "string"),
    ("Digest", "digest", "string"),
    ("Input row", "input_row", "string"),
    ("Arguments", "arguments", "string"),
    ("Started at", "moment", "moment"),
    ("Duration (s)", "duration", "double"),
    ("Attempts", "attempts", "int32"),
)
"""All columns of *Results* about a call, but for the tool, which is the last one."""
_SIGNS_OF_RESULTS: Final = frozenset({"Input row", "Structured result", "Duration (s)"})
_KEYS_OF_RECORDS: Final = ("List", "Position")  # beside *Input row* and *Tool name*, in *Records*
_RENAMED: Final = re.compile(r" \(input\)(?: #\d+)?$")


@dataclass(frozen=True, slots=True)
class ResultsLayout:
    inputs: tuple[tuple[str, str], ...]  # of the parameter table: the name there and the name in *Results*
    columns: tuple[ResultColumn, ...]  # about the calls

    def schema(self, parameters: Any | None) -> Any:
        """The `knext.Schema` that ``configure`` returns, given the parameter table's schema or None."""
        import knime.extension as knext

        renamed = dict(self.inputs)
        columns = [
            knext.Column(column.ktype, renamed[column.name])
            for column in (() if parameters is None else parameters)
        ]
        for name, _, kind in self.columns:
            match kind:
                case ColumnForm():
                    columns.append(knext.Column(knime_type(kind), name))
                case "image":
                    columns.append(knext.Column(image_type(), name))
                case _:
                    columns += knime_columns([(name, kind)])
        return knext.Schema.from_columns(columns)


def outcome_columns(columns: Collection[str]) -> frozenset[str]:
    """Finds the columns that an earlier *Results* or *Records* has about its calls; none in other tables."""
    own = {name for name, *_ in _OUTCOME}
    if not _SIGNS_OF_RESULTS.isdisjoint(columns):
        own = {*(name for name, *_ in RESULT_COLUMNS), *map(column_name, ColumnForm), *_KEYS_OF_RECORDS}
    elif not own <= {*columns}:
        return frozenset()
    return frozenset(name for name in columns if _RENAMED.sub("", name) in own)


def plan_results(
    input_columns: Iterable[str], *, all_columns: ColumnForm | None = None, images: bool = False
) -> ResultsLayout:
    """Decides on the columns, whose names are all different.

    What came of the calls always has columns; the rest of the record has some, and the tool in a form, with
    `all_columns`, which can have `images`. A column ``X`` of the parameter table whose name another column of
    *Results* has becomes ``X (input)``.
    """
    columns = _OUTCOME
    if all_columns is not None:
        columns = tuple(column for column in RESULT_COLUMNS if images or column[2] != "image")
        columns = (*columns, (column_name(all_columns), "tool", all_columns))
    # KNIME's Python side takes two columns of one name in silence, and its Java side fails.
    taken = {ROW_ID, *(name for name, *_ in columns)}
    names = list(input_columns)
    inputs: list[tuple[str, str]] = []
    for name in names:
        # Nor one that a later column of the table has.
        others = sorted(taken | set(names))
        shown = name if name not in taken else numbered([*others, f"{name} (input)"], " #{}")[-1]
        taken.add(shown)
        inputs.append((name, shown))
    return ResultsLayout(tuple(inputs), columns)


def image_type() -> Any:
    import knime.extension as knext

    try:
        return knext.logical(_pillow().Image)
    except (ImportError, TypeError):
        return None


def json_type() -> Any:
    """KNIME's type of JSON cells; None where there is none."""
    import knime.extension as knext

    try:
        return knext.logical(dict)
    except TypeError:
        return None


def json_cells(texts: list[str | None]) -> Any:
    """JSON texts as cells of KNIME's JSON type."""
    import pyarrow as pa

    arrow_type: Any = json_type().to_pyarrow()
    storage = [None if text is None else arrow_type.encode(json.loads(text)) for text in texts]
    return pa.ExtensionArray.from_storage(arrow_type, pa.array(storage, arrow_type.storage_type))


def image_cells(paths: list[str | None]) -> Any:
    """Reads saved pictures into cells, which hold them as PNG; the cell of a file that is none is missing."""
    import pyarrow as pa

    image = image_type()
    assert image is not None, "the layout has images only where there is a type for them"
    arrow_type: Any = image.to_pyarrow()
    storage: list[Any] = []
    for path in paths:
        picture = None if path is None else _picture(Path(path))
        storage.append(None if picture is None else arrow_type.encode(picture))
    return pa.ExtensionArray.from_storage(arrow_type, pa.array(storage, arrow_type.storage_type))


def _picture(path: Path) -> Any | None:
    pillow = _pillow()
    try:
        # Only these: the file is a server's, and each further format is another parser of it.
        picture = pillow.open(path, formats=["PNG", "JPEG", "GIF", "WEBP"])
        # `open` reads the head only: a broken picture shows itself here,
        # and not in KNIME's view of the table.
        picture.load()
        if picture.mode not in _MODES_OF_PNG:
            picture = picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError):
        return None
    return picture


_MODES_OF_PNG: Final = frozenset({"1", "I", "I;16", "L", "LA", "P", "RGB", "RGBA"})


def _pillow() -> Any:
    """Pillow, whose images KNIME's Python takes. It comes with KNIME and is optional elsewhere."""
    return importlib.import_module("PIL.Image")


_LARGEST: Final = 1 << 31
"""Bytes that a text column of a piece can hold at most."""


@dataclass(slots=True)
class ResultsWriter:
    """Collects finished calls and passes them on piece by piece.

    KNIME wants pieces with the same number of rows, except the last one. The first piece sets that number: as
    many rows as a usual piece has, or fewer if the rows are large.
    """

    layout: ResultsLayout
    parameters: pa.Table | None  # with its RowIDs as first column; None for a single call
    sink: Callable[[pa.Table], None]  # called with each piece
    equal: bool = True  # whether the pieces must have the same number of rows
    _rows_per_piece: int = field(init=False)
    _is_fixed: bool = field(init=False)
    _waiting: list[CallOutcome] = field(default_factory=list["CallOutcome"])
    _size: int = 0
    _written: int = 0

    def __post_init__(self) -> None:
        self._rows_per_piece = rows_per_piece(self.parameters)
        self._is_fixed = self.parameters is not None and cells_are_shared(self.parameters)

    def add(self, outcome: CallOutcome) -> None:
        """Adds the next finished call, in the order of the rows; `MCPError` if a table cannot hold them."""
        self._waiting.append(outcome)
        self._size += _size_of(outcome.record)
        # KNIME wants all batches but the last to have the same number of rows: the first one decides.
        is_large = self._size >= LARGE and not self._is_fixed
        if is_large or len(self._waiting) >= self._rows_per_piece:
            self._flush()

    def close(self) -> None:
        """Writes the remaining rows, or a table with columns only if there were no rows."""
        if self._waiting or not self._written:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        outcomes, self._waiting = self._waiting, []
        size, self._size = self._size, 0
        if size >= _LARGEST:
            raise _too_large(outcomes, size)
        columns = self._inputs(len(outcomes))
        for name, attribute, kind in self.layout.columns:
            columns[name] = _column(outcomes, attribute, kind)
        self.sink(pa.table({name: _whole(column) for name, column in columns.items()}))
        self._written += len(outcomes)
        if self.equal and not self._is_fixed:
            self._rows_per_piece, self._is_fixed = len(outcomes), True

    def _inputs(self, count: int) -> dict[str, Any]:
        """The RowIDs and the columns of the next rows of the parameter table."""
        import pyarrow as pa

        if self.parameters is None:
            return {ROW_ID: pa.array([f"Row{self._written + i}" for i in range(count)], pa.string())}
        piece = self.parameters.slice(self._written, count).combine_chunks()
        names = (ROW_ID, *(shown for _, shown in self.layout.inputs))
        return dict(zip(names, piece.columns, strict=True))


def _size_of(record: CallRecord) -> int:
    texts = (record.tool, record.arguments, record.result, record.structured_result, record.error)
    size = sum(len(text) for text in texts if text)
    try:
        return size + (Path(record.image).stat().st_size if record.image is not None else 0)
    except OSError:  # the file is missing
        return size


def _too_large(outcomes: Sequence[CallOutcome], size: int) -> ResultTooLarge:
    rows = [outcome.record.input_row for outcome in outcomes]
    return ResultTooLarge(
        f"The results of the rows {rows[0]} to {rows[-1]} have {size // 2**20:,} MiB together, which is more"
        " than KNIME can take at a time",
        limit=_LARGEST,
        fix="Call the tool with fewer rows at a time, or sort the rows so that those with the largest results"
        " come first",
    )


def _column(outcomes: Sequence[CallOutcome], attribute: str, kind: ResultKind) -> Any:
    import pyarrow as pa

    if isinstance(kind, ColumnForm):
        return write_tools(cells_without_gaps((outcome.tool for outcome in outcomes), kind), kind)
    values: list[Any] = [getattr(outcome.record, attribute) for outcome in outcomes]
    if attribute == "files":
        values = ["\n".join(files) or None for files in values]
    return image_cells(values) if kind == "image" else pa.array(values, arrow_type(kind))


def _whole(column: Any) -> Any:
    """Joins the chunks of a column, as KNIME wants all batches of a table to have the same number of rows."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def calls_page(summary: RunSummary, steps: Steps) -> str:
    """The view: what came of the calls, each with arguments, result and tool."""
    warning = visible(summary.warning() or "")
    resumed = f"{summary.resumed} of them filled in from the run before" if summary.resumed else None
    return run_page(
        "MCP Tool Caller",
        steps,
        status_counts(
            (status.value, count, meaning_of(status)) for status, count in summary.statuses.most_common()
        ),
        paragraph(resumed) if resumed else None,
        note(warning, kind="warning") if warning else None,
        more="in the table",
    )
