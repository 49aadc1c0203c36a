"""The route to a tool's server, and its text in a tool cell's field ``server_uri``.

The text is the server's URL with a fragment of all options that differ from the default, as in
``https://host/mcp#tool=remote_name&credential=prod&transport=sse``. A fragment is never sent to a server
(https://www.rfc-editor.org/rfc/rfc9110#section-4.2.5), the field stays a valid URI, and code that knows the
documented fields only keeps it. A route never holds a secret: a credential is a *name*, and if a server
requires its key in the URL or in a special header, the value is a template that is filled in at call time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from .errors import SettingInvalid
from .secret_rules import looks_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

SendCredentialsAs = Literal["bearer", "basic", "header", "client_credentials"]
TransportName = Literal["auto", "http", "sse"]

TEMPLATES: Final = ("{credential.password}", "{credential.username}")
"""Templates in query values and header values, which are filled in from the credential at call time."""

_QUOTED_TEMPLATES: Final = [(template, quote(template, safe="")) for template in TEMPLATES]
_SAFE_IN_FRAGMENT: Final = "/:?@!$'()*,;"
_PLAIN: Final = re.compile(r"[\w.-]+", re.ASCII)
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2
# https://www.rfc-editor.org/rfc/rfc6749#section-3.3
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")
# `urlsplit` drops line breaks and tabs, and so would judge another URL than the one that is sent.
_UNUSABLE_IN_URL: Final = re.compile(r"[\x00-\x20\x7f\\<>\"\ud800-\udfff]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ServerRoute:
    """The route to a server: its URL, and the options that differ from the default.

    The text of a route, the options of commands and nodes, and what tells servers apart follow from these
    attributes.

    Attributes:
        url: ``http(s)://…`` without fragment, or ``stdio:<name>``, as in the column *Server*. Values of query
            parameters may hold `TEMPLATES`, never a secret.
        credential: Name of the credential, None for no credential.
        send_credentials_as: As bearer token, basic authentication, in the header `header_name`, or to the
            authorization server `issuer` in exchange for a token (OAuth client credentials: the user name is
            the client id, the password its secret).
        header_name: The header for the credential's password.
        issuer: URL of the only authorization server that gets the client secret. Client credentials require
            it, because otherwise an MCP server could name another server and collect the secret.
        scope: OAuth scopes to request, separated by spaces; None for the scopes that the server names.
        headers: Further headers, as pairs of name and value; a header that looks like a secret must have a
            template in its value.
        transport: ``http`` is streamable HTTP, ``sse`` the older HTTP+SSE; ``auto`` detects which one works.
        tool: The server's name for the tool.
        digest: The pin, see `knime_mcp.types.texts`.

    Raises:
        SettingInvalid: A part cannot work, or holds a secret, which the message does not show.
    """

    url: str
    credential: str | None = None
    send_credentials_as: SendCredentialsAs = "bearer"
    header_name: str | None = None
    issuer: str | None = None
    scope: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    transport: TransportName = "auto"
    tool: str | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        url = self.url.strip()
        for template, quoted in _QUOTED_TEMPLATES:
            url = url.replace(quoted, template)
        object.__setattr__(self, "url", url)
        for field in fields(self):
            if field.default is None:
                object.__setattr__(self, field.name, getattr(self, field.name) or None)  # "" as in a dialog
        _check_route_url(url)
        _check_choice(self.send_credentials_as, get_args(SendCredentialsAs), "send_credentials_as")
        _check_choice(self.transport, get_args(TransportName), "transport")
        if self.header_name is not None:
            check_header_name(self.header_name, "header_name")
        if self.issuer is not None:
            _check_issuer(self.issuer)
        if self.scope is not None and not _SCOPE.fullmatch(self.scope):
            raise SettingInvalid(
                "The scope holds a character that no OAuth scope can hold",
                setting="scope",
                fix="Enter scopes separated by single spaces, such as: tools.read tools.call",
            )
        for name, value in self.headers:
            _check_header(name, value)

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(server_uri: str) -> ServerRoute:
        """Reads a route from a cell or from a typed server URL; cached by the text.

        Raises:
            SettingInvalid: The text is empty or malformed, or has a scheme other than http, https and stdio,
                user information, a secret in the query, or a fragment that is no route.
        """
        url, _, fragment = server_uri.strip().partition("#")
        said: dict[str, Any] = {}
        headers: list[tuple[str, str]] = []
        for pair in filter(None, fragment.split("&")):
            key, equals, text = pair.partition("=")
            value = unquote(text)
            # The only key that may occur more than once.
            if key == "header":
                name, _, content = value.partition(":")
                headers.append((name, content))
            elif equals and key not in said and key in _IN_FRAGMENT:
                said[key] = value
            else:
                raise SettingInvalid(
                    "The part of the server URL after '#' says how to reach the server and cannot be read",
                    setting="server_url",
                    server=url,
                    fix="Remove it, or write only 'name=value', joined with '&', each once, with these names:"
                    f" {', '.join(_IN_FRAGMENT)}",
                )
        return ServerRoute(url, headers=tuple(headers), **said)

    @property
    def uri(self) -> str:
        """The route as a valid URI, which `parse` reads back to an equal route."""
        url = self.url
        for template, quoted in _QUOTED_TEMPLATES:
            url = url.replace(template, quoted)
        pairs: list[tuple[str, str]] = []
        for key, default in _IN_FRAGMENT.items():
            if key == "header":
                pairs += [(key, f"{name}:{value}") for name, value in self.headers]
            elif (value := getattr(self, key)) != default:
                pairs.append((key, value))
        options = [f"{key}={quote(value, _SAFE_IN_FRAGMENT)}" for key, value in pairs]
        return f"{url}#{'&'.join(options)}" if options else url

    def completed(self, options: ServerRoute) -> ServerRoute:
        """The route with the options and headers of another one where it has none of that name itself.

        How a credential is sent is taken over only with a credential.
        """
        without = () if options.credential else _OF_CREDENTIAL
        added = {
            key: getattr(options, key)
            for key, default in _IN_FRAGMENT.items()
            if key not in ("header", *without) and getattr(self, key) == default
        }
        own = {name.lower() for name, _ in self.headers}
        more = tuple(header for header in options.headers if header[0].lower() not in own)
        return replace(self, headers=(*more, *self.headers), **added)


_OF_CREDENTIAL: Final = ("credential", "send_credentials_as", "header_name", "issuer", "scope")
# The options by their names in the text, in its order, with their defaults; the tool comes first.
_IN_FRAGMENT: Final[dict[str, Any]] = {"tool": None} | {
    field.name.removesuffix("s") if field.name == "headers" else field.name: field.default
    for field in fields(ServerRoute)
    if field.name != "url"
}
OPTIONS: Final = tuple(name for name in _IN_FRAGMENT if name not in ("tool", "credential", "digest"))
"""The options that say how to reach a server, named as in the text of a route."""


def qualified(name: str, server: str, credential: str | None = None) -> str:
    """A tool's name with its server and, for two credentials of one server, with the credential's name."""
    return f"{name} @ {server}" + (f" as {credential}" if credential else "")


def merge_tool(server_uri: str, tool: str) -> str:
    """Adds the tool's name to a route's text without a tool, as `ServerRoute.uri` would write it.

    Works on the text, without parsing it, because columns have many cells.
    """
    url, _, fragment = server_uri.partition("#")
    text = f"{url}#tool={tool if _PLAIN.fullmatch(tool) else quote(tool, _SAFE_IN_FRAGMENT)}"
    return f"{text}&{fragment}" if fragment else text


def split_tool(server_uri: str) -> tuple[str, str | None]:
    """Splits a route's text into the route and the tool's name, or None: the inverse of `merge_tool`."""
    if "tool=" not in server_uri:  # a quick check, as most cells have no tool
        return server_uri, None
    url, mark, fragment = server_uri.partition("#tool=")
    if not mark:
        url, _, fragment = server_uri.partition("#")
        before, mark, after = fragment.partition("&tool=")
        if not mark:
            return server_uri, None
        tool, _, after = after.partition("&")  # another program may write the options in another order
        fragment = f"{tool}&{before}&{after}".removesuffix("&")
    tool, _, rest = fragment.partition("&")
    return f"{url}#{rest}" if rest else url, unquote(tool) if "%" in tool else tool


def server_labels(servers: Sequence[str]) -> list[str]:
    """The shortest distinct names of servers: host and port, with the path if two servers share both."""
    parts = [urlsplit(server) for server in servers]
    # A name that people see has no user and password in it.
    hosts = [part.netloc.rpartition("@")[2] or server for part, server in zip(parts, servers, strict=True)]
    paths_of_host: dict[str, set[str]] = {}
    for part, host in zip(parts, hosts, strict=True):
        paths_of_host.setdefault(host, set()).add(part.path)
    return [
        f"{host}{part.path}" if part.netloc and len(paths_of_host[host]) > 1 else host
        for part, host in zip(parts, hosts, strict=True)
    ]


@lru_cache(maxsize=1024)  # all tools of a server have one URL
def _check_route_url(url: str) -> None:
    if url == "stdio:":
        raise _malformed("names no command", fix="Write stdio:<name>")
    if not url.startswith("stdio:") or _UNUSABLE_IN_URL.search(url) or "#" in url:
        _check_query(url, check_url(url).query)


def check_url(url: str) -> SplitResult:
    """The parts of an http or https URL without a fragment.

    Raises `SettingInvalid`, without the URL, as any part of a malformed URL may be a secret.
    """
    if not url:
        raise SettingInvalid(
            "The server URL is empty",
            setting="server_url",
            fix="Enter the server's URL, such as https://host/mcp",
        )
    if " " in url and "://" not in url and not url.startswith("stdio:"):
        raise _malformed(
            "is a command or another text",
            fix="Run the server over HTTP and enter its full URL, such as https://host/mcp",
        )
    if _UNUSABLE_IN_URL.search(url) or "#" in url:
        raise _malformed("holds a space or another character that no URL can hold")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port  # reading the port checks it
    except ValueError:
        raise _malformed("has a malformed host or port") from None
    if "://" not in url:
        raise _malformed("does not start with http:// or https://")
    if parts.scheme not in {"http", "https"}:
        raise _malformed(f"starts with {parts.scheme}://, which is not a way to reach an MCP server")
    if "@" in parts.netloc:
        raise SettingInvalid(
            "The server URL holds a user name or password before '@', which would end up in tables and logs",
            setting="server_url",
            server=url,
            fix="Remove that part, and give user name and password as a credential, in KNIME with a"
            " Credentials Configuration node",
        )
    if not host:
        raise _malformed("names no host")
    if port == 0:  # other code would take the default port
        raise _malformed("has a malformed host or port")
    return parts


def _check_query(url: str, query: str) -> None:
    for name, value in parse_qsl(query, keep_blank_values=True):
        if any(template in name for template in TEMPLATES):
            raise _malformed("has a credential template in the name of a query parameter")
        if looks_secret(name, value):
            raise SettingInvalid(
                f"The query parameter '{name}' of the server URL looks like a secret, which would end up in"
                " tables and logs",
                setting="server_url",
                server=url,
                fix=f"Put the secret into a credential, choose that credential, and write"
                f" {name}={{credential.password}} in the URL",
            )
    url_without_query = url.partition("?")[0]
    if any(template in url_without_query for template in TEMPLATES):
        raise _malformed("has a credential template outside the values of its query parameters")


def _check_issuer(issuer: str) -> None:
    """An issuer is a URL without query and fragment: https://www.rfc-editor.org/rfc/rfc8414#section-2."""
    try:
        parts = urlsplit(issuer)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    else:
        usable = usable and "@" not in parts.netloc and not parts.query and "#" not in issuer
    if not usable or _UNUSABLE_IN_URL.search(issuer):
        raise SettingInvalid(
            "The issuer is not the URL of an authorization server",
            setting="issuer",
            fix="Enter it as the authorization server's documentation gives it, such as https://login.host/realm",
        )


