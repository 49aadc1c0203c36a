"""One turn of a model: the request, what to do when it fails, and the answer in order.

Requests have no effects, so they are sent again as often as the kind of failure allows. Where an endpoint
objects to a part of a request, that part is changed for the next try: the oldest tool results are left out,
images become a note, ids of calls become others, what the model thought is left out, tools are described more
simply (see `model.tool_fitting`). The history itself keeps everything.
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
_MOST_CHANGES: Final = 40  # of what is said about tools, in one turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A model's message in one turn.

    Attributes:
        message: The answer as LangChain read it.
        usage: Its tokens.
        attempts: How often the request was sent.
    """

    message: AIMessage
    usage: TokenUsage
    attempts: int


@dataclass(frozen=True, slots=True)
class _ToolOffer:
    """The part of a request that is about tools.

    Some endpoints (Anthropic's and Amazon Bedrock's behind OpenAI's form) refuse a conversation with tool
    calls in it unless the request defines tools. Others refuse ``tool_choice``, or take no notice of it.

    Attributes:
        tools: Definitions of functions.
        choice: ``none`` where the model must not call them, None where it may.
        change: What is different from the offer before, in words.
    """

    tools: Sequence[Mapping[str, Any]] = ()
    choice: Literal["none"] | None = None
    change: str = ""


class ModelCalls:
    """Asks one model, turn after turn.

    Args:
        model: The model, without retries of its own.
        emit: Is told of retries and, when streaming, of text.
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
        self._turned = False  # into a stream, or out of it
        self._images = images
        self._seconds_left = seconds_left
        self._left_out: set[str] = set()  # ids of calls whose results are not sent any more
        self._plain_ids = False
        self._thoughts = True  # whether the model's go back to it
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
        """Asks the model.

        Args:
            messages: The history, in order.
            tools: Definitions of functions, sent as they are.
            iteration: The turn.
            final: Whether the model is to answer without calling any.

        Returns:
            An answer that says something: text, tool calls, or that the model refuses.

        Raises:
            ModelError: There is none, after all tries.
        """
        usage = TokenUsage()
        attempt = trims = changes = 0
        failures: Counter[type[ModelError]] = Counter()  # each kind has tries of its own
        offer, *others = _tool_offers(tools, messages, final=final)
        while True:
            attempt += 1
            offered = replace(offer, tools=self._fitting.fit(offer.tools))
            try:
                message = await self._once(self._sent(messages), offered, iteration)
                usage += usage_of(message)
                require_content(message)
                if not others or not _calls_all_the_same(message, offer):
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
        asked: Any = self._model
        if offer.tools:
            # `bind`, not `bind_tools`: that one rewrites the schemas.
            choice = {"tool_choice": offer.choice} if offer.choice else {}
            asked = self._model.bind(tools=[dict(tool) for tool in offer.tools], **choice)
        if not self._stream:
            return await asked.ainvoke(messages)

        def tell(text: str) -> None:
            self._emit(TextDelta(iteration=iteration, text=text))

        return await asked.ainvoke(messages, on_text=tell)

    def _emit(self, event: AgentEvent) -> None:
        try:
            self._listener(event)
        except Exception as error:
            self._listener_failed = error
            raise

    def _problem(self, error: Exception) -> ModelError:
        model = self._model
        found = model_error(
            error, model=model.model_name, server=model.openai_api_base, secrets=model.secrets
        )
        return found.with_traceback(None)

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
        """Changes what is sent next time, if that may help; says how, else None."""
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
        if problem.about_streaming and not self._turned:
            self._stream, self._turned = not self._stream, True
            return "sent again as a stream" if self._stream else "sent again without streaming"
        return None

    def _fit(
        self,
        problem: ModelError,
        tools: Sequence[Mapping[str, Any]],
        offered: Sequence[Mapping[str, Any]],
    ) -> str | None:
        """Changes what the endpoint is told of tools, if it objects to that; says how, else None."""
        if not isinstance(problem, ModelRequestRefused) and problem.status != 500:
            return None
        changed = self._fitting.learn(problem.what, tools, offered)
        if changed is None:
            return None
        self._note(changed)
        return "sent again with less about tools"

    def _leave_out_oldest(self, messages: Sequence[BaseMessage]) -> int:
        """Half of what there is; the newest result stays, for the model needs it to go on."""
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
        """Waits before the next try; raises the problem if there is none."""
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
    """The tool definitions to try, each after the one before was refused."""
    if tools and not final:
        return (_ToolOffer(tools),)
    if tools:
        return _ToolOffer(tools, "none"), _ToolOffer(change="sent again without tools")
    called = dict.fromkeys(
        call["name"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls
    )
    if not called:
        return (_ToolOffer(),)
    known = [_only_its_name(name) for name in called]
    return _ToolOffer(), _ToolOffer(known, "none", "sent again with the names of the tools in the history")


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


def _calls_all_the_same(message: AIMessage, offer: _ToolOffer) -> bool:
    return offer.choice == "none" and bool(message.tool_calls) and not text_of(message)


def _has_thoughts(message: BaseMessage) -> bool:
    return "message" in message.additional_kwargs.get(GIVEN_BACK, {})


def _without_thoughts(message: BaseMessage) -> BaseMessage:
    """A message without its own fields among those that go back; those of its calls stay."""
    if not _has_thoughts(message):
        return message
    back = {name: value for name, value in message.additional_kwargs[GIVEN_BACK].items() if name != "message"}
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, GIVEN_BACK: back}})


def _with_plain_ids(message: BaseMessage) -> BaseMessage:
    """Ids that all endpoints take: Mistral's wants nine letters and digits, others refuse long ones."""

    def plain(own: str | None) -> str:
        return hashlib.sha256(str(own).encode(errors="replace")).hexdigest()[:9]

    match message:
        case AIMessage():
            calls = [{**call, "id": plain(call["id"])} for call in message.tool_calls]
            return message.model_copy(update={"tool_calls": calls})
        case ToolMessage():
            return message.model_copy(update={"tool_call_id": plain(message.tool_call_id)})
        case _:
            return message
