"""Reads JSON text, including common errors of servers: ``NaN``, lone surrogates, line breaks in texts.

The values have no lone surrogates, as a single one would make a whole table unreadable.
"""

import json
import math
import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final, cast

from ...types.canonical import without_surrogates
from ...types.collector import collector_paused
from ...types.errors import ProtocolError

_fast: Callable[[bytes], Any] | None
try:
    from orjson import loads as _fast
except ImportError:  # optional: orjson comes with LangChain, on platforms that have it
    _fast = None

DEEPEST: Final = 200
"""The maximum depth of a JSON value. Other code that writes, copies or compares values recurses once or twice
per level, and Python allows a thousand levels of recursion."""

_CONTAINERS: Final = (dict, list)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_FEW: Final = 1000
_LARGE: Final = 10_000  # characters
_SURROGATE: Final = re.compile(r"\\u[dD]")  # one search takes a fifth of the time of two with `in`
# orjson reads an integer of more than 64 bits as a float; such an integer has at least 19 digits.
_DIGITS: Final = bytes(ord("0") if chr(i).isdecimal() and i < 128 else ord(" ") for i in range(256))
_MANY_DIGITS: Final = b"0" * 19
_UNREAD: Final = object()


def _no_constant(_name: str) -> None:
    # NaN and Infinity are not JSON, but Python servers send them; they are read as null.
    return None


def _finite(text: str) -> float | None:
    # A number larger than any float (1e999) would be read as infinity.
    value = float(text)
    return value if math.isfinite(value) else None


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:  # Python refuses to read thousands of digits
        return None


# Not strict: servers that write JSON by hand, such as shell scripts, do not escape tabs and line breaks.
_decoder: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, strict=False)
_slow_decoder: Final = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, parse_int=_integer, strict=False
)


def decode(data: bytes | str) -> Any:
    """JSON text as a value, without lone surrogates.

    Raises:
        ProtocolError: The text is not JSON, or nested more than `DEEPEST` levels deep.
    """
    text: str | None = None
    with collector_paused() if len(data) > _LARGE else nullcontext():
        value = _read_fast(data)
        if value is _UNREAD:
            text = data if isinstance(data, str) else data.decode("utf-8", "replace")
            value = _read(text)
    if len(data) > DEEPEST and is_deeper(value, DEEPEST, data):
        raise _too_deep()
    # Only escapes can be lone surrogates, and orjson refuses them.
    if text is not None and _SURROGATE.search(text) and not _is_encodable(value):
        return map_texts(value, without_surrogates)
    return value


def _read_fast(data: bytes | str) -> Any:
    """The value that orjson reads; `_UNREAD` if it refuses the text, or may read long integers as floats."""
    if _fast is None:
        return _UNREAD
    octets = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if _MANY_DIGITS in octets.translate(_DIGITS):
        return _UNREAD
    try:
        return _fast(octets)
    except ValueError:
        return _UNREAD


def _read(text: str, decoder: json.JSONDecoder = _decoder) -> Any:
    try:
        return decoder.decode(text.lstrip("\ufeff \t\r\n"))
    except json.JSONDecodeError as error:
        raise ProtocolError(f"The server sent something that is not valid JSON ({error.msg})") from None
    except ValueError:  # an integer has too many digits
        return _read(text, _slow_decoder)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> ProtocolError:
    return ProtocolError("The server sent JSON that is nested too deeply", fix="Ask whoever runs the server")


def is_surely_shallow(data: bytes | str, levels: int) -> bool:
    """Returns whether brackets are nested at most that deep, by searching the text.

    A few searches in C are much faster than walking over many values. Strings and all other characters except
    brackets are removed, and then, level by level, empty pairs of brackets; if nothing is left, the text is
    shallow. False means that the depth is unknown, as the text may not be JSON.
    """
    text = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two adjacent quotes are a string without brackets, or the end of one string and the beginning of the
    # next. In both cases the other strings stay whole.
    brackets = text.translate(None, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    for _ in range(levels):
        if not brackets:
            return True
        inner = brackets.replace(b"{}", b"")
        if len(inner) == len(brackets):
            inner = brackets.replace(b"[]", b"")
            if len(inner) == len(brackets):
                return False
        brackets = inner
    return not brackets


def is_deeper(value: Any, levels: int, text: bytes | str | None = None) -> bool:
    """Returns whether lists and objects are nested in each other more than that many levels deep.

    Args:
        value: A JSON value.
        levels: The number of allowed levels.
        text: The JSON text of the value, which is searched instead if that is faster: for many values.
    """
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    seen = 0
    for _ in range(levels):
        children: list[Any] = []
        for parent in level:
            children += parent.values() if type(parent) is dict else parent
        seen += len(children)
        if seen > _FEW and text is not None:
            if is_surely_shallow(text, levels):
                return False
            text = None
        level = [child for child in children if type(child) in _CONTAINERS]
        if not level:
            return False
    return True


def _is_encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with all its texts changed, the names of members included."""
    match value:
        case str():
            return change(value)
        case list():
            return [map_texts(item, change) for item in cast("list[Any]", value)]
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return {change(key): map_texts(item, change) for key, item in pairs}
        case _:
            return value
