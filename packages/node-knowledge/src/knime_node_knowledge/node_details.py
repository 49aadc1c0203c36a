"""A node as JSON: every field of `_serialize_node_spec` in the design documents, in the same form.

There are more fields for KNIME's nodes, such as the name, id, category, deprecation and successor.

Of three levels of detail, `minimal` and `standard` keep within a budget of tokens, which are estimated as
everywhere in this project: UTF-8 bytes of the JSON, divided by four, rounded up. A shortened answer says that
something was left out, and how to get it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .node_model import NodeParameter, NodeSpec, NodeSummary, Port


_T = TypeVar("_T")

INTEGERS: Final = frozenset({"integer", "int", "long"})
NUMBERS: Final = frozenset({"float", "number", "double"})
BOOLEANS: Final = frozenset({"boolean", "bool"})
LISTS: Final = frozenset({"array", "list"})
MAPPINGS: Final = frozenset({"object", "dict", "map"})
_EXAMPLES: Final[dict[str, Any]] = {
    **dict.fromkeys(INTEGERS, 0),
    **dict.fromkeys(NUMBERS, 0.0),
    **dict.fromkeys(BOOLEANS, False),
    **dict.fromkeys(("any", "json"), None),
}

MOST_TOKENS: Final = 8_000
"""Of an answer with many nodes; clients such as Claude Code refuse answers of more than 25,000."""

MINIMAL_TOKENS: Final = 200
STANDARD_TOKENS: Final = 1_500
_MORE: Final = "get_node_details with detail 'full' has everything"


def node_details(
    spec: NodeSpec, *, include_examples: bool = True, include_schemas: bool = True
) -> dict[str, Any]:
    """All fields of a node, always in the same order.

    Schemas are those of run-time parameters and of the data at ports.
    """
    found: dict[str, Any] = {
        "node_type": spec.node_type,
        "subtype": spec.subtype,
        "id": spec.id,
        "name": spec.name,
        "version": spec.version,
        "description": full_description(spec),
        "category": list(spec.category),
        "parameters": [_parameter(entry) for entry in spec.parameters],
        "configurations": {entry.name: _configuration(entry) for entry in spec.configurations},
    }
    if include_schemas:
        found["input_params_schema"] = {entry.name: _configuration(entry) for entry in spec.input_params}
        outputs = {entry.name: _configuration(entry) for entry in spec.output_params}
        found["output_params_schema"] = {
            name: {key: value for key, value in schema.items() if key != "required"}
            for name, schema in outputs.items()
        }
    found |= {
        "default_configurations": derived_defaults(
            entry for entry in spec.configurations if entry.required or entry.has_default
        ),
        "default_input_params": derived_defaults(spec.input_params),
        "default_output_params": derived_defaults(spec.output_params),
        "input_ports": [_port(entry, include_schemas=include_schemas) for entry in spec.input_ports],
        "output_ports": [_port(entry, include_schemas=include_schemas) for entry in spec.output_ports],
        "tags": list(spec.tags),
    }
    if spec.attached_nodes is not None:
        found["attached_nodes"] = list(spec.attached_nodes)
    if include_examples and spec.examples:
        found["examples"] = [dict(entry) for entry in spec.examples]
    return found | _beyond(spec)


def full_description(spec: NodeSpec) -> str:
    """The short description, and the long description where that says more."""
    short, long = spec.short_description.strip(), spec.description.strip()
    if not long or long == short:
        return short
    return long if not short or long.startswith(short) else f"{short}\n\n{long}"


def brief(node: NodeSpec | NodeSummary) -> dict[str, Any]:
    """A node's entry in lists: type, subtype, name and description, and the id if it is another."""
    found: dict[str, Any] = {
        "node_type": node.node_type,
        "subtype": node.subtype,
        "name": node.name,
        "description": node.short_description,
    }
    if node.id not in (node.subtype, f"{node.node_type}.{node.subtype}"):
        found["id"] = node.id
    return found | deprecation(node)


def deprecation(node: NodeSpec | NodeSummary) -> dict[str, Any]:
    return {"deprecated": True, "successor": node.successor} if node.deprecated else {}


