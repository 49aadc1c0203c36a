"""Arguments as models send them: numbers and lists as text, one node instead of a list, wrong names.

What is meant beyond doubt is accepted, everything else is refused with what is allowed.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.errors import ArgumentsInvalid

if TYPE_CHECKING:
    from .tool_definitions import ToolDefinition

_TRUE: Final = frozenset({"true", "yes", "1"})
_FALSE: Final = frozenset({"false", "no", "0"})


def read_arguments(tool: ToolDefinition, given: Mapping[str, Any] | None) -> tuple[dict[str, Any], list[str]]:
    """Reads the arguments of a call.

    Args:
        tool: The tool.
        given: What was sent.

    Returns:
        All arguments, those left out with their defaults, and what was changed about them, in sentences.

    Raises:
        ArgumentsInvalid: One does not exist, is missing, or cannot be used.
    """
    properties: Mapping[str, Any] = tool.parameters["properties"]
    found = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    changed: list[str] = []
    for name, value in (given or {}).items():
        if name not in properties:
            raise _unknown(tool, name, list(properties))
        if value is None and name not in tool.parameters.get("required", ()):
            continue
        found[name] = _read(tool, name, properties[name], value, changed)
    for name in tool.parameters.get("required", ()):
        if name not in found:
            raise ArgumentsInvalid(
                f"The argument '{name}' is missing",
                pointer=f"/{name}",
                tool=tool.name,
                fix=f"Arguments: {_listed(tool)}.",
            )
    return found, changed


def _unknown(tool: ToolDefinition, name: str, known: list[str]) -> ArgumentsInvalid:
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"Did you mean '{near[0]}'? " if near else ""
    return ArgumentsInvalid(
        f"There is no argument '{name[:80]}'",
        pointer=f"/{name}",
        tool=tool.name,
        fix=f"{meant}Allowed arguments: {_listed(tool)}.",
    )


def _listed(tool: ToolDefinition) -> str:
    required = tool.parameters.get("required", ())
    return ", ".join(
        f"{name} (required)" if name in required else name for name in tool.parameters["properties"]
    )


def _read(tool: ToolDefinition, name: str, schema: Mapping[str, Any], value: Any, changed: list[str]) -> Any:
    def wrong(wanted: str) -> ArgumentsInvalid:
        shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:79]}…"
        return ArgumentsInvalid(
            f"The argument '{name}' is {shown}",
            pointer=f"/{name}",
            tool=tool.name,
            fix=f"It must be {wanted}.",
        )

    kind = schema.get("type")
    if name == "node":
        return _reference(value, lambda: wrong("an id, a name, or node_type and subtype"))
    if kind == "array":
        entries = _list(value)
        if entries is None:
            raise wrong("a list")
        most = schema.get("maxItems")
        if not entries or (most is not None and len(entries) > most):
            raise ArgumentsInvalid(
                f"The argument '{name}' has {len(entries)} entries",
                pointer=f"/{name}",
                tool=tool.name,
                fix=f"It must have 1 to {most}; ask for more in several calls.",
            )
        return [
            _reference(entry, lambda: wrong("a list of node_type and subtype, or of ids"))
            for entry in entries
        ]
    if kind == "integer":
        return _integer(name, schema, value, changed, wrong)
    if kind == "boolean":
        if isinstance(value, bool):
            return value
        text = str(value).strip().casefold()
        if text not in _TRUE | _FALSE:
            raise wrong("true or false")
        return text in _TRUE
    if kind == "object":
        mapping = _mapping(value)
        if mapping is None:
            raise wrong("an object")
        return mapping
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong("a text")
    if kind == "string" or isinstance(value, str):
        return _text(schema, str(value), wrong)
    return value


def _text(schema: Mapping[str, Any], value: str, wrong: Any) -> str:
    allowed: list[str] = schema.get("enum", [])
    if not allowed:
        return value
    fitting = [entry for entry in allowed if entry.casefold() == value.strip().casefold()]
    if not fitting:
        raise wrong(f"one of {', '.join(allowed)}")
    return fitting[0]


def _integer(name: str, schema: Mapping[str, Any], value: Any, changed: list[str], wrong: Any) -> int:
    if isinstance(value, bool):
        raise wrong("a whole number")
    try:
        number = float(value.strip() if isinstance(value, str) else value)
        whole = int(number)
    except (TypeError, ValueError, OverflowError):
        raise wrong("a whole number") from None
    if whole != number:
        raise wrong("a whole number")
    low, high = schema.get("minimum", whole), schema.get("maximum", whole)
    kept = min(max(whole, low), high)
    if kept != whole:
        changed.append(f"{name} is {kept}: it can be {low} to {high}.")
    return kept


def _list(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        parsed = _parsed(value)
        return [value] if parsed is None else _list(parsed)
    if isinstance(value, Mapping):
        return [value]
    return cast("list[Any]", value) if isinstance(value, list) else None


def _mapping(value: Any) -> dict[str, Any] | None:
    parsed = _parsed(value) if isinstance(value, str) else value
    return dict(cast("Mapping[str, Any]", parsed)) if isinstance(parsed, Mapping) else None


def _reference(value: Any, wrong: Any) -> dict[str, str]:
    """``node_type`` and ``subtype``, or ``id``."""
    if isinstance(value, str):
        parsed = _parsed(value) if value.lstrip().startswith("{") else None
        if parsed is None:
            if not value.strip():
                raise wrong()
            return {"id": value.strip()}
        value = parsed
    if not isinstance(value, Mapping):
        raise wrong()
    given = cast("Mapping[str, Any]", value)
    texts = {
        key: str(given[key]).strip() for key in ("node_type", "subtype", "id") if given.get(key) is not None
    }
    if set(given) - {"node_type", "subtype", "id"} or not (texts.get("id") or texts.get("subtype")):
        raise wrong()
    return texts


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
