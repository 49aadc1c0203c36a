"""Lists of records in results, and their tables: for the Caller's *Records*, ``--records`` and agents' data.

Servers give tables in many forms: as structured content, as JSON text, as lines of JSON, as CSV, as a table
in Markdown. All become records here. A table of them has the union of their keys as columns, in the order in
which they appear, and a column has the type that all its values have: boolean, 64-bit integer, double, date,
moment, or else text, in which lists, objects and mixed values are JSON. No value is changed: a number that a
column could not hold exactly, or a moment with an offset, stays text.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from ..client.protocol.messages import as_list, as_object
from ..client.validation.argument_schemas import items, kinds, parts_of, properties_in
from ..types.columns import ROW_ID
from ..types.errors import MCPError
from ..types.texts import compact_json, numbered, without_surrogates
from ..types.tool import MCPTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from .call_values import CallOutcome

MOST_COLUMNS: Final = 1000
KEYS: Final = ("Input row", "Tool name", "List", "Position")
"""The columns before those of the records: which call, and where in its result."""
_PIECE: Final = 10_000
_EXACT: Final = 2**53  # every whole number up to here is exact as a double
_LONG: Final = 2**63
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|\+00:00|[+-]\d\d:\d\d)?", re.ASCII
)
_WHOLE: Final = re.compile(r"-?(0|[1-9]\d{0,18})", re.ASCII)
_FRACTION: Final = re.compile(r"-?(0|[1-9]\d{0,14})\.\d{1,15}", re.ASCII)
_WITH_COMMA: Final = re.compile(r"-?(0|[1-9]\d{0,14}|[1-9]\d{0,2}(\.\d{3}){1,4})(,\d{1,15})?", re.ASCII)
_DECIMAL_COMMA: Final = re.compile(r"-?[\d.]+,(\d{1,2}|\d{4,15})", re.ASCII)  # 1,234 may be a thousand
_THOUSAND: Final = re.compile(r"-?[1-9]\d{0,2}(\.\d{3})+", re.ASCII)
_FENCE: Final = re.compile(r"^ *```\w* *\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_JSON: Final = re.compile(r"^ *[\[{]", re.MULTILINE)
_ENCODED: Final = re.compile(r"\s*[\"\[{]")
_MOST_ENCODINGS: Final = 3
_DASHES: Final = re.compile(r":?-+:?")
_CELL: Final = re.compile(r"(?<!\\)\|")
# What converters to Markdown escape, such as markitdown. Other backslashes may be of JSON or paths.
_ESCAPED: Final = re.compile(r"\\([|_*])")
_WORD: Final = re.compile(r"[^\W\d][\w.-]*")
_INK: Final = re.compile(r"\S")
_DECODER: Final = json.JSONDecoder()
_LONGEST_HEADER: Final = 100
_DEEPEST_LIST: Final = 5  # levels of an output schema
_UNREAD: Final = "Unreadable line"
"""The column of what is no JSON among lines of JSON."""
_NAMES: Final = ("columns", "column_names", "columnNames", "fields", "headers", "header")
"""The keys under which databases give the names of a table's columns."""
_BESIDE: Final = 2
"""The most plain values of an object whose objects may hold the records."""

Records = list[dict[str, Any]]


def find_records(structured: Any) -> Iterator[tuple[str, Records]]:
    """Finds the lists of records in a structured result, each with its name.

    The value itself may be a list of records, with an empty name, or an object that holds some: those on the
    highest level that has any, such as ``data.items``, also as names of columns beside rows of values. Nobody
    looks into the objects of an object that has more plain values than a status and a count: it is a record
    itself.
    """
    value = _decoded(_unwrapped(structured))
    if records := _records_in(value):
        yield "", records
    level = [("", as_object(value))]
    while level:
        found = [(name, records) for name, inner in _members(level) if (records := _records_in(inner))]
        found = found or [table for name, entry in level for table in _named_rows(name, entry)]
        if found:
            yield from found
            return
        outer = [(name, entry) for name, entry in level if _plain_values(entry) <= _BESIDE]
        level = [(name, as_object(inner)) for name, inner in _members(outer) if as_object(inner)]


