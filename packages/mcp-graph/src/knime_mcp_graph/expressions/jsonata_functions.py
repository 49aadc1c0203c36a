"""JSONata's functions whose results in the library differ from JavaScript's, implemented again.

They follow https://docs.jsonata.org and, where it leaves room, npm's ``jsonata`` 2.2.
"""

from __future__ import annotations

import base64
import heapq
import json
import math
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import reduce
from operator import add
from typing import Any, Final, cast

from .evaluation_limits import TooLarge, Watch, watching
from .javascript import indices_first, number_text, truthy
from .jsonata_library import NULL, Checked, DateTimes, Functions, JException, Jsonata, Utils, marked
from .jsonata_patterns import format_number, millis_of

_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[Ee][-+]?[0-9]+)?")
_RADIX: Final = re.compile(r"0(?:[xX][0-9A-Fa-f]+|[oO][0-7]+|[bB][01]+)")
_LEADING_INTEGER: Final = re.compile(r"\s*[-+]?[0-9]+")
_MOST_PLACES: Final = 400
_EXACT: Final = Context(prec=2 * _MOST_PLACES)
_EXACT_INTEGERS: Final = 1 << 53
_SORTED_AT_ONCE: Final = 20_000
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def _in_base(number: float, base: int) -> str:
    """A whole number as V8 writes it: zeros stand for the digits behind its 53 bits."""
    digits = ""
    while number / base >= _EXACT_INTEGERS:
        number, digits = number / base, "0" + digits
    while True:
        rest = math.fmod(number, base)
        digits = _DIGITS[int(rest)] + digits
        number = (number - rest) / base
        if number <= 0:
            return digits


class OwnNumbers:
    """The functions, under the method names by which the library finds them."""

    @staticmethod
    def number(value: Any) -> Any:
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
    def sum(values: Any) -> Any:
        """``$sum``: adds one by one, as JavaScript does; Python's ``sum`` is more exact since 3.12."""
        return None if values is None else reduce(add, values, 0)

    @staticmethod
    def average(values: Any) -> Any:
        return OwnNumbers.sum(values) / len(values) if values else None

    @staticmethod
    def power(base: Any, exponent: Any) -> Any:
        try:
            return None if base is None else math.pow(base, exponent)
        except (OverflowError, ValueError, TypeError):
            raise JException("D3061", -1, base, exponent) from None

    @staticmethod
    def round(value: Any, places: Any) -> Any:
        """``$round``: NaN if the number of places is not a whole number."""
        if value is None:
            return None
        places = 0 if places is None else places
        if places != int(places) or abs(places) > _MOST_PLACES:
            return math.nan
        unit = Decimal(1).scaleb(-int(places))
        # Of the number's shortest text, as the reference does: 2.675 is 2.67499… as a double.
        return float(Decimal(repr(value)).quantize(unit, ROUND_HALF_EVEN, _EXACT))

    @staticmethod
    def format_base(value: Any, radix: Any) -> Any:
        """``$formatBase``; the library fails for numbers of more than 28 digits."""
        if value is None:
            return None
        base = 10 if radix is None else int(OwnNumbers.round(radix, None))
        if not 2 <= base <= 36:
            raise JException("D3100", base)  # the library has it in place of the position
        number = OwnNumbers.round(value, None)
        if base == 10:
            return number_text(number)
        return ("-" if number < 0 else "") + _in_base(abs(number), base)

    @staticmethod
    def format_integer(value: Any, picture: Any) -> Any:
        """``$formatInteger``: rounds down."""
        return None if value is None else DateTimes.format_integer(math.floor(value), picture)

    @staticmethod
    def parse_integer(text: Any, picture: Any) -> Any:
        """``$parseInteger``: with a decimal picture, a text that does not fit gives its leading digits."""
        if text is None:
            return None
        try:
            return DateTimes.parse_integer(text, picture)
        except RuntimeError:
            raise JException("D3130", -1, picture) from None
        except (LookupError, ValueError):
            is_decimal = DateTimes._analyse_integer_picture(picture).primary is DateTimes.Formats.DECIMAL
            match = _LEADING_INTEGER.match(text) if is_decimal else None
            return int(match[0]) if match else math.nan

    @staticmethod
    def format_number(value: Any, picture: Any, options: Any) -> Any:
        return None if value is None else format_number(value, picture, options)


