"""JSONata, through ``jsonata-python``: bounded, wrapped, and safe to use by many threads.

https://docs.jsonata.org. Differences from plain use of the library: its check of the input is switched off,
as it walks through the whole context; each evaluation has its own bindings, as the library would keep them in
the expression; all its exceptions, which are of many kinds, become `ExpressionError`.
"""

from __future__ import annotations

import copy
import math
import re
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from .evaluation_limits import (
    MOST_CHARACTERS,
    MOST_ENTRIES,
    UNBOUNDED,
    Bounds,
    ExpressionError,
    Halted,
    Stopped,
    TooDeep,
    TooLarge,
    TooLong,
    Watch,
    timed_out,
    too_large,
    under_watch,
    watching,
)
from .javascript import UNDEFINED, indices_first, plain_number, strictly_equal
from .jsonata_functions import FUNCTIONS, OwnFunctions
from .jsonata_library import (
    NULL,
    Checked,
    Functions,
    JException,
    Jsonata,
    Parser,
    Tokenizer,
    Utils,
    marked,
    with_names,
)
from .jsonata_messages import message, position
from .jsonata_patterns import bounded_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_HALF: Final = re.compile("[\ud800-\udfff]")
#: Messages of the library's plain errors.
_CODES: Final = {text: code for code, text in cast("Any", JException).error_codes.items()}
SAME_CONTEXT: Final = (
    *("lhs", "rhs", "expression", "expressions", "lhs_object"),
    *("arguments", "condition", "then", "_else"),
)
_CACHED: Final = 2048
_LARGEST_INTEGER: Final = 10**21
_LARGEST_EXACT: Final = 1 << 53

# The library is not made for threads: one expression is compiled at a time.
_compiling: Final = threading.Lock()
_current: Final[threading.local] = Jsonata.CURRENT
_parsers: Final[threading.local] = Jsonata.PARSER
_functions: Final = Jsonata.Frame(None)
_functions.bindings = FUNCTIONS


def check_jsonata(text: str) -> str | None:
    """JSONata's message about the syntax of an expression, with the position; None if it is right."""
    compiled = parsed(text)
    return compiled.message if isinstance(compiled, Fault) else None


def unset_variables(text: str) -> list[str]:
    """The names after ``$`` that an expression neither sets nor takes from JSONata's functions, in order."""
    compiled = parsed(text) if "$" in text else None
    if compiled is None or isinstance(compiled, Fault):
        return []
    used: dict[str, None] = {}
    known: set[str] = {"", "$", *FUNCTIONS}
    for symbol in symbols(compiled.ast):
        if symbol.type == "variable":
            used[str(symbol.value)] = None
        elif symbol.type == "bind":
            known.add(str(symbol.lhs.value))
        elif symbol.type == "lambda":
            known.update(str(parameter.value) for parameter in symbol.arguments)
        members: dict[str, Any] = symbol.__dict__
        known.update(str(members[key]) for key in ("focus", "index") if members.get(key) is not None)
    return [name for name in used if name not in known]


def symbols(ast: Any) -> Iterator[Any]:
    """All parts of an expression, in order."""
    seen: set[int] = set()
    waiting: list[Any] = [ast]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += reversed(cast("list[Any]", part))
        elif isinstance(part, Parser.Symbol) and id(part) not in seen:
            seen.add(id(part))
            yield part
            members: dict[str, Any] = part.__dict__
            waiting += reversed([one for one in members.values() if isinstance(one, (list, Parser.Symbol))])


def context_steps(part: Any, same_context: Sequence[str]) -> Iterator[list[Any]]:
    """The steps of each path that begins with a name in the whole context."""
    symbol: Any = part
    for inner in cast("list[Any]", part) if isinstance(part, list | tuple) else ():
        yield from context_steps(inner, same_context)
    if not isinstance(part, Parser.Symbol):
        return
    if symbol.type != "path":
        inner = [getattr(symbol, key, None) for key in same_context]
        yield from context_steps(inner, same_context)
        return
    first, *_ = steps = symbol.steps
    named = steps
    if first.type == "variable" and first.value in ("", "$"):
        named = steps[1:]  # the context by its name
    if named and named[0].type == "name" and named[0].value:
        yield named
    else:  # later steps have another context
        yield from context_steps(first, same_context)


