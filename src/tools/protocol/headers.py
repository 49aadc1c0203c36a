"""HTTP headers that mirror parts of a request (revision 2026-07-28).

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers-from-tool-parameters.
Header values must survive proxies, so anything but visible ASCII travels as base64 in a marked form.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

ANNOTATION: Final = "x-mcp-header"
_LARGEST_INTEGER: Final = 2**53 - 1
TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""What a header name may consist of (RFC 9110 §5.6.2)."""
_NAME_PARAMETER: Final = {  # of the requests that this client sends
    "tools/call": "name",
    # The extension io.modelcontextprotocol/tasks, *Routing Headers*.
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
# Keywords whose values are schemas, lists of schemas, or maps of schemas. Payload keywords (default, enum,
# const, examples) are not among them, and $ref is not followed.
_SCHEMAS: Final = frozenset(
    [
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
_SCHEMA_LISTS: Final = frozenset(["allOf", "anyOf", "items", "oneOf", "prefixItems"])
_SCHEMA_MAPS: Final = frozenset(
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"]
)


class InvalidAnnotationError(ValueError):
    """An ``x-mcp-header`` that makes its tool unusable over HTTP; the message says why."""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """An argument that is repeated as a header.

    Attributes:
        header: ``Mcp-Param-…``.
        path: Property names from the arguments' root to the value.
    """

    header: str
    path: tuple[str, ...]


def encode_header_value(value: str) -> str:
    """A value as header text: plain where it is safe, else ``=?base64?…?=``."""
    plain = all(" " <= character <= "~" for character in value) and value == value.strip(" ")
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode('ascii')}?="


def request_headers(method: str, params: Mapping[str, Any], version: str) -> dict[str, str]:
    """The standard headers of a request in the modern era."""
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    parameter = _NAME_PARAMETER.get(method)
    if parameter is not None:
        headers["Mcp-Name"] = encode_header_value(str(params.get(parameter, "")))
    return headers


def mirrored_arguments(schema: Mapping[str, Any]) -> tuple[Mirrored, ...]:
    """The arguments that a tool's input schema wants repeated as headers.

    Raises:
        InvalidAnnotationError: The specification demands that such a tool is left out.
    """
    found: list[Mirrored] = []
    seen: set[str] = set()
    for subschema, path in _subschemas(schema):
        if ANNOTATION not in subschema:
            continue
        name = subschema[ANNOTATION]
        if not path:
            raise InvalidAnnotationError(f"{ANNOTATION} stands where it cannot name one argument")
        where = "/".join(path)
        if not isinstance(name, str) or not name or not TOKEN.issuperset(name):
            raise InvalidAnnotationError(f"{ANNOTATION} of {where} is not a header name")
        if name.lower() in seen:
            raise InvalidAnnotationError(f"{ANNOTATION} {name} is used twice")
        kind = subschema.get("type")
        if not isinstance(kind, str) or kind not in {"string", "integer", "boolean"}:
            raise InvalidAnnotationError(
                f"{ANNOTATION} of {where} stands on a type other than string, integer, boolean"
            )
        seen.add(name.lower())
        found.append(Mirrored(f"Mcp-Param-{name}", path))
    return tuple(found)


def _subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...] | None]]:
    """All subschemas, with the path of properties that leads to one or None if it is reached otherwise."""
    stack: list[tuple[Any, tuple[str, ...] | None]] = [(schema, ())]
    while stack:
        current, path = stack.pop()
        if not isinstance(current, dict):
            continue
        subschema = cast("dict[str, Any]", current)
        yield subschema, path
        for keyword, value in subschema.items():
            if keyword in _SCHEMA_MAPS and isinstance(value, dict):
                above = path if keyword == "properties" else None
                for name, child in cast("dict[str, Any]", value).items():
                    stack.append((child, None if above is None else (*above, name)))
            elif keyword in _SCHEMA_LISTS and isinstance(value, list):
                stack.extend((child, None) for child in cast("list[Any]", value))
            elif keyword in _SCHEMAS:
                stack.append((value, None))


def argument_headers(mirrored: tuple[Mirrored, ...], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Headers for the arguments of one call; null and absent ones have none."""
    headers: dict[str, str] = {}
    for entry in mirrored:
        value: Any = arguments
        for name in entry.path:
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
        text = _as_text(value)
        if text is not None:
            headers[entry.header] = encode_header_value(text)
    return headers


def _as_text(value: object) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() if abs(value) <= _LARGEST_INTEGER:
            return str(value)
        case float() if value.is_integer() and abs(value) <= _LARGEST_INTEGER:
            return str(int(value))
        case _:
            return None
