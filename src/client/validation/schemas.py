"""Checks values against servers' JSON Schemas, which cannot make the validator hang or fetch.

A schema is untrusted text. Its size and depth are limited before compiling; references to other documents are
refused, never fetched (https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage).

Recursive schemas work. If a definition refers twice to the next one, which again refers twice to the next,
and so on, a small schema takes forever to validate. So `SchemaGraph` counts how often each subschema applies
at each place of a value, without applying it, in time proportional to schema and value, and values that would
take too many steps are not checked. An application of a subschema is called a look.

A tool may be called even if its schema is malformed or too large for these limits: its arguments are not
checked then, and `CompiledSchema.fault` says why.
"""

import functools
import itertools
import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urljoin

from ...system import in_forked_children
from ...types.errors import ProtocolError, ResultInvalid
from ...types.texts import at_pointer
from ..limits import Limits
from ..protocol.messages import as_list, as_object, is_deeper
from ..protocol.tools import ToolDefinition
from .problems import describe_problems, wanted_types

if TYPE_CHECKING:
    import jsonschema_rs

# Locks of the texts that are being compiled: calls in flight would each compile the schema of their tool.
_compiling: Final[dict[str, threading.Lock]] = {}
in_forked_children(_compiling.clear)  # the threads that hold them are not there
_BACKTRACKS: Final = 10_000
_PATTERN_BYTES: Final = 1 << 20
_ALL_PATTERN_BYTES: Final = 32 << 20
_REPORTED: Final = 20
_LISTED: Final = 30_000  # errors, of some 2 kB each
_COPIED: Final = 100_000_000
_NEWEST: Final = "Draft202012Validator"
# By the path of `$schema`, as some servers write https for http, or http for https.
_DIALECTS: Final = {
    "schema": _NEWEST,
    "draft/2020-12/schema": _NEWEST,
    "draft/2019-09/schema": "Draft201909Validator",
    "draft-07/schema": "Draft7Validator",
    "draft-06/schema": "Draft6Validator",
    "draft-04/schema": "Draft4Validator",
}
_DIALECT: Final = re.compile(r"https?://json-schema\.org/(.+?)/?#?", re.IGNORECASE)
_UNSAID: Final = (_NEWEST, "Draft7Validator", "Draft4Validator")
_MASK: Final = "the value"
_LONGEST_EXCERPT: Final = 200
_logger = logging.getLogger(__name__)
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SAME_PLACE: Final = ("not", "if", "then", "else")
_MAPS_SAME_PLACE: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_OF_OBJECTS: Final = ("additionalProperties", "unevaluatedProperties")
_OF_ARRAYS: Final = ("items", "contains", "additionalItems", "unevaluatedItems")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions")
_DATA: Final = frozenset({"default", "enum", "const", "examples", "example"})
_LOOKS_PER_VALUE: Final = 200
_LARGEST_VALUE: Final = 50  # the limit for large values, as a multiple of `most_work`
_COUNTED_PER_LOOK: Final = 10  # finding the subschemas of a child is cheaper than a look
# The validator recurses for each subschema that applies at a place because of another one, and for the parts
# of the value. A longer chain could overflow the stack of a thread, which ends the process.
_LONGEST_CHAIN: Final = 300
_DEEPEST: Final = 1000
_NAMES_PER_LOOK: Final = 8
# Patterns that need backtracking, whose time grows with the square of a text's length.
_BACKTRACKING: Final = re.compile(r"\(\?[=!<>(]|\\[1-9kgK]|[*+?}]\+")
_LOOKS_PER_SEARCH: Final = 250
_CHARACTERS_PER_LOOK: Final = 100
_Node = dict[str, Any]


