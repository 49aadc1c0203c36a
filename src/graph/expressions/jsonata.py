"""JSONata, through ``jsonata-python``: bounded, wrapped, and safe to use by many threads.

https://docs.jsonata.org. Differences from plain use of the library: its check of the input is switched off,
as it walks through the whole context; each evaluation has its own bindings, as the library would keep them in
the expression; all its exceptions, which are of many kinds, become `ExpressionError`.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from .arguments import Checked
from .bounds import Bounds, TooDeep, TooLong, Watch
from .engine import Functions, JException, Jsonata, Parser, Utils
from .errors import ExpressionError, Stopped
from .evaluator import Evaluator, ExpressionParser
from .messages import message, position
from .nulls import NULL, marked
from .own_functions import FUNCTIONS
from .regexes import bounded_engine, matching
from .values import UNDEFINED, plain_number

if TYPE_CHECKING:
    from collections.abc import Mapping

_CACHED: Final = 2048
_UNBOUNDED: Final = Bounds()
_LARGEST_INTEGER: Final = 10**21
_LARGEST_EXACT: Final = 1 << 53

_compiling: Final = threading.Lock()
_functions: Final = Jsonata.Frame(None)
_functions.bindings = FUNCTIONS


def check_jsonata(text: str) -> str | None:
    """Checks the syntax of an expression.

    Args:
        text: The expression.

    Returns:
        JSONata's message with the position; None if the syntax is right.
    """
    compiled = _compiled(text)
    return compiled.message if isinstance(compiled, _Fault) else None


def unset_variables(text: str) -> list[str]:
    """The names after ``$`` that an expression neither sets nor takes from JSONata's functions.

    Args:
        text: The expression. One with a fault has no such names.

    Returns:
        The names without ``$``, in the order of their first use.
    """
    compiled = _compiled(text) if "$" in text else None
    if compiled is None or isinstance(compiled, _Fault):
        return []
    used: dict[str, None] = {}
    known: set[str] = {"", "$", *FUNCTIONS}
    seen: set[int] = set()
    waiting: list[Any] = [compiled.ast]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += reversed(cast("list[Any]", part))
        elif isinstance(part, Parser.Symbol) and id(part) not in seen:
            seen.add(id(part))
            symbol: Any = part
            if symbol.type == "variable":
                used[str(symbol.value)] = None
            elif symbol.type == "bind":
                known.add(str(symbol.lhs.value))
            elif symbol.type == "lambda":
                known.update(str(parameter.value) for parameter in symbol.arguments)
            members: dict[str, Any] = symbol.__dict__
            known.update(str(members[key]) for key in ("focus", "index") if members.get(key) is not None)
            inner = [member for member in members.values() if isinstance(member, (list, Parser.Symbol))]
            waiting += reversed(inner)
    return [name for name in used if name not in known]


def evaluate(
    text: str,
    context: Any,
    bindings: Mapping[str, Any] | None = None,
    *,
    bounds: Bounds = _UNBOUNDED,
    is_marked: bool = False,
) -> Any:
    """Evaluates an expression. Compiles it once per process.

    Args:
        text: The expression.
        context: The input, plain JSON. Never changed.
        bindings: Functions (see `function`) and values by name, without ``$``.
        bounds: The limits of the evaluation.
        is_marked: Whether the context and the bindings have been through `marked` already.

    Returns:
        JSON, or `UNDEFINED` if the expression selects nothing. Parts of it may be parts of the context.

    Raises:
        ExpressionError: The expression is wrong, or fails.
        Stopped: `Bounds.is_stopped` returned True.
    """
    compiled = _compiled(text)
    if isinstance(compiled, _Fault):
        raise _error(text, compiled.message, code=compiled.code)
    if not is_marked:
        context = marked(context)
        bindings = {name: marked(value) for name, value in (bindings or {}).items()}
    watch = Watch(bounds)
    before = matching.watch
    matching.watch = watch
    try:
        return _plain(_evaluated(compiled, context, bindings, watch))
    except Stopped:
        raise
    except Exception as error:
        reason, code = _reason(error, bounds, watch)
        place = position(error) if isinstance(error, JException) else None
        raise _error(text, reason, code=code, place=place) from None
    finally:
        matching.watch = before


def function(name: str, signature: str, call: Any) -> Any:
    """Makes a function for `bindings`.

    Args:
        name: Its name, without ``$``.
        signature: JSONata's signature, such as ``<n?:o>``; arguments that violate it fail with T0410.
        call: The Python function. Its arguments and result are in the form that `marked` returns; None is
            undefined.
    """
    return Checked(Jsonata.JLambda(call), name, _signature(signature))


@lru_cache(maxsize=32)
def _signature(text: str) -> Any:
    return Jsonata.JFunction(None, text).signature


def _evaluated(expression: Any, context: Any, bindings: Mapping[str, Any] | None, watch: Watch) -> Any:
    frame = Jsonata.Frame(_functions)
    names: dict[str, Any] = frame.bindings
    if bindings:
        names.update(bindings)
    names["$"] = context
    names["__evaluate_entry"] = watch.enter
    names["__evaluate_exit"] = watch.leave
    if isinstance(context, list):
        context = Utils.create_sequence(context)
        context.outer_wrapper = True
    instance = _instance()
    # The time of $now() and $millis(), the same for the whole evaluation.
    instance.timestamp = round(time.time() * 1000)
    outer = Jsonata.CURRENT.jsonata
    Jsonata.CURRENT.jsonata = instance
    try:
        return instance.eval(expression.ast, context, frame)
    finally:
        Jsonata.CURRENT.jsonata = outer


class _PerThread(threading.local):
    """The evaluator of each thread. The library keeps one parser per thread, which is replaced here, too."""

    def __init__(self) -> None:
        Jsonata.PARSER.parser = ExpressionParser()
        self.instance: Any = None


_per_thread: Final = _PerThread()


def _instance() -> Any:
    """This thread's evaluator; it evaluates any expression, not only the one that it was made with."""
    if _per_thread.instance is None:
        _per_thread.instance = Evaluator("null", bounded_engine)
    return _per_thread.instance


