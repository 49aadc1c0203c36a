"""A node as JSON: every field of `_serialize_node_spec` in the design documents, in the same form.

There are more fields for KNIME's nodes, such as the name, id, category, deprecation and successor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model import DataFormat, NodeSpec, NodeSummary, Parameter, Port

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


def node_details(
    spec: NodeSpec, *, include_examples: bool = True, include_schemas: bool = True
) -> dict[str, Any]:
    """All fields of a node.

    Args:
        spec: The node.
        include_examples: Include `examples`, if the node has any.
        include_schemas: Include the schemas of run-time parameters and of the data at ports.

    Returns:
        A JSON object whose keys are always in the same order.
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
    """The note that a node is deprecated, and its replacement; empty for other nodes."""
    return {"deprecated": True, "successor": node.successor} if node.deprecated else {}


def filled(**values: Any) -> dict[str, Any]:
    """The values that are not empty."""
    return {name: value for name, value in values.items() if value}


def derived_defaults(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """A value per parameter: its default, else its first allowed value, else an empty value of its type."""
    return {entry.name: _default(entry) for entry in parameters}


def _default(parameter: Parameter) -> Any:
    if parameter.has_default:
        return parameter.default_value
    if parameter.enum_values:
        return parameter.enum_values[0]
    return example_for_type(parameter.type, smallest=parameter.min)


def example_for_type(kind: str | None, *, smallest: float | int | None = None) -> Any:
    """The empty value of a type; for numbers 0, or the smallest allowed number if that is larger.

    Args:
        kind: The type's name in the specification; unknown types count as text.
        smallest: The smallest allowed number.
    """
    wanted = (kind or "string").lower()
    if wanted in LISTS:
        return []
    if wanted in MAPPINGS:
        return {}
    value = _EXAMPLES.get(wanted, "")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and smallest is not None:
        return type(value)(max(value, smallest))
    return value


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "required": parameter.required,
        "default_value": parameter.default_value if parameter.has_default else None,
        "description": parameter.description,
        "enum_values": list(parameter.enum_values) or None,
        "validation_pattern": parameter.validation_pattern,
    } | _dialog(parameter)


def _configuration(parameter: Parameter) -> dict[str, Any]:
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


def _dialog(parameter: Parameter) -> dict[str, Any]:
    """The fields of parameters that only nodes with a dialog have."""
    described = [
        {"value": option.value, "label": option.label, "description": option.description}
        for option in parameter.options
        if option.label or option.description
    ]
    return filled(
        label=parameter.label if parameter.label != parameter.name else "",
        tab=parameter.tab,
        advanced=parameter.advanced,
        secret=parameter.secret,
        options=described,
    )


def _port(port: Port, *, include_schemas: bool) -> dict[str, Any]:
    return {
        "name": port.name,
        "type": port.type,
        "required": port.required,
        "description": port.description,
        "max_connections": port.max_connections,
        "data_format": _data_format(port.data_format) if port.data_format and include_schemas else None,
        "validation_schema": (
            dict(port.validation_schema) if port.validation_schema is not None and include_schemas else None
        ),
    } | filled(type_id=port.type_id, optional=port.optional, group=port.group)


def _data_format(data_format: DataFormat) -> dict[str, Any]:
    return {
        "mime_type": data_format.mime_type,
        "schema": data_format.schema,
        "examples": list(data_format.examples),
    }


def _beyond(spec: NodeSpec) -> dict[str, Any]:
    """Fields that the design's replies do not have."""
    found = filled(
        views=[{"name": view.name, "description": view.description} for view in spec.views],
        aliases=list(spec.aliases),
        keywords=list(spec.keywords),
    )
    found |= {} if spec.settings_known else {"settings_known": False}
    found |= filled(hidden=spec.hidden) | deprecation(spec)
    origin = spec.origin
    return found | {"origin": {"kind": origin.kind.value, "name": origin.name, "version": origin.version}}
