"""The table *Tool calls*: its columns, and conversion of records to such tables and files and back.

Tables may have been processed by other programs. Reading accepts rows in any order, additional columns, texts
that became numbers or numbers that became texts, times in another zone, JSON with another layout, and missing
columns. A call can be repeated as long as it has *Tool name* and *Arguments*.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import count, islice
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, cast
from zoneinfo import ZoneInfo

from ..types.columns import ROW_ID, ColumnForm, arrow_type, cells_without_gaps, column_name, write_tools
from ..types.errors import ToolFormatError
from ..types.texts import canonical_json, compact_json, named_once
from ..types.tool import from_json_text, to_json_text
from .journal import SUFFIX
from .journal_lines import JournalError
from .journal_reading import JournalReading
from .record import FIELDS, CallRecord, CallStatus, Link, link_of, moment_of, utc_text
from .table_formats import TableError, TableWriter, is_device, read_table_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from ..types.columns import ColumnKind
    from ..types.tool import Tool
    from .record import FieldKind

COLUMNS: Final[tuple[tuple[str, str, ColumnKind], ...]] = tuple(
    (field.column, field.name, field.column_kind)
    for field in FIELDS.values()
    if field.column is not None and field.kind != "tool"
)
"""Name, field of the record, and kind of each column after the tool's."""

TOOL_COLUMNS: Final = ("Tool", "Tool (JSON)")
"""Names of the tool's column, which is the first one: with tool cells, and with JSON text."""

_NUMBER: Final = "\ue000"  # of the private use area, so that JSON does not escape it
_ESCAPED_NUMBER: Final = "\\ue000"
_NUMBERS: Final = re.compile(f'"{_NUMBER}([0-9]+){_NUMBER}"')

_FIELD: Final = re.compile("[^0-9a-z]+")
_NUMERAL: Final = re.compile(r"\s*[-+]?[0-9]*[.,]?[0-9]+(?:[eE][-+]?[0-9]+)?\s*", re.ASCII)

_PIECE: Final = 4_096

_NEEDED: Final = ("Tool name", "Arguments")


def calls_table(records: Iterable[CallRecord], *, form: ColumnForm = ColumnForm.PORTABLE) -> pa.Table:
    """The table of some records: the tool's column, as text by default, then `COLUMNS`; no RowIDs."""
    import pyarrow as pa

    rows = list(records)
    if form is ColumnForm.PORTABLE:
        tools: Any = pa.array([row.tool for row in rows], pa.string())
    else:
        found = (None if row.tool is None else tool_of(row.tool) for row in rows)
        tools = write_tools(cells_without_gaps(found, form), form)
    columns: dict[str, Any] = {column_name(form): tools}
    for column, attribute, kind in COLUMNS:
        values = [getattr(row, attribute) for row in rows]
        if kind == "moment":
            values = map(moment_of, values)
        columns[column] = pa.array(values, arrow_type(kind))
    return pa.table(columns)


def write_calls(records: Iterable[CallRecord], file: Path, *, raw_csv: bool = False) -> int:
    """Writes records as a table into a file, a piece at a time; returns how many there are.

    The file's ending is the format, see `table_formats.FORMATS`.
    """
    count, left = 0, iter(records)
    with TableWriter(file, raw_csv=raw_csv) as writer:
        while piece := list(islice(left, _PIECE)):
            writer.write(calls_table(piece))
            count += len(piece)
        # Without rows the file would not exist; with its columns it says that there was no call.
        if not count:
            writer.write(calls_table(()))
    return count


def journal_calls(journal: Path) -> Iterator[CallRecord]:
    """The calls of a journal in the order of the file, one at a time."""
    return (record for _, record in JournalReading(journal))


def read_calls(file: Path) -> list[CallRecord]:
    """Reads records from a journal, or from a table in a file, in the order of the file."""
    if is_journal(file):
        return list(journal_calls(file))
    read = read_table_file(file)
    return records_of(read.table, numbers=read.numbers)


def ordered_calls(file: Path) -> Iterable[CallRecord]:
    """The records of a journal, one at a time, or of a table, sorted: in the order in which calls ended."""
    if is_journal(file):
        return journal_calls(file)
    return sorted(read_calls(file), key=lambda record: (record.run, record.call))


