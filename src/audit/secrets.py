"""Keeps secrets out of records: finds secrets in arguments and results, and replaces them by marks.

A value is a secret if the tool's schema says so (``format: password`` or ``writeOnly: true``) or if it
equals, or contains, a credential in use. The mark has a short digest, which shows where the same secret was
used twice. The digest is made with a key that exists only in memory and only for one run, so that guesses
cannot be checked against a mark in a file.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import re
import secrets
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ..client.validation.argument_schemas import MOST_PARTS, items, member, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MARK = re.compile(r"⟨secret [0-9a-f]{12}⟩")
_SHORTEST_IN_TEXT = 4  # shorter credentials are marked only where they are a whole value
_DEEPEST = 64


class SecretMarker:
    """Marks the secrets of one run, or of one call in it. Safe to use from several threads.

    Args:
        credentials: Passwords, tokens and keys in use. Empty ones are skipped.
        key: The key of the run, if another process has made it; by default a new key.

    Attributes:
        key: The key for the digests in marks. It must not be written anywhere.
    """

    def __init__(self, credentials: Iterable[str] = (), *, key: bytes | None = None) -> None:
        self.key = key or secrets.token_bytes(16)
        self._known: frozenset[str] = frozenset()
        self._spellings: tuple[tuple[str, str], ...] = ()
        self._learning = threading.Lock()
        self.learn(credentials)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self._known)} secrets>"

    @property
    def known(self) -> frozenset[str]:
        """The secrets; the same object until another secret is learned. It must not be written anywhere."""
        return self._known

    def keyed(self, key: bytes) -> SecretMarker:
        """Makes a marker with the same secrets and another key, for a run that began in another process."""
        return SecretMarker(self._known, key=key)

    def for_call(self, arguments: Mapping[str, Any], schema_json: str) -> SecretMarker:
        """Makes the marker of one call, which also knows the arguments that the tool's schema calls secret.

        So such an argument is also marked where the server repeats it in its answer. A schema that cannot be
        read calls nothing secret.
        """
        schema = _schema_with_secrets(schema_json)
        values = [] if schema is None else list(_secret_values(arguments, schema, schema))
        if not values:
            return self
        marker = copy.copy(self)
        marker.learn(value if isinstance(value, str) else json.dumps(value) for value in values)
        return marker

    def mark(self, arguments: Mapping[str, Any], schema_json: str = "") -> dict[str, Any]:
        """A copy of the arguments of a call with marks instead of secrets; see `for_call` for the schema."""
        schema = _schema_with_secrets(schema_json)
        if schema is None:
            return self.scrub(dict(arguments))
        if _is_secret(schema, schema):
            return {self.scrub(name): self._mark(value) for name, value in arguments.items()}
        return self._copy(arguments, schema, schema)

    def scrub(self, value: Any) -> Any:
        """Text or a JSON value with marks instead of the run's secrets; the same object if it has none."""
        if not self._known:
            return value
        match value:
            case str():
                if value in self._known:
                    return self._mark(value)
                for spelling, mark in self._spellings:
                    value = value.replace(spelling, mark)
                return value
            case dict() | list() if not self._is_in(value):
                return cast("Any", value)
            case dict():
                members = cast("dict[str, Any]", value)
                return {self.scrub(name): self.scrub(inner) for name, inner in members.items()}
            case list():
                return [self.scrub(inner) for inner in cast("list[Any]", value)]
            case _:
                return value

    def _is_in(self, value: Any) -> bool:
        """Returns whether a value may hold a secret: most values do not, and need not be copied."""
        text = json.dumps(value, ensure_ascii=False, default=str)
        wholes = (json.dumps(secret, ensure_ascii=False) for secret in self._known)
        parts = (json.dumps(spelling, ensure_ascii=False)[1:-1] for spelling, _ in self._spellings)
        return any(spelled in text for spelled in (*wholes, *parts))

    def learn(self, credentials: Iterable[str]) -> None:
        """Adds secrets before they are used. Empty ones are skipped."""
        new = {secret for secret in credentials if secret} - self._known
        if not new:
            return
        with self._learning:
            spellings = dict(self._spellings)
            for secret in new:
                if len(secret) >= _SHORTEST_IN_TEXT:
                    spellings |= dict.fromkeys(_spellings_of(secret), self._mark(secret))
            # Longest first, as a secret may be part of another one.
            self._spellings = tuple(sorted(spellings.items(), key=lambda entry: len(entry[0]), reverse=True))
            self._known |= new

    def _copy(self, value: Any, schema: Any, root: Mapping[str, Any], depth: int = 0) -> Any:
        if depth > _DEEPEST:
            return self.scrub(value)
        if value is not None and _is_secret(schema, root):
            return self._mark(value)
        match value:
            case dict():
                members = cast("dict[str, Any]", value)
                return {
                    self.scrub(name): self._copy(inner, member(schema, root, name), root, depth + 1)
                    for name, inner in members.items()
                }
            case list():
                item = items(schema, root)
                return [self._copy(inner, item, root, depth + 1) for inner in cast("list[Any]", value)]
            case _:
                return self.scrub(value)

    def _mark(self, value: Any) -> str:
        secret = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        digest = hmac.new(self.key, secret.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
        return f"⟨secret {digest[:12]}⟩"


def _spellings_of(secret: str) -> Iterator[str]:
    """The spellings of a secret in text, in JSON text and in a URL."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(secret, safe="", errors="surrogatepass")


def without_digests(text: str) -> str:
    """Removes the digests from the marks in a text, so that marks of different runs are equal."""
    return _MARK.sub("⟨secret⟩", text)


def calls_something_secret(schema_json: str) -> bool:
    """Returns whether a schema may call some argument secret; False for one that cannot be read."""
    return _schema_with_secrets(schema_json) is not None


@lru_cache(maxsize=256)
def _schema_with_secrets(schema_json: str) -> dict[str, Any] | None:
    """Parses a schema that may call something secret; None for all other schemas."""
    if not any(word in schema_json for word in ("password", "writeOnly")):
        return None
    try:
        schema = json.loads(schema_json)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", schema) if isinstance(schema, dict) else None


def _is_secret(schema: Any, root: Mapping[str, Any]) -> bool:
    parts = parts_of(schema, root)
    # Where some parts were not read, one of them may call the value secret.
    return len(parts) >= MOST_PARTS or any(
        part.get("format") == "password" or part.get("writeOnly") is True for part in parts
    )


def _secret_values(value: Any, schema: Any, root: Mapping[str, Any], depth: int = 0) -> Iterator[Any]:
    if depth > _DEEPEST:
        return
    if _is_secret(schema, root):
        yield from _scalars(value)
        return
    for inner, inner_schema in _members(value, schema, root):
        yield from _secret_values(inner, inner_schema, root, depth + 1)


def _members(value: Any, schema: Any, root: Mapping[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yields each member of an object or item of an array with its schema."""
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield inner, member(schema, root, name)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield inner, items(schema, root)


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for inner, _ in _members(value, {}, {}):
            yield from _scalars(inner)
    elif value is not None and not isinstance(value, bool):
        yield value
