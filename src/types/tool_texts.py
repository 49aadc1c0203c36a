"""Parses the JSON texts of a tool (schemas, declarations, ports), once per distinct text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from .canonical import compact_json, without_surrogates


@dataclass(frozen=True, slots=True)
class ToolPort:
    """An input or output of a workflow tool.

    Attributes:
        name: Name of the port.
        description: The purpose of the port.
        type: Name of the port type, such as ``Table``.
        spec: JSON text of the port's spec, None if not known.
    """

    name: str
    description: str
    type: str
    spec: str | None = None

    def __post_init__(self) -> None:
        for part in ("name", "description", "type", "spec"):
            value = getattr(self, part)
            if value is not None and not value.isascii():
                object.__setattr__(self, part, without_surrogates(value))


def parse_json(text: str) -> Any:
    """Parses JSON text.

    Raises:
        ValueError: The text is not JSON, or is nested too deeply; the message says so and where.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON, {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise ValueError("it holds a number with too many digits") from None


@lru_cache(maxsize=1024)
def parse_object(text: str) -> dict[str, Any]:
    """Parses the JSON text of an object, "" for no entries, once per distinct text.

    All callers with the same text share the object: do not change it.

    Raises:
        ValueError: The text is not JSON, or not an object; the message says which.
    """
    value: Any = parse_json(text) if text else {}  # KNIME writes "" for a workflow without parameters
    if not isinstance(value, dict):
        raise ValueError("it is JSON, but not an object")
    return cast("dict[str, Any]", value)


@lru_cache(maxsize=1024)
def parse_declared(text: str) -> dict[str, Any]:
    """Parses an MCP server's output schema, annotations and title, once per distinct text.

    Args:
        text: JSON text of an object with ``outputSchema``, ``annotations`` and ``title``; "" for none.

    Returns:
        The three as ``output_schema``, ``annotations`` and ``title``, None where not declared.

    Raises:
        ValueError: The text has another form; the message says how.
    """
    value = parse_object(text)
    output_schema, annotations, title = (value.get(key) for key in ("outputSchema", "annotations", "title"))
    if not isinstance(output_schema, dict | None) or not isinstance(annotations, dict | None):
        raise ValueError("outputSchema and annotations must be objects")
    if not isinstance(title, str | None):
        raise ValueError("title must be text")
    return {"output_schema": output_schema, "annotations": annotations, "title": title}


@lru_cache(maxsize=1024)
def parse_ports(text: str) -> tuple[ToolPort, ...]:
    """Parses the JSON text of a workflow tool's ports, "" for none, once per distinct text.

    Raises:
        ValueError: The text is no list of ports.
    """
    value: Any = parse_json(text) if text else []
    if not isinstance(value, list):
        raise ValueError("it is JSON, but not a list of ports")
    try:
        return tuple(ToolPort(**port) for port in cast("list[dict[str, Any]]", value))
    except (TypeError, AttributeError):
        raise ValueError("a port must have name, description, type and, if known, spec, all text") from None


@lru_cache(maxsize=1024)
def ports_text(ports: tuple[ToolPort, ...]) -> str:
    """The JSON text of ports, as `parse_ports` reads it."""
    return compact_json([{part: getattr(port, part) for part in ToolPort.__slots__} for port in ports])