def filled(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def derived_defaults(parameters: Iterable[NodeParameter]) -> dict[str, Any]:
    """A value per parameter: its default, else its first allowed value, else an empty value of its type."""
    return {
        entry.name: entry.default_value
        if entry.has_default
        else entry.options[0].value
        if entry.options
        else example_for_type(entry.type, smallest=entry.min)
        for entry in parameters
    }


def example_for_type(kind: str | None, *, smallest: float | int | None = None) -> Any:
    """The empty value of a type, by default of text; 0 for numbers, or `smallest` if that is larger."""
    wanted = (kind or "string").lower()
    if wanted in LISTS:
        return []
    if wanted in MAPPINGS:
        return {}
    value = _EXAMPLES.get(wanted, "")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and smallest is not None:
        # The limit of a float may be written as a whole number.
        return type(value)(max(value, smallest))
    return value


def _parameter(parameter: NodeParameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "required": parameter.required,
        "default_value": parameter.default_value if parameter.has_default else None,
        "description": parameter.description,
        "enum_values": list(parameter.enum_values) or None,
        "validation_pattern": parameter.validation_pattern,
    } | _dialog(parameter)


def _configuration(parameter: NodeParameter) -> dict[str, Any]:
    found: dict[str, Any] = {"type": parameter.type}
    if parameter.has_default:
        found["default"] = parameter.default_value
    found |= {"description": parameter.description, "required": parameter.required}
    optional = {
        "min": parameter.min,
        "max": parameter.max,
        "options": list(parameter.enum_values) or None,
        "validation_pattern": parameter.validation_pattern,
    }
    found |= {key: value for key, value in optional.items() if value is not None}
    return found | filled(min_exclusive=parameter.min_exclusive, max_exclusive=parameter.max_exclusive)


def _dialog(parameter: NodeParameter) -> dict[str, Any]:
    """The fields of parameters that only nodes with a dialog have."""
    described = [asdict(option) for option in parameter.options if option.label or option.description]
    return filled(
        label=parameter.label if parameter.label != parameter.name else "",
        tab=parameter.tab,
        advanced=parameter.advanced,
        secret=parameter.secret,
        options=described,
    )


def _port(port: Port, *, include_schemas: bool) -> dict[str, Any]:
    data = port.data_format if include_schemas else None
    return {
        "name": port.name,
        "type": port.type,
        "required": port.required,
        "description": port.description,
        "max_connections": port.max_connections,
        "data_format": asdict(data) | {"examples": list(data.examples)} if data else None,
        "validation_schema": (
            dict(port.validation_schema) if port.validation_schema is not None and include_schemas else None
        ),
    } | filled(type_id=port.type_id, optional=port.optional, group=port.group)


def _beyond(spec: NodeSpec) -> dict[str, Any]:
    """Fields that the design's replies do not have."""
    found = filled(
        views=[asdict(view) for view in spec.views], aliases=list(spec.aliases), keywords=list(spec.keywords)
    )
    found |= {} if spec.settings_known else {"settings_known": False}
    found |= filled(hidden=spec.hidden) | deprecation(spec)
    origin = spec.origin
    return found | {"origin": {"kind": origin.kind.value, "name": origin.name, "version": origin.version}}


class DetailLevel(StrEnum):
    MINIMAL = "minimal"
    """The node's name, description and ports; at most 200 tokens."""
    STANDARD = "standard"
    """The settings and ports in short, too; at most 1,500 tokens."""
    FULL = "full"
    """All fields."""

    @property
    def and_shorter(self) -> list[DetailLevel]:
        """This level and those with less, the shortest last."""
        levels = list(DetailLevel)
        return levels[: levels.index(self) + 1][::-1]


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


def first_that_fit(entries: Sequence[_T], most: int) -> list[_T]:
    """The first entries that fit into an answer of so many tokens, and at least one.

    An answer goes out as text and as structured content (MCP demands both), and clients that show a model
    both pay for both.
    """
    spent = 0
    for number, entry in enumerate(entries):
        spent += 2 * tokens(entry)
        if number and spent > most:
            return list(entries[:number])
    return list(entries)


def tokens(value: Any) -> int:
    return -(-len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")) // 4)


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
            found["more"] = _MORE
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
        "more": _MORE,
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


def _setting(parameter: NodeParameter, share: float) -> dict[str, Any]:
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
