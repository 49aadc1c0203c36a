"""The secrets of a run: marks in their place in records, and what a record says about them.

What is a secret, and where a text loses it, is decided in `types.secret_rules`; here are the parts that need
the call. Among its arguments those are secret that the tool's schema (``format: password``, ``writeOnly:
true``), their name, or the user says, and they are hidden whole. A mark has a digest, salted and slow to
compute, so that a replay can tell whether it was given the same secret. What is a mark is said by the
record's field *Secrets*: the same characters in a text, as a tool may return them or somebody may write them
into a file, are text.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import secrets
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import unquote_plus

from ..client.protocol.messages import DEEPEST
from ..client.validation.argument_schemas import MOST_PARTS, items, member, parts_of
from ..types.secret_rules import KnownSecrets, is_secret_member
from ..types.texts import canonical_json, ours, pointer_step

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

_TOO_DEEP: Final = "nested too deeply"
_DIGITS: Final = 12  # of a mark: enough to see that two secrets are the same
# 4 MiB and about 10 ms for each guess. Calls compute it while their server is busy, once per secret and run.
_COST: Final = {"n": 1 << 12, "r": 8, "p": 1}


_MARK: Final = re.compile(r"⟨secret ([0-9a-f]{12})⟩")
_NAME: Final = re.compile(r"[\w-]+")
_VALUE: Final = re.compile(r"(?:\w*[a-z_])?value", re.IGNORECASE)
_TITLE: Final = re.compile(r"(?:\w*[a-z_])?(?:name|key|header)", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+\Z")
_PASSWORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#:\s]*:([^/?#\s]+)@")
_PAIR: Final = r"[\w%-]+(?: [\w%-]+)?="
_PAIRS: Final = re.compile(rf"{_PAIR}\S*|{_PAIR}[^&;]*(?:[&;]{_PAIR}[^&;]*)+;?")
_HEADER_NAME: Final = r"(?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]+"
_HEADER: Final = re.compile(rf"({_HEADER_NAME}):\s*(\S.*)", re.IGNORECASE)
_HINT: Final = re.compile(
    rf'://|"-|"{_PAIR}|"(?:{_HEADER_NAME}):|"(?:\s|\\[bfnrt]|\\u00[01].)*[\[{{]', re.IGNORECASE
)
"""What stands in JSON text in which a text itself may name a secret: an address, an option, a form, JSON."""
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_COLON: Final = re.compile(r"\s*:")


def mark_of(digest: str) -> str:
    """The text in place of a secret."""
    return f"⟨secret {digest}⟩"


def marks_in(value: Any, pointer: str = "") -> dict[str, tuple[str, ...]]:
    """The digests of what looks like a mark, by JSON pointer; nobody says whether these are marks."""
    match value:
        case str():
            found = tuple(_MARK.findall(value))
            return {pointer: found} if found else {}
        case dict():
            entries: Iterable[tuple[str | int, Any]] = cast("dict[str, Any]", value).items()
        case list():
            entries = enumerate(cast("list[Any]", value))
        case _:
            return {}
    found_in = (marks_in(inner, pointer + pointer_step(name)) for name, inner in entries)
    return {place: digests for found in found_in for place, digests in found.items()}


def with_secrets(
    value: Any, marks: Mapping[str, tuple[str, ...]], secrets: Mapping[str, str], pointer: str = ""
) -> Any:
    """A copy of a JSON value, which is at ``pointer``, with ``secrets`` by digest in place of their marks.

    ``marks`` are the digests by JSON pointer; other texts stay, whatever they look like.
    """
    match value:
        case str():
            for digest in marks.get(pointer, ()):
                value = value.replace(mark_of(digest), secrets[digest])
            return value
        case dict():
            members = cast("dict[str, Any]", value)
            return {
                name: with_secrets(inner, marks, secrets, pointer + pointer_step(name))
                for name, inner in members.items()
            }
        case list():
            items = cast("list[Any]", value)
            return [with_secrets(inner, marks, secrets, f"{pointer}/{i}") for i, inner in enumerate(items)]
        case _:
            return value


def hidden_note(tool: str, count: int) -> str:
    """The warning that an answer is not as the tool gave it."""
    places = "in one place" if count == 1 else f"in {count:,} places"
    return (
        f"The answer of '{tool}' held a secret {places}, which the result does not show"
        " (docs/secrets.md says when)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenSecrets:
    """What a record says about its marks."""

    salt: str = ""  # of the digests, in hexadecimal digits
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The digests in each argument, by JSON pointer."""
    answer: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often each digest stands in the answer."""

    def __bool__(self) -> bool:
        return bool(self.arguments or self.answer)

    def to_json(self) -> str | None:
        """The field of the record; None if nothing was hidden."""
        if not self:
            return None
        arguments = {pointer: list(digests) for pointer, digests in self.arguments.items()}
        parts = {"salt": self.salt, "arguments": arguments, "answer": dict(self.answer)}
        return canonical_json({name: part for name, part in parts.items() if part})

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Reads the field of a record; what is not as it was written says nothing, as the file was edited."""
        try:
            parsed = json.loads(text or "{}")
            salt = bytes.fromhex(parsed.get("salt", "")).hex()
            arguments = {
                str(pointer): tuple(map(str, digests))
                for pointer, digests in parsed.get("arguments", {}).items()
            }
            answer = {str(digest): int(count) for digest, count in parsed.get("answer", {}).items()}
        except (ValueError, TypeError, AttributeError, RecursionError):
            return cls()
        return cls(salt=salt, arguments=arguments, answer=answer)

    def without_digests(self, text: str) -> str:
        """A part of the answer whose marks are equal in all runs."""
        for digest in self.answer:
            text = text.replace(mark_of(digest), "⟨secret⟩")
        return text