_TIME: Final = re.compile(
    r"(\d{4})(?:-([01]\d)(?:-([0-3]\d))?)?(?:T([0-2]\d):([0-5]\d):([0-5]\d))?(?:\.(\d+))?"
    r"(?:Z|([+-])([0-2]\d):?([0-5]\d))?",
    re.ASCII,
)
_NO_BASE64: Final = re.compile(r"[^A-Za-z0-9+/]")
_URL_BASE64: Final = str.maketrans("-_", "+/")
_ZONE: Final = re.compile(r"[-+]?[0-9]+")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def json_of(value: Any, line: str = "") -> str:
    """The value as JSON, with numbers of at most 15 digits after rounding; infinity and NaN are errors.

    `line` is the line feed and indent before each line; empty for JSON in one line.
    """
    kind: Any = cast("Any", type)(value)
    if kind is str:
        return json.dumps(value, ensure_ascii=False)
    if value is None or value is NULL:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is float:
        return _number(value)
    inner = line and line + "  "
    if isinstance(value, dict):
        colon = ": " if line else ":"
        members = cast("dict[str, Any]", value).items()
        written = [
            f"{json.dumps(key, ensure_ascii=False)}{colon}{json_of(member, inner)}" for key, member in members
        ]
        return _joined("{", written, "}", line)
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return _joined("[", [json_of(entry, inner) for entry in entries], "]", line)
    return '""'


def _joined(opening: str, parts: list[str], closing: str, line: str) -> str:
    size = sum(map(len, parts))
    watching().text(size + (len(line) + 2) * len(parts), size, new=len(parts))
    if not parts or not line:
        return opening + ",".join(parts) + closing
    return f"{opening}{line}  " + f",{line}  ".join(parts) + line + closing


def _number(value: float) -> str:
    if isinstance(value, int) or value.is_integer():
        return number_text(value)
    if not math.isfinite(value):
        raise JException("D1001", -1, value)
    # JSONata rounds so, to hide the errors of binary fractions: 0.1 + 0.2 is written 0.3.
    return number_text(float(f"{value:.15g}"))


def _merge_sorted(entries: list[Any], is_after: Any) -> list[Any]:
    """Merge sort with the same comparisons as npm's ``jsonata``: a user's comparison may be inconsistent."""
    if len(entries) <= 1:
        return entries
    middle = len(entries) // 2
    left, right = _merge_sorted(entries[:middle], is_after), _merge_sorted(entries[middle:], is_after)
    merged: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        swaps = Functions.func_apply(is_after, [left[i], right[j]])
        if swaps is not NULL and truthy(swaps):
            merged.append(right[j])
            j += 1
        else:
            merged.append(left[i])
            i += 1
    return merged + left[i:] + right[j:]


