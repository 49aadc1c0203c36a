"""A node as JSON at three levels of detail. `minimal` and `standard` keep within a budget of tokens.

Tokens are estimated as everywhere in this project: UTF-8 bytes of the JSON, divided by four, rounded up. A
shortened answer says that something was left out, and how to get it.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from .details import brief, filled, full_description, node_details

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model import NodeSpec, Parameter, Port

MINIMAL_TOKENS: Final = 200
STANDARD_TOKENS: Final = 1_500


class DetailLevel(StrEnum):
    """The levels of detail for a node."""

    MINIMAL = "minimal"
    """The node's name, description and ports; at most 200 tokens."""
    STANDARD = "standard"
    """The settings and ports in short, too; at most 1,500 tokens."""
    FULL = "full"
    """All fields."""


def details_at(
    level: DetailLevel, spec: NodeSpec, *, include_examples: bool = True, include_schemas: bool = True
) -> dict[str, Any]:
    """A node as JSON at a level. Examples and schemas (see `node_details`) are in the full level only."""
    match level:
        case DetailLevel.MINIMAL:
            return _minimal(spec)
        case DetailLevel.STANDARD:
            return _standard(spec)
        case DetailLevel.FULL:
            return node_details(spec, include_examples=include_examples, include_schemas=include_schemas)


def tokens(value: Any) -> int:
    """The estimated number of tokens of a JSON value."""
    return -(-len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) // 4)


def _minimal(spec: NodeSpec) -> dict[str, Any]:
    required = [entry.name for entry in spec.parameters if entry.required]

    def build(share: float) -> dict[str, Any]:
        found = brief(spec)
        found["description"] = _shortened(spec.short_description, 60 + int(share * 340))
        found["inputs"] = _listed([_port_in_short(port) for port in spec.input_ports], share, 8)
        found["outputs"] = _listed([_port_in_short(port) for port in spec.output_ports], share, 8)
        found["settings"] = len(spec.parameters)
        if required:
            found["required_settings"] = _listed(required, share, 12)
        return found

    return _within(MINIMAL_TOKENS, build, spec)


def _standard(spec: NodeSpec) -> dict[str, Any]:
    text = full_description(spec)
    # Required settings first, then those that the dialog shows at once, then advanced ones.
    settings = sorted(spec.parameters, key=lambda entry: (not entry.required, entry.advanced))

    def build(share: float) -> dict[str, Any]:
        found = brief(spec) | {"version": spec.version, "category": list(spec.category)}
        found["description"] = _shortened(text, 120 + int(share * 1_500))
        shown = settings[: max(3, int(share * len(settings)))] if share < 1 else settings
        if spec.settings_known:
            found["configurations"] = {entry.name: _setting(entry, share) for entry in shown}
        else:  # labels of a dialog, of which several may be the same
            found["parameters"] = [{"name": entry.name} | _setting(entry, share) for entry in shown]
            found["settings_known"] = False
        left_out = len(settings) - len(shown)
        if left_out:
            found["settings_left_out"] = left_out
        found["input_ports"] = [_port_standard(port, share) for port in spec.input_ports[:20]]
        found["output_ports"] = [_port_standard(port, share) for port in spec.output_ports[:20]]
        if spec.attached_nodes is not None:
            found["attached_nodes"] = list(spec.attached_nodes)
        if left_out or len(text) > len(found["description"]):
            found["more"] = "get_node_details with detail 'full' has everything"
        return found

    return _within(STANDARD_TOKENS, build, spec)


def _within(budget: int, build: Callable[[float], dict[str, Any]], spec: NodeSpec) -> dict[str, Any]:
    """The most detailed answer of `build` that fits into the budget, or a minimal one."""
    for share in (1.0, 0.7, 0.45, 0.25, 0.1, 0.0):
        found = build(share)
        if tokens(found) <= budget:
            return found
    return {
        "node_type": _shortened(spec.node_type, 60),
        "subtype": spec.subtype[:300],
        "name": _shortened(spec.name, 80),
        "description": _shortened(spec.short_description, 80),
        "more": "get_node_details with detail 'full' has everything",
    }


def _listed(entries: list[str], share: float, most: int) -> list[str]:
    count = max(2, int(share * most))
    shown = [_shortened(entry, 60) for entry in entries[:count]]
    return [*shown, f"and {len(entries) - count} more"] if len(entries) > count else shown


def _port_in_short(port: Port) -> str:
    marks = f"{' (optional)' if port.optional else ''}{' (several)' if port.group else ''}"
    if port.name.casefold() == port.type.casefold():
        return f"{port.name}{marks}"
    return f"{port.name}{f': {port.type}' if port.type else ''}{marks}"


def _port_standard(port: Port, share: float) -> dict[str, Any]:
    found: dict[str, Any] = {"name": _shortened(port.name, 80), "type": port.type}
    text = _shortened(port.description, int(200 * share)) if share > 0.3 else ""
    return found | filled(optional=port.optional, group=port.group, description=text)


def _setting(parameter: Parameter, share: float) -> dict[str, Any]:
    found = filled(type=parameter.type, required=parameter.required)
    if parameter.has_default:
        found["default"] = parameter.default_value
    if parameter.enum_values:
        most = max(3, int(20 * share))
        found["options"] = list(parameter.enum_values[:most])
        if len(parameter.enum_values) > most:
            found["options_left_out"] = len(parameter.enum_values) - most
    for key, value in (("min", parameter.min), ("max", parameter.max)):
        if value is not None:
            found[key] = value
    if share > 0.05:
        found["description"] = _shortened(parameter.description, int(240 * share))
    return found


def _shortened(text: str, limit: int) -> str:
    """The text in one line, cut to `limit` bytes, as tokens are counted by bytes."""
    line = " ".join(text.split())
    data = line.encode()
    return line if len(data) <= limit else data[: max(0, limit - 3)].decode(errors="ignore").rstrip() + "…"
