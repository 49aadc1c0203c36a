"""Tools and their results, as servers write them: ``tools/list``, arguments in headers, ``tools/call``.

https://modelcontextprotocol.io/specification/2025-11-25/server/tools. Unknown parts are kept, missing parts
are tolerated, and ``structuredContent: null`` is a value, not an absence.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Final, Literal, assert_never, cast

from ...types.errors import ProtocolError
from ...types.routing import HEADER_NAME, ServerRoute
from ...types.texts import compact_json, definition_digest, shortened
from ...types.tool import MCPTool
from ..limits import LONGEST_NAME, LONGEST_TEXT
from .irregular_blocks import declared_type, decoded, in_schema
from .media_types import UNKNOWN, media_type
from .messages import as_object, as_text, encode_header_value

ANNOTATION: Final = "x-mcp-header"
_LARGEST_INTEGER: Final = 2**53 - 1
_LONGEST: Final = {
    **dict.fromkeys(("name", "title", "uri", "uriTemplate", "mimeType"), LONGEST_NAME),
    "description": LONGEST_TEXT,
}
_LONGEST_TYPE: Final = 80
# Beside them a result has content. `toolResult` is read as `CallToolResult.text` says.
_NO_CONTENT: Final = frozenset(
    ("content", "isError", "_meta", "resultType", "ttlMs", "cacheScope", "toolResult", "task")
)
# Keywords whose values are schemas, lists of schemas, or maps of schemas. Keywords with plain values
# (default, enum, const, examples) are left out, and $ref is not followed.
_SCHEMAS: Final = frozenset(
    (
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items"),
        *("not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    )
)
_SCHEMA_LISTS: Final = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_SCHEMA_MAPS: Final = frozenset(
    ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
)


@dataclass(frozen=True)
class ToolDefinition:
    """A tool as its server describes it. All texts are untrusted.

    Attributes:
        name: The name to send; any text, case-sensitive.
        title: The name for people, if declared.
        description: The declared description, None if absent.
        input_schema: JSON Schema of the arguments, unchanged.
        output_schema: JSON Schema of the structured result, None if absent or not an object.
        annotations: Hints (``readOnlyHint`` …), None if absent.
        raw: The whole definition, unknown fields included.
    """

    name: str
    title: str | None
    description: str | None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any] | None
    raw: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def from_raw(cls, raw: dict[str, Any]) -> "ToolDefinition":
        """Reads one entry of ``tools``. Only the name is required; the entry is kept as `raw`.

        Raises:
            ProtocolError: The entry has no name, or a text that is far too long.
        """
        name = raw.get("name")
        if not isinstance(name, str) or not name:
            raise ProtocolError("The server lists a tool without a name")
        check_texts(raw)
        # Faster than a frozen class's constructor, as thousands of tools may be listed at once.
        tool = object.__new__(cls)
        get = raw.get
        values: dict[str, Any] = {
            "name": name,
            "title": title if isinstance(title := get("title"), str) else None,
            "description": about if isinstance(about := get("description"), str) else None,
            "input_schema": taken if isinstance(taken := get("inputSchema"), dict) else {},
            "output_schema": given if isinstance(given := get("outputSchema"), dict) else None,
            "annotations": hints if isinstance(hints := get("annotations"), dict) else None,
            "raw": raw,
        }
        object.__setattr__(tool, "__dict__", values)
        return tool

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all parts of the definition that a person sees when choosing the tool."""
        return definition_digest(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            annotations=self.annotations,
        )

    @cached_property
    def input_schema_json(self) -> str:
        """The input schema as JSON text, keys in the server's order."""
        return compact_json(self.input_schema)

    @cached_property
    def output_schema_json(self) -> str:
        """The output schema as JSON text; ``null`` if the tool declares none."""
        return compact_json(self.output_schema)

    @property
    def display_title(self) -> str:
        """``title``, else ``annotations.title``, else ``name`` (revision 2025-06-18, *Tool*)."""
        annotated = (self.annotations or {}).get("title")
        return self.title or as_text(annotated) or self.name

    @property
    def read_only(self) -> bool | None:
        """The server's claim that the tool changes nothing; None if it claims nothing."""
        return _flag(self.annotations, "readOnlyHint")

    @property
    def destructive(self) -> bool | None:
        """The server's claim that the tool may destroy something; None if it claims nothing."""
        return _flag(self.annotations, "destructiveHint")

    def to_tool(self, route: ServerRoute, *, shown_name: str) -> MCPTool:
        """The tool as a value for a table cell.

        Args:
            route: The tool's server, without secrets.
            shown_name: The name for people and models, unique in its table.

        Returns:
            A tool whose schema text keeps the server's order of keys.
        """
        return MCPTool(
            name=shown_name,
            description=self.description or "",
            parameter_schema=self.input_schema_json,
            server_uri=route.uri,
            tool_name=self.name,
            output_schema=self.output_schema,
            annotations=self.annotations,
            title=self.title,
        )


