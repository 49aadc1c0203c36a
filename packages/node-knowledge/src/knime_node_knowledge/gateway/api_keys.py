"""API keys. The command line makes, lists and revokes keys; the gateway looks them up on every request.

Only a digest of each key is stored. A key has 32 random bytes, so a plain SHA-256 is enough: slow hashes are
for passwords, which can be guessed. The file is a SQLite database: a key is on disk before it is shown, and a
revoked key is refused from the next request on. How many requests a key may send is counted in memory.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
import sqlite3
import threading
import time
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.types.errors import MCPError, SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from pathlib import Path


KEY_PREFIX: Final = "kmcp"
_SECRET_BYTES: Final = 32
_LONGEST: Final = 128
_PATIENCE: Final = 30.0
"""The number of seconds to wait for other processes that write to the file."""

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
    TOOLS_READ = "tools:read"
    TOOLS_EXECUTE = "tools:execute"
    HEALTH_CHECK = "health:check"


class KeyStoreError(MCPError):
    """The file of keys cannot be read or written."""

    CODE = "KMCP-GATEWAY-KEYS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request, by a key or by a token of the company's provider."""

    id: str
    name: str
    scopes: frozenset[Scope]
    rate_limit: int | None = None  # requests per minute; 0: any number, None: the default in the settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Caller):
    """A key, without its secret part. All times are in UTC."""

    digest: bytes = field(repr=False)
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def works(self, now: datetime | None = None) -> bool:
        expired = self.expires_at is not None and (now or datetime.now(UTC)) >= self.expires_at
        return self.revoked_at is None and not expired


class KeyStore(AbstractContextManager["KeyStore"]):
    """A file of keys, made if it is missing, and readable by its owner only.

    Threads and processes may share it. Every method raises `KeyStoreError` if the file fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        with self._reported():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite would make the file with the rights of the process's umask.
            os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o600))
            self._open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(
        self, name: str, scopes: Iterable[Scope], *, rate_limit: int | None = None, days: float | None = None
    ) -> tuple[str, ApiKey]:
        """Makes a key: its text, which is not stored, and the stored part.

        The name is that of the client, for the log. `rate_limit` is per minute (0: any number, None: the
        default in the settings), and the key works for so many `days` (None: for ever).
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
        return f"{KEY_PREFIX}_{key.id}_{secret}", key

    def verify(self, presented: str) -> ApiKey | None:
        """The key that a client presents; None if it is unknown, revoked or expired."""
        prefix, _, rest = presented.partition("_")
        key_id, _, secret = rest.partition("_")
        if len(presented) > _LONGEST or prefix != KEY_PREFIX or not secret:
            return None
        key = next((key for key in self._keys("WHERE id = ?", key_id) if key.works()), None)
        # In constant time, so that the time of an answer says nothing of the digest.
        return key if key is not None and hmac.compare_digest(key.digest, _digest(secret)) else None

    def all(self) -> list[ApiKey]:
        """All keys, including revoked and expired ones, the oldest first."""
        return self._keys("ORDER BY created_at, id")

    def revoke(self, which: str) -> ApiKey:
        """Revokes the key with this id, or this name if only one valid key has it; else `SettingInvalid`."""
        found = [key for key in self.all() if key.id == which]
        found = found or [key for key in self.all() if key.name == which and key.works()]
        if len(found) != 1:
            what = f"{len(found)} keys are called so" if found else "There is no such key"
            raise SettingInvalid(f"{what}: {which}", setting="key", fix="knime-nodes keys list shows ids.")
        now = datetime.now(UTC).isoformat()
        with self._reported():
            statement = "UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
            self._db.execute(statement, (now, found[0].id))
        return self._keys("WHERE id = ?", found[0].id)[0]

    def hashed(self, text: str) -> str:
        """A short hash of a text for logs, keyed with the file's salt against guessing the text."""
        folded = " ".join(text.casefold().split()).encode("utf-8", "replace")
        return hashlib.blake2b(folded, key=self._salt, digest_size=6).hexdigest()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _open(self) -> None:
        # Before the file is opened: replaced in between, it is opened once more, which does no harm.
        found = self.path.stat()
        db = sqlite3.connect(self.path, timeout=_PATIENCE, check_same_thread=False, isolation_level=None)
        try:
            # A key that was shown must be there after a power failure, and a revoked one stay revoked.
            db.execute("PRAGMA synchronous = FULL")
            if db.execute("PRAGMA page_count").fetchone() == (0,):
                _fill(db)
            # The setting may name any file, and another program's database must not get our tables.
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
        """Returns whether the file was removed (which revokes all keys) or replaced by another file."""
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
    """Creates the tables, unless another process that started at the same time has created them.

    There is no write-ahead log: a log that was left behind would be applied to a file that replaces this one.
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


class RateLimiter:
    """Counts requests per key, in this process. Threads may share it.

    After a pause, a client may send the requests of one minute at once; then it has to keep to the rate.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}
        """The number of requests left, and the time of that count, by key."""

    def wait_for(self, key: str, per_minute: int) -> int:
        """Counts a request: 0 if it is allowed, otherwise the number of seconds until the next one is."""
        if per_minute <= 0:
            return 0
        with self._lock:
            now = self._now()
            left, since = self._buckets.get(key, (per_minute, now))
            # A bucket that fills evenly: with fixed minutes twice as many requests would pass at the turn
            # of one.
            left = min(left + (now - since) * per_minute / 60, per_minute)
            passes = left >= 1
            self._buckets[key] = (left - passes, now)
        return 0 if passes else max(1, math.ceil((1 - left) * 60 / per_minute))
