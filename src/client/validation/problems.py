"""Describes violations of a schema so that people and models can correct them.

A description has the place (JSON pointer), the wanted and the given value, the allowed values, and the name
that was probably meant. Of a secret only the kind of value is shown.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.secret_rules import looks_secret
from ...types.texts import counted, foreign, pointer_text, shortened
from ..protocol.messages import as_object

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

    from .schemas import CompiledSchema

_SHOWN: Final = 3
_LONGEST_VALUE: Final = 60
_MOST_CHOICES: Final = 20
_MOST_NAMES, _LONGEST_NAME = 1000, 100  # number and characters of names to compare a name with
_KINDS: Final = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_GIVEN: Final[dict[type, str]] = {
    bool: "true or false",
    str: "text",
    int: "the integer",
    float: "the number",
    type(None): "null",
}
_FIRST: Final = {"required": 0, "additionalProperties": 1, "unevaluatedProperties": 2}
_BOUNDS: Final = {
    "minimum": "a number of at least {limit}",
    "maximum": "a number of at most {limit}",
    "exclusiveMinimum": "a number above {limit}",
    "exclusiveMaximum": "a number below {limit}",
    "multipleOf": "a multiple of {multiple_of}",
    "minLength": "text of {limit} or more characters",
    "maxLength": "text of {limit} or fewer characters",
    "minItems": "a list of {limit} or more items",
    "maxItems": "a list of {limit} or fewer items",
    "minProperties": "an object with {limit} or more entries",
    "maxProperties": "an object with {limit} or fewer entries",
    "uniqueItems": "a list without duplicates",
    "pattern": "text that matches the pattern {pattern}",
    "format": "text in the format '{format}'",
}


def wanted_types(problem: ValidationError) -> frozenset[str]:
    """The JSON types that are accepted at the place of a problem; empty if the type is not the problem."""
    if problem.kind.name == "type":
        return frozenset(problem.kind.as_dict()["types"])
    if problem.kind.name not in {"anyOf", "oneOf"}:
        return frozenset()
    wanted: set[str] = set()
    for branch in _branches(problem):
        here = [error for error in branch if error.instance_path == problem.instance_path]
        kinds = [kinds for error in here if (kinds := wanted_types(error))]
        if not kinds:
            return frozenset()  # this alternative failed for another reason: the type was right
        wanted.update(*kinds)
    return frozenset(wanted)


def describe_problems(
    schema: CompiledSchema, problems: list[ValidationError], *, whole: str
) -> tuple[str, str]:
    """JSON pointer to the first problem of a value (called `whole`), and a sentence about the first few.

    Parts of the value are marked in it, see `texts.foreign`.
    """
    if not problems:
        return "", f"{whole[0].upper()}{whole[1:]} cannot be read"
    closest = [_closest(problem) for problem in problems]
    # If the allowed values are listed, their type need not be named.
    listed = {_pointer(problem) for problem in closest if problem.kind.name in {"enum", "const"}}
    closest = [each for each in closest if each.kind.name != "type" or _pointer(each) not in listed]
    # Missing and unknown names come first, as they usually cause the other problems.
    closest.sort(key=lambda problem: _FIRST.get(problem.kind.name, len(_FIRST)))
    sentences = list(dict.fromkeys(_describe(schema, problem, whole) for problem in closest))
    more = len(sentences) - _SHOWN
    text = "; ".join(sentences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return _pointer(closest[0]), text[0].upper() + text[1:]


def _closest(problem: ValidationError) -> ValidationError:
    """The error of the closest alternative of an anyOf or oneOf; the problem itself if none is closest."""
    while problem.kind.name in {"anyOf", "oneOf"} and not wanted_types(problem) and all(_branches(problem)):
        branches = [
            branch
            for branch in _branches(problem)
            if not any(e.kind.name == "type" and e.instance_path == problem.instance_path for e in branch)
        ]
        tagged = [branch for branch in branches if not _wrong_tags(branch, problem)]
        candidates = branches if len(branches) == 1 else tagged
        if not candidates:
            return problem
        problem = max((branch[0] for branch in candidates), key=lambda error: len(error.instance_path))
    return problem


def _branches(problem: ValidationError) -> list[list[ValidationError]]:
    """The errors of each alternative; empty for an alternative that the value fits."""
    details: dict[str, list[list[ValidationError]]] = problem.kind.as_dict()
    return details.get("context", [])


def _wrong_tags(branch: list[ValidationError], problem: ValidationError) -> list[tuple[ValidationError, Any]]:
    """The errors of an alternative about a discriminator, a fixed value near the top, with that value."""
    deepest = len(problem.instance_path) + 1
    wanted = [(error, _allowed_values(error)) for error in branch if len(error.instance_path) <= deepest]
    return [(error, values[0]) for error, values in wanted if len(values) == 1]


def _allowed_values(error: ValidationError) -> list[Any]:
    details = error.kind.as_dict()
    return [details["expected_value"]] if error.kind.name == "const" else list(details.get("options", ()))


def _pointer(problem: ValidationError) -> str:
    path = list(problem.instance_path)
    if problem.kind.name == "required":
        path.append(problem.kind.as_dict()["property"])
    return pointer_text(path)


def _describe(schema: CompiledSchema, problem: ValidationError, whole: str) -> str:
    details = problem.kind.as_dict()
    parent = schema.subschema(problem.schema_path[:-1])
    where = _pointer(problem) or whole
    match problem.kind.name:
        case "required":
            hints = _described(parent, details["property"]) + _meant_by(parent, problem, details)
            return f"{where} is missing{hints}"
        case "additionalProperties" | "unevaluatedProperties":
            names = cast("list[str]", details["unexpected"])
            known = list(as_object(parent.get("properties")))
            return f"{where}: the tool has no {_unknown(names, known)}"
        case "type" | "anyOf" | "oneOf" if types := wanted_types(problem):
            kinds = " or ".join(_KINDS.get(kind, kind) for kind in sorted(types))
            return f"{where} must be {kinds}, but is {_described_value(problem, parent)}"
        case "anyOf" | "oneOf":
            branches = _branches(problem)
            if not all(branches):
                return f"{where} fits several alternatives of which it must fit only one"
            tags = [tag for branch in branches for tag in _wrong_tags(branch, problem)]
            if len({_pointer(error) for error, _ in tags}) != 1:
                return f"{where} fits none of the alternatives that the tool takes"
            error, choices = tags[0][0], _choices([value for _, value in tags], tags[0][0].instance)
            came = _described_value(error, schema.subschema(error.schema_path[:-1]))
            return f"{_pointer(error) or whole} must be {choices}, but is {came}"
        case "enum":
            choices = _choices(details["options"], problem.instance)
            return f"{where} must be {choices}, but is {_described_value(problem, parent)}"
        case "const":
            expected = _short(details["expected_value"])
            return f"{where} must be {expected}, but is {_described_value(problem, parent)}"
        case name if name in _BOUNDS and "error" not in details:
            limits = {key: str(item)[:200] for key, item in details.items()}
            bound = _BOUNDS[name].format(**limits)
            return f"{where} must be {bound}, but is {_described_value(problem, parent)}"
        case "falseSchema" if problem.schema_path[-1:] == ["additionalProperties"]:
            return f"{where} must be empty"  # the validator's error if no property is allowed
        case "falseSchema":
            return f"{where} is not allowed here"
        case _:
            return f"{where}: {foreign(problem.message[:200])}"


def _described(schema: dict[str, Any], name: str) -> str:
    kind = as_object(as_object(schema.get("properties")).get(name)).get("type")
    return f" (wanted: {_KINDS.get(kind, kind)})" if isinstance(kind, str) else ""


def _meant_by(schema: dict[str, Any], problem: ValidationError, details: dict[str, Any]) -> str:
    given = problem.instance
    if not isinstance(given, dict):
        return ""
    known = as_object(schema.get("properties"))
    strangers = [name for name in given if name not in known]
    close = _close(details["property"], strangers)
    return f"; is '{close[0]}' meant?" if close else ""


def _unknown(names: list[str], known: list[str]) -> str:
    parts: list[str] = []
    for name in names[:_MOST_CHOICES]:
        close = _close(name, known)
        parts.append(f"parameter '{name}'" + (f" (is '{close[0]}' meant?)" if close else ""))
    listed = f"; it has {', '.join(known[:_MOST_CHOICES])}" if known else ""
    return " and no ".join(parts) + listed


def _close(name: str, candidates: list[str]) -> list[str]:
    # `difflib` takes time that grows with the square of the lengths, and names are a server's or a model's.
    if len(name) > _LONGEST_NAME:
        return []
    candidates = [candidate for candidate in candidates[:_MOST_NAMES] if len(candidate) <= _LONGEST_NAME]
    folded = {candidate.lower().replace("_", "").replace("-", ""): candidate for candidate in candidates}
    matches = difflib.get_close_matches(
        name.lower().replace("_", "").replace("-", ""), list(folded), n=1, cutoff=0.6
    )
    return [folded[match] for match in matches]


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


def _described_value(problem: ValidationError, schema: dict[str, Any]) -> str:
    """Describes the given value: its kind, and for plain values that are not secret also the value."""
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
    return f"{kind} {foreign(_short(value))}" if not isinstance(value, bool) else _short(value)


def _kind(value: object) -> str:
    if isinstance(value, list):
        return f"a list of {counted(len(cast('list[Any]', value)), 'item')}"
    return _GIVEN.get(type(value)) or ("an object" if value else "an empty object")


def _short(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str), _LONGEST_VALUE)
