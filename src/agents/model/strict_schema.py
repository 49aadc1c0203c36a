"""The part of JSON Schema that every endpoint takes, and the way back from arguments that fit it.

Objects with properties, arrays with items, texts with choices, numbers, booleans, descriptions. What else a
schema says stands in words in the descriptions, values of a form that the part does not know are written as
JSON in a text, and names that endpoints refuse are replaced by others. The strictest are Gemini
(https://ai.google.dev/api/caching#Schema) and grammars such as llama.cpp's. Alternatives are joined: the
server's own schema decides about the arguments in any case.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ...client.protocol.messages import as_list, as_object
from ...client.validation.argument_schemas import (
    items,
    kinds,
    parts_of,
    properties_in,
    required_names,
    resolve,
    type_of,
)
from ...types.texts import compact_json, numbered, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_Kind = Literal["object", "array", "string", "number", "integer", "boolean", "json"]
_SIMPLE: Final[tuple[_Kind, ...]] = ("string", "number", "integer", "boolean")
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST_NAME: Final = 64
DATA_WORDS: Final = frozenset({"enum", "const", "default", "examples"})  # their values are no schemas
SCHEMAS_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_MOST_PARTS: Final = 500  # references may make a few kilobytes gigabytes
_DEEPEST: Final = 8
_LONGEST_TOLD: Final = 300
_OF_TEXTS: Final = ("format", "pattern", "minLength", "maxLength")
_TOLD: Final = (
    *(*_OF_TEXTS, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minItems", "maxItems", "uniqueItems", "default", "additionalProperties"),
)


def strict_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The schema of a tool's arguments, None if it has none, and what it says of all of them together."""
    root = dict(schema)
    made = _Walk(root).made(root, "")
    whole = resolve(root, root)
    needed = [
        " and ".join(sorted(required_names(as_object(branch))))
        for key in ("anyOf", "oneOf")
        for branch in as_list(whole.get(key))
    ]
    told = [f"It needs {', or '.join(needed)}."] if len(needed) > 1 and all(needed) else []
    if made["type"] != "object":
        return None, ""
    return made, " ".join([*filter(None, [made.pop("description", "")]), *told])


