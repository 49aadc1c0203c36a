"""Requests one turn from a model: what its endpoint refuses is changed, and the request sent again.

=========================================== ==================================================================
what is seen                                what is done
=========================================== ==================================================================
429, trouble, words of a throttle           waited for, within the longest wait; no prompt sends meanwhile
a conversation that is too long             a lower token limit, then fewer tools and shorter results, then
                                            the oldest results are left out
more tools than the endpoint takes          the model searches for tools
a refusal about tools                       they go out in another form, see `ToolFitting`
one about another part                      that part is changed, see `Construct`
one of a form, or of tools not to be called the answer is asked for in the next way, see `_Offer`
one that says nothing of what it refuses    at most two further requests: schemas of tools that were not
                                            accepted before are said in words, and an empty text stands alone
                                            beside calls, then a word; before them the next `_Offer`
fewer tokens read than there were words     tools stand in words, or a person is told
=========================================== ==================================================================

Requests have no side effects, so they may be sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
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

from ..client.protocol.tools import format_size
from ..client.validation.argument_schemas import properties_in
from .agent_events import ModelRetried, TextDelta, TokenUsage
from .message_content import GIVEN_BACK, blocks_of, text_of
from .model.agent_model import ModelRequest
from .model.model_errors import (
    Construct,
    ContextTooLong,
    ModelAnswerInvalid,
    ModelBusy,
    ModelError,
    ModelRequestRefused,
    TooManyTools,
    all_said,
    context_in,
    model_error,
)
from .model.tool_fitting import begun_reply, in_words, read_reply, reply_format
from .model_messages import answer_of, count_words, finish_reason, require_content, usage_of

if TYPE_CHECKING:
    from collections.abc import Set

    from .agent_events import AgentEvent
    from .answer_schema import AnswerSchema
    from .model.agent_model import AgentModel

_FIRST_WAIT: Final = 0.5
_LEFT_OUT: Final = "[This result was left out to save space. Call the tool again if you need it.]"
_WORTH_LEAVING_OUT: Final = 4 * len(_LEFT_OUT)
_LESS: Final = "sent again with fewer tools or shorter results"
_FEWEST_READ: Final = 500
_IMAGES: Final = frozenset({"image", "image_url"})
_IMAGES_FOLLOW: Final = {"type": "text", "text": "Images that the tools returned, in order:"}
_GO_ON: Final = "Go on."
#: What other runs with the model may do again.
_OF_ONE_RUN: Final = frozenset({Construct.STREAM, Construct.LARGE_LIMIT, Construct.ONE_IMAGE})
_LEAST_LIMIT: Final = 64
_MOST_DOUBLINGS: Final = 7
_TOKENS_READ: Final = re.compile(
    r"(\d+) (?:input|prompt) tokens|(\d+) (?:in|of|from) the (?:messages|prompt|input)|(\d+) \+ \d+ >",
    re.IGNORECASE,
)

_ImageKey = tuple[str, int]  # the call's id or the place of the message, and the place among its blocks
_Tools = Sequence[Mapping[str, Any]]
MakeRoom = Callable[[ModelError, Sequence[BaseMessage]], tuple[Sequence[BaseMessage], _Tools] | None]
"""Gives less of a conversation that does not fit, and its tools; None if nothing can be spared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The answer as LangChain read it; tokens and number of all attempts."""

    message: AIMessage
    usage: TokenUsage
    attempts: int


@dataclass(frozen=True, slots=True)
class _Offer:
    """The tools of a request; `choice` is ``none`` if the model must not call them, or names the one to call.

    Some endpoints (Anthropic's and Amazon Bedrock's behind OpenAI's form) refuse a conversation with tool
    calls in it unless the request defines tools. Others refuse ``tool_choice``, or ignore it.

    Attributes:
        change: The difference to the offer before, for people.
        form: The form of the answer, in the endpoint's own mode.
    """

    tools: _Tools = ()
    choice: Literal["none"] | dict[str, Any] | None = None
    change: str = ""
    form: Mapping[str, Any] | None = None


@dataclass(slots=True)
class _Asked:
    """What is asked, before it is fitted to the endpoint; the first offer, and after its refusal the next.

    Attributes:
        sent: The tools as they were sent last.
        known: What was known to be refused when it was sent.
    """

    messages: Sequence[BaseMessage]
    offers: list[_Offer]
    sent: _Tools = ()
    known: Set[Construct] = frozenset()


class ModelCalls:
    """Requests the turns of one run from a model.

    ``emit`` is called with retries and, when streaming, with text. ``seconds_left`` gives the seconds until
    the run's total clock runs out, infinite without one; all waits for one answer together are no longer
    than ``longest_wait``.
    """

    def __init__(
        self,
        model: AgentModel,
        *,
        emit: Callable[[AgentEvent], None],
        stream: bool,
        seconds_left: Callable[[], float],
        longest_wait: float,
        make_room: MakeRoom,
    ) -> None:
        self._model = model
        self._make_room = make_room
        self._listener = emit
        self._listener_failed: Exception | None = None
        self._stream = stream
        self._stream_changed = False  # True once `_stream` was changed after an error
        self._token_limit = model.settings.token_limit
        self._seconds_left = seconds_left
        self._longest_wait = longest_wait
        self._waited = 0.0  # seconds, in the present turn
        self._messages = MessageFitting(model.refused)
        self._tools = model.fitting
        self._accepted: set[str] = set()  # names of tools that the endpoint has taken
        self._notes: dict[str, None] = {}
        self._no_tools: ModelError | None = None  # why tools are called in the form of an answer

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user: what the model was not told."""
        return (*self._notes, *self._messages.notes)

    async def ask(
        self,
        messages: Sequence[BaseMessage],
        tools: _Tools,
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
        failures: Counter[type[ModelError]] = Counter()  # each kind has its own number of tries
        self._waited = 0.0
        forms = [offer for offer in _forms(schema) if offer.change not in self._tools.refused_ways][tried:]
        asked = _Asked(messages, [*forms, *_offers(tools, messages, final=final)])
        for attempt in itertools.count(1):
            await self._until_allowed(iteration)
            said = ""
            try:
                sent = self._messages.fit(asked.messages)
                message = await self._once(sent, asked, iteration)
                # Also of an answer that is not used: it is paid for.
                usage += usage_of(message)
                if await self._drops_tools(message, sent, asked.sent, iteration):
                    continue
                require_content(message)
                self._messages.accepted(asked.messages)
                self._accepted |= {tool["function"]["name"] for tool in asked.sent}
                self._check_limit(message)
                if len(asked.offers) == 1 or not _ignores_choice(message, asked.offers[0]):
                    message = self._tools.called(message, asked.offers[0].tools)
                    return Turn(message=message, usage=usage, attempts=attempt)
                problem: ModelError = ModelRequestRefused("The model called tools where it must not")
            except Exception as error:
                # A fault of our own listener, such as a journal that cannot be written, is no failure of
                # the model.
                if error is self._listener_failed:
                    raise
                problem, said = self._problem(error), all_said(error)
            change = self._change(problem, said, asked)
            if change is not None:
                self._emit(ModelRetried(iteration=iteration, reason=f"{problem.what}; {change}", wait=0.0))
                continue
            failures[type(problem)] += 1
            await self._wait(problem, failures, iteration)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, messages: list[BaseMessage], asked: _Asked, iteration: int) -> AIMessage:
        def tell(text: str) -> None:
            self._emit(TextDelta(iteration=iteration, text=text))

        offer = asked.offers[0]
        asked.sent, asked.known = self._tools.fit(offer.tools), frozenset(self._model.refused)
        if self._tools.in_form and not isinstance(offer.choice, dict):
            return await self._once_in_form(messages, asked)
        # Not left out, as some servers then let the model call none.
        free = None if Construct.TOOL_CHOICE in self._model.refused else "auto"
        return await self._model.answer(
            ModelRequest(
                messages=messages,
                tools=asked.sent,
                tool_choice=offer.choice or free,
                response_format=offer.form,
                token_limit=self._token_limit,
                on_text=tell if self._stream else None,
            )
        )

    async def _once_in_form(self, messages: list[BaseMessage], asked: _Asked) -> AIMessage:
        """Asks as an endpoint without tools has to be asked, and not as a stream: a person would see JSON."""
        offer = asked.offers[0]
        tools = () if offer.choice == "none" else asked.sent
        message = await self._model.answer(
            ModelRequest(
                messages=in_words(messages, tools),
                response_format=offer.form or reply_format(tools),
                token_limit=self._token_limit,
            )
        )
        if offer.form is not None:
            return message
        read = read_reply(message)
        if read is None and finish_reason(message) == "length":
            return begun_reply(message)
        if read is None:
            raise ModelRequestRefused(
                "The endpoint takes no tools, and no JSON schema for the answer either",
                fix="Choose a model that can call tools, or a server that holds to JSON schemas",
            )
        return read

    async def _drops_tools(
        self, message: AIMessage, sent: Sequence[BaseMessage], tools: _Tools, iteration: int
    ) -> bool:
        """Learns from the tokens whether the model was told all: Ollama and others leave parts out silently.

        A word is at least one token for any model, and seldom more than 1.6. Between the two the endpoint is
        asked whether its model knows tools, once, with its first answer.
        """
        read, words = usage_of(message).input, sum(count_words(text_of(part)) for part in sent)
        # Fewer are counts of something else: what was not in a cache, or nothing at all.
        if _FEWEST_READ <= read < words:
            self._notes[
                "The endpoint cut the conversation: it read fewer tokens than there were words, so the model"
                " does not know all of it. Raise its context at its server (Ollama: num_ctx), or lower"
                " what goes into it"
            ] = None
        if not tools or self._tools.reads_tools or self._tools.in_form:
            return False
        if message.tool_calls or message.invalid_tool_calls:
            self._tools.reads_tools = True
            return False
        if read < words:  # that is no count
            return False
        least = words + sum(count_words(_described(tool["function"])) for tool in tools)
        knows = read >= least and (read >= 1.6 * least or await self._model.knows_tools())
        self._tools.reads_tools = knows is not False
        if knows is False:
            dropped = self._tools.drop()
            self._notes[dropped] = None
            self._emit(ModelRetried(iteration=iteration, reason=dropped, wait=0.0))
        return knows is False

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

    def _check_limit(self, message: AIMessage) -> None:
        """Gives the limit by its other name from now on if an answer went beyond it."""
        limit = self._token_limit
        if limit is None or usage_of(message).output <= limit:
            return
        if Construct.LIMIT_FIELD not in self._model.changes - self._model.refused:
            return
        self._model.refused.add(Construct.LIMIT_FIELD)
        self._notes[
            f"The endpoint did not keep to the token limit of {limit:,}; from now on it is given by its other"
            " name"
        ] = None

    def _change(self, problem: ModelError, said: str, asked: _Asked) -> str | None:
        """What the next request has otherwise, in words: one change, the least harmful; None for nothing."""
        if isinstance(problem, ContextTooLong):
            self._tools.context = context_in(said) or self._tools.context
            if Construct.LARGE_LIMIT in problem.refused and self._lower_limit(problem.said):
                return Construct.LARGE_LIMIT.value
            return self._less(problem, asked) or self._messages.leave_out(asked.messages, problem)
        # Some servers, such as llama.cpp, answer 500 where others refuse with 400.
        if (
            not isinstance(problem, ModelRequestRefused)
            and problem.status != HTTPStatus.INTERNAL_SERVER_ERROR
        ):
            return None
        if isinstance(problem, TooManyTools):
            most = problem.most or len(asked.sent)
            self._tools.most_tools = most if most < len(asked.sent) else len(asked.sent) // 2
            if less := self._less(problem, asked):
                return less
        learned = self._tools.learn(said or problem.what, asked.offers[0].tools, asked.sent)
        if learned is not None and self._tools.in_form:
            self._no_tools = problem
        if learned is not None or not isinstance(problem, ModelRequestRefused):
            return self._with_other_tools(learned)
        return self._without(problem, asked) or self._next_offer(asked) or self._guess(problem, asked)

    def _less(self, problem: ModelError, asked: _Asked) -> str | None:
        room = self._make_room(problem, asked.messages)
        if room is None:
            return None
        asked.messages, tools = room
        asked.offers[0] = replace(asked.offers[0], tools=asked.offers[0].tools and tools)
        return _LESS

    def _with_other_tools(self, learned: str | None) -> str | None:
        if learned is None:
            return None
        self._notes[learned] = None
        return "sent again with tools in another form"

    def _next_offer(self, asked: _Asked) -> str | None:
        if len(asked.offers) == 1:
            return None
        self._tools.refused_ways.add(asked.offers.pop(0).change)
        return asked.offers[0].change or "sent again without a form"

    def _without(self, problem: ModelError, asked: _Asked) -> str | None:
        """Changes what the endpoint has refused by its words, which are often about several parts."""
        offer = asked.offers[0]
        for construct in problem.refused:
            if construct in asked.known or construct not in self._model.changes:
                continue
            match construct:
                # Another prompt has learned it since this request was sent.
                case _ if construct in self._model.refused:
                    changed = True
                case Construct.STREAM:
                    changed = not self._stream_changed
                    self._stream, self._stream_changed = self._stream != changed, True
                case Construct.LARGE_LIMIT:
                    changed = self._lower_limit(problem.said)
                case Construct.ONE_IMAGE:
                    changed = self._messages.leave_out_image(asked.messages, problem.said)
                case Construct.TOOL_CHOICE:
                    changed = bool(asked.sent) and offer.choice is None
                case Construct.LIMIT_FIELD:
                    changed = self._token_limit is not None
                case _:
                    changed = self._messages.has(construct, asked.messages)
            if changed:
                if construct not in _OF_ONE_RUN:
                    self._model.refused.add(construct)
                return construct.value
        return None

    def _guess(self, problem: ModelError, asked: _Asked) -> str | None:
        """Changes what endpoints refuse most, for one that does not say what it refuses.

        What it has taken before is not at fault: the tools of an earlier turn, or else what is new since.
        """
        if type(problem) is not ModelRequestRefused or not problem.is_silent:
            return None
        change = None
        if not {tool["function"]["name"] for tool in asked.sent} <= self._accepted:
            change = self._with_other_tools(self._tools.guess(asked.offers[0].tools, asked.sent))
        beside = {Construct.NULL_BESIDE_CALLS, Construct.TEXT_BESIDE_CALLS}
        if beside <= asked.known:
            beside = {Construct.EMPTY_BESIDE_CALLS}
        if not beside <= asked.known and beside <= self._model.changes and _with_calls(asked.messages):
            self._model.refused |= beside
            change = change or "sent again with less beside the calls"
        return change

    def _lower_limit(self, said: str) -> bool:
        """Lowers the token limit to what fits beside the conversation, by the endpoint's own numbers."""
        limit, own = self._token_limit, self._model.settings.token_limit
        if limit is None or own is None:
            return False
        context, read = context_in(said), _TOKENS_READ.search(said)
        fits = min(limit, context or limit)
        if context and read:
            fits = context - int(next(filter(None, read.groups())))
        lower = fits if 0 < fits < limit else limit // 2
        if fits <= 0 or lower < _LEAST_LIMIT:
            self._token_limit = own
            return False
        self._token_limit = lower
        self._notes[
            f"The token limit of {own:,} was too high for the endpoint, so a lower one was sent: {said}"
        ] = None
        return True

    async def _wait(self, problem: ModelError, failures: Counter[type[ModelError]], iteration: int) -> None:
        """Waits before the next attempt; raises the problem if no attempt is left."""
        if isinstance(problem, ModelRequestRefused) and self._no_tools is not None:
            raise self._no_tools
        passes = isinstance(problem, ModelBusy) and problem.passes
        if self._waited >= self._longest_wait if passes else failures[type(problem)] >= problem.tries:
            raise problem
        backoff = _FIRST_WAIT * 2 ** min(failures.total() - 1, _MOST_DOUBLINGS)
        backoff *= random.uniform(0.75, 1.25)  # noqa: S311 - jitter
        left = self._longest_wait - (self._waited if passes else 0.0)
        wait = problem.retry_after or 0.0
        # A time that did not help, or none at all, would use up all tries in a moment.
        if not wait or failures.total() > 1:
            wait = max(min(backoff, left), wait)
        # The endpoint is well; the next answer is another roll of the dice.
        if isinstance(problem, ModelAnswerInvalid):
            wait = 0.0
        # The limit is one of the endpoint and not of this prompt.
        if problem.status == HTTPStatus.TOO_MANY_REQUESTS:
            self._model.throttle.hold(wait, problem)  # `ask` waits for it, and so do all other prompts
            return
        await self._sleep(wait, problem, iteration)

    async def _sleep(self, wait: float, problem: ModelError, iteration: int) -> None:
        if wait > min(self._longest_wait - self._waited, self._seconds_left()):
            raise problem.at()
        self._emit(ModelRetried(iteration=iteration, reason=problem.what, wait=wait))
        await asyncio.sleep(wait)
        self._waited += wait

    async def _until_allowed(self, iteration: int) -> None:
        """Waits as long as the endpoint asked any prompt to wait; raises its answer if that is too long."""
        while held := self._model.throttle.held():
            await self._sleep(*held, iteration)


def _offers(tools: _Tools, messages: Sequence[BaseMessage], *, final: bool) -> list[_Offer]:
    """The offers to try, each after the one before was refused."""
    if tools and not final:
        return [_Offer(tools)]
    if tools:
        return [_Offer(tools, "none"), _Offer(change="sent again without tools")]
    called = dict.fromkeys(call["name"] for message in _with_calls(messages) for call in message.tool_calls)
    # Some endpoints refuse a history with calls of tools that the request does not define.
    named = [_minimal_definition(name) for name in called]
    again = "sent again with the names of the tools in the history"
    return [_Offer(), *([_Offer(named, "none", again)] if named else [])]


def _forms(schema: AnswerSchema | None) -> list[_Offer]:
    """The ways to have an answer in a form, see `answer_schema`; after them it is asked for in words."""
    if schema is None:
        return []
    return [
        _Offer(form=schema.response_format(), change="sent again with a schema"),
        _Offer([schema.tool()], schema.tool_choice(), "sent again with a tool to answer with"),
    ]


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


def _ignores_choice(message: AIMessage, offer: _Offer) -> bool:
    return offer.choice == "none" and bool(message.tool_calls) and not answer_of(message)


class MessageFitting:
    """Adapts the messages of a run to what its endpoint refused so far; the history itself stays unchanged.

    Images of tools, which endpoints accept from users only, are always moved to a message of the user. What
    only some endpoints refuse is changed after the refusal: `refused` is what the endpoint refused of any
    run; the oldest tool results and single images are left out of one.

    Attributes:
        notes: Remarks for the user: what the model was not told.
    """

    def __init__(self, refused: set[Construct]) -> None:
        self._refused = refused
        self._left_out: set[str] = set()  # ids of calls whose results are no longer sent
        self._images_left_out: set[_ImageKey] = set()
        self._images_accepted: set[_ImageKey] = set()
        self.notes: dict[str, None] = {}

    def fit(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        if self._left_out:
            messages = [
                message.model_copy(update={"content": _LEFT_OUT})
                if isinstance(message, ToolMessage) and message.tool_call_id in self._left_out
                else message
                for message in messages
            ]
        images = Construct.IMAGES not in self._refused
        if not images and _images_of(messages):
            self.notes[
                "The model takes no images, so those of the conversation were left out of what was sent"
            ] = None
        sent = _with_images_moved(messages, images=images, left_out=self._images_left_out)
        # Endpoints refuse a conversation that ends with the model, or take it for a text to continue.
        if sent and isinstance(sent[-1], AIMessage):
            sent.append(HumanMessage(_GO_ON))
        if Construct.THOUGHTS in self._refused:
            sent = [_without_thoughts(message) for message in sent]
        if not self._refused.isdisjoint((Construct.ROLES, Construct.SYSTEM)):
            sent = _roles_in_turn(sent, system=Construct.SYSTEM not in self._refused)
        return [_with_plain_ids(m) for m in sent] if Construct.CALL_IDS in self._refused else sent

    def has(self, construct: Construct, messages: Sequence[BaseMessage]) -> bool:
        """Whether the messages, before `fit`, have what an endpoint refused."""
        match construct:
            case Construct.IMAGES:
                return bool(_images_of(messages))
            case Construct.THOUGHTS:
                return any(map(_has_thoughts, messages))
            case Construct.TEXT_BESIDE_CALLS:
                return any(text_of(message) for message in _with_calls(messages))
            case Construct.NULL_BESIDE_CALLS | Construct.EMPTY_BESIDE_CALLS:
                no_text = Construct.TEXT_BESIDE_CALLS in self._refused
                return any(no_text or not text_of(message) for message in _with_calls(messages))
            case _:
                return True

    def accepted(self, messages: Sequence[BaseMessage]) -> None:
        """The endpoint has taken these messages, so none of their images is at fault later on."""
        self._images_accepted |= _images_of(messages).keys()

    def leave_out_image(self, messages: Sequence[BaseMessage], said: str) -> bool:
        """Leaves out one image that an endpoint refused: the largest of those that it has not taken yet."""
        shown = {k: size for k, size in _images_of(messages).items() if k not in self._images_left_out}
        sizes = {k: size for k, size in shown.items() if k not in self._images_accepted} or shown
        if not sizes:
            return False
        key = max(sizes, key=lambda key: sizes[key])
        self._images_left_out.add(key)
        self.notes[
            f"The endpoint refused an image of {format_size(sizes[key] * 3 // 4)}, which was left out of what"
            f" was sent: {said}"
        ] = None
        return True

    def leave_out(self, messages: Sequence[BaseMessage], problem: ContextTooLong) -> str | None:
        """Leaves out some of a conversation that is too long; returns the change in words."""
        # Of a request with too many bytes, images are the most.
        if problem.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and self.leave_out_image(
            messages, problem.said
        ):
            return Construct.ONE_IMAGE.value
        left_out = self._leave_out_oldest(messages)
        if left_out:
            self.notes[
                "The conversation did not fit into the model's context, so its oldest tool results were left"
                " out of what was sent"
            ] = None
            return f"sent again without {left_out} tool results"
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


def _with_calls(messages: Sequence[BaseMessage]) -> list[AIMessage]:
    return [message for message in messages if isinstance(message, AIMessage) and message.tool_calls]


def _with_images_moved(
    messages: Sequence[BaseMessage], *, images: bool, left_out: Set[_ImageKey]
) -> list[BaseMessage]:
    """Moves the images of tools to a message of the user, the only place for them, or leaves images out."""
    sent: list[BaseMessage] = []
    moved: list[Any] = []
    for place, message in enumerate(messages):
        if moved and not isinstance(message, ToolMessage):
            sent.append(HumanMessage([_IMAGES_FOLLOW, *moved]))
            moved = []
        if isinstance(message.content, str):
            sent.append(message)
            continue
        content: list[Any] = []
        for number, block in enumerate(blocks_of(message)):
            if block.get("type") not in _IMAGES:
                content.append(block)
            elif not images:
                content.append(_text("[an image, left out because the model does not take images]"))
            elif _image_key(place, message, number) in left_out:
                content.append(_text("[an image, left out because the endpoint refused it]"))
            elif isinstance(message, ToolMessage):
                moved.append(block)
                content.append(_text("[an image, shown in the next message]"))
            else:
                content.append(block)
        if isinstance(message, ToolMessage):
            content = "\n".join(str(block.get("text", "")) for block in content)  # pyright: ignore[reportAssignmentType]
        sent.append(message.model_copy(update={"content": content}))
    return [*sent, HumanMessage([_IMAGES_FOLLOW, *moved])] if moved else sent


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image_key(place: int, message: BaseMessage, number: int) -> _ImageKey:
    return (message.tool_call_id if isinstance(message, ToolMessage) else f"message {place}", number)


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


def _images_of(messages: Sequence[BaseMessage]) -> dict[_ImageKey, int]:
    """The images of tools and of the user, with their size in a request, in characters."""
    return {
        _image_key(place, message, number): len(str(block))
        for place, message in enumerate(messages)
        for number, block in enumerate(blocks_of(message))
        if block.get("type") in _IMAGES
    }


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
