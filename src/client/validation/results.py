"""Checks structured results against a tool's output schema.

https://modelcontextprotocol.io/specification/2025-11-25/server/tools#output-schema: clients should validate.
Only successful results are checked. A schema that cannot be used is the server's fault: it is logged, and the
result is accepted.
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
    """Checks a structured result against the tool's output schema.

    Raises:
        ResultInvalid: The result violates the schema.
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
    """Returns whether libraries write this value for another one that they cannot express.

    They write null for NaN, which JSON does not have; PHP writes an empty object as an empty list.
    """
    wanted = wanted_types(problem)
    return (
        bool(wanted & {"number", "integer"})
        if problem.instance is None
        else (problem.instance == [] and "object" in wanted)
    )
