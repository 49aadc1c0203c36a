"""Checks every expression of a document before anything runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from ...yaml_text import did_you_mean, kind_of
from ..expressions import check_jsonata, unset_variables
from ..expressions.json_logic import OPERATORS, wrong_var
from ..expressions.jsonata import FUNCTIONS
from ..nodes import Expression, ForEachNode, McpNode, SwitchNode, ToolNode, TransformNode

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...yaml_text import Findings, Position
    from ..nodes import Node, Template


_HISTORY_FUNCTIONS: Final = frozenset({"previousNode", "executionCount", "nodeExecution", "nodeExecutions"})
_RULE_VARIABLES: Final = frozenset({"item", "current", "accumulator"})
_STRINGS: Final = re.compile(r""" "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' """, re.VERBOSE | re.DOTALL)
_OTHER_LANGUAGES: Final = (
    (re.compile("==|!=="), "JSONata compares with = and !="),
    (re.compile("&&"), "JSONata has 'and' instead of &&"),
    (re.compile(r"\|\|"), "JSONata has 'or' instead of ||"),
    (re.compile("!(?!=)"), "JSONata has $not(...) instead of !"),
    (re.compile("=>"), "JSONata's functions are written function($x) { ... }"),
    (re.compile(r"\{\{"), "Write the expression without {{ and }}"),
)


def check_expressions(findings: Findings, node: Node, ids: Collection[str]) -> None:
    """Checks the expressions of a node.

    Args:
        findings: Collects the problems.
        node: Any node.
        ids: The ids of the tool's nodes.
    """  # @NodeTypeDispatch
    checks = _Checks(findings, node.id, ids)
    match node:
        case TransformNode():
            checks.jsonata(node.expression, "transform expression")
        case ForEachNode():
            checks.jsonata(node.items, "items")
        case McpNode() | ToolNode():
            checks.template(node.args, "args")
        case SwitchNode():
            for number, condition in enumerate(node.conditions, 1):
                if not condition.always:
                    checks.rule(condition.rule, number, condition.position)
        case _:
            pass


class _Checks:
    def __init__(self, findings: Findings, node: str, ids: Collection[str]) -> None:
        self._findings = findings
        self._node = f'Node "{node}"'
        self._ids = ids

    def jsonata(self, expression: Expression, where: str) -> None:
        """Checks one expression."""
        path = expression.position.path if expression.position is not None else ()
        problem = check_jsonata(expression.text)
        if problem is not None:
            message = f"{self._node}: Invalid JSONata syntax in {where}: {problem}"
            self._findings.error(message, path, _from_other_language(expression.text))
        self._variables(expression.text, path, _HISTORY_FUNCTIONS)

    def _variables(self, text: str, path: tuple[str | int, ...], known: frozenset[str]) -> None:
        for name in unset_variables(text):
            if name in known:
                continue
            if name in self._ids:
                fix = f"The output of the node '{name}' is written without $"
            else:
                fix = did_you_mean(name, (*FUNCTIONS, *known))
            message = f"{self._node}: JSONata has no '${name}', and the expression does not set it"
            self._findings.warn(message, path, fix)

    def template(self, template: Template, where: str) -> None:
        """Checks all expressions among arguments."""
        match template:
            case Expression():
                is_marked = template.position is not None and template.position.path[-1:] == ("expr",)
                self.jsonata(template, f"{where}.expr" if is_marked else where)
            case dict():
                for name, value in cast("dict[str, Any]", template).items():
                    self.template(value, f"{where}.{name}")
            case list():
                for index, value in enumerate(cast("list[Any]", template)):
                    self.template(value, f"{where}[{index}]")
            case _:
                pass

    def rule(self, rule: Any, number: int, position: Position | None) -> None:
        """Checks a rule of JSON Logic.

        As in the reference, a ``var`` that does not begin with ``$`` fails only when it is used.
        """
        self._part(rule, f"condition {number}", position.path if position is not None else ())

    def _part(self, rule: Any, where: str, path: tuple[str | int, ...]) -> None:
        if isinstance(rule, list):
            for index, part in enumerate(cast("list[Any]", rule)):
                self._part(part, where, (*path, index))
        if not isinstance(rule, dict):
            return
        parts = cast("dict[str, Any]", rule)
        if list(parts) == ["var"]:
            self._var(parts["var"], where, (*path, "var"))
            return
        if len(parts) == 1:
            (name,) = parts
            if name not in OPERATORS:
                fix = did_you_mean(name, OPERATORS) or "See https://jsonlogic.com/operations.html"
                message = f"{self._node}: JSON Logic has no operator '{name}' ({where})"
                self._findings.warn(f"{message}; a run fails here", (*path, name), fix)
        for name, value in parts.items():
            self._part(value, where, (*path, name))

    def _var(self, value: Any, where: str, path: tuple[str | int, ...]) -> None:
        prefix = f"Invalid JSON Logic syntax in {where}"
        if (wrong := wrong_var(value)) is not None:
            fix = f"It takes one JSONata expression, not {kind_of(value)}"
            self._findings.error(f"{self._node}: {prefix}: {wrong}", path, fix)
            return
        problem = check_jsonata(value)
        if problem is None:
            self._variables(value, path, _HISTORY_FUNCTIONS | _RULE_VARIABLES)
            return
        text = f'{self._node}: {prefix}: Invalid JSONata in JSON Logic var operation "{value}": {problem}'
        if value.startswith("$"):
            self._findings.error(text, path)
        else:
            self._findings.warn(text, path, "A run fails here")


def _from_other_language(text: str) -> str | None:
    """What JSONata writes instead of an operator of another language in an expression."""
    code = _STRINGS.sub("''", text)
    return next((fix for pattern, fix in _OTHER_LANGUAGES if pattern.search(code)), None)
