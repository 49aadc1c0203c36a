"""Asks the model of a run for a server (*sampling*), once a person has allowed it.

https://modelcontextprotocol.io/specification/2025-11-25/client/sampling. The model is the run's own, whatever
the server prefers, and what it costs counts for the run's budget.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from ..client.protocol.messages import as_object, as_text
from ..client.protocol.tools import ImageContent, describe_block, read_blocks
from ..runs.call_values import ToolAnswer
from ..types.errors import ArgumentsInvalid, CallDenied
from ..types.texts import only_visible
from .agent_events import AgentOptions, Ending
from .agent_loop import run_agent
from .model.model_errors import PromptFiltered
from .toolbox.replies import image_block

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..client.protocol.tools import ContentBlock
    from ..runs.engine import CallInProgress
    from .agent_events import TokenMeter
    from .model.agent_model import AgentModel
    from .toolbox.replies import ToolReply, ToolRequest


class ServerModel:
    """The model as servers may use it, within what is left of a run's budget."""

    def __init__(self, model: AgentModel, options: AgentOptions, meter: TokenMeter) -> None:
        self._model = model
        self._meter = meter
        self._options = replace(
            # The form of the answer and its limits are for the agent's user, and not for a server.
            options,
            answer_schema=None,
            answer_at_limit=False,
            stream=False,
            token_limit=None,
        )

    def __call__(self, call: CallInProgress) -> ToolAnswer:
        """The model's answer, structured as the result of ``sampling/createMessage``; else `MCPError`."""
        spent = self._meter.spent()
        if spent is not None:
            raise CallDenied(f"The tokens for the model are used up: {spent}", fix="Go on without the model")
        params = call.arguments
        model = self._model.within(_tokens(params), _texts(params.get("stopSequences")))
        outcome = run_agent(
            model,
            _NoTools(),
            messages_of(params),
            self._options,
            meter=self._meter,
            is_canceled=call.is_canceled,
        )
        if outcome.error is not None:
            raise outcome.error
        if outcome.ending is Ending.REFUSED:
            raise PromptFiltered(f"The model refused to answer: {outcome.text}")
        return ToolAnswer(
            text=outcome.text,
            structured={
                "role": "assistant",
                "content": {"type": "text", "text": outcome.text},
                "model": self._model.name,
                "stopReason": "maxTokens" if outcome.ending is Ending.CUT_OFF else "endTurn",
            },
        )


def messages_of(params: Mapping[str, Any]) -> list[BaseMessage]:
    """The messages of a ``sampling/createMessage``; raises `ArgumentsInvalid` if there is none."""
    system = as_text(params.get("systemPrompt"))
    messages: list[BaseMessage] = [SystemMessage(system)] if system else []
    listed = params.get("messages")
    for raw in map(as_object, cast("list[Any]", listed) if isinstance(listed, list) else []):
        content = raw.get("content")
        blocks = cast("list[Any]", content) if isinstance(content, list) else [content]
        kind = AIMessage if raw.get("role") == "assistant" else HumanMessage
        messages.append(kind(content=[block_for_model(block) for block in read_blocks(blocks)]))
    # Endpoints refuse a conversation without a question, or take it for one that the model is to continue.
    if not isinstance(messages[-1] if messages else None, HumanMessage):
        raise ArgumentsInvalid("There is no message that a model could answer", pointer="/messages")
    return messages


def block_for_model(block: ContentBlock) -> dict[str, Any]:
    """A block of a server as a model takes it: a text, without characters that nobody sees, or a picture."""
    if isinstance(block, ImageContent):
        return image_block(block)
    return {"type": "text", "text": only_visible(describe_block(block))}


def _tokens(params: Mapping[str, Any]) -> int | None:
    wanted = params.get("maxTokens")
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0 else None


def _texts(value: object) -> list[str]:
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return [text for text in listed if isinstance(text, str)]


class _NoTools:
    """A `Toolbox` without tools."""

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        return ()

    def shown_name(self, name: str) -> str:
        return name

    def make_room(self, context: int | None) -> bool:  # noqa: ARG002
        return False

    def offer_at_most(self, count: int) -> bool:  # noqa: ARG002
        return False

    def shortened(self, text: str, origin: str) -> str:  # noqa: ARG002
        return text

    def run(self, request: ToolRequest, **_: Any) -> ToolReply:
        raise AssertionError(f"the model was offered no {request.name}")
