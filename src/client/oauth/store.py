"""Stores of logins: in memory, or in the keyring of the operating system; never in a plain file."""

import hashlib
import threading
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol

from ...types.errors import SettingInvalid

SERVICE: Final = "knime-mcp oauth"
# Windows keeps at most 2560 bytes of UTF-16 per entry; tokens are often longer.
_PART: Final = 1000
_MOST_PARTS: Final = 64


class TokenStore(Protocol):
    """Keeps secret text under a key. Safe for use by many threads at once."""

    @property
    def identity(self) -> str:
        """The key of the store's contents: equal for stores that share logins."""
        ...

    def load(self, key: str) -> str | None:
        """The text under a key; None for an unknown key."""
        ...

    def save(self, key: str, text: str) -> None:
        """Stores text under a key, replacing the old text."""
        ...

    def delete(self, key: str) -> bool:
        """Deletes a key. Returns False if it did not exist."""
        ...


class MemoryStore:
    """Keeps logins for the life of the process."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._lock = threading.Lock()
        self._identity = f"memory {uuid.uuid4()}"

    def __repr__(self) -> str:
        return f"<MemoryStore: {len(self._texts)} entries>"

    @property
    def identity(self) -> str:
        """See the protocol class."""
        return self._identity

    def load(self, key: str) -> str | None:
        """See the protocol class."""
        with self._lock:
            return self._texts.get(key)

    def save(self, key: str, text: str) -> None:
        """See the protocol class."""
        with self._lock:
            self._texts[key] = text

    def delete(self, key: str) -> bool:
        """See the protocol class."""
        with self._lock:
            return self._texts.pop(key, None) is not None


class KeyringStore:
    """Keeps logins in the operating system's keyring, long ones in several entries.

    Raises:
        SettingInvalid: There is no secure keyring; the error says what to do instead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _require_keyring()

    def __repr__(self) -> str:
        return f"<KeyringStore: {SERVICE}>"

    @property
    def identity(self) -> str:
        """See the protocol class."""
        return f"keyring {SERVICE}"

    def load(self, key: str) -> str | None:
        """See the protocol class."""
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
        """See the protocol class."""
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        if len(parts) > _MOST_PARTS:
            raise SettingInvalid(
                f"The login is too large for the keyring ({len(text)} characters)", setting="credentials"
            )
        with self._lock:
            before, _ = _read_head(self._get(key))
            for number, part in enumerate(parts):
                self._set(_part_key(key, number), part)
            self._set(key, f"{len(parts)}:{_digest(text)}")
            self._drop_parts(key, len(parts), before)

    def delete(self, key: str) -> bool:
        """See the protocol class."""
        with self._lock:
            count, _ = _read_head(self._get(key))
            existed = self._remove(key)
            self._drop_parts(key, 0, count)
        return existed

    def _drop_parts(self, key: str, start: int, end: int) -> None:
        for number in range(start, end):
            self._remove(_part_key(key, number))

    def _get(self, key: str) -> str | None:
        import keyring

        with _keyring_errors():
            return keyring.get_password(SERVICE, key)

    def _set(self, key: str, text: str) -> None:
        import keyring

        with _keyring_errors():
            keyring.set_password(SERVICE, key, text)

    def _remove(self, key: str) -> bool:
        import keyring
        from keyring.errors import PasswordDeleteError

        with _keyring_errors():
            try:
                keyring.delete_password(SERVICE, key)
            except PasswordDeleteError:
                return False
        return True


@contextmanager
def _keyring_errors() -> Generator[None]:
    """A context for calls of the keyring, which turns their failures into an error in words."""
    from keyring.errors import KeyringError

    try:
        yield
    except KeyringError:
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
