"""KNIME's type for messages to and from chat models, so that tables outside KNIME can have such columns.

In KNIME the type is part of the AI extension.
"""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

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
            tool_calls=None
            if calls is None
            else [ToolCall(call["1"], call["0"], json.loads(call["2"])) for call in calls],
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
            else [{"0": call.id, "1": call.tool_name, "2": json.dumps(call.arguments)} for call in calls],
            "3": value.tool_call_id,
            "4": value.name,
        }
