"""JSON Logic (https://jsonlogic.com) with JavaScript's coercions, and JSONata in its ``var``.

The value of a ``var`` is data and never applied as a rule, even if it looks like one. Inside ``map``,
``filter``, ``all``, ``some``, ``none`` and ``reduce`` a ``var`` has the standard's meaning: a path in the
entry (``qty``, the empty text for the whole entry, ``[path, default]``). What begins with ``$`` is JSONata
there, too: ``$.node`` is the context, ``$item`` the entry; in ``reduce`` there are ``$current`` and
``$accumulator``. In a switch with ``jsonLogic: standard`` all of a rule is so, with the context as the entry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final, cast

from .evaluation_limits import (
    UNBOUNDED,
    Bounds,
    ExpressionError,
    Halted,
    Stopped,
    TooLarge,
    TooLong,
    Watch,
    timed_out,
    too_large,
    under_watch,
    watching,
)
from .javascript import (
    UNDEFINED,
    less,
    loosely_equal,
    parse_float,
    strictly_equal,
    to_number,
    to_string,
    truthy,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


Operation = Callable[[list[Any]], Any]


class JavaScriptError(Exception):
    """An error that the JavaScript implementation would throw."""


def _two(values: list[Any]) -> tuple[Any, Any]:
    a, b = (*values, UNDEFINED, UNDEFINED)[:2]
    return a, b


def _below(values: list[Any], *, or_equal: bool) -> bool:
    a, b, c = (*values, UNDEFINED, UNDEFINED, UNDEFINED)[:3]
    first = _not_above(a, b) if or_equal else less(a, b) is True
    # JSON Logic's "between": `{"<": [1, x, 10]}`.
    if c is UNDEFINED or not first:
        return first
    return _not_above(b, c) if or_equal else less(b, c) is True


def _not_above(a: Any, b: Any) -> bool:
    return less(b, a) is False


def _add(values: list[Any]) -> Any:
    # https://jsonlogic.com/operations.html: `+` parses its operands, so that it also makes a text a number;
    # `-` converts them. One by one, as in JavaScript: Python's `sum` is more exact since 3.12.
    return _result(reduce(add, map(parse_float, values), 0.0))


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
    # JavaScript divides by zero, and knows negative zeros.
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
    texts = ["" if value is None or value is UNDEFINED else to_string(value) for value in values]
    watching().text(sum(map(len, texts)), *map(len, texts))
    return "".join(texts)


def _merge(values: list[Any]) -> list[Any]:
    merged: list[Any] = []
    for value in values:
        if isinstance(value, list):
            merged.extend(cast("list[Any]", value))
        else:
            merged.append(value)
        watching().entries(len(merged), new=0)
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

_DEEPEST: Final = 200
ARRAY_LOOPS: Final = frozenset({"map", "filter", "all", "some", "none", "reduce"})
_LAZY: Final = frozenset({"if", "?:", "and", "or"})

#: All operators.
OPERATORS: Final = frozenset({"var", "missing", "missing_some", *ARRAY_LOOPS, *_LAZY, *operations})


def holds(
    rule: Any,
    context: Any,
    evaluate: Callable[[str, Mapping[str, Any]], Any],
    *,
    standard: bool = False,
    bounds: Bounds = UNBOUNDED,
) -> bool:
    """Returns whether a rule holds: whether JavaScript's ``Boolean`` of its value is true.

    In `context`, ``missing`` and ``missing_some`` look up keys, with dots between them. `evaluate` evaluates
    JSONata against the whole context, with further bindings. With `standard`, a ``var`` is a path in the
    context, as https://jsonlogic.com says, unless it begins with ``$``. A rule that fails raises
    `ExpressionError`.
    """
    return truthy(apply(rule, context, evaluate, standard=standard, bounds=bounds))


def apply(
    rule: Any,
    context: Any,
    evaluate: Callable[[str, Mapping[str, Any]], Any],
    *,
    standard: bool = False,
    bounds: Bounds = UNBOUNDED,
) -> Any:
    """Returns the value of a rule; see `holds`."""
    scope = _Scope(data=context, evaluate=evaluate, is_entry=standard)
    try:
        return under_watch(Watch(bounds), lambda: scope.apply(rule))
    except Halted:
        raise Stopped("The evaluation was stopped") from None
    except (ExpressionError, JavaScriptError, RecursionError, TooLong, TooLarge) as error:
        shown = json.dumps(rule, indent=2, ensure_ascii=False, default=str)
        code, of_var = None, ""
        match error:
            case ExpressionError():
                message, code, of_var = error.cause, error.code, f"\nExpression: {error.expression}"
            case RecursionError():
                message = "the rule is nested too deeply"
            case TooLong():
                message, code = timed_out(bounds), "D1012"
            case TooLarge():
                message = too_large(error)
            case _:
                message = str(error)
        what = f"JSON Logic evaluation failed: {message}\nRule: {shown}{of_var}"
        raise ExpressionError(what, expression=shown, code=code) from None


def _is_var(members: dict[str, Any]) -> bool:
    return len(members) == 1 and "var" in members


def wrong_var(value: Any) -> str | None:
    """The reference's message for an invalid ``var``; None if it is valid."""
    if isinstance(value, str):
        return None
    kind = "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "object"
    return f"JSON Logic var operation must have a string value, got {kind}"


