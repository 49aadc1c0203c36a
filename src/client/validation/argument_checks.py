"""Checks arguments against a tool's schema before they are sent, and reads JSON text where JSON is wanted.

No argument is dropped or renamed. Only a *text* is changed that stands where the schema wants an object or
array and no text: models and table columns write ``"[1, 2]"`` for ``[1, 2]``. Such text is parsed, and the
coercion is recorded. Arguments that a strict reading of the schema forbids, but its server accepts, are sent
(see `validation.leniency`). With a malformed schema all arguments are sent, and the server decides.
"""

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.errors import ArgumentsInvalid
from ...types.texts import pointer_text, without_surrogates
from ..limits import Limits
from ..protocol.jsonrpc import DEEPEST
from .problems import describe_problems, wanted_types
from .schemas import CompiledSchema, compile_schema

if TYPE_CHECKING:
    import jsonschema_rs

_FIX: Final = "Correct the arguments; nothing was sent"
_SHOWN_LEVELS: Final = 5
_ROUNDS: Final = 8  # JSON text inside of parsed JSON text


@dataclass(frozen=True, slots=True)
class Coercion:
    """A text that was parsed as JSON.

    Attributes:
        pointer: JSON pointer into the arguments.
        wanted: What the schema wants there: ``object`` or ``array``.
    """

    pointer: str
    wanted: str


class ArgumentValidator:
    """Checks arguments of one tool. Get one by `for_schema`.

    Attributes:
        fault: The schema's defect, because of which arguments are not checked; None for a usable schema.
    """

    def __init__(self, schema: CompiledSchema) -> None:
        self._schema = schema
        self.fault = schema.fault

    @classmethod
    def for_schema(cls, schema_json: str, limits: Limits = Limits()) -> "ArgumentValidator":  # noqa: B008 - frozen
        """The validator for a tool's input schema; compiled once per distinct text.

        Raises:
            ProtocolError: The schema cannot be used; the message says why.
        """
        return cls(compile_schema(schema_json, limits))

    def check(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Coercion, ...]]:
        """Checks the arguments of one call.

        Returns:
            The arguments to send, and the texts that were parsed. ``arguments`` itself is not changed.

        Raises:
            ArgumentsInvalid: The arguments do not fit the schema; has a pointer to the first problem.
        """
        checked = dict(arguments)
        _refuse_what_is_not_json(checked)
        try:
            is_valid = self._schema.is_valid(checked)
        except ValueError:  # jsonschema_rs takes no subclasses of str, such as KNIME's SMILES values
            checked = _in_plain_types(checked)
            is_valid = _is_valid(self._schema, checked)
        if is_valid:
            return checked, ()
        schema = self._schema.as_meant
        coercions: list[Coercion] = []
        for _ in range(_ROUNDS):
            if _is_valid(schema, checked):
                return checked, tuple(coercions)
            problems = schema.problems(checked)
            parsed = [entry for problem in problems if (entry := _parsed(problem)) is not None]
            if not parsed:
                break
            if not coercions:
                checked = copy.deepcopy(checked)
            for path, value, wanted in parsed:
                _put(checked, path, value)
                coercions.append(Coercion(pointer_text(path), wanted))
        pointer, what = describe_problems(schema, schema.problems(checked), whole="the arguments")
        raise ArgumentsInvalid(what, pointer=pointer, fix=_FIX)


def _in_plain_types(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(arguments))
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return arguments


def _is_valid(schema: CompiledSchema, arguments: dict[str, Any]) -> bool:
    try:
        return schema.is_valid(arguments)
    except ValueError as error:
        raise ArgumentsInvalid(f"The arguments cannot be checked: {error}", fix=_FIX) from None


def _refuse_what_is_not_json(arguments: dict[str, Any]) -> None:
    """Refuses values that JSON does not have: NaN, sets, keys other than text, text with lone surrogates."""
    stack: list[tuple[Any, list[str | int]]] = [(arguments, [])]
    while stack:
        value, path = stack.pop()
        reason = ""
        match value:
            case None | bool() | int():
                continue
            case str():
                if value.isascii() or without_surrogates(value) is value:
                    continue
                reason = "text that is not valid Unicode"
            case float():
                if math.isfinite(value):
                    continue
                reason = f"the number {value}, which JSON does not have"
            case dict() | list() if len(path) > DEEPEST:
                raise ArgumentsInvalid(
                    f"The arguments are nested more than {DEEPEST} levels deep",
                    pointer=pointer_text(path[:_SHOWN_LEVELS]),
                    fix=_FIX,
                )
            case dict():
                entries = cast("dict[Any, Any]", value)
                if all(isinstance(key, str) and without_surrogates(key) is key for key in entries):
                    stack.extend((child, [*path, key]) for key, child in entries.items())
                    continue
                reason = "an object with a name that is not text"
            case list():
                children = cast("list[Any]", value)
                stack.extend((child, [*path, position]) for position, child in enumerate(children))
                continue
            case _:
                reason = f"a value of type {type(value).__name__}, which JSON does not have"
        pointer = pointer_text(path)
        raise ArgumentsInvalid(f"{pointer or 'The arguments'} is {reason}", pointer=pointer, fix=_FIX)


def _parsed(problem: "jsonschema_rs.ValidationError") -> tuple[list[str | int], Any, str] | None:
    """Path, parsed value and its kind, if the value is JSON text where an object or array is wanted."""
    value = problem.instance
    wanted = wanted_types(problem)
    if not isinstance(value, str) or "string" in wanted or not wanted & {"object", "array"}:
        return None
    if value.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        parsed: Any = json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    kind = "object" if value.lstrip().startswith("{") else "array"
    return (problem.instance_path, parsed, kind) if kind in wanted else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _put(root: dict[str, Any], path: list[str | int], value: Any) -> None:
    holder: Any = root
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