def _identity(value: Any) -> Any:
    """A key that is the same for values that are equal in JSONata; in Python, True equals 1."""
    if isinstance(value, bool) or value is None or value is NULL:
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
    """The functions, under the method names by which the library finds them."""

    @staticmethod
    def string(value: Any, prettify: Any) -> str | None:
        """``$string``: text as it is, everything else as JSON."""
        if isinstance(value, Utils.JList) and value.outer_wrapper:
            value = value[0]
        if value is None:
            return None
        if isinstance(value, str):
            return value
        if not isinstance(value, int | float | dict | list) and value is not NULL:
            return ""
        if isinstance(value, float) and not math.isfinite(value):
            raise JException("D3001", -1, value)
        return json_of(value, "\n" if prettify else "")

    @staticmethod
    def clone(value: Any) -> Any:
        """``$clone``: keeps ``null``, which the library loses."""
        return None if value is None else marked(json.loads(OwnFunctions.string(value, None) or "null"))

    @staticmethod
    def contains(text: Any, token: Any) -> Any:
        if token is None or not isinstance(text, str) or isinstance(token, str):
            return None if token is None else Functions.contains(text, token)
        return _pattern(token, "contains").search(text) is not None

    @staticmethod
    def match(text: Any, pattern: Any, limit: Any) -> Any:
        return Functions.match_(text, pattern and _pattern(pattern, "match"), limit)

    @staticmethod
    def replace(text: Any, pattern: Any, replacement: Any, limit: Any) -> Any:
        """``$replace``: ``$1`` stands for a group only if the pattern is a regular expression."""
        if pattern == "" and isinstance(text, str):
            raise JException("D3010", -1)
        if limit is not None and limit < 0:
            raise JException("D3011", -1)
        if not isinstance(text, str) or not pattern:
            return Functions.replace(text, pattern, replacement, limit)
        most = -1 if limit is None else math.ceil(limit)
        if isinstance(pattern, str):
            given = "undefined" if replacement is None else replacement
            if not isinstance(given, str):
                raise JException("D3012", -1)
            times = text.count(pattern)
            times = times if most < 0 else min(times, most)
            watching().text(len(text) + times * (len(given) - len(pattern)), len(text))
            return text.replace(pattern, given, most)
        if isinstance(replacement, str) or most == 0:
            return Functions.replace(text, pattern, replacement, limit)

        def call(match: Any) -> str:
            groups = ["" if group is None else group for group in match.groups()]
            shown = {"match": match[0], "start": match.start(), "end": match.end(), "groups": groups}
            result = Functions.func_apply(replacement, [shown])
            if not isinstance(result, str):
                raise JException("D3012", -1)
            return result

        return _pattern(pattern, "replace").sub(call, text, max(most, 0))

    @staticmethod
    def split(text: Any, separator: Any, limit: Any) -> Any:
        """``$split``: returns an array even if the separator does not occur."""
        if limit is not None and limit < 0:
            raise JException("D3020", -1, limit)
        if not isinstance(text, str) or isinstance(separator, str):
            return Functions.split(text, separator, limit)
        parts: list[str] = _pattern(separator, "split").split(text)
        # The reference counts up while it is below the limit.
        return parts if limit is None else parts[: math.ceil(limit)]

    @staticmethod
    def sort(entries: Any, after: Any) -> Any:
        """``$sort``: equal entries keep their order."""
        if entries is None or len(entries) <= 1:
            return entries
        if after is not None:
            return _merge_sorted(entries, after)
        kinds = {str if isinstance(entry, str) else float for entry in entries}
        if len(kinds) > 1 or not all(type(entry) in (str, int, float) for entry in entries):
            raise JException("D3070", -1)
        # In parts, as other threads have to wait while Python sorts a list.
        parts = [sorted(entries[at : at + _SORTED_AT_ONCE]) for at in range(0, len(entries), _SORTED_AT_ONCE)]
        return parts[0] if len(parts) == 1 else list(heapq.merge(*parts))

    @staticmethod
    def keys(value: Any) -> Any:
        """``$keys``: for an array, the keys of all objects in it."""
        if not isinstance(value, list):
            return Functions.keys(value)
        entries = cast("list[Any]", value)
        return Functions.keys(
            indices_first({key: None for entry in entries for key in OwnFunctions.keys(entry)})
        )

    @staticmethod
    def merge(entries: Any) -> Any:
        return None if entries is None else indices_first(Functions.merge(entries))

    @staticmethod
    def lowercase(text: Any) -> Any:
        return None if text is None else text.lower()

    @staticmethod
    def base64decode(text: Any) -> Any:
        """``$base64decode``: like Node, it skips characters that are not base64."""
        if text is None:
            return None
        digits = _NO_BASE64.sub("", text.partition("=")[0].translate(_URL_BASE64))
        digits = digits[:-1] if len(digits) % 4 == 1 else digits
        decoded = base64.b64decode(digits + "=" * (-len(digits) % 4))
        try:
            return decoded.decode()
        except UnicodeDecodeError:
            return decoded.decode("latin-1")

    @staticmethod
    def encode_url(text: Any) -> Any:
        return _encoded(text, "encodeUrl", Functions.encode_url)

    @staticmethod
    def encode_url_component(text: Any) -> Any:
        return _encoded(text, "encodeUrlComponent", Functions.encode_url_component)

    @staticmethod
    def decode_url(text: Any) -> Any:
        return _decoded(text, "decodeUrl", Functions.decode_url)

    @staticmethod
    def decode_url_component(text: Any) -> Any:
        return _decoded(text, "decodeUrlComponent", Functions.decode_url_component)

    @staticmethod
    def distinct(entries: Any) -> Any:
        """``$distinct``: an array stays an array, even with one entry."""
        if not isinstance(entries, list) or len(cast("list[Any]", entries)) <= 1:
            return cast("Any", entries)
        is_sequence = isinstance(entries, Utils.JList) and cast("Any", entries).sequence
        distinct_entries: Any = Utils.create_sequence() if is_sequence else []
        seen: set[Any] = set()
        for entry in cast("list[Any]", entries):
            key = _identity(entry)
            if key not in seen:
                seen.add(key)
                distinct_entries.append(entry)
        return distinct_entries

    @staticmethod
    def to_millis(text: Any, picture: Any) -> Any:
        """``$toMillis``: reads a time in ISO 8601, in which everything except the year may be missing."""
        if not isinstance(text, str) or picture is not None:
            return None if text is None else millis_of(text, picture)
        match = _TIME.fullmatch(text)
        if match is None:
            raise JException("D3110", -1, text)
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
        fraction, sign, hours, minutes = match.groups()[6:]
        shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
        try:
            first = datetime(year, month or 1, 1, tzinfo=timezone(shift))
        except ValueError:
            raise JException("D3110", -1, text) from None
        # JavaScript counts on from the 31st of February, and Python refuses it.
        moment = first + timedelta(days=(day or 1) - 1, hours=hour, minutes=minute, seconds=second)
        return (moment - _EPOCH) // timedelta(milliseconds=1) + int(f"{fraction or ''}000"[:3])

    @staticmethod
    def from_millis(millis: Any, picture: Any, zone: Any) -> Any:
        if millis is None:
            return None
        if zone is not None and not _ZONE.fullmatch(zone):
            raise ValueError(f"'{zone}' is not a timezone. Write it as +0530 or -0800")
        try:
            return DateTimes.format_datetime(int(millis), picture, zone)
        except (OSError, OverflowError):
            raise OverflowError(f"{number_text(millis)} is no moment of the years 1 to 9999") from None

    @staticmethod
    def now(picture: Any, zone: Any) -> Any:
        return DateTimes.format_datetime(Jsonata.CURRENT.jsonata.timestamp, picture, zone)


