"""What a rule of JSON Logic always gives, and what its paths never find, as far as that is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from .javascript import loosely_equal, strictly_equal, truthy
from .json_logic import ARRAY_LOOPS, is_jsonata
from .shapes import ANY, Others, Shape, constant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


class Lost(NamedTuple):
    """A path that finds nothing: where it stands in the rule, why, and what to write instead."""

    place: tuple[str | int, ...]
    why: str
    fix: str | None


def lost_paths(
    rule: Any,
    entry: Shape | None,
    shape_of: Callable[[Any], Shape],
    place: tuple[str | int, ...] = (),
) -> Iterator[Lost]:
    """The paths of a rule, as ``{var: qty}``, that what they look in does not have.

    Args:
        rule: The rule, or a part of it.
        entry: What paths look in; None where a ``var`` is JSONata, which others check.
        shape_of: Gives the shape of what JSONata in a ``var`` looks up.
        place: Where the part stands in the rule.
    """
    if isinstance(rule, list):
        for index, part in enumerate(cast("list[Any]", rule)):
            yield from lost_paths(part, entry, shape_of, (*place, index))
        return
    if not isinstance(rule, dict):
        return
    for operator, value in cast("dict[str, Any]", rule).items():
        inside = (*place, operator)
        if operator == "var":
            if entry is not None and isinstance(value, str) and not is_jsonata(value):
                lost = _followed(value, entry)[1]
                yield from [] if lost is None else [Lost(inside, *lost)]
        elif operator in ARRAY_LOOPS and isinstance(value, list) and value:
            first, *rest = cast("list[Any]", value)
            yield from lost_paths(first, entry, shape_of, (*inside, 0))
            each = _looked_up(first, entry, shape_of).one()
            if operator == "reduce":
                given = {"current": each, "accumulator": ANY}
                each = Shape(kinds=frozenset({"object"}), fields=given, others=Others.NONE)
            for index, part in enumerate(rest, 1):
                yield from lost_paths(part, each, shape_of, (*inside, index))
        else:
            yield from lost_paths(value, entry, shape_of, inside)


def _looked_up(part: Any, entry: Shape | None, shape_of: Callable[[Any], Shape]) -> Shape:
    if not isinstance(part, dict) or list(cast("dict[str, Any]", part)) != ["var"]:
        return ANY
    var = cast("dict[str, Any]", part)["var"]
    if entry is not None and isinstance(var, str) and not is_jsonata(var):
        return _followed(var, entry)[0]
    return shape_of(var)


def _followed(path: str, shape: Shape) -> tuple[Shape, tuple[str, str | None] | None]:
    """What a path finds, and why it finds nothing."""
    seen = ""
    for name in path.split(".") if path else ():
        if shape.may_be_list or not shape.kinds <= {"object"}:
            if name.isdecimal():
                shape = shape.one()
                continue
            return ANY, None  # lists and texts have a length, and what else may be there is not known
        lost = shape.missing(name, seen)
        if lost is not None:
            return ANY, lost
        seen = f"{seen}.{name}" if seen else name
        shape = shape.fields.get(name, ANY)
    return shape, None


def _operand(part: Any, shape_of: Callable[[Any], Shape]) -> Shape:
    if not isinstance(part, dict | list):
        return constant(part)
    if isinstance(part, dict) and list(cast("dict[str, Any]", part)) == ["var"]:
        return shape_of(cast("dict[str, Any]", part)["var"])
    return ANY


def _may_equal(operands: list[Any], shape_of: Callable[[Any], Shape], *, is_strict: bool) -> bool:
    if None in operands:
        return True  # what a path looks up may be missing, which is null here
    left, right = (_operand(operand, shape_of) for operand in operands)
    if left.values is None or right.values is None:
        # For == texts may look like numbers.
        return not (is_strict and left.kinds and right.kinds and left.never_equals(right))
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
