"""Results of tool calls: typed content blocks, structured content, and text for people and models.

https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result. Unknown parts are kept,
missing parts are tolerated, and ``structuredContent: null`` is a value, not an absence.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Final, Literal, assert_never, cast

from .jsonrpc import as_text


class Absent(Enum):
    """Type of `ABSENT`, so that type checkers can distinguish it from all values."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> Literal[False]:
        return False


_FROM_URL_ALPHABET: Final = str.maketrans("-_", "+/")
ABSENT: Final = Absent.ABSENT
"""``structured_content`` of a result that has none."""


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text."""

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
    """A resource with its content: either ``text`` or ``blob`` is None."""

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
    """

    content: tuple[ContentBlock, ...]
    structured_content: Any = ABSENT
    is_error: bool = False
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    @classmethod
    def from_raw(cls, raw: Mapping[str, Any], *, null_is_absent: bool = False) -> "CallToolResult":
        """Reads the ``result`` of ``tools/call``. Never fails: unreadable blocks are kept as unknown.

        Args:
            raw: The result.
            null_is_absent: True if null means no structured content: until 2025-11-25 it had to be an object,
                and libraries write null for a missing one.
        """
        content = raw.get("content")
        if isinstance(content, dict | str):  # a single block instead of a list
            content = [cast("object", content)]
        blocks = cast("list[Any]", content) if isinstance(content, list) else []
        meta = raw.get("_meta")
        structured = raw.get("structuredContent", ABSENT)
        return cls(
            content=tuple([parse_block(block) for block in blocks]),
            structured_content=ABSENT if structured is None and null_is_absent else structured,
            is_error=raw.get("isError") is True,
            meta=cast("dict[str, Any]", meta) if isinstance(meta, dict) else {},
            raw=cast("dict[str, Any]", raw),
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


def parse_block(raw: Any) -> ContentBlock:
    """Reads a content block; a malformed one becomes `UnknownContent`."""
    if isinstance(raw, str):
        return TextContent(raw, {"type": "text", "text": raw})
    if not isinstance(raw, dict):
        return UnknownContent(type(raw).__name__, {"value": raw})
    block = cast("dict[str, Any]", raw)
    kind = block.get("type")
    match block:
        case {"type": "text", "text": str(text)}:
            return TextContent(text, block)
        case {"type": "text", "text": bool() | int() | float() | list() | dict()}:
            # Some servers forget to turn a value into text.
            return TextContent(json.dumps(block["text"], ensure_ascii=False), block)
        case {"type": "image" | "audio", "data": str(encoded)}:
            data = _base64(encoded)
            if data is None:
                return UnknownContent(str(kind), block)
            mime_type = as_text(block.get("mimeType")) or "application/octet-stream"
            return (ImageContent if kind == "image" else AudioContent)(data, mime_type, block)
        case {"type": "resource_link", "uri": str(uri)}:
            size = block.get("size")
            return ResourceLink(
                uri=uri,
                name=as_text(block.get("name")) or "",
                title=as_text(block.get("title")),
                description=as_text(block.get("description")),
                mime_type=as_text(block.get("mimeType")),
                size=size if isinstance(size, int) else None,
                raw=block,
            )
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            return EmbeddedResource(uri, as_text(block["resource"].get("mimeType")), text=text, raw=block)
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(encoded)}}:
            data = _base64(encoded)
            if data is None:
                return UnknownContent("resource", block)
            return EmbeddedResource(uri, as_text(block["resource"].get("mimeType")), blob=data, raw=block)
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
            return f"[{block.type} content, {format_size(len(json.dumps(block.raw)))}]"
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


def _base64(encoded: str) -> bytes | None:
    """Decodes base64; None if the text is not base64.

    Line breaks as in MIME, the alphabet for URLs, missing padding, and the head of a data URL are tolerated.
    """
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        pass
    text = encoded
    if text.startswith("data:"):
        text = text.partition(";base64,")[2]
    text = "".join(text.split()).translate(_FROM_URL_ALPHABET).rstrip("=")
    if not text:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
