"""The data of an agent's run: input tables and data that tools produced, each with an id for models.

As in KNIME's agents the ids are ``0``, ``1``, …; data are never removed, and the last tables are the node's
outputs. Lists of records in a server's structured result become tables, too.
"""

from __future__ import annotations

import base64
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...types.errors import ArgumentsInvalid
from ...types.texts import compact_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


TABLE: Final = "Table"
_MOST_COLUMNS_SHOWN: Final = 100
_MOST_IDS_SHOWN: Final = 20
_PREFIX: Final = "# Data repository\nData that tools can take, by id. Tools may add more.\n"
_NO_DATA: Final = "No data available. Use a tool to produce data."
_LISTED: Final = re.compile(r'^\{"id":"(\d{1,6})","name":', re.MULTILINE)  # a line of `DataRegistry.describe`
_CUT_RESULT: Final = re.compile(r"This is result r(\d{1,6}):")  # see `LargeResults.cut`


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DataItem:
    """A table, or bytes whose `type` is their media type; name and description are for models."""

    id: str
    name: str
    description: str
    type: str
    data: Any


class DataRegistry:
    """The data of one run; the input tables get the first ids. Safe to use from several threads.

    ``to_table`` turns an Arrow table into a table of the host; None leaves it unchanged. ``first`` is
    the first id: no id means two things in one
    conversation, see `next_ids`.
    """

    def __init__(
        self,
        inputs: Iterable[Any] = (),
        *,
        to_table: Callable[[pa.Table], Any] | None = None,
        first: int = 0,
    ) -> None:
        self._first = first
        self._lock = threading.Lock()
        self._items: list[DataItem] = []
        self._hosted: dict[str, Any] = {}
        self._to_table = to_table
        for number, table in enumerate(inputs, 1):
            self.add(table, name=f"input_table_{number}", description=f"Input table {number}")
        self._input_count = len(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def items(self) -> tuple[DataItem, ...]:
        return tuple(self._items)

    @property
    def made_tables(self) -> list[Any]:
        """The tables that tools produced, in the order of the ids."""
        return [item.data for item in self._items[self._input_count :] if item.type == TABLE]

    def add(self, data: Any, *, name: str, description: str, type: str = TABLE) -> DataItem:  # noqa: A002
        """Registers data under a new id: a host's or Arrow table, or bytes of the media type `type`."""
        with self._lock:
            item = DataItem(
                id=str(self._first + len(self._items)),
                name=name,
                description=description,
                type=type,
                data=data,
            )
            self._items.append(item)
            return item

    def table(self, id: str, *, pointer: str = "") -> Any:  # noqa: A002
        """Finds a table by its id, in the host's form; `pointer` says where the id stands in the arguments.

        The error, if no data have this id or they are no table, lists ids of tables.
        """
        item = next((item for item in self._items if item.id == id), None)
        if item is None or item.type != TABLE:
            what = f"There is no data with the id {id!r}" if item is None else f"The data {id!r} is no table"
            tables = [other for other in self._items if other.type == TABLE]
            shown = ", ".join(f"{other.id!r} ({other.name})" for other in tables[-_MOST_IDS_SHOWN:])
            fix = f"Use the id of a table: {shown}" if tables else _NO_DATA
            raise ArgumentsInvalid(what, pointer=pointer, fix=fix)
        return self._host_table(item)

    def last_tables(self, count: int) -> list[Any]:
        """Returns `count` tables for outputs: the last ones, then empty ones, as in KNIME's agents."""
        if count <= 0:
            return []
        tables = [self._host_table(item) for item in self._items if item.type == TABLE][-count:]
        return tables + [self._empty() for _ in range(count - len(tables))]

    def message(self) -> str:
        return _PREFIX + (self.describe(self._items) or _NO_DATA)

    def describe(self, items: Sequence[DataItem]) -> str:
        """Lists data for a model, one line of JSON each: id, name, description, type, rows and columns."""
        return "\n".join(compact_json(_described(item)) for item in items)

    def _host_table(self, item: DataItem) -> Any:
        if self._to_table is None or not _is_arrow(item.data):
            return item.data
        with self._lock:
            if item.id not in self._hosted:
                # Once per table and only when somebody wants it: KNIME writes each table to a file.
                self._hosted[item.id] = self._to_table(item.data)
            return self._hosted[item.id]

    def _empty(self) -> Any:
        empty = pa.table({})
        return empty if self._to_table is None else self._to_table(empty)


def table_text(table: Any) -> str | None:
    """An Arrow table as text; None for KNIME's own tables, which another KNIME may not be able to read."""
    if not isinstance(table, pa.Table):
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def table_of_text(text: str) -> Any:
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_all()


def next_ids(texts: Iterable[str]) -> tuple[int, int]:
    """The first number for data, and that for long results, which no text of a conversation has used."""
    data, results = -1, 0
    for text in texts:
        data = max([data, *(int(match[1]) for match in _LISTED.finditer(text))])
        results = max([results, *(int(match[1]) for match in _CUT_RESULT.finditer(text))])
    return data + 1, results + 1


def _described(item: DataItem) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": item.id,
        "name": item.name,
        "description": item.description,
        "type": item.type,
    }
    if item.type != TABLE:
        return {**described, "bytes": len(item.data)}
    rows = getattr(item.data, "num_rows", None)
    if isinstance(rows, int):
        described["rows"] = rows
    columns = _columns(item.data)
    if columns is not None:
        shown = dict(list(columns.items())[:_MOST_COLUMNS_SHOWN])
        described["columns"] = shown
        if len(shown) < len(columns):
            described["more_columns"] = len(columns) - len(shown)
    return described


def _columns(table: Any) -> dict[str, str] | None:
    schema = getattr(table, "schema", None)
    if schema is None:
        return None
    if _is_arrow(table):
        return {field.name: str(field.type) for field in schema}
    return {column.name: str(column.ktype) for column in schema}


def _is_arrow(table: Any) -> bool:
    return isinstance(table, pa.Table)
