"""Violations of a schema in words that people and models can act on.

Says where (JSON pointer), what is wanted, what came, which values are allowed, and which name was probably
meant. The value of a secret is never shown, only what kind of value it is.
"""

import difflib
import json
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.routing import looks_secret
from ..json_pointer import pointer_text
from .schemas import CompiledSchema

if TYPE_CHECKING:
    import jsonschema_rs

_SHOWN: Final = 3
_LONGEST_VALUE: Final = 60
_MOST_CHOICES: Final = 20
_MOST_NAMES, _LONGEST_NAME = 1000, 100  # that a name is compared with
_KINDS: Final = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_FIRST: Final = {"required": 0, "additionalProperties": 1, "unevaluatedProperties": 2}
_BOUNDS: Final = {
    "minimum": "a number of at least {limit}",
    "maximum": "a number of at most {limit}",
    "exclusiveMinimum": "a number above {limit}",
    "exclusiveMaximum": "a number below {limit}",
    "multipleOf": "a multiple of {multiple_of}",
    "minLength": "text of at least {limit} characters",
    "maxLength": "text of at most {limit} characters",
    "minItems": "a list of at least {limit} entries",
    "maxItems": "a list of at most {limit} entries",
    "minProperties": "an object with at least {limit} entries",
    "maxProperties": "an object with at most {limit} entries",
    "pattern": "text that matches the pattern {pattern}",
    "format": "text in the format '{format}'",
}


def wanted_types(problem: "jsonschema_rs.ValidationError") -> frozenset[str]:
    """The JSON types that would have been accepted at the place of a problem; empty if the type is not it."""
    details = problem.kind.as_dict()
    if problem.kind.name == "type":
        return frozenset(details["types"])
    if problem.kind.name not in {"anyOf", "oneOf"}:
        return frozenset()
    wanted: set[str] = set()
    for branch in cast("list[list[jsonschema_rs.ValidationError]]", details.get("context", [])):
        here = [error for error in branch if error.instance_path == problem.instance_path]
        kinds = [wanted_types(error) for error in here]
        if not kinds or not all(kinds):
            return frozenset()  # a branch that failed for another reason: the type was right
        wanted.update(*kinds)
    return frozenset(wanted)


def describe_problems(
    schema: CompiledSchema, problems: "list[jsonschema_rs.ValidationError]", *, whole: str
) -> tuple[str, str]:
    """The problems of a value in words.

    Args:
        schema: The schema that was violated.
        problems: How.
        whole: What the value is called where it is meant as a whole.

    Returns:
        JSON pointer to the first problem, and a sentence that names the first few.
    """
    if not problems:
        return "", f"{whole[0].upper()}{whole[1:]} cannot be read"
    closest = [_closest(problem) for problem in problems]
    # Missing and unknown names first: they usually are the reason for the rest.
    closest.sort(key=lambda problem: _FIRST.get(problem.kind.name, len(_FIRST)))
    sentences = list(dict.fromkeys(_describe(schema, problem, whole) for problem in closest))
    more = len(sentences) - _SHOWN
    text = "; ".join(sentences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return _pointer(closest[0]), text[0].upper() + text[1:]


def _closest(problem: "jsonschema_rs.ValidationError") -> "jsonschema_rs.ValidationError":
    """Of the alternatives of anyOf and oneOf, the error of the one that came closest, if one did."""
    while problem.kind.name in {"anyOf", "oneOf"} and not wanted_types(problem):
        context = cast(
            "list[list[jsonschema_rs.ValidationError]]", problem.kind.as_dict().get("context") or []
        )
        errors = [
            branch[0]
            for branch in context
            if branch and not any(_is_wrong_type(error, problem) for error in branch)
        ]
        if not errors:
            return problem
        problem = max(errors, key=lambda error: len(error.instance_path))
    return problem


def _is_wrong_type(error: "jsonschema_rs.ValidationError", parent: "jsonschema_rs.ValidationError") -> bool:
    return error.kind.name in {"type", "const"} and len(error.instance_path) <= len(parent.instance_path) + 1


def _pointer(problem: "jsonschema_rs.ValidationError") -> str:
    path = list(problem.instance_path)
    if problem.kind.name == "required":
        path.append(problem.kind.as_dict()["property"])
    return pointer_text(path)


def _describe(schema: CompiledSchema, problem: "jsonschema_rs.ValidationError", whole: str) -> str:
    details = problem.kind.as_dict()
    parent = schema.subschema(problem.schema_path[:-1])
    where = _pointer(problem) or whole
    match problem.kind.name:
        case "required":
            hints = _described(parent, details["property"]) + _meant_by(parent, problem, details)
            return f"{where} is missing{hints}"
        case "additionalProperties" | "unevaluatedProperties":
            names = cast("list[str]", details["unexpected"])
            known = list(_properties(parent))
            return f"{where}: the tool has no {_unknown(names, known)}"
        case "type" | "anyOf" | "oneOf" if types := wanted_types(problem):
            kinds = " or ".join(_KINDS.get(kind, kind) for kind in sorted(types))
            return f"{where} must be {kinds}, but is {_came(problem, parent)}"
        case "enum":
            choices = _choices(details["options"], problem.instance)
            return f"{where} must be {choices}, but is {_came(problem, parent)}"
        case "const":
            return f"{where} must be {_short(details['expected_value'])}, but is {_came(problem, parent)}"
        case name if name in _BOUNDS and "error" not in details:
            limits = {key: str(item)[:200] for key, item in details.items()}
            return f"{where} must be {_BOUNDS[name].format(**limits)}, but is {_came(problem, parent)}"
        case "falseSchema" if problem.schema_path[-1:] == ["additionalProperties"]:
            return f"{where} must be empty"  # so does the validator name it where no property is known
        case "falseSchema":
            return f"{where} is not allowed here"
        case _:
            return f"{where}: {problem.message[:200]}"


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}


