"""What is known of values before a run: their kinds, the fields of objects, all values that there can be.

Everything that a shape says is certain; what it does not say may be anything. Shapes come from JSON Schemas,
from values that were seen, and from expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, cast

from ...client.validation.argument_schemas import items, parts_of, resolve
from ...yaml_text import as_list, as_mapping, did_you_mean
from .javascript import strictly_equal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self


_DEEPEST_LIST: Final = 8
_DEEPEST_SCHEMA: Final = 32
_MOST_VALUES: Final = 100
_LIST: Final = frozenset({"array"})
SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_OTHERS: Final = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf"})


class Others(IntEnum):
    """Whether objects may have fields that a shape does not name."""

    NONE = 0
    UNLIKELY = 1  # allowed, but a name like one of a known field is a mistake
    ANY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    kinds: frozenset[str] = frozenset()
    """The JSON types that there can be; empty if that is not known."""
    fields: Mapping[str, Shape] = field(default_factory=dict[str, "Shape"])
    others: Others = Others.ANY
    entries: Callable[[], Shape] | None = None  # gives the shape of the entries of lists
    values: tuple[Any, ...] | None = None  # all the values that there can be
    whose: str = ""  # where that is known from, as in ``the inputSchema``

    @property
    def of_entries(self) -> Shape:
        return ANY if self.entries is None else self.entries()

    @property
    def may_be_list(self) -> bool:
        return not self.kinds or "array" in self.kinds

    @property
    def words(self) -> str:
        return " or ".join(sorted(self.kinds))

    def flat(self) -> Shape:
        """What JSONata finds in the value: the value itself, or the entries of lists, also of inner ones."""
        found = self
        # A schema may declare lists in lists without end.
        for _ in range(_DEEPEST_LIST):
            if found.entries is None or not found.may_be_list:
                break
            others = replace(found, kinds=found.kinds - {"array"}, entries=None)
            is_list = found.kinds == _LIST
            found = found.entries() if is_list else either(others, found.entries())
        return found

    def one(self) -> Shape:
        """What a number in brackets finds: an entry of a list, or the value itself."""
        return self.of_entries if self.kinds == _LIST else self.flat()

    def sequence(self) -> Shape:
        """What JSONata makes of several such values: one of them, or a list."""
        one = self.flat()
        kinds = one.kinds | {"array"} if one.kinds else one.kinds
        return replace(one, kinds=kinds, entries=lambda: one, values=None)

    def missing(self, name: str, where: str, *, outermost: bool = False) -> tuple[str, str | None] | None:
        """What is wrong with looking up a field in what `flat` gave, and what to write instead."""
        if name in self.fields:
            return None
        known_from = f" in {self.whose}," if self.whose else ","
        if not outermost and not self.fields and self.kinds and self.kinds <= SCALARS:
            return f"'{where or 'this'}' is {self.words}{known_from} which has no field '{name}'", None
        fix = did_you_mean(name, self.fields)
        if self.others is Others.ANY or (self.others is Others.UNLIKELY and fix is None):
            return None
        what = "argument" if outermost and self.whose == INPUT else "field"
        inside = "" if outermost or not where else f" in '{where}'"
        fix = fix or (f"It has: {', '.join(sorted(self.fields))}" if self.fields else None)
        return f"{self.whose or 'the object'} has no {what} '{name}'{inside}", fix

    def never_equals(self, other: Shape) -> bool:
        """Whether no value of the one is a value of the other, by JSONata's ``=``."""
        kinds, others = alike(self.kinds), alike(other.kinds)
        if kinds and others and not kinds & others:
            return True
        if self.values is None or other.values is None:
            return False
        return not any(strictly_equal(a, b) for a in self.values for b in other.values)

    @classmethod
    def of(cls, *kinds: str, whose: str = "") -> Self:
        return cls(kinds=frozenset(kinds), whose=whose)


ANY: Final = Shape()
INPUT: Final = "the inputSchema"


def alike(kinds: frozenset[str]) -> frozenset[str]:
    """The kinds as JSONata tells them apart: all numbers are of one."""
    return frozenset("number" if kind == "integer" else kind for kind in kinds)


def either(*shapes: Shape) -> Shape:
    """The shape of a value that has one of several shapes."""
    if len(shapes) == 1:
        return shapes[0]
    objects = [shape for shape in shapes if not shape.kinds or "object" in shape.kinds]
    names = dict.fromkeys(name for shape in objects for name in shape.fields)
    lists = [shape for shape in shapes if shape.may_be_list]
    values = [value for shape in shapes for value in shape.values or ()]
    return Shape(
        kinds=frozenset[str]().union(*(s.kinds for s in shapes))
        if all(s.kinds for s in shapes)
        else ANY.kinds,
        fields={name: either(*(s.fields[name] for s in objects if name in s.fields)) for name in names},
        others=max((shape.others for shape in objects), default=Others.NONE),
        entries=(lambda: either(*(shape.of_entries for shape in lists))) if lists else None,
        # All or none: with some left out, a comparison that holds would be said never to hold.
        values=tuple(values)
        if len(values) <= _MOST_VALUES and all(s.values is not None for s in shapes)
        else None,
        whose=next((shape.whose for shape in shapes if shape.whose), ""),
    )


