"""``$toMillis`` with a picture, as npm's ``jsonata`` 2.2 reads dates and times.

The library reads fractions of seconds as milliseconds, refuses days and months that are too large, and does
not add a century to years of two digits.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import regex

from .engine import DateTimes, JException, Jsonata
from .regexes import BoundedPattern

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = 60_000


def millis_of(text: str, picture: str) -> int | None:
    """Reads a date and time.

    Args:
        text: The date and time.
        picture: The format: https://docs.jsonata.org/date-time-functions#tomillis.

    Returns:
        Milliseconds since 1970, or None if the text does not match the picture.

    Raises:
        JException: The parts of the picture do not determine a date and time.
    """
    parts = _read(text, picture)
    if parts is None:
        return None
    given = {part for part, value in parts.items() if value}  # parts that are 0 do not count, as in 2.2
    dates, times = given & set("YXMxWwdD"), given & set("PHhmsf")
    if dates and (dates <= set("Xxw") or dates <= set("XW")):
        raise JException("D3136", -1)
    by_day_of_year = "d" in dates and dates <= set("Yd")
    by_half_day = bool(times & set("Ph")) and times <= set("Phmsf")
    _complete(parts, ("YD" if by_day_of_year else "YMD") + ("Phmsf" if by_half_day else "Hmsf"))
    if by_day_of_year:
        parts["M"], parts["D"] = 1, parts["d"]
    if by_half_day:
        parts["H"] = (0 if parts["h"] == 12 else parts["h"]) + (12 if parts["P"] == 1 else 0)
    return _moment(parts) - (parts.get("Z") or parts.get("z") or 0) * _MINUTE


def _read(text: str, picture: str) -> dict[str, Any] | None:
    """The text's value for each part of the picture; None if the text does not match."""
    specification = DateTimes._analyse_datetime_picture(picture)
    matchers = DateTimes._generate_regex(specification).parts
    parts = [*specification.parts, None]
    patterns = [_pattern(parts[index], parts[index + 1], matcher) for index, matcher in enumerate(matchers)]
    whole = "".join(f"({pattern})" for pattern in patterns)
    match = BoundedPattern(f"^{whole}$", regex.IGNORECASE).search(text)
    if match is None or all(matcher.component is None for matcher in matchers):
        return None
    values: dict[str, Any] = {}
    for matcher, part_text in zip(matchers, match.groups(), strict=True):
        if matcher.component == "f":
            values["f"] = int(float(f"0.{part_text[:3]}") * 1000)
        elif matcher.component is not None:
            with suppress(KeyError, ValueError):  # an unknown name counts as missing
                values[matcher.component] = matcher.parse(part_text)
    return values


def _pattern(part: Any, following: Any, matcher: Any) -> str:
    if part.type == "literal":
        return regex.escape(part.value)
    digits = part.integerFormat
    if digits is None or part.component in "Zz" or digits.primary is not DateTimes.Formats.DECIMAL:
        return matcher.regex
    # Where numbers follow each other directly, the picture's number of digits separates them.
    adjacent = (
        following is not None and following.integerFormat is not None and following.component not in "Zz"
    )
    width = digits.mandatoryDigits if adjacent and part.component != "f" else 0
    return f"[0-9]{{{width}}}" if width else "[0-9]+(?:th|st|nd|rd)" if digits.ordinal else "[0-9]+"


def _complete(values: dict[str, Any], order: str) -> None:
    """Fills in missing parts: from the current time before the first given part, the lowest values after it.

    Raises:
        JException: A part is missing between two given parts.
    """
    now = _EPOCH + timedelta(milliseconds=Jsonata.CURRENT.jsonata.timestamp)
    current = {"Y": now.year, "M": now.month, "D": now.day, "H": now.hour, "h": now.hour, "m": now.minute}
    current |= {"s": now.second, "f": now.microsecond // 1000}
    begun = ended = False
    for part in order:
        if part in values:
            begun = True
            if ended:
                raise JException("D3136", -1)
        elif begun:
            values[part] = 1 if part in "MDd" else 0
            ended = True
        else:
            values[part] = current.get(part, 0)


def _moment(values: dict[str, Any]) -> int:
    """Milliseconds since 1970; a part that is too large carries over into the next one, as in JavaScript."""
    year, month = values["Y"], max(values["M"] - 1, 0)
    year += 1900 if 0 <= year <= 99 else 0
    first = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    span = timedelta(
        days=values["D"] - 1,
        hours=values["H"],
        minutes=values["m"],
        seconds=values["s"],
        milliseconds=values["f"],
    )
    return (first + span - _EPOCH) // timedelta(milliseconds=1)
