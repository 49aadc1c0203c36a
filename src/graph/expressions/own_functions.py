"""Functions of JSONata that the library answers differently from JavaScript's, written anew.

https://docs.jsonata.org says what they do; where it leaves room, npm's ``jsonata`` 2.2 does.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, Final, cast

from .coercion import number_text, truthy
from .engine import Functions, JException, Jsonata, Utils

_NULL: Final = Utils.NULL_VALUE
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[Ee][-+]?[0-9]+)?")
_RADIX: Final = re.compile(r"0(?:[xX][0-9A-Fa-f]+|[oO][0-7]+|[bB][01]+)")
_TIME: Final = re.compile(
    r"(\d{4})(?:-([01]\d)(?:-([0-3]\d))?)?(?:T([0-2]\d):([0-5]\d):([0-5]\d))?(?:\.(\d+))?"
    r"(?:Z|([+-])([0-2]\d):?([0-5]\d))?",
    re.ASCII,
)
_PLAIN_PICTURE: Final = re.compile(r"[^0-9#.,;%\u2030eE]*[0-9#,]*(?:\.([0-9#,]*))?[^0-9#.,;%\u2030eE]*")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def text_of(value: Any, *, prettify: bool = False) -> str:
    """What ``$string`` gives: JSON, but text as it is, and numbers with at most 15 digits after rounding.

    Raises:
        JException: A number is infinite or none at all.
    """
    if isinstance(value, str):
        return value
    return _written(value, "\n" if prettify else "")


def _written(value: Any, line: str) -> str:
    kind: Any = cast("Any", type)(value)
    if kind is str:
        return json.dumps(value, ensure_ascii=False)
    if value is None or value is _NULL:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is float:
        return _number(value)
    if isinstance(value, Utils.RangeList):
        value = list(range(value.a, value.b + 1))
    inner = line and line + "  "
    if isinstance(value, dict):
        colon = ": " if line else ":"
        members = cast("dict[str, Any]", value).items()
        written = [
            f"{json.dumps(key, ensure_ascii=False)}{colon}{_written(member, inner)}"
            for key, member in members
        ]
        return _joined("{", written, "}", line)
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return _joined("[", [_written(entry, inner) for entry in entries], "]", line)
    return '""'


def _joined(opening: str, parts: list[str], closing: str, line: str) -> str:
    if not parts or not line:
        return opening + ",".join(parts) + closing
    return f"{opening}{line}  " + f",{line}  ".join(parts) + line + closing


def _number(value: float) -> str:
    if isinstance(value, int) or value.is_integer():
        return number_text(value)
    if not math.isfinite(value):
        raise JException("D3001", -1, value)
    return number_text(float(f"{value:.15g}"))


class _Key:
    """Sorts with a function that says whether its first argument comes after its second."""

    __slots__ = ("after", "entry")

    def __init__(self, entry: Any, after: Any) -> None:
        self.entry = entry
        self.after = after

    def __lt__(self, other: _Key) -> bool:
        said = Functions.func_apply(self.after, [other.entry, self.entry])
        return said is not _NULL and truthy(said)


def _identity(value: Any) -> Any:
    """Equal for what JSONata takes for the same; Python takes true for one."""
    if isinstance(value, bool) or value is None or value is _NULL:
        return ("constant", repr(value))
    if isinstance(value, int | float):
        return ("number", value)
    return ("text", value) if isinstance(value, str) else ("json", json.dumps(_comparable(value)))


def _comparable(value: Any) -> Any:
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return ["object", *([key, _comparable(members[key])] for key in sorted(members))]
        case list():
            return ["array", *map(_comparable, cast("list[Any]", value))]
        case bool() | str():
            return value
        case int() | float():
            return float(value)
        case _:
            return repr(value)


class OwnFunctions:
    """The functions, by the names that the library looks them up by."""

    @staticmethod
    def string(value: Any, prettify: Any) -> str | None:
        """``$string``."""
        if isinstance(value, Utils.JList) and value.outer_wrapper:
            value = value[0]
        if value is None:
            return None
        if not isinstance(value, str | int | float | dict | list) and value is not _NULL:
            return ""
        return text_of(value, prettify=bool(prettify))

    @staticmethod
    def number(value: Any) -> Any:
        """``$number``."""
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, str):
            if _RADIX.fullmatch(value):
                return int(value, 0)
            if _NUMBER.fullmatch(value) and math.isfinite(float(value)):
                return Utils.convert_number(float(value))
            raise JException("D3030", -1, value)
        raise JException("T0410", -1)

    @staticmethod
    def contains(text: Any, token: Any) -> Any:
        """``$contains``."""
        return None if token is None else Functions.contains(text, token)

    @staticmethod
    def replace(text: Any, pattern: Any, replacement: Any, limit: Any) -> Any:
        """``$replace``: a pattern that is text is replaced by exactly what is given."""
        if not isinstance(text, str) or not pattern or (limit is not None and limit < 0):
            return Functions.replace(text, pattern, replacement, limit)
        most = -1 if limit is None else math.ceil(limit)
        if isinstance(pattern, str) and isinstance(replacement, str):
            return text.replace(pattern, replacement, most)
        if isinstance(pattern, str) or isinstance(replacement, str) or most == 0:
            return Functions.replace(text, pattern, replacement, limit)

        def call(match: Any) -> str:
            groups = ["" if group is None else group for group in match.groups()]
            shown = {"match": match[0], "start": match.start(), "end": match.end(), "groups": groups}
            said = Functions.func_apply(replacement, [shown])
            if not isinstance(said, str):
                raise JException("D3012", -1)
            return said

        return pattern.sub(call, text, max(most, 0))

    @staticmethod
    def sort(entries: Any, after: Any) -> Any:
        """``$sort``: entries that are equal stay in their order."""
        if entries is None or len(entries) <= 1:
            return entries
        if after is not None:
            return [key.entry for key in sorted(_Key(entry, after) for entry in entries)]
        kinds = {str if isinstance(entry, str) else float for entry in entries}
        if len(kinds) > 1 or not all(type(entry) in (str, int, float) for entry in entries):
            raise JException("D3070", -1)
        return sorted(entries)

    @staticmethod
    def distinct(entries: Any) -> Any:
        """``$distinct``: an array stays one."""
        if not isinstance(entries, list) or len(cast("list[Any]", entries)) <= 1:
            return cast("Any", entries)
        is_sequence = isinstance(entries, Utils.JList) and cast("Any", entries).sequence
        found: Any = Utils.create_sequence() if is_sequence else []
        seen: set[Any] = set()
        for entry in cast("list[Any]", entries):
            key = _identity(entry)
            if key not in seen:
                seen.add(key)
                found.append(entry)
        return found

    @staticmethod
    def to_millis(text: Any, picture: Any) -> Any:
        """``$toMillis``: a time in ISO 8601, of which all but the year may be missing."""
        if not isinstance(text, str) or picture is not None:
            return Functions.datetime_to_millis(text, picture)
        found = _TIME.fullmatch(text)
        if found is None:
            raise JException("D3110", -1, text)
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        fraction, sign, hours, minutes = found.groups()[6:]
        shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
        try:
            first = datetime(year, month or 1, 1, tzinfo=timezone(shift))
        except ValueError:
            raise JException("D3110", -1, text) from None
        moment = first + timedelta(days=(day or 1) - 1, hours=hour, minutes=minute, seconds=second)
        return (moment - _EPOCH) // timedelta(milliseconds=1) + int(f"{fraction or ''}000"[:3])

    @staticmethod
    def format_number(value: Any, picture: Any, options: Any) -> Any:
        """``$formatNumber``: halves are rounded to the even neighbour, as written in decimal digits."""
        if isinstance(value, int | float) and isinstance(picture, str) and options is None:
            shown = picture.partition(";")[0] if value >= 0 else picture.rpartition(";")[2]
            plain = _PLAIN_PICTURE.fullmatch(shown)
            if plain is not None and math.isfinite(value):
                digits = len((plain[1] or "").replace(",", ""))
                rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)
                value = float(rounded) if digits else int(rounded)
        return Functions.format_number(value, picture, options)


_SIGNATURES: Final = {
    "string": ("<x-b?:s>", "string"),
    "number": ("<(nsb)-:n>", "number"),
    "contains": ("<s-(sf):b>", "contains"),
    "replace": ("<s-(sf)(sf)n?:s>", "replace"),
    "sort": ("<af?:a>", "sort"),
    "distinct": ("<x:x>", "distinct"),
    "toMillis": ("<s-s?:n>", "to_millis"),
    "formatNumber": ("<n-so?:s>", "format_number"),
}

OWN_FUNCTIONS: Final[dict[str, Any]] = {
    name: Jsonata.JNativeFunction(name, signature, OwnFunctions, method)
    for name, (signature, method) in _SIGNATURES.items()
}
"""By name, for the bindings of an evaluation."""


class Evaluator(Jsonata):
    """The library's evaluator with operators that count and write as JavaScript does."""

    def evaluate_string_concat(self, lhs: Any, rhs: Any) -> str:
        """``&``."""
        return (OwnFunctions.string(lhs, None) or "") + (OwnFunctions.string(rhs, None) or "")

    def evaluate_includes_expression(self, lhs: Any, rhs: Any) -> bool:
        """``in``; Python takes true for one."""
        if lhs is None or rhs is None:
            return False
        entries = cast("list[Any]", rhs) if isinstance(rhs, list) else [rhs]
        return any(_identity(entry) == _identity(lhs) for entry in entries)

    def evaluate_numeric_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """``+ - * / %``; the library's ``%`` drops fractions."""
        if op == "%" and Utils.is_numeric(lhs) and Utils.is_numeric(rhs):
            if rhs == 0:
                raise ZeroDivisionError("modulo by zero")
            return Utils.convert_number(math.fmod(lhs, rhs))
        return self._other_numeric(lhs, rhs, op)

    _other_numeric: Any = Jsonata.evaluate_numeric_expression