def is_journal(file: Path) -> bool:
    """Whether a file of records is a journal, not a table: JSON Lines may be either."""
    if file.is_dir():
        newest = max(file.glob(f"*{SUFFIX}"), default=None)  # by the time in their names
        raise JournalError(
            f"{file} is a folder, and not a file of records"
            + (f": name one of its files, such as {newest}" if newest else ", and has no journal in it")
        )
    if re.fullmatch(rf"(?i:.+\{SUFFIX})\.[0-9]+", file.name):
        raise JournalError(f"{file.name} is a part of the journal {file.stem}: name that file")
    if file.suffix.lower() != SUFFIX or is_device(file):
        return file.suffix.lower() == SUFFIX
    with file.open("rb") as stream:
        try:
            row = json.loads(stream.readline())
        except (ValueError, RecursionError):
            return True
    return not (isinstance(row, dict) and set(_NEEDED) <= row.keys())


def records_of(
    table: pa.Table,
    tools: Sequence[Tool | None] | None = None,
    *,
    needed: Sequence[str] = _NEEDED,
    numbers: Iterable[int] | None = None,
) -> list[CallRecord]:
    """Reads records from a table *Tool calls*, one per row; ``tools`` are those of the rows, if already read.

    Errors name rows by their ``numbers``, which are 1, 2, 3 if not given. Columns may be missing, but for the
    ``needed`` ones. Without *Run* the records belong to no run; without *Status* a call with an *Error* is a
    tool error and every other call is ok.
    """
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        raise TableError(f"The table has no column {' and no column '.join(missing)}: it holds no calls")
    return [
        _record(values, f"row {row}")
        for row, values in zip(count(1) if numbers is None else numbers, _rows(table, tools), strict=False)
    ]


def links_of(table: pa.Table, tools: Sequence[Tool | None] | None = None) -> Iterator[Link]:
    """Reads the chain from a table *Tool calls*, one link per row; arguments as for `records_of`."""
    for row, values in enumerate(_rows(table, tools), start=1):
        yield link_of(values, f"row {row}")


def lost_columns(table: pa.Table) -> list[str]:
    """Names of missing columns without which a chain cannot be verified."""
    names = set(table.column_names)
    tool = [] if names.intersection(TOOL_COLUMNS) else [TOOL_COLUMNS[0]]
    return tool + [name for name, *_ in COLUMNS if name not in names]


def strange_columns(table: pa.Table) -> list[str]:
    """Names of columns that no record has, and so no hash covers."""
    known = {ROW_ID, _tool_column(table), *(name for name, *_ in COLUMNS)}
    return [name for name in table.column_names if name not in known]


