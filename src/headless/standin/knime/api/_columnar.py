"""Columns, and the common base of schemas and tables, whose operations on columns return lazy views."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from ._ktypes import KnimeType, logical


class Column:
    """A column: its type, its name and, for input columns, KNIME's metadata about the type."""

    ktype: KnimeType
    name: str
    metadata: dict[str, Any] | None

    def __init__(self, ktype: KnimeType | type, name: str, metadata: dict[str, Any] | None = None) -> None:
        if not isinstance(ktype, KnimeType):
            ktype = logical(ktype)
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a column's name must be a string, not {type(name).__name__}")
        if not name.strip():
            raise ValueError("a column's name must not be empty")
        self.ktype = ktype
        self.name = name
        self.metadata = metadata

    def __str__(self) -> str:
        metadata = "" if self.metadata is None else f", {self.metadata}"
        return f"Column<'{self.name}', {self.ktype}{metadata}>"

    def __eq__(self, other: Any) -> bool:
        # As in KNIME, a column can be compared with columns only.
        return other.ktype == self.ktype and other.name == self.name and other.metadata == self.metadata

    __hash__ = None  # type: ignore[assignment]


class Operation(Protocol):
    """The operation of a view, which is applied when the result is needed."""

    def apply(self, source: Any) -> Any:
        """The result for a schema or table."""
        ...


@dataclass(frozen=True)
class Selection:
    """The operation that selects columns."""

    columns: Any

    def apply(self, source: Any) -> Any:
        """See `Operation`."""
        return source._select_columns(self.columns)

    def __str__(self) -> str:
        return f"ColumnSlicingOp({self.columns})"


@dataclass(frozen=True)
class Addition:
    """The operation that appends columns."""

    other: Any

    def apply(self, source: Any) -> Any:
        """See `Operation`."""
        return source._append(self.other)

    def __str__(self) -> str:
        return f"AppendOp({self.other})"


class _Columnar(ABC):
    """The common base of schemas and tables: ordered columns. Operations return lazy views."""

    @property
    def num_columns(self) -> int:
        """The number of columns."""
        return len(self.column_names)

    @property
    @abstractmethod
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""

    def __getitem__(self, slicing: Any) -> Any:
        # Without this an int index would make `for column in schema` endless.
        if isinstance(slicing, int) and slicing >= self.num_columns:
            raise IndexError(f"index {slicing} is beyond the {self.num_columns} columns")
        return self._view(Selection(slicing))

    def append(self, other: Any) -> Any:
        """A view with more columns at the end."""
        return _ColumnarView(self, Addition(other))

    def insert(self, other: Any, at: int) -> Any:
        """A view with more columns at a position."""
        count = self.num_columns
        order = list(range(count))
        added = 1 if isinstance(other, Column) else other.num_columns
        order[at:at] = range(count, count + added)
        return self.append(other)[order]

    def remove(self, slicing: int | str | list[str]) -> Any:
        """A view without a column (by index or name) or without several (by names)."""
        names = self.column_names
        if isinstance(slicing, list):
            missing = [name for name in slicing if name not in names]
            if missing:
                raise ValueError(f"there are no columns {missing}; columns: {names}")
            kept: list[Any] = [name for name in names if name not in slicing]
        elif isinstance(slicing, int):
            if not 0 <= slicing < len(names):
                raise IndexError(f"index {slicing} is not among the {len(names)} columns")
            kept = names[:slicing] + names[slicing + 1 :]
        elif isinstance(slicing, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            names.remove(slicing)
            kept = names
        else:
            raise TypeError(f"columns cannot be removed by {type(slicing).__name__}")
        return _ColumnarView(self, Selection(kept))

    def _view(self, operation: Operation) -> Any:
        return _ColumnarView(self, operation)

    def _position(self, entry: Any) -> int:
        """The position of a column that is given by name or position."""
        names = self.column_names
        if isinstance(entry, str):
            if entry not in names:
                raise IndexError(f"there is no column {entry!r}; columns: {names}")
            return names.index(entry)
        if not isinstance(entry, int) or not 0 <= entry < len(names):
            raise IndexError(f"{entry!r} is not the position of one of {len(names)} columns")
        return entry


class _ColumnarView(_Columnar):
    """A schema or table with an operation that is applied on demand; ``get()`` returns the result."""

    def __init__(self, delegate: Any, operation: Operation) -> None:
        self.delegate = delegate
        self.operation = operation
        self._result: Any = None

    def get(self, cache: bool = True) -> Any:
        """The schema, table or column that is the result of the operation."""
        if self._result is not None:
            return self._result
        source = self.delegate.get(cache=False) if isinstance(self.delegate, _ColumnarView) else self.delegate
        result = self.operation.apply(source)
        if cache:
            self._result = result
        return result

    @property
    def column_names(self) -> list[str]:
        """See `_Columnar`."""
        return self.get().column_names

    @property
    def num_columns(self) -> int:
        """See `_Columnar`."""
        return self.get().num_columns

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.get(), name)

    def __eq__(self, other: object) -> bool:
        return self.get() == (other.get() if isinstance(other, _ColumnarView) else other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"ColumnarView<delegate={self.delegate}, op={self.operation}>"