def check_texts(raw: Mapping[str, Any]) -> None:
    """Raises `ProtocolError` if an entry of a list has a text that is far too long."""
    for key, longest in _LONGEST.items():
        if isinstance(text := raw.get(key), str) and len(text) > longest:
            raise ProtocolError(f"its {key} has {len(text):,} characters, of at most {longest:,}")


def parse_page(result: Mapping[str, Any], key: str = "tools") -> tuple[list[dict[str, Any]], str | None]:
    """Entries and cursor of one page; an empty text *is* a cursor, only null or a missing one is none."""
    entries = result.get(key)
    if entries is None and result.get("resultType", "complete") in ("complete", None):
        entries = []  # some libraries write null or nothing for an empty list
    if isinstance(entries, dict) and all(key.isdecimal() for key in cast("dict[str, Any]", entries)):
        entries = list(cast("dict[str, Any]", entries).values())  # PHP's form of a list with gaps
    if not isinstance(entries, list):
        raise ProtocolError(f"The server's list of {key} is not a list")
    cursor = result.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        cursor = json.dumps(cursor)
    return [entry for entry in cast("list[Any]", entries) if isinstance(entry, dict)], cursor


def _flag(annotations: Mapping[str, Any] | None, name: str) -> bool | None:
    value = (annotations or {}).get(name)
    return value if isinstance(value, bool) else None


class InvalidAnnotationError(ValueError):
    """An invalid ``x-mcp-header``, which makes its tool unusable over HTTP; the message says why."""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """An argument that is repeated in the header ``Mcp-Param-…``; `path` are the property names to it."""

    header: str
    path: tuple[str, ...]


def mirrored_arguments(schema: Mapping[str, Any]) -> tuple[Mirrored, ...]:
    """The arguments that a tool's input schema wants repeated as headers.

    Raises `InvalidAnnotationError`, after which the specification demands to leave out the tool.
    """
    mirrored: list[Mirrored] = []
    seen: set[str] = set()
    for subschema, path in _subschemas(schema):
        if ANNOTATION not in subschema:
            continue
        name = subschema[ANNOTATION]
        # Behind `items`, `anyOf` or `$ref` there may be many values, or none: no header can stand for them.
        if not path:
            raise InvalidAnnotationError(f"{ANNOTATION} stands where it cannot name one argument")
        where = "/".join(path)
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            raise InvalidAnnotationError(f"{ANNOTATION} of {where} is not a header name")
        # Header names are case-insensitive (RFC 9110 §5.1): both would be one header.
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
    """All subschemas in the schema's order, each with its path if properties alone lead there, else None."""
    stack: list[tuple[Any, tuple[str, ...] | None]] = [(schema, ())]
    while stack:
        current, path = stack.pop()
        if not isinstance(current, dict):
            continue
        subschema = cast("dict[str, Any]", current)
        yield subschema, path
        children: list[tuple[Any, tuple[str, ...] | None]] = []
        for keyword, value in subschema.items():
            if keyword in _SCHEMA_MAPS and isinstance(value, dict):
                above = path if keyword == "properties" else None
                for name, child in cast("dict[str, Any]", value).items():
                    children.append((child, None if above is None else (*above, name)))
            elif keyword in _SCHEMA_LISTS and isinstance(value, list):
                children.extend((child, None) for child in cast("list[Any]", value))
            elif keyword in _SCHEMAS:
                children.append((value, None))
        stack.extend(reversed(children))  # the first one is looked at next


