"""Static authorization: the headers that prove to a server who is calling, and hiding their secrets.

An authorization object yields headers; the transports send them to the server's own origin and nowhere
else, because they neither follow redirects to another origin nor accept an SSE endpoint on one.

A server's texts go into tables, files and the contexts of models, so a secret that the server repeats is
hidden in them, by the rules of `types.secret_rules`. In definitions, of tools and others, only texts for
readers are changed: what a request needs, such as names and URIs, stays even if it equals a secret.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast, runtime_checkable
from urllib.parse import parse_qsl, urlsplit

from ..types.errors import MCPError, ServerError, SettingInvalid
from ..types.routing import check_header_name
from ..types.secret_rules import KnownSecrets, looks_secret, stands_out
from ..types.texts import ours
from .clock import IsCanceled
from .protocol.messages import map_texts
from .protocol.negotiation import ServerInfo
from .transports.base import Step

_TEXTS: Final = frozenset({"$comment", "default", "description", "example", "examples", "title"})
IDENTITY_VARIABLE: Final = "KNIME_MCP_IDENTITY"
"""The environment's variable with the file of `oauth.identity`."""
BLACK: Final = "[secret]"
"""What takes the place of a secret in texts of the client."""


class Authorization(Protocol):
    """Authenticates a caller to one server."""

    def headers(self, is_canceled: IsCanceled | None = None, /) -> dict[str, str]:
        """Headers for the next request. Called before every request, so that a token may be renewed."""
        ...

    def challenged(
        self, status: int, challenge: str | None, is_canceled: IsCanceled | None = None, /
    ) -> bool:
        """Reacts to a refusal (401 or 403). True if there are new credentials, for sending it again."""
        ...

    @property
    def identity(self) -> str:
        """A key for the caller in caches; reveals nothing about the secret."""
        ...

    def describe(self) -> str:
        """The kind of credential for error messages ("a Bearer token"), without the secret."""
        ...

    def secrets(self) -> tuple[str, ...]:
        """The secrets, which are blacked out in all texts of servers."""
        ...


@runtime_checkable
class ProvesPossession(Protocol):
    """An authorization whose tokens may be bound to a key, so that each request has a proof of its own."""

    def proof(self, method: str, url: str, body: bytes | None, /) -> dict[str, str]:
        """Headers beside those of `Authorization.headers`, which was called just before in this thread."""
        ...

    def take_nonce(self, nonce: str, /) -> None:
        """Learns what the server wants to see in later proofs."""
        ...


def header_secrets(values: Iterable[str]) -> Iterator[str]:
    """The values of headers, whole and without their scheme: a server may repeat the token alone."""
    for value in values:
        yield value
        # RFC 9110 §11.4: scheme, blank, credentials.
        # Error messages of servers often quote the credentials alone.
        yield value.rpartition(" ")[2]


class StaticAuthorization:
    """Base of authorizations whose headers never change; a refusal is final."""

    __slots__ = ()

    def headers(self, _: IsCanceled | None = None, /) -> dict[str, str]:
        raise NotImplementedError

    def challenged(self, status: int, challenge: str | None, _: IsCanceled | None = None, /) -> bool:  # noqa: ARG002
        return False

    @property
    def identity(self) -> str:
        """A digest of the headers: equal credentials share caches, different credentials never do."""
        text = "\n".join(f"{name.lower()}:{value}" for name, value in sorted(self.headers().items()))
        return hashlib.sha256(text.encode()).hexdigest()

    def describe(self) -> str:
        raise NotImplementedError

    def secrets(self) -> tuple[str, ...]:
        return tuple(header_secrets(self.headers().values()))


@dataclass(frozen=True, slots=True)
class BearerAuth(StaticAuthorization):
    """``Authorization: Bearer <token>``.

    Args:
        token: The token, as visible ASCII without spaces.

    Raises:
        SettingInvalid: The token is empty or cannot stand in a header.
    """

    token: str = field(repr=False)
    credential: str = field(default="", kw_only=True, compare=False)  # its name, for errors

    def __post_init__(self) -> None:
        check_header_value("credentials", "the token", self.token)
        if " " in self.token:
            raise SettingInvalid(
                "The token contains a space, so it is not a Bearer token.",
                setting="credentials",
                fix="Enter the bare token, without the word 'Bearer' in front of it.",
            )

    def headers(self, _: IsCanceled | None = None, /) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def describe(self) -> str:
        return "a Bearer token"


