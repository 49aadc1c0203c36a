"""What a schema says of arguments, read without a validator.

Reading evaluates nothing: all branches of ``allOf``, ``anyOf`` and ``oneOf`` and all local references count.
No references are fetched, and recursive ones are followed only once. A server's schema may be hostile: the
work grows with its size, not with the square of it.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never, cast
from urllib.parse import unquote

from ...types.texts import at_pointer
from ...types.tool import MCPTool, WorkflowTool
from ..protocol.messages import as_list, as_object

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from jsonschema_rs import Validator

    from ...types.tool import Tool

MOST_PARTS: Final = 1000
"""The largest number of subschemas that are read for one value."""

Content = Literal["", "base64", "data URL", "text"]
"""How a parameter wants bytes; empty where its schema does not say."""

_DATA_URL: Final = re.compile(r"\bdata[ _-]?ur[il]s?\b", re.IGNORECASE)
_BASE64: Final = re.compile(r"\bbase-?64\b", re.IGNORECASE)
_BASE64_FORMATS: Final = frozenset({"byte", "base64", "base64url", "binary"})


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
        waiting.extend(_referred(part[key], root) for key in ("$ref", "$dynamicRef") if key in part)
        for key in ("allOf", "anyOf", "oneOf"):
            if key in part:
                waiting.extend(as_list(part[key]))
        # Not `if`, which says when these apply, and nothing about the value.
        waiting.extend(part[key] for key in ("then", "else") if key in part)
        waiting.extend(as_object(part.get("dependentSchemas")).values())
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
    return _items(parts_of(schema, root))


def _items(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    schemas: list[Any] = []
    for part in parts:
        declared = part.get("items")
        schemas += [*(as_list(declared) or [declared]), *as_list(part.get("prefixItems"))]
    return {"anyOf": schemas}


def kinds(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """The JSON types that a schema declares; empty if it declares none."""
    return _named_types(parts_of(schema, root))


def _named_types(parts: Iterable[dict[str, Any]]) -> frozenset[str]:
    types: set[str] = set()
    for part in parts:
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
    return properties_in(schema, schema), _required_parameters(schema)


def _required_parameters(schema: Mapping[str, Any]) -> set[str]:
    root = cast("dict[str, Any]", schema)
    whole = resolve(root, root)
    parts = [whole, *(resolve(root, part) for part in as_list(whole.get("allOf")))]
    return {name for part in parts for name in required_names(part)}


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
class Parameter:
    """The JSON types that a parameter takes, such as ``integer``, and those of an array's items.

    They are empty where the schema does not say. `content` is how it wants bytes, `is_moment` whether it
    wants a date with a time and an offset (RFC 3339). `wants_null` is true for one that has to be given, and
    may be null: to leave it out is an error. `is_optional` is true for one that may be left out, also because
    it has a default. `texts` are all that it takes, where the schema lists them.
    """

    kinds: frozenset[str] = frozenset()
    item_kinds: frozenset[str] = frozenset()
    content: Content = ""
    is_moment: bool = False
    wants_null: bool = False
    texts: frozenset[str] | None = None
    is_optional: bool = True

    def takes_text(self, text: str) -> bool:
        return self.texts is None or text in self.texts

    @property
    def is_text(self) -> bool:
        """Whether it takes text, and neither numbers nor booleans."""
        return "string" in self.kinds and self.kinds.isdisjoint(("number", "integer", "boolean"))


ANYTHING = Parameter()


def parameters_of(tool: Tool, columns: Sequence[str] = ()) -> dict[str, Parameter]:  # @ToolTypeDispatch
    """A tool's parameters by name, in the order in which the tool lists them.

    ``columns`` that match a ``patternProperties`` pattern of the schema are parameters, too.
    """
    match tool:
        case MCPTool():
            return parameters_in(tool.parameter_schema, columns)
        case WorkflowTool():
            # Not a schema as a whole: KNIME stores one schema per Configuration node, by parameter name.
            return _parameters(tool.parameter_schema, tool.parameter_schema)
        case _:
            assert_never(tool)


def parameters_in(schema: Mapping[str, Any], columns: Sequence[str] = ()) -> dict[str, Parameter]:
    """The parameters in the schema of a tool's arguments; see `parameters_of`."""
    properties = properties_in(schema, schema)
    # What is said of an undeclared name depends on it only through patterns: one for all saves 100,000.
    has_patterns = any("patternProperties" in part for part in parts_of(schema, schema))
    undeclared: dict[str, Any] | None = None
    for name in _undeclared(schema, columns):
        if name not in properties:
            if undeclared is None or has_patterns:
                undeclared = member(schema, schema, name)
            properties[name] = undeclared
    return _parameters(properties, schema, _required_parameters(schema))


