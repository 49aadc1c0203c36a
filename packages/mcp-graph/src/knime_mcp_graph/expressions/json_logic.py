"""JSON Logic (https://jsonlogic.com) by its own library, and JSONata in its ``var``; see `bridge.js`.

The value of a ``var`` is data and never applied as a rule, even if it looks like one. Inside ``map``,
``filter``, ``all``, ``some``, ``none`` and ``reduce`` a ``var`` has the standard's meaning: a path in the
entry (``qty``, the empty text for the whole entry, ``[path, default]``). What begins with ``$`` is JSONata
there, too: ``$.node`` is the context, ``$item`` the entry; in ``reduce`` there are ``$current`` and
``$accumulator``. In a switch with ``jsonLogic: standard`` all of a rule is so, with the context as the entry.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from .engine import UNBOUNDED, Answers, Bounds, ExpressionError, Failure, Found, call, milliseconds, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

ARRAY_LOOPS: Final = frozenset({"map", "filter", "all", "some", "none", "reduce"})
_OTHERS: Final = (
    "var missing missing_some if ?: and or == === != !== > >= < <= !! !"
    " % + * - / min max in cat substr merge log"
)
#: All operators.
OPERATORS: Final = frozenset({*_OTHERS.split(), *ARRAY_LOOPS})


def holds(
    rule: Any,
    context: Any,
    *,
    standard: bool = False,
    bounds: Bounds = UNBOUNDED,
    answers: Answers | None = None,
) -> bool:
    """Returns whether a rule holds: whether JavaScript's ``Boolean`` of its value is true.

    In `context`, ``missing`` and ``missing_some`` look up keys, with dots between them. With `standard`, a
    ``var`` is a path in the context, as https://jsonlogic.com says, unless it begins with ``$``. `answers`
    is that of `evaluate`. A rule that fails raises `ExpressionError`.
    """
    return _found(rule, context, standard, bounds, answers).holds


def apply(
    rule: Any,
    context: Any,
    *,
    standard: bool = False,
    bounds: Bounds = UNBOUNDED,
    answers: Answers | None = None,
) -> Any:
    """Returns the value of a rule; see `holds`."""
    return _found(rule, context, standard, bounds, answers).value


def _found(rule: Any, context: Any, standard: bool, bounds: Bounds, answers: Answers | None) -> Found:
    given = to_json(rule), to_json(context), answers is not None, standard, milliseconds(bounds)
    found = call("apply", *given, bounds=bounds, answers=answers)
    if not isinstance(found, Failure):
        return found
    shown = json.dumps(rule, indent=2, ensure_ascii=False, default=str)
    of_var = "" if found.of is None else f"\nExpression: {found.of}"
    what = f"JSON Logic evaluation failed: {found.message}\nRule: {shown}{of_var}"
    raise ExpressionError(what, expression=shown, code=found.code)


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
