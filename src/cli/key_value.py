"""Arguments of a tool from the command line, written as KEY=VALUE or KEY:=JSON."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..types.canonical import why_no_json
from .errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..runs.cell_arguments import Parameter


class Pair(NamedTuple):
    """One argument as written: its value is JSON text after ``:=``."""

    key: str
    value: str
    is_json: bool


def split_pairs(words: Iterable[str]) -> list[Pair]:
    """Splits words of the command line into pairs.

    Raises:
        UsageError: A word is not a pair, or a key is given more than once.
    """
    pairs = [_split(word) for word in words]
    for key, times in Counter(pair.key for pair in pairs).items():
        if times > 1:
            raise UsageError(f"'{key}' is given {times} times. A list is {key}:='[\"one\", \"two\"]'.")
    return pairs


def typed(pairs: Sequence[Pair], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Turns pairs into arguments; the tool's parameters say which values become numbers, lists and so on.

    Raises:
        UsageError: The value of a ``KEY:=JSON`` is not JSON.
    """
    from ..runs.cell_arguments import arguments_from_pairs

    values: dict[str, Any] = {}
    for key, value, is_json in pairs:
        if not is_json:
            values |= arguments_from_pairs([(key, value)], parameters)
            continue
        try:
            values[key] = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"The value of {key}:= is not JSON: {why_no_json(error)}.") from None
    return values


def remarks_on_strays(arguments: Iterable[str], parameters: Mapping[str, Parameter]) -> list[str]:
    """Remarks on arguments that the schema allows but does not declare, usually typing errors."""
    remarks: list[str] = []
    for name in arguments:
        if parameters and name not in parameters:
            meant = difflib.get_close_matches(name, parameters, n=1, cutoff=0.5)
            ask = f" Did you mean '{meant[0]}'?" if meant else ""
            remarks.append(f"The tool declares no argument '{name}'.{ask}")
    return remarks


def _split(word: str) -> Pair:
    key, equals, value = word.partition("=")
    if not equals or not key.strip(":"):
        raise UsageError(f"'{word}' is not an argument for a tool. Write it as key=value, or as key:=JSON.")
    return Pair(key.removesuffix(":").strip(), value, key.endswith(":"))
