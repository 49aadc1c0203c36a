"""Requests one turn from a model, and adapts and retries requests that fail.

Requests have no side effects, so they are sent again as often as the kind of failure allows. If an endpoint
objects to a part of a request, that part is changed for the next attempt: the oldest tool results or the
model's thoughts are left out, images become a note, ids of calls are replaced, tool definitions are
simplified (see `model.tool_fitting`). The history itself stays unchanged.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ..model.call_pieces import GIVEN_BACK
from ..model.model_errors import ContextTooLong, ModelAnswerInvalid, ModelError, ModelRequestRefused
from ..model.raised_errors import model_error
from .answers import require_content, usage_of
from .content import text_of
from .events import ModelRetried, TextDelta, TokenUsage
from .messages import has_images, sendable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..model.openai_model import EndpointModel
    from .events import AgentEvent

_LONGEST_WAIT: Final = 60.0
_FIRST_WAIT: Final = 0.5
_LEFT_OUT: Final = "[This result was left out to save space. Call the tool again if you need it.]"
_WORTH_LEAVING_OUT: Final = 4 * len(_LEFT_OUT)
_TRIMS: Final = 4
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
        self._images = images
        self._seconds_left = seconds_left
        self._left_out: set[str] = set()  # ids of calls whose results are no longer sent
        self._plain_ids = False
        self._thoughts = True  # False once the model's thoughts are no longer sent back
        self._fitting = model.fitting
        self.notes: list[str] = []

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
        attempt = trims = changes = 0
        failures: Counter[type[ModelError]] = Counter()  # each kind has its own number of tries
        offer, *others = _tool_offers(tools, messages, final=final)
        while True:
            attempt += 1
            offered = replace(offer, tools=self._fitting.fit(offer.tools))
            try:
                message = await self._once(self._sent(messages), offered, iteration)
                usage += usage_of(message)
                require_content(message)
                if not others or not _ignores_choice(message, offer):
                    return Turn(message=message, usage=usage, attempts=attempt)
                problem: ModelError = ModelRequestRefused("The model called tools where it must not")
            except Exception as error:
                if error is self._listener_failed:
                    raise
                problem = self._problem(error)
            changed = self._fit(problem, offer.tools, offered.tools) if changes < _MOST_CHANGES else None
            adapted = changed or self._adapt(problem, messages, trims)
            if adapted is None and others and isinstance(problem, ModelRequestRefused):
                offer = others.pop(0)
                adapted = offer.change
            if adapted is not None:
                changes += changed is not None
                trims += changed is None
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

    def _sent(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        if self._left_out:
            messages = [
                message.model_copy(update={"content": _LEFT_OUT})
                if isinstance(message, ToolMessage) and message.tool_call_id in self._left_out
                else message
                for message in messages
            ]
        sent = sendable(messages, images=self._images)
        if not self._thoughts:
            sent = [_without_thoughts(message) for message in sent]
        return [_with_plain_ids(message) for message in sent] if self._plain_ids else sent

    def _adapt(self, problem: ModelError, messages: Sequence[BaseMessage], trims: int) -> str | None:
        """Changes the next request if that may help; returns the change in words, else None."""
        if isinstance(problem, ContextTooLong) and trims < _TRIMS:
            left_out = self._leave_out_oldest(messages)
            if left_out:
                self._note(
                    "The conversation did not fit into the model's context, so its oldest tool results were"
                    " left out of what was sent"
                )
                return f"sent again without {left_out} tool results"
        if problem.about_call_ids and not self._plain_ids:
            self._plain_ids = True
            return "sent again with other ids of the tool calls"
        if not isinstance(problem, ModelRequestRefused):
            return None
        if problem.about_images and self._images and has_images(messages):
            self._images = False
            self._note(
                "The model takes no images, so those that tools returned were left out of what was sent"
            )
            return "sent again without images"
        if problem.about_thoughts and self._thoughts and any(map(_has_thoughts, messages)):
            self._thoughts = False
            return "sent again without the model's thoughts"
        if problem.about_streaming and not self._stream_changed:
            self._stream, self._stream_changed = not self._stream, True
            return "sent again as a stream" if self._stream else "sent again without streaming"
        return None

    def _fit(
        self,
        problem: ModelError,
        tools: Sequence[Mapping[str, Any]],
        offered: Sequence[Mapping[str, Any]],
    ) -> str | None:
        """Changes the tool definitions if the endpoint objects to them; returns the change, else None."""
        if not isinstance(problem, ModelRequestRefused) and problem.status != 500:
            return None
        changed = self._fitting.learn(problem.what, tools, offered)
        if changed is None:
            return None
        self._note(changed)
        return "sent again with less about tools"

    def _leave_out_oldest(self, messages: Sequence[BaseMessage]) -> int:
        """Leaves out the older half of the long tool results; the newest stays, as the model needs it."""
        results = [
            message.tool_call_id
            for message in messages
            if isinstance(message, ToolMessage)
            and message.tool_call_id not in self._left_out
            and len(str(message.content)) > _WORTH_LEAVING_OUT
        ]
        chosen = results[:-1][: (len(results) + 1) // 2]
        self._left_out.update(chosen)
        return len(chosen)

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

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


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


def _has_thoughts(message: BaseMessage) -> bool:
    return "message" in message.additional_kwargs.get(GIVEN_BACK, {})


def _without_thoughts(message: BaseMessage) -> BaseMessage:
    """A message without the reasoning that goes back to the endpoint; fields of its calls stay."""
    if not _has_thoughts(message):
        return message
    kwargs = message.additional_kwargs
    call_fields = {name: value for name, value in kwargs[GIVEN_BACK].items() if name != "message"}
    return message.model_copy(update={"additional_kwargs": {**kwargs, GIVEN_BACK: call_fields}})


def _with_plain_ids(message: BaseMessage) -> BaseMessage:
    """Replaces ids of calls: Mistral's endpoint accepts nine letters and digits only, others no long ids."""

    def plain(id_: str | None) -> str:
        return hashlib.sha256(str(id_).encode(errors="replace")).hexdigest()[:9]

    match message:
        case AIMessage():
            calls = [{**call, "id": plain(call["id"])} for call in message.tool_calls]
            return message.model_copy(update={"tool_calls": calls})
        case ToolMessage():
            return message.model_copy(update={"tool_call_id": plain(message.tool_call_id)})
        case _:
            return message