def _pattern(token: Any, function: str) -> Any:
    """Checks that a token is a regular expression, and returns it."""
    if not Functions.is_regex(token):
        raise JException("T1010", -1, function)
    return token


def _encoded(text: Any, name: str, encode: Any) -> Any:
    try:
        return encode(text)
    except UnicodeEncodeError:  # a lone surrogate
        raise JException("D3140", -1, name, text) from None


def _decoded(text: Any, name: str, decode: Any) -> Any:
    try:
        if isinstance(text, str) and _BAD_ESCAPE.search(text):
            raise ValueError(text)
        return decode(text)
    except ValueError:
        raise JException("D3140", -1, name, text) from None


def _makes_joined(watch: Watch, texts: Any, separator: Any = None, *_: Any) -> None:
    if texts is not None:
        sizes = [len(text) for text in texts]
        watch.text(sum(sizes) + len(separator or "") * max(len(sizes) - 1, 0), *sizes)


def _makes_appended(watch: Watch, first: Any = None, second: Any = None, *_: Any) -> None:
    sizes = [len(cast("list[Any]", part)) if isinstance(part, list) else 1 for part in (first, second)]
    watch.entries(sum(sizes), max(sizes) + 1)


def _makes_padded(watch: Watch, text: Any = None, width: Any = None, *_: Any) -> None:
    if isinstance(text, str) and isinstance(width, int | float):
        watch.text(max(len(text), abs(int(width))), len(text))