def evaluate(
    text: str,
    context: Any,
    bindings: Mapping[str, Any] | None = None,
    *,
    bounds: Bounds = UNBOUNDED,
    is_marked: bool = False,
) -> Any:
    """Evaluates an expression; compiles it once per process.

    The context is plain JSON and never changed. `bindings` are functions (see `function`) and values by name,
    without ``$``. `is_marked`: context and bindings have been through `marked` already. The result is JSON,
    perhaps with parts of the context, or `UNDEFINED` if the expression selects nothing. Raises
    `ExpressionError`, or `Stopped` if `Bounds.is_stopped` returned True.
    """
    compiled = parsed(text)
    if isinstance(compiled, Fault):
        raise _error(text, compiled.message, code=compiled.code)
    if not is_marked:
        context = marked(context)
        bindings = {name: marked(value) for name, value in (bindings or {}).items()}
    watch = Watch(bounds)
    try:
        return _evaluated(compiled, context, bindings, watch)
    except Exception as error:
        if isinstance(error, Halted) or (isinstance(error, JException) and watch.why_over() is Halted):
            raise Stopped("The evaluation was stopped") from None
        reason, code = _reason(error, bounds, watch)
        place = position(error) if isinstance(error, JException) else None
        raise _error(text, reason, code=code, place=place) from None


def function(name: str, signature: str, call: Any) -> Any:
    """Makes a function for `bindings`.

    Arguments that violate the signature (such as ``<n?:o>``) fail with T0410. `call` takes and returns
    values in the form that `marked` returns; None is undefined.
    """
    return Checked(Jsonata.JLambda(call), name, _signature(signature))


@lru_cache(maxsize=32)
def _signature(text: str) -> Any:
    return Jsonata.JFunction(None, text).signature


class Range(Utils.RangeList):
    """Numbers from `a` to `b`. A long one can be counted and asked for single numbers only."""

    def __iter__(self) -> Any:
        watching().entries(len(self))
        return iter(range(self.a, self.b + 1))


class _Functions(Functions):
    function_clone = staticmethod(OwnFunctions.clone)

    @staticmethod
    def append(arg1: Any, arg2: Any) -> Any:
        if isinstance(arg2, Range) and len(arg2) > MOST_ENTRIES and arg1 == []:
            return arg2
        sizes = [len(cast("list[Any]", part)) if isinstance(part, list) else 1 for part in (arg1, arg2)]
        watching().entries(sum(sizes), max(sizes) + 1, new=sizes[1])
        return Functions.append(arg1, arg2)


_mended: Final = SimpleNamespace(Functions=_Functions)  # stands for the library's module of functions