def records_of(structured: Any, text: str) -> list[tuple[str, Records]]:
    """Finds the lists of records of a result: in its structured content, else in its text."""
    value = _decoded(_unwrapped(structured))
    found = list(find_records(value))
    if not found and isinstance(value, str):
        found = _in_text(value)
    return found or _in_text(text)


def single_record(structured: Any, text: str) -> dict[str, Any]:
    """The object that a result without lists of records is; empty if it is none."""
    value = _decoded(_unwrapped(structured))
    if value == []:
        return {}
    if record := as_object(value):
        return record
    for content in _contents(value if isinstance(value, str) else text):
        with suppress(ValueError, RecursionError):
            if record := as_object(_decoded(json.loads(_json_in(content)))):
                return record
    return as_object(structured)


def _unwrapped(value: Any) -> Any:
    """A result without the ``{"result": …}`` that SDKs put around what is no object."""
    members = as_object(value)
    return members["result"] if set(members) == {"result"} else value


def _decoded(value: Any) -> Any:
    """A value that was written as JSON more than once, as frameworks do with a text that is JSON already.

    It may be the text, the only member of an object, or each entry of a list.
    """
    again: Any
    for _ in range(_MOST_ENCODINGS):
        match value:
            case str() if _ENCODED.match(value):
                again = _parsed(value)
            case [str(), *_] if all(isinstance(entry, str) and _ENCODED.match(entry) for entry in value):
                again = [_parsed(entry) for entry in value]
                again = again if all(isinstance(entry, dict) for entry in again) else None
            case {**members} if len(members) == 1 and isinstance(only := next(iter(members.values())), str):
                inner: Any = _decoded(only)
                again = cast("Any", {next(iter(members)): inner} if isinstance(inner, list) else None)
            case _:
                return value
        if again is None:
            return value
        value = again
    return value


