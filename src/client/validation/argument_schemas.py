"""What a schema says of arguments: reads its parts without a validator, and checks arguments before a call.

Reading evaluates nothing: all branches of ``allOf``, ``anyOf`` and ``oneOf`` and all local references count.
No references are fetched, and recursive ones are followed only once. A server's schema may be hostile: the
work grows with its size, not with the square of it.

The check drops and renames no argument. Only a *text* is changed that stands where the schema wants an object
or array and no text: models and table columns write ``"[1, 2]"`` for ``[1, 2]``. Such text is parsed, and the
coercion is recorded. Arguments that a strict reading of the schema forbids, but its server accepts, are sent
(see `schemas.as_meant`). With a malformed schema all arguments are sent, and the server decides.
"""

from __future__ import annotations

import copy
import json
import math
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from ...types.errors import ArgumentsInvalid
from ...types.texts import at_pointer, pointer_text, without_surrogates
from ..limits import Limits
from ..protocol.messages import DEEPEST, as_object
from .problems import describe_problems, wanted_types
from .schemas import CompiledSchema, compile_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import jsonschema_rs
    from jsonschema_rs import Validator


MOST_PARTS: Final = 1000
"""The largest number of subschemas that are read for one value."""
_FIX: Final = "Correct the arguments; nothing was sent"
_SHOWN_LEVELS: Final = 5
_ROUNDS: Final = 8  # JSON text inside of parsed JSON text


def parts_of(schema: Any, root: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All subschemas that describe the same value as a schema, itself included; each once, at most 1,000."""
    parts: dict[int, dict[str, Any]] = {}
    waiting: deque[Any] = deque([schema])
    while waiting and len(parts) < MOST_PARTS:
        part = waiting.popleft()
        if not isinstance(part, dict) or id(cast("object", part)) in parts:
            continue
        part = cast("dict[str, Any]", part)
        parts[id(part)] = part
        waiting.extend(_referred(part.get(key), root) for key in ("$ref", "$dynamicRef"))
        for key in ("allOf", "anyOf", "oneOf"):
            waiting.extend(as_list(part.get(key)))
        waiting.extend((part.get("then"), part.get("else")))
    return list(parts.values())


def properties_in(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """The schemas of the members that a schema of an object declares, in its order."""
    properties: dict[str, Any] = {}
    for part in parts_of(schema, root):
        for name, inner in as_object(part.get("properties")).items():
            properties.setdefault(name, inner)
    return properties


def member(schema: Any, root: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The schema of one member of an object, of which every branch may apply."""
    schemas: list[Any] = []
    for part in parts_of(schema, root):
        properties = as_object(part.get("properties"))
        if name in properties:
            schemas.append(properties[name])
            continue
        schemas.append(part.get("additionalProperties"))
        patterns = as_object(part.get("patternProperties"))
        schemas += [inner for pattern, inner in patterns.items() if matches(pattern, name, unknown=True)]
    return {"anyOf": schemas}


def items(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the items of an array, of which every branch may apply."""
    schemas: list[Any] = []
    for part in parts_of(schema, root):
        declared = part.get("items")
        schemas += [*(as_list(declared) or [declared]), *as_list(part.get("prefixItems"))]
    return {"anyOf": schemas}


def kinds(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """The JSON types that a schema declares; empty if it declares none."""
    types: set[str] = set()
    for part in parts_of(schema, root):
        declared = part.get("type")
        names = as_list(declared) or [declared]
        types.update(name for name in names if isinstance(name, str))
    return frozenset(types)


def resolve(root: dict[str, Any], schema: Any) -> dict[str, Any]:
    """The part that a reference within a schema leads to, with the keywords beside ``$ref``.

    An empty schema if the reference leads nowhere, out of the schema, or in a cycle.
    """
    seen: set[str] = set()
    beside: dict[str, Any] = {}
    while isinstance(schema, dict):
        current = cast("dict[str, Any]", schema)
        reference = current.get("$ref")
        if not isinstance(reference, str):
            return {**current, **beside}
        if reference in seen:  # a cycle
            break
        seen.add(reference)
        beside = {**{key: value for key, value in current.items() if key != "$ref"}, **beside}
        schema = _referred(reference, root)
    return beside


def required_names(schema: Mapping[str, Any]) -> set[str]:
    """The names of the properties that a schema requires; entries that are not texts are skipped."""
    return {name for name in as_list(schema.get("required")) if isinstance(name, str)}


def listed_parameters(schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Lists parameters by name, also behind references and in alternatives, and the required names."""
    whole = resolve(schema, schema)
    parts = [whole, *(resolve(schema, part) for part in as_list(whole.get("allOf")))]
    return properties_in(schema, schema), {name for part in parts for name in required_names(part)}


def type_of(value: Any) -> str:
    """The name of a value's JSON type; a number without a fraction is an ``integer``, too."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "integer" if value == value // 1 else "number"
        case str():
            return "string"
        case _:
            return "array" if isinstance(value, list) else "object"


def matches(pattern: str, text: str, *, unknown: bool) -> bool:
    """Whether a text contains a pattern, in linear time: Python's ``re`` may take exponential time.

    `unknown` is the answer for an invalid pattern, and for one with look-around or back-references.
    """
    validator = _validator(pattern)
    return unknown if validator is None else validator.is_valid(text)


def as_list(value: Any) -> list[Any]:
    """The value, if it is a list; otherwise an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def _referred(reference: Any, root: Mapping[str, Any]) -> Any:
    """Follows a reference within the schema, by JSON pointer or by name; other references are ignored."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer[:1] in ("", "/"):
        return at_pointer(root, pointer)
    return _named_parts(_SameObject(root)).get(pointer)


@dataclass(frozen=True, slots=True, eq=False)
class _SameObject:
    """A schema as the key of a cache: compared by identity, as comparing its content would take longer."""

    schema: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObject) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


@lru_cache(maxsize=16)
def _named_parts(root: _SameObject) -> dict[str, Any]:
    """The parts of a schema that have names; of several with the same name, the outermost."""
    named: dict[str, Any] = {}
    waiting: deque[Any] = deque([root.schema])
    while waiting:
        part = waiting.popleft()
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := as_object(part).get(key), str):
                named.setdefault(name, part)
        waiting.extend((*as_object(part).values(), *as_list(part)))
    return named


@lru_cache(maxsize=256)
def _validator(pattern: str) -> Validator | None:
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions()
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Coercion:
    """A text that was parsed as JSON: JSON pointer into the arguments, and ``object`` or ``array``."""

    pointer: str
    wanted: str


class ArgumentValidator:
    """Checks arguments of one tool. `fault` is the schema's defect because of which they are not checked."""

    def __init__(self, schema: CompiledSchema) -> None:
        self._schema = schema
        self.fault = schema.fault

    @classmethod
    def for_schema(cls, schema_json: str, limits: Limits = Limits()) -> ArgumentValidator:  # noqa: B008 - frozen
        """Compiled once per distinct text. Raises `ProtocolError` if the schema cannot be used."""
        return cls(compile_schema(schema_json, limits))

    def check(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Coercion, ...]]:
        """The arguments to send, and the texts that were parsed; ``arguments`` itself is not changed.

        Raises `ArgumentsInvalid` with a pointer to the first problem.
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


def _parsed(problem: jsonschema_rs.ValidationError) -> tuple[list[str | int], Any, str] | None:
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
