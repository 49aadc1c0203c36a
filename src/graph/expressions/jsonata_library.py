"""The used parts of ``jsonata-python``, typed as `Any`, with some of its defects mended."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import jsonata  # pyright: ignore[reportMissingTypeStubs] - it has none
from jsonata import (  # pyright: ignore[reportMissingTypeStubs]
    constants,
    datetimeutils,
    functions,
    jexception,
    parser,
    signature,
    tokenizer,
    utils,
)

from ...types.errors import MCPError
from .javascript import indices_first

if TYPE_CHECKING:
    from collections.abc import Callable


# The library prints values that are called although they are not functions. With stdio, that would write
# into the protocol's stream.
cast("Any", jsonata).jsonata.print = lambda *_values: None  # pyright: ignore[reportUnknownLambdaType] - any

Jsonata: Final[Any] = cast("Any", jsonata).Jsonata
Functions: Final[Any] = cast("Any", functions).Functions
Utils: Final[Any] = cast("Any", utils).Utils
JException: type[Exception] = cast("Any", jexception).JException
Parser: Final[Any] = cast("Any", parser).Parser
Tokenizer: Final[Any] = cast("Any", tokenizer).Tokenizer
DateTimes: Final[Any] = cast("Any", datetimeutils).DateTimeUtils

# The library looks up presentation modifiers with [], which fails for components that have none.
DateTimes._default_presentation_modifiers = defaultdict(
    lambda: None, cast("dict[str, Any]", DateTimes._default_presentation_modifiers)
)
_analyse: Final = DateTimes._analyse_datetime_picture


def _analysed(picture: str) -> Any:
    """Analyses a date picture; the library shortens names even without a maximum width, as in ``[MNn,3]``."""
    analysis = _analyse(picture)
    for part in analysis.parts:
        if part.names is not None and part.width is not None and part.width[1] is None:
            part.width = None
    return analysis


DateTimes._analyse_datetime_picture = staticmethod(_analysed)
_texts: Any = cast("Any", constants).Constants
for _name, _code in {
    "SEQUENCE_UNSUPPORTED": "D3130",
    "DIFF_DECIMAL_GROUP": "D3131",
    "UNKNOWN_COMPONENT_SPECIFIER": "D3132",
    "INVALID_NAME_MODIFIER": "D3133",
    "TIMEZONE_FORMAT": "D3134",
    "NO_CLOSING_BRACKET": "D3135",
    "MISSING_FORMAT": "D3136",
}.items():
    setattr(_texts, f"ERR_MSG_{_name}", f"{_code} {{}}")


def _coded(message: str) -> Exception:
    code, _, value = message.partition(" ")
    return JException(code, -1, value.replace("{}", ""))


cast("Any", datetimeutils).RuntimeError = _coded


class _Tokenizer(Tokenizer):
    """Appends a line feed: the library's tokenizer reads one character past the end of an expression."""

    def __init__(self, path: str, *more: Any) -> None:
        Tokenizer.__init__(self, f"{path}\n", *more)


cast("Any", tokenizer).Tokenizer = _Tokenizer
_codes: Final = {text: code for code, text in cast("Any", JException).error_codes.items()}
cast("Any", signature).RuntimeError = lambda said: JException(_codes[said], -1)  # pyright: ignore[reportUnknownLambdaType]

NULL: Final = Utils.NULL_VALUE
"""The library's marker for ``null``; None means undefined there."""


def marked(value: Any) -> Any:
    """Converts JSON into the form that the library evaluates.

    Args:
        value: JSON.

    Returns:
        The value with `NULL` for None, and the keys of objects as `indices_first` orders them. Unchanged
        parts are not copied.
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

    Args:
        inner: The function to call: one of the library's, or a `Jsonata.JLambda`.
        name: Its name, without ``$``.
        signature: The library's `Signature`.
    """

    def __init__(self, inner: Any, name: str, signature: Any) -> None:
        Jsonata.JFunction.__init__(self, inner, None)
        self.function_name = name
        self.signature = signature

    def validate(self, args: Any, context: Any) -> list[Any]:
        """Checks the arguments, and completes them from the context."""
        return _Validated(_validated(self.signature, args, context, self.function_name))

    def call(self, input: Any, args: Any) -> Any:  # noqa: A002
        """Calls the function."""
        looked_at = isinstance(args, _Validated)
        return self.function.call(input, args if looked_at else self.validate(args, None))

    def get_number_of_args(self) -> int:
        """The maximum number of arguments."""
        return self.signature.get_number_of_args()


def _arity(function: Any) -> int:
    """The number of arguments (of value, index, whole array) that functions like `$map` pass to a function.

    JavaScript counts all parameters without a default; the library counts only the required ones.
    """
    if not isinstance(function, Checked):
        return _other_arity(function)
    return 1 if function.function_name == "string" else function.get_number_of_args()


_other_arity: Final = Functions.get_function_arity
Functions.get_function_arity = staticmethod(_arity)


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

    Args:
        what: The message.
        expression: The expression.
        code: JSONata's code of the error, such as ``T2001``.
        cause: The reason without the expression; by default `what`.

    Attributes:
        expression: The expression.
        cause: The reason without the expression.
        code: JSONata's code of the error, or None.
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


_STEPS_PER_LOOK: Final = 64

DEFAULT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one evaluation.

    Attributes:
        seconds: Maximum time.
        depth: Maximum nesting of evaluations. Each level of a recursive function takes several of them.
        is_stopped: Called now and then; True ends the evaluation. None: the evaluation cannot be stopped.
    """

    seconds: float = DEFAULT_SECONDS
    depth: int = 1000
    is_stopped: Callable[[], bool] | None = None


class TooLong(Exception):  # noqa: N818
    """The time is over."""


class TooDeep(Exception):  # noqa: N818
    """The nesting is too deep."""


class Watch:
    """Checks one evaluation against its bounds; the library calls it at each step.

    Args:
        bounds: The bounds.
    """

    __slots__ = ("_bounds", "_deadline", "_depth", "_steps")

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._deadline = time.monotonic() + bounds.seconds
        self._depth = 0
        self._steps = 0

    def enter(self, _expression: Any, _input: Any, _environment: Any) -> None:
        """Counts the beginning of a step.

        Raises:
            TooDeep: The nesting is too deep.
            TooLong: The time is over.
            Stopped: The evaluation was stopped from outside.
        """
        self._depth += 1
        if self._depth > self._bounds.depth:
            raise TooDeep("nested too deeply")
        self._steps += 1
        if self._steps >= _STEPS_PER_LOOK:
            self._steps = 0
            self._look()

    def leave(self, _expression: Any, _input: Any, _environment: Any, _result: Any) -> None:
        """Counts the end of a step."""
        self._depth -= 1

    def _look(self) -> None:
        """Checks the time, and whether the evaluation is to stop.

        Raises:
            TooLong: The time is over.
            Stopped: The evaluation was stopped from outside.
        """
        if time.monotonic() > self._deadline:
            raise TooLong
        if self._bounds.is_stopped is not None and self._bounds.is_stopped():
            raise Stopped("The evaluation was stopped")

    @property
    def left(self) -> float:
        """Seconds until the time is over; at least a millisecond."""
        return max(0.001, self._deadline - time.monotonic())
