"""The used parts of ``jsonata-python``, typed as `Any`, some in copies with their defects mended."""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import jsonata  # pyright: ignore[reportMissingTypeStubs] - it has none
from jsonata import (  # pyright: ignore[reportMissingTypeStubs]
    datetimeutils,
    functions,
    jexception,
    parser,
    tokenizer,
    utils,
)

from ...types.errors import MCPError
from .javascript import indices_first

if TYPE_CHECKING:
    from collections.abc import Callable


#: What is used here of the library, which promises nothing about names that begin with an underscore.
_NEEDED: Final = {
    "jsonata.Jsonata": "CURRENT PARSER Frame JFunction JLambda JNativeFunction Transformer apply_inner"
    " static_frame",
    "functions.Functions": "func_apply is_lambda is_regex",
    "utils.Utils": "NULL_VALUE RangeList create_sequence is_function",
    "parser.Parser": "Symbol parse process_ast",
    "tokenizer.Tokenizer": "",
    "datetimeutils.DateTimeUtils": "Formats format_datetime format_integer parse_integer"
    " _analyse_datetime_picture _analyse_integer_picture _default_presentation_modifiers _generate_regex",
}


def _missing() -> list[str]:
    """The parts of the library that are used here, but that it does not have."""
    missing: list[str] = []
    for place, names in _NEEDED.items():
        module, name = place.split(".")
        part = getattr(sys.modules.get(f"jsonata.{module}"), name, None)
        missing += [name] if part is None else []
        missing += [f"{name}.{needed}" for needed in names.split() if not hasattr(part, needed)]
    return missing


if _missing():
    raise ImportError(
        f"The installed jsonata-python has no {', '.join(_missing())}, which graphs need."
        " Install a version that fits: pip install 'jsonata-python>=0.7,<0.8'."
    )

Jsonata: Final[Any] = cast("Any", jsonata).Jsonata
Functions: Final[Any] = cast("Any", functions).Functions
Utils: Final[Any] = cast("Any", utils).Utils
JException: type[Exception] = cast("Any", jexception).JException
Parser: Final[Any] = cast("Any", parser).Parser
Tokenizer: Final[Any] = cast("Any", tokenizer).Tokenizer
_DateTimeUtils: Final[Any] = cast("Any", datetimeutils).DateTimeUtils


def with_names(function: Any, **names: Any) -> Any:
    """A copy of a function of the library in which some global names mean something else.

    The library is not changed, as other programs in this process may use it.
    """
    names = {**function.__globals__, **names}
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__)


_WIDEST: Final = 400


class _DateTimes(_DateTimeUtils):
    """The library's dates and times, with its defects mended and JSONata's codes in its errors."""

    # Components without a modifier are looked up with [], which fails for a plain dict.
    _default_presentation_modifiers: ClassVar = defaultdict(
        lambda: None, cast("dict[str, Any]", _DateTimeUtils._default_presentation_modifiers)
    )

    @staticmethod
    def _analyse_datetime_picture(picture: str) -> Any:
        """Analyses a date picture; the library shortens names without a maximum width, too: ``[MNn,3]``."""
        analysis = _analyse(picture)
        for part in analysis.parts:
            if max((width or 0 for width in part.width or ()), default=0) > _WIDEST:
                raise TooLarge(f"a part of a date has at most {_WIDEST} characters")
            if part.names is not None and part.width is not None and part.width[1] is None:
                part.width = None
        return analysis


def _coded(message: str) -> Exception:
    code, _, value = message.partition(" ")
    return JException(code, -1, value.replace("{}", ""))


_CODES: Final = {
    "SEQUENCE_UNSUPPORTED": "D3130",
    "DIFF_DECIMAL_GROUP": "D3131",
    "UNKNOWN_COMPONENT_SPECIFIER": "D3132",
    "INVALID_NAME_MODIFIER": "D3133",
    "TIMEZONE_FORMAT": "D3134",
    "NO_CLOSING_BRACKET": "D3135",
    "MISSING_FORMAT": "D3136",
}
_in_dates: Final[dict[str, Any]] = {
    "DateTimeUtils": _DateTimes,
    "RuntimeError": _coded,
    "constants": SimpleNamespace(
        Constants=SimpleNamespace(**{f"ERR_MSG_{name}": f"{code} {{}}" for name, code in _CODES.items()})
    ),
}
_analyse: Final = with_names(_DateTimeUtils._analyse_datetime_picture, **_in_dates)
for _name, _member in cast("dict[str, Any]", vars(_DateTimeUtils)).items():
    if isinstance(_member, staticmethod) and _name not in vars(_DateTimes):
        setattr(_DateTimes, _name, staticmethod(with_names(cast("Any", _member).__func__, **_in_dates)))
DateTimes: Final[Any] = _DateTimes