@dataclass(frozen=True, slots=True)
class _Fault:
    """The message and JSONata's code for an expression that cannot be compiled."""

    message: str
    code: str | None = None


@lru_cache(maxsize=_CACHED)
def _compiled(text: str) -> Any:
    """The compiled expression, or a `_Fault`."""
    try:
        # Compiling makes the new expression the thread's evaluator, so the evaluator before is put back.
        with _compiling:
            _instance()
            outer = getattr(Jsonata.CURRENT, "jsonata", None)
            compiled = Jsonata(text, bounded_engine)
            if outer is not None:
                Jsonata.CURRENT.jsonata = outer
    except RecursionError:
        return _Fault("The expression is nested too deeply")
    except IndexError:  # the library read past the last character
        return _fault_of(text, JException("S0106", -1))
    except KeyError as error:
        return _fault_of(text, JException("S0204", -1, error.args[0]))
    except Exception as error:
        return _fault_of(text, error)
    return _fault_of(text, compiled.errors[0]) if compiled.errors else compiled


def _error(text: str, reason: str, *, code: str | None = None, place: int | None = None) -> ExpressionError:
    where = "" if place is None else f"\nPosition: {place}"
    what = f"JSONata evaluation failed: {reason}\nExpression: {text}{where}"
    return ExpressionError(what, expression=text, code=code, cause=reason)


def _reason(error: Exception, bounds: Bounds, watch: Watch) -> tuple[str, str | None]:
    match error:
        case TooDeep() | RecursionError():
            return (
                "Stack overflow. Check for a function that calls itself forever, or write it as"
                " tail-recursive",
                "D1011",
            )
        case TooLong():
            return _timed_out(bounds), "D1012"
        case _ if isinstance(error, JException) and watch.left <= 0.001:  # $eval hides the reason
            return _timed_out(bounds), "D1012"
        case _ if isinstance(error, JException):
            return message(error), cast("Any", error).get_error()
        case TypeError() | AttributeError():  # Python's message says nothing about the expression
            return "A value has the wrong type for this operation", None
        case ZeroDivisionError() | OverflowError() | OSError():
            return f"Number out of range: {_one_line(error)}", "D1001"
        case _:
            return _one_line(error) or type(error).__name__, None


def _timed_out(bounds: Bounds) -> str:
    return f"Evaluation timeout after {round(bounds.seconds * 1000)} milliseconds. Check for infinite loop"


def _fault_of(text: str, error: Exception) -> _Fault:
    if isinstance(error, JException):
        given = cast("Any", error)
        if given.error == "S0301" and given.current is not None:  # the library's error for a wrong escape
            error = JException("S0103", given.location, given.current)
        place = position(error)
        where = "" if place is None else f" (position {min(place, len(text))})"
        return _Fault(f"{message(error)}{where}", cast("Any", error).get_error())
    return _Fault(f"Syntax error: {_one_line(error) or type(error).__name__}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def _plain(value: Any) -> Any:
    """Turns a value of the library into JSON; None and functions become `UNDEFINED`."""
    if value is None or _is_function(value):
        return UNDEFINED
    return _converted(value)


def _converted(value: Any) -> Any:
    kind: Any = cast("Any", type)(value)
    if kind is str or kind is bool or value is NULL or value is None:
        return None if value is NULL else value
    if kind is int:
        # The library turns large numbers into integers, which would be written with up to 300 digits.
        is_exact = abs(value) < _LARGEST_EXACT or (
            abs(value) < _LARGEST_INTEGER and int(float(value)) != value
        )
        return value if is_exact else plain_number(float(value))
    if kind is float:
        return plain_number(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return _converted_object(cast("dict[str, Any]", value))
    if isinstance(value, Utils.RangeList):
        # The library's iterator leaves out the last number.
        return list(range(value.a, value.b + 1))
    if isinstance(value, list):
        return _converted_array(cast("list[Any]", value))
    return str(value)


def _converted_object(members: dict[str, Any]) -> dict[str, Any]:
    """The object as JSON; itself if nothing changes, as large parts of the context pass through."""
    changed: dict[str, Any] = {}
    dropped = False
    for key, member in members.items():
        if _is_function(member):
            dropped = True
            continue
        new = _converted(member)
        if new is not member:
            changed[key] = new
    if not changed and not dropped:
        return members if type(members) is dict else dict(members.items())
    return {
        key: changed.get(key, member) if key in changed else member
        for key, member in members.items()
        if not _is_function(member)
    }


def _converted_array(entries: list[Any]) -> list[Any]:
    new = [None if _is_function(entry) else _converted(entry) for entry in entries]
    if type(entries) is list and all(a is b for a, b in zip(new, entries, strict=True)):
        return entries
    return new


def _is_function(value: Any) -> bool:
    kind: Any = cast("Any", type)(value)
    if kind is str or kind is dict or kind is list or kind is int or kind is float:
        return False
    return bool(Utils.is_function(value) or Functions.is_lambda(value) or Functions.is_regex(value))
