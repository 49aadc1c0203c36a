"""Reads refusals, and turns them into errors that tell a person what to do next."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from ..types.errors import AuthError, ConnectError, MCPError, ProtocolError, ServerError
from ..types.texts import foreign, origin_and_path
from .authorization import Authorization
from .protocol.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    URL_ELICITATION_REQUIRED,
    Answer,
    Refusal,
    Response,
    RpcError,
    as_list,
    as_object,
    error_of,
)

_LONGEST_MESSAGE: Final = 1000
_MOST_PAGES, _LONGEST_PAGE = 5, 200
_LONGEST_ATTEMPT: Final = 200  # characters of each attempt in a list
_HOST: Final = re.compile(r"\bhost\b|localhost", re.IGNORECASE)
_PATH: Final = "Check the path of the URL: MCP servers usually live at /mcp, older ones at /sse"
_TRANSPORT: Final = "The server does not follow the MCP transport; ask whoever runs it"
_FIXES: Final[dict[int, str]] = {
    400: "Check that the URL is the server's MCP endpoint; if it is, look into the server's log",
    402: "Ask whoever runs the server: it wants to be paid first",
    404: _PATH,
    405: _PATH,
    406: _TRANSPORT,
    408: "Ask whoever runs the server: it, or a proxy in front of it, gave up waiting",
    409: "Another session may be open",
    413: "The arguments are too large for the server; send less at once",
    415: _TRANSPORT,
    421: "Use the host name that the server is configured for",
    422: "Compare the arguments with what the tool wants, or look into the server's log",
    429: "Try again later, or make fewer calls at once",
}
_RPC_FIXES: Final[dict[int, str]] = {
    INVALID_PARAMS: "Compare name and arguments with what the server lists now",
    METHOD_NOT_FOUND: "The server does not offer this; list its tools again",
    HEADER_MISMATCH: "A proxy in between may change headers; try a direct connection",
}
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"  # noqa: S105 - a grammar rule
# Possessive quantifiers, as a server could otherwise make backtracking take seconds.
_PART: Final = re.compile(
    rf'\s*+(?:(?P<name>{_TOKEN})\s*+=\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<bare>[^\s,"=]++))'
    rf"|(?P<scheme>{_TOKEN})(?:\s++(?P<token68>[A-Za-z0-9._~+/-]++=*+)(?=\s*+(?:,|$)))?)(?:\s*+(?:,|$)|(?=\s))"
)
_LONGEST: Final = 8192


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge: a scheme and its parameters, with names in lower case."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def parse_challenges(header: str | None) -> list[Challenge]:
    """Reads the challenges of a header, which may be several headers joined by commas.

    Unreadable parts are skipped, as many servers do not write this header correctly.
    """
    challenges: list[Challenge] = []
    text = (header or "")[:_LONGEST]
    position = 0
    parameters: dict[str, str] = {}
    while position < len(text):
        match = _PART.match(text, position)
        if match is None or match.end() == position:
            position += 1
            continue
        position = match.end()
        if match["scheme"]:
            parameters = {}
            challenges.append(Challenge(match["scheme"], parameters))
        elif challenges:
            # RFC 9110 §5.6.4: a backslash quotes the next character.
            value = match["bare"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
            # RFC 9110 §11.2: names are case-insensitive, and each occurs once;
            # of more the first one counts.
            parameters.setdefault(match["name"].lower(), value)
    return challenges


@dataclass(frozen=True, slots=True)
class BearerChallenge:
    """The parameters of a challenge for a token that a client uses.

    `wants_token` is False if the server names other schemes only: a refusal without a challenge is legal
    since 2025-11-25 and means Bearer.
    """

    wants_token: bool = True
    takes_bearer: bool = True
    takes_proof: bool = False  # a token that is bound to a key (RFC 9449 §7.1)
    resource_metadata: str | None = None  # URL of the protected resource metadata (RFC 9728 §5.1)
    scope: str | None = None  # separated by spaces
    error: str | None = None  # ``invalid_token``, ``insufficient_scope`` or another code

    @classmethod
    def read(cls, header: str | None) -> "BearerChallenge":
        """Reads a ``WWW-Authenticate`` value, which may hold several challenges and header lines."""
        challenges = parse_challenges(header)
        if not challenges:
            return cls()
        tokens = [challenge for challenge in challenges if challenge.scheme.lower() in {"bearer", "dpop"}]
        if not tokens:
            return cls(wants_token=False)
        schemes = {challenge.scheme.lower() for challenge in tokens}
        merged: dict[str, str] = {}
        for challenge in reversed(tokens):  # the first one wins
            merged |= challenge.parameters
        return cls(
            takes_bearer="bearer" in schemes,
            takes_proof="dpop" in schemes,
            resource_metadata=merged.get("resource_metadata") or None,
            scope=" ".join(merged.get("scope", "").split()) or None,
            error=merged.get("error") or None,
        )


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds to wait, from a number or a date (RFC 9110 §10.2.3); None if the value is neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():  # against the standard, some send "0.5"
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # A date with the zone -0000 or without a zone is in UTC (RFC 9110 §5.6.7).
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


def error_from(answer: Answer, authorization: Authorization | None) -> MCPError:
    if isinstance(answer, Response):
        error = error_of(answer.message)
        if error is not None:
            return server_error(error)
        said = foreign(json.dumps(answer.message, ensure_ascii=False), _LONGEST_ATTEMPT)
        return ProtocolError(f"The server's reply is neither a result nor an error: {said}")
    # Before the JSON-RPC error in the body, which servers fill with any code:
    # the challenge says what is missing.
    if answer.status in {401, 403}:
        return auth_error(answer, authorization)
    if answer.error is not None:
        return server_error(answer.error)
    return http_error(answer)


def server_error(error: RpcError) -> ServerError:
    text = foreign(error.message, _LONGEST_MESSAGE) or "no message"
    return ServerError(
        f"The server answered with error {error.code}: {text}",
        code=error.code,
        data=error.data,
        fix=_rpc_fix(error),
    )


def _rpc_fix(error: RpcError) -> str | None:
    if "already initialized" in error.message[:_LONGEST_MESSAGE].lower():
        return "The server takes one client only, and has had it: restart it, or ask whoever wrote it"
    if error.code == URL_ELICITATION_REQUIRED:
        return _visit(error)
    if error.code != MISSING_CAPABILITY:
        return _RPC_FIXES.get(error.code)
    required = ", ".join(as_object(as_object(error.data).get("requiredCapabilities")))
    names = foreign(required) or "one it does not name"
    return f"The tool needs a client capability that this client does not have: {names}"


def _visit(error: RpcError) -> str:
    """The web pages that a person has to visit (2025-11-25, *URL Elicitation Required*); not opened here."""
    entries = as_list(as_object(error.data).get("elicitations"))[:_MOST_PAGES]
    urls = [url for entry in entries if isinstance(url := as_object(entry).get("url"), str)]
    pages = " and ".join(foreign(origin_and_path(url)[:_LONGEST_PAGE]) for url in urls) or "a web page"
    return f"A person has to visit {pages} first; the error's data holds the whole address. Then call again"


def http_error(refusal: Refusal) -> ConnectError:
    """The error for an HTTP answer without a JSON-RPC message."""
    excerpt = _quoted_excerpt(refusal)
    if refusal.media_type == "text/html" and refusal.status < 400:
        what = f"The URL answers with a web page{excerpt}, not with MCP"
        return ConnectError(what, phase="protocol", fix=_PATH)
    if refusal.status < 300:
        kind = refusal.media_type or "no content type"
        if not excerpt:
            return ConnectError(
                f"The server answered {_status(refusal.status)} without a message, where a result is due",
                phase="protocol",
                fix="Check that the URL is the server's MCP endpoint; if it is, ask whoever wrote the server",
            )
        return ConnectError(
            f"The server answered {refusal.status} with {kind} where JSON or an event stream is due{excerpt}",
            phase="protocol",
            fix="Check that the URL is the server's MCP endpoint",
        )
    if refusal.status == 407:
        return ConnectError(
            "407: the proxy wants a login",
            phase="proxy",
            fix="Put user name and password into the proxy's URL",
        )
    wait = f"; it asks to wait {refusal.retry_after:.0f} s" if refusal.retry_after is not None else ""
    fix = _FIXES.get(refusal.status)
    if fix is None:
        fix = "Ask whoever runs the server, or look into its log" if refusal.status >= 500 else _FIXES[400]
    return ConnectError(f"{_status(refusal.status)}{excerpt}{wait}", phase="http", fix=fix)


def auth_error(refusal: Refusal, authorization: Authorization | None) -> AuthError:
    """The error for 401 and 403, with the credential that was sent and the one that is wanted."""
    challenges = parse_challenges(refusal.challenge)
    name = getattr(authorization, "credential", "")
    named = f" '{name}'" if name else ""
    sent = authorization.describe() if authorization is not None else "no credentials"
    excerpt = _quoted_excerpt(refusal)
    for parameters in (challenge.parameters for challenge in challenges):
        if reason := parameters.get("error_description") or parameters.get("error"):
            excerpt = f" ({foreign(reason, _LONGEST_ATTEMPT)})"
            break
    is_wanted = not sent.startswith("no ") and any(c.scheme.lower() in sent.lower() for c in challenges)
    if refusal.status == 403 and not challenges and _HOST.search(refusal.excerpt):
        fix = "The server may answer to one host name only: put it into the URL, such as localhost"
    elif authorization is None:
        fix = "Choose a credential for this server"
        if any("resource_metadata" in challenge.parameters for challenge in challenges):
            fix += "; it offers OAuth: the credential's password is then an access token for it"
    elif challenges and not is_wanted:
        fix = (
            f"Change 'send_credentials_as' for the credential{named}"
            if named
            else "Change 'send_credentials_as'"
        )
    elif sent.startswith("your own"):
        fix = "Check that header: its token may be wrong, expired, or meant for another server"
    elif refusal.status == 403:
        fix = (
            f"The credential{named} is known but may not do this: ask for the permission{_scopes(challenges)}"
        )
    else:
        fix = f"Check the credential{named}: it may be wrong, expired, or meant for another server"
    if refusal.status == 401:
        wants = f"wants {_wanted(challenges)}; you send {sent}"
        what = f"does not accept what you send: {sent}" if is_wanted else wants
        return AuthError(f"401: the server {what}{excerpt}", status=401, fix=fix)
    return AuthError(f"403: the server refuses access; you send {sent}{excerpt}", status=403, fix=fix)


def _wanted(challenges: list[Challenge]) -> str:
    names = {
        "bearer": "a Bearer token",
        "basic": "a user name and password (Basic)",
        "dpop": "a token that is bound to a key (DPoP)",
    }
    wanted = [names.get(challenge.scheme.lower()) or foreign(challenge.scheme) for challenge in challenges]
    return " or ".join(dict.fromkeys(wanted)) or "credentials and does not say which"


def _scopes(challenges: list[Challenge]) -> str:
    scopes = [challenge.parameters["scope"] for challenge in challenges if "scope" in challenge.parameters]
    return f" (scope {foreign(scopes[0])})" if scopes else ""


def _quoted_excerpt(refusal: Refusal) -> str:
    return f" ('{foreign(refusal.excerpt)}')" if refusal.excerpt else ""


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _rpc_attempt(error: RpcError) -> str:
    return f"error {error.code} {foreign(error.message, _LONGEST_ATTEMPT)}".strip()


def describe_answer(answer: Answer) -> str:
    """An unsuccessful answer in a few words, for lists of attempts."""
    if isinstance(answer, Response):
        error = error_of(answer.message)
        return _rpc_attempt(error) if error else "an unexpected result"
    parts = [str(answer.status), answer.media_type]
    if answer.error is not None:
        parts.append(_rpc_attempt(answer.error))
    elif answer.excerpt:
        parts.append(f"'{foreign(answer.excerpt)}'")
    return " ".join(part for part in parts if part)