NULL: Final = Utils.NULL_VALUE
"""The library's marker for ``null``; None means undefined there."""


def marked(value: Any) -> Any:
    """Converts JSON into the form that the library evaluates. Unchanged parts are not copied.

    None is `NULL`, and the keys of objects are in the order of `indices_first`.
    """
    if value is None:
        return NULL
    kind: Any = cast("Any", type)(value)
    if kind is dict:
        members = indices_first(cast("dict[str, Any]", value))
        changed = {key: new for key, old in members.items() if (new := marked(old)) is not old}
        return {**members, **changed} if changed else members
    if kind is list:
        entries = cast("list[Any]", value)
        new = [marked(entry) for entry in entries]
        return new if any(a is not b for a, b in zip(new, entries, strict=True)) else entries
    return value


class _Validated(list[Any]):
    """Arguments that have been checked already."""


class Checked(Jsonata.JFunction):
    """A function that checks its arguments, also where another function calls it.

    The library's own check treats ``null`` as undefined, and it does not check calls of functions that are
    passed to others, such as ``$map``.
    """

    def __init__(self, inner: Any, name: str, signature: Any, makes: Any = None) -> None:
        Jsonata.JFunction.__init__(self, inner, None)
        self._makes = makes  # called before with the watch and the arguments, which may be too large
        self.function_name = name
        self._checks = signature
        # Asked for the number of arguments that functions like $map pass to a function.
        self.signature = self

    def validate(self, args: Any, context: Any) -> list[Any]:
        """Checks the arguments, and completes them from the context."""
        return _Validated(_validated(self._checks, args, context, self.function_name))

    def call(self, input: Any, args: Any) -> Any:  # noqa: A002
        if not isinstance(args, _Validated):
            args = self.validate(args, None)
        if self._makes is not None:
            self._makes(watching(), *args)
        result = self.function.call(input, args)
        if isinstance(result, str) and len(result) > MOST_CHARACTERS:
            watching().text(len(result), *(len(arg) for arg in args if isinstance(arg, str)))
        return result

    def get_number_of_args(self) -> int:
        return self._checks.get_number_of_args()

    def get_min_number_of_args(self) -> int:
        """JavaScript counts all parameters without a default; the library counts only the required ones."""
        return 1 if self.function_name == "string" else self.get_number_of_args()

    def set_function_name(self, name: str) -> None:
        """A variable that the function is bound to does not rename it."""


def _validated(signature: Any, args: list[Any], context: Any, name: str) -> list[Any]:
    match = signature._regex.fullmatch("".join(map(_symbol, args)))
    if match is None:
        raise JException("T0410", -1, _first_wrong(signature, args), name)
    validated: list[Any] = []
    left = list(args)
    for index, parameter in enumerate(signature._params):
        symbols: str = match.group(index + 1)
        position = len(args) - len(left) + 1
        if symbols:
            taken = [left.pop(0) for _ in symbols]
            is_array = parameter.type == "a"
            validated += [_array(arg, parameter, position, name) for arg in taken] if is_array else taken
        elif parameter.context:
            if not re.fullmatch(parameter.regex, _symbol(NULL if context is None else context)):
                raise JException("T0411", -1, position, name)
            validated.append(context)
        else:
            validated.append(left.pop(0) if left else None)
    return validated


def _array(value: Any, parameter: Any, position: int, name: str) -> Any:
    """The argument as an array; a single value becomes an array with one entry."""
    if value is None:
        return None
    entries = cast("list[Any]", value) if isinstance(value, list) else [value]
    subtype: str | None = parameter.subtype
    if subtype is not None and any(_symbol(entry) != subtype[0] for entry in entries):
        raise JException("T0412", -1, position, name, subtype)
    return entries


def _first_wrong(signature: Any, args: list[Any]) -> int:
    """Number of the first argument that does not fit, from 1."""
    symbols = "".join(map(_symbol, args))
    pattern, good = "", 0
    for parameter in signature._params:
        pattern += parameter.regex
        match = _compiled(pattern).match(symbols)
        if match is None:
            break
        good = match.end()
    return good + 1


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _symbol(value: Any) -> str:
    """The letter for the value's type in signatures."""
    match value:
        case None:
            return "m"
        case str():
            return "s"
        case bool():
            return "b"
        case int() | float():
            return "n"
        case list():
            return "a"
        case dict():
            return "o"
        case _ if value is NULL:
            return "l"
        case _ if Utils.is_function(value) or Functions.is_lambda(value) or Functions.is_regex(value):
            return "f"
        case _:
            return "m"


class ExpressionError(MCPError):
    """An expression could not be evaluated.

    `cause` is the reason without the expression, `code` JSONata's code of the error, such as ``T2001``, or
    None.
    """

    def __init__(
        self, what: str, *, expression: str, code: str | None = None, cause: str | None = None
    ) -> None:
        super().__init__(what)
        self.cause = cause or what
        self.expression = expression
        self.code = code

    def __str__(self) -> str:
        return self.what


