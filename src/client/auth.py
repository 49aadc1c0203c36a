"""Static authorization: the headers that prove to a server who is calling.

An authorization object yields headers; the transports send them to the server's own origin and nowhere
else, because they neither follow redirects to another origin nor accept an SSE endpoint on one.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from ..types.errors import SettingInvalid
from .clock import IsCanceled
from .protocol.headers import TOKEN


class Authorization(Protocol):
    """Authenticates a caller to one server."""

    def headers(self, is_canceled: IsCanceled | None = None, /) -> dict[str, str]:
        """Headers for the next request. Called before every request, so that a token may be renewed.

        Args:
            is_canceled: Called at least every 0.5 s while a token is obtained.
        """
        ...

    def challenged(
        self, status: int, challenge: str | None, is_canceled: IsCanceled | None = None, /
    ) -> bool:
        """Reacts to a refusal (401 or 403) with this ``WWW-Authenticate`` value.

        Returns:
            True if new credentials were obtained and the request should be sent again.
        """
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


def header_secrets(values: Iterable[str]) -> Iterator[str]:
    """The values of headers, whole and without their scheme: a server may repeat the token alone."""
    for value in values:
        yield value
        yield value.rpartition(" ")[2]


class StaticAuthorization:
    """Base of authorizations whose headers never change; a refusal is final."""

    __slots__ = ()

    def headers(self, _: IsCanceled | None = None, /) -> dict[str, str]:
        """Headers for every request."""
        raise NotImplementedError

    def challenged(self, status: int, challenge: str | None, _: IsCanceled | None = None, /) -> bool:  # noqa: ARG002
        """A static credential cannot be renewed."""
        return False

    @property
    def identity(self) -> str:
        """A digest of the headers: equal credentials share caches, different credentials never do."""
        text = "\n".join(f"{name.lower()}:{value}" for name, value in sorted(self.headers().items()))
        return hashlib.sha256(text.encode()).hexdigest()

    def describe(self) -> str:
        """See the protocol class."""
        raise NotImplementedError

    def secrets(self) -> tuple[str, ...]:
        """The values of the headers, whole and without their scheme."""
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

    def __post_init__(self) -> None:
        check_header_value("credentials", "the token", self.token)
        if " " in self.token:
            raise SettingInvalid(
                "The token contains a space, so it is not a Bearer token.",
                setting="credentials",
                fix="Enter the bare token, without the word 'Bearer' in front of it.",
            )

    def headers(self, _: IsCanceled | None = None, /) -> dict[str, str]:
        """See the base class."""
        return {"Authorization": f"Bearer {self.token}"}

    def describe(self) -> str:
        """See the base class."""
        return "a Bearer token"


@dataclass(frozen=True, slots=True)
class BasicAuth(StaticAuthorization):
    """``Authorization: Basic``, user name and password as UTF-8 (RFC 7617).

    Raises:
        SettingInvalid: The user name contains a colon, which the scheme cannot carry.
    """

    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if ":" in self.username:
            raise SettingInvalid(
                "A user name with a colon cannot be sent as Basic authentication.",
                setting="credentials",
                fix="Use a user name without ':' or send the credentials another way.",
            )

    def headers(self, _: IsCanceled | None = None, /) -> dict[str, str]:
        """See the base class."""
        pair = f"{self.username}:{self.password}".encode(errors="replace")
        return {"Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}

    def describe(self) -> str:
        """See the base class."""
        return "a user name and password (Basic)"

    def secrets(self) -> tuple[str, ...]:
        """See the base class."""
        return (*super(BasicAuth, self).secrets(), self.password)


@dataclass(frozen=True, slots=True)
class HeaderAuth(StaticAuthorization):
    """A secret in a header of the server's choice, such as ``X-API-Key``.

    Raises:
        SettingInvalid: Name or value cannot stand in a header.
    """

    name: str
    value: str = field(repr=False)

    def __post_init__(self) -> None:
        check_header_name("header_name", self.name)
        check_header_value("credentials", f"the value of header {self.name}", self.value)

    def headers(self, _: IsCanceled | None = None, /) -> dict[str, str]:
        """See the base class."""
        return {self.name: self.value}

    def describe(self) -> str:
        """See the base class."""
        return f"the header {self.name}"


def check_header_name(setting: str, name: str) -> None:
    """Refuses a header name that HTTP cannot carry.

    Raises:
        SettingInvalid: Naming the setting.
    """
    if not name or not TOKEN.issuperset(name):
        raise SettingInvalid(
            f"{name!r} is not a header name.",
            setting=setting,
            fix="Use letters, digits and '-' only, for example X-API-Key.",
        )


def check_header_value(setting: str, what: str, value: str) -> None:
    """Refuses a header value that HTTP cannot carry: httpx sends control characters unchecked.

    Raises:
        SettingInvalid: Naming the setting, never the value.
    """
    if not value or value != value.strip() or not all(" " <= c <= "~" for c in value):
        raise SettingInvalid(
            f"{what[0].upper()}{what[1:]} is empty, or has spaces at its ends, line breaks or characters "
            "outside ASCII.",
            setting=setting,
            fix="Enter it again; a line break at the end of a pasted secret is the usual cause.",
        )
