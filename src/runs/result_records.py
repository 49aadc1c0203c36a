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
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self, cast

from ..client.protocol.messages import as_object
from ..client.validation.argument_schemas import items, kinds, parts_of, properties_in
from ..types.columns import ROW_ID
from ..types.errors import MCPError
from ..types.texts import compact_json, numbered, without_surrogates
from ..types.tool import MCPTool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

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
_FENCE: Final = re.compile(r"\s*```\w*\n(.*?)\n?```\s*", re.DOTALL)
_RULE: Final = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_CELL: Final = re.compile(r"(?<!\\)\|")
_LONGEST_HEADER: Final = 100
_LEAST_ROWS: Final = 2  # of CSV: with fewer, a sentence with a comma would be one

Records = list[dict[str, Any]]


def find_records(structured: Any) -> Iterator[tuple[str, Records]]:
    """Finds the lists of records in a structured result, each with its name.

    The value itself may be a list of records, with an empty name, or members of an object. SDKs wrap a list
    as ``{"result": [...]}``, whose name is empty, too.
    """
    if isinstance(structured, dict):
        members = cast("dict[str, Any]", structured)
        for name, value in members.items():
            if _are_records(value):
                yield ("" if len(members) == 1 and name == "result" else name), value
    elif _are_records(structured):
        yield "", structured


def records_of(structured: Any, text: str, *, single: bool = False) -> list[tuple[str, Records]]:
    """Finds the lists of records of a result: in its structured content, else in its text.

    ``single`` takes an object that holds no list as one record.
    """
    found = list(find_records(structured))
    if not found and isinstance(structured, dict) and set(cast("dict[str, Any]", structured)) == {"result"}:
        wrapped = cast("dict[str, Any]", structured)["result"]
        found = _in_text(wrapped, single=single) if isinstance(wrapped, str) else []
    if not found and not (single and isinstance(structured, dict)):
        found = _in_text(text, single=single)
    if not found and single and isinstance(structured, dict) and structured:
        found = [("", [cast("dict[str, Any]", structured)])]
    return found


def _are_records(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    entries = cast("list[Any]", value)
    return all(isinstance(entry, dict) for entry in entries) and any(entries)


def _in_text(text: str, *, single: bool) -> list[tuple[str, Records]]:
    fenced = _FENCE.fullmatch(text)
    content = (fenced[1] if fenced else text).strip()
    if content[:1] in ("[", "{"):
        try:
            value = json.loads(content)
        except RecursionError:
            return []
        except ValueError:
            lines = _json_lines(content)
            return [("", lines)] if lines else []
        found = list(find_records(value))
        if single and not found and as_object(value):
            return [("", [as_object(value)])]
        return found
    if "\n" not in content:
        return []
    rows = _markdown(content) or _csv(content)
    return [("", rows)] if rows else []


def _json_lines(text: str) -> Records:
    records: Records = []
    for line in text.splitlines():
        try:
            value = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            return []
        if isinstance(value, dict):
            records.append(cast("dict[str, Any]", value))
        elif value is not None:
            return []
    return records


def _markdown(text: str) -> Records:
    """The rows of the first table of a text in Markdown."""
    lines = text.splitlines()
    for place, line in enumerate(lines[1:], 1):
        if "|" in lines[place - 1] and "-" in line and _RULE.fullmatch(line):
            head = _cells(lines[place - 1])
            body: list[list[str]] = []
            for row in lines[place + 1 :]:
                if "|" not in row:
                    break
                body.append(_cells(row))
            return _typed_rows(head, body) if len(_cells(line)) == len(head) else []
    return []


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(inner)]


def _csv(text: str) -> Records:
    first = text.partition("\n")[0]
    separator = max("\t;,", key=first.count)
    if separator not in first:
        return []
    try:
        head, *body = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    except csv.Error:
        return []
    body = [row for row in body if row]
    if len(body) < _LEAST_ROWS or any(len(row) != len(head) for row in body):
        return []
    return _typed_rows([name.strip() for name in head], body)


