"""Reads text, images and tool calls of a message, in all forms of content.

Apart from `model_messages`, as a node's dialog needs it, and must not load LangChain.
"""

from __future__ import annotations

import base64
import binascii
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, cast

from .model.written_calls import UNREADABLE_AT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import AIMessage, BaseMessage

ORIGIN: Final = "origin"
"""Key of who wrote the result of a tool, beside the content of its message; see `ToolReply.origin`."""


def origin_of(message: BaseMessage) -> str:
    """Who wrote the result of a tool; empty if that is not known. What the text says does not count."""
    return str(message.additional_kwargs.get(ORIGIN) or "")


def blocks_of(message: BaseMessage) -> list[dict[str, Any]]:
    """Lists the content blocks of a message in LangChain's form; an empty text is no block."""
    content = cast("str | list[str | dict[str, Any]]", message.content)
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]


def calls_of(message: AIMessage) -> list[dict[str, Any]]:
    """Lists the tool calls of a model's message in its order, as ``id``, ``name`` and ``arguments``.

    The arguments are a dict, or a text if they could not be read.
    """
    calls: list[dict[str, Any]] = [
        {"id": call["id"] or "", "name": call["name"], "arguments": call["args"]}
        for call in message.tool_calls
    ]
    known = cast("list[int]", message.additional_kwargs.get(UNREADABLE_AT) or [])
    for call, position in zip_longest(message.invalid_tool_calls, known[: len(message.invalid_tool_calls)]):
        unread = {"id": call["id"] or "", "name": call["name"] or "", "arguments": call["args"] or ""}
        calls.insert(len(calls) if position is None else position, unread)
    return calls


def text_of(message: BaseMessage) -> str:
    """Reads the text of a message: its text blocks, joined and stripped."""
    return "".join(str(block.get("text", "")) for block in blocks_of(message)).strip()


def shown_text(message: BaseMessage) -> str:
    """Reads the text of a message for people, with type and size in place of each image."""
    return "\n".join(filter(None, (shown_block(block) for block in blocks_of(message))))


def image_of(block: Mapping[str, Any]) -> tuple[bytes, str] | None:
    """Reads bytes and MIME type of an image block; None for other blocks and for URLs of images."""
    if block.get("type") == "image":
        # LangChain's name for it is `base64`; older messages have `data`.
        data, mime_type = block.get("base64") or block.get("data"), block.get("mime_type") or "image/png"
    elif block.get("type") == "image_url":
        link = block.get("image_url")
        url = str(cast("dict[str, Any]", link).get("url", "") if isinstance(link, dict) else link)
        head, comma, data = url.partition(",")
        # An address is not fetched: whoever wrote the message would learn who reads it.
        if not comma or not head.startswith("data:") or not head.endswith(";base64"):
            return None
        mime_type = head.removeprefix("data:").removesuffix(";base64")
    else:
        return None
    try:
        return base64.b64decode(str(data or ""), validate=True), str(mime_type)
    except (binascii.Error, ValueError):
        return None


def shown_block(block: Mapping[str, Any]) -> str:
    if block.get("type") == "text":
        return str(block.get("text") or "")
    image = image_of(block)
    if image is not None:
        return f"[{image[1]}, {len(image[0]):,} bytes]"
    return f"[{block.get('type')}]"
