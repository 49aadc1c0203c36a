"""HTTP headers that mirror parts of a request (revision 2026-07-28).

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers-from-tool-parameters.
Header values must survive proxies, so any value that is not visible ASCII is sent as marked base64.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

ANNOTATION: Final = "x-mcp-header"
_LARGEST_INTEGER: Final = 2**53 - 1
TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""The characters of a header name (RFC 9110 §5.6.2)."""
_NAME_PARAMETER: Final = {  # by method, for the requests that this client sends
    "tools/call": "name",
    # The extension io.modelcontextprotocol/tasks, *Routing Headers*.
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
# Keywords whose values are schemas, lists of schemas, or maps of schemas. Keywords with plain values
# (default, enum, const, examples) are left out, and $ref is not followed.
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
    """An invalid ``x-mcp-header``, which makes its tool unusable over HTTP; the message says why."""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """An argument that is repeated in a header.

    Attributes:
        header: The header's name, ``Mcp-Param-…``.
        path: Property names from the root of the arguments to the value.
    """

    header: str
    path: tuple[str, ...]


def encode_header_value(value: str) -> str:
    """A value as header text: unchanged if that is safe, else as ``=?base64?…?=``."""
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
        InvalidAnnotationError: An annotation is not valid; the specification demands to leave out the tool.
    """
    mirrored: list[Mirrored] = []
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
        mirrored.append(Mirrored(f"Mcp-Param-{name}", path))
    return tuple(mirrored)


def _subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...] | None]]:
    """All subschemas, each with its path if it is reached by properties only, else None."""
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
    """Headers for the arguments of one call; null and absent arguments have no header."""
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
