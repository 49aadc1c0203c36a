"""How much work a schema makes: the reference graph, and a bound on the looks a validator takes.

Two references to a definition that itself refers twice to another one, and so on, make a small schema that
takes for ever. Counting how often each subschema applies at each place of a value, without applying it, finds
that out in time proportional to schema and value.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast
from urllib.parse import unquote, urljoin

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SAME_PLACE: Final = ("not", "if", "then", "else")
_MAPS_SAME_PLACE: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_OF_OBJECTS: Final = ("additionalProperties", "unevaluatedProperties")
_OF_ARRAYS: Final = ("items", "contains", "additionalItems", "unevaluatedItems")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions")
_LOOKS_PER_VALUE: Final = 200
_META: Final = "json-schema.org/"

_Node = dict[str, Any]


class SchemaGraph:
    """Subschemas and what they refer to.

    Args:
        schema: The schema; its depth has been bounded already.
        most_work: Looks that are affordable beside a fixed number for each part of a value.

    Raises:
        ValueError: A reference leads out of the schema or nowhere; the message says which.
    """

    def __init__(self, schema: _Node | bool, most_work: int) -> None:
        self._most_work = most_work
        self._nodes: list[_Node] = []
        self._index: dict[int, int] = {}
        self._targets: dict[str, int] = {}
        self._bases: list[str] = []
        self._schema = schema
        self._same_place: list[Counter[int]] = []
        if isinstance(schema, dict):
            self._collect(schema, "")
            while len(self._same_place) < len(self._nodes):  # resolving a reference may add nodes
                self._same_place.append(self._direct(len(self._same_place)))
        # Without references a schema is as large as its text, and that is bounded.
        self._is_harmless = not any(key in node for node in self._nodes for key in _REFERENCES)

    def is_affordable(self, value: Any) -> bool:
        """Whether checking this value takes a bearable number of looks."""
        if self._is_harmless:
            return True
        looks = parts = 0
        stack: list[tuple[Any, Counter[int]]] = [(value, Counter({0: 1}))]
        while stack:
            part, applied = stack.pop()
            parts += 1
            closed = self._closure(applied)
            looks += sum(closed.values())
            if looks > self._most_work + parts * _LOOKS_PER_VALUE:
                return False
            stack.extend(self._children(part, closed))
        return True

    def _closure(self, applied: Counter[int]) -> Counter[int]:
        """All subschemas that apply at one place with those given, each as often as it does."""
        total = Counter(applied)
        frontier = applied
        for _ in range(len(self._nodes)):
            following: Counter[int] = Counter()
            for number, times in frontier.items():
                for target, edges in self._same_place[number].items():
                    following[target] += times * edges
            if not following:
                return total
            total.update(following)
            if sum(total.values()) > 1 << 40:
                break
            frontier = following
        # A reference that comes back to itself at the same place is cut short by the validator.
        return Counter({number: min(times, 1 << 20) for number, times in total.items()})

    def _children(self, part: Any, closed: Counter[int]) -> Iterator[tuple[Any, Counter[int]]]:
        if isinstance(part, dict):
            for name, child in cast("dict[str, Any]", part).items():
                yield child, self._sum(closed, functools.partial(_for_property, name=name))
        elif isinstance(part, list):
            shared = self._sum(closed, _for_items)
            for position, child in enumerate(cast("list[Any]", part)):
                own = self._sum(closed, functools.partial(_for_position, position=position))
                yield child, shared + own

    def _sum(self, closed: Counter[int], pick: Callable[[_Node], Iterable[Any]]) -> Counter[int]:
        result: Counter[int] = Counter()
        for number, times in closed.items():
            for child in pick(self._nodes[number]):
                target = self._index.get(id(child))
                if target is not None:
                    result[target] += times
        return result

    def _collect(self, root: _Node, root_base: str) -> None:
        """Number all subschemas, and note what references may call them."""
        stack: list[tuple[Any, str]] = [(root, root_base)]
        while stack:
            current, base = stack.pop()
            if isinstance(current, list):
                stack.extend((child, base) for child in reversed(cast("list[Any]", current)))
                continue
            if not isinstance(current, dict) or id(cast("object", current)) in self._index:
                continue
            node = cast("_Node", current)
            number = len(self._nodes)
            self._index[id(node)] = number
            self._nodes.append(node)
            identifier = node.get("$id", node.get("id"))
            if isinstance(identifier, str) and not identifier.startswith("#"):
                base = urljoin(base, identifier).rstrip("#")
                self._targets.setdefault(base, number)
            self._bases.append(base)
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(key), str):
                    self._targets.setdefault(f"{base}#{node[key]}", number)
            stack.extend((child, base) for child in _subschemas(node))
        self._targets.setdefault("", 0)

    def _direct(self, number: int) -> Counter[int]:
        """What applies at the same place because this subschema does."""
        node = self._nodes[number]
        found: Counter[int] = Counter()
        for child in _at_same_place(node):
            target = self._index.get(id(child))
            if target is not None:
                found[target] += 1
        for key in _REFERENCES:
            reference = node.get(key)
            if (
                isinstance(reference, str)
                and (target := self._resolve(reference, self._bases[number])) is not None
            ):
                found[target] += 1
        return found

    def _resolve(self, reference: str, base: str) -> int | None:
        """Number of the subschema that is referred to; None for the dialects' own meta-schemas."""
        full = urljoin(base, reference) if not reference.startswith("#") else base + reference
        resource, _, fragment = full.partition("#")
        if full in self._targets:
            return self._targets[full]
        if resource in self._targets and (not fragment or fragment.startswith("/")):
            node = _at_pointer(self._nodes[self._targets[resource]], unquote(fragment))
            if node is not None:
                self._collect(node, resource)  # no keyword may have made it a subschema
                return self._index[id(node)]
        if resource.split("://", 1)[-1].startswith(_META):
            return None  # known to the validator
        if resource and resource not in self._targets:
            raise ValueError(f"it refers to another document ({reference[:200]}), which is never fetched")
        raise ValueError(f"it refers to something that is not there ({reference[:200]})")