@dataclass(frozen=True, slots=True)
class BasicAuth(StaticAuthorization):
    """``Authorization: Basic``, user name and password as UTF-8 (RFC 7617).

    Raises:
        SettingInvalid: The user name contains a colon, which the scheme cannot carry.
    """

    username: str
    password: str = field(repr=False)
    credential: str = field(default="", kw_only=True, compare=False)  # its name, for errors

    def __post_init__(self) -> None:
        if ":" in self.username:
            raise SettingInvalid(
                "A user name with a colon cannot be sent as Basic authentication.",
                setting="credentials",
                fix="Use a user name without ':' or send the credentials another way.",
            )

    def headers(self, _: IsCanceled | None = None, /) -> dict[str, str]:
        # RFC 7617 §2.1: UTF-8 is the only encoding that a server can ask for.
        pair = f"{self.username}:{self.password}".encode(errors="replace")
        return {"Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}

    def describe(self) -> str:
        return "a user name and password (Basic)"

    def secrets(self) -> tuple[str, ...]:
        # Not the bare `super()`: a dataclass with slots is a new class, which that would not know.
        return (*super(BasicAuth, self).secrets(), self.password)


@dataclass(frozen=True, slots=True)
class HeaderAuth(StaticAuthorization):
    """A secret in a header of the server's choice, such as ``X-API-Key``.

    Raises:
        SettingInvalid: Name or value cannot stand in a header.
    """

    name: str
    value: str = field(repr=False)
    credential: str = field(default="", kw_only=True, compare=False)  # its name, for errors

    def __post_init__(self) -> None:
        check_header_name(self.name, "header_name")
        check_header_value("credentials", f"the value of header {self.name}", self.value)

    def headers(self, _: IsCanceled | None = None, /) -> dict[str, str]:
        return {self.name: self.value}

    def describe(self) -> str:
        return f"the header {self.name}"


class OwnHeader(HeaderAuth):
    """The header ``Authorization`` that somebody wrote among the headers."""

    __slots__ = ()

    def describe(self) -> str:
        scheme, blank, _ = self.value.partition(" ")  # the scheme is no secret, a bare token is one
        return f"your own header {self.name}" + (f" ({ours(scheme)[:20]})" if blank else "")


def check_header_value(setting: str, what: str, value: str) -> None:
    """Refuses a value that HTTP cannot carry, as httpx sends control characters; the error never shows it."""
    if not value or value != value.strip() or not all(" " <= c <= "~" for c in value):
        raise SettingInvalid(
            f"{what[0].upper()}{what[1:]} is empty, or has spaces at its ends, line breaks or characters "
            "outside ASCII.",
            setting=setting,
            fix="Enter it again; a line break at the end of a pasted secret is the usual cause.",
        )


class _Listed(Protocol):
    @property
    def raw(self) -> dict[str, Any]: ...


T = TypeVar("T", bound=_Listed)


def definitions_without(
    secrets: Iterable[str], definitions: list[T], changed: Callable[[dict[str, Any], T], T]
) -> list[T]:
    """Removes secrets from the texts of definitions; digests are then those of the changed definitions.

    Definitions are data that models read, so they lose only secrets that stand out.
    """
    known = KnownSecrets(secrets)
    return [
        definition
        if (raw := _in_definition(known, definition.raw)) is definition.raw
        else changed(raw, definition)
        for definition in definitions
    ]


def server_without(secrets: Iterable[str], info: ServerInfo) -> ServerInfo:
    """Removes secrets from what a server says about itself; see `definitions_without`."""
    parts = {name: getattr(info, name) for name in ("name", "title", "version", "instructions")}
    return replace(info, **KnownSecrets(secrets).in_data(parts, _black))


def secrets_in(headers: Mapping[str, str], url: str) -> Iterator[str]:
    """The values that look secret among the configured headers and in the URL's query."""
    for name, value in (*headers.items(), *parse_qsl(urlsplit(url).query)):
        if looks_secret(name, value):
            yield from header_secrets([value])


def values_in(headers: Mapping[str, str], url: str) -> Iterator[str]:
    """The values of headers and of the URL's query that look secret, or stand out, and the query."""
    yield from secrets_in(headers, url)
    query = urlsplit(url).query
    others = (*header_secrets(headers.values()), *(value for _, value in parse_qsl(query)), query)
    yield from filter(stands_out, others)


def error_without(secrets: Iterable[str], error: MCPError) -> MCPError:
    """Removes secrets that a server repeated from an error, and returns the error, changed in place."""
    known = KnownSecrets(secrets)
    error.rewrite(partial(known.in_text, replace=_black))
    if isinstance(error, ServerError):
        error.data = map_texts(error.data, partial(known.in_foreign, replace=_black))
    return error


def step_without(secrets: Iterable[str], step: Step) -> Step:
    """Removes secrets that a server repeated from its answer to a step of connecting."""
    return replace(step, detail=ours(KnownSecrets(secrets).in_text(step.detail, _black)))


def _in_definition(known: KnownSecrets, value: Any) -> Any:
    """A definition without secrets in texts for readers; the same object if it has none."""
    return _in_texts(known, value) if known.in_data(value, _black) is not value else value


def _in_texts(known: KnownSecrets, value: Any) -> Any:
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return {
                key: known.in_data(inner, _black) if key in _TEXTS else _in_texts(known, inner)
                for key, inner in members.items()
            }
        case list():
            return [_in_texts(known, inner) for inner in cast("list[Any]", value)]
        case _:
            return value


def _black(_: str) -> str:
    return BLACK
