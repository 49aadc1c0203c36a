"""Requests one turn from a model, and adapts and retries requests that fail.

Requests have no side effects, so they are sent again as often as the kind of failure allows. If an endpoint
objects to a part of a request, that part is changed for the next attempt: the messages (`MessageFitting`),
the definitions of the tools (see `model.tool_fitting`), or whether it streams.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    merge_message_runs,
)

from ..client.validation.argument_schemas import properties_in
from .agent_events import ModelRetried, TextDelta, TokenUsage
from .message_content import blocks_of, text_of
from .model.agent_model import ModelRequest
from .model.form_of_calls import read as read_reply
from .model.form_of_calls import response_format, told
from .model.model_errors import (
    ContextTooLong,
    ModelAnswerInvalid,
    ModelError,
    ModelRequestRefused,
    all_said,
    context_in,
    model_error,
)
from .model.written_calls import GIVEN_BACK
from .model_messages import count_words, finish_reason, require_content, usage_of

if TYPE_CHECKING:
    from .agent_events import AgentEvent
    from .answer_schema import AnswerSchema
    from .model.agent_model import AgentModel
    from .model.model_errors import ModelError


_LONGEST_UNASKED_WAIT: Final = 60.0
_FIRST_WAIT: Final = 0.5
_LEFT_OUT: Final = "[This result was left out to save space. Call the tool again if you need it.]"
_WORTH_LEAVING_OUT: Final = 4 * len(_LEFT_OUT)
_LESS: Final = "sent again with fewer tools or shorter results"
_FEWEST_READ: Final = 500
_IMAGES: Final = frozenset({"image", "image_url"})
_ANSWER_LIMIT: Final = re.compile(r"(?:output|completion) tokens|in the completion", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The answer as LangChain read it; tokens and number of all attempts."""

    message: AIMessage
    usage: TokenUsage
    attempts: int


@dataclass(frozen=True, slots=True)
class _ToolOffer:
    """The tools of a request; `choice` is ``none`` if the model must not call them, or names the one to call.

    Some endpoints (Anthropic's and Amazon Bedrock's behind OpenAI's form) refuse a conversation with tool
    calls in it unless the request defines tools. Others refuse ``tool_choice``, or ignore it.

    Attributes:
        change: The difference to the offer before, for people.
        form: The form of the answer, in the endpoint's own mode.
    """

    tools: Sequence[Mapping[str, Any]] = ()
    choice: Literal["none"] | dict[str, Any] | None = None
    change: str = ""
    form: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """A conversation and tools that take less of a context."""

    messages: Sequence[BaseMessage]
    tools: Sequence[Mapping[str, Any]]


MakeRoom = Callable[[int | None, Sequence[BaseMessage]], Room | None]