def check_header_name(name: str, setting: str) -> None:
    if not HEADER_NAME.fullmatch(name):
        raise SettingInvalid(
            "The name of a header is empty or holds a character that no header name can hold",
            setting=setting,
            fix="Use letters, digits and hyphens, such as X-Api-Key",
        )


def _check_header(name: str, value: str) -> None:
    check_header_name(name, "headers")
    if _CONTROL.search(value) or value != value.strip():
        raise SettingInvalid(
            f"The value of the header '{name}' starts or ends with a space, or holds a line break or another"
            " character that no header can hold",
            setting="headers",
            fix="Remove that character",
        )
    if looks_secret(name, value):
        raise SettingInvalid(
            f"The header '{name}' looks like a secret, which would end up in tables and logs",
            setting="headers",
            fix=f"Put the secret into a credential, choose that credential, and write {TEMPLATES[0]} where"
            " the secret belongs",
        )


def _check_choice(value: str, choices: tuple[str, ...], setting: str) -> None:
    if value not in choices:
        raise SettingInvalid(
            f"'{value}' is no possible value of {setting}",
            setting=setting,
            fix=f"Choose one of {', '.join(choices)}",
        )


def _malformed(reason: str, *, fix: str = "Enter the full URL, such as https://host/mcp") -> SettingInvalid:
    # The URL is not shown, as any part of a malformed URL may be a secret.
    return SettingInvalid(f"The server URL {reason}", setting="server_url", fix=fix)