def _parsed(text: str) -> Any:
    """The list, object or text that a JSON text is; None for another value, and for no JSON."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("Any", value) if isinstance(value, list | dict | str) else None


def _members(objects: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, Any]]:
    for name, entry in objects:
        for key, inner in entry.items():
            yield f"{name}.{key}".removeprefix("."), inner


def _gaps(entry: dict[str, Any]) -> set[str]:
    """The names of what is empty in an object, on all its levels."""
    gaps: set[str] = set()
    level = [("", entry)]
    while level:
        members = list(_members(level))
        gaps.update(name for name, inner in members if inner is None or inner == [])
        level = [(name, as_object(inner)) for name, inner in members if as_object(inner)]
    return gaps


def _plain_values(entry: Mapping[str, Any]) -> int:
    return sum(not isinstance(value, dict | list) for value in entry.values())


def _records_in(value: Any) -> Records:
    """The records of a list; none if it has other values. A null among them is a record without values."""
    entries = as_list(value)
    if not any(entries) or not all(entry is None or isinstance(entry, dict) for entry in entries):
        return []
    return [entry or {} for entry in entries]


def _named_rows(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, Records]]:
    """The rows of a table that databases give as names of columns beside lists of values."""
    names = next(
        (cast("list[Any]", entry[key]) for key in _NAMES if isinstance(entry.get(key), list)), list[Any]()
    )
    if not names or not all(isinstance(each, str) for each in names) or len(set(names)) < len(names):
        return
    for key, inner in entry.items():
        rows = as_list(inner)
        if rows and all(isinstance(row, list) and len(cast("list[Any]", row)) == len(names) for row in rows):
            yield (
                f"{name}.{key}".removeprefix("."),
                [dict(zip(names, row, strict=True)) for row in rows],
            )


def _in_text(text: str) -> list[tuple[str, Records]]:
    for content in _contents(text):
        in_json = _json_in(content)
        if found := _lists_in_json(in_json):
            return found
        if in_json != content and "\n" in content and (rows := _markdown(content) or _csv(content)):
            return [("", rows)]
    return []


def _contents(text: str) -> list[str]:
    """What a text fences, such as in Markdown, and the text, without white space around them."""
    fenced = _FENCE.search(text)
    contents = [content.strip("\ufeff \t\r\n") for content in ([fenced[1]] if fenced else []) + [text]]
    return [inner if isinstance(inner := _decoded(content), str) else content for content in contents]


def _json_in(content: str) -> str:
    """A text from its first line on that may begin JSON: words may stand before it."""
    start = _JSON.search(content)
    return content[start.start() :] if start else content if _ENCODED.match(content) else ""


def _lists_in_json(text: str) -> list[tuple[str, Records]]:
    try:
        values = _json_values(text)
    except RecursionError:
        return []
    except ValueError:
        lines = _json_lines(text)
        return [("", lines)] if lines else []
    return list(find_records(values[0] if len(values) == 1 else [_decoded(value) for value in values]))


def _json_values(text: str) -> list[Any]:
    """The values of a text that has nothing else: lines, or blocks, as servers give each entry one."""
    values: list[Any] = []
    at = 0
    while (ink := _INK.search(text, at)) is not None:
        value, at = _DECODER.raw_decode(text, ink.start())
        values.append(value)
    return values


def _json_lines(text: str) -> Records:
    """Lines of JSON as records; one that is none keeps its place, and its text. Most have to be objects."""
    lines = [line for line in text.split("\n") if line.strip()]
    records: Records = []
    for line in lines:
        try:
            records.append(as_object(json.loads(line)) or {_UNREAD: line.strip()})
        except (ValueError, RecursionError):
            records.append({_UNREAD: line.strip()})
    unread = sum(_UNREAD in record for record in records)
    return records if unread * 2 < len(records) else []


def _markdown(text: str) -> Records:
    """The rows of the first table of a text in Markdown, where a row may have fewer cells than the head."""
    lines = text.split("\n")
    for place, line in enumerate(lines[1:], 1):
        if "|" in lines[place - 1] and all(map(_DASHES.fullmatch, rule := _cells(line))):
            head = _cells(lines[place - 1])
            body: list[list[str]] = []
            for row in lines[place + 1 :]:
                if "|" not in row:
                    break
                cells = _cells(row)
                body.append(cells + [""] * (len(head) - len(cells)))
            return _typed_rows(head, body) if len(rule) == len(head) else []
    return []


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [_ESCAPED.sub(r"\1", cell.strip()) for cell in _CELL.split(inner)]


def _csv(text: str) -> Records:
    """The rows of a text in CSV. What may be sentences is none: a single line, and texts behind ", "."""
    first = text.partition("\n")[0]
    # The one that is there most often; tabs and semicolons before commas, which are decimal, too.
    separator = max("\t;,", key=first.count)
    if separator not in first:
        return []
    spaced = first.count(f"{separator} ") == first.count(separator)
    options: dict[str, Any] = {"delimiter": separator, "strict": True, "skipinitialspace": spaced}
    try:
        head, *body = csv.reader(io.StringIO(text, newline=""), **options)
    except csv.Error:
        return []
    body = [row for row in body if row]
    # Two lines with commas are as often a sentence as a table: then the head has to look like names.
    if not body or (len(body) == 1 and not all(map(_WORD.fullmatch, head))):
        return []
    rows = _typed_rows([name.strip() for name in head], body, comma=separator == ";")
    has_types = any(not isinstance(value, str | None) for row in rows for value in row.values())
    return rows if has_types or not spaced else []


def _typed_rows(head: list[str], body: list[list[str]], *, comma: bool = False) -> Records:
    """Rows of text as records; columns of numbers or booleans have such values, if these are exact.

    ``comma`` says that numbers may have a decimal comma. They have one if some cell can be nothing else;
    otherwise 1.000 may be one or a thousand, and stays text.
    """
    is_head = any(head) and all(len(name) <= _LONGEST_HEADER for name in head)
    if not is_head or any(len(row) != len(head) for row in body):
        return []
    columns: list[list[Any]] = [[row[place] for row in body] for place in range(len(head))]
    if comma and any(_DECIMAL_COMMA.fullmatch(cell) for column in columns for cell in column):
        columns = [typed_cells(_with_points(column)) for column in columns]
    else:
        columns = [
            [cell or None for cell in column]
            if comma and any(map(_THOUSAND.fullmatch, column))
            else typed_cells(column)
            for column in columns
        ]
    names = numbered(head)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _with_points(cells: list[str]) -> list[str]:
    """A column of numbers such as ``1.234,5`` as ``1234.5``; another column as it is."""
    if all(not cell or _WITH_COMMA.fullmatch(cell) for cell in cells):
        return [cell.replace(".", "").replace(",", ".") for cell in cells]
    return cells


def typed_cells(cells: list[str]) -> list[Any]:
    """Texts as numbers or booleans, if these are exact; None for an empty one."""
    texts = [cell for cell in cells if cell]
    if texts and all(_WHOLE.fullmatch(text) and abs(int(text)) < _LONG for text in texts):
        return [int(cell) if cell else None for cell in cells]
    are_numbers = all((_WHOLE.fullmatch(text) or _FRACTION.fullmatch(text)) and _fits(text) for text in texts)
    if texts and are_numbers and not _has_versions(texts):
        return [float(cell) if cell else None for cell in cells]
    if texts and all(text.lower() in ("true", "false") for text in texts):
        return [cell.lower() == "true" if cell else None for cell in cells]
    return [cell or None for cell in cells]


def _has_versions(numbers: list[str]) -> bool:
    """Whether a zero at the end says something, as in 1.10, which a number would lose.

    It says nothing where all have as many decimals, as prices do.
    """
    decimals = {len(text.partition(".")[2]) for text in numbers}
    return any("." in text and text.endswith("0") for text in numbers) and (
        len(decimals) > 1 or len(numbers) == 1
    )


def _fits(number: str) -> bool:
    """Whether a double has all digits of a number."""
    return Decimal(repr(float(number))) == Decimal(number)


@dataclass(slots=True)
class RecordColumns:
    """The columns of a table of records, learned from one record after the other."""

    _kinds: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _declared: dict[str, str] = field(default_factory=dict[str, str])
    is_full: bool = False
    """Whether there were more keys than a table can have columns; they have none."""

    def see(self, record: Mapping[str, Any]) -> None:
        for key, value in record.items():
            found = self._kinds.get(key)
            if found is None:
                # Records with ids as keys would make a column per record,
                # which KNIME and people cannot use.
                if len(self._kinds) >= MOST_COLUMNS:
                    self.is_full = True
                    continue
                found = self._kinds[key] = set()
            if value is not None:
                found.add(_kind(value))

    def declare(self, columns: Mapping[str, str]) -> None:
        """Takes columns from an output schema: kinds by name, see `declared_columns`."""
        for key, kind in islice(columns.items(), MOST_COLUMNS):
            self._kinds.setdefault(key, set())
            self._declared.setdefault(key, kind)

    def names(self, taken: Sequence[str] = ()) -> list[str]:
        """The names of the columns; KNIME requires names that are unique and not blank."""
        shown = [without_surrogates(key).strip() or "column" for key in self._kinds]
        return list(numbered([*taken, *shown])[len(taken) :])

    def columns(self, records: Sequence[Mapping[str, Any]]) -> list[pa.Array]:
        """The columns of some of the records; their types are the same for all of them."""
        return [
            typed_column([record.get(key) for record in records], self._type_of(key)) for key in self._kinds
        ]

    def _type_of(self, key: str) -> str:
        found, declared = self._kinds[key], self._declared.get(key, "")
        if not found:
            return declared if declared in ("int", "float", "bool", "date", "moment") else "text"
        if found <= {"int", "long"}:
            # Servers write 1.0 as 1. Whole numbers beyond 2**53 stay integers,
            # as a double would change them.
            return "float" if declared == "float" and found == {"int"} else "int"
        if found <= {"int", "float"}:
            return "float"
        # A server that declares moments means the instant, so their offsets may become UTC.
        if declared == "moment" and found <= {"moment", "offset"}:
            return "moment"
        if len(found) == 1 and found <= {"bool", "date", "local", "moment"}:
            return "text" if declared == "text" else next(iter(found))
        return "text"


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int" if -_EXACT <= value <= _EXACT else "long" if -_LONG <= value < _LONG else "json"
        case float():
            return "float"
        case str():
            return _kind_of_text(value)
        case _:
            return "json"


def _kind_of_text(text: str) -> str:
    try:
        if _DATE.fullmatch(text):
            date.fromisoformat(text)
            return "date"
        if match := _TIME.fullmatch(text):
            moment = datetime.fromisoformat(text)
            kind = {None: "local", "Z": "moment", "+00:00": "moment"}.get(match[3], "offset")
            if kind == "offset":
                moment.astimezone(UTC)  # raises if that is before the first year, or after the last one
            return kind
    except (ValueError, OverflowError):
        pass
    return "text"


def typed_column(values: list[Any], kind: str) -> pa.Array:
    """A column of values that fit its kind: bool, int, float, date, local, moment, or else text."""
    import pyarrow as pa

    match kind:
        case "bool":
            return pa.array(values, pa.bool_())
        case "int":
            return pa.array(values, pa.int64())
        case "float":
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        case "date":
            dates = [None if value is None else date.fromisoformat(value) for value in values]
            return pa.array(dates, pa.date32())
        case "local":
            moments = [None if value is None else datetime.fromisoformat(value) for value in values]
            return pa.array(moments, pa.timestamp("us"))
        case "moment":
            moments = [None if value is None else datetime.fromisoformat(value) for value in values]
            in_utc = [None if moment is None else moment.astimezone(UTC) for moment in moments]
            return pa.array(in_utc, pa.timestamp("us", tz="UTC"))
        case _:
            # More than half a gigabyte exceeds what Arrow's string type can address.
            is_long = sum(len(value) for value in values if isinstance(value, str)) > 2**29
            return pa.array([_text(value) for value in values], pa.large_string() if is_long else pa.string())


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return without_surrogates(value)
    try:
        return compact_json(value)
    except ValueError:  # Python reads 1e999 as infinity, which `compact_json` refuses
        return without_surrogates(json.dumps(value, ensure_ascii=False))


def records_table(records: Sequence[dict[str, Any]]) -> pa.Table | None:
    """Makes a table of records; None for records with more than 1,000 different keys."""
    import pyarrow as pa

    columns = RecordColumns()
    for record in records:
        columns.see(record)
    return None if columns.is_full else pa.table(columns.columns(records), names=columns.names())


def declared_columns(schema: Mapping[str, Any]) -> tuple[dict[str, str], str | None]:
    """The columns that an output schema declares, with their kinds, and the name of the list that has them.

    The name is None where the result itself has them.
    """
    level: list[tuple[str, Any]] = [("", schema)]
    for _ in range(_DEEPEST_LIST):
        for name, part in level:
            entry = items(part, schema)
            if "array" in kinds(part, schema) and (properties := properties_in(entry, schema)):
                return {key: declared_kind(inner, schema) for key, inner in properties.items()}, name
        found = ((name, properties_in(part, schema)) for name, part in level)
        level = list(islice(_members(found), MOST_COLUMNS))
    properties = properties_in(schema, schema)
    return {name: declared_kind(inner, schema) for name, inner in properties.items()}, None


def declared_kind(schema: Any, root: Mapping[str, Any]) -> str:
    """The kind of column for what a schema declares; empty if the values decide."""
    types = set(kinds(schema, root) - {"null"})
    formats = {part.get("format") for part in parts_of(schema, root)}
    if types == {"string"}:
        return "date" if "date" in formats else "moment" if "date-time" in formats else ""
    if types == {"integer", "number"}:
        return "float"
    names = {"boolean": "bool", "integer": "int", "number": "float"}
    return names.get(next(iter(types)), "") if len(types) == 1 else ""


@dataclass(slots=True)
class RecordsCollector:
    """The records of a run's results, on disk until all are known, as only then their columns have types.

    Memory stays flat: the records of one call at a time, and later of one piece, are in it.
    """

    _columns: RecordColumns = field(default_factory=RecordColumns)
    _seen: set[str] = field(default_factory=set[str])  # output schemas
    _spool: Any = field(default_factory=partial(tempfile.TemporaryFile, "w+", encoding="utf-8"))
    _lists: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The names of the lists in a tool's results, as declared and as seen."""
    _objects: dict[str, Mapping[str, str]] = field(default_factory=dict[str, "Mapping[str, str]"])
    """The columns that tools declare whose results are one object."""
    _has_objects: bool = False

    def close(self) -> None:
        self._spool.close()

    def add(self, outcome: CallOutcome) -> None:
        """Takes the records of a finished call; calls without a result have none."""
        record = outcome.record
        if not record.ok:
            return
        tool, text = record.tool_name or "", record.result or ""
        if isinstance(outcome.tool, MCPTool):
            self._learn(tool, outcome.tool)
        structured = None if record.structured_result is None else json.loads(record.structured_result)
        found = records_of(structured, text)
        for name, entries in found:
            self._lists.setdefault(tool, set()).add(name)
            for position, entry in enumerate(entries, 1):
                self._columns.see(entry)
                self._keep(record.input_row, tool, name, position, entry)
        if not found and (entry := single_record(structured, text)):
            self._has_objects = True
            self._keep(record.input_row, tool, None, 1, entry)

    def _keep(self, *line: Any) -> None:
        self._spool.write(json.dumps(line) + "\n")

    def _learn(self, tool: str, definition: MCPTool) -> None:
        declared = definition.declared_json or ""
        if declared in self._seen:
            return
        self._seen.add(declared)
        try:
            columns, of_list = declared_columns(as_object(definition.output_schema))
        except MCPError:  # a cell that was written by hand
            return
        if of_list is None:
            self._objects[tool] = columns
        else:
            self._columns.declare(columns)
            self._lists.setdefault(tool, set()).add(of_list)

    def _lines(self) -> Iterator[list[Any]]:
        """What is kept, without objects that hold an empty list where the tool's records would be."""
        self._spool.seek(0)
        for text in self._spool:
            line = json.loads(text)
            _, tool, name, _, entry = line
            if name is not None or self._lists.get(tool, set()).isdisjoint(_gaps(entry)):
                yield line

    @property
    def warning(self) -> str | None:
        if not self._columns.is_full:
            return None
        return f"Records have more than {MOST_COLUMNS:,} different keys; the results have the others"

    def pieces(self) -> Iterator[pa.Table]:
        """The table in pieces of the same size, the last one smaller, with RowIDs; at least one."""
        for tool, columns in self._objects.items():
            if tool not in self._lists:
                self._columns.declare(columns)
        for _, _, name, _, entry in self._lines() if self._has_objects else ():
            if name is None:
                self._columns.see(entry)
        kept = self._lines()
        first = 0
        while (piece := list(islice(kept, _PIECE))) or not first:
            yield self._piece(first, piece)
            first += _PIECE

    def _piece(self, first: int, lines: Sequence[list[Any]]) -> pa.Table:
        import pyarrow as pa

        row_ids = pa.array([f"Row{first + place}" for place in range(len(lines))], pa.string())
        types: tuple[pa.DataType, ...] = (pa.string(), pa.string(), pa.string(), pa.int64())
        keys = [pa.array([line[place] for line in lines], kind) for place, kind in enumerate(types)]
        columns = self._columns.columns([line[-1] for line in lines])
        names = [ROW_ID, *KEYS, *self._columns.names((ROW_ID, *KEYS))]
        return pa.table([row_ids, *keys, *columns], names=names)
