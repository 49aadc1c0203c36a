"""JSONata (https://docs.jsonata.org), by its own library: values, messages about syntax, names."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from .engine import (
    UNBOUNDED,
    Answers,
    Bounds,
    ExpressionError,
    Failure,
    call,
    milliseconds,
    to_json,
    with_exact_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_CACHED: Final = 2048
_PARSING: Final = Bounds(seconds=10)
#: The parts of an expression that see the same context as the whole of it.
_SAME_CONTEXT: Final = (
    *("lhs", "rhs", "expression", "expressions", "arguments"),
    *("condition", "then", "else", "body"),
)
_NAMES: Final = (
    "abs append assert average base64decode base64encode boolean ceil clone contains count decodeUrl "
    "decodeUrlComponent distinct each encodeUrl encodeUrlComponent error eval exists filter floor "
    "formatBase formatInteger formatNumber fromMillis join keys length lookup lowercase map match "
    "max merge millis min not now number pad parseInteger power random reduce replace reverse round "
    "shuffle sift single sort split spread sqrt string substring substringAfter substringBefore sum "
    "toMillis trim type uppercase zip"
)
FUNCTIONS: Final = frozenset(_NAMES.split())
"""The names of JSONata's functions: https://docs.jsonata.org/string-functions and the pages beside it."""

Part = dict[str, Any]


def check_jsonata(text: str) -> str | None:
    """JSONata's message about the syntax of an expression, with the position; None if it is right."""
    found = parsed(text)
    if not isinstance(found, Failure):
        return None
    where = "" if found.position is None else f" (position {min(found.position, len(text))})"
    return f"{found.message}{where}"


@lru_cache(maxsize=_CACHED)
def parsed(text: str) -> Part | Failure:
    """The syntax tree as the library makes it."""
    found = call("syntax", to_json(text), bounds=_PARSING)
    return found if isinstance(found, Failure) else cast("Part", found.value)


def evaluate(
    text: str,
    context: Any,
    bindings: Mapping[str, Any] | None = None,
    *,
    bounds: Bounds = UNBOUNDED,
    answers: Answers | None = None,
) -> Any:
    """Evaluates an expression.

    `context` and `bindings`, by name without ``$``, are JSON. With `answers`, there are the functions of
    histories (see `engine.call`). The result is JSON, or `UNDEFINED` if the expression selects nothing.
    Raises `ExpressionError`, or `Stopped` if `Bounds.is_stopped` returned True.
    """
    has_history = answers is not None
    values = with_exact_numbers(to_json(context)), with_exact_numbers(to_json(bindings or {}))
    found = call(
        "evaluate", to_json(text), *values, has_history, milliseconds(bounds), bounds=bounds, answers=answers
    )
    if not isinstance(found, Failure):
        return found.value
    where = "" if found.position is None else f"\nPosition: {found.position}"
    what = f"JSONata evaluation failed: {found.message}\nExpression: {text}{where}"
    raise ExpressionError(what, expression=text, code=found.code, cause=found.message)


def unset_variables(text: str) -> list[str]:
    """The names after ``$`` that an expression neither sets nor takes from JSONata's functions, in order."""
    used: dict[str, None] = {}
    known: set[str] = {"", "$", *FUNCTIONS}
    for part in symbols(text) if "$" in text else ():
        match part:
            case {"type": "variable", "value": str(name)}:
                used[name] = None
            case {"type": "bind", "lhs": {"value": str(name)}}:
                known.add(name)
            case {"type": "lambda"}:
                known.update(str(parameter["value"]) for parameter in part["arguments"])
            case _:
                pass
        known.update(str(part[key]) for key in ("focus", "index") if isinstance(part.get(key), str))
    return [name for name in used if name not in known]


def surely_called(text: str) -> set[str]:
    """The names after ``$`` that an expression calls whatever the values are."""
    tree = parsed(text)
    found, waiting = set[str](), list[Any]([] if isinstance(tree, Failure) else [tree])
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += cast("list[Any]", part)
        elif isinstance(part, dict):
            symbol = cast("Part", part)
            waiting += _surely_evaluated(symbol)
            if symbol.get("type") == "function":
                found.add(str(symbol["procedure"].get("value")))
    return found


def _surely_evaluated(symbol: Part) -> list[Any]:
    match symbol:
        case {"type": "path", "steps": [first, *_]}:  # the others only if it finds something
            return [first]
        case {"type": "condition", "condition": condition}:
            return [condition]
        case {"type": "binary", "value": "and" | "or", "lhs": first}:
            return [first]
        case {"type": "unary", "value": "{", "lhs": pairs}:  # without a key there is no value
            return [
                part for key, value in pairs for part in (key, value if key["type"] == "string" else None)
            ]
        case {"type": "lambda"}:
            return []
        case _:
            keys = ("procedure", "arguments", "lhs", "rhs", "expression", "expressions")
            return [symbol.get(key) for key in keys]


def symbols(text: str) -> Iterator[Part]:
    """All parts of an expression, in order; none if it is wrong."""
    tree = parsed(text)
    waiting: list[Any] = [] if isinstance(tree, Failure) else [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += reversed(cast("list[Any]", part))
        elif isinstance(part, dict):
            if "type" in part:
                yield cast("Part", part)
            waiting += reversed(list(cast("Part", part).values()))


def context_paths(text: str) -> list[list[Part]]:
    """The steps of each path that begins with a name in the whole context."""
    tree = parsed(text)
    try:
        return [] if isinstance(tree, Failure) else list(_context_steps(tree, _SAME_CONTEXT))
    except RecursionError:  # nested so deeply that nothing is said of it
        return []


def _context_steps(part: Any, same_context: Collection[str]) -> Iterator[list[Part]]:
    if isinstance(part, list):
        for inner in cast("list[Any]", part):
            yield from _context_steps(inner, same_context)
    if not isinstance(part, dict):
        return
    symbol = cast("Part", part)
    if symbol.get("type") != "path":
        for key in same_context:
            yield from _context_steps(symbol.get(key), same_context)
        return
    steps: list[Part] = symbol["steps"]
    first = steps[0]
    # The context by its name, or the whole of it.
    named = steps[1:] if first["type"] == "variable" and first["value"] in ("", "$") else steps
    if named and named[0]["type"] == "name" and named[0]["value"]:
        yield named
    else:  # later steps have another context
        yield from _context_steps(first, same_context)


def name_span(text: str, step: Part) -> tuple[int, int]:
    """Where a name is in an expression: the library's positions are behind it."""
    end, name = int(step.get("position") or 0), str(step["value"])
    return max(end - len(name) - 2 * (text[end - 1 : end] == "`"), 0), end
