"""JSONata, through ``jsonata-python``: bounded, wrapped, and safe to use by many threads.

https://docs.jsonata.org. What the library needs and why: its check of the input costs time in proportion to
the whole context and is left off; each evaluation has bindings of its own, because the library keeps what it
binds in the expression otherwise; it raises exceptions of every kind, hence one wrapper around all of them.
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
from .engine import Functions, JException, Jsonata, Utils
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
    """Says what is wrong with an expression before it is used.

    Args:
        text: The expression.

    Returns:
        What is wrong, in JSONata's own words and with the position; None if nothing is.
    """
    found = _compiled(text)
    return found.said if isinstance(found, _Fault) else None


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
        context: Its input, plain JSON. Never changed.
        bindings: Functions and values by name, without ``$``; functions as `function` makes them.
        bounds: How long and how deep it may go.
        is_marked: The context and the bindings have been through `marked` already.

    Returns:
        JSON, or `UNDEFINED` if the expression selects nothing. Parts of it may be parts of the context.

    Raises:
        ExpressionError: The expression is wrong, or fails.
        Stopped: `Bounds.is_stopped` said so.
    """
    found = _compiled(text)
    if isinstance(found, _Fault):
        raise _error(text, found.said, code=found.code)
    if not is_marked:
        context = marked(context)
        bindings = {name: marked(value) for name, value in (bindings or {}).items()}
    watch = Watch(bounds)
    before = matching.watch
    matching.watch = watch
    try:
        return _plain(_evaluated(found, context, bindings, watch))
    except Stopped:
        raise
    except Exception as error:
        said, code = _reason(error, bounds, watch)
        place = position(error) if isinstance(error, JException) else None
        raise _error(text, said, code=code, place=place) from None
    finally:
        matching.watch = before


def function(name: str, signature: str, call: Any) -> Any:
    """Makes a function for `bindings`.

    Args:
        name: Its name, without ``$``.
        signature: JSONata's signature, such as ``<n?:o>``; arguments that violate it fail with T0410.
        call: Takes and gives what `marked` makes of JSON; None is undefined.
    """
    return Checked(Jsonata.JLambda(call), name, _signature(signature))


@lru_cache(maxsize=32)
def _signature(text: str) -> Any:
    return Jsonata.JFunction(None, text).signature


def _evaluated(expression: Any, context: Any, bindings: Mapping[str, Any] | None, watch: Watch) -> Any:
    frame = Jsonata.Frame(_functions)
    own: dict[str, Any] = frame.bindings
    if bindings:
        own.update(bindings)
    own["$"] = context
    own["__evaluate_entry"] = watch.enter
    own["__evaluate_exit"] = watch.leave
    if isinstance(context, list):
        context = Utils.create_sequence(context)
        context.outer_wrapper = True
    instance = _instance()
    # What $now() and $millis() give, the same for the whole evaluation.
    instance.timestamp = round(time.time() * 1000)
    outer = Jsonata.CURRENT.jsonata
    Jsonata.CURRENT.jsonata = instance
    try:
        return instance.eval(expression.ast, context, frame)
    finally:
        Jsonata.CURRENT.jsonata = outer


class _PerThread(threading.local):
    """The library keeps one parser for each thread, too."""

    def __init__(self) -> None:
        Jsonata.PARSER.parser = ExpressionParser()
        self.instance: Any = None


_per_thread: Final = _PerThread()


def _instance() -> Any:
    """The evaluator of this thread; which expression it was made from makes no difference."""
    if _per_thread.instance is None:
        _per_thread.instance = Evaluator("null", bounded_engine)
    return _per_thread.instance


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with an expression that cannot be compiled, and JSONata's code for it."""

    said: str
    code: str | None = None


@lru_cache(maxsize=_CACHED)
def _compiled(text: str) -> Any:
    """The compiled expression, or what is wrong with it."""
    try:
        # The library leaves the expression that was compiled last behind as the thread's evaluator.
        with _compiling:
            _instance()
            outer = getattr(Jsonata.CURRENT, "jsonata", None)
            compiled = Jsonata(text, bounded_engine)
            if outer is not None:
                Jsonata.CURRENT.jsonata = outer
    except RecursionError:
        return _Fault("The expression is nested too deeply")
    except IndexError:  # the library looked behind the last character
        return _fault_of(text, JException("S0106", -1))
    except KeyError as error:
        return _fault_of(text, JException("S0204", -1, error.args[0]))
    except Exception as error:
        return _fault_of(text, error)
    return _fault_of(text, compiled.errors[0]) if compiled.errors else compiled


def _error(text: str, said: str, *, code: str | None = None, place: int | None = None) -> ExpressionError:
    where = "" if place is None else f"\nPosition: {place}"
    what = f"JSONata evaluation failed: {said}\nExpression: {text}{where}"
    return ExpressionError(what, expression=text, code=code, cause=said)


def _reason(error: Exception, bounds: Bounds, watch: Watch) -> tuple[str, str | None]:
    match error:
        case TooDeep() | RecursionError():
            return (
                "Stack overflow. Check for a function that calls itself for ever, or write it as"
                " tail-recursive",
                "D1011",
            )
        case TooLong():
            return _timed_out(bounds), "D1012"
        case _ if isinstance(error, JException) and watch.left <= 0.001:  # $eval hides why it failed
            return _timed_out(bounds), "D1012"
        case _ if isinstance(error, JException):
            return message(error), cast("Any", error).get_error()
        case TypeError() | AttributeError():  # in the library's words, which say nothing about the expression
            return "A value has another type than what is done with it needs", None
        case ZeroDivisionError() | OverflowError() | OSError():
            return f"Number out of range: {_one_line(error)}", "D1001"
        case _:
            return _one_line(error) or type(error).__name__, None


def _timed_out(bounds: Bounds) -> str:
    return f"Evaluation timeout after {round(bounds.seconds * 1000)} milliseconds. Check for infinite loop"


def _fault_of(text: str, error: Exception) -> _Fault:
    if isinstance(error, JException):
        given = cast("Any", error)
        if given.error == "S0301" and given.current is not None:  # how the library refuses an escape
            error = JException("S0103", given.location, given.current)
        place = position(error)
        where = "" if place is None else f" (position {min(place, len(text))})"
        return _Fault(f"{message(error)}{where}", cast("Any", error).get_error())
    return _Fault(f"Syntax error: {_one_line(error) or type(error).__name__}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def _plain(value: Any) -> Any:
    """JSON of what the library gives: None for null, `UNDEFINED` for nothing; functions are nothing."""
    if value is None or _is_function(value):
        return UNDEFINED
    return _converted(value)


def _converted(value: Any) -> Any:
    kind: Any = cast("Any", type)(value)
    if kind is str or kind is bool or value is NULL or value is None:
        return None if value is NULL else value
    if kind is int:
        # The library makes integers of large numbers; written out they would have up to 300 digits.
        is_exact = abs(value) < _LARGEST_EXACT or (
            abs(value) < _LARGEST_INTEGER and int(float(value)) != value
        )
        return value if is_exact else plain_number(float(value))
    if kind is float:
        return plain_number(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return _converted_object(cast("dict[str, Any]", value))
    if isinstance(value, Utils.RangeList):
        # Its own iterator leaves out the last number.
        return list(range(value.a, value.b + 1))
    if isinstance(value, list):
        return _converted_array(cast("list[Any]", value))
    return str(value)


def _converted_object(members: dict[str, Any]) -> dict[str, Any]:
    """The object itself if nothing in it needs to change: large parts of the context pass through."""
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
        return members if type(members) is dict else dict(members.items())  # the context itself goes on
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