def _described(schema: dict[str, Any], name: str) -> str:
    definition = _properties(schema).get(name)
    if not isinstance(definition, dict):
        return ""
    kind = cast("dict[str, Any]", definition).get("type")
    return f" (wanted: {_KINDS.get(kind, kind)})" if isinstance(kind, str) else ""


def _meant_by(
    schema: dict[str, Any], problem: "jsonschema_rs.ValidationError", details: dict[str, Any]
) -> str:
    given = problem.instance
    if not isinstance(given, dict):
        return ""
    strangers = [name for name in given if name not in _properties(schema)]
    close = _close(details["property"], strangers)
    return f"; is '{close[0]}' meant?" if close else ""


def _unknown(names: list[str], known: list[str]) -> str:
    parts: list[str] = []
    for name in names[:_MOST_CHOICES]:
        close = _close(name, known)
        parts.append(f"parameter '{name}'" + (f" (is '{close[0]}' meant?)" if close else ""))
    listed = f"; it has {', '.join(known[:_MOST_CHOICES])}" if known else "; it takes none"
    return " and no ".join(parts) + listed


def _close(name: str, candidates: list[str]) -> list[str]:
    if len(name) > _LONGEST_NAME:
        return []
    candidates = [candidate for candidate in candidates[:_MOST_NAMES] if len(candidate) <= _LONGEST_NAME]
    folded = {candidate.lower().replace("_", "").replace("-", ""): candidate for candidate in candidates}
    found = difflib.get_close_matches(
        name.lower().replace("_", "").replace("-", ""), list(folded), n=1, cutoff=0.6
    )
    return [folded[match] for match in found]


def _choices(options: list[Any], given: Any) -> str:
    shown = [_short(option) for option in options[:_MOST_CHOICES]]
    more = f" … ({len(options)} in all)" if len(options) > _MOST_CHOICES else ""
    close = (
        _close(given, [option for option in options if isinstance(option, str)])
        if isinstance(given, str)
        else []
    )
    hint = f" (is {_short(close[0])} meant?)" if close else ""
    return f"one of {', '.join(shown)}{more}{hint}"


def _came(problem: "jsonschema_rs.ValidationError", schema: dict[str, Any]) -> str:
    """What came: a plain value with its kind, a container or a secret by its kind only."""
    value = cast("Any", problem.instance)
    kind = _kind(value)
    names = [str(step) for step in problem.instance_path]
    secret = (
        schema.get("writeOnly") is True
        or schema.get("format") == "password"
        or any(looks_secret(name, str(value)) for name in names or [""])
    )
    if secret or value is None or isinstance(value, dict | list):
        return kind
    return f"{kind} {_short(value)}" if not isinstance(value, bool) else _short(value)


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "true or false"
        case str():
            return "text"
        case int():
            return "the integer"
        case float():
            return "the number"
        case None:
            return "null"
        case list():
            return f"a list of {len(cast('list[Any]', value))} entries"
        case _:
            return "an object"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