class Stopped(MCPError):  # noqa: N818 - a stop is not a mistake in the expression
    """The evaluation was stopped from outside."""


DEFAULT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one evaluation."""

    seconds: float = DEFAULT_SECONDS
    # maximum nesting of evaluations. Each level of a recursive function takes several of them.
    depth: int = 1000
    # called now and then; True ends the evaluation. None: the evaluation cannot be stopped.
    is_stopped: Callable[[], bool] | None = None


UNBOUNDED: Final = Bounds()


class TooLong(Exception):  # noqa: N818
    """The time is over."""


class TooDeep(Exception):  # noqa: N818
    """The nesting is too deep."""


class TooLarge(Exception):  # noqa: N818
    """A value is too large, or all values together."""


class Halted(Exception):  # noqa: N818
    """`Bounds.is_stopped` returned True."""


INTERRUPTS: Final = (TooLong, TooLarge, Halted)
#: Limits of what an expression makes. What it is given may be larger, and pass through. One operation on
#: values of this size takes at most some hundredths of a second, in which other threads cannot run.
MOST_CHARACTERS: Final = 5_000_000
MOST_ENTRIES: Final = 1_000_000
#: By so many bytes the process may grow while expressions are evaluated; measured on Linux only.
MOST_MEMORY: Final = 192 << 20
_CHARGE_PER_LOOK: Final = 16 << 20
_BYTES_PER_ENTRY: Final = 8
_STEPS_PER_LOOK: Final = 64


class Watch:
    """Holds one evaluation to its bounds.

    The library calls it at each step, our functions before they make something large. What neither of them
    sees, such as a loop inside of a function, `_Guard` ends.
    """

    __slots__ = (
        "_bounds",
        "_charge",
        "_deadline",
        "_depth",
        "_has_turn",
        "_steps",
        "_thread",
        "_turn_ends",
        "is_over",
        "made",
    )

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._deadline = time.monotonic() + bounds.seconds
        self._depth = 0
        self._steps = 0
        self._charge = 0
        self._thread = 0
        self._has_turn = False
        self._turn_ends = time.monotonic() + _SECONDS_PER_TURN
        self.made = 0  # bytes of what was made so far, roughly, including what is not in use any more
        self.is_over = False

    def enter(self, _expression: Any, _input: Any, _environment: Any) -> None:
        self._depth += 1
        if self._depth > self._bounds.depth:
            raise TooDeep("nested too deeply")
        self._steps += 1
        if self._steps >= _STEPS_PER_LOOK:
            self._steps = 0
            why = self.why_over()
            if why is not None:
                raise why
            if time.monotonic() > self._turn_ends:
                self._take_turns()

    def _take_turns(self) -> None:
        """Waits until no other long evaluation runs.

        One at a time takes no longer in all, as Python runs one thread at a time, and leaves more of it to
        short ones, and memory to each.
        """
        if self._has_turn:
            self._has_turn = False
            guard.turn.release()
            time.sleep(_SECONDS_BETWEEN_TURNS)
        while not guard.turn.acquire(timeout=_SECONDS_PER_LOOK):
            why = self.why_over()
            if why is not None:
                raise why
        self._has_turn = True
        self._turn_ends = time.monotonic() + _SECONDS_PER_TURN

    def leave(self, _expression: Any, _input: Any, _environment: Any, _result: Any) -> None:
        self._depth -= 1

    def why_over(self) -> type[Exception] | None:
        """The reason for which the evaluation has to end now, or None."""
        if time.monotonic() > self._deadline:
            return TooLong
        return Halted if self._bounds.is_stopped is not None and self._bounds.is_stopped() else None

    def text(self, size: int, *given: int, new: int | None = None) -> None:
        """Called before a text of so many characters is made, perhaps from texts of the sizes `given`.

        A text that grows is checked each time; it grew by `new` characters.
        """
        if size > MOST_CHARACTERS and size > max(given, default=0):
            raise TooLarge(
                f"it makes a text of {size:,} characters; {MOST_CHARACTERS:,} are possible. Make it shorter"
            )
        self._charged(size if new is None else new)

    def entries(self, size: int, *given: int, new: int | None = None) -> None:
        """Called before a list of so many entries is made, as `text` is for texts."""
        if size > MOST_ENTRIES and size > max(given, default=0):
            raise TooLarge(
                f"it makes a list of {size:,} entries; {MOST_ENTRIES:,} are possible. Make it shorter"
            )
        self._charged((size if new is None else new) * _BYTES_PER_ENTRY)

    def _charged(self, size: int) -> None:
        self.made += size
        self._charge += size
        if self._charge > _CHARGE_PER_LOOK:
            self._charge = 0
            guard.look_at_memory(self)

    @property
    def left(self) -> float:
        """Seconds until the time is over; at least a millisecond."""
        return max(0.001, self._deadline - time.monotonic())

    def begin(self) -> None:
        """Puts the evaluation under the guard, in this thread."""
        self._thread = threading.get_ident()
        guard.running[self] = None
        if not guard.is_awake:
            guard.wake()

    def end(self) -> None:
        """The evaluation has ended, one way or the other; nothing is raised in its thread from now on."""
        with guard.lock:
            self.is_over = True
        guard.running.pop(self, None)
        if self._has_turn:
            self._has_turn = False
            guard.turn.release()
        # What was raised before comes at the next step of a loop: nothing is left for later. It cannot be
        # taken back, as Python would look for it at each step from then on.
        for _ in range(2):
            pass

    def interrupt(self, reason: type[Exception]) -> None:
        """Raises in the thread of the evaluation before its next step in Python, unless it has ended."""
        with guard.lock:
            if not self.is_over:
                thread, raised = ctypes.c_ulong(self._thread), ctypes.py_object(reason)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, raised)


class _Guard:
    """A thread that looks after all evaluations of this process while there are some."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turn = threading.Lock()
        self.running: dict[Watch, None] = {}
        self.is_awake = False
        self._called = threading.Event()
        self._thread: threading.Thread | None = None
        self._sizes: deque[tuple[float, int]] = deque()

    def wake(self) -> None:
        self.is_awake = True
        self._called.set()
        if self._thread is None:
            with self.lock:
                if self._thread is not None:
                    return
                self._thread = threading.Thread(target=self._look, name="expressions", daemon=True)
            self._thread.start()

    def _look(self) -> None:
        idle = 0
        while True:
            for watch in list(self.running):
                why = watch.why_over()
                if why is not None:
                    watch.interrupt(why)
            idle = 0 if self.running else idle + 1
            if self.running:
                self.look_at_memory(None)
            elif idle > _IDLE_LOOKS:
                self._called.clear()
                self.is_awake = False
                if not self.running:  # one that began in between would not have called
                    self._called.wait()
                self.is_awake, idle = True, 0
            time.sleep(_SECONDS_PER_LOOK)

    def look_at_memory(self, current: Watch | None) -> None:
        """Ends the evaluation that made most if the process has grown too much; `current` asks for itself."""
        size = _memory()
        now = time.monotonic()
        with self.lock:
            while self._sizes and self._sizes[0][0] < now - _MEMORY_SECONDS:
                self._sizes.popleft()
            least = min((known for _, known in self._sizes), default=size)
            self._sizes.append((now, size))
        if size - least <= MOST_MEMORY:
            return
        largest = max(list(self.running), key=lambda watch: watch.made, default=None)
        if largest is not None and largest is current:
            raise TooLarge(_TOO_MUCH)
        if largest is not None:
            largest.interrupt(TooLarge)