def _typed_rows(head: list[str], body: list[list[str]]) -> Records:
    """Rows of text as records; columns of numbers or booleans have such values, if these are exact."""
    is_head = all(0 < len(name) <= _LONGEST_HEADER for name in head) and len(set(head)) == len(head)
    if not is_head or any(len(row) != len(head) for row in body):
        return []
    columns = [_typed_column([row[place] for row in body]) for place in range(len(head))]
    return [dict(zip(head, row, strict=True)) for row in zip(*columns, strict=True)]


def _typed_column(cells: list[str]) -> list[Any]:
    texts = [cell for cell in cells if cell]
    if texts and all(_WHOLE.fullmatch(text) and abs(int(text)) < _LONG for text in texts):
        return [int(cell) if cell else None for cell in cells]
    if texts and all(_WHOLE.fullmatch(text) or _FRACTION.fullmatch(text) for text in texts):
        return [float(cell) if cell else None for cell in cells]
    if texts and all(text in ("true", "false") for text in texts):
        return [cell == "true" if cell else None for cell in cells]
    return [cell or None for cell in cells]


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
            return "float" if declared == "float" and found == {"int"} else "int"
        if found <= {"int", "float"}:
            return "float"
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
            datetime.fromisoformat(text)
            return {None: "local", "Z": "moment", "+00:00": "moment"}.get(match[3], "offset")
    except ValueError:
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


def declared_columns(schema: Mapping[str, Any]) -> dict[str, str]:
    """The columns of the records that an output schema declares, with their kinds."""
    lists = [schema, *properties_in(schema, schema).values()]
    for part in lists:
        entry = items(part, schema)
        if "array" in kinds(part, schema) and (properties := properties_in(entry, schema)):
            return {name: declared_kind(inner, schema) for name, inner in properties.items()}
    return {}


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
    count: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

    def add(self, outcome: CallOutcome) -> None:
        """Takes the records of a finished call; calls without a result have none."""
        record = outcome.record
        if not record.ok:
            return
        if isinstance(outcome.tool, MCPTool):
            self._learn(outcome.tool)
        text = record.structured_result
        structured = None if text is None else json.loads(text)
        for name, entries in records_of(structured, record.result or "", single=True):
            for position, entry in enumerate(entries, 1):
                self._columns.see(entry)
                line = [record.input_row, record.tool_name, name, position, entry]
                self._spool.write(json.dumps(line) + "\n")
            self.count += len(entries)

    def _learn(self, tool: MCPTool) -> None:
        declared = tool.declared_json or ""
        if declared in self._seen:
            return
        self._seen.add(declared)
        try:
            self._columns.declare(declared_columns(as_object(tool.output_schema)))
        except MCPError:  # a cell that was written by hand
            return

    @property
    def warning(self) -> str | None:
        if not self._columns.is_full:
            return None
        return f"Records have more than {MOST_COLUMNS:,} different keys; the results have the others"

    def pieces(self) -> Iterator[pa.Table]:
        """The table in pieces of the same size, the last one smaller, with RowIDs; at least one."""
        self._spool.seek(0)
        first = 0
        while first == 0 or first < self.count:
            yield self._piece(first, [json.loads(line) for line in islice(self._spool, _PIECE)])
            first += _PIECE

    def _piece(self, first: int, lines: Sequence[list[Any]]) -> pa.Table:
        import pyarrow as pa

        row_ids = pa.array([f"Row{first + place}" for place in range(len(lines))], pa.string())
        types: tuple[pa.DataType, ...] = (pa.string(), pa.string(), pa.string(), pa.int64())
        keys = [pa.array([line[place] for line in lines], kind) for place, kind in enumerate(types)]
        columns = self._columns.columns([line[-1] for line in lines])
        names = [ROW_ID, *KEYS, *self._columns.names((ROW_ID, *KEYS))]
        return pa.table([row_ids, *keys, *columns], names=names)
