"""The headers ``WWW-Authenticate`` (RFC 9110 §11.6.1) and ``Retry-After`` of a refusal."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

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
            value = match["bare"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
            parameters.setdefault(match["name"].lower(), value)
    return challenges


@dataclass(frozen=True, slots=True)
class BearerChallenge:
    """The parameters of a Bearer challenge that a client uses.

    Attributes:
        wants_bearer: False if the server names other schemes only. A refusal without a challenge is legal
            since 2025-11-25 and means Bearer.
        resource_metadata: URL of the protected resource metadata (RFC 9728 §5.1).
        scope: Scopes that the request needs, separated by spaces.
        error: ``invalid_token``, ``insufficient_scope`` or another code.
    """

    wants_bearer: bool = True
    resource_metadata: str | None = None
    scope: str | None = None
    error: str | None = None

    @classmethod
    def read(cls, header: str | None) -> "BearerChallenge":
        """Reads a ``WWW-Authenticate`` value, which may hold several challenges and header lines."""
        challenges = parse_challenges(header)
        if not challenges:
            return cls()
        bearers = [challenge for challenge in challenges if challenge.scheme.lower() == "bearer"]
        if not bearers:
            return cls(wants_bearer=False)
        merged: dict[str, str] = {}
        for challenge in reversed(bearers):  # the first one wins
            merged |= challenge.parameters
        return cls(
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