@dataclass(eq=False)
class CompiledSchema:
    """A schema that values can be checked against; with a `fault`, which says why not, every value passes."""

    schema: dict[str, Any] | bool
    checks: "tuple[jsonschema_rs.Validator, SchemaGraph] | None"
    fault: str | None = None

    @functools.cached_property
    def as_meant(self) -> "CompiledSchema":
        """The schema as its server means it, see `as_meant`; the same object if there is no difference."""
        # With all that servers mean first; if the changed schema has references into `oneOf`, without that
        # part of it.
        for overlapping in (True, False):
            schema = as_meant(self.schema, overlapping=overlapping)
            if self.checks is None or schema == self.schema:
                return self
            compiled = _build(schema, self.checks[1].most_work)
            if not isinstance(compiled, str) and compiled.fault is None:
                return compiled
        return self

    def is_valid(self, value: Any) -> bool:
        """Raises `ValueError` if checking would go too deep or take too long, or a text is not Unicode."""
        if self.checks is None:
            return True
        validator, graph = self.checks
        if graph.looks(value, count_parts(value)) is None:
            raise ValueError("checking it against this schema would take too long")
        return validator.is_valid(value)

    def problems(self, value: Any) -> "list[jsonschema_rs.ValidationError]":
        import jsonschema_rs

        if self.checks is None:
            return []
        validator, graph = self.checks
        parts = count_parts(value)
        looks = graph.looks(value, parts)
        if looks is not None and looks + parts * graph.required <= _LISTED and looks * parts <= _COPIED:
            return list(itertools.islice(validator.iter_errors(value), _REPORTED))
        # `iter_errors` makes all errors first, each with a copy of its value: too much memory here.
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def subschema(self, path: list[str | int]) -> dict[str, Any]:
        """The subschema at a path of the schema; empty if there is none."""
        node: Any = self.schema
        for step in path:
            try:
                node = node[step]
            except (LookupError, TypeError):
                return {}
        return as_object(node)


def compile_schema(schema_json: str, limits: Limits) -> CompiledSchema:
    """Compiles a schema, once per distinct text; 2020-12 unless ``$schema`` says otherwise.

    Raises `ProtocolError` if the text is not a schema, has an unknown dialect, or refers to another document.
    """
    bounds = limits.schema_bytes, limits.schema_depth, limits.schema_expansion
    try:
        with _compiling.setdefault(schema_json, threading.Lock()):
            compiled = _compile(schema_json, *bounds)
    finally:
        _compiling.pop(schema_json, None)  # what it made is in the cache by now
    if isinstance(compiled, str):
        raise ProtocolError(
            f"The tool's schema cannot be used: {compiled}", fix="Ask whoever runs the server to change it"
        )
    return compiled


@functools.lru_cache(maxsize=512)
def _compile(text: str, most_bytes: int, most_depth: int, most_work: int) -> CompiledSchema | str:
    """Compiles a schema, or returns the reason why that is not possible."""
    if len(text) > most_bytes:
        return CompiledSchema({}, None, f"it is longer than {most_bytes} characters")
    try:
        schema: Any = json.loads(text) if text.strip() else {}
    except RecursionError:
        return CompiledSchema({}, None, "it is nested too deeply")
    except ValueError as error:
        return f"it is not JSON ({error})"
    if not isinstance(schema, dict | bool):
        return "it is neither an object nor a boolean"
    typed = cast("dict[str, Any] | bool", schema)
    if is_deeper(typed, most_depth):
        return CompiledSchema({}, None, f"it is nested more than {most_depth} levels deep")
    return _build(typed, most_work)