class SecretMarker:
    """Hides the secrets of one run, or of one call in it. Safe to use from several threads.

    Args:
        credentials: Passwords, tokens and keys in use. Empty ones are skipped.
        salt: The salt of the run, if it began elsewhere; by default a new one.
        named: Names of arguments that are secret, in any case of letters, or JSON pointers to them.
    """

    def __init__(
        self, credentials: Iterable[str] = (), *, salt: bytes | None = None, named: Iterable[str] = ()
    ) -> None:
        self.salt = salt or secrets.token_bytes(16)
        self.named = frozenset(name if name.startswith("/") else name.casefold() for name in named if name)
        self._texts = KnownSecrets(())
        self._digests: dict[str, str] = {}
        self._learning = threading.Lock()
        self.learn(credentials)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.known)} secrets>"

    @property
    def known(self) -> frozenset[str]:
        """The secrets; the same object until another secret is learned. It must not be written anywhere."""
        return self._texts.all

    def salted(self, salt: bytes, named: Collection[str] | None = None) -> SecretMarker:
        """A marker with the same secrets and another salt, for a run that began in another process."""
        return SecretMarker(self.known, salt=salt, named=self.named if named is None else named)

    def learn(self, credentials: Iterable[str]) -> None:
        """Adds secrets before they are used. Empty ones are skipped."""
        new = {secret for secret in credentials if secret} - self.known
        if new:
            with self._learning:
                self._texts = KnownSecrets(self.known | new)

    def for_call(
        self, arguments: Mapping[str, Any], *schemas: str
    ) -> tuple[SecretMarker, dict[str, Any] | None]:
        """Makes the marker of one call, which also knows the secrets among the arguments.

        So such an argument is also hidden where the server repeats it. A schema that cannot be read calls
        nothing secret. Beside the marker stands what `marked` would make of the arguments, if they hold no
        secret: most calls have none, so that one look at them is enough.
        """
        values: list[Any] = []

        def note(value: Any) -> str:
            values.append(value)
            return ""

        unmarked = _Arguments(self.named, note, self._texts).hide(arguments, *schemas)
        if not values:
            return self, unmarked
        # A copy that shares salt and digests:
        # what one call sent must not be hidden in the answers of others.
        marker = copy.copy(self)
        marker.learn(
            scalar if isinstance(scalar, str) else json.dumps(scalar)
            for value in values
            for scalar in _scalars(value)
        )
        return marker, None

    def mark(self, arguments: Mapping[str, Any], *schemas: str) -> dict[str, Any]:
        """A copy of the arguments of a call with marks instead of secrets.

        Several schemas are those of the tools that may be meant.
        """
        return self.marked(arguments, *schemas)[0]

    def marked(
        self, arguments: Mapping[str, Any], *schemas: str, by_name: bool = True
    ) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
        """Like `mark`, and the digests in each argument by JSON pointer.

        Without `by_name` only credentials in use are looked for, as the others have their marks already.
        """
        hiding = _Arguments(self.named, self._mark, self._texts, by_name=by_name)
        marked = hiding.hide(arguments, *schemas)
        return marked, {pointer: tuple(marks) for pointer, marks in hiding.found.items()}

    def data(self, value: Any, counts: Counter[str] | None = None) -> Any:
        """Text or a JSON value that a person or a tool wrote, with marks instead of secrets that stand out.

        The same object if it has none. `counts` counts the digests.
        """

        def replaced(secret: str) -> str:
            digest = self._digest(secret)
            if counts is not None:
                counts[digest] += 1
            return mark_of(digest)

        return self._texts.in_data(value, replaced)

    def shown(self, value: Any, *schemas: str) -> Any:
        """A value that is saved beside a call; like `data`, and without members with a secret name.

        With `schemas` it is the arguments of a tool, see `mark`.
        """
        if schemas and isinstance(value, dict):
            return self.mark(cast("dict[str, Any]", value), *schemas)
        return self.mark({"": value})[""]

    def text(self, text: str) -> str:
        """A text about a call without secrets; texts of others in it are marked by `texts.foreign`."""
        return ours(self._texts.in_text(text, self._mark))

    def foreign(self, text: str) -> str:
        """A text of others about a call, such as a report of progress, without secrets."""
        return self._texts.in_foreign(text, self._mark)

    def may_name_one(self, text: str) -> bool:
        """Returns whether a text that is no JSON, but was to be, may hold a secret argument."""
        return any(is_secret_member(n, "?") or n.casefold() in self.named for n in _NAME.findall(text))

    def is_same(self, digest: str, secret: str) -> bool:
        """Returns whether a mark of a run with this salt stands for a secret."""
        return self._digest(secret) == digest

    def _mark(self, value: Any) -> str:
        return mark_of(self._digest(value if isinstance(value, str) else canonical_json(value)))

    def _digest(self, secret: str) -> str:
        digest = self._digests.get(secret)
        if digest is None:
            data = secret.encode(errors="surrogatepass")
            # A plain hash of a short password could be guessed from a published record.
            digest = hashlib.scrypt(data, salt=self.salt, dklen=_DIGITS // 2, **_COST).hex()
            self._digests[secret] = digest
        return digest


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a schema, and the whole of it."""

    schema: Any
    root: Mapping[str, Any]

    @property
    def is_secret(self) -> bool:
        parts = parts_of(self.schema, self.root)
        # Where some parts were not read, one of them may call the value secret.
        return len(parts) >= MOST_PARTS or any(
            part.get("format") == "password" or part.get("writeOnly") is True for part in parts
        )

    def member(self, name: str) -> _Part:
        return _Part(member(self.schema, self.root, name), self.root)

    def items(self) -> _Part:
        return _Part(items(self.schema, self.root), self.root)


class _Arguments:
    """Looks for the secrets among the arguments of a call; ``hidden`` gives what takes the place of one.

    Without ``by_name`` only the credentials in use, ``texts``, count, with ``by_form`` also what texts name.
    """

    def __init__(
        self,
        named: frozenset[str],
        hidden: Callable[[Any], Any],
        texts: KnownSecrets | None = None,
        *,
        by_name: bool = True,
        by_form: bool = False,
    ) -> None:
        self._named, self._hidden, self._texts, self._by_name = named, hidden, texts, by_name
        self._by_form = by_form
        self.found: dict[str, list[str]] = {}  # digests by JSON pointer

    def hide(self, arguments: Mapping[str, Any], *schemas: str) -> dict[str, Any]:
        self._by_form = bool(schemas)  # what a person or a model said otherwise is no call's
        parsed = [schema for text in schemas if (schema := _schema_with_secrets(text)) is not None]
        roots = [_Part(schema, schema) for schema in parsed]
        # The schema as a whole is declared secret: so is each argument.
        if roots and any(part.is_secret for part in roots):
            return {name: self._whole(value, pointer_step(name)) for name, value in arguments.items()}
        return self._copy(dict(arguments), roots, "")

    def _copy(self, value: Any, parts: list[_Part], pointer: str, depth: int = 0) -> Any:
        match value:
            case dict() if depth <= DEEPEST:
                members = cast("dict[str, Any]", value)
                return {
                    name: self._member(
                        inner,
                        [part.member(name) for part in parts],
                        _names(name, members),
                        pointer + pointer_step(name),
                        depth + 1,
                    )
                    for name, inner in members.items()
                }
            case list() if depth <= DEEPEST:
                entries = [part.items() for part in parts]
                items = cast("list[Any]", value)
                return [
                    self._member(inner, entries, _option(items, place), f"{pointer}/{place}", depth + 1)
                    for place, inner in enumerate(items)
                ]
            case dict() | list() if self._by_name:
                return self._whole(_TOO_DEEP, pointer)  # no call is made with it, and it may hold a secret
            case str() if self._by_name and self._by_form:
                return self._credentials(self._text(value, parts, pointer, depth), pointer)
            case _:
                return self._credentials(value, pointer)

    def _text(
        self, text: str, parts: list[_Part], pointer: str, depth: int, known: frozenset[str] = frozenset()
    ) -> str:
        """A text without what it names as a secret itself: JSON, an address, a form.

        JSON text also loses its strings that are ``known`` secrets of the text around it.
        """
        pieces, end = list[str](), 0
        for start, stop in _in_form(text):
            pieces += text[end:start], f"{self._whole(text[start:stop], pointer)}"
            end = stop
        text = "".join([*pieces, text[end:]])
        if text.lstrip()[:1] not in ("{", "[") or depth > DEEPEST:
            return text
        names: set[str] = set()
        try:
            value = json.loads(text, object_hook=lambda members: names.update(members) or members)
            may_name_one = bool(parts) or self._may_name_one(names, value)
        except (ValueError, RecursionError):
            return text
        found: list[Any] = []
        if may_name_one:
            _Arguments(self._named, found.append, by_form=True)._copy(value, parts, "", depth + 1)
        scalars = [scalar for hidden in found for scalar in _scalars(hidden)]
        if any(scalar is _TOO_DEEP or not isinstance(scalar, str) for scalar in scalars):
            return self._whole(text, pointer)  # a number has no place of its own in a text
        secrets = known.union(scalars)

        def marked(string: re.Match[str]) -> str:
            if _COLON.match(text, string.end()):  # the name of a member
                return string[0]
            before = json.loads(string[0])
            is_known = before in secrets
            after = (
                self._whole(before, pointer)
                if is_known
                else self._text(before, [], pointer, depth + 1, secrets)
            )
            return string[0] if after == before else json.dumps(after, ensure_ascii=False)

        return _STRING.sub(marked, text) if secrets else text

    def _may_name_one(self, names: Iterable[str], value: Any) -> bool:
        """A quick look at what JSON text says, with the names of its members, as most has no secret."""
        return (
            any(n.casefold() in self._named or is_secret_member(n, "?") or _VALUE.fullmatch(n) for n in names)
            or any(name.startswith("/") for name in self._named)
            or _HINT.search(json.dumps(value, ensure_ascii=False)) is not None
        )

    def _member(
        self, value: Any, parts: list[_Part], names: tuple[str, ...], pointer: str, depth: int
    ) -> Any:
        if value is not None and self._by_name and self._is_secret(value, parts, names, pointer):
            return self._whole(value, pointer)
        return self._copy(value, parts, pointer, depth)

    def _is_secret(self, value: Any, parts: list[_Part], names: tuple[str, ...], pointer: str) -> bool:
        """Whether the user, its name or the schema says so."""
        for name in names:
            if name.casefold() in self._named or is_secret_member(name, value):
                return True
        return pointer in self._named or any(part.is_secret for part in parts)

    def _whole(self, value: Any, pointer: str) -> Any:
        return value if value is None else self._noted(pointer, self._hidden(value))

    def _credentials(self, value: Any, pointer: str) -> Any:
        if self._texts is None:
            return value
        return self._texts.in_data(value, lambda secret: self._noted(pointer, self._hidden(secret)))

    def _noted(self, pointer: str, mark: Any) -> Any:
        if isinstance(mark, str):
            self.found.setdefault(pointer, []).append(mark[8:-1])
        return mark


def _names(name: str, members: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a member; a list of headers or settings has objects with a name and a value."""
    beside = _VALUE.fullmatch(name)
    if beside is None:
        return (name,)
    titles = (text for key, text in members.items() if _TITLE.fullmatch(key) and isinstance(text, str))
    return name, *cast("Iterator[str]", titles)


def _option(items: list[Any], place: int) -> tuple[str, ...]:
    """The option of a command before its value, such as ``--password``."""
    before = items[place - 1] if place else None
    if isinstance(before, str) and before.startswith("-") and not str(items[place]).startswith("-"):
        return (before,)
    return ()


def _in_form(text: str) -> Iterator[tuple[int, int]]:
    """Where the secrets stand that a header, an address, a form or a list of settings names."""
    header, password = _HEADER.fullmatch(text), _PASSWORD.match(text)
    if header is not None and is_secret_member(header[1], header[2]):
        yield header.span(2)
        return
    if password is not None:
        yield password.span(1)
    is_address = _ADDRESS.match(text) is not None
    query = text.partition("?")[2].partition("#")[0] if is_address else text
    begin = text.find("?") + 1 if is_address else 0
    for pair in re.finditer("[^&;]+", query) if _PAIRS.fullmatch(query) else ():
        name, _, value = pair[0].partition("=")
        if is_secret_member(unquote_plus(name), value) or (name == "sig" and value):  # of Azure
            yield begin + pair.end() - len(value), begin + pair.end()


def calls_something_secret(schema_json: str) -> bool:
    """Returns whether a schema may call some argument secret; False for one that cannot be read."""
    return _schema_with_secrets(schema_json) is not None


@lru_cache(maxsize=256)
def _schema_with_secrets(schema_json: str) -> dict[str, Any] | None:
    """Parses a schema that may call something secret; None for all other schemas."""
    # A search instead of parsing: hardly any schema says that something is secret.
    if not any(word in schema_json for word in ("password", "writeOnly")):
        return None
    try:
        schema = json.loads(schema_json)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", schema) if isinstance(schema, dict) else None


def _scalars(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            for inner in cast("dict[str, Any]", value).values():
                yield from _scalars(inner)
        case list():
            for inner in cast("list[Any]", value):
                yield from _scalars(inner)
        case None | bool():
            pass
        case _:
            yield value
