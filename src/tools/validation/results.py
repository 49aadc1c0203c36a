"""Checks structured results against a tool's output schema.

https://modelcontextprotocol.io/specification/2025-11-25/server/tools#output-schema: clients should validate.
Only successful results are checked, and a schema that cannot be used is the server's fault, not the result's:
it is logged, and the result stays.
"""

import logging
from typing import TYPE_CHECKING, Any

from ...types.canonical import compact_json
from ...types.errors import ProtocolError, ResultInvalid
from ..limits import Limits
from ..protocol.tools import ToolDefinition
from .problems import describe_problems, wanted_types
from .schemas import compile_schema

if TYPE_CHECKING:
    import jsonschema_rs

_logger = logging.getLogger(__name__)


def check_structured_content(definition: ToolDefinition, value: Any, limits: Limits) -> None:
    """Compares a structured result with what the tool promises.

    Raises:
        ResultInvalid: It violates the tool's own output schema.
    """
    try:
        schema = compile_schema(compact_json(definition.output_schema), limits)
    except ProtocolError as error:
        _logger.warning("results of %s are not checked: %s", definition.name, error.what)
        return
    if schema.fault is not None:
        _logger.warning(
            "results of %s are not checked, because of their schema: %s", definition.name, schema.fault
        )
        return
    try:
        if schema.is_valid(value) or (schema := schema.as_meant).is_valid(value):
            return
    except ValueError as error:
        _logger.warning("a result of %s is not checked: %s", definition.name, error)
        return
    problems = schema.problems(value)
    if all(map(_stands_for_another, problems)):
        return
    pointer, what = describe_problems(schema, problems, whole="the result")
    raise ResultInvalid(
        f"The tool's structured result violates its own output schema: {what}",
        pointer=pointer,
        fix="Tell whoever runs the server, or turn the check of results off",
    )


def _stands_for_another(problem: "jsonschema_rs.ValidationError") -> bool:
    """Returns whether a value is what libraries write where they cannot write the one that they have.

    JSON has no NaN, and null is written for it. PHP writes an empty object as an empty list.
    """
    wanted = wanted_types(problem)
    return (
        bool(wanted & {"number", "integer"})
        if problem.instance is None
        else (problem.instance == [] and "object" in wanted)
    )
