"""Adapts tool definitions to an endpoint that refused some, changing only what it objects to.

Tools go to the model as their servers describe them. Some endpoints refuse the whole request for one of them:
OpenAI's service takes 1,024 characters of a tool's description; several want ``properties`` in every object
and ``items`` in every array, or no ``anyOf`` at the top. Their error names the tool, by name or position.
A call's arguments are checked against the server's own schema in any case.
"""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any, Final, cast

from ...client.validation.argument_schemas import properties_in, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TOO_LONG: Final = re.compile(
    r"description.{0,120}?(?:too long|max(?:imum)?[ _]length|at most|exceed|longer than)", re.I | re.S
)
_LENGTH: Final = re.compile(
    r"(?:max(?:imum)?[ _]length(?: of)?|at most|longer than|limit of)\D{0,3}(\d{2,6})", re.I
)
_USUAL_LENGTH: Final = 1024
_SHORTEST: Final = 100
_SCHEMA: Final = re.compile(
    r"schema|function\.parameters|tools?\W{0,3}\d+\W{1,3}parameters|function_declarations|tool parameters"
    r"|\"function\",\s*\"parameters\"",
    re.I,
)
# Google counts the position within one tool that holds all functions.
_POSITIONS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"function_declarations\[(\d+)",
        r"tools[\[.](\d+)",
        r"\"path\":\s*\[\s*(\d+),\s*\"function\"",
    )
)
_QUOTED: Final = re.compile(r"['\"`]([a-zA-Z0-9_-]{1,64})['\"`]")
_NOT_AT_THE_TOP: Final = (
    *("$schema", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then"),
    *("else", "default", "nullable"),
)
_DATA: Final = frozenset({"enum", "const", "default", "examples"})  # their values are no schemas
_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_DEEPEST: Final = 64


class ToolFitting:
    """Adapts tool definitions to what an endpoint refused so far. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._longest: int | None = None
        self._simpler: set[str] = set()
        self._all_simpler = False
        self._left_out: set[str] = set()
        self.refused_ways: set[str] = set()  # to ask for an answer in a form

    def fit(self, definitions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        with self._lock:
            return [
                self._fitted(dict(definition))
                for definition in definitions
                if _name(definition) not in self._left_out
            ]

    def learn(
        self, message: str, definitions: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Learns from an endpoint's error message which definitions to change from now on.

        ``definitions`` are the functions before `fit`, ``sent`` those that the endpoint refused. Gives the
        change in words for a person; None if the message is not about tools, or nothing is left to change.
        """
        if not sent:
            return None
        with self._lock:
            if _TOO_LONG.search(message):
                return self._shorten(message, sent)
            if not _SCHEMA.search(message):
                return None
            name = _tool_in_message(message, [_name(definition) for definition in sent])
            return self._simplify_all() if name is None else self._simplify(name, definitions, sent)

    def _shorten(self, message: str, sent: Sequence[Mapping[str, Any]]) -> str | None:
        length = _LENGTH.search(message)
        limit = max(_SHORTEST, int(length[1]) if length else _USUAL_LENGTH)
        if not any(len(definition["function"]["description"]) > limit for definition in sent):
            return None
        self._longest = min(limit, self._longest or limit)
        return (
            f"The endpoint takes only {self._longest:,} characters of a tool's description: longer ones were"
            " cut, and the rest was sent with the parameters"
        )

    def _simplify(
        self, name: str, definitions: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]
    ) -> str:
        original, was_sent = (
            next(d["function"]["parameters"] for d in functions if _name(d) == name)
            for functions in (definitions, sent)
        )
        # Another prompt may have learned the same since this request was sent.
        if _without_description(was_sent) != _without_description(simpler_schema(original)):
            self._simpler.add(name)
            return (
                f"The endpoint refuses the schema of the tool '{name}', so the model was told a simpler one"
            )
        self._left_out.add(name)
        return f"The endpoint refuses the tool '{name}', so the model had to do without it"

    def _simplify_all(self) -> str | None:
        if self._all_simpler:
            return None
        self._all_simpler = True
        return "The endpoint refuses the schema of some tool, so the model was told simpler ones"

    def _fitted(self, definition: dict[str, Any]) -> dict[str, Any]:
        function = cast("dict[str, Any]", definition["function"])
        parameters = cast("dict[str, Any]", function["parameters"])
        if self._all_simpler or function["name"] in self._simpler:
            parameters = simpler_schema(parameters)
        text = str(function.get("description") or "")
        if self._longest is not None and len(text) > self._longest:
            rest = f"The tool's description goes on: {text[self._longest - 1 :]}"
            # Nothing that the server says is lost: schemas may be longer than descriptions.
            parameters = {**parameters, "description": f"{rest}\n{parameters.get('description', '')}".strip()}
            text = f"{text[: self._longest - 1]}…"
        if parameters is function["parameters"]:
            return definition
        return {**definition, "function": {**function, "description": text, "parameters": parameters}}


def simpler_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a schema that strict endpoints accept, as close to the server's as possible.

    The schema is an object with properties, without alternatives at the top level. Every object in it has
    ``properties``, every array has ``items``, and enums hold texts only.
    """
    whole = cast("dict[str, Any]", _completed(dict(schema), 0))
    simple = {**whole, **resolve(whole, whole)}
    for word in _NOT_AT_THE_TOP:
        simple.pop(word, None)
    if not isinstance(simple.get("required"), list):
        simple.pop("required", None)
    declared = properties_in(whole, whole).items()
    properties: dict[str, Any] = {
        name: part if isinstance(part, dict) else {} for name, part in declared if part is not False
    }
    return {**simple, "type": "object", "properties": properties}


def declared_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}


def _completed(value: Any, depth: int, *, by_name: bool = False) -> Any:
    """Completes a schema, a list of schemas, or (`by_name`) schemas by name."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_completed(inner, depth + 1) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    schema = cast("dict[str, Any]", value)
    if by_name:
        return {name: _completed(inner, depth + 1) for name, inner in schema.items()}
    completed: dict[str, Any] = {
        word: inner if word in _DATA else _completed(inner, depth + 1, by_name=word in _BY_NAME)
        for word, inner in schema.items()
    }
    values = cast("list[Any] | None", schema["enum"] if isinstance(schema.get("enum"), list) else None)
    if values and not all(isinstance(value, str) for value in values):
        del completed["enum"]  # Google's endpoints accept texts only
        choice = f"One of {json.dumps(values, ensure_ascii=False)}"
        completed["description"] = f"{schema['description']} {choice}" if "description" in schema else choice
    kind = schema.get("type")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    if "array" in kinds and "items" not in schema:
        completed["items"] = {}
    if "object" in kinds and not isinstance(schema.get("properties"), dict):
        completed["properties"] = {}
    return completed


def _without_description(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in schema.items() if word != "description"}


def _name(definition: Mapping[str, Any]) -> str:
    return str(definition["function"]["name"])


def _tool_in_message(message: str, sent: Sequence[str]) -> str | None:
    """The name of the tool that an endpoint's message is about."""
    for quoted in _QUOTED.findall(message):
        if quoted in sent:
            return quoted
    match = next(filter(None, (pattern.search(message) for pattern in _POSITIONS)), None)
    if match is None:
        return None
    position = int(match[1])
    return sent[position] if position < len(sent) else None
