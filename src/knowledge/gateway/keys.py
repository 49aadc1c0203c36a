"""API keys: the command line makes, lists and revokes them, the gateway looks them up with every request.

Only a digest of a key is kept. A key is 32 random bytes, so a plain SHA-256 is enough: slow hashes are for
passwords, which can be guessed. The file is SQLite: a key is on disk before it is shown, and a revoked one is
refused with the next request.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from ...types.errors import MCPError, SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path
    from types import TracebackType

_PREFIX: Final = "kmcp"
_SECRET_BYTES: Final = 32
_LONGEST: Final = 128
_PATIENCE: Final = 30.0
"""Seconds to wait for other processes that write."""

_APPLICATION_ID: Final = 0x6B6D6B79
_COLUMNS: Final = "id, name, digest, scopes, rate_limit, created_at, expires_at, revoked_at"
_SCHEMA: Final = (
    "CREATE TABLE keys (id TEXT PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, scopes TEXT NOT NULL,"
    " rate_limit INTEGER, created_at TEXT NOT NULL, expires_at TEXT, revoked_at TEXT) WITHOUT ROWID",
    "CREATE TABLE meta (salt BLOB NOT NULL)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    "PRAGMA user_version = 1",
)


class Scope(StrEnum):
    """A valid key and its permissions."""

    TOOLS_READ = "tools:read"
    TOOLS_EXECUTE = "tools:execute"
    HEALTH_CHECK = "health:check"


class KeyStoreError(MCPError):
    """The file of keys cannot be read or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key, without its secret part.

    Attributes:
        id: Its public part.
        name: Of the client that has it.
        digest: Of its secret part.
        scopes: What it is good for.
        rate_limit: Requests per minute; 0: any number; None: as the settings say.
        created_at: When, in UTC.
        expires_at: From when on it is refused; None: never.
        revoked_at: Since when it is refused; None: it is not revoked.
    """

    id: str
    name: str
    digest: bytes = field(repr=False)
    scopes: frozenset[Scope]
    rate_limit: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def works(self, now: datetime | None = None) -> bool:
        """Returns whether it is neither revoked nor expired."""
        expired = self.expires_at is not None and (now or datetime.now(UTC)) >= self.expires_at
        return self.revoked_at is None and not expired


class KeyStore:
    """A file of keys. Threads and processes may share it.

    Use it as a context manager, or call `close`.

    Args:
        path: The file; made if there is none, readable by its owner only.

    Raises:
        KeyStoreError: It cannot be read or made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        with self._reported():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o600))
            self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create(
        self,
        name: str,
        scopes: Iterable[Scope],
        *,
        rate_limit: int | None = None,
        days: float | None = None,
    ) -> tuple[str, ApiKey]:
        """Makes a key.

        Args:
            name: Of the client that gets it; appears in logs.
            scopes: What it is good for.
            rate_limit: Requests per minute; 0: any number; None: as the settings say.
            days: After how many days it is refused; None: never.

        Returns:
            The key as text, which is stored nowhere, and what is stored.

        Raises:
            SettingInvalid: A name that cannot be shown, or no scopes.
            KeyStoreError: It cannot be written.
        """
        wanted = frozenset(scopes)
        if not name.strip() or not name.isprintable() or len(name) > 100:
            raise SettingInvalid("A key's name is 1 to 100 printable characters", setting="name")
        if not wanted:
            raise SettingInvalid("A key without a scope is good for nothing", setting="scopes")
        now = datetime.now(UTC)
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        key = ApiKey(
            id=secrets.token_hex(6),
            name=name.strip(),
            digest=_digest(secret),
            scopes=wanted,
            rate_limit=rate_limit,
            created_at=now,
            expires_at=None if days is None else now + timedelta(days=days),
            revoked_at=None,
        )
        ends = key.expires_at.isoformat() if key.expires_at else None
        scope_names = " ".join(sorted(wanted))
        row = (key.id, key.name, key.digest, scope_names, rate_limit, now.isoformat(), ends, None)
        with self._reported():
            self._db.execute(f"INSERT INTO keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - no input
        return f"{_PREFIX}_{key.id}_{secret}", key

    def verify(self, presented: str) -> ApiKey | None:
        """The key that a client presents, if it is one that works, otherwise None.

        Raises:
            KeyStoreError: The file cannot be read.
        """
        prefix, _, rest = presented.partition("_")
        key_id, _, secret = rest.partition("_")
        if len(presented) > _LONGEST or prefix != _PREFIX or not secret:
            return None
        key = self.working(key_id)
        return key if key is not None and hmac.compare_digest(key.digest, _digest(secret)) else None

    def working(self, key_id: str) -> ApiKey | None:
        """The key with this id if it works, otherwise None.

        Raises:
            KeyStoreError: The file cannot be read.
        """
        return next((key for key in self._keys("WHERE id = ?", key_id) if key.works()), None)

    def all(self) -> list[ApiKey]:
        """All keys, also those that no longer work, the oldest first."""
        return self._keys("ORDER BY created_at, id")

    def revoke(self, which: str) -> ApiKey:
        """Lets a key no longer work.

        Args:
            which: Its id, or its name if only one key that works has it.

        Returns:
            The key, as it is now.

        Raises:
            SettingInvalid: No such key, or several.
            KeyStoreError: It cannot be written.
        """
        found = [key for key in self.all() if key.id == which]
        found = found or [key for key in self.all() if key.name == which and key.works()]
        if len(found) != 1:
            what = f"{len(found)} keys are called so" if found else "There is no such key"
            raise SettingInvalid(
                f"{what}: {which}", setting="key", fix="knime-mcp nodes keys list shows ids."
            )
        now = datetime.now(UTC).isoformat()
        with self._reported():
            statement = "UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
            self._db.execute(statement, (now, found[0].id))
        return self._keys("WHERE id = ?", found[0].id)[0]

    def hashed(self, text: str) -> str:
        """A text as a short hash that only who has this file can compare; for query patterns in logs."""
        folded = " ".join(text.casefold().split()).encode("utf-8", "replace")
        return hashlib.blake2b(folded, key=self._salt, digest_size=6).hexdigest()

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._db.close()

    def _open(self) -> None:
        found = self.path.stat()
        db = sqlite3.connect(self.path, timeout=_PATIENCE, check_same_thread=False, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = FULL")
            if db.execute("PRAGMA page_count").fetchone() == (0,):
                _fill(db)
            if db.execute("PRAGMA application_id").fetchone() != (_APPLICATION_ID,):
                raise KeyStoreError(
                    f"{self.path} is a database, but not one of keys",
                    fix="Set GATEWAY_KEYS_FILE to another file.",
                )
            self._salt = bytes(db.execute("SELECT salt FROM meta").fetchone()[0])
        except BaseException:
            db.close()
            raise
        self._db, self._opened = db, (found.st_dev, found.st_ino)

    def _is_gone(self) -> bool:
        """Returns whether the file was removed to lock everybody out, or another one stands in its place."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return True
        return (found.st_dev, found.st_ino) != self._opened

    def _keys(self, rest: str, *values: Any) -> list[ApiKey]:
        with self._reported(), self._lock:
            if self._is_gone():
                self._db.close()
                self._open()
            rows = self._db.execute(f"SELECT {_COLUMNS} FROM keys {rest}", values)  # noqa: S608 - no input
            return [_key(row) for row in rows]

    @contextmanager
    def _reported(self) -> Generator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise KeyStoreError(
                f"The keys in {self.path} cannot be used: {error}",
                fix="GATEWAY_KEYS_FILE, or --keys-file, says where they are.",
            ) from None


def _fill(db: sqlite3.Connection) -> None:
    """Makes the tables; of several processes that start at once, one does.

    There is no write-ahead log: one left behind would be read into a file that takes this one's place.
    """
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT * FROM sqlite_master").fetchall():
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute("INSERT INTO meta (salt) VALUES (?)", (secrets.token_bytes(16),))
    db.execute("COMMIT")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _key(row: Any) -> ApiKey:
    key_id, name, digest, scopes, rate_limit, created_at, expires_at, revoked_at = row
    return ApiKey(
        id=key_id,
        name=name,
        digest=bytes(digest),
        scopes=frozenset(map(Scope, scopes.split())),
        rate_limit=rate_limit,
        created_at=datetime.fromisoformat(created_at),
        expires_at=datetime.fromisoformat(expires_at) if expires_at else None,
        revoked_at=datetime.fromisoformat(revoked_at) if revoked_at else None,
    )
