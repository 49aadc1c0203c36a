"""Reads a model's arguments for a workflow: its parameters, and the tables for its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...runs.one_call import DataInput
from ...types.canonical import compact_json
from ...types.errors import ProtocolError
from ...types.json_pointer import pointer_text
from .functions import CONFIGURATION, DATA_INPUTS, arguments_schema, port_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...client.validation.argument_checks import ArgumentValidator
    from ...types.tool import WorkflowTool
    from .data_registry import DataRegistry


def workflow_arguments(
    tool: WorkflowTool, arguments: Mapping[str, Any], registry: DataRegistry
) -> tuple[dict[str, Any], tuple[DataInput, ...]]:
    """Reads a model's arguments: the parameters, and a table per input in the order of the ports.

    Raises:
        ArgumentsInvalid: An argument is missing, unknown or of the wrong type, or an id is unknown.
    """
    checked = _checked_arguments(tool, _with_text_ids(arguments))
    ids_by_port: dict[str, str] = checked.get(DATA_INPUTS, {})
    data: list[DataInput] = []
    for name in port_names(tool.input_ports):
        table = registry.table(ids_by_port[name], pointer=pointer_text((DATA_INPUTS, name)))
        data.append(DataInput(port=name, id=ids_by_port[name], table=table))
    return dict(checked.get(CONFIGURATION, {})), tuple(data)


def _checked_arguments(tool: WorkflowTool, arguments: dict[str, Any]) -> dict[str, Any]:
    schema = arguments_schema(tool)
    validator = _validator(schema)
    if validator is None:
        # KNIME's description of a parameter is no JSON Schema: only the outer structure is checked.
        loose = dict.fromkeys(tool.parameter_schema, cast("dict[str, Any]", {}))
        parts = schema["properties"]
        outer = {
            **schema,
            "properties": {**parts, CONFIGURATION: {**parts[CONFIGURATION], "properties": loose}},
        }
        validator = _validator(outer)
    return arguments if validator is None else validator.check(arguments)[0]


def _validator(schema: dict[str, Any]) -> ArgumentValidator | None:
    """The validator of a schema; None for a schema that cannot be used."""
    from ...client.validation.argument_checks import ArgumentValidator

    try:
        validator = ArgumentValidator.for_schema(compact_json(schema))
    except ProtocolError:
        return None
    return None if validator.fault is not None else validator


def _with_text_ids(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Turns ids that a model wrote as numbers into texts."""
    ids_by_port = arguments.get(DATA_INPUTS)
    if not isinstance(ids_by_port, dict):
        return dict(arguments)
    ids = {
        name: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in cast("dict[str, Any]", ids_by_port).items()
    }
    return {**arguments, DATA_INPUTS: ids}
