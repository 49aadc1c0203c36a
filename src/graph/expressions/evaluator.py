"""The library's evaluator, where it counts, writes or changes things in another way than JavaScript's."""

from __future__ import annotations

import copy
import math
import re
from typing import Any, Final, cast

from .coercion import strictly_equal
from .engine import Jsonata, Parser, Utils
from .own_functions import OwnFunctions

_HALF: Final = re.compile("[\ud800-\udfff]")


class Evaluator(Jsonata):
    """Evaluates expressions as npm's ``jsonata`` does."""

    def evaluate_string_concat(self, lhs: Any, rhs: Any) -> str:
        """``&``."""
        return (OwnFunctions.string(lhs, None) or "") + (OwnFunctions.string(rhs, None) or "")

    def evaluate_includes_expression(self, lhs: Any, rhs: Any) -> bool:
        """``in``; Python takes true for one, and objects that look alike for the same."""
        if lhs is None or rhs is None:
            return False
        entries = cast("list[Any]", rhs) if isinstance(rhs, list) else [rhs]
        return any(strictly_equal(entry, lhs) for entry in entries)

    def evaluate_numeric_expression(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """``+ - * / %``; the library's ``%`` drops fractions, and zero cannot divide there."""
        if op in {"%", "/"} and Utils.is_numeric(lhs) and Utils.is_numeric(rhs):
            if rhs == 0:
                return math.nan if op == "%" or lhs == 0 else math.copysign(math.inf, lhs)
            if op == "%":
                return Utils.convert_number(math.fmod(lhs, rhs))
        return self._other_numeric(lhs, rhs, op)

    def evaluate_group_expression(self, expr: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``{...}``; the library puts something into an empty array, which may be a part of the input."""
        is_empty = isinstance(input, list) and not input
        return self._other_group(expr, Utils.create_sequence(None) if is_empty else input, environment)

    def evaluate_filter(self, predicate: Any, input: Any, environment: Any) -> Any:  # noqa: A002
        """``[...]``; what is undefined is an entry, too, for which a condition may hold."""
        if input is None and predicate.type != "number":
            input = Utils.create_sequence(None)  # noqa: A001
        return self._other_filter(predicate, input, environment)

    _other_filter: Any = Jsonata.evaluate_filter
    _other_numeric: Any = Jsonata.evaluate_numeric_expression
    _other_group: Any = Jsonata.evaluate_group_expression


class ExpressionParser(Parser):
    """Reads expressions. A part that stands for two, as before ``?:``, is not negated twice.

    Two escapes that stand for one character, as in JSON, are that character.
    """

    def process_ast(self, expr: Any) -> Any:
        """Turns what was read into what is evaluated."""
        if expr.type == "string" and _HALF.search(expr.value):
            expr = copy.copy(expr)
            expr.value = expr.value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if expr.type == "unary" and str(expr.value) == "-" and expr.expression.type == "number":
            expr = copy.copy(expr)
            expr.expression = copy.copy(expr.expression)
        return self._other_process(expr)

    _other_process: Any = Parser.process_ast