def vars_of(rule: Any) -> Iterator[str]:
    """The JSONata of a rule, without what is evaluated for the entries of a list."""
    if isinstance(rule, list):
        for part in cast("list[Any]", rule):
            yield from vars_of(part)
    elif isinstance(rule, dict):
        for name, value in cast("dict[str, Any]", rule).items():
            if name == "var" and isinstance(value, str):
                yield value
            elif name in ARRAY_LOOPS and isinstance(value, list):
                yield from vars_of(cast("list[Any]", value)[:1])
            else:
                yield from vars_of(value)


def is_jsonata(var: Any) -> bool:
    """Returns whether a ``var`` is JSONata also where it would otherwise be a path in an entry."""
    first: Any = cast("Any", var[0]) if isinstance(var, list) and var else cast("Any", var)
    return isinstance(first, str) and first.startswith("$")


@dataclass(frozen=True, slots=True)
class _Data:
    """The value of a ``var`` in a place where rules are expected; it is never applied."""

    value: Any


@dataclass(frozen=True, slots=True)
class _Scope:
    data: Any
    evaluate: Callable[[str, Mapping[str, Any]], Any]
    bindings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_entry: bool = False

    def apply(self, rule: Any, depth: int = 0) -> Any:
        if isinstance(rule, _Data):
            return rule.value
        if isinstance(rule, list):
            return [self.apply(part, depth + 1) for part in cast("list[Any]", rule)]
        if not isinstance(rule, dict):
            return rule
        if depth > _DEEPEST:
            raise RecursionError
        members = cast("dict[str, Any]", rule)
        # An object of several keys is no rule in the reference, but data in which a `var` still counts.
        if len(members) != 1:
            return self._filled(members, depth + 1)
        ((name, value),) = members.items()
        if name == "var":
            return self._var(value, depth + 1)
        values = self._operands(value, depth + 1)
        if name in _LAZY:
            return self._lazy(name, values, depth + 1)
        if name in ARRAY_LOOPS:
            return self._loop(name, values, depth + 1)
        arguments = [self.apply(part, depth + 1) for part in values]
        if name == "missing":
            return self._missing(arguments)
        if name == "missing_some":
            return self._missing_some(arguments)
        operation: Operation | None = operations.get(name)
        if operation is None:
            first = name.partition(".")[0]
            where = f" (failed at {first})" if first != name and first not in operations else ""
            raise JavaScriptError(f"Unrecognized operation {name}{where}")
        return operation(arguments)

    def _operands(self, value: Any, depth: int) -> list[Any]:
        """The operands of an operator: a list (also the value of a ``var`` in JSONata), or a single value."""
        if isinstance(value, dict) and _is_var(members := cast("dict[str, Any]", value)):
            var = members["var"]
            value = self._var(var, depth)
            # In the reference, JSONata's value stands in the rule in place of the var.
            is_path = self.is_entry and not is_jsonata(var)
            if is_path or not isinstance(value, list):
                return [_Data(value)]
            return [_Data(entry) for entry in cast("list[Any]", value)]
        return cast("list[Any]", value) if isinstance(value, list) else [value]

    def _var(self, var: Any, depth: int) -> Any:
        if not self.is_entry:
            if (wrong := wrong_var(var)) is not None:
                raise JavaScriptError(wrong)
            return _copied(self.evaluate(var, self.bindings))
        parts = cast("list[Any]", var) if isinstance(var, list) else [var]
        if not is_jsonata(var):
            return self._looked_up([self.apply(part, depth) for part in parts])
        value = _copied(self.evaluate(parts[0], self.bindings))
        return self.apply(parts[1], depth) if value is UNDEFINED and len(parts) > 1 else value

    def _filled(self, value: Any, depth: int) -> Any:
        """Replaces each ``var`` by its value in an object that is data, not a rule."""
        if isinstance(value, list):
            return [self._filled(entry, depth) for entry in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        members = cast("dict[str, Any]", value)
        if _is_var(members):
            return self._var(members["var"], depth)
        return {key: self._filled(member, depth) for key, member in members.items()}

    def _lazy(self, name: str, values: list[Any], depth: int) -> Any:
        if name in {"and", "or"}:
            current: Any = UNDEFINED
            for value in values:
                current = self.apply(value, depth)
                if logically(current) == (name == "or"):
                    break
            return current
        for index in range(0, len(values) - 1, 2):
            if logically(self.apply(values[index], depth)):
                return self.apply(values[index + 1], depth)
        return self.apply(values[-1], depth) if len(values) % 2 else None

    def _loop(self, name: str, values: list[Any], depth: int) -> Any:
        entries = self.apply(values[0], depth) if values else UNDEFINED
        body = values[1] if len(values) > 1 else UNDEFINED
        items: list[Any] | None = cast("list[Any]", entries) if isinstance(entries, list) else None
        if name == "reduce":
            return self._reduce(items, body, values[2:], depth)
        if items is None:
            return [] if name in {"map", "filter"} else name == "none"
        results = (self._inside(item, {"item": item}).apply(body, depth) for item in items)
        match name:
            case "map":
                return list(results)
            case "filter":
                return [item for item, result in zip(items, results, strict=True) if logically(result)]
            case "all":
                return bool(items) and all(logically(result) for result in results)
            case "some":
                return any(logically(result) for result in results)
            case _:
                return not any(logically(result) for result in results)

    def _reduce(self, items: list[Any] | None, body: Any, initial: list[Any], depth: int) -> Any:
        accumulator = self.apply(initial[0], depth) if initial else None
        for item in items or []:
            seen = {"current": item, "accumulator": accumulator}
            accumulator = self._inside(seen, seen).apply(body, depth)
        return accumulator

    def _inside(self, data: Any, bindings: Mapping[str, Any]) -> _Scope:
        return replace(self, data=data, bindings={**self.bindings, **bindings}, is_entry=True)

    def _missing(self, arguments: list[Any]) -> list[Any]:
        keys = cast("list[Any]", arguments[0]) if arguments and isinstance(arguments[0], list) else arguments
        return [key for key in keys if self._looked_up(key) in (None, "")]

    def _missing_some(self, arguments: list[Any]) -> list[Any]:
        needed, options = (*arguments, UNDEFINED, UNDEFINED)[:2]
        if options is None or options is UNDEFINED:
            raise JavaScriptError("missing_some needs a number and a list of keys")
        keys = cast("list[Any]", options) if isinstance(options, list) else [options]
        missing = self._missing(keys)
        if not isinstance(options, list | str):
            return missing
        there = to_number(len(cast("list[Any] | str", options)) - len(missing))
        return [] if there >= to_number(needed) else missing

    def _looked_up(self, key: Any) -> Any:
        """The value at a key with dots; if it is missing, the default from ``[key, default]``, or None."""
        parts = cast("list[Any]", key) if isinstance(key, list) else [key]
        path, default = (*parts, UNDEFINED, UNDEFINED)[:2]
        if path is None or path is UNDEFINED or path == "":
            return self.data
        value = self.data
        for step in to_string(path).split("."):
            value = _member(value, step)
            if value is UNDEFINED:
                return None if default is UNDEFINED else default
        return value


def _member(value: Any, name: str) -> Any:
    """JavaScript's ``value[name]`` for a JSON value."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(name, UNDEFINED)
    if not isinstance(value, list | str):
        return UNDEFINED
    entries = cast("list[Any] | str", value)
    if name == "length":
        return len(entries)
    # `"01"` is no index in JavaScript.
    is_index = name.isdecimal() and name == str(int(name)) and int(name) < len(entries)
    return entries[int(name)] if is_index else UNDEFINED


def _copied(value: Any) -> Any:
    """The value with its lists copied: in JavaScript, two ``var`` never return the same list."""
    return [_copied(entry) for entry in cast("list[Any]", value)] if isinstance(value, list) else value
