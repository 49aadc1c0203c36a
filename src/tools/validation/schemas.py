"""JSON Schemas from servers, compiled for validation so that they can neither hang nor fetch.

A schema is text from somebody else. Before it reaches the validator its size, depth and reference structure
are bounded; references to other documents are refused, never fetched
(https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage). Recursion is legal and
works: what is bounded is how often a validator would have to look, for the value at hand.
"""

import functools
import itertools
import json
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.errors import ProtocolError
from ..limits import Limits
from .work import SchemaGraph, count_parts

if TYPE_CHECKING:
    import jsonschema_rs

_CACHED_SCHEMAS: Final = 512
_BACKTRACKS: Final = 10_000
_PATTERN_BYTES: Final = 1 << 20
_ALL_PATTERN_BYTES: Final = 32 << 20
_REPORTED: Final = 20
_LISTED: Final = 100_000
_COPIED: Final = 100_000_000
_DIALECTS: Final = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
_MASK: Final = "the value"
_LONGEST_EXCERPT: Final = 200


class CompiledSchema:
    """A schema that values can be checked against. Get one by `compile_schema`.

    Attributes:
        schema: The schema.
    """

    def __init__(
        self, schema: dict[str, Any] | bool, validator: "jsonschema_rs.Validator", graph: SchemaGraph
    ) -> None:
        self.schema = schema
        self._validator = validator
        self._graph = graph

    def is_valid(self, value: Any) -> bool:
        """Whether the value conforms.

        Raises:
            ValueError: The value cannot be checked: too deep, too much work, or text that is not Unicode.
        """
        if self._graph.looks(value, count_parts(value)) is None:
            raise ValueError("checking it against this schema would take too long")
        return self._validator.is_valid(value)

    def problems(self, value: Any) -> "list[jsonschema_rs.ValidationError]":
        """What is wrong with a value, at most twenty things. Messages never show the value itself."""
        parts = count_parts(value)
        looks = self._graph.looks(value, parts)
        if looks is None or looks > _LISTED or looks * parts > _COPIED:
            # Every look may become an error with a copy of its value, all made before the first one is seen.
            return self._first_problem(value)
        return list(itertools.islice(self._validator.iter_errors(value), _REPORTED))

    def _first_problem(self, value: Any) -> "list[jsonschema_rs.ValidationError]":
        import jsonschema_rs

        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def subschema(self, path: list[str | int]) -> dict[str, Any]:
        """The subschema at a path of the schema; empty if there is none."""
        node: Any = self.schema
        for step in path:
            if isinstance(node, dict) and step in node:
                node = cast("dict[Any, Any]", node)[step]
            elif isinstance(node, list) and isinstance(step, int) and step < len(cast("list[Any]", node)):
                node = cast("list[Any]", node)[step]
            else:
                return {}
        return cast("dict[str, Any]", node) if isinstance(node, dict) else {}


def compile_schema(schema_json: str, limits: Limits) -> CompiledSchema:
    """Compile a schema, once per distinct text.

    Args:
        schema_json: JSON text of a schema, 2020-12 unless ``$schema`` says otherwise.
        limits: Bounds of size, depth and work.

    Raises:
        ProtocolError: The schema is too large or deep, of an unknown dialect, refers to another document, or
            is not a valid schema.
    """
    compiled = _compile(schema_json, limits.schema_bytes, limits.schema_depth, limits.schema_expansion)
    if isinstance(compiled, str):
        raise ProtocolError(
            f"The tool's schema cannot be used: {compiled}",
            fix="Ask whoever runs the server, or call the tool without checking",
        )
    return compiled


@functools.lru_cache(maxsize=_CACHED_SCHEMAS)
def _compile(text: str, most_bytes: int, most_depth: int, most_work: int) -> CompiledSchema | str:
    """The compiled schema, or why there is none."""
    if len(text) > most_bytes:
        return f"it is longer than {most_bytes} characters"
    try:
        schema: Any = json.loads(text) if text.strip() else {}
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return f"it is not JSON ({error})"
    if not isinstance(schema, dict | bool):
        return "it is neither an object nor a boolean"
    typed = cast("dict[str, Any] | bool", schema)
    if _depth(typed) > most_depth:
        return f"it is nested more than {most_depth} levels deep"
    return _build(typed, most_work)


def _build(schema: dict[str, Any] | bool, most_work: int) -> CompiledSchema | str:
    import jsonschema_rs  # only here: 15 ms that listing tools does not need

    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    name = "Draft202012Validator"
    if dialect is not None:
        name = _DIALECTS.get(str(dialect).rstrip("#"), "")
        if not name:
            return f"its dialect '{str(dialect)[:200]}' is not supported"
    try:
        graph = SchemaGraph(schema, most_work)
    except ValueError as error:
        return str(error)
    make: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, name)
    try:
        validator = make(
            schema,
            offline=True,
            mask=_MASK,
            pattern_options=jsonschema_rs.FancyRegexOptions(
                backtrack_limit=_BACKTRACKS,
                size_limit=min(_PATTERN_BYTES, _ALL_PATTERN_BYTES // max(1, graph.patterns)),
            ),
        )
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        return _unusable(error)
    return CompiledSchema(schema, validator, graph)


def _unusable(error: Exception) -> str:
    """Why a schema is not valid, and where."""
    import jsonschema_rs

    if not isinstance(error, jsonschema_rs.ValidationError):
        return str(error)
    where = "/".join(str(step) for step in error.instance_path) or "its root"
    found = json.dumps(error.instance, ensure_ascii=False, default=str)[:_LONGEST_EXCERPT]
    return f"{error.message.replace(_MASK, found)} at {where}"


def _depth(value: Any) -> int:
    deepest = 0
    stack: list[tuple[Any, int]] = [(value, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        children = (
            cast("dict[str, Any]", node).values()
            if isinstance(node, dict)
            else cast("list[Any]", node)
            if isinstance(node, list)
            else ()
        )
        stack.extend((child, depth + 1) for child in children)
    return deepest