def strange_values(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The values of each row in these columns, by the names that a newer version's record would give them."""
    names = strange_columns(table)
    keys = [_FIELD.sub("_", name.partition("(")[0].strip().lower()) for name in names]
    columns = [table.column(name).to_pylist() for name in names]
    for row in range(table.num_rows):
        yield dict(zip(keys, (column[row] for column in columns), strict=True))


def laid_out_anew(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Undoes changes that programs make to JSON in cells: other spaces, another order of keys.

    Text that is not JSON stays unchanged. A structured result is in the server's order, or, in records of
    earlier versions, in that of canonical JSON.
    """
    sorted_ = {
        name: _without_spaces(text) if FIELDS[name].kind in ("tool", "json") else text
        for name, text in texts.items()
    }
    yield sorted_
    if "structured_result" in texts:
        yield {**sorted_, "structured_result": _without_spaces(texts["structured_result"], in_order=False)}


def _rows(table: pa.Table, tools: Sequence[Tool | None] | None) -> Iterator[dict[str, Any]]:
    """Yields each row's values by attribute name, as texts that a chain can hash; None for missing values."""
    columns: list[tuple[str, list[Any]]] = [("tool", _tool_texts(table, tools))]
    for column, attribute, _ in COLUMNS:
        if column in table.column_names:
            cells = table.column(column).to_pylist()
            columns.append((attribute, [_text(cell, FIELDS[attribute].kind) for cell in cells]))
    names = [name for name, _ in columns]
    for row in zip(*(cells for _, cells in columns), strict=True):
        yield dict(zip(names, row, strict=True))


def _tool_column(table: pa.Table) -> str | None:
    return next((name for name in TOOL_COLUMNS if name in table.column_names), None)


def _tool_texts(table: pa.Table, tools: Sequence[Tool | None] | None) -> list[str | None]:
    import pyarrow as pa

    from ..types.arrow import decode_tools

    name = _tool_column(table)
    if tools is not None:
        return [None if tool is None else to_json_text(tool) for tool in tools]
    if name is None:
        return [None] * table.num_rows
    texts: list[str | None] = []
    for chunk in table.column(name).chunks:
        cells: Any = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
        if pa.types.is_struct(cells.type):
            try:
                texts += [None if tool is None else to_json_text(tool) for tool in decode_tools(cells)]
            except ToolFormatError as error:
                raise TableError(f"The column {name} cannot be read: {error}") from None
        else:
            texts += [_text(cell, "tool") for cell in cells.to_pylist()]
    return texts


def _text(cell: Any, kind: FieldKind) -> str | None:
    """The text of a cell; a value that is not of its kind stays unchanged, and then has another hash."""
    # An empty text is no number and no time: CSV files have it for a missing one.
    if cell is None or (cell == "" and kind in ("count", "seconds", "moment")):
        return None
    # Python reads digits of all scripts, and 1_0 for ten.
    if kind in ("count", "seconds") and isinstance(cell, str) and not _NUMERAL.fullmatch(cell):
        return cell
    try:
        match kind:
            # Programs that know one kind of numbers write 5.0.
            case "count" if float(cell).is_integer():
                return str(int(float(cell)))
            case "count":
                return str(cell)
            case "seconds":
                # Spreadsheets write a decimal comma in many languages.
                return f"{float(str(cell).replace(',', '.')):.6f}"
            case "moment":
                return _moment(cell)
            case _:
                return _string(cell)
    except (ValueError, TypeError, OverflowError):
        return str(cell)


def _string(cell: Any) -> str:
    match cell:
        case dict() | list():  # a JSON cell of KNIME
            return compact_json(cast("Any", cell))
        case date():
            return cell.isoformat()
        case _:
            return str(cell)


def _moment(cell: Any) -> str:
    if isinstance(cell, datetime):
        moment = cell
    else:
        text, bracket, zone = str(cell).strip().partition("[")
        moment = datetime.fromisoformat(text.strip())
        if bracket and not _is_zone_of(moment, zone):
            raise ValueError("what stands behind the time is not its zone")
    return utc_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _is_zone_of(moment: datetime, rest: str) -> bool:
    """Whether what Java appends to a time is its zone, and nothing else: 2026-01-31T12:00Z[UTC]."""
    zone, end, behind = rest.partition("]")
    if not end or behind or moment.tzinfo is None:
        return False
    if zone in ("UTC", "GMT"):  # where Python has no list of zones
        return not moment.utcoffset()
    try:
        return moment.astimezone(ZoneInfo(zone)).utcoffset() == moment.utcoffset()
    except (KeyError, ValueError, OSError):  # there is no such zone
        return False


def _record(values: Mapping[str, Any], place: str) -> CallRecord:
    attributes: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    attributes.setdefault("run", "")
    # A call can be repeated also from a table that has lost this column.
    attributes.setdefault("status", "tool error" if attributes.get("error") else "ok")
    for column, attribute, _ in COLUMNS:
        if attribute not in attributes:
            continue
        text = attributes[attribute]
        try:
            match FIELDS[attribute].kind:
                case "count":
                    attributes[attribute] = int(text)
                    if not 0 <= attributes[attribute] < 1 << 31:
                        raise ValueError
                case "seconds":
                    number = float(text)
                    attributes[attribute] = number if isfinite(number) else None  # NaN is missing
                case "moment":
                    datetime.fromisoformat(text)
                case "status":
                    attributes[attribute] = CallStatus(text)
                case _:
                    pass
        except ValueError:
            raise TableError(
                f"The column {column} cannot be read in {place}: {text!r}. Correct it, or remove the column"
            ) from None
    return CallRecord(**attributes)


@lru_cache(maxsize=256)
def tool_of(text: str) -> Tool:
    """Reads a tool in portable form; equal texts return the same object."""
    return from_json_text(text)


@lru_cache(maxsize=256)
def _without_spaces(text: str, *, in_order: bool = True) -> str:
    """JSON text without other spaces, keys sorted with `in_order`; numbers stay as they are written."""
    numbers: list[str] = []
    write = canonical_json if in_order else compact_json

    def kept(number: str) -> str:
        numbers.append(number)
        return f"{_NUMBER}{len(numbers) - 1}{_NUMBER}"

    try:
        # The mark could not be told from those below.
        if _NUMBER in text or _ESCAPED_NUMBER in text.lower():
            return text
        value = json.loads(
            text,
            parse_float=kept,
            parse_int=kept,
            parse_constant=kept,
            object_pairs_hook=named_once,
        )
        return _NUMBERS.sub(lambda found: numbers[int(found[1])], write(value))
    except (ValueError, RecursionError):
        return text
