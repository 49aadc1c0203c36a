"""Checks arguments of JSONata functions by their signatures: https://docs.jsonata.org/embedding-extending."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, cast

from .engine import Functions, JException, Jsonata, Utils
from .nulls import NULL


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
