"""Requests one turn from a model, and adapts and retries requests that fail.

Requests have no side effects, so they are sent again as often as the kind of failure allows. If an endpoint
objects to a part of a request, that part is changed for the next attempt: the messages (see
`message_fitting`), the definitions of the tools (see `model.tool_fitting`), or whether it streams.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from langchain_core.messages import AIMessage

from ..model.endpoint_errors import model_error
from ..model.model_errors import ModelAnswerInvalid, ModelError, ModelRequestRefused
from .answers import require_content, usage_of
from .content import text_of
from .events import ModelRetried, TextDelta, TokenUsage
from .message_fitting import MessageFitting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from ..model.openai_model import EndpointModel
    from .events import AgentEvent

_LONGEST_WAIT: Final = 60.0
_FIRST_WAIT: Final = 0.5
_MOST_CHANGES: Final = 40  # of tool definitions, in one turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A model's message in one turn.

    Attributes:
        message: The answer as LangChain read it.
        usage: The tokens of all attempts.
        attempts: The number of times that the request was sent.
    """

    message: AIMessage
    usage: TokenUsage
    attempts: int


@dataclass(frozen=True, slots=True)
class _ToolOffer:
    """The tools of a request.

    Some endpoints (Anthropic's and Amazon Bedrock's behind OpenAI's form) refuse a conversation with tool
    calls in it unless the request defines tools. Others refuse ``tool_choice``, or ignore it.

    Attributes:
        tools: Definitions of functions.
        choice: ``none`` if the model must not call them, None if it may.
        change: The difference to the offer before, for people.
    """

    tools: Sequence[Mapping[str, Any]] = ()
    choice: Literal["none"] | None = None
    change: str = ""