class ModelCalls:
    """Requests the turns of one run from a model.

    ``emit`` is called with retries and, when streaming, with text. ``seconds_left`` gives the seconds until
    the run's total clock runs out, infinite without one; no wait is longer than ``longest_wait``.
    ``make_room`` gives less of a conversation that does not fit into a context of so many tokens, None if
    nothing can be spared without a loss.
    """

    def __init__(
        self,
        model: AgentModel,
        *,
        emit: Callable[[AgentEvent], None],
        stream: bool,
        images: bool,
        seconds_left: Callable[[], float],
        longest_wait: float = 120.0,
        make_room: MakeRoom = lambda _problem, _messages: None,
    ) -> None:
        self._model = model
        self._make_room = make_room
        self._listener = emit
        self._listener_failed: Exception | None = None
        self._stream = stream
        self._stream_changed = False  # True once `_stream` was changed after an error
        self._seconds_left = seconds_left
        self._longest_wait = longest_wait
        self._messages = MessageFitting(images=images)
        self._tools = model.fitting
        self._tool_notes: dict[str, None] = {}
        self._no_tools: ModelError | None = None  # why tools are called in the form of an answer

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
        schema: AnswerSchema | None = None,
        tried: int = 0,
    ) -> Turn:
        """Requests one turn: an answer with content, that is text, tool calls or a refusal.

        The messages are as `settle` and `repair` leave them; the tools are sent unchanged unless the endpoint
        refuses them. With ``final`` the model must answer without calling tools, and with a ``schema`` in its
        form; ``tried`` ways of asking for it are left out, as they came to nothing. Raises `ModelError` if
        all attempts failed.
        """
        usage = TokenUsage()
        attempt = 0
        failures: Counter[type[ModelError]] = Counter()  # each kind has its own number of tries
        offers = _tool_offers(tools, messages, final=final)
        if schema is not None:
            ways = [offer for offer in _ways(schema) if offer.change not in self._tools.refused_ways]
            offers = (*ways[tried:], *offers)
        offer, *others = offers
        while True:
            await self._until_allowed(iteration)
            attempt += 1
            offered = replace(offer, tools=self._tools.fit(offer.tools))
            try:
                sent = self._messages.fit(messages)
                message = await self._once(sent, offered, iteration)
                # Also of an answer that is not used: it is paid for.
                usage += usage_of(message)
                self._compare(message, sent)
                if await self._drops_tools(message, sent, offered.tools, iteration):
                    continue
                require_content(message)
                if not others or not _ignores_choice(message, offer):
                    message = self._tools.called(message, offer.tools)
                    return Turn(message=message, usage=usage, attempts=attempt)
                said = ""
                problem: ModelError = ModelRequestRefused("The model called tools where it must not")
            except Exception as error:
                # A fault of our own listener, such as a journal that cannot be written, is no failure of
                # the model.
                if error is self._listener_failed:
                    raise
                problem = self._problem(error)
                said = all_said(error)
            room = self._room(problem, said, messages, iteration)
            if room is not None:
                messages, offer = room.messages, replace(offer, tools=offer.tools and room.tools)
                continue
            adapted = self._fit_tools(problem, said, offer.tools, offered.tools)
            # What an endpoint says is often about several parts: one change at a time, the least harmful
            # one first.
            adapted = adapted or self._messages.learn(problem, messages) or self._change_streaming(problem)
            if adapted is None and others and isinstance(problem, ModelRequestRefused):
                self._tools.refused_ways.add(offer.change)
                offer = others.pop(0)
                adapted = offer.change or "sent again without a form"
            if adapted is not None:
                self._emit(ModelRetried(iteration=iteration, reason=f"{problem.what}; {adapted}", wait=0.0))
                continue
            failures[type(problem)] += 1
            await self._wait(problem, failures, iteration)

    async def _once(self, messages: list[BaseMessage], offer: _ToolOffer, iteration: int) -> AIMessage:
        def tell(text: str) -> None:
            self._emit(TextDelta(iteration=iteration, text=text))

        if self._tools.in_form and not isinstance(offer.choice, dict):
            return await self._once_in_form(messages, offer)
        return await self._model.answer(
            ModelRequest(
                messages=messages,
                tools=offer.tools,
                tool_choice=offer.choice,
                response_format=offer.form,
                on_text=tell if self._stream else None,
            )
        )

    async def _once_in_form(self, messages: list[BaseMessage], offer: _ToolOffer) -> AIMessage:
        """Asks as an endpoint without tools has to be asked, and not as a stream: a person would see JSON."""
        tools = () if offer.choice == "none" else offer.tools
        form = offer.form or response_format(tools)
        request = ModelRequest(messages=told(messages, tools), response_format=form)
        message = await self._model.answer(request)
        if offer.form is not None or finish_reason(message) == "length":
            return message
        read = read_reply(message)
        if read is None:
            raise ModelRequestRefused(
                "The endpoint takes no tools, and no JSON schema for the answer either",
                fix="Choose a model that can call tools, or a server that holds to JSON schemas",
            )
        return read

    async def _drops_tools(
        self,
        message: AIMessage,
        sent: Sequence[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
        iteration: int,
    ) -> bool:
        """Learns whether the model was not told of the tools, which some servers leave out without a word.

        A word is at least one token for any model, and seldom more than 1.6. Between the two the endpoint is
        asked. It is found out once for each endpoint, with the first answer.
        """
        if not tools or self._tools.reads_tools or self._tools.in_form:
            return False
        if message.tool_calls or message.invalid_tool_calls:
            self._tools.reads_tools = True
            return False
        read, words = usage_of(message).input, sum(count_words(text_of(part)) for part in sent)
        least = words + sum(count_words(_described(tool["function"])) for tool in tools)
        if read < words:  # that is no count
            return False
        knows = read >= least and (read >= 1.6 * least or await self._model.knows_tools())
        self._tools.reads_tools = knows is not False
        if knows is False:
            dropped = self._tools.drop()
            self._tool_notes[dropped] = None
            self._emit(ModelRetried(iteration=iteration, reason=dropped, wait=0.0))
        return knows is False

    def _room(
        self, problem: ModelError, said: str, messages: Sequence[BaseMessage], iteration: int
    ) -> Room | None:
        """What is sent instead of a conversation that does not fit; None if nothing can be spared."""
        if not isinstance(problem, ContextTooLong) or _ANSWER_LIMIT.search(problem.what):
            return None
        self._tools.context = context_in(said) or self._tools.context
        room = self._make_room(self._tools.context, messages)
        if room is not None:
            self._emit(ModelRetried(iteration=iteration, reason=f"{problem.what}; {_LESS}", wait=0.0))
        return room

    def _emit(self, event: AgentEvent) -> None:
        try:
            self._listener(event)
        except Exception as error:
            self._listener_failed = error
            raise

    def _problem(self, error: Exception) -> ModelError:
        model = self._model
        problem = model_error(error, model=model.name, server=model.server, secrets=model.secrets)
        return problem.with_traceback(None)

    def _compare(self, message: AIMessage, sent: Sequence[BaseMessage]) -> None:
        """Tells a person if the endpoint read less than was sent: Ollama and others say so nowhere."""
        read, words = usage_of(message).input, sum(count_words(text_of(part)) for part in sent)
        # Fewer are counts of something else: what was not in a cache, or nothing at all.
        if _FEWEST_READ <= read < words:
            self._tool_notes[
                "The endpoint cut the conversation: it read fewer tokens than there were words, so the model"
                " does not know all of it. Raise its context at its server (Ollama: num_ctx), or lower"
                " what goes into it"
            ] = None

    def _change_streaming(self, problem: ModelError) -> str | None:
        is_about = isinstance(problem, ModelRequestRefused) and problem.about_streaming
        if self._stream_changed or not is_about:
            return None
        self._stream, self._stream_changed = not self._stream, True
        return "sent again as a stream" if self._stream else "sent again without streaming"

    def _fit_tools(
        self,
        problem: ModelError,
        said: str,
        tools: Sequence[Mapping[str, Any]],
        offered: Sequence[Mapping[str, Any]],
    ) -> str | None:
        # Some servers, such as llama.cpp, answer 500 where others refuse with 400.
        if not isinstance(problem, ModelRequestRefused) and problem.status != 500:
            return None
        changed = self._tools.learn(said or problem.what, tools, offered)
        if changed is None:
            return None
        self._tool_notes[changed] = None
        if self._tools.in_form:
            self._no_tools = problem
        return "sent again with tools in another form"

    async def _wait(self, problem: ModelError, failures: Counter[type[ModelError]], iteration: int) -> None:
        """Waits before the next attempt; raises the problem if no attempt is left."""
        if isinstance(problem, ModelRequestRefused) and self._no_tools is not None:
            raise self._no_tools
        if failures[type(problem)] >= problem.tries:
            raise problem
        wait = problem.retry_after
        if wait is None:
            wait = min(_LONGEST_UNASKED_WAIT, _FIRST_WAIT * 2 ** (failures.total() - 1))
            wait *= random.uniform(0.75, 1.25)  # noqa: S311 - jitter
        # The endpoint is well; the next answer is another roll of the dice.
        if isinstance(problem, ModelAnswerInvalid):
            wait = 0.0
        # The limit is one of the endpoint and not of this prompt.
        if problem.status == HTTPStatus.TOO_MANY_REQUESTS:
            self._model.throttle.hold(wait, problem)  # `ask` waits for it, and so do all other prompts
            return
        if wait > min(self._longest_wait, self._seconds_left()):
            raise problem
        self._emit(ModelRetried(iteration=iteration, reason=problem.what, wait=wait))
        await asyncio.sleep(wait)

    async def _until_allowed(self, iteration: int) -> None:
        """Waits as long as the endpoint asked any prompt to wait; raises its answer if that is too long."""
        while held := self._model.throttle.held():
            wait, problem = held
            if wait > min(self._longest_wait, self._seconds_left()):
                raise problem.at()
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
    # Some endpoints refuse a history with calls of tools that the request does not define.
    definitions = [_minimal_definition(name) for name in called]
    return _ToolOffer(), _ToolOffer(
        definitions, "none", "sent again with the names of the tools in the history"
    )


def _ways(schema: AnswerSchema) -> tuple[_ToolOffer, ...]:
    """The ways to have an answer in a form, see `answer_schema`; after them it is asked for in words."""
    return (
        _ToolOffer(form=schema.response_format(), change="sent again with a schema"),
        _ToolOffer([schema.tool()], schema.tool_choice(), "sent again with a tool to answer with"),
    )


def _described(function: Mapping[str, Any]) -> str:
    """What a template says of a tool, in whatever form."""
    names = properties_in(function.get("parameters", {}), function.get("parameters", {}))
    return " ".join([function["name"], function.get("description", ""), *names])


def _minimal_definition(name: str) -> dict[str, Any]:
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


class MessageFitting:
    """Adapts the messages of a run to what its endpoint refused so far; the history itself stays unchanged.

    Images of tools, which endpoints accept from users only, are always moved to a message of the user. What
    only some endpoints refuse is changed after the refusal: the oldest tool results or the model's thoughts
    are left out, images become a note, ids of calls are replaced, roles are put in turn.

    Attributes:
        notes: Remarks for the user: what the model was not told.
    """

    def __init__(self, *, images: bool = True) -> None:
        self._images = images
        self._left_out: set[str] = set()  # ids of calls whose results are no longer sent
        self._plain_ids = False
        self._in_turn = False  # True once roles are sent in turn
        self._system = True  # False once the system message is sent as the user's
        self._thoughts = True  # False once the model's thoughts are no longer sent back
        self.notes: dict[str, None] = {}

    def fit(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        if self._left_out:
            messages = [
                message.model_copy(update={"content": _LEFT_OUT})
                if isinstance(message, ToolMessage) and message.tool_call_id in self._left_out
                else message
                for message in messages
            ]
        sent = _with_images_moved(messages, images=self._images)
        if not self._thoughts:
            sent = [_without_thoughts(message) for message in sent]
        if self._in_turn:
            sent = _roles_in_turn(sent, system=self._system)
        return [_with_plain_ids(message) for message in sent] if self._plain_ids else sent

    def learn(self, problem: ModelError, messages: Sequence[BaseMessage]) -> str | None:
        """Learns from an error what to change in the next request; returns the change in words.

        `messages` is the history before `fit`. Returns None if no change may help.
        """
        if isinstance(problem, ContextTooLong):
            left_out = self._leave_out_oldest(messages)
            if left_out:
                self.notes[
                    "The conversation did not fit into the model's context, so its oldest tool results were"
                    " left out of what was sent"
                ] = None
                return f"sent again without {left_out} tool results"
        if problem.about_call_ids and not self._plain_ids:
            self._plain_ids = True
            return "sent again with other ids of the tool calls"
        if not isinstance(problem, ModelRequestRefused):
            return None
        if problem.about_images and self._images and _has_images(messages):
            self._images = False
            self.notes[
                "The model takes no images, so those that tools returned were left out of what was sent"
            ] = None
            return "sent again without images"
        if problem.about_thoughts and self._thoughts and any(map(_has_thoughts, messages)):
            self._thoughts = False
            return "sent again without the model's thoughts"
        if problem.about_system_message and self._system:
            self._system, self._in_turn = False, True
            return "sent again with the system message as the user's"
        if problem.about_roles and not self._in_turn:
            self._in_turn = True
            return "sent again with the roles in turn"
        return None

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


def _with_images_moved(messages: Sequence[BaseMessage], *, images: bool) -> list[BaseMessage]:
    """Moves the images of tools to a message of the user, the only place for them, or leaves them out."""
    sent: list[BaseMessage] = []
    image_content: list[Any] = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            if image_content:
                sent.append(HumanMessage(content=image_content))
                image_content = []
            sent.append(message)
            continue
        if isinstance(message.content, str):
            sent.append(message)
            continue
        texts: list[str] = []
        for block in blocks_of(message):
            if block.get("type") not in _IMAGES:
                texts.append(str(block.get("text", "")))
            elif images:
                if not image_content:
                    image_content.append(
                        {"type": "text", "text": "Images that the tools returned, in order:"}
                    )
                image_content.append(block)
                texts.append("[an image, shown in the next message]")
            else:
                texts.append("[an image, left out because the model does not take images]")
        sent.append(message.model_copy(update={"content": "\n".join(texts)}))
    if image_content:
        sent.append(HumanMessage(content=image_content))
    return sent


def _roles_in_turn(messages: Sequence[BaseMessage], *, system: bool) -> list[BaseMessage]:
    """Joins the user's messages that follow one another, and puts a word of the model between tool and user.

    Templates of some models want the roles in turn. With `system` False, the system message becomes the
    user's.
    """
    turns: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, HumanMessage) and turns and isinstance(turns[-1], ToolMessage):
            turns.append(AIMessage("I have read the results."))
        is_moved = isinstance(message, SystemMessage) and not system
        turns.append(HumanMessage(cast("Any", message.content)) if is_moved else message)
    return merge_message_runs(turns, chunk_separator="\n\n")


def _has_images(messages: Sequence[BaseMessage]) -> bool:
    return any(
        block.get("type") in _IMAGES
        for message in messages
        if isinstance(message, ToolMessage)
        for block in blocks_of(message)
    )


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
