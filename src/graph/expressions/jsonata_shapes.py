"""The shape of what a JSONata expression gives, and what in it can never work, found without evaluating it.

Only what is certain is reported: names of fields that there are not, operands and arguments of kinds that
always fail, comparisons that never hold. Where nothing is known, nothing is said.
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from ...yaml_text import did_you_mean
from .jsonata import Fault, parsed
from .shapes import ANY, Others, Shape, alike, constant, either, list_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What can never be in an expression, at so many characters from its beginning."""

    message: str
    fix: str | None = None
    offset: int = 0


def shape_of(
    text: str, nodes: Shape, doubts: list[Doubt], *, whose: str, known: Mapping[str, Shape]
) -> Shape:
    """The shape of an expression's value; adds what is wrong in it to `doubts`.

    Args:
        text: The expression. Nothing is known of one with a wrong syntax.
        nodes: What it is evaluated on.
        doubts: Gets what is wrong.
        whose: What the objects that it makes are called, as in ``the output of 'x'``.
        known: Shapes of variables that it does not set itself.
    """
    compiled = parsed(text)
    if isinstance(compiled, Fault):
        return ANY
    inference = _Inference(nodes, doubts, whose)
    return inference.value(compiled.ast, _Place(context=nodes, variables=ChainMap(dict(known)), label=""))


_NUMBER: Final = Shape.of("number")
_TEXT: Final = Shape.of("string")
_TRUTH: Final = Shape.of("boolean")
_OBJECT: Final = Shape.of("object")

