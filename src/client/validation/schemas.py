"""Compiles servers' JSON Schemas for validation, so that they cannot make the validator hang or fetch.

A schema is untrusted text. Its size and depth are limited before compiling; references to other documents are
refused, never fetched (https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage).
Recursive schemas work: the estimated steps of validating each value are limited.

A tool may be called even if its schema is malformed or too large for these limits: its arguments are not
checked then, and `CompiledSchema.fault` says why.
"""

import functools
import itertools
import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.errors import ProtocolError
from ..limits import Limits
from ..protocol.json_text import is_deeper
from .leniency import as_meant
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


class CompiledSchema:
    """A schema that values can be checked against. Get one by `compile_schema`.

    Attributes:
        schema: The schema.
        fault: The schema's defect, because of which every value passes; None for a usable schema.
    """

    def __init__(
        self,
        schema: dict[str, Any] | bool,
        checks: "tuple[jsonschema_rs.Validator, SchemaGraph] | None",
        fault: str | None = None,
    ) -> None:
        self.schema = schema
        self.fault = fault
        self._checks = checks

    @functools.cached_property
    def as_meant(self) -> "CompiledSchema":
        """The schema as its server means it, see `leniency`; the same object if there is no difference."""
        for overlapping in (True, False):
            schema = as_meant(self.schema, overlapping=overlapping)
            if self._checks is None or schema == self.schema:
                return self
            compiled = _build(schema, self._checks[1].most_work)
            if not isinstance(compiled, str) and compiled.fault is None:
                return compiled
        return self

    def is_valid(self, value: Any) -> bool:
        """Returns whether the value conforms.

        Raises:
            ValueError: The value cannot be checked: too deep, too much work, or text that is not Unicode.
        """
        if self._checks is None:
            return True
        validator, graph = self._checks
        if graph.looks(value, count_parts(value)) is None:
            raise ValueError("checking it against this schema would take too long")
        return validator.is_valid(value)

    def problems(self, value: Any) -> "list[jsonschema_rs.ValidationError]":
        """The problems of a value, at most twenty."""
        if self._checks is None:
            return []
        validator, graph = self._checks
        parts = count_parts(value)
        looks = graph.looks(value, parts)
        if looks is None or looks > _LISTED or looks * parts > _COPIED:
            # `iter_errors` makes all errors first, each with a copy of its value: too much memory here.
            return _first_problem(validator, value)
        return list(itertools.islice(validator.iter_errors(value), _REPORTED))

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
    """Compiles a schema, once per distinct text.

    Args:
        schema_json: JSON text of a schema, 2020-12 unless ``$schema`` says otherwise.
        limits: Bounds of size, depth and work.

    Raises:
        ProtocolError: The text is not a schema, has an unknown dialect, or refers to another document.
    """
    compiled = _compile(schema_json, limits.schema_bytes, limits.schema_depth, limits.schema_expansion)
    if isinstance(compiled, str):
        raise ProtocolError(
            f"The tool's schema cannot be used: {compiled}", fix="Ask whoever runs the server to change it"
        )
    return compiled


@functools.lru_cache(maxsize=_CACHED_SCHEMAS)
def _compile(text: str, most_bytes: int, most_depth: int, most_work: int) -> CompiledSchema | str:
    """Compiles a schema, or returns the reason why that is not possible."""
    if len(text) > most_bytes:
        return _faulty(f"it is longer than {most_bytes} characters")
    try:
        schema: Any = json.loads(text) if text.strip() else {}
    except RecursionError:
        return _faulty("it is nested too deeply")
    except ValueError as error:
        return f"it is not JSON ({error})"
    if not isinstance(schema, dict | bool):
        return "it is neither an object nor a boolean"
    typed = cast("dict[str, Any] | bool", schema)
    if is_deeper(typed, most_depth):
        return _faulty(f"it is nested more than {most_depth} levels deep")
    return _build(typed, most_work)


def _faulty(why: str) -> CompiledSchema:
    return CompiledSchema({}, None, why)


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
        return _faulty(str(error))
    except ValueError as error:
        return str(error)
    faults: list[str] = []
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
    return _faulty(faults[0])


def _first_problem(validator: "jsonschema_rs.Validator", value: Any) -> "list[jsonschema_rs.ValidationError]":
    import jsonschema_rs

    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def _unusable(error: Exception) -> str:
    """The reason why a schema is not valid, with the place."""
    import jsonschema_rs

    if not isinstance(error, jsonschema_rs.ValidationError):
        return str(error)
    where = "/".join(str(step) for step in error.instance_path) or "its root"
    excerpt = json.dumps(error.instance, ensure_ascii=False, default=str)[:_LONGEST_EXCERPT]
    return f"{error.message.replace(_MASK, excerpt)} at {where}"
