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


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds to wait, from a number of seconds or a date; None if the value is neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())
