"""The library's evaluator and parser, with overrides where results differ from JSONata for JavaScript."""

from __future__ import annotations

import copy
import math
import re
from typing import Any, Final, cast

from .arguments import Checked
from .coercion import indices_first, strictly_equal
from .engine import JException, Jsonata, Parser, Utils
from .own_functions import OwnFunctions

_HALF: Final = re.compile("[\ud800-\udfff]")


class Evaluator(Jsonata):
    """Evaluates expressions as npm's ``jsonata`` does."""

    def evaluate_string_concat(self, lhs: Any, rhs: Any) -> str:
        """``&``."""
        return (OwnFunctions.string(lhs, None) or "") + (OwnFunctions.string(rhs, None) or "")

    def evaluate_includes_expression(self, lhs: Any, rhs: Any) -> bool:
        """``in``, by JavaScript's ``===``: in Python, True equals 1, and equal dicts are equal."""
        if lhs is None or rhs is None:
            return False
        entries = cast("list[Any]", rhs) if isinstance(rhs, list) else [rhs]
        return any(strictly_equal(entry, lhs) for entry in entries)

    def evaluate_numeric_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """``+ - * / %``; the library's ``%`` drops fractions, and its ``/`` fails for zero."""
        if op in {"%", "/"} and Utils.is_numeric(lhs) and Utils.is_numeric(rhs):
            if rhs == 0:
                return math.nan if op == "%" or lhs == 0 else math.copysign(math.inf, lhs)
            if op == "%":
                return Utils.convert_number(math.fmod(lhs, rhs))
        return self._other_numeric(lhs, rhs, op)

    def evaluate_group_expression(self, expr: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``{...}``; the library would add an entry to an empty array, which may be part of the input."""
        is_empty = isinstance(input, list) and not input
        groups = self._other_group(expr, Utils.create_sequence(None) if is_empty else input, environment)
        return indices_first(groups)

    def evaluate_filter(self, predicate: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``[...]``; a condition is also evaluated for undefined, as it may hold."""
        if input is None and predicate.type != "number":
            input = Utils.create_sequence(None)  # noqa: A001
        return self._other_filter(predicate, input, environment)

    def evaluate_transform_expression(self, expr: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``|...|``; the library names the function after its own class, and takes ``null`` for undefined."""
        function = self._other_transform(expr, input, environment)
        return Checked(function.function, "transform", function.signature)

    def evaluate_partial_application(self, expr: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``f(?, 1)``; the library does not notice that a ``$`` is missing."""
        procedure = expr.procedure
        if procedure.type == "path" and self.eval(procedure, input, environment) is None:
            name = str(procedure.steps[0].value)
            code = "T1008" if environment.lookup(name) is None else "T1007"
            raise JException(code, expr.position, name)
        return self._other_partial(expr, input, environment)

    _other_filter: Any = Jsonata.evaluate_filter
    _other_numeric: Any = Jsonata.evaluate_numeric_expression
    _other_group: Any = Jsonata.evaluate_group_expression
    _other_partial: Any = Jsonata.evaluate_partial_application
    _other_transform: Any = Jsonata.evaluate_transform_expression


class ExpressionParser(Parser):
    """Parses expressions. Two surrogate escapes, as JSON has them, become one character."""

    def process_ast(self, expr: Any) -> Any:
        """Turns a node of the syntax tree into the node that is evaluated."""
        if expr.type == "string" and _HALF.search(expr.value):
            expr = copy.copy(expr)
            expr.value = expr.value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if expr.type == "condition" and expr.value in {"?:", "??"}:
            # Condition and result are the same node; processing it twice would change it twice.
            expr.then = _copied(expr.then, {})
        return self._other_process(expr)

    _other_process: Any = Parser.process_ast


def _copied(part: Any, copies: dict[int, Any]) -> Any:
    """A deep copy of a part of the syntax tree; a node that occurs twice is copied once."""
    if isinstance(part, list):
        return [_copied(inner, copies) for inner in cast("list[Any]", part)]
    if not isinstance(part, Parser.Symbol):
        return part
    number = id(part)
    if number not in copies:
        copied: Any = copy.copy(part)
        copies[number] = copied
        members: dict[str, Any] = copied.__dict__
        members.update({name: _copied(inner, copies) for name, inner in members.items()})
    return copies[number]
