"""Validates arguments and results of a graph's tools by the schemas in the document."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..client.limits import Limits
from ..client.validation.schemas import CompiledSchema, compile_schema
from ..types.errors import MCPError
from ..types.texts import compact_json
from ..yaml_text import as_mapping
from .expressions.javascript import json_value
from .run_control import RunError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .graph_model import ToolDefinition


def compiled(schema: Mapping[str, Any]) -> CompiledSchema:
    """Compiles a schema. An unusable schema has a `fault`, and all values are valid."""
    try:
        return compile_schema(compact_json(schema), Limits())
    except MCPError as error:
        return CompiledSchema(dict(schema), None, error.what)


def listable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in a form that can be listed: the schemas of its properties are objects.

    The official SDK for TypeScript refuses a whole list if the schema of a property is ``true`` or ``false``.
    """
    copy = json_value(dict(schema))
    properties = as_mapping(copy.get("properties"))
    if any(isinstance(property_, bool) for property_ in properties.values()):
        as_objects: dict[bool, Any] = {True: {}, False: {"not": {}}}
        copy["properties"] = {
            name: as_objects[property_] if isinstance(property_, bool) else property_
            for name, property_ in properties.items()
        }
    return copy


_log = logging.getLogger(__name__)


class ToolSchemas:
    """The schemas of one tool, compiled."""

    def __init__(self, tool: ToolDefinition) -> None:
        self._tool = tool
        self._input = _compiled(tool, "inputSchema", tool.input_schema)
        self._output = _compiled(tool, "outputSchema", tool.output_schema)

    def check_arguments(self, arguments: Any) -> None:
        """Validates arguments by the inputSchema.

        Raises:
            RunError: The arguments violate the schema.
        """
        problem = _problem(self._input, arguments, "the arguments")
        if problem is not None:
            raise RunError(
                f"The arguments violate the tool's inputSchema: {problem}",
                tool=self._tool.name,
                kind="arguments",
                fix="Correct the arguments; nothing was run",
            )

    def check_result(self, result: Any) -> None:
        """Validates a result by the outputSchema.

        Raises:
            RunError: The result violates the schema.
        """
        problem = _problem(self._output, result, "the result")
        if problem is not None:
            raise RunError(
                f"The result violates the tool's outputSchema: {problem}",
                tool=self._tool.name,
                node=self._tool.exit.id,
                kind="result",
                fix="Correct the node before the exit, or the outputSchema in the document",
            )


def _compiled(tool: ToolDefinition, name: str, schema: Mapping[str, Any]) -> CompiledSchema:
    compiled_schema = compiled(schema)
    if compiled_schema.fault is not None:
        _log.warning("%s of the tool %s is not checked: %s", name, tool.name, compiled_schema.fault)
    return compiled_schema


def _problem(schema: CompiledSchema, value: Any, whole: str) -> str | None:
    try:
        if schema.is_valid(value):
            return None
    except ValueError as error:
        return str(error)
    from ..client.validation.problems import describe_problems  # imported late, so that servers start faster

    return describe_problems(schema, schema.problems(value), whole=whole)[1]
