"""Arguments of a tool from the command line, written as KEY=VALUE or KEY:=JSON."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..types.texts import why_no_json
from .command_errors import UsageError
from .terminal import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Pair(NamedTuple):
    """One argument as written: its value is JSON text after ``:=``."""

    key: str
    value: str
    is_json: bool


def split_pairs(words: Iterable[str]) -> list[Pair]:
    """Splits words of the command line into pairs, before any server is asked for a schema.

    Raises:
        UsageError: A word is not a pair, or a key is given more than once.
    """
    pairs = [_split(word) for word in words]
    for key, times in Counter(pair.key for pair in pairs).items():
        if times > 1:
            raise UsageError(f"'{key}' is given {times} times. A list is {key}:='[\"one\", \"two\"]'.")
    return pairs


def _split(word: str) -> Pair:
    key, equals, value = word.partition("=")
    if not equals or not key.strip(":"):
        raise UsageError(f"'{word}' is not an argument for a tool. Write it as key=value, or as key:=JSON.")
    return Pair(key.removesuffix(":").strip(), value, key.endswith(":"))


def with_pairs(given: Mapping[str, Any], pairs: Sequence[Pair], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Adds pairs to arguments that are given as JSON; values become what the tool's schema wants.

    Arguments that the schema does not declare are remarked upon: usually they are typing errors.

    Args:
        given: The arguments so far; a pair of the same key takes precedence.
        pairs: The pairs.
        schema: JSON Schema of the tool's arguments.

    Raises:
        UsageError: The value of a ``KEY:=JSON`` is not JSON.
    """
    from ..runs.cell_arguments import arguments_from_pairs, parameters_in

    parameters = parameters_in(schema, [*given, *(pair.key for pair in pairs)])
    values = dict(given)
    for key, value, is_json in pairs:
        if not is_json:
            values |= arguments_from_pairs([(key, value)], parameters)
            continue
        try:
            values[key] = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"The value of {key}:= is not JSON: {why_no_json(error)}.") from None
    for name in values:
        if parameters and name not in parameters:
            meant = difflib.get_close_matches(name, parameters, n=1, cutoff=0.5)
            ask = f" Did you mean '{meant[0]}'?" if meant else ""
            note(f"The tool declares no argument '{name}'.{ask}")
    return values