_SECONDS_PER_LOOK: Final = 0.05
_SECONDS_PER_TURN: Final = 0.1
_SECONDS_BETWEEN_TURNS: Final = 0.001
_IDLE_LOOKS: Final = 20
_MEMORY_SECONDS: Final = 10.0
_TOO_MUCH: Final = f"it uses more than {MOST_MEMORY >> 20} MB of memory. Make fewer or smaller values"


def too_large(error: Exception) -> str:
    """What a `TooLarge` says; the guard's own says nothing."""
    return f"The expression is too expensive: {str(error) or _TOO_MUCH}"


def timed_out(bounds: Bounds) -> str:
    return f"Evaluation timeout after {round(bounds.seconds * 1000)} milliseconds. Check for infinite loop"


_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _memory() -> int:
    """Bytes of memory that this process uses; 0 where the system does not say."""
    try:
        with _STATM.open("rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0


_STATM: Final = Path("/proc/self/statm")
guard = _Guard()


def _after_fork() -> None:
    global guard  # the guard's thread is not in the child, and its lock may be taken there
    guard = _Guard()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Matching(threading.local):
    """The watch of the evaluation that runs in this thread, or None."""

    watch: Watch | None = None


matching: Final = Matching()
_NO_BOUNDS: Final = Watch(Bounds(seconds=math.inf))


def under_watch(watch: Watch, work: Callable[[], Any]) -> Any:
    """Runs `work` in this thread, under the guard."""
    before = matching.watch
    matching.watch = watch
    try:
        watch.begin()
        return work()
    finally:
        try:
            watch.end()
        except INTERRUPTS:  # raised by the guard at the last moment
            watch.end()
        matching.watch = before


def watching() -> Watch:
    """The watch of the evaluation that runs in this thread."""
    return matching.watch or _NO_BOUNDS
