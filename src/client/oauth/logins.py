"""Logins (tokens and their client), and their stores: in memory, or in the operating system's keyring.

Never in a plain file.
"""

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from ...system import user_folder
from ...types.errors import SettingInvalid
from ...types.texts import canonical_json

_EARLY_SECONDS: Final = 60.0  # before the end: a request takes time, and clocks differ
AuthMethod = Literal["client_secret_basic", "client_secret_post", "none", "private_key_jwt"]
GrantName = Literal["authorization_code", "client_credentials", "identity_assertion"]
SERVICE: Final = "knime-mcp oauth"
# Windows keeps at most 2560 bytes of UTF-16 per entry; tokens are often longer.
_PART: Final = 1000
_MOST_PARTS: Final = 64


@dataclass(frozen=True, slots=True)
class Tokens:
    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None  # seconds since the epoch, None if unknown
    renew_at: float | None = None  # the access token is renewed from then on, before use
    scope: str | None = None  # None if the server did not say
    proof_key: str | None = field(default=None, repr=False)  # as PEM, if the tokens are bound to it (DPoP)

    @property
    def is_due(self) -> bool:
        """True if the token should be renewed before it is used again."""
        return self.renew_at is not None and time.time() >= self.renew_at

    @property
    def is_over(self) -> bool:
        return self.expires_at is not None and time.time() >= self.expires_at


def lifetime(expires_in: float | None) -> tuple[float | None, float | None]:
    """The times at which a token that is valid for some seconds expires and should be renewed.

    Renewal is a minute before expiry, or a third of the token's life if that is shorter, so that the token
    does not expire on its way: many servers count whole seconds.
    """
    if expires_in is None:
        return None, None
    now = time.time()
    return now + expires_in, now + expires_in - min(_EARLY_SECONDS, expires_in / 3)


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    client_id: str
    secret: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)  # as PEM, for ``private_key_jwt``
    algorithm: str = "ES256"
    # the authentication method at the token endpoint; None to choose from the server's
    method: AuthMethod | None = None
    redirect_uri: str | None = None  # None if this program did not register the client


@dataclass(frozen=True, slots=True)
class Login:
    """A login at one issuer for one MCP server."""

    issuer: str
    resource: str  # that the token is for; empty if its scopes name it
    client: RegisteredClient  # never used with another issuer
    tokens: Tokens
    scope: str | None = None  # all scopes that were asked for so far
    grant: GrantName = "authorization_code"


def to_text(kept: Login | RegisteredClient) -> str:
    """As JSON text, secrets included."""
    return canonical_json(asdict(kept))


def login_from_text(text: str) -> Login | None:
    """The inverse of `to_text`; None for text that is not a login."""
    try:
        value = cast("dict[str, Any]", json.loads(text))
        parts: dict[str, Any] = {
            "client": RegisteredClient(**value["client"]),
            "tokens": Tokens(**value["tokens"]),
        }
        # Without the fields that another version may have added.
        login = Login(**{part.name: value[part.name] for part in fields(Login) if part.name in value} | parts)
    except (ValueError, KeyError, TypeError):
        return None
    return login if isinstance(login.tokens.access_token, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]


def client_from_text(text: str) -> RegisteredClient | None:
    """The inverse of `to_text`; None for text that is not a client."""
    try:
        return RegisteredClient(**cast("dict[str, Any]", json.loads(text)))
    except (ValueError, TypeError):
        return None


class TokenStore(Protocol):
    """Keeps secret text under a key. Safe for use by many threads at once.

    Its `identity` equals that of stores that share logins. `delete` says whether the key existed.
    """

    @property
    def identity(self) -> str: ...
    def load(self, key: str) -> str | None: ...
    def save(self, key: str, text: str) -> None: ...
    def delete(self, key: str) -> bool: ...