def own_arguments(arguments: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """Arguments that fit the strict schema in the names and forms of the server's."""
    match arguments:
        case dict():
            properties = _properties(schema, root)
            own = {new: old for old, new in _names(properties).items()}
            return {
                own.get(name, name): own_arguments(value, properties.get(own.get(name, name)), root)
                for name, value in cast("dict[str, Any]", arguments).items()
            }
        case list():
            inner = items(schema, root)
            return [own_arguments(value, inner, root) for value in cast("list[Any]", arguments)]
        case str() if arguments[:1] in {"{", "["} and not kinds(schema, root):
            try:
                return parse_json(arguments)
            except ValueError:
                return arguments
        case _:
            return arguments


class _Walk:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _MOST_PARTS

    def made(
        self, schema: Any, name: str, inside: frozenset[int] = frozenset(), *, needed: bool = True
    ) -> dict[str, Any]:
        """The strict form of a part of the schema, which is called `name` where it stands."""
        self._left -= 1
        root, parts = self._root, parts_of(schema, self._root)
        around = inside | set(map(id, parts))
        is_recursive = len(around) < len(inside) + len(parts)
        choices = _choices(schema, root) or None
        kind = "json" if is_recursive or self._left < 0 else _kind(schema, root, parts, choices)
        made: dict[str, Any] = {"type": "string" if kind == "json" else kind}
        match kind:
            case "object":
                properties, required = _properties(schema, root), _required(schema, root)
                names = _names(properties)
                made["properties"] = {
                    names[own]: _told(
                        self.made(part, own, around, needed=own in required),
                        [] if names[own] == own else [f"called {own!r}"],
                    )
                    for own, part in properties.items()
                }
                if wanted := [names[own] for own in properties if own in required]:
                    made["required"] = wanted
            case "array":
                made["items"] = self.made(items(schema, root), name, around)
            case "string" if texts := [text for text in choices or () if isinstance(text, str) and text]:
                made["enum"] = texts
            case _:
                pass
        texts = [part.get("description") for part in parts]
        texts += [part.get("title") for part in parts if not repeats(part.get("title"), name)]
        if text := next((text for text in texts if isinstance(text, str) and text), ""):
            made["description"] = text
        return _told(made, _words(kind, kinds(schema, root), choices, parts, needed=needed))


def _told(schema: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    if not words:
        return schema
    told = f"({'; '.join(words)})"
    return {**schema, "description": f"{schema.get('description', '')} {told}".lstrip()}


def _kind(schema: Any, root: Mapping[str, Any], parts: Sequence[Any], choices: list[Any] | None) -> _Kind:
    declared = set(kinds(schema, root)) or {type_of(choice) for choice in choices or ()}
    if _properties(schema, root) and (not declared or "object" in declared):
        return "object"
    has_items = any("items" in part or "prefixItems" in part for part in parts)
    # Also one that may be a single value: a list of it is what the server takes, too.
    if "array" in declared or (has_items and not declared):
        return "array"
    if not declared and any(word in part for word in _OF_TEXTS for part in parts):
        return "string"
    simple: list[_Kind] = [kind for kind in _SIMPLE if kind in declared]
    return simple[0] if simple else "json"


def _words(
    kind: _Kind,
    declared: frozenset[str],
    choices: list[Any] | None,
    parts: Sequence[Mapping[str, Any]],
    *,
    needed: bool,
) -> list[str]:
    """What the strict form does not say."""
    words: list[str] = []
    others = sorted(declared - {kind, "null", *(["integer"] if kind == "number" else [])})
    if kind == "json":
        words.append(f"{' or '.join(others) or 'any value'}, written as JSON")
    elif others:
        words.append(f"or {' or '.join(others)}")
    if "null" in declared and needed:
        words.append("or null")
    if choices is not None and not (kind == "string" and all(isinstance(c, str) and c for c in choices)):
        words.append(f"one of {compact_json(choices)}")
    for word in _TOLD:
        value = next((part[word] for part in parts if word in part), None)
        told = f"{word} {compact_json(value)}"
        # A lookahead tells a model little, and endpoints choke on it anywhere.
        is_told = len(told) <= _LONGEST_TOLD and "(?" not in told
        if value is not None and is_told and (word != "additionalProperties" or value not in (True, False)):
            words.append(told)
    return words


def _choices(schema: Any, root: Mapping[str, Any], depth: int = 0) -> list[Any] | None:
    """The values that a part is one of, None for any; those of its alternatives if all have some."""
    whole = resolve(dict(root), schema)
    if isinstance(whole.get("enum"), list) and whole["enum"]:
        return whole["enum"]
    if "const" in whole:
        return [whole["const"]]
    if whole.get("type") == "null":
        return []
    for key in ("anyOf", "oneOf", "allOf"):
        branches = as_list(whole.get(key)) if depth < _DEEPEST else []
        found = [_choices(branch, root, depth + 1) for branch in branches]
        known = [values for values in found if values is not None]
        if any(known) and (len(known) == len(found) or key == "allOf"):
            return [value for values in known for value in values]
    return None


def _properties(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in properties_in(schema, root).items() if part is not False}


def _required(schema: Any, root: Mapping[str, Any]) -> set[str]:
    whole = resolve(dict(root), schema)
    parts = [whole, *(resolve(dict(root), part) for part in as_list(whole.get("allOf")))]
    return {name for part in parts for name in required_names(part)}


def _names(properties: Mapping[str, Any]) -> dict[str, str]:
    """The names for the model by those of the server."""
    fitted = [_fit_name(name, number)[:_LONGEST_NAME] for number, name in enumerate(properties, 1)]
    return dict(zip(properties, numbered(fitted, "_{}", longest=_LONGEST_NAME), strict=True))


def _fit_name(name: str, number: int) -> str:
    if _NAME.fullmatch(name):
        return name
    plain = _UNFIT.sub("_", name).strip("_-")
    return plain if _NAME.fullmatch(plain) else f"argument_{plain or number}"


def repeats(title: object, name: str) -> bool:
    """Whether a title says no more than the name under which it stands, as generated ones do."""
    return isinstance(title, str) and _letters(title) == _letters(name)


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
