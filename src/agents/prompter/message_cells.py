"""Converts LangChain's messages to the storage of KNIME's Message cells, and back.

The storage is a struct of five fields: the role, the parts of the content (text, PNG), the tool calls, the
id of the answered call (of a model's message: its own id), and a name. The storage is written and read
directly, as KNIME's own conversion guesses the encoding of text, and writes an image's URL in place of the
image.
"""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.canonical import without_surrogates
from ..run.content import blocks_of, calls_of, image_of, shown_block

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import AIMessage, BaseMessage

UNREADABLE: Final = "unreadable arguments"
"""Key under which a cell keeps arguments that are no JSON object, as a cell can hold objects only."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"


def message_type() -> Any | None:
    """Finds KNIME's logical type of Message cells; None where the AI extension is not installed."""
    import importlib

    import knime.api.schema as ks

    try:
        return ks.logical(importlib.import_module("knime.types.message").MessageValue)
    except (ImportError, AttributeError, TypeError):
        return None


def to_cell(message: BaseMessage) -> dict[str, Any]:
    """Converts a message of a user, the model or a tool to the five fields of a cell's storage.

    Raises:
        ValueError: The message is of another kind, such as a system message.
    """
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    cell: dict[str, Any] = {
        "1": [part for block in blocks_of(message) for part in _parts(block)],
        "2": None,
        "3": None,
        "4": None if message.name is None else without_surrogates(message.name),
    }
    match message:
        case HumanMessage():
            return {"0": "USER", **cell}
        case AIMessage():
            calls = [
                {"0": call["id"], "1": call["name"], "2": _arguments_text(call["arguments"])}
                for call in calls_of(message)
            ]
            return {"0": "AI", **cell, "2": calls or None, "3": message.id}
        case ToolMessage():
            return {"0": "TOOL", **cell, "3": message.tool_call_id}
        case _:
            raise ValueError(f"a message of type {message.type} does not go into a conversation")


def from_cell(cell: Mapping[str, Any]) -> BaseMessage:
    """Reads a message from the five fields of a cell's storage.

    Raises:
        ValueError: The kind of message is unknown.
    """
    from langchain_core.messages import HumanMessage, ToolMessage

    content = content_of([_block(part) for part in cell["1"] or ()])
    name = cell.get("4")
    match cell["0"]:
        case "USER":
            return HumanMessage(content=content, name=name)
        case "AI":
            calls = [
                {"id": call["0"], "name": call["1"], "arguments": _arguments(call["2"])}
                for call in cell["2"] or ()
            ]
            return ai_message(content, calls, name=name, id=cell.get("3"))
        case "TOOL":
            return ToolMessage(content=content, tool_call_id=cell.get("3") or "", name=name)
        case other:
            raise ValueError(f"a message of type {other!r} is unknown")


def ai_message(content: Any, calls: Sequence[Mapping[str, Any]], **fields: Any) -> AIMessage:
    """Makes a model's message from its content and its calls, which have the form of `calls_of`.

    Calls whose arguments are no object become invalid tool calls.
    """
    from langchain_core.messages import AIMessage

    good: list[dict[str, Any]] = [
        {"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"}
        for call in calls
        if isinstance(call["arguments"], dict)
    ]
    bad = [
        {
            "id": call["id"],
            "name": call["name"],
            "args": str(call["arguments"]),
            "error": None,
            "type": "invalid_tool_call",
        }
        for call in calls
        if not isinstance(call["arguments"], dict)
    ]
    return AIMessage(content=content, tool_calls=good, invalid_tool_calls=bad, **fields)


def json_text(value: object) -> str:
    """Writes a value that came from a model as JSON; numbers that JSON does not have become texts."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value), parse_constant=str)
        text = json.dumps(finite, ensure_ascii=False)
    return without_surrogates(text)


def content_of(blocks: Sequence[dict[str, Any]]) -> Any:
    """Makes the content of a message: plain text if all blocks are text, as all chat models accept that."""
    if all(block.get("type") == "text" for block in blocks):
        return "".join(str(block.get("text", "")) for block in blocks)
    return list(blocks)


def _parts(block: dict[str, Any]) -> list[dict[str, Any]]:
    image = image_of(block)
    if image is not None:
        png = _as_png(*image)
        if png is not None:
            return [{"0": "png", "1": png}]
    return [{"0": "text", "1": without_surrogates(shown_block(block)).encode()}]


def _as_png(data: bytes, mime_type: str) -> bytes | None:
    """The image as PNG, the only format in cells; None if the image cannot be converted."""
    if mime_type == "image/png" and data.startswith(_PNG):
        return data
    try:
        from PIL import Image  # in KNIME's environments; not needed for the images that are PNG already

        png = io.BytesIO()
        with Image.open(io.BytesIO(data)) as image:
            image.save(png, "PNG")
        return png.getvalue()
    except Exception:  # a broken image from a server must not lose the text beside it
        return None


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    data = bytes(part["1"] or b"")
    if part["0"] == "png":
        # KNIME's own conversion writes an image's URL in place of its bytes.
        url = data.decode() if data.startswith(b"data:image/") else _png_url(data)
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": data.decode(errors="replace")}


def _png_url(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _arguments_text(arguments: Any) -> str:
    value = cast("object", arguments if isinstance(arguments, dict) else {UNREADABLE: str(arguments)})
    return json_text(value)


def _arguments(text: Any) -> Any:
    """The arguments in a cell: an object, or the text if it holds no object."""
    if not isinstance(text, str):
        return text or {}
    try:
        value = cast("object", json.loads(text or "{}"))
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict):
        return text
    arguments = cast("dict[str, Any]", value)
    return arguments[UNREADABLE] if list(arguments) == [UNREADABLE] else arguments