def _parameters(
    properties: Mapping[str, Any], root: Mapping[str, Any], required: Collection[str] = ()
) -> dict[str, Parameter]:
    return {
        name: _parameter(name, inner, root, is_required=name in required)
        for name, inner in properties.items()
    }


def _parameter(name: str, schema: Any, root: Mapping[str, Any], *, is_required: bool) -> Parameter:
    # Read once, as a server may name a hundred thousand parameters.
    parts = parts_of(schema, root)
    inner = parts_of(_items(parts), root)
    is_time = any(part.get("format") == "date-time" for part in parts)
    kinds = _kinds(parts)
    wants_null = is_required and "null" in kinds
    content = _content(name, [*parts, *inner])
    # Servers that require what has a default fill it in all the same.
    is_optional = not is_required or "default" in resolve(cast("dict[str, Any]", root), schema)
    return _shared(kinds, _kinds(inner), content, is_time, wants_null, _listed_texts(parts), is_optional)


@lru_cache(maxsize=256)
def _shared(*fields: Any) -> Parameter:
    """One object for all parameters that are alike, as they are in wide schemas."""
    return Parameter(*fields)


def _content(name: str, parts: Iterable[Mapping[str, Any]]) -> Content:
    """How a parameter wants bytes, from all subschemas that describe it."""
    words = ""
    for part in parts:
        form, pattern = part.get("format"), str(part.get("pattern", ""))
        words += f" {part.get('title', '')} {part.get('description', '')}"
        if form in ("data-url", "data-uri") or pattern.startswith("^data:"):
            return "data URL"
        if str(part.get("contentEncoding", "")).lower() in _BASE64_FORMATS or form in _BASE64_FORMATS:
            return "base64"
        if "contentMediaType" in part:
            return "text"
    if _DATA_URL.search(f"{name} {words}"):
        return "data URL"
    return "base64" if _BASE64.search(f"{name.replace('_', ' ')} {words}") else ""


def _kinds(parts: list[dict[str, Any]]) -> frozenset[str]:
    """The types that a schema names, and those of the values that a part without a type lists."""
    listed = (part for part in parts if "type" not in part)
    return _named_types(parts) | {type_of(value) for part in listed for value in _listed_values(part)}


def _listed_texts(parts: list[dict[str, Any]]) -> frozenset[str] | None:
    """The texts that the parts list, None if one of them takes others, or any."""
    texts: set[str] = set()
    for part in parts:
        listed = _listed_values(part)
        if not listed and "string" in _named_types([part]):
            return None
        texts.update(value for value in listed if isinstance(value, str))
    return frozenset(texts) or None


def _listed_values(part: Mapping[str, Any]) -> list[Any]:
    return [part["const"]] if "const" in part else as_list(part.get("enum"))


def _undeclared(root: Mapping[str, Any], columns: Sequence[str]) -> Iterator[str]:
    """Undeclared parameters: names that the schema only requires, and columns that match its patterns."""
    for part in parts_of(root, root):
        yield from sorted(required_names(part))
        for pattern in as_object(part.get("patternProperties")):
            yield from (column for column in columns if matches(pattern, column, unknown=False))
