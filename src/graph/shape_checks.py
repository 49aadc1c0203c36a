"""Checks a tool by the shapes of its nodes' outputs: whether what is looked up, compared and given can be.

All that is found would run, and is a warning. The outputs' shapes are only needed to check a document, not to
run it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..yaml_text import as_list, as_mapping, did_you_mean
from .document_checks import HISTORY_FUNCTIONS, RULE_VARIABLES, check_expressions
from .expressions import Bounds, ExpressionError, evaluate
from .expressions.javascript import truthy
from .expressions.json_logic import is_jsonata
from .expressions.json_logic_shapes import always, lost_paths
from .expressions.shapes import ANY, Others, Shape, of_schema
from .graph_model import ExitNode, Expression, InvalidExpression, McpNode, SwitchNode, ToolNode, TransformNode
from .node_shapes import CalledTools, NodeShapes, argument_shapes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..yaml_text import Findings, Path
    from .expressions.jsonata_shapes import Doubt
    from .graph_model import Condition, Node

_OBJECT: Final = frozenset({"object"})
_SUM: Final = re.compile(r"[\d\s.()+\-*/%]+")
_NAMES: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class ShapeChecks:
    """Checks one tool.

    Args:
        findings: Gets what is found.
        shapes: What is known of the outputs of its nodes.
        tools: What is known of the tools that they call.
        output_schema: That of the tool.
    """

    def __init__(
        self, findings: Findings, shapes: NodeShapes, tools: CalledTools, output_schema: Mapping[str, Any]
    ) -> None:
        self._findings = findings
        self._shapes = shapes
        self._tools = tools
        self._output_schema = output_schema
        self._node = ""
        self._whose = ""

    def check(self, node: Node, path: Path) -> None:
        """Checks a node at a place of the document, with the syntax of its expressions."""
        self._node, self._whose = f'Node "{node.id}"', f"the output of '{node.id}'"
        check_expressions(self._findings, node, self._shapes.ids, self._looked_up)
        match node:
            case McpNode() | ToolNode():
                called = self._tools.called_by(node)
                if called is not None and called.input_schema is not None:
                    self._arguments(node, (*path, "args"), called.input_schema)
            case SwitchNode():
                for number, condition in enumerate(node.conditions, 1):
                    if not condition.always:
                        self._condition(condition, number, standard=node.standard)
            case TransformNode() if isinstance(self._shapes.nodes.get(node.next), ExitNode):
                self._result(node, self._output_schema)
            case _:
                pass

    def _looked_up(self, text: str, path: Path, known: frozenset[str]) -> None:
        doubts: list[Doubt] = []
        self._shapes.of_expression(text, self._whose, dict.fromkeys(known, ANY), doubts)
        for doubt in doubts:
            position = self._findings.source.inside(path, text, doubt.offset)
            self._findings.warn_at(f"{self._node}: {doubt.message}", position, doubt.fix)

    def _condition(self, condition: Condition, number: int, *, standard: bool) -> None:
        def shape(var: Any) -> Shape:
            if not isinstance(var, str) or (standard and not is_jsonata(var) and not _NAMES.fullmatch(var)):
                return ANY
            known = dict.fromkeys((*HISTORY_FUNCTIONS, *RULE_VARIABLES), ANY)
            return self._shapes.of_expression(var, self._whose, known)

        context = self._shapes.context if standard else None
        start = condition.position.path if condition.position is not None else ()
        for place, why, fix in lost_paths(condition.rule, context, shape):
            self._findings.warn(f"{self._node}: {why} (condition {number})", (*start, *place), fix)
        certain = always(condition.rule, shape)
        if certain is not None and not certain[0]:
            message = f"{self._node}: condition {number} never holds, so its way is never taken: {certain[1]}"
            position = condition.position
            self._findings.warn(message, position.path if position is not None else ())

    def _arguments(self, node: McpNode | ToolNode, path: Path, schema: Mapping[str, Any]) -> None:
        """Compares arguments with the schema of the called tool, as far as they are known."""
        if isinstance(node.args, Expression | InvalidExpression):
            return
        given = argument_shapes(node.args, self._shapes)
        wanted = of_schema(schema, f"the inputSchema of '{node.tool}'")
        for name, shape in given.fields.items():
            taken = wanted.fields.get(name)
            if taken is not None and (wrong := _misfit(shape, taken)) is not None:
                message = f"{self._node}: the argument '{name}' of '{node.tool}' {wrong}"
                self._findings.warn(message, (*path, name))
        if isinstance(node, McpNode):  # of servers' tools, names are compared when they are asked
            return
        for name in given.fields:
            fix = did_you_mean(name, wanted.fields)
            if name not in wanted.fields and wanted.fields and (fix or wanted.others is Others.NONE):
                closed = schema.get("additionalProperties") is False
                # Schemas are open by default, and only what looks like a typing error is worth a warning.
                if fix or closed:
                    message = f"{self._node}: the tool '{node.tool}' has no argument '{name}'"
                    self._findings.warn(message, (*path, name), fix)
        for name in as_list(schema.get("required")):
            has_default = "default" in as_mapping(as_mapping(schema.get("properties")).get(name))
            if isinstance(name, str) and name not in given.fields and not has_default:
                message = f"{self._node}: the tool '{node.tool}' requires the argument '{name}'"
                self._findings.warn(message, path)

    def _result(self, node: TransformNode, schema: Mapping[str, Any]) -> None:
        """Compares what a node before the exit gives with the tool's outputSchema."""
        given = self._shapes.of_expression(node.expression.text, self._whose)
        wanted = of_schema(schema, "the outputSchema")
        path = node.expression.position.path if node.expression.position is not None else ()
        # What is false, such as 0 or null, becomes an empty object.
        is_false = given.values is not None and not any(map(truthy, given.values))
        is_false = is_false or _is_false_sum(node.expression.text)
        if given.kinds and "object" not in given.kinds and wanted.kinds == _OBJECT and not is_false:
            message = f"{self._node}: the result of the tool is an object, but this gives {given.words}"
            self._findings.warn(message, path, "Write an object, as in {'result': ...}")
            return
        if given.kinds != _OBJECT:
            return
        for name, shape in given.fields.items():
            taken = wanted.fields.get(name)
            if taken is not None and (wrong := _misfit(shape, taken)) is not None:
                message = f"{self._node}: '{name}' of the result {wrong} in the outputSchema"
                self._findings.warn(message, path)
        for name in as_list(schema.get("required")):
            if given.others is Others.NONE and isinstance(name, str) and name not in given.fields:
                message = f"{self._node}: the outputSchema requires '{name}', which this does not give"
                self._findings.warn(message, path, did_you_mean(name, given.fields))


def _is_false_sum(text: str) -> bool:
    """Whether an expression has only numbers, and comes to none or to zero, as ``0/0`` does."""
    if not _SUM.fullmatch(text):
        return False
    try:
        return not truthy(evaluate(text, {}, bounds=Bounds(seconds=1)))
    except ExpressionError:
        return False


def _misfit(given: Shape, wanted: Shape) -> str | None:
    """Why no value of the one shape is of the other; None if there may be one."""
    # A text may be JSON, which is parsed where a schema wants an object or a list.
    may_be_json = "string" in given.kinds and wanted.kinds & {"object", "array"}
    if not given.kinds or not wanted.kinds or may_be_json:
        return None
    if not replace(given, values=None).never_equals(replace(wanted, values=None)):
        if given.values is None or wanted.values is None or not given.never_equals(wanted):
            return None
        return f"is one of {', '.join(map(str, wanted.values))}, never {', '.join(map(str, given.values))}"
    whose = f" in {given.whose}" if given.whose else ""
    return f"is {wanted.words}, but this gives {given.words}{whose}"