def list_of(entry: Shape, whose: str = "") -> Shape:
    return Shape(kinds=frozenset({"array"}), entries=lambda: entry, whose=whose)


def constant(value: Any, whose: str = "") -> Shape:
    """The shape of one known value."""
    return replace(seen(value, whose), values=(value,))


def seen(value: Any, whose: str) -> Shape:
    """What a value that was seen tells of others in its place: their fields, but there may be more."""
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            # Only the names are taken from it: the same field may be null, or a text, the next time.
            fields = {name: replace(seen(v, whose), kinds=ANY.kinds) for name, v in members.items()}
            return Shape(kinds=frozenset({"object"}), fields=fields, others=Others.UNLIKELY, whose=whose)
        case list():
            entries = [seen(entry, whose) for entry in cast("list[Any]", value)[:_MOST_VALUES]]
            return list_of(either(*entries) if entries else ANY, whose)
        case bool():
            return Shape.of("boolean", whose=whose)
        case int() | float():
            return Shape.of("number", whose=whose)
        case str():
            return Shape.of("string", whose=whose)
        case _:
            return Shape.of("null", whose=whose)


def of_schema(schema: Any, whose: str, *, root: Mapping[str, Any] | None = None) -> Shape:
    """The shape of the values that a JSON Schema allows; of arguments if it is `INPUT`."""
    root = as_mapping(schema) if root is None else root
    parts = parts_of(schema, root)
    has_entries = any("items" in part or "prefixItems" in part for part in parts)
    fields = _Fields(parts, whose, root)
    is_closed = any(part.get("additionalProperties") is False for part in parts)
    others = Others.NONE if whose != INPUT or is_closed else Others.UNLIKELY
    if not fields or any(_is_open(part) for part in parts):
        others = Others.ANY
    return Shape(
        kinds=_kinds(schema, root, 0) or ANY.kinds,
        fields=fields,
        others=others,
        entries=(lambda: of_schema(items(schema, root), whose, root=root)) if has_entries else None,
        values=_values(schema, root),
        whose=whose,
    )


class _Fields(Mapping[str, Shape]):
    """The fields that the parts of a schema declare; made when they are asked for, as schemas may recur."""

    def __init__(self, parts: list[dict[str, Any]], whose: str, root: Mapping[str, Any]) -> None:
        self._whose = whose
        self._root = root
        self._declared: dict[str, list[Any]] = {}
        self._made: dict[str, Shape] = {}
        for part in parts:
            for name, schema in as_mapping(part.get("properties")).items():
                self._declared.setdefault(name, []).append(schema)

    def __getitem__(self, name: str) -> Shape:
        if name not in self._made:
            schemas = self._declared[name]
            # Any of several declarations may hold, as they may be of parts of an `anyOf`.
            schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
            self._made[name] = of_schema(schema, self._whose, root=self._root)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


def _kinds(schema: Any, root: Mapping[str, Any], depth: int) -> frozenset[str] | None:
    """The types of all values that a schema allows; None if it does not say."""
    part = resolve(dict(root), schema)
    if depth > _DEEPEST_SCHEMA or not isinstance(schema, dict):
        return None
    declared = part.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if isinstance(declared, list):
        return frozenset(name for name in as_list(declared) if isinstance(name, str)) or None
    for key in ("anyOf", "oneOf"):
        found = [_kinds(inner, root, depth + 1) for inner in as_list(part.get(key))]
        if found and None not in found:
            return frozenset[str]().union(*(kinds for kinds in found if kinds is not None))
    inner = (_kinds(entry, root, depth + 1) for entry in as_list(part.get("allOf")))
    # All of the parts hold, so that what one of them says is certain.
    by_rule = next((kinds for kinds in inner if kinds), None)
    values = _values(schema, root)
    if by_rule is None and values:
        return frozenset[str]().union(*(seen(value, "").kinds for value in values))
    return by_rule


def _values(schema: Any, root: Mapping[str, Any]) -> tuple[Any, ...] | None:
    part = resolve(dict(root), schema)
    if "const" in part:
        return (part["const"],)
    listed = part.get("enum")
    return (
        tuple(as_list(listed)) if isinstance(listed, list) and len(as_list(listed)) <= _MOST_VALUES else None
    )


def _is_open(part: Mapping[str, Any]) -> bool:
    """Whether values may have fields that this part of a schema does not name."""
    if part.get("additionalProperties", False) is not False or "patternProperties" in part:
        return True
    if not str(part.get("$ref", "#")).startswith("#"):
        return True
    if "properties" in part or "required" in part or _OTHERS & part.keys():
        return False
    kinds = _names(part.get("type"))
    return not kinds or not kinds <= SCALARS | {"array"}


def _names(kind: Any) -> set[str]:
    return {name for name in (as_list(kind) or [kind]) if isinstance(name, str)}
