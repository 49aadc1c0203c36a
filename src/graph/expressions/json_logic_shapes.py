"""What a rule of JSON Logic always gives, as far as that is certain before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .javascript import loosely_equal, strictly_equal, truthy
from .shapes import ANY, Shape, constant

if TYPE_CHECKING:
    from collections.abc import Callable


def always(rule: Any, shape_of: Callable[[Any], Shape]) -> tuple[bool, str] | None:
    """Whether a rule always or never holds, and why; None if that depends on the run.

    Args:
        rule: The rule.
        shape_of: Gives the shape of what a ``var`` looks up.
    """
    if not isinstance(rule, dict):
        return None if isinstance(rule, list) else (truthy(rule), "it is a constant")
    parts = cast("dict[str, Any]", rule)
    if len(parts) != 1:
        return None
    ((operator, value),) = parts.items()
    operands = cast("list[Any]", value) if isinstance(value, list) else [value]
    if operator in {"==", "===", "!=", "!=="} and len(operands) == 2:
        if not _may_equal(operands, shape_of, is_strict=len(operator) == 3):
            return operator.startswith("!"), _why(operands, shape_of)
    elif operator == "in" and len(operands) == 2 and isinstance(operands[1], list):
        entries = cast("list[Any]", operands[1])
        if not any(_may_equal([operands[0], entry], shape_of, is_strict=True) for entry in entries):
            return False, _why([operands[0]], shape_of)
    elif operator in {"and", "or"}:
        decides = operator == "or"
        found = [always(operand, shape_of) for operand in operands]
        if (deciding := next((one for one in found if one and one[0] is decides), None)) is not None:
            return deciding
        if found and None not in found:
            return found[-1]
    elif operator in {"!", "!!"} and len(operands) == 1:
        inner = always(operands[0], shape_of)
        return inner and (inner[0] is (operator == "!!"), inner[1])
    return None


def _operand(part: Any, shape_of: Callable[[Any], Shape]) -> Shape:
    if not isinstance(part, dict | list):
        return constant(part)
    if isinstance(part, dict) and list(cast("dict[str, Any]", part)) == ["var"]:
        return shape_of(cast("dict[str, Any]", part)["var"])
    return ANY


def _may_equal(operands: list[Any], shape_of: Callable[[Any], Shape], *, is_strict: bool) -> bool:
    left, right = (_operand(operand, shape_of) for operand in operands)
    if None in operands or left.values is None or right.values is None:
        # What a path looks up may be missing, which is null for ==; texts may look like numbers.
        return not (is_strict and left.kinds and right.kinds and left.never_equals(right)) or None in operands
    equal = strictly_equal if is_strict else loosely_equal
    return any(equal(a, b) for a in left.values for b in right.values)


def _why(operands: list[Any], shape_of: Callable[[Any], Shape]) -> str:
    paths = [cast("dict[str, Any]", operand) for operand in operands if isinstance(operand, dict)]
    if not paths or "var" not in paths[0]:
        return "it compares constants"
    path = paths[0]
    shape = _operand(path, shape_of)
    if shape.values is not None:
        return f"'{path['var']}' is one of {', '.join(map(str, shape.values))} in {shape.whose}"
    return f"'{path['var']}' is {shape.words} in {shape.whose}"
