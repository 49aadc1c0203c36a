"""The operators of JSON Logic that are plain functions: values in, value out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, cast

from .coercion import less, loosely_equal, parse_float, strictly_equal, to_number, to_string, truthy
from .values import UNDEFINED

Operation = Callable[[list[Any]], Any]


class JavaScriptError(Exception):
    """An error that the JavaScript implementation would throw."""


def _two(values: list[Any]) -> tuple[Any, Any]:
    a, b = (*values, UNDEFINED, UNDEFINED)[:2]
    return a, b


def _below(values: list[Any], *, or_equal: bool) -> bool:
    a, b, c = (*values, UNDEFINED, UNDEFINED, UNDEFINED)[:3]
    first = _not_above(a, b) if or_equal else less(a, b) is True
    if c is UNDEFINED or not first:
        return first
    return _not_above(b, c) if or_equal else less(b, c) is True


def _not_above(a: Any, b: Any) -> bool:
    return less(b, a) is False


def _add(values: list[Any]) -> Any:
    return _result(_sum(values))


def _sum(values: list[Any]) -> float:
    total = 0.0
    for value in values:
        total += parse_float(value)
    return total


def _multiply(values: list[Any]) -> Any:
    if not values:
        raise JavaScriptError("'*' needs a value")
    if len(values) == 1:
        return values[0]
    product = parse_float(values[0])
    for value in values[1:]:
        product *= parse_float(value)
    return _result(product)


def _subtract(values: list[Any]) -> Any:
    a, b = _two(values)
    return _result(-float(to_number(a)) if b is UNDEFINED else to_number(a) - to_number(b))


def _divide(values: list[Any]) -> Any:
    a, b = (float(to_number(value)) for value in _two(values))
    if b == 0:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return _result(a / b)


def _modulo(values: list[Any]) -> Any:
    a, b = (float(to_number(value)) for value in _two(values))
    if b == 0 or math.isinf(a) or math.isnan(a) or math.isnan(b):
        return math.nan
    return _result(math.fmod(a, b))


def _result(number: float) -> float | int:
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 1 << 53
    return int(number) if whole and (number != 0 or math.copysign(1.0, number) > 0) else number


def _extreme(values: list[Any], *, largest: bool) -> Any:
    numbers = [to_number(value) for value in values]
    if any(math.isnan(number) for number in numbers):
        return math.nan
    if not numbers:
        return -math.inf if largest else math.inf
    return _result(float(max(numbers) if largest else min(numbers)))


def _in(values: list[Any]) -> bool:
    needle, heap = _two(values)
    if isinstance(heap, str):
        return bool(heap) and to_string(needle) in heap
    if isinstance(heap, list):
        return any(strictly_equal(entry, needle) for entry in cast("list[Any]", heap))
    return False


def _substr(values: list[Any]) -> str:
    source, start, end = (*values, UNDEFINED, UNDEFINED, UNDEFINED)[:3]
    text = to_string(source)
    if less(end, 0):
        rest = _part(text, start, UNDEFINED)
        # In JavaScript, a number plus a text is the concatenation of both.
        size = len(rest.encode("utf-16-le", "surrogatepass")) // 2
        is_text = isinstance(end, str | list | dict)
        return _part(rest, 0, f"{size}{to_string(end)}" if is_text else size + to_number(end))
    return _part(text, start, end)


def _part(text: str, start: Any, length: Any) -> str:
    """JavaScript's ``substr``, which counts UTF-16 code units."""
    units = text.encode("utf-16-le", "surrogatepass")
    size = len(units) // 2
    begin = _whole(start)
    begin = max(size + begin, 0) if begin < 0 else min(begin, size)
    count = size if length is UNDEFINED else min(max(_whole(length), 0), size)
    part = units[int(begin) * 2 : (int(begin) + int(count)) * 2]
    return part.decode("utf-16-le", "surrogatepass")


def _whole(value: Any) -> float:
    number = to_number(value)
    if math.isnan(number):
        return 0
    return number if math.isinf(number) else math.trunc(number)


def _cat(values: list[Any]) -> str:
    return "".join("" if value is None or value is UNDEFINED else to_string(value) for value in values)


def _merge(values: list[Any]) -> list[Any]:
    merged: list[Any] = []
    for value in values:
        if isinstance(value, list):
            merged.extend(cast("list[Any]", value))
        else:
            merged.append(value)
    return merged


def logically(value: Any) -> bool:
    """Returns whether a value is true in JSON Logic: as in JavaScript, but an empty array is false."""
    return bool(cast("list[Any]", value)) if isinstance(value, list) else truthy(value)


operations: Final[dict[str, Operation]] = {
    "==": lambda values: loosely_equal(*_two(values)),
    "===": lambda values: strictly_equal(*_two(values)),
    "!=": lambda values: not loosely_equal(*_two(values)),
    "!==": lambda values: not strictly_equal(*_two(values)),
    ">": lambda values: less(*reversed(_two(values))) is True,
    ">=": lambda values: less(*_two(values)) is False,
    "<": lambda values: _below(values, or_equal=False),
    "<=": lambda values: _below(values, or_equal=True),
    "!!": lambda values: logically(_two(values)[0]),
    "!": lambda values: not logically(_two(values)[0]),
    "%": _modulo,
    "+": _add,
    "*": _multiply,
    "-": _subtract,
    "/": _divide,
    "min": lambda values: _extreme(values, largest=False),
    "max": lambda values: _extreme(values, largest=True),
    "in": _in,
    "cat": _cat,
    "substr": _substr,
    "merge": _merge,
    "log": lambda values: values[0] if values else UNDEFINED,
}
