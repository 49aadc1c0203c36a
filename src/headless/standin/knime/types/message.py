"""KNIME's type for messages to and from chat models, so that tables outside KNIME can have such columns.

In KNIME the type is part of the AI extension. LangChain is needed only to convert messages from and to
LangChain.
"""

import base64
import importlib
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from knime.api.types import PythonValueFactory


class MessageType(Enum):
    """The sender of a message."""

    USER = "USER"
    TOOL = "TOOL"
    AI = "AI"


class MessageContentPartType(Enum):
    """The type of a part of a message."""

    TEXT = "text"
    PNG = "png"


@dataclass
class MessageContentPart:
    """A part of a message; ``data`` is UTF-8 text or an image's bytes."""

    type: MessageContentPartType
    data: bytes


@dataclass
class ToolCall:
    """A tool call that a model requests."""

    tool_name: str
    id: str
    arguments: dict[str, Any]


@dataclass
class MessageValue:
    """A message of a user, a tool or a model."""

    message_type: MessageType
    content: list[MessageContentPart]
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        """The message as text: sender, content and tool calls. Used in files without cell types."""
        lines = [_shown(part) for part in self.content]
        lines += [f"{call.tool_name}({_text(call.arguments)})" for call in self.tool_calls or ()]
        who = " ".join(filter(None, (self.message_type.value.lower(), self.name)))
        return f"{who}: " + "\n".join(lines)


class MessageValueFactory(PythonValueFactory):
    """KNIME's value factory: a struct of type, content parts, tool calls, tool call id and name."""

    def __init__(self) -> None:
        super().__init__(MessageValue)

    def decode(self, storage: Any) -> Any:
        """See `PythonValueFactory`."""
        if storage is None:
            return None
        calls = storage["2"]
        return MessageValue(
            message_type=MessageType(storage["0"]),
            content=[
                MessageContentPart(MessageContentPartType(part["0"]), part["1"]) for part in storage["1"]
            ],
            tool_calls=None if calls is None else [_call(call) for call in calls],
            tool_call_id=storage.get("3"),
            name=storage.get("4"),
        )

    def encode(self, value: Any) -> Any:
        """See `PythonValueFactory`."""
        if value is None:
            return None
        calls = value.tool_calls
        return {
            "0": value.message_type.value,
            "1": [{"0": part.type.value, "1": part.data} for part in value.content],
            "2": None
            if calls is None
            else [{"0": call.id, "1": call.tool_name, "2": _text(call.arguments)} for call in calls],
            "3": value.tool_call_id,
            "4": value.name,
        }


def _shown(part: MessageContentPart) -> str:
    if part.type is MessageContentPartType.TEXT:
        return part.data.decode(errors="replace")
    return f"[{part.type.value}, {len(part.data):,} bytes]"


def _call(storage: dict[str, Any]) -> ToolCall:
    arguments = storage["2"]
    return ToolCall(
        storage["1"], storage["0"], json.loads(arguments) if isinstance(arguments, str) else arguments
    )


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def to_langchain_message(msg: MessageValue) -> Any:
    """Converts a message to LangChain's message."""
    made: Any = importlib.import_module("langchain_core.messages")
    parts = [_langchain_part(part) for part in msg.content]
    options: dict[str, Any] = {"content": parts or "", "name": msg.name}
    match msg.message_type:
        case MessageType.USER:
            return made.HumanMessage(**options)
        case MessageType.TOOL:
            return made.ToolMessage(tool_call_id=msg.tool_call_id, **options)
        case MessageType.AI:
            calls = [
                {"name": call.tool_name, "args": call.arguments, "id": call.id, "type": "tool_call"}
                for call in msg.tool_calls or ()
            ]
            return made.AIMessage(tool_calls=calls, id=msg.tool_call_id, **options)


def _langchain_part(part: MessageContentPart) -> dict[str, Any]:
    if part.type is MessageContentPartType.PNG:
        url = f"data:image/png;base64,{base64.b64encode(part.data).decode()}"
        return {"type": "image_url", "image_url": {"url": url}}
    try:
        text = part.data.decode()
    except UnicodeDecodeError:
        text = part.data.decode("latin-1")
    return {"type": "text", "text": text}


def from_langchain_message(lc_msg: Any) -> MessageValue:
    """Converts a message of LangChain.

    Raises:
        ValueError: the message is not of a person, a model or a tool, or has a part that is neither text nor
            image.
    """
    known: Any = importlib.import_module("langchain_core.messages")
    if isinstance(lc_msg, known.HumanMessage):
        return MessageValue(MessageType.USER, _parts(lc_msg.content), name=lc_msg.name)
    if isinstance(lc_msg, known.ToolMessage):
        parts = _parts(lc_msg.content)
        return MessageValue(MessageType.TOOL, parts, tool_call_id=lc_msg.tool_call_id, name=lc_msg.name)
    if isinstance(lc_msg, known.AIMessage):
        calls = [ToolCall(call["name"], call["id"], call["args"]) for call in lc_msg.tool_calls]
        return MessageValue(MessageType.AI, _parts(lc_msg.content), calls or None, lc_msg.id, lc_msg.name)
    raise ValueError(f"LangChain's {type(lc_msg).__name__} cannot become a message of KNIME's")


def _parts(content: Any) -> list[MessageContentPart]:
    return [_part(part) for part in ([content] if isinstance(content, str) else content)]


def _part(part: Any) -> MessageContentPart:
    if isinstance(part, str):
        return MessageContentPart(MessageContentPartType.TEXT, part.encode())
    match part.get("type"):
        case "text":
            return MessageContentPart(MessageContentPartType.TEXT, part.get("text", "").encode())
        case "image_url":  # as in KNIME, the data of such a part is the URL
            return MessageContentPart(MessageContentPartType.PNG, part["image_url"]["url"].encode())
        case kind:
            raise ValueError(f"a part of a message cannot be of the type {kind!r}")