def _build(schema: dict[str, Any] | bool, most_work: int) -> CompiledSchema | str:
    import jsonschema_rs  # imported here, as it takes 15 ms that listing tools does not need

    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    names = _UNSAID
    if dialect is not None:
        match = _DIALECT.fullmatch(str(dialect))
        name = _DIALECTS.get(match[1].lower()) if match else None
        if name is None:
            return f"its dialect '{str(dialect)[:200]}' is not supported"
        names = (name,)
    try:
        graph = SchemaGraph(schema, most_work)
    except LookupError as error:
        return CompiledSchema({}, None, str(error))
    except ValueError as error:
        return str(error)
    faults: list[str] = []
    # Without `$schema` the newest dialect counts; what is no valid schema there (such as draft-04's boolean
    # `exclusiveMinimum`) may be one of an older dialect.
    for name in names:
        make: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, name)
        try:
            validator = make(
                schema,
                offline=True,
                mask=_MASK,
                validate_formats=False,  # optional since 2019-09, and different in every library
                pattern_options=jsonschema_rs.FancyRegexOptions(
                    backtrack_limit=_BACKTRACKS,
                    size_limit=min(_PATTERN_BYTES, _ALL_PATTERN_BYTES // max(1, graph.patterns)),
                ),
            )
        except (jsonschema_rs.ReferencingError, ValueError) as error:
            faults.append(_unusable(error))
        else:
            return CompiledSchema(schema, (validator, graph))
    return CompiledSchema({}, None, faults[0])


def _unusable(error: Exception) -> str:
    """The reason why a schema is not valid, with the place."""
    import jsonschema_rs

    if not isinstance(error, jsonschema_rs.ValidationError):
        return str(error)
    where = "/".join(str(step) for step in error.instance_path) or "its root"
    excerpt = json.dumps(error.instance, ensure_ascii=False, default=str)[:_LONGEST_EXCERPT]
    return f"{error.message.replace(_MASK, excerpt)} at {where}"


def as_meant(schema: Any, *, overlapping: bool) -> Any:
    """A schema of bounded depth as its server means it, which may be less strict than what it wrote.

    Some libraries (zod, by default) declare properties with a default as required, although the server fills
    them in. OpenAPI's ``nullable`` has no meaning in JSON Schema, and its ``oneOf`` is used for alternatives
    that overlap. Servers accept such arguments, and clients that do not check send them. With `overlapping`,
    ``oneOf`` becomes ``anyOf``; references into it then lead nowhere.
    """
    if isinstance(schema, list):
        return [as_meant(part, overlapping=overlapping) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    node: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key in (*_MAPS, "dependentSchemas") and isinstance(value, dict):
            parts = cast("dict[str, Any]", value).items()
            node[key] = {name: as_meant(part, overlapping=overlapping) for name, part in parts}
        else:
            node[key] = value if key in _DATA else as_meant(value, overlapping=overlapping)
    _require_less(node)
    if overlapping and "oneOf" in node and "anyOf" not in node:
        node["anyOf"] = node.pop("oneOf")
    if node.get("nullable") is not True:
        return node
    if "$ref" in node or "allOf" in node:
        return {"anyOf": [node, {"type": "null"}]}
    _take_null(node)
    return node


def _require_less(node: dict[str, Any]) -> None:
    required, properties = node.get("required"), node.get("properties")
    if not (isinstance(required, list) and isinstance(properties, dict)):
        return
    parts = cast("dict[str, Any]", properties)
    defaulted = {name for name, part in parts.items() if isinstance(part, dict) and "default" in part}
    names = cast("list[Any]", required)
    node["required"] = [name for name in names if not (isinstance(name, str) and name in defaulted)]
    if not node["required"]:
        del node["required"]  # draft-04 does not allow an empty list


def _take_null(node: dict[str, Any]) -> None:
    declared, options = node.get("type"), node.get("enum")
    if declared is not None:
        node["type"] = [*(cast("list[str]", declared) if isinstance(declared, list) else [declared]), "null"]
    if isinstance(options, list):
        node["enum"] = [*cast("list[Any]", options), None]
    for word in ("anyOf", "oneOf"):
        if isinstance(node.get(word), list):
            node[word] = [*node[word], {"type": "null"}]


# Why steps are estimated, although regular expressions and the size of a schema are bounded: jsonschema_rs
# has no bound on its own steps. Twenty definitions that refer to the next one twice take 0.1 s, each further
# one doubles that, and fifty of them would take years, in less than 3 kB.
class SchemaGraph:
    """The graph of subschemas and their references.

    Raises `ValueError` for a reference out of the schema, and `LookupError` for one that leads nowhere.
    """

    def __init__(self, schema: _Node | bool, most_work: int) -> None:
        self.most_work = most_work
        self._nodes: list[_Node] = []
        self._index: dict[int, int] = {}
        self._targets: dict[str, int] = {}
        self._bases: list[str] = []
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
    def required(self) -> int:
        """The names that all subschemas together require."""
        return sum(len(as_list(node.get("required"))) for node in self._nodes)

    @property
    def patterns(self) -> int:
        return sum(
            ("pattern" in node) + len(as_object(node.get("patternProperties"))) for node in self._nodes
        )

    def looks(self, value: Any, parts: int) -> int | None:
        """The estimated steps of checking a value of that many parts; None if there are too many."""
        most = min(self.most_work + parts * _LOOKS_PER_VALUE, self.most_work * _LARGEST_VALUE)
        # The quick bound, as if each subschema applied to each part: enough for nearly all schemas.
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
        """All subschemas that apply at a place because of these, with counts; length of the longest chain."""
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
            # Python's integers would go on growing with each doubling;
            # any such count is far beyond the limit.
            if sum(total.values()) > 1 << 40:
                break
            frontier = following
        # The validator ends a reference that returns to itself at the same place.
        limited = Counter({number: min(times, 1 << 20) for number, times in total.items()})
        return limited, _DEEPEST + 1 if chain == _LONGEST_CHAIN else chain

    def _children(self, part: Any, closed: Counter[int]) -> Iterator[tuple[Any, Counter[int]]]:
        if isinstance(part, dict):
            of_names = self._sum(closed, lambda node: [node.get("propertyNames")])
            for name, child in cast("dict[str, Any]", part).items():
                if of_names:
                    yield name, of_names
                yield child, self._sum(closed, functools.partial(_for_property, name=name))
        elif isinstance(part, list):
            shared = self._sum(closed, lambda node: map(node.get, _OF_ARRAYS))
            for position, child in enumerate(cast("list[Any]", part)):
                own = self._sum(closed, functools.partial(_for_position, position=position))
                yield child, shared + own

    def _sum(self, closed: Counter[int], pick: Callable[[_Node], Iterable[Any]]) -> Counter[int]:
        result: Counter[int] = Counter()
        for number, times in closed.items():
            for child in pick(self._nodes[number]):
                # By identity, as equal subschemas at different places are different ones, and hashing a
                # schema takes long.
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
            target = self._resolve(reference, self._bases[number]) if isinstance(reference, str) else None
            if target is not None:
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
        if resource.split("://", 1)[-1].startswith("json-schema.org/"):
            return None  # known to the validator
        if resource and resource not in self._targets:
            raise ValueError(f"it refers to another document ({reference[:200]}), which is never fetched")
        raise LookupError(f"it refers to something that is not there ({reference[:200]})")


def _weight(node: _Node) -> int:
    """The looks of a subschema by itself, which grow with its required names and its enumerated values."""
    containers = sum(isinstance(option, dict | list) for option in as_list(node.get("enum")))
    return 1 + containers + len(as_list(node.get("required"))) // _NAMES_PER_LOOK


def _is_slow(pattern: object) -> bool:
    return isinstance(pattern, str) and _BACKTRACKING.search(pattern) is not None


def _search(text: str) -> int:
    return _LOOKS_PER_SEARCH + (len(text) // _CHARACTERS_PER_LOOK) ** 2


def count_parts(value: Any) -> int:
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
    yield from map(node.get, (*_OF_OBJECTS, *_OF_ARRAYS, "prefixItems", "propertyNames", "contentSchema"))
    for key in _MAPS:
        yield from as_object(node.get(key)).values()


def _at_same_place(node: _Node) -> Iterator[Any]:
    for key in _LISTS:
        yield from as_list(node.get(key))
    yield from map(node.get, _SAME_PLACE)
    for key in _MAPS_SAME_PLACE:
        yield from as_object(node.get(key)).values()


def _for_property(node: _Node, name: str) -> Iterator[Any]:
    properties = as_object(node.get("properties"))
    if name in properties:
        yield properties[name]
    yield from as_object(node.get("patternProperties")).values()
    for key in _OF_OBJECTS:
        if key in node:
            yield node[key]


def _for_position(node: _Node, position: int) -> Iterator[Any]:
    for key in ("prefixItems", "items"):
        entries = as_list(node.get(key))
        if position < len(entries):
            yield entries[position]


# https://modelcontextprotocol.io/specification/2025-11-25/server/tools#output-schema: servers MUST conform,
# clients SHOULD check. Where the schema itself is at fault, nothing is refused.
def check_structured_content(definition: ToolDefinition, value: Any, limits: Limits) -> None:
    """Raises `ResultInvalid` if a structured result violates the tool's output schema."""
    try:
        schema = compile_schema(definition.output_schema_json, limits)
    except ProtocolError as error:
        _logger.warning("results of %s are not checked: %s", definition.name, error.what)
        return
    if schema.fault is not None:
        _logger.warning(
            "results of %s are not checked, because of their schema: %s", definition.name, schema.fault
        )
        return
    try:
        # First as it is written, which nearly always holds; the second schema is compiled only if need be.
        if schema.is_valid(value) or (schema := schema.as_meant).is_valid(value):
            return
    except ValueError as error:
        _logger.warning("a result of %s is not checked: %s", definition.name, error)
        return
    problems = schema.problems(value)
    if all(map(_stands_for_another, problems)):
        return
    pointer, what = describe_problems(schema, problems, whole="the result")
    raise ResultInvalid(
        f"The tool's structured result violates its own output schema: {what}",
        pointer=pointer,
        fix="Tell whoever runs the server, or turn the check of results off",
    )


def _stands_for_another(problem: "jsonschema_rs.ValidationError") -> bool:
    """Returns whether libraries write this value for another one that they cannot express.

    They write null for NaN, which JSON does not have; PHP writes an empty object as an empty list.
    """
    wanted = wanted_types(problem)
    if problem.instance is None:
        return bool(wanted & {"number", "integer"})
    return problem.instance == [] and "object" in wanted
