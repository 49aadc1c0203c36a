"""What servers ask while an agent uses them: rules and limits hold, a person decides, the views are told."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from ..client.clock import StoppableClock
from ..client.protocol.messages import INVALID_PARAMS, RpcError, as_object, as_text
from ..client.protocol.tools import ImageContent, describe_block, read_blocks
from ..runs.call_values import ToolAnswer
from ..runs.server_questions import REVIEW, answered_question, planned_question
from ..types.errors import ArgumentsInvalid, CallDenied
from ..types.texts import only_visible
from .agent_events import AgentOptions, Ending, ToolFinished, ToolStarted
from .agent_loop import run_agent
from .model.model_errors import PromptFiltered
from .toolbox.replies import ToolReply, ToolRequest, image_block
from .toolbox.tool_threads import of_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..client.protocol.tools import ContentBlock
    from ..runs.call_values import Ask, CallOutcome, PlannedCall, Verdict
    from ..runs.engine import CallInProgress
    from ..runs.server_questions import Reply
    from ..types.routing import ServerRoute
    from .agent_events import AgentEvent, TokenMeter
    from .model.agent_model import AgentModel
    from .toolbox.tool_executor import ToolExecutor

_PREFIX: Final = "asked"
"""Begins the ids of questions among those of the model's calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Answers the questions of servers, one at a time or several, in the threads in which they come.

    ``sample`` asks the model; ``tell`` takes the events, in any thread.
    """

    executor: ToolExecutor
    sample: Callable[[CallInProgress], ToolAnswer]
    tell: Callable[[AgentEvent], None]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def answer(self, route: ServerRoute, method: str, params: Mapping[str, Any]) -> Reply:
        """What the server is told."""
        try:
            plan, question = planned_question(route, method, params, self.executor.turn)
        except ArgumentsInvalid as error:
            return RpcError(INVALID_PARAMS, error.sentence)
        at, clock = datetime.now(UTC), StoppableClock()
        began = clock()
        objection = self.executor.objection
        hooks = (*self.executor.question_hooks, _PersonDecides(question, objection))
        review = _PersonDecides(REVIEW, objection)
        with of_call(clock):
            reply, outcome = answered_question(
                self.executor.run_of_calls, plan, question, hooks, self.sample, review
            )
        self._show(plan, outcome, at, clock() - began)
        return reply

    def _show(self, plan: PlannedCall, outcome: CallOutcome, at: datetime, seconds: float) -> None:
        record, tool = outcome.record, plan.tool
        assert tool is not None
        request = ToolRequest(
            id=f"{_PREFIX}{next(self._numbers)}",
            name=tool.name,
            arguments=json.loads(record.arguments or "{}"),
            iteration=plan.iteration or 0,
        )
        text = record.result or record.error or ""
        reply = ToolReply(request=request, content=text, record=record, tool=tool, failed=not record.ok)
        self.tell(ToolStarted(request=request, shown_name=tool.name, at=at))
        self.tell(ToolFinished(reply=reply, shown_name=tool.name, duration=seconds))


class _PersonDecides:
    """A hook: without a rule that denies it, a person decides about every question."""

    def __init__(self, question: Ask, objection: Callable[[PlannedCall], Verdict | None]) -> None:
        self._question = question
        self._objection = objection

    def before(self, plan: PlannedCall) -> Verdict:
        # A rule that denies comes first, so that nobody is asked what may not be.
        return self._objection(plan) or self._question

    def after(self, plan: PlannedCall, outcome: CallOutcome) -> None:  # noqa: ARG002
        return None


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
