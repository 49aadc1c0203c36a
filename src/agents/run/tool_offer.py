"""What a request says about tools, and what it says instead when an endpoint refuses that.

Some endpoints (Anthropic's and Amazon Bedrock's behind OpenAI's form) refuse a conversation with tool calls
in it unless the request defines tools. Others refuse ``tool_choice``, or take no notice of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """What a request says about tools.

    Attributes:
        tools: Definitions of functions.
        choice: ``none`` where the model must not call them, None where it may.
        change: What is different from the offer before, in words.
    """

    tools: Sequence[Mapping[str, Any]] = ()
    choice: Literal["none"] | None = None
    change: str = ""


def tool_offers(
    tools: Sequence[Mapping[str, Any]], messages: Sequence[BaseMessage], *, final: bool
) -> tuple[ToolOffer, ...]:
    """Finds what to say about tools.

    Args:
        tools: The definitions that there are.
        messages: The conversation.
        final: Whether the model is to answer without calling any.

    Returns:
        What to say first, and what instead, each after the one before was refused.
    """
    if tools and not final:
        return (ToolOffer(tools),)
    if tools:
        return ToolOffer(tools, "none"), ToolOffer(change="sent again without tools")
    called = dict.fromkeys(
        call["name"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls
    )
    if not called:
        return (ToolOffer(),)
    known = [_only_its_name(name) for name in called]
    return ToolOffer(), ToolOffer(known, "none", "sent again with the names of the tools in the history")


def _only_its_name(name: str) -> dict[str, Any]:
    """The definition of a tool of which only the history knows."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": "Not available any more.",
            "parameters": {"type": "object", "properties": {}},
        },
    }
