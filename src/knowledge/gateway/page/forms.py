"""Makes a form from a tool's schema, and arguments from the entries in the form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never, cast

from ..errors import MCPError, MCPErrorType

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["text", "number", "choice", "flag", "lines", "json"]
_CHECKED: Final = "true"


def fields_of(
    schema: Mapping[str, Any], entered: Mapping[str, str], *, error: MCPError | None = None
) -> list[dict[str, Any]]:
    """The fields of a tool's form, for the template: name, kind, value and problem of each argument.

    Args:
        schema: The schema of the tool's arguments.
        entered: The entries of the form, by argument.
        error: The error that the entries led to.
    """
    required = schema.get("required", ())
    wrong = str(error.details.get("pointer", "")).split("/")[1:2] if error else []
    return [
        {
            "name": name,
            "kind": _kind(entry),
            "description": entry.get("description", ""),
            "required": name in required,
            "value": entered.get(name, ""),
            "choices": _choices(entry),
            "low": entry.get("minimum"),
            "high": entry.get("maximum"),
            "problem": error.user_message if error and name in wrong else "",
        }
        for name, entry in schema.get("properties", {}).items()
    ]


def entered_of(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, str]:
    """The form's entries for these arguments; defaults for missing ones."""
    found: dict[str, str] = {}
    for name, entry in schema.get("properties", {}).items():
        value = arguments.get(name, entry.get("default"))
        if value is None:
            continue
        if _kind(entry) == "lines" and isinstance(value, list):
            found[name] = "\n".join(map(str, cast("list[Any]", value)))
        else:
            found[name] = _written(value)
    return found


def arguments_of(schema: Mapping[str, Any], entered: Mapping[str, str]) -> dict[str, Any]:
    """The arguments from the entries of the form, without empty entries.

    Raises:
        MCPError: An entry that must be JSON is not valid JSON.
    """
    found: dict[str, Any] = {}
    for name, entry in schema.get("properties", {}).items():
        text = entered.get(name, "")
        kind = _kind(entry)
        if kind == "flag" or text.strip():
            found[name] = _read(kind, name, text, entry)
    return found


def _read(kind: Kind, name: str, text: str, entry: Mapping[str, Any]) -> Any:
    match kind:
        case "text" if "integer" in _types(entry) and text.strip().isdecimal():
            return int(text)
        case "text" | "choice":
            return text
        case "number":
            try:
                return json.loads(text)
            except ValueError:
                return text  # the tool says what is wrong with it
        case "lines":
            return [line.strip() for line in text.splitlines() if line.strip()]
        case "json":
            try:
                return json.loads(text)
            except (ValueError, RecursionError) as error:
                where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
                raise MCPError(
                    MCPErrorType.PARAMETER_ERROR,
                    f"Not JSON in the form: {name}",
                    f"What was entered for {name} is not JSON{where}.",
                    details={"pointer": f"/{name}"},
                ) from None
        case "flag":
            return text == _CHECKED
        case _:
            assert_never(kind)


def _kind(entry: Mapping[str, Any]) -> Kind:
    types = _types(entry)
    if "enum" in entry:
        return "choice"
    if "string" in types or "anyOf" in entry:
        return "text"
    if types == ["boolean"]:
        return "flag"
    if set(types) & {"integer", "number"}:
        return "number"
    if types == ["array"] and _types(entry.get("items", {})) == ["string"]:
        return "lines"
    return "json"


def _types(entry: Mapping[str, Any]) -> list[str]:
    kind = entry.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _choices(entry: Mapping[str, Any]) -> tuple[str, ...]:
    alternatives = [entry, *entry.get("anyOf", ())]
    return tuple(str(value) for part in alternatives for value in part.get("enum", ()))


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
