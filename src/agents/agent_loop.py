"""The agent's loop: asks the model and runs the tools that it calls, until it answers.

Each run has its own event loop in the calling thread, so that a waiting request to the model can be canceled
at any moment. Tools run in other threads, a limited number at a time. At the end of every run, also after an
error, each tool call in the conversation has an answer, in the order of the calls.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ..audit.journal import JournalWriteError
from ..client.clock import POLL_SECONDS, StoppableClock
from ..types.errors import Canceled, MCPError, TimedOut
from ..types.texts import compact_json
from .agent_events import (
    LIMIT_PROMPT,
    AgentOptions,
    AgentOutcome,
    Ending,
    ModelAnswered,
    PromptGiven,
    RunEnded,
    TokenMeter,
    TokenUsage,
    ToolFinished,
    ToolStarted,
)
from .message_content import origin_of, text_of
from .model.model_errors import AnswerUnfit, IterationLimit, PromptFiltered, TooManyTools
from .model_calls import ModelCalls, Turn
from .model_messages import (
    answer,
    answer_of,
    called_in_text,
    estimated_usage,
    finish_reason,
    refusal_of,
    repair,
    settle,
)
from .toolbox.replies import ToolReply, ToolRequest
from .toolbox.tool_threads import in_thread, of_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .agent_events import AgentEvent
    from .model.agent_model import AgentModel
    from .model.model_errors import ModelError
    from .toolbox.replies import Toolbox

_GRACE_SECONDS: Final = 0.5
_PARALLEL_CALLS: Final = 4  # as many as servers of one process serve well
_REPAIRS: Final = 3  # a model that fails so often does not get it right
_ANSWER_SECONDS: Final = 60.0
_ANSWER_SHARE: Final = 0.2  # of the time limit, for the answer when it is reached
_CANCELED: Final = "Error: the run was canceled before this call was finished."
_LIMIT_REACHED: Final = "Error: the limit of this run was reached, so this call was not made."
_LATE: Final = "Error: the time limit of this run was nearly reached before this call was finished."
_SHORTER: Final = "Your message was cut off at the token limit. Ask for fewer calls with shorter arguments."


def run_agent(
    model: AgentModel,
    toolbox: Toolbox,
    messages: Sequence[BaseMessage],
    options: AgentOptions | None = None,
    *,
    turns: Turns | None = None,
    meter: TokenMeter | None = None,
    clock: StoppableClock | None = None,
    on_event: Callable[[AgentEvent], None] | None = None,
    is_canceled: Callable[[], bool] | None = None,
) -> AgentOutcome:
    """Runs an agent, blocking. Do not call it inside a running event loop.

    Args:
        model: The model.
        toolbox: The tools.
        messages: System message, history and prompt, each optional. A history with unanswered calls is
            repaired, and the outcome says so.
        options: The options of the run.
        turns: What is known of an interrupted run, and where to keep what becomes known.
        meter: Counts tokens against their limit, also those of others who use the model for the run.
        clock: The run's, which stands still while a person is asked.
        on_event: Called with each event, in the calling thread. An exception in it ends the run.
        is_canceled: Called every `POLL_SECONDS`, in the calling thread.

    Returns:
        The outcome, also of a run that failed or was canceled; each call in its messages has an answer.
    """
    options = options or AgentOptions()
    meter = meter or TokenMeter(options.token_limit)
    run = _AgentLoop(model, toolbox, messages, options, on_event or _ignore_event, meter, clock, turns)
    loop = asyncio.new_event_loop()
    # Threads that look up host names; the run does not wait for one that hangs.
    executor = ThreadPoolExecutor(max_workers=4, thread_name_prefix="agent")
    loop.set_default_executor(executor)
    try:
        return loop.run_until_complete(run.supervised(is_canceled or (lambda: False)))
    finally:
        # A stream of the model that was broken off is closed here; the garbage collector would do it in a
        # loop that is gone.
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        executor.shutdown(wait=False, cancel_futures=True)


class Turns(Protocol):
    """The turns of a run by their number, from 1, which outlive its process."""

    def known(self, number: int) -> Turn | None: ...

    def keep(self, number: int, turn: Turn) -> None: ...


class _AgentLoop:
    def __init__(
        self,
        model: AgentModel,
        toolbox: Toolbox,
        messages: Sequence[BaseMessage],
        options: AgentOptions,
        emit: Callable[[AgentEvent], None],
        meter: TokenMeter,
        clock: StoppableClock | None = None,
        turns: Turns | None = None,
    ) -> None:
        self._model = model
        self._toolbox = toolbox
        self._turns = turns
        self._options = options
        self._emit = emit
        self._clock = clock or StoppableClock()
        self._began = self._clock()
        total = options.total_timeout or math.inf
        self._until = self._began + total
        # Kept back from the tools, so that the model can still say what it knows by then.
        kept = min(_ANSWER_SECONDS, total * _ANSWER_SHARE) if options.answer_at_limit else 0.0
        self._tools_until = self._until - kept
        self._conversation, repairs = repair(messages)
        self._notes = list(repairs)
        # Endpoints refuse a conversation in which two calls have one id, and some models count theirs from
        # 1 in each turn.
        self._ids = {
            str(call["id"]) for m in self._conversation if isinstance(m, AIMessage) for call in m.tool_calls
        }
        self._meter = meter
        self._iterations = 0
        self._stopped = threading.Event()
        self._calls = ModelCalls(
            model,
            emit=emit,
            stream=options.stream,
            longest_wait=options.longest_wait,
            seconds_left=lambda: self._until - self._clock(),
            make_room=self._make_room,
        )
        # What refusals to other prompts have said.
        if model.fitting.context is not None:
            toolbox.make_room(model.fitting.context)
        if model.fitting.most_tools is not None:
            toolbox.offer_at_most(model.fitting.most_tools)

    async def supervised(self, is_canceled: Callable[[], bool]) -> AgentOutcome:
        """Runs until the end, the cancel button or the total clock, whichever comes first."""
        # The conversation as a task beside this loop:
        # a blocked synchronous call of a model could not be canceled.
        task = asyncio.create_task(self._converse(is_canceled))
        stop: MCPError | None = None
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=POLL_SECONDS)
                stop = self._reason_to_stop(is_canceled)
                if stop is not None and not task.done():
                    break
        finally:
            if not task.done():
                self._stopped.set()
                task.cancel()
                await asyncio.wait({task})
            await self._model.release_connections()  # they belong to this event loop, which ends
        if task.cancelled():
            return self._outcome(None, "", stop or Canceled("The run was canceled"))
        error = task.exception()
        if isinstance(error, MCPError):
            return self._outcome(None, "", error)
        return self._outcome(*task.result(), None)

    def _reason_to_stop(self, is_canceled: Callable[[], bool]) -> MCPError | None:
        if is_canceled():
            return Canceled("The run was canceled")
        if self._clock() < self._until:
            return None
        return TimedOut(
            f"The agent was not done after {self._options.total_timeout:g} seconds",
            kind="total",
            fix="Raise the total timeout, lower the iteration limit, or hand out faster tools",
        )

    def _outcome(self, ending: Ending | None, text: str, error: MCPError | None) -> AgentOutcome:
        outcome = AgentOutcome(
            messages=tuple(self._conversation),
            ending=ending,
            error=error,
            text=text,
            usage=self._meter.usage,
            iterations=self._iterations,
            duration=self._clock() - self._began,
            notes=(*self._notes, *self._calls.notes),
        )
        if ending is not None:
            self._emit(
                RunEnded(
                    ending=ending,
                    text=text,
                    usage=outcome.usage,
                    iterations=outcome.iterations,
                    duration=outcome.duration,
                )
            )
        return outcome

    async def _converse(self, is_canceled: Callable[[], bool]) -> tuple[Ending, str]:
        self._emit(PromptGiven(text=self._prompt(), at=datetime.now(UTC)))
        # One more than allowed: the model may answer after its last calls.
        for iteration in range(1, self._options.iteration_limit + 2):
            if is_canceled():  # while the calls were made: the model is not asked once more
                raise Canceled("The run was canceled")
            # Nothing to call: the form can be asked for at once.
            tried = 0 if self._options.answer_schema and not self._toolbox.definitions() else None
            try:
                message, calls = await self._turn(
                    self._conversation, iteration, final=tried is not None, tried=tried
                )
            except PromptFiltered as error:
                return Ending.REFUSED, error.sentence
            if not calls:
                ending, text = self._final(message)
                if ending is not Ending.REFUSED and self._options.answer_schema is not None:
                    # One that was cut off does not fit, and is asked for again.
                    return Ending.ANSWER, await self._in_form(message, iteration, 0 if tried is None else 1)
                return ending, text
            # Checked with the calls at hand and before any is made: their message is answered all the same.
            reached = self._limit_reached(iteration)
            if reached is not None:
                refused = (_unfinished(call, _LIMIT_REACHED) for call in calls)
                self._conversation += [message, *map(answer, refused)]
                return await self._answer_at_limit(iteration, reached)
            await self._run_tools(message, calls)
            if self._is_late():
                return await self._answer_at_limit(iteration, IterationLimit(_LATE))
        raise AssertionError("the last turn returns")

    def _prompt(self) -> str:
        prompts = [m for m in self._conversation if isinstance(m, HumanMessage)]
        return text_of(prompts[-1]) if prompts else ""

    async def _turn(
        self,
        messages: Sequence[BaseMessage],
        iteration: int,
        *,
        final: bool = False,
        tried: int | None = None,
    ) -> tuple[AIMessage, tuple[ToolRequest, ...]]:
        at, began = datetime.now(UTC), time.monotonic()
        turn: Turn | None = None if self._turns is None else self._turns.known(iteration)
        if turn is None:
            turn = await self._calls.ask(
                messages,
                self._toolbox.definitions(),
                iteration=iteration,
                final=final,
                schema=None if tried is None else self._options.answer_schema,
                tried=tried or 0,
            )
            if self._turns is not None:
                self._turns.keep(iteration, turn)
        is_uncounted = turn.usage.unreported and self._options.token_limit is not None
        estimated = self._estimate(messages, turn.message) if is_uncounted else TokenUsage()
        self._meter.add(turn.usage, estimated)
        self._iterations = iteration
        answered, schema = _with_refusal_as_text(turn.message), self._options.answer_schema
        if schema is not None and tried is not None:
            answered = schema.without_tool(answered)
        message, calls = settle(answered, taken=self._ids, iteration=iteration)
        # It called tools although asked not to, or a filter withheld what belongs to the calls.
        if calls and (final or refusal_of(message) is not None):
            message, calls = _without_calls(message), ()
        self._emit(
            ModelAnswered(
                iteration=iteration,
                message=message,
                usage=turn.usage,
                at=at,
                duration=time.monotonic() - began,
                attempts=turn.attempts,
            )
        )
        if not calls:
            self._conversation.append(message)
        return message, calls

    def _make_room(
        self, problem: ModelError, messages: Sequence[BaseMessage]
    ) -> tuple[Sequence[BaseMessage], Sequence[Mapping[str, Any]]] | None:
        """Has tools searched and long results shortened until something is less, see `ModelCalls`."""
        fitting = self._model.fitting
        if isinstance(problem, TooManyTools):
            makes_room = partial(self._toolbox.offer_at_most, fitting.most_tools or 0)
            note = f"The endpoint takes no more than {fitting.most_tools} tools, so the model has to search"
        else:
            makes_room = partial(self._toolbox.make_room, fitting.context)
            of = "" if fitting.context is None else f" of {fitting.context:,} tokens"
            note = (
                f"The conversation did not fit into the model's context{of}, so the model has to search for"
                " tools, or to read on in long results"
            )
        before, tools = list(self._conversation), self._toolbox.definitions()
        appended = messages[len(before) :]
        while makes_room():
            self._conversation[:] = map(self._shortened, self._conversation)
            if self._conversation != before or self._toolbox.definitions() != tools:
                self._notes += [] if note in self._notes else [note]
                return [*self._conversation, *appended], self._toolbox.definitions()
        return None

    def _shortened(self, message: BaseMessage) -> BaseMessage:
        if not isinstance(message, ToolMessage) or not isinstance(message.content, str):
            return message
        text = self._toolbox.shortened(message.content, origin_of(message))
        return message if text == message.content else message.model_copy(update={"content": text})

    def _estimate(self, messages: Sequence[BaseMessage], message: AIMessage) -> TokenUsage:
        if not self._meter.estimated.input:
            self._notes.append(
                "The model's endpoint does not say how many tokens it read and wrote, so their limit does not"
                " hold: it was kept by an estimate, four characters a token"
            )
        return estimated_usage(messages, self._toolbox.definitions(), message)

    def _final(self, message: AIMessage) -> tuple[Ending, str]:
        refusal = refusal_of(message)
        if refusal is not None:
            return Ending.REFUSED, refusal
        if self._toolbox.definitions() and called_in_text(message):
            self._notes.append(
                "The model wrote a tool call as text, so nothing was called: the endpoint does not read this"
                " model's tool calls. Choose another model, or have the server parse them (vLLM:"
                " --enable-auto-tool-choice and --tool-call-parser, llama.cpp: --jinja)"
            )
        return Ending.CUT_OFF if self._is_cut_off(message) else Ending.ANSWER, answer_of(message)

    def _is_cut_off(self, message: AIMessage) -> bool:
        is_cut_off = finish_reason(message) == "length"
        if is_cut_off:
            self._notes.append(
                "The answer was cut off at the model's token limit; raise the token limit in the node that"
                " connects the model"
            )
        return is_cut_off

    async def _in_form(self, message: AIMessage, iteration: int, tried: int) -> str:
        """The final answer, asked for again until it has the form that it must have.

        Raises `AnswerUnfit` if it never has; what the model answered last is then in the conversation.
        """
        schema = self._options.answer_schema
        if schema is None:
            return answer_of(message)
        for repair_number in range(_REPAIRS + 1):
            try:
                return compact_json(schema.read(answer_of(message)))
            except AnswerUnfit as problem:
                budget_left = self._meter.spent() is None
                if repair_number == _REPAIRS or not budget_left:
                    raise
                request = HumanMessage(schema.again(problem))
            iteration += 1
            message, _ = await self._turn(
                [*self._conversation, request], iteration, final=True, tried=tried + repair_number
            )
            del self._conversation[-2]  # the answer that another one stands for now
        raise AssertionError("the last attempt returns or raises")

    def _is_late(self) -> bool:
        """Whether the rest of the time limit is for the answer."""
        if not self._options.answer_at_limit or self._clock() < self._tools_until:
            return False
        self._notes.append("The time limit was nearly reached, so the answer is what the model knew by then")
        return True

    def _limit_reached(self, iteration: int) -> IterationLimit | None:
        """Which limit keeps the calls of this turn from being made; None for none."""
        spent = self._meter.spent()
        if spent is not None:
            self._notes.append(f"The tokens are used up: {spent}")
            return IterationLimit(
                f"The tokens are used up, and the model still asked for tools: {spent}",
                fix="Raise the most tokens, or let the agent give a final answer at the limit",
            )
        if self._is_late():
            return IterationLimit(_LATE)
        if iteration <= self._options.iteration_limit:
            return None
        return IterationLimit(
            f"The model still asked for tools after {self._options.iteration_limit} iterations",
            fix="Raise the iteration limit, ask for less at once, or let the agent give a final answer at the"
            " limit",
        )

    async def _answer_at_limit(self, iteration: int, reached: IterationLimit) -> tuple[Ending, str]:
        if not self._options.answer_at_limit:
            raise reached
        prompt = HumanMessage(content=LIMIT_PROMPT)
        tried = None if self._options.answer_schema is None else 0
        message, _ = await self._turn([*self._conversation, prompt], iteration + 1, final=True, tried=tried)
        self._is_cut_off(message)
        return Ending.LIMIT, await self._in_form(message, iteration + 1, 1)

    async def _run_tools(self, message: AIMessage, requests: Sequence[ToolRequest]) -> None:
        """Runs the calls of one turn."""
        if finish_reason(message) == "length":
            requests = _cut_off(requests)
        # Each call has its reply from the beginning on, whatever ends the turn.
        replies = [_unfinished(request) for request in requests]
        slots = asyncio.Semaphore(_PARALLEL_CALLS)
        tasks = [
            asyncio.create_task(self._run_tool(replies, number, slots)) for number in range(len(replies))
        ]
        late = set(tasks)
        try:
            while late and self._clock() < self._tools_until:
                _, late = await asyncio.wait(late, timeout=POLL_SECONDS)
            if late:  # at the time limit, if there is to be an answer
                self._stopped.set()
                await self._end(tasks)
                replies[:] = [_unfinished(r.request, _LATE) if r.unfinished else r for r in replies]
        except asyncio.CancelledError:
            await self._end(tasks)
            raise
        finally:
            # Calls and replies are added together, so that no call is ever without an answer.
            self._conversation += [message, *map(answer, replies)]
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Ends calls, after a moment: the tools see the cancel, and those that stop soon still reply."""
        await asyncio.wait(tasks, timeout=_GRACE_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _run_tool(self, replies: list[ToolReply], number: int, slots: asyncio.Semaphore) -> None:
        async with slots:
            if self._stopped.is_set():
                return
            reply = replies[number]
            request = reply.request
            shown_name = self._toolbox.shown_name(request.name)
            self._emit(ToolStarted(request=request, shown_name=shown_name, at=datetime.now(UTC)))
            clock = StoppableClock()
            began = clock()
            try:
                with of_call(clock):
                    reply = await in_thread(self._toolbox.run, request, is_canceled=self._stopped.is_set)
            except Canceled:
                if not self._stopped.is_set():
                    raise
            except JournalWriteError:
                self._stopped.set()  # no further calls, as they could not be recorded
                raise
            except Exception as error:  # a bug must not lose the conversation
                text = f"Error: the tool could not be run ({type(error).__name__})."
                reply = ToolReply(request=request, content=text, failed=True)
                self._notes.append(f"The call of '{shown_name}' failed inside of the agent: {error}")
            finally:
                replies[number] = reply
                self._emit(ToolFinished(reply=reply, shown_name=shown_name, duration=clock() - began))


def _cut_off(requests: Sequence[ToolRequest]) -> list[ToolRequest]:
    *others, last = requests
    if last.error is None and not last.arguments:  # cut off before its arguments, which does not mean none
        last = replace(last, arguments=None, error="It has no arguments.")
    return [
        request if request.error is None else replace(request, error=f"{_SHORTER} {request.error}")
        for request in (*others, last)
    ]


def _with_refusal_as_text(message: AIMessage) -> AIMessage:
    """Puts a refusal into the content, as endpoints reject assistant messages without content."""
    refusal = refusal_of(message)
    if refusal is None or answer_of(message):
        return message
    return message.model_copy(update={"content": refusal})


def _without_calls(message: AIMessage) -> AIMessage:
    text = answer_of(message)
    if not text:
        raise IterationLimit(
            "The model asked for tools even when it was asked for a final answer without them",
            fix="Raise the iteration limit, or choose another model",
        )
    return message.model_copy(update={"content": text, "tool_calls": []})


def _unfinished(request: ToolRequest, why: str = _CANCELED) -> ToolReply:
    return ToolReply(request=request, content=why, failed=True, unfinished=True)


def _ignore_event(event: AgentEvent) -> None:
    pass