def _makes_split(watch: Watch, text: Any = None, separator: Any = None, *_: Any) -> None:
    if isinstance(text, str) and isinstance(separator, str):
        watch.entries(text.count(separator) if separator else len(text))


def _makes_as_long(watch: Watch, entries: Any = None, *_: Any) -> None:
    if isinstance(entries, list):
        watch.entries(len(cast("list[Any]", entries)))


def _makes_formatted(_watch: Watch, _value: Any = None, *pictures: Any) -> None:
    if any(isinstance(picture, str) and len(picture) > _LONGEST_PICTURE for picture in pictures):
        raise TooLarge(f"a picture has at most {_LONGEST_PICTURE:,} characters")


_LONGEST_PICTURE: Final = 10_000
#: What functions make that may be much larger than what they are given: called with their arguments.
_MAKES: Final[dict[str, Any]] = {
    "pad": _makes_padded,
    "join": _makes_joined,
    "append": _makes_appended,
    "split": _makes_split,
    "formatNumber": _makes_formatted,
    "formatInteger": _makes_formatted,
    "parseInteger": _makes_formatted,
    "fromMillis": _makes_formatted,
    "toMillis": _makes_formatted,
    **dict.fromkeys(("reverse", "shuffle", "sort", "zip", "distinct"), _makes_as_long),
}

_SIGNATURES: Final = {
    "lowercase": ("<s-:s>", "lowercase"),
    "base64decode": ("<s-:s>", "base64decode"),
    "encodeUrl": ("<s-:s>", "encode_url"),
    "encodeUrlComponent": ("<s-:s>", "encode_url_component"),
    "decodeUrl": ("<s-:s>", "decode_url"),
    "decodeUrlComponent": ("<s-:s>", "decode_url_component"),
    "string": ("<x-b?:s>", "string"),
    "clone": ("<(oa)-:o>", "clone"),
    "contains": ("<s-(sf):b>", "contains"),
    "match": ("<s-f<s:o>n?:a<o>>", "match"),
    "replace": ("<s-(sf)(sf)n?:s>", "replace"),
    "split": ("<s-(sf)n?:a<s>>", "split"),
    "sort": ("<af?:a>", "sort"),
    "distinct": ("<x:x>", "distinct"),
    "keys": ("<x-:a<s>>", "keys"),
    "merge": ("<a<o>:o>", "merge"),
    "toMillis": ("<s-s?:n>", "to_millis"),
    "fromMillis": ("<n-s?s?:s>", "from_millis"),
    "now": ("<s?s?:s>", "now"),
}
_NUMBER_SIGNATURES: Final = {
    "number": ("<(nsb)-:n>", "number"),
    "sum": ("<a<n>:n>", "sum"),
    "average": ("<a<n>:n>", "average"),
    "power": ("<n-n:n>", "power"),
    "round": ("<n-n?:n>", "round"),
    "formatBase": ("<n-n?:s>", "format_base"),
    "formatInteger": ("<n-s:s>", "format_integer"),
    "parseInteger": ("<s-s:n>", "parse_integer"),
    "formatNumber": ("<n-so?:s>", "format_number"),
}

_OWN: Final = [
    Jsonata.JNativeFunction(name, signature, functions, method)
    for functions, signatures in ((OwnFunctions, _SIGNATURES), (OwnNumbers, _NUMBER_SIGNATURES))
    for name, (signature, method) in signatures.items()
]
_OTHERS: Final[dict[str, Any]] = Jsonata.static_frame.bindings

FUNCTIONS: Final[dict[str, Any]] = {
    native.function_name: Checked(
        native, native.function_name, native.signature, _MAKES.get(native.function_name)
    )
    for native in [*_OTHERS.values(), *_OWN]
    if isinstance(native, Jsonata.JNativeFunction)
}
"""All functions of JSONata by name, for the bindings of an evaluation."""