def _subschemas(node: _Node) -> Iterator[Any]:
    yield from _at_same_place(node)
    for key in (*_OF_OBJECTS, *_OF_ARRAYS, "prefixItems", "propertyNames", "contentSchema"):
        if key in node:
            yield node[key]
    for key in _MAPS:
        if isinstance(node.get(key), dict):
            yield from node[key].values()


def _at_same_place(node: _Node) -> Iterator[Any]:
    for key in _LISTS:
        if isinstance(node.get(key), list):
            yield from node[key]
    for key in _SAME_PLACE:
        if key in node:
            yield node[key]
    for key in _MAPS_SAME_PLACE:
        if isinstance(node.get(key), dict):
            yield from node[key].values()


def _for_property(node: _Node, name: str) -> Iterable[Any]:
    properties = node.get("properties")
    if isinstance(properties, dict) and name in properties:
        yield cast("_Node", properties)[name]
    patterns = node.get("patternProperties")
    if isinstance(patterns, dict):
        yield from cast("_Node", patterns).values()
    for key in _OF_OBJECTS:
        if key in node:
            yield node[key]


def _for_items(node: _Node) -> Iterable[Any]:
    for key in _OF_ARRAYS:
        if isinstance(node.get(key), dict):
            yield node[key]


def _for_position(node: _Node, position: int) -> Iterable[Any]:
    for key in ("prefixItems", "items"):
        entries = node.get(key)
        if isinstance(entries, list) and position < len(cast("list[Any]", entries)):
            yield entries[position]


def _at_pointer(node: _Node, pointer: str) -> _Node | None:
    current: Any = node
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(current, dict):
            current = cast("_Node", current).get(key)
        elif isinstance(current, list) and key.isdigit() and int(key) < len(cast("list[Any]", current)):
            current = cast("list[Any]", current)[int(key)]
        else:
            return None
    return cast("_Node", current) if isinstance(current, dict) else None
