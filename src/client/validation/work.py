"""Estimates the work of validating: the reference graph, and a bound on the validator's steps.

If a definition refers twice to the next one, which again refers twice to the next, and so on, a small schema
takes forever to validate. This module counts how often each subschema applies at each place of a value,
without applying it, in time proportional to schema and value. An application of a subschema is called a look.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast
from urllib.parse import unquote, urljoin

from ..json_pointer import at_pointer
from ..protocol.jsonrpc import as_object

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SAME_PLACE: Final = ("not", "if", "then", "else")
_MAPS_SAME_PLACE: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_OF_OBJECTS: Final = ("additionalProperties", "unevaluatedProperties")
_OF_ARRAYS: Final = ("items", "contains", "additionalItems", "unevaluatedItems")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions")
_LOOKS_PER_VALUE: Final = 200
_LARGEST_VALUE: Final = 50  # the limit for large values, as a multiple of `most_work`
_COUNTED_PER_LOOK: Final = 10  # finding the subschemas of a child is cheaper than a look
# The validator recurses for each subschema that applies at a place because of another one, and for the parts
# of the value. A longer chain could overflow the stack of a thread, which ends the process.
_LONGEST_CHAIN: Final = 300
_DEEPEST: Final = 1000
_NAMES_PER_LOOK: Final = 8
# Patterns that need backtracking, whose time grows with the square of a text's length.
_BACKTRACKS: Final = re.compile(r"\(\?[=!<>(]|\\[1-9kgK]|[*+?}]\+")
_LOOKS_PER_SEARCH: Final = 250
_CHARACTERS_PER_LOOK: Final = 100
_META: Final = "json-schema.org/"

_Node = dict[str, Any]


class SchemaGraph:
    """The graph of subschemas and their references.

    Args:
        schema: The schema, whose depth is already checked.
        most_work: Allowed looks, in addition to a fixed number for each part of a value.

    Raises:
        ValueError: A reference leads out of the schema; the message names it.
        LookupError: A reference leads nowhere; the message names it.
    """

    def __init__(self, schema: _Node | bool, most_work: int) -> None:
        self.most_work = most_work
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
        self._weights = [_weight(node) for node in self._nodes]
        self._searches = {n for n, node in enumerate(self._nodes) if _is_slow(node.get("pattern"))}
        self._name_searches = {
            n
            for n, node in enumerate(self._nodes)
            if any(map(_is_slow, as_object(node.get("patternProperties"))))
        }
        # Without these keywords a subschema applies at most once to each part of a value.
        self._is_simple = not (
            self._searches
            or self._name_searches
            or any(key in node for node in self._nodes for key in (*_REFERENCES, *_UNEVALUATED))
        )

    @property
    def patterns(self) -> int:
        """The number of regular expressions."""
        return sum(
            ("pattern" in node) + len(as_object(node.get("patternProperties"))) for node in self._nodes
        )

    def looks(self, value: Any, parts: int) -> int | None:
        """The estimated steps of checking a value of that many parts; None if there are too many."""
        most = min(self.most_work + parts * _LOOKS_PER_VALUE, self.most_work * _LARGEST_VALUE)
        everywhere = parts * sum(self._weights)
        if self._is_simple and (everywhere <= most or sum(self._weights) <= _LOOKS_PER_VALUE):
            return everywhere
        looks = 0
        stack: list[tuple[Any, Counter[int], int]] = [(value, Counter({0: 1}), 0)]
        while stack:
            part, applied, depth = stack.pop()
            closed, chain = self._closure(applied)
            looks += sum(times * self._effort(number, part) for number, times in closed.items())
            if isinstance(part, dict | list):
                looks += len(closed) * len(cast("list[Any]", part)) // _COUNTED_PER_LOOK
            if looks > most or depth + chain > _DEEPEST:
                return None
            stack.extend((child, own, depth + chain) for child, own in self._children(part, closed))
        return looks

    def _effort(self, number: int, part: Any) -> int:
        """The looks of one subschema at one part of a value."""
        effort = self._weights[number]
        if isinstance(part, str) and number in self._searches:
            effort += _search(part)
        elif isinstance(part, dict) and number in self._name_searches:
            effort += sum(map(_search, cast("dict[str, Any]", part)))
        return effort

    def _closure(self, applied: Counter[int]) -> tuple[Counter[int], int]:
        """All subschemas that apply at a place because of the given ones, with their counts.

        Returns:
            The subschemas, and the length of the longest chain of calls.
        """
        total = Counter(applied)
        frontier = applied
        chain = 1
        for level in range(1, _LONGEST_CHAIN):
            following: Counter[int] = Counter()
            for number, times in frontier.items():
                for target, edges in self._same_place[number].items():
                    following[target] += times * edges
            if not following:
                return total, chain
            if following.keys() - total.keys():
                chain = level + 1
            total.update(following)
            if sum(total.values()) > 1 << 40:
                break
            frontier = following
        # The validator ends a reference that returns to itself at the same place.
        limited = Counter({number: min(times, 1 << 20) for number, times in total.items()})
        return limited, _DEEPEST + 1 if chain == _LONGEST_CHAIN else chain

    def _children(self, part: Any, closed: Counter[int]) -> Iterator[tuple[Any, Counter[int]]]:
        if isinstance(part, dict):
            of_names = self._sum(closed, _for_names)
            for name, child in cast("dict[str, Any]", part).items():
                if of_names:
                    yield name, of_names
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
        """Numbers all subschemas, and notes the names by which references may find them."""
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
            if isinstance(identifier, str) and identifier.startswith("#"):
                self._targets.setdefault(base + identifier, number)  # an anchor, until draft-07
            elif isinstance(identifier, str):
                base = urljoin(base, identifier).rstrip("#")
                self._targets.setdefault(base, number)
            self._bases.append(base)
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(key), str):
                    self._targets.setdefault(f"{base}#{node[key]}", number)
            stack.extend((child, base) for child in _subschemas(node))
        self._targets.setdefault("", 0)

    def _direct(self, number: int) -> Counter[int]:
        """The subschemas that this subschema applies at the same place, with their counts."""
        node = self._nodes[number]
        counts: Counter[int] = Counter()
        # For unevaluated properties and items the validator evaluates all other keywords a second time.
        times = 2 if any(key in node for key in _UNEVALUATED) else 1
        for child in _at_same_place(node):
            target = self._index.get(id(child))
            if target is not None:
                counts[target] += times
        for key in _REFERENCES:
            reference = node.get(key)
            if (
                isinstance(reference, str)
                and (target := self._resolve(reference, self._bases[number])) is not None
            ):
                counts[target] += times
        return counts

    def _resolve(self, reference: str, base: str) -> int | None:
        """The number of the referenced subschema; None for the meta-schemas of dialects."""
        full = urljoin(base, reference) if not reference.startswith("#") else base + reference
        resource, _, fragment = full.partition("#")
        if full in self._targets:
            return self._targets[full]
        if resource in self._targets and (not fragment or fragment.startswith("/")):
            part = at_pointer(self._nodes[self._targets[resource]], unquote(fragment))
            if isinstance(part, dict):
                node = cast("_Node", part)
                self._collect(node, resource)  # the target may stand at a place that is no keyword's
                return self._index[id(node)]
        if resource.split("://", 1)[-1].startswith(_META):
            return None  # known to the validator
        if resource and resource not in self._targets:
            raise ValueError(f"it refers to another document ({reference[:200]}), which is never fetched")
        raise LookupError(f"it refers to something that is not there ({reference[:200]})")


def _weight(node: _Node) -> int:
    """The looks of a subschema by itself, which grow with its required names and its enumerated values."""
    options, names = node.get("enum"), node.get("required")
    weight = 1
    if isinstance(options, list):
        weight += sum(isinstance(option, dict | list) for option in cast("list[Any]", options))
    if isinstance(names, list):
        weight += len(cast("list[Any]", names)) // _NAMES_PER_LOOK
    return weight


def _is_slow(pattern: object) -> bool:
    return isinstance(pattern, str) and _BACKTRACKS.search(pattern) is not None


def _search(text: str) -> int:
    return _LOOKS_PER_SEARCH + (len(text) // _CHARACTERS_PER_LOOK) ** 2


def count_parts(value: Any) -> int:
    """The parts of a value, itself included."""
    count = 0
    stack = [value]
    while stack:
        part = stack.pop()
        count += 1
        if isinstance(part, dict):
            stack.extend(cast("dict[str, Any]", part).values())
        elif isinstance(part, list):
            stack.extend(cast("list[Any]", part))
    return count


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


def _for_names(node: _Node) -> Iterable[Any]:
    if "propertyNames" in node:
        yield node["propertyNames"]


def _for_items(node: _Node) -> Iterable[Any]:
    for key in _OF_ARRAYS:
        if isinstance(node.get(key), dict):
            yield node[key]


def _for_position(node: _Node, position: int) -> Iterable[Any]:
    for key in ("prefixItems", "items"):
        entries = node.get(key)
        if isinstance(entries, list) and position < len(cast("list[Any]", entries)):
            yield entries[position]
