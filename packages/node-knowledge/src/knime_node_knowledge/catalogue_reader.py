"""Reads a catalogue. Many threads and processes can read at once, even while a new file replaces the old one.

A catalogue's file is never changed, only replaced. `Catalogue` uses the new file from the next call on.
`Catalogue.reading` returns a view of one version, which stays valid even if the file is replaced.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .catalogue_file import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    WHOLE,
    CatalogueError,
    checksum,
    origin_of,
    unpacked,
)
from .node_model import CatalogueOrigin, NodeSpec, NodeSummary, OldName

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

_REBUILD: Final = "Build it again: knime-nodes build"
_MOST_IDLE: Final = 8
_MOST_VERSIONS: Final = 4
_SUMMARY: Final = tuple(field.name for field in fields(NodeSummary))

T = TypeVar("T")
Fingerprint = tuple[int, int, int, int]


class CatalogueReader:
    """A view of one version of a catalogue, valid within `Catalogue.reading`, for one thread at a time.

    Every method raises `CatalogueError` if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fingerprint = fingerprint(path)
        self._db = _connect(path)
        try:
            self.origin = self._checked_origin()
        except BaseException:
            self._db.close()
            raise

    def node(self, node_id: str) -> NodeSpec | None:
        return self._one("SELECT body FROM nodes WHERE id = ?", node_id)

    def find(self, node_type: str, subtype: str) -> NodeSpec | None:
        return self._one("SELECT body FROM nodes WHERE node_type = ? AND subtype = ?", node_type, subtype)

    def at(self, row: int) -> NodeSpec:
        """The node with this row number, as in `NodeSummary` and the search index."""
        ((body,),) = self.rows("SELECT body FROM nodes WHERE row = ?", row)
        return unpacked(body)

    def nodes(self) -> Iterator[NodeSpec]:
        """All nodes, in the order of their rows: by type, then in the order of packs or by name."""
        for (body,) in self.rows("SELECT body FROM nodes ORDER BY row"):
            yield unpacked(body)

    def __len__(self) -> int:
        return self.origin.nodes

    def summaries(self) -> list[NodeSummary]:
        """The summaries of all nodes, in the order of `nodes`."""
        rows = self.rows(f"SELECT {', '.join(_SUMMARY)} FROM nodes ORDER BY row")  # noqa: S608 - no input
        found: list[dict[str, Any]] = [dict(zip(_SUMMARY, row, strict=True)) for row in rows]
        for values in found:
            values["deprecated"] = bool(values["deprecated"])
        return [NodeSummary(**values) for values in found]

    def types(self) -> dict[str, tuple[str, ...]]:
        """All node types with their subtypes, in a fixed order: as packs list them, then sorted."""
        rows = self.rows("SELECT name, subtypes FROM types ORDER BY position")
        return {name: tuple(json.loads(subtypes)) for name, subtypes in rows}

    def type_names(self) -> tuple[str, ...]:
        """The node types, in the order of `types`."""
        return tuple(name for (name,) in self.rows("SELECT name FROM types ORDER BY position"))

    def old_names(self) -> list[OldName]:
        """The former names of types and nodes."""
        rows = self.rows("SELECT node_type, subtype, instead, exact, note FROM old_names ORDER BY rowid")
        return [
            OldName(
                node_type=node_type,
                subtype=subtype,
                instead=tuple(json.loads(instead)),
                exact=bool(exact),
                note=note,
            )
            for node_type, subtype, instead, exact, note in rows
        ]

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows of an SQL query; see `knime_node_knowledge.catalogue_file`.

        User input goes into `values` only, never into the query.
        """
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise _damaged(self._path, str(error)) from None

    def close(self) -> None:
        self._db.close()

    def _checked_origin(self) -> CatalogueOrigin:
        path = self._path
        ((application,),) = self.rows("PRAGMA application_id")
        ((version,),) = self.rows("PRAGMA user_version")
        if application != APPLICATION_ID:
            raise CatalogueError(f"{path} is a database, but no node catalogue", fix=f"{_REBUILD}.")
        if version != SCHEMA_VERSION:
            age, fix = "an older", f"{_REBUILD}."
            if version > SCHEMA_VERSION:
                age, fix = (
                    "a newer",
                    f"Update knime-mcp, or {_REBUILD[0].lower()}{_REBUILD[1:]} with this one.",
                )
            what = f"(its format is {version}, this one reads {SCHEMA_VERSION})"
            raise CatalogueError(f"The node catalogue {path} was built by {age} knime-mcp {what}", fix=fix)
        _check_whole(path, self.fingerprint)
        ((origin,),) = self.rows("SELECT origin FROM meta")
        return origin_of(json.loads(origin))

    def _one(self, query: str, *values: Any) -> NodeSpec | None:
        rows = self.rows(query, *values)
        return unpacked(rows[0][0]) if rows else None


class Catalogue(AbstractContextManager["Catalogue"]):
    """A catalogue's file. Threads may share one; use it as a context manager, or call `close`.

    Every access raises `CatalogueError` if the file is missing, damaged, or of another version's format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._idle: list[CatalogueReader] = []
        # A file that is missing or damaged is an error now, and not at the first question.
        with self.reading():
            pass

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Generator[CatalogueReader]:
        """Returns a view of the newest version, which does not change within the ``with`` block."""
        reader = self._take()
        try:
            yield reader
        finally:
            with self._lock:
                if kept := len(self._idle) < _MOST_IDLE:
                    self._idle.append(reader)
            if not kept:
                reader.close()

    @property
    def origin(self) -> CatalogueOrigin:
        with self.reading() as reader:
            return reader.origin

    def node(self, node_id: str) -> NodeSpec | None:
        with self.reading() as reader:
            return reader.node(node_id)

    def nodes(self) -> list[NodeSpec]:
        """See `CatalogueReader.nodes`; all nodes are read at once."""
        with self.reading() as reader:
            return list(reader.nodes())

    def types(self) -> dict[str, tuple[str, ...]]:
        with self.reading() as reader:
            return reader.types()

    def close(self) -> None:
        """Closes the file. The next `reading` opens it again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()

    def _take(self) -> CatalogueReader:
        now = fingerprint(self.path)
        with self._lock:
            fitting = [reader for reader in self._idle if reader.fingerprint == now]
            stale = [reader for reader in self._idle if reader.fingerprint != now]
            taken = fitting.pop() if fitting else None
            self._idle = fitting
        # Closed only here, when nobody has them any more: those in use go on with their old file.
        for reader in stale:
            reader.close()
        return taken or CatalogueReader(self.path)


def per_version(make: Callable[[CatalogueReader], T]) -> Callable[[CatalogueReader], T]:
    """Wraps `make` with a cache of its results for the latest versions of catalogues."""
    lock = threading.Lock()
    kept: dict[Fingerprint, T] = {}

    def made(reader: CatalogueReader) -> T:
        with lock:
            found = kept.get(reader.fingerprint)
        if found is not None:
            return found
        # Outside of the lock, as it takes long; where two threads made it, the first one's counts.
        fresh = make(reader)
        with lock:
            while len(kept) >= _MOST_VERSIONS:
                kept.pop(next(iter(kept)))
            return kept.setdefault(reader.fingerprint, fresh)

    return made


def fingerprint(path: Path) -> Fingerprint:
    """Identifies the file at a path by device, inode, size and time of change."""
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=_MOST_VERSIONS)
def _check_whole(path: Path, _: Fingerprint) -> None:
    """Compares a file with the checksum at its end. The cache makes this happen once per version."""
    try:
        with path.open("rb") as file:
            is_whole = checksum(file) == WHOLE
    except OSError as error:
        raise _unreadable(path, error) from None
    if not is_whole:
        raise _damaged(path, "it is cut off, or was changed after it was built")


def _connect(path: Path) -> sqlite3.Connection:
    try:
        # `immutable`, as the file never changes: SQLite needs no locks, and can read from read-only media.
        return sqlite3.connect(
            # Readers go from thread to thread, but only one at a time has each.
            f"{path.absolute().as_uri()}?mode=ro&immutable=1",
            uri=True,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise CatalogueError(
            f"The node catalogue {path} cannot be opened: {error}", fix=f"{_REBUILD}."
        ) from None


def _unreadable(path: Path, error: OSError) -> CatalogueError:
    why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    return CatalogueError(f"The node catalogue {path} {why}", fix=f"{_REBUILD}.")


def _damaged(path: Path, why: str) -> CatalogueError:
    return CatalogueError(f"The node catalogue {path} is damaged: {why}", fix=f"{_REBUILD}.")
