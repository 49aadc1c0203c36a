"""Reads the arguments of a call, also as models send them: numbers and lists as text, one node for a list.

Values with an unambiguous meaning are accepted. Others are refused with an error that says what is allowed.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.types.errors import ArgumentsInvalid
from knime_mcp.types.texts import shortened

if TYPE_CHECKING:
    from .tool_definitions import KnowledgeTool

_TRUE: Final = frozenset({"true", "yes", "1"})
_FALSE: Final = frozenset({"false", "no", "0"})
_MOST_DIGITS: Final = 9
_LONGEST_SHOWN: Final = 80


def read_arguments(tool: KnowledgeTool, given: Mapping[str, Any] | None) -> tuple[dict[str, Any], list[str]]:
    """All arguments of a call, with defaults for missing ones, and sentences about changed values."""
    properties: Mapping[str, Any] = tool.parameters["properties"]
    found = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    changed: list[str] = []
    for name, value in (given or {}).items():
        if name not in properties:
            raise _unknown(tool, name, list(properties))
        is_blank = value is None or (isinstance(value, str) and not value.strip())
        if is_blank and name not in tool.parameters.get("required", ()):
            continue  # many clients send all arguments that there are
        found[name] = _Argument(tool, name, properties[name], value, changed).read()
    for name in tool.parameters.get("required", ()):
        if name not in found:
            raise ArgumentsInvalid(
                f"The argument '{name}' is missing",
                pointer=f"/{name}",
                tool=tool.name,
                fix=f"Arguments: {listed(tool.parameters)}.",
            )
    return found, changed


def _unknown(tool: KnowledgeTool, name: str, known: list[str]) -> ArgumentsInvalid:
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"Did you mean '{near[0]}'? " if near else ""
    return ArgumentsInvalid(
        f"There is no argument '{name[:80]}'",
        pointer=f"/{name}",
        tool=tool.name,
        fix=f"{meant}Allowed arguments: {listed(tool.parameters)}.",
    )


def listed(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return ", ".join(f"{name} (required)" if name in required else name for name in schema["properties"])


@dataclass(frozen=True, slots=True)
class _Argument:
    tool: KnowledgeTool
    name: str
    schema: Mapping[str, Any]
    value: Any
    changed: list[str]

    def read(self) -> Any:
        match self.schema.get("type"):
            case None:
                return self._reference()
            case "array":
                return self._references()
            case "integer":
                return self._integer()
            case "boolean":
                return self._truth()
            case "object":
                return self._object()
            case "string":
                return self._text()
            case ["object", "string"]:  # a workflow, which its reader understands
                return self.value
            case _:  # a port: its number or its name
                return self._integer() if isinstance(self.value, (int, float)) else self._text()

    def _wrong(self, wanted: str) -> ArgumentsInvalid:
        return self._invalid(f"is {_shown(self.value)}", f"It must be {wanted}.")

    def _invalid(self, what: str, fix: str) -> ArgumentsInvalid:
        return ArgumentsInvalid(
            f"The argument '{self.name}' {what}", pointer=f"/{self.name}", tool=self.tool.name, fix=fix
        )

    def _reference(self) -> dict[str, str]:
        found = _reference(self.value)
        if found is None or not any(found.values()):
            raise self._wrong("an id, a name, or node_type and subtype")
        return found

    def _references(self) -> list[dict[str, str]]:
        entries = _list(self.value)
        if entries is None:
            raise self._wrong("a list")
        most = self.schema.get("maxItems")
        if not entries or (most is not None and len(entries) > most):
            raise self._invalid(
                f"has {len(entries)} entries", f"It must have 1 to {most}; ask for more in several calls."
            )
        found: list[dict[str, str]] = []
        for entry in entries:
            reference = _reference(entry)
            if reference is None:
                wanted = "It must be a list of node_type and subtype, or of ids."
                raise self._invalid(f"has the entry {_shown(entry)}", wanted)
            found.append(reference)
        return found

    def _integer(self) -> int:
        value, whole = self.value, None
        # `True` would be 1.
        if not isinstance(value, bool):
            with suppress(TypeError, ValueError, OverflowError):
                # Models write 5.0 and "5"; `int` of `inf` and `nan` raises.
                number = float(value.strip() if isinstance(value, str) else value)
                whole = int(number) if number == int(number) else None
        if whole is None:
            raise self._wrong("a whole number")
        low, high = self.schema.get("minimum", whole), self.schema.get("maximum", whole)
        kept = min(max(whole, low), high)
        # Corrected and told: that too many are asked for is no reason to give none.
        if kept != whole:
            self.changed.append(f"{self.name} is {kept}: it can be {low} to {high}.")
        return kept

    def _truth(self) -> bool:
        if isinstance(self.value, bool):
            return self.value
        text = str(self.value).strip().casefold()
        if text not in _TRUE | _FALSE:
            raise self._wrong("true or false")
        return text in _TRUE

    def _object(self) -> dict[str, Any]:
        parsed = _parsed(self.value) if isinstance(self.value, str) else self.value
        if not isinstance(parsed, Mapping):
            raise self._wrong("an object")
        return dict(cast("Mapping[str, Any]", parsed))

    def _text(self) -> str:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise self._wrong("a text")
        allowed: list[str] = self.schema.get("enum", [])
        if not allowed:
            return str(value)
        fitting = [entry for entry in allowed if entry.casefold() == str(value).strip().casefold()]
        if not fitting:
            raise self._wrong(f"one of {', '.join(allowed)}")
        return fitting[0]


def _list(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        parsed = _parsed(value)
        return [value] if parsed is None else _list(parsed)
    if isinstance(value, Mapping):
        return [value]
    return cast("list[Any]", value) if isinstance(value, list) else None


def _reference(value: Any) -> dict[str, str] | None:
    """The node reference in a value (``node_type`` and ``subtype``, or ``id``); None for any other value."""
    if isinstance(value, str):
        parsed = _parsed(value) if value.lstrip().startswith("{") else None
        if parsed is None:
            return {"id": value.strip()}
        value = parsed
    if not isinstance(value, Mapping):
        return None
    given = cast("Mapping[str, Any]", value)
    texts = {
        key: str(given[key]).strip() for key in ("node_type", "subtype", "id") if given.get(key) is not None
    }
    if set(given) - {"node_type", "subtype", "id"} or not texts.keys() & {"id", "subtype"}:
        return None
    return texts


def _shown(value: Any) -> str:
    return shortened(repr(value), _LONGEST_SHOWN)


def count_in(text: str) -> int | None:
    """Reads a number from 0 on from a text. None for other texts, and for numbers of nine or more digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