class Evaluator(Jsonata):
    def evaluate_string_concat(self, lhs: Any, rhs: Any) -> str:
        """``&``."""
        left, right = OwnFunctions.string(lhs, None) or "", OwnFunctions.string(rhs, None) or ""
        watching().text(len(left) + len(right))
        return left + right

    def evaluate_includes_expression(self, lhs: Any, rhs: Any) -> bool:
        """``in``, by JavaScript's ``===``: in Python, True equals 1, and equal dicts are equal."""
        if lhs is None or rhs is None:
            return False
        entries = cast("list[Any]", rhs) if isinstance(rhs, list) else [rhs]
        return any(strictly_equal(entry, lhs) for entry in entries)

    def evaluate_numeric_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """``+ - * / %``; the library's ``%`` drops fractions, and its ``/`` fails for zero."""
        if op in {"%", "/"} and Utils.is_numeric(lhs) and Utils.is_numeric(rhs):
            if rhs == 0:
                return math.nan if op == "%" or lhs == 0 else math.copysign(math.inf, lhs)
            if op == "%":
                return Utils.convert_number(math.fmod(lhs, rhs))
        return self._other_numeric(lhs, rhs, op)

    def evaluate_group_expression(self, expr: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``{...}``; the library would add an entry to an empty array, which may be part of the input."""
        is_empty = isinstance(input, list) and not input
        groups = self._other_group(expr, Utils.create_sequence(None) if is_empty else input, environment)
        return indices_first(groups)

    def evaluate_filter(self, predicate: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``[...]``; the library rounds negative numbers up, and takes undefined entries for ``null``."""
        # A condition is also evaluated for undefined, as it may hold.
        entries = cast("list[Any]", input if isinstance(input, list) else Utils.create_sequence(input))
        has_names: bool = getattr(entries, "tuple_stream", False)
        found: Any = Utils.create_sequence()
        found.tuple_stream = has_names
        if predicate.type == "number":
            place = _place(predicate.value, entries)
            entry = entries[place] if 0 <= place < len(entries) else None
            if isinstance(entry, list):
                return cast("Any", entry)
            found += () if entry is None else (entry,)
            return found
        for number, entry in enumerate(entries):
            context, names = entry, environment
            if has_names:
                context, names = entry["@"], self.create_frame_from_tuple(environment, entry)
            wanted = self.eval(predicate, context, names)
            places: Any = [wanted] if Utils.is_numeric(wanted) else wanted
            if Utils.is_array_of_numbers(places):
                found += [entry for place in places if _place(place, entries) == number]
            elif Jsonata.boolize(wanted):
                found.append(entry)
        return found

    def evaluate_transform_expression(self, expr: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``|...|``; the library names the function after its own class, and takes ``null`` for undefined."""
        function = self._other_transform(expr, input, environment)
        return Checked(_Transformer(self, expr, environment), "transform", function.signature)

    def evaluate_partial_application(self, expr: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``f(?, 1)``; the library does not notice that a ``$`` is missing."""
        procedure = expr.procedure
        if procedure.type == "path" and self.eval(procedure, input, environment) is None:
            name = str(procedure.steps[0].value)
            code = "T1008" if environment.lookup(name) is None else "T1007"
            raise JException(code, expr.position, name)
        return self._other_partial(expr, input, environment)

    def evaluate_range_expression(self, lhs: Any, rhs: Any) -> Any:
        """``[a..b]``, whose numbers are made when they are asked for."""
        numbers = self._other_range(lhs, rhs)
        return Range(numbers.a, numbers.b - 1) if isinstance(numbers, Utils.RangeList) else numbers

    # The library prints a value that is called although it is no function. With stdio, that would write into
    # the protocol's stream.
    apply_inner: Any = with_names(Jsonata.apply_inner, print=lambda *_values: None)  # pyright: ignore[reportUnknownLambdaType] - any
    evaluate_unary: Any = with_names(Jsonata.evaluate_unary, functions=_mended)
    evaluate_wildcard: Any = with_names(Jsonata.evaluate_wildcard, functions=_mended)
    reduce_tuple_stream: Any = with_names(Jsonata.reduce_tuple_stream, functions=_mended)
    _other_range: Any = Jsonata.evaluate_range_expression
    _other_numeric: Any = Jsonata.evaluate_numeric_expression
    _other_group: Any = with_names(Jsonata.evaluate_group_expression, functions=_mended)
    _other_partial: Any = Jsonata.evaluate_partial_application
    _other_transform: Any = Jsonata.evaluate_transform_expression


def _place(index: float, entries: list[Any]) -> int:
    place = math.floor(index)
    return place + len(entries) if place < 0 else place


class _Transformer(Jsonata.Transformer):
    """``|...|``, which clones its input as ``$clone`` does here."""

    call: Any = with_names(Jsonata.Transformer.call, functions=_mended)


class _Tokenizer(Tokenizer):
    """Appends a line feed: the library's tokenizer reads one character past the end of an expression."""

    def __init__(self, path: str, *more: Any) -> None:
        Tokenizer.__init__(self, f"{path}\n", *more)


class ExpressionParser(Parser):
    """Parses expressions. Two surrogate escapes, as JSON has them, become one character."""

    def parse(self, text: str, *more: Any) -> Any:
        try:
            return self._other_parse(text, *more)
        except RuntimeError as error:
            code = _CODES.get(str(error))
            if isinstance(error, JException) or code is None:
                raise
            raise JException(code, -1) from None  # a wrong signature of a function

    def process_ast(self, expr: Any) -> Any:
        if expr.type == "string" and _HALF.search(expr.value):
            expr = copy.copy(expr)
            expr.value = expr.value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if expr.type == "condition" and expr.value in {"?:", "??"}:
            # Condition and result are the same node; processing it twice would change it twice.
            expr.then = _copied(expr.then, {})
        return self._other_process(expr)

    _other_process: Any = Parser.process_ast
    _other_parse: Any = with_names(Parser.parse, tokenizer=SimpleNamespace(Tokenizer=_Tokenizer))


def _copied(part: Any, copies: dict[int, Any]) -> Any:
    """A deep copy of a part of the syntax tree; a node that occurs twice is copied once."""
    if isinstance(part, list):
        return [_copied(inner, copies) for inner in cast("list[Any]", part)]
    if not isinstance(part, Parser.Symbol):
        return part
    number = id(part)
    if number not in copies:
        copied: Any = copy.copy(part)
        copies[number] = copied
        members: dict[str, Any] = copied.__dict__
        members.update({name: _copied(inner, copies) for name, inner in members.items()})
    return copies[number]


def _lend(evaluator: Any, parser: Any) -> tuple[Any, Any]:
    """Sets the library's own state of this thread, and returns what it was before; None: there is none.

    It is put back after each use, as other programs in this process may use the library, too.
    """
    current, parsers = _current.__dict__, _parsers.__dict__
    before = current.get("jsonata"), parsers.get("parser")
    current["jsonata"], parsers["parser"] = evaluator, parser
    if evaluator is None:
        del current["jsonata"]
    if parser is None:
        del parsers["parser"]
    return before


class _PerThread(threading.local):
    """The parser and the evaluator of each thread; it evaluates any expression, not only its own."""

    def __init__(self) -> None:
        self.parser = ExpressionParser()
        before = _lend(None, self.parser)
        self.evaluator = Evaluator("null", bounded_engine)
        _lend(*before)


_per_thread: Final = _PerThread()


def _evaluated(expression: Any, context: Any, bindings: Mapping[str, Any] | None, watch: Watch) -> Any:
    frame = Jsonata.Frame(_functions)
    names: dict[str, Any] = frame.bindings
    if bindings:
        names.update(bindings)
    names["$"] = context
    # The library calls these two at each step; its own time limit looks at nothing but the clock.
    names["__evaluate_entry"] = watch.enter
    names["__evaluate_exit"] = watch.leave
    if isinstance(context, list):
        # As the library's own entry point does for an array as context: it is one value, and not a sequence
        # of them.
        context = Utils.create_sequence(context)
        context.outer_wrapper = True
    evaluator = _per_thread.evaluator
    # The time of $now() and $millis(), the same for the whole evaluation.
    evaluator.timestamp = round(time.time() * 1000)
    before = _lend(evaluator, _per_thread.parser)
    try:
        return under_watch(watch, lambda: _plain(evaluator.eval(expression.ast, context, frame)))
    finally:
        _lend(*before)


@dataclass(frozen=True, slots=True)
class Fault:
    """The message and JSONata's code for an expression that cannot be compiled."""

    message: str
    code: str | None = None


@lru_cache(maxsize=_CACHED)
def parsed(text: str) -> Any:
    try:
        with _compiling:
            before = _lend(None, _per_thread.parser)
            try:
                compiled = Jsonata(text, bounded_engine)
            finally:
                _lend(*before)
    except RecursionError:
        return Fault("The expression is nested too deeply")
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
            overflow = "Stack overflow. Check for a function that calls itself forever"
            return f"{overflow}, or write it as tail-recursive", "D1011"
        case TooLong():
            return timed_out(bounds), "D1012"
        case TooLarge():
            return too_large(error), None
        case _ if isinstance(error.__context__, TooLarge):  # $eval hides the reason
            return too_large(error.__context__), None
        case _ if isinstance(error, JException) and watch.left <= 0.001:  # likewise
            return timed_out(bounds), "D1012"
        case _ if isinstance(error, JException):
            return message(error), cast("Any", error).get_error()
        case TypeError() | AttributeError():  # Python's message says nothing about the expression
            return "A value has the wrong type for this operation", None
        case ZeroDivisionError() | OverflowError() | OSError():
            return f"Number out of range: {_one_line(error)}", "D1001"
        case _:
            return _one_line(error) or type(error).__name__, None


def _fault_of(text: str, error: Exception) -> Fault:
    if isinstance(error, JException):
        given = cast("Any", error)
        if given.error == "S0301" and given.current is not None:  # the library's error for a wrong escape
            error = JException("S0103", given.location, given.current)
        place = position(error)
        where = "" if place is None else f" (position {min(place, len(text))})"
        return Fault(f"{message(error)}{where}", cast("Any", error).get_error())
    return Fault(f"Syntax error: {_one_line(error) or type(error).__name__}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def _plain(value: Any) -> Any:
    """Turns a value of the library into JSON; None and functions become `UNDEFINED`."""
    if value is None or _is_function(value):
        return UNDEFINED
    return _Conversion().converted(value)


class _Conversion:
    """Makes one result plain JSON.

    A part that occurs twice is converted once. Written as JSON it would be there twice, and twice as often
    with each step of an expression that doubles a value, which is why repetitions are counted.
    """

    __slots__ = ("_known", "_repeated", "_size")

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}  # by id: a part's conversion and its size
        self._size = 0  # of what was converted so far, with repetitions: texts by characters, others as one
        self._repeated = 0

    def converted(self, value: Any) -> Any:
        kind: Any = cast("Any", type)(value)
        # Most values are texts and numbers: the usual kinds first, by identity, as this runs for each part
        # of a result.
        if kind is str:
            return value if len(value) < _LONG_TEXT else self._once(value, lambda: value, len(value))
        if kind is bool or value is NULL or value is None:
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
            members = cast("dict[str, Any]", value)
            return self._once(value, lambda: self._object(members), len(members))
        if isinstance(value, Utils.RangeList):
            return list(cast("list[Any]", value))
        if isinstance(value, list):
            entries = cast("list[Any]", value)
            return self._once(value, lambda: self._array(entries), len(entries))
        return str(value)

    def _once(self, value: Any, convert: Callable[[], Any], size: int) -> Any:
        known = self._known.get(id(value))
        if known is not None:
            self._repeated += known[1]
            self._size += known[1]
            if self._repeated > _MOST_REPEATED:
                raise TooLarge(
                    f"its result repeats parts of itself, {_MOST_REPEATED:,} characters or more in all"
                )
            return known[0]
        before = self._size
        self._size += size
        new = convert()
        self._known[id(value)] = new, self._size - before
        return new

    def _object(self, members: dict[str, Any]) -> dict[str, Any]:
        """The object as JSON; itself if nothing changes, as large parts of the context pass through."""
        new = {key: self.converted(member) for key, member in members.items() if not _is_function(member)}
        is_same = type(members) is dict and len(new) == len(members)
        return members if is_same and all(new[key] is members[key] for key in new) else new

    def _array(self, entries: list[Any]) -> list[Any]:
        new = [None if _is_function(entry) else self.converted(entry) for entry in entries]
        if type(entries) is list and all(a is b for a, b in zip(new, entries, strict=True)):
            return entries
        return new


_LONG_TEXT: Final = 1000
_MOST_REPEATED: Final = 2 * MOST_CHARACTERS


def _is_function(value: Any) -> bool:
    kind: Any = cast("Any", type)(value)
    if kind is str or kind is dict or kind is list or kind is int or kind is float:
        return False
    return bool(Utils.is_function(value) or Functions.is_lambda(value) or Functions.is_regex(value))