#: What functions take and give, by the letters of JSONata's signatures: the kinds of each argument in turn,
#: ``a<n>`` a list of numbers or one of them, ``x`` anything.
SIGNATURES: Final = {
    "sum": ("a<n>", _NUMBER),
    "max": ("a<n>", _NUMBER),
    "min": ("a<n>", _NUMBER),
    "average": ("a<n>", _NUMBER),
    "count": ("x", _NUMBER),
    "string": ("x b", _TEXT),
    "substring": ("s n n", _TEXT),
    "substringBefore": ("s s", _TEXT),
    "substringAfter": ("s s", _TEXT),
    "lowercase": ("s", _TEXT),
    "uppercase": ("s", _TEXT),
    "length": ("s", _NUMBER),
    "trim": ("s", _TEXT),
    "pad": ("s n s", _TEXT),
    "contains": ("s x", _TRUTH),
    "split": ("s x n", list_of(_TEXT)),
    "join": ("a<s> s", _TEXT),
    "replace": ("s x x n", _TEXT),
    "base64encode": ("s", _TEXT),
    "base64decode": ("s", _TEXT),
    "formatNumber": ("n s o", _TEXT),
    "formatBase": ("n n", _TEXT),
    "formatInteger": ("n s", _TEXT),
    "parseInteger": ("s s", _NUMBER),
    "number": ("nsb", _NUMBER),
    "abs": ("n", _NUMBER),
    "floor": ("n", _NUMBER),
    "ceil": ("n", _NUMBER),
    "round": ("n n", _NUMBER),
    "power": ("n n", _NUMBER),
    "sqrt": ("n", _NUMBER),
    "boolean": ("x", _TRUTH),
    "not": ("x", _TRUTH),
    "exists": ("x", _TRUTH),
    "merge": ("a<o>", _OBJECT),
    "type": ("x", _TEXT),
    "now": ("s s", _TEXT),
    "millis": ("", _NUMBER),
    "toMillis": ("s s", _NUMBER),
    "fromMillis": ("n s s", _TEXT),
}
_LETTERS: Final = {"n": "number", "s": "string", "b": "boolean", "o": "object", "a": "array", "l": "null"}
_OF_NODES: Final = frozenset({"executionCount", "nodeExecution", "nodeExecutions", "nodeContent"})
_KEEPING: Final = frozenset({"filter", "sort", "reverse", "distinct", "shuffle"})
_WITH_ENTRIES: Final = frozenset({"map", "filter", "single", "sift"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a part of an expression is evaluated: its context, its variables, and the path that led there."""

    context: Shape
    variables: MutableMapping[str, Shape]
    label: str

    def inside(self, context: Shape, label: str) -> _Place:
        return replace(self, context=context, label=label)


class _Inference:
    def __init__(self, root: Shape, doubts: list[Doubt], whose: str) -> None:
        self._root = root
        self._doubts = doubts
        self._whose = whose
        self._kinds: dict[str, Callable[[Any, _Place], Shape]] = {
            "path": self._path,
            "name": lambda part, place: self._path(_Steps(part), place),
            "string": self._constant,
            "number": self._constant,
            "value": self._constant,
            "variable": lambda part, place: self._variable(str(part.value), place),
            "binary": self._binary,
            "unary": self._unary,
            "function": self._function,
            "lambda": self._lambda,
            "condition": self._condition,
            "block": self._block,
            "bind": self._bind,
            "apply": self._apply,
        }

    def value(self, part: Any, place: _Place) -> Shape:
        infer = self._kinds.get(str(part.type))
        if infer is None:  # its parts have contexts that nothing is known of
            self._parts(part, place.inside(ANY, ""))
            return ANY
        shape = infer(part, place)
        group = getattr(part, "group", None)
        if group is not None:
            self._pairs(group.lhs_object, place.inside(shape.flat(), place.label))
            return _OBJECT
        return shape

    def _parts(self, part: Any, place: _Place) -> None:
        for name in ("procedure", "lhs", "rhs", "expression", "pattern", "update", "delete"):
            if (inner := getattr(part, name, None)) is not None and hasattr(inner, "type"):
                self.value(inner, place)
        for inner in _members(part, "arguments"):
            if inner.type != "operator":
                self.value(inner, place)

    def _doubt(self, part: Any, message: str, fix: str | None = None) -> None:
        self._doubts.append(Doubt(message=message, fix=fix, offset=_offset(part)))

    def _constant(self, part: Any, _place: _Place) -> Shape:
        is_null = part.type == "value" and not isinstance(part.value, bool)
        return constant(None if is_null else part.value)

    def _variable(self, name: str, place: _Place) -> Shape:
        if name == "":
            return place.context
        return self._root if name == "$" else place.variables.get(name, ANY)

    # Paths.

    def _path(self, part: Any, place: _Place) -> Shape:
        shape, label, many = place.context, place.label, False
        is_root = place.context is self._root
        for index, step in enumerate(part.steps):
            # The operators `@`, `#` and `%` bring in contexts of other steps.
            if getattr(step, "focus", None) or getattr(step, "index", None) or getattr(step, "tuple", None):
                return ANY
            if step.type == "name":
                many = many or (bool(label) and shape.may_be_list)
                shape, label = self._field(step, shape, label, is_root=is_root and not label)
            elif step.type == "sort":
                for term in step.terms:
                    self.value(term.expression, place.inside(shape.flat(), label))
            elif step.type == "variable":
                shape = self._variable(str(step.value), place) if index == 0 else ANY
                is_root = is_root and index == 0 and shape is self._root
                label = "" if is_root else f"${step.value}"
            elif index == 0:
                shape, label, is_root = self.value(step, place), "", False
            elif step.type in {"wildcard", "descendant", "parent"}:
                shape, label, is_root, many = ANY, "*", False, True
            else:
                many = many or shape.may_be_list
                shape = self.value(step, place.inside(shape.flat(), label))
                is_root, label = False, ""
            for stage in _members(step, "stages") or _members(step, "predicate"):
                shape, many = self._stage(stage, shape, place.inside(shape.flat(), label), many=many)
        if getattr(part, "keep_singleton_array", False):
            return list_of(shape.flat(), shape.whose)
        return shape.sequence() if many else shape

    def _field(self, step: Any, shape: Shape, label: str, *, is_root: bool) -> tuple[Shape, str]:
        name, found = str(step.value), shape.flat()
        if is_root and name not in found.fields and found.others is Others.NONE:
            message = f"'{name}' is no node of the tool, so there is nothing to find"
            self._doubt(step, message, did_you_mean(name, found.fields))
            return ANY, name
        wrong = found.missing(name, label, outermost=label in self._root.fields)
        if wrong is not None:
            self._doubt(step, *wrong)
        return found.fields.get(name, ANY), f"{label}.{name}" if label else name

    def _stage(self, stage: Any, shape: Shape, place: _Place, *, many: bool) -> tuple[Shape, bool]:
        """``[...]`` after a step: one entry for a number, those for which a condition holds otherwise."""
        if stage.type != "filter":
            return shape, many
        expression = stage.expr
        if expression.type == "number":
            return shape.one(), many
        self.value(expression, place)
        return (shape if many else shape.sequence()), many

    # Operators.

    def _binary(self, part: Any, place: _Place) -> Shape:
        left, right = self.value(part.lhs, place), self.value(part.rhs, place)
        match str(part.value):
            case "+" | "-" | "*" | "/" | "%" as operator:
                for side, shape in ((part.lhs, left), (part.rhs, right)):
                    self._wants(side, shape, "number", f"'{operator}' takes numbers")
                return _NUMBER
            case "&":
                return _TEXT
            case "=" | "!=" as operator:
                if left.never_equals(right):
                    never = "never holds" if operator == "=" else "always holds"
                    self._doubt(
                        part, f"this comparison {never}: {_differ(left, right)}", _values(left, right)
                    )
                    return constant(operator == "!=")
                return _TRUTH
            case "<" | ">" | "<=" | ">=" as operator:
                for side, shape in ((part.lhs, left), (part.rhs, right)):
                    self._wants(side, shape, "number string", f"'{operator}' compares numbers or texts")
                return _TRUTH
            case "in":
                if right.kinds and left.never_equals(right.flat()) and left.kinds:
                    self._doubt(part, f"'in' never holds: {_differ(left, right.flat())}")
                return _TRUTH
            case "and" | "or":
                return _TRUTH
            case "..":
                return list_of(_NUMBER)
            case _:
                return ANY

    def _wants(self, part: Any, shape: Shape, wanted: str, rule: str) -> None:
        kinds = alike(shape.kinds)
        if kinds and not kinds & {*wanted.split(), "array"}:
            whose = f" in {shape.whose}" if shape.whose else ""
            self._doubt(part, f"{rule}; {_named(part)} is {shape.words}{whose}")

    def _unary(self, part: Any, place: _Place) -> Shape:
        match str(part.value):
            case "{":
                return self._pairs(part.lhs_object, place)
            case "[":
                entries = [self.value(entry, place).flat() for entry in part.expressions]
                return list_of(either(*entries) if entries else ANY, self._whose)
            case _:
                self._wants(
                    part.expression, self.value(part.expression, place), "number", "'-' takes a number"
                )
                return _NUMBER

    def _pairs(self, pairs: list[list[Any]], place: _Place) -> Shape:
        """``{...}``: the fields whose names are written; others if one is computed."""
        fields: dict[str, Shape] = {}
        others = Others.NONE
        for key, value in pairs:
            shape = self.value(value, place)
            if key.type == "string":
                fields[str(key.value)] = shape
            else:
                self.value(key, place)
                others = Others.ANY
        return Shape(kinds=_OBJECT.kinds, fields=fields, others=others, whose=self._whose)

    # Functions.

    def _function(self, part: Any, place: _Place) -> Shape:
        arguments: list[Any] = list(part.arguments or [])
        if part.procedure.type != "variable" or str(part.procedure.value) in place.variables:
            self.value(part.procedure, place)
            for argument in arguments:
                self.value(argument, place)
            if str(getattr(part.procedure, "value", "")) in _OF_NODES and arguments:
                self._node_named(arguments[0])
            return ANY
        return self._called(part, str(part.procedure.value), arguments, place, None)

    def _node_named(self, part: Any) -> None:
        nodes = self._root
        if part.type == "string" and nodes.others is Others.NONE and part.value not in nodes.fields:
            message = f"'{part.value}' is no node of the tool, so it has never run"
            self._doubt(part, message, did_you_mean(part.value, nodes.fields))

    def _called(
        self, part: Any, name: str, arguments: list[Any], place: _Place, first: Shape | None
    ) -> Shape:
        """A call of one of JSONata's functions; `first` is what ``~>`` gives it."""
        shapes = [] if first is None else [first]
        for argument in arguments:
            if argument.type == "lambda" and name in _WITH_ENTRIES and shapes:
                self._lambda(argument, place, (shapes[0].flat(),))
            else:
                shapes.append(self.value(argument, place))
        takes, gives = SIGNATURES.get(name, ("", ANY))
        parts = arguments if first is None else [part, *arguments]
        for wanted, argument, shape in zip(takes.split(), parts, shapes, strict=False):
            self._argument(name, wanted, argument, shape)
        if name in _KEEPING and shapes:
            return shapes[0].sequence() if name == "filter" else list_of(shapes[0].flat())
        return gives

    def _argument(self, name: str, wanted: str, part: Any, shape: Shape) -> None:
        if wanted == "x":
            return
        is_list = wanted.startswith("a<")
        letters = wanted[2:-1] if is_list else wanted
        kinds = " ".join(_LETTERS[letter] for letter in letters)
        found = shape.flat() if is_list else shape
        words = f"{'a list of ' if is_list else ''}{kinds.replace(' ', ' or ')}{'s' if is_list else ''}"
        known = alike(found.kinds)
        # A list with one entry may have become the entry.
        if known and not known & {*kinds.split(), *(() if is_list else ("array",))}:
            whose = f" in {found.whose}" if found.whose else ""
            self._doubt(part, f"${name} takes {words}; {_named(part)} is {shape.words or found.words}{whose}")

    def _lambda(self, part: Any, place: _Place, given: tuple[Shape, ...] = ()) -> Shape:
        names = [str(argument.value) for argument in part.arguments]
        shapes = dict.fromkeys(names, ANY) | dict(zip(names, given, strict=False))
        self.value(part.body, replace(place, variables=ChainMap(shapes, dict(place.variables))))
        return ANY

    def _apply(self, part: Any, place: _Place) -> Shape:
        given, function = self.value(part.lhs, place), part.rhs
        if function.type == "function" and function.procedure.type == "variable":
            name, arguments = str(function.procedure.value), list(function.arguments or [])
        elif function.type == "variable":
            name, arguments = str(function.value), []
        else:
            self.value(function, place)
            return ANY
        if name in place.variables or not name:
            for argument in arguments:
                self.value(argument, place)
            return ANY
        # `f ~> g` composes two functions, and `value ~> g` calls one.
        is_function = part.lhs.type in {"apply", "function", "variable"} and not given.kinds
        return self._called(part.lhs, name, arguments, place, ANY if is_function else given)

    # The rest.

    def _condition(self, part: Any, place: _Place) -> Shape:
        condition = self.value(part.condition, place)
        ways = [self.value(part.then, place)]
        if (other := getattr(part, "_else", None)) is not None:
            ways.append(self.value(other, place))
        if condition.values is not None and part.condition.type == "binary":
            return ways[0] if condition.values == (True,) else ways[-1] if len(ways) > 1 else ANY
        return either(*ways)

    def _block(self, part: Any, place: _Place) -> Shape:
        inner = replace(place, variables=ChainMap({}, dict(place.variables)))
        shapes = [self.value(expression, inner) for expression in part.expressions]
        return shapes[-1] if shapes else ANY

    def _bind(self, part: Any, place: _Place) -> Shape:
        name = str(part.lhs.value)
        if part.rhs.type == "lambda":  # it may call itself
            place.variables[name] = ANY
        shape = place.variables[name] = self.value(part.rhs, place)
        return shape


class _Steps:
    """A name alone, as a path with one step."""

    def __init__(self, name: Any) -> None:
        self.steps = [name]


def _members(part: Any, name: str) -> list[Any]:
    return cast("list[Any]", getattr(part, name, None) or [])


def _offset(part: Any) -> int:
    """Where a part begins; the library's positions are at the end of a part's first word."""
    first = (_members(part, "steps") or [part])[0]
    if (left := getattr(first, "lhs", None)) is not None and hasattr(left, "type"):
        return _offset(left)
    end = int(getattr(first, "position", None) or 0)
    length = len(str(first.value)) if first.type in {"name", "variable"} else 1
    return max(end - length, 0)


def _named(part: Any) -> str:
    names = [str(step.value) for step in _members(part, "steps") if step.type in {"name", "variable"}]
    if names:
        return f"'{'.'.join(names)}'"
    return f"'{part.value}'" if part.type in {"string", "number", "value"} else "this"


def _differ(left: Shape, right: Shape) -> str:
    sides = [f"{shape.words}{f' in {shape.whose}' if shape.whose else ''}" for shape in (left, right)]
    if sides[0] == sides[1] or (left.kinds & right.kinds):
        return "there is no such value"
    return f"the one side is {sides[0]}, the other {sides[1]}"


def _values(left: Shape, right: Shape) -> str | None:
    values = max((left.values or (), right.values or ()), key=len)
    return f"There are: {', '.join(map(str, values))}" if len(values) > 1 else None