class ModelCalls:
    """Requests the turns of one run from a model.

    Args:
        model: The model, without LangChain's retries.
        emit: Called with retries and, when streaming, with text.
        stream: Whether to stream.
        images: Whether the model gets the images that tools return.
        seconds_left: Seconds until the run's total clock runs out, infinite without one.
    """

    def __init__(
        self,
        model: EndpointModel,
        *,
        emit: Callable[[AgentEvent], None],
        stream: bool,
        images: bool,
        seconds_left: Callable[[], float],
    ) -> None:
        self._model = model
        self._listener = emit
        self._listener_failed: Exception | None = None
        self._stream = stream
        self._stream_changed = False  # True once `_stream` was changed after an error
        self._seconds_left = seconds_left
        self._messages = MessageFitting(images=images)
        self._tools = model.fitting
        self._tool_notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user: what the model was not told."""
        return (*self._tool_notes, *self._messages.notes)

    async def ask(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
        *,
        iteration: int,
        final: bool = False,
    ) -> Turn:
        """Requests one turn from the model.

        Args:
            messages: The history, as `settle` and `repair` leave it.
            tools: Definitions of functions, sent unchanged unless the endpoint refuses them.
            iteration: The turn.
            final: Whether the model must answer without calling tools.

        Returns:
            An answer with content: text, tool calls or a refusal.

        Raises:
            ModelError: All attempts failed.
        """
        usage = TokenUsage()
        attempt = tool_changes = 0
        failures: Counter[type[ModelError]] = Counter()  # each kind has its own number of tries
        offer, *others = _tool_offers(tools, messages, final=final)
        while True:
            attempt += 1
            offered = replace(offer, tools=self._tools.fit(offer.tools))
            try:
                message = await self._once(self._messages.fit(messages), offered, iteration)
                usage += usage_of(message)
                require_content(message)
                if not others or not _ignores_choice(message, offer):
                    return Turn(message=message, usage=usage, attempts=attempt)
                problem: ModelError = ModelRequestRefused("The model called tools where it must not")
            except Exception as error:
                if error is self._listener_failed:
                    raise
                problem = self._problem(error)
            adapted = None
            if tool_changes < _MOST_CHANGES:
                adapted = self._fit_tools(problem, offer.tools, offered.tools)
                tool_changes += adapted is not None
            adapted = adapted or self._messages.learn(problem, messages) or self._change_streaming(problem)
            if adapted is None and others and isinstance(problem, ModelRequestRefused):
                offer = others.pop(0)
                adapted = offer.change
            if adapted is not None:
                self._emit(ModelRetried(iteration=iteration, reason=f"{problem.what}; {adapted}", wait=0.0))
                continue
            failures[type(problem)] += 1
            await self._wait(problem, failures, iteration)

    async def _once(self, messages: list[BaseMessage], offer: _ToolOffer, iteration: int) -> AIMessage:
        model: Any = self._model
        if offer.tools:
            # `bind`, as `bind_tools` would rewrite the schemas.
            choice = {"tool_choice": offer.choice} if offer.choice else {}
            model = self._model.bind(tools=[dict(tool) for tool in offer.tools], **choice)
        if not self._stream:
            return await model.ainvoke(messages)

        def tell(text: str) -> None:
            self._emit(TextDelta(iteration=iteration, text=text))

        return await model.ainvoke(messages, on_text=tell)

    def _emit(self, event: AgentEvent) -> None:
        try:
            self._listener(event)
        except Exception as error:
            self._listener_failed = error
            raise

    def _problem(self, error: Exception) -> ModelError:
        model = self._model
        problem = model_error(
            error, model=model.model_name, server=model.openai_api_base, secrets=model.secrets
        )
        return problem.with_traceback(None)

    def _change_streaming(self, problem: ModelError) -> str | None:
        """Changes whether the answer is streamed if the endpoint objects to it; returns the change."""
        is_about = isinstance(problem, ModelRequestRefused) and problem.about_streaming
        if self._stream_changed or not is_about:
            return None
        self._stream, self._stream_changed = not self._stream, True
        return "sent again as a stream" if self._stream else "sent again without streaming"

    def _fit_tools(
        self,
        problem: ModelError,
        tools: Sequence[Mapping[str, Any]],
        offered: Sequence[Mapping[str, Any]],
    ) -> str | None:
        """Changes the tool definitions if the endpoint objects to them; returns the change, else None."""
        if not isinstance(problem, ModelRequestRefused) and problem.status != 500:
            return None
        changed = self._tools.learn(problem.what, tools, offered)
        if changed is None:
            return None
        self._tool_notes[changed] = None
        return "sent again with less about tools"

    async def _wait(self, problem: ModelError, failures: Counter[type[ModelError]], iteration: int) -> None:
        """Waits before the next attempt; raises the problem if no attempt is left."""
        if failures[type(problem)] >= problem.tries:
            raise problem
        wait = problem.retry_after
        if wait is None:
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (failures.total() - 1)) * random.uniform(0.75, 1.25)  # noqa: S311 - jitter
        if isinstance(problem, ModelAnswerInvalid):
            wait = 0.0
        if wait > min(_LONGEST_WAIT, self._seconds_left()):
            raise problem
        self._emit(ModelRetried(iteration=iteration, reason=problem.what, wait=wait))
        await asyncio.sleep(wait)


def _tool_offers(
    tools: Sequence[Mapping[str, Any]], messages: Sequence[BaseMessage], *, final: bool
) -> tuple[_ToolOffer, ...]:
    """The offers to try, each after the one before was refused."""
    if tools and not final:
        return (_ToolOffer(tools),)
    if tools:
        return _ToolOffer(tools, "none"), _ToolOffer(change="sent again without tools")
    called = dict.fromkeys(
        call["name"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls
    )
    if not called:
        return (_ToolOffer(),)
    definitions = [_minimal_definition(name) for name in called]
    return _ToolOffer(), _ToolOffer(
        definitions, "none", "sent again with the names of the tools in the history"
    )


def _minimal_definition(name: str) -> dict[str, Any]:
    """A minimal definition for a tool that only the history names."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": "Not available any more.",
            "parameters": {"type": "object", "properties": {}},
        },
    }


def _ignores_choice(message: AIMessage, offer: _ToolOffer) -> bool:
    return offer.choice == "none" and bool(message.tool_calls) and not text_of(message)