def argument_headers(mirrored: tuple[Mirrored, ...], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Headers for the arguments of one call; null and absent arguments have no header."""
    headers: dict[str, str] = {}
    for entry in mirrored:
        value: Any = arguments
        for name in entry.path:
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
        text = _header_text(value)
        if text is not None:
            headers[entry.header] = encode_header_value(text)
    return headers


def _header_text(value: object) -> str | None:
    match value:
        case bool():
            # Before the case of numbers, as `bool` is an `int` for Python.
            return "true" if value else "false"
        case str():
            return value
        # Beyond it JavaScript would round, and server and header would differ: no header then.
        case int() if abs(value) <= _LARGEST_INTEGER:
            return str(value)
        case float() if value.is_integer() and abs(value) <= _LARGEST_INTEGER:
            return str(int(value))
        case _:
            return None


class Absent(Enum):
    """So that type checkers can distinguish `ABSENT` from all values."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> Literal[False]:
        return False


ABSENT: Final = Absent.ABSENT
"""``structured_content`` of a result that has none."""


@dataclass(frozen=True, slots=True)
class TextContent:
    text: str
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image, decoded."""

    data: bytes = field(repr=False)
    mime_type: str = "application/octet-stream"
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class AudioContent:
    """A sound, decoded."""

    data: bytes = field(repr=False)
    mime_type: str = "application/octet-stream"
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A link to a resource of the server; untrusted, and never fetched automatically."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    """A resource with its content: ``text``, ``blob``, or both if a server sends both."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: bytes | None = field(default=None, repr=False)
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class UnknownContent:
    """A block of an unknown kind, or a malformed block, kept unchanged."""

    type: str
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent


@dataclass(frozen=True)
class CallToolResult:
    """The result of a tool call.

    Attributes:
        content: The blocks, in order.
        structured_content: Any JSON value, or `ABSENT`.
        is_error: True if the tool itself reports a failure, which its text describes.
        meta: ``_meta`` of the result.
        raw: The whole result, unknown fields included.
        irregular: What misses the schema in the blocks, for people.
    """

    content: tuple[ContentBlock, ...]
    structured_content: Any = ABSENT
    is_error: bool = False
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    irregular: tuple[str, ...] = ()

    @classmethod
    def from_raw(cls, raw: Mapping[str, Any], *, null_is_absent: bool = False) -> "CallToolResult":
        """Reads the ``result`` of ``tools/call``. Never fails: unreadable blocks are kept as unknown.

        With `null_is_absent`, null means no structured content: until 2025-11-25 it had to be an object, and
        libraries write null for a missing one.
        """
        content = raw.get("content")
        structured = raw.get("structuredContent", ABSENT)
        if content in (None, []) and structured is ABSENT:
            content = _instead_of_content(raw)
        # Some send a single block instead of a list.
        irregular: dict[str, None] = {}
        return cls(
            content=tuple(read_blocks([] if content is None else content, irregular)),
            structured_content=ABSENT if structured is None and null_is_absent else structured,
            is_error=raw.get("isError") in (True, "true"),  # or 1: what failed must look failed
            meta=as_object(raw.get("_meta")),
            raw=cast("dict[str, Any]", raw),
            irregular=tuple(irregular),
        )

    @cached_property
    def text(self) -> str:
        """The texts of the blocks in order; other blocks as their kind and size, never as base64.

        Without blocks it is the structured content as JSON, or ``toolResult``, which servers from before the
        first revision of the protocol send instead.
        """
        if not self.content:
            other = self.structured_content
            if other is ABSENT:
                other = self.raw.get("toolResult", ABSENT)
            if other is not ABSENT:
                return json.dumps(other, ensure_ascii=False)
        return "\n".join([describe_block(block) for block in self.content])


def _instead_of_content(raw: Mapping[str, Any]) -> Any:
    """What a result has that has neither content nor structured content."""
    others = {name: value for name, value in raw.items() if name not in _NO_CONTENT and value is not None}
    return next(iter(others.values())) if len(others) == 1 else others or None


def read_blocks(raw: Any, irregular: dict[str, None] | None = None) -> list[ContentBlock]:
    """Reads a content block; one that misses the schema may be several, and loses nothing.

    What misses the schema is added to `irregular`, for people.
    """
    noted: dict[str, None] = {} if irregular is None else irregular
    match raw:
        case dict():
            block = _read_block(cast("dict[str, Any]", raw))
            if isinstance(block, UnknownContent):
                kind = block.raw.get("type")
                named = f"of type {shortened(block.type, _LONGEST_TYPE)}" if kind else "without a type"
                noted[f"a block {named}"] = None
                return [_read_block(part) for part in in_schema(block.raw)]
            if isinstance(block, ImageContent | AudioContent):
                said = declared_type(block.raw)
                # Another name of the same type is read as it is meant.
                if said and media_type(said) != block.mime_type:
                    noted[f"{shortened(said, _LONGEST_TYPE)} that is {block.mime_type}"] = None
            return [block]
        case list():
            return [block for each in cast("list[Any]", raw) for block in read_blocks(each, noted)]
        case str():
            return [TextContent(raw, {"type": "text", "text": raw})]
        case _:
            return [TextContent(json.dumps(raw), {"type": "text", "text": raw})]


def _read_block(block: dict[str, Any]) -> ContentBlock:
    kind = block.get("type")
    match block:
        case {"type": "text", "text": str(text)}:
            return TextContent(text, block)
        case {"type": "text", "text": bool() | int() | float() | list() | dict()}:
            # Some servers forget to turn a value into text.
            return TextContent(json.dumps(block["text"], ensure_ascii=False), block)
        case {"type": "image" | "audio" as family, "data": str(encoded)} if (
            data := decoded(encoded)
        ) is not None:
            mime_type = media_type(declared_type(block), data, family=family)
            return (ImageContent if family == "image" else AudioContent)(data, mime_type, block)
        case {"type": "resource_link", "uri": str(uri)}:
            size = block.get("size")
            return ResourceLink(
                uri=uri,
                name=as_text(block.get("name")) or "",
                title=as_text(block.get("title")),
                description=as_text(block.get("description")),
                mime_type=declared_type(block),
                size=size if isinstance(size, int) else None,
                raw=block,
            )
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(encoded)} as resource} if (
            data := decoded(encoded)
        ) is not None:
            said = declared_type(resource)
            mime_type = media_type(said, data, name=uri)
            text = as_text(resource.get("text")) or None  # some servers write both, one of them empty
            return EmbeddedResource(uri, None if mime_type == UNKNOWN else mime_type, text, data, block)
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)} as resource} if not (
            resource.get("blob")
        ):
            return EmbeddedResource(uri, declared_type(resource), text, raw=block)
        case _:
            return UnknownContent(kind if isinstance(kind, str) else "untyped", block)


