"""Reads text, images and tool calls of a message, in all forms of content.

Apart from `model_messages`, as a node's dialog needs it, and must not load LangChain.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langchain_core.messages import AIMessage, BaseMessage

GIVEN_BACK: Final = "given_back"
"""Key in ``additional_kwargs`` for fields that an endpoint wants back: under ``message`` the fields of the
message, under ``calls`` those of each tool call, in the order of the calls."""
UNREADABLE_AT: Final = "unreadable_at"
"""Key in ``additional_kwargs`` for the positions of calls that could not be read, which LangChain keeps in a
list of their own."""
ORIGIN: Final = "origin"
"""Key of who wrote the result of a tool, beside the content of its message; see `ToolReply.origin`."""


def mappings(value: object) -> list[dict[str, Any]]:
    """The objects in a list; an empty list for any other value."""
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


@dataclass(slots=True)
class _Call:
    index: object
    id: str = ""
    name: str | None = None
    arguments: list[str] = field(default_factory=list[str])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_complete(self) -> bool:
        last = next((text for text in map(str.rstrip, reversed(self.arguments)) if text), "")
        # Joined and read only if it may be: this is asked with each piece.
        return last.endswith("}") and read_arguments("".join(self.arguments))[0] is not None


class CallPieces:
    """Tool calls put together from pieces; tolerates the indices, ids and quoting of different endpoints."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def take(self, piece: dict[str, Any]) -> None:
        function: dict[str, Any] = piece["function"] if isinstance(piece.get("function"), dict) else {}
        name = function.get("name")
        call = self._place(piece.get("index"), _text(piece.get("id")), name if isinstance(name, str) else "")
        if isinstance(name, str) and not call.name:
            call.name = name
        call.arguments.append(_text(function.get("arguments")))
        if isinstance(piece.get("extra_content"), dict):
            call.extra.update(piece["extra_content"])

    def _place(self, index: object, id_: str, name: str) -> _Call:
        """The call that a piece belongs to. The index tells, but some endpoints give all calls the same."""
        of_index = [call for call in self._calls if index is None or call.index in {None, index}]
        same_id = [call for call in of_index if id_ and call.id == id_]
        matches = (same_id or of_index)[-1:]
        if not matches or self._is_another(matches[0], id_, name):
            self._calls.append(_Call(index, id_))
            return self._calls[-1]
        matches[0].id = matches[0].id or id_
        return matches[0]

    def _is_another(self, call: _Call, id_: str, name: str) -> bool:
        if not name or not call.name:  # some endpoints give every piece a new id
            return False
        if id_ and call.id:
            return id_ != call.id
        return name != call.name or call.is_complete  # some endpoints repeat the name in each piece

    def whole(self) -> list[dict[str, Any]]:
        """The calls in OpenAI's form, in the order of their first pieces; ids may be empty."""
        return [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": "".join(call.arguments)},
                **({"extra_content": call.extra} if call.extra else {}),
            }
            for call in self._calls
        ]


def read_arguments(arguments: object) -> tuple[dict[str, Any] | None, str | None]:
    """Reads the arguments of a call: JSON text, but some endpoints send an object or None.

    Returns the arguments and None, or None and the reason why they cannot be read. An empty text or None
    means no arguments.
    """
    if isinstance(arguments, str):
        arguments = arguments.strip("\ufeff \t\r\n")
    if arguments is None or arguments == "":
        return {}, None
    if isinstance(arguments, str):
        try:
            # Not strict, as models write line breaks into strings without escaping them.
            value: object = json.loads(arguments, strict=False)
            if isinstance(value, str) and value.lstrip().startswith("{"):  # some models quote it twice
                value = json.loads(value, strict=False)
            json.dumps(value, allow_nan=False)  # Python reads NaN and 1e999, which JSON cannot hold
        except (ValueError, RecursionError) as error:
            return None, f"The arguments are not valid JSON ({error})"
        if value is None:
            return {}, None
    else:
        value = arguments
    if isinstance(value, dict):
        return cast("dict[str, Any]", value), None
    return None, "The arguments must be a JSON object"


def read_calls(written: Iterable[tuple[str | None, str | None, object]]) -> dict[str, Any]:
    """Reads calls, each an id, a name and arguments as a model wrote them, into fields of an `AIMessage`.

    Those that cannot be read are set aside, with their positions under `UNREADABLE_AT`.
    """
    readable: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    positions: list[int] = []
    for position, (id_, name, text) in enumerate(written):
        arguments, _ = read_arguments(text)
        if arguments is None or name is None:
            unread = {"type": "invalid_tool_call", "id": id_, "name": name, "args": text}
            others.append({**unread, "error": "no JSON object"})
            positions.append(position)
        else:
            readable.append({"type": "tool_call", "id": id_, "name": name, "args": arguments})
    kwargs = {UNREADABLE_AT: positions} if positions else {}
    return {"tool_calls": readable, "invalid_tool_calls": others, "additional_kwargs": kwargs}


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)


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