class MemoryStore:
    """For the life of the process."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # each of the methods is one step for other threads
        self.identity = f"memory {uuid.uuid4()}"

    def load(self, key: str) -> str | None:
        return self._texts.get(key)

    def save(self, key: str, text: str) -> None:
        self._texts[key] = text

    def delete(self, key: str) -> bool:
        return self._texts.pop(key, None) is not None


class KeyringStore:
    """Keeps logins in the operating system's keyring, long ones in several entries.

    Raises:
        SettingInvalid: There is no secure keyring; the error says what to do instead.
    """

    identity = f"keyring {SERVICE}"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _require_keyring()

    def lock_file(self, key: str) -> Path:
        """The file that a process holds while it refreshes the login, which other processes have, too."""
        return user_folder("cache") / "knime-mcp" / f"login-{_digest(key)}.lock"

    def load(self, key: str) -> str | None:
        with self._lock:
            head = self._get(key)
            count, digest = _read_head(head)
            if count == 0:
                return None
            parts = [self._get(_part_key(key, number)) for number in range(count)]
        text = "".join(part or "" for part in parts)
        # The digest differs if another process wrote parts at the same time.
        return text if _digest(text) == digest else None

    def save(self, key: str, text: str) -> None:
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        if len(parts) > _MOST_PARTS:
            raise SettingInvalid(
                f"The login is too large for the keyring ({len(text)} characters)", setting="credentials"
            )
        with self._lock:
            before, _ = _read_head(self._get(key))
            # The parts first, then the head that names them: a reader in between sees the old login or
            # none, never half of one.
            for number, part in enumerate(parts):
                self._set(_part_key(key, number), part)
            self._set(key, f"{len(parts)}:{_digest(text)}")
            self._drop_parts(key, len(parts), before)

    def delete(self, key: str) -> bool:
        with self._lock:
            count, _ = _read_head(self._get(key))
            existed = self._remove(key)
            self._drop_parts(key, 0, count)
        return existed

    def _drop_parts(self, key: str, start: int, end: int) -> None:
        for number in range(start, end):
            self._remove(_part_key(key, number))

    def _get(self, key: str) -> str | None:
        with _keyring() as keyring:
            return keyring.get_password(SERVICE, key)

    def _set(self, key: str, text: str) -> None:
        with _keyring() as keyring:
            keyring.set_password(SERVICE, key, text)

    def _remove(self, key: str) -> bool:
        with _keyring() as keyring:
            try:
                keyring.delete_password(SERVICE, key)
            except keyring.errors.PasswordDeleteError:
                return False
        return True


@contextmanager
def _keyring() -> Generator[Any]:
    """A context for calls of the keyring, which turns their failures into an error in words."""
    import keyring.errors

    try:
        yield keyring
    except keyring.errors.KeyringError:
        raise SettingInvalid(
            "The keyring of this machine is locked or does not answer",
            setting="credentials",
            fix="Unlock it and try again",
        ) from None


def _require_keyring() -> None:
    fix = (
        "Install a keyring (on Linux: GNOME Keyring or KWallet with a running session), or do without: log "
        "in with --print-token, put the token into an environment variable, and name that with --bearer-env"
    )
    try:
        import keyring
    except ModuleNotFoundError:
        raise SettingInvalid(
            "The package 'keyring' is not installed, so there is nowhere safe to keep a login",
            setting="credentials",
            fix="Install it with: pip install keyring",
        ) from None
    backend = keyring.get_keyring()
    # Insecure backends ("fail", files in plain text) have a priority below 1.
    if float(getattr(backend, "priority", 0)) < 1:
        raise SettingInvalid(
            "This machine has no keyring that could keep a login safe", setting="credentials", fix=fix
        )


def _part_key(key: str, number: int) -> str:
    return f"{key} part {number + 1}"


def _read_head(head: str | None) -> tuple[int, str]:
    count, _, digest = (head or "").partition(":")
    return (int(count), digest) if count.isdecimal() and int(count) <= _MOST_PARTS else (0, "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
