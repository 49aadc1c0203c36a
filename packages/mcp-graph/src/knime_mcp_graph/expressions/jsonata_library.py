"""The used parts of ``jsonata-python``, typed as `Any`, some in copies with their defects mended."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from functools import lru_cache
from types import FunctionType, SimpleNamespace
from typing import Any, ClassVar, Final, cast

import jsonata  # pyright: ignore[reportMissingTypeStubs] - it has none
from jsonata import (  # pyright: ignore[reportMissingTypeStubs]
    datetimeutils,
    functions,
    jexception,
    parser,
    tokenizer,
    utils,
)

from .evaluation_limits import MOST_CHARACTERS, TooLarge, watching
from .javascript import indices_first

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


# When it is imported, not in the middle of a run that needs the missing part.
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
    # The function's own module stays as it is: other code in this process may use the library, too.
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
