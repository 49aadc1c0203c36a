"""KNIME's type for messages to and from chat models, so that tables outside KNIME can have such columns.

In KNIME the type is part of the AI extension.
"""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from knime.api._absent import not_here
from knime.api.types import PythonValueFactory


class MessageType(Enum):
    USER = "USER"
    TOOL = "TOOL"
    AI = "AI"


class MessageContentPartType(Enum):
    TEXT = "text"
    PNG = "png"


@dataclass
class MessageContentPart:
    """A part of a message; ``data`` is UTF-8 text or an image's bytes."""

    type: MessageContentPartType
    data: bytes


@dataclass
class ToolCall:
    tool_name: str
    id: str
    arguments: dict[str, Any]


@dataclass
class MessageValue:
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
    # KNIME stores the arguments as JSON text; what was stored as something else stays as it is.
    return ToolCall(
        storage["1"], storage["0"], json.loads(arguments) if isinstance(arguments, str) else arguments
    )


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


from_langchain_message = not_here("from_langchain_message")
to_langchain_message = not_here("to_langchain_message")