def describe_block(block: ContentBlock) -> str:
    """A block as text: its text, or its kind and size."""
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return f"[image {block.mime_type}, {format_size(len(block.data))}]"
        case AudioContent():
            return f"[audio {block.mime_type}, {format_size(len(block.data))}]"
        case ResourceLink():
            facts = [block.title or block.name, block.uri, block.mime_type]
            if block.size is not None:
                facts.append(format_size(block.size))
            return f"[resource link {', '.join(fact for fact in facts if fact)}]"
        case EmbeddedResource(text=str(text)):
            return text
        case EmbeddedResource():
            facts = [block.uri, block.mime_type, format_size(len(block.blob or b""))]
            return f"[resource {', '.join(fact for fact in facts if fact)}]"
        case UnknownContent():
            return json.dumps(block.raw, ensure_ascii=False)
        case _:
            assert_never(block)


def format_size(count: int) -> str:
    """A number of bytes for people: ``12.3 KB``."""
    size = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def blobs_in(blocks: Iterable[ContentBlock]) -> list[tuple[bytes, str]]:
    """The bytes and media type of each picture, sound or embedded file; the type may be empty."""
    blobs: list[tuple[bytes, str]] = []
    for block in blocks:
        match block:
            case ImageContent(data=data, mime_type=kind) | AudioContent(data=data, mime_type=kind):
                blobs.append((data, kind))
            case EmbeddedResource(blob=bytes(data), mime_type=kind):
                blobs.append((data, kind or ""))
            case _:
                pass
    return blobs
