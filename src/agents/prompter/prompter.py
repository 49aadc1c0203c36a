"""Answers one prompt with an agent: the messages to the model, the run, and the rows of the conversation.

Used by the node and by the command line; needs neither KNIME nor a terminal.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ...audit.journal import JournalWriteError
from ...client.clock import POLL_SECONDS, StoppableClock
from ...runs.checked_calls import described_tools
from ...runs.resuming import repeated_calls
from ...types.errors import Canceled, InputInvalid, MCPError, Unexpected, kind_and_place
from ...types.texts import canonical_json
from ..agent_events import Ending, ModelAnswered, ModelRetried, PromptGiven, RunEnded, TokenMeter, ToolStarted
from ..message_content import origin_of, text_of
from ..model.model_errors import PromptFiltered
from ..timeline import PromptTimeline, one_line
from ..toolbox.data_registry import DataRegistry, next_ids
from ..toolbox.tool_executor import ToolExecutor, ToolOptions
from ..toolbox.tool_threads import without_clocks
from .conversation_table import ConversationRow, Outcome, renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from langchain_core.messages import BaseMessage

    from ...audit.record import CallRecord
    from ...runs.call_values import Approver
    from ...runs.engine import Run, WorkflowRunner
    from ...runs.server_questions import ServerQuestions
    from ...types.tool import WorkflowTool
    from ..agent_events import AgentEvent, AgentOptions, AgentOutcome
    from ..model.agent_model import AgentModel
    from ..toolbox.built_ins import Links
    from ..toolbox.toolset import Toolset
    from .resuming import FinishedPrompts, KeptTurns

M = TypeVar("M", bound="BaseMessage")
ERROR_ENDING: Final = "error"
_log = logging.getLogger(__name__)

_WHOLE_TIMELINES: Final = 100
_SHOWN_NOTES: Final = 5
_SHOWN_CALLS: Final = 4
P = ParamSpec("P")
T = TypeVar("T")
_ENDINGS: Final = {
    Ending.LIMIT: "The iteration limit was reached: the answer is what the model knew by then",
    Ending.REFUSED: "The model refused to answer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt and its history; empty text continues the history, None is a missing cell.

    `row` is the RowID of the prompt, None for a single prompt.
    """

    text: str | None
    row: str | None = None
    history: tuple[ConversationRow, ...] = ()

    @property
    def says_nothing(self) -> bool:
        """True if neither prompt nor history holds anything that a model could answer."""
        has_messages = any(entry.message is not None for entry in self.history)
        return self.text is None or not (self.text or has_messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The outcome of a prompt: the conversation as rows, with the history, and an error at its end.

    `text` is the final answer, empty without one; `error` says why there is none. `ending` is None if the run
    failed.
    """

    prompt: Prompt
    entries: tuple[ConversationRow, ...]
    timeline: PromptTimeline
    registry: DataRegistry
    text: str = ""
    error: MCPError | None = None
    ending: Ending | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Prompter:
    """An agent that answers prompts, with a model without LangChain's retries.

    `data` are tables that tools can take; `to_table` turns an Arrow table into a table of the host. `records`
    are the finished calls, as the journal holds them.
    """

    model: AgentModel
    toolset: Toolset
    run: Run
    options: AgentOptions
    tool_options: ToolOptions
    system_message: str = ""
    data: Sequence[Any] = ()
    to_table: Callable[[Any], Any] | None = None
    approver: Approver | None = None  # asks a person, in the host's thread
    questions: ServerQuestions | None = None  # which servers ask; None: they are told that they cannot
    # The data of a conversation, and the resources that were linked; without them, each prompt has its own.
    registry: DataRegistry | None = None
    links: Links | None = None
    records: list[CallRecord] = field(default_factory=list["CallRecord"])

    def __post_init__(self) -> None:
        self.run.records.on_record = self.records.append

    def ask(
        self,
        prompt: Prompt,
        *,
        is_canceled: Callable[[], bool],
        host: HostThread,
        on_event: Callable[[AgentEvent], None] | None = None,
        turns: KeptTurns | None = None,
    ) -> Answered:
        """Answers a prompt, blocking, in any thread. A failure is part of the outcome; `Canceled` is raised.

        ``is_canceled`` (about every 0.1 s) and ``on_event`` are called in the calling thread. Workflows run
        in that of ``host``, which is another one, as it must run pending workflows. ``turns`` are those of an
        interrupted run, which is gone on with, and keep those of this one.
        """
        from ..agent_loop import run_agent

        if prompt.says_nothing:
            fix = "Fill in the cell, or remove the row" if prompt.row else "Enter one under 'User message'"
            return self.failed(prompt, InputInvalid("The prompt is missing", row=prompt.row, fix=fix))
        first_data, first_result = next_ids(
            text_of(entry.message) for entry in prompt.history if entry.message is not None
        )
        registry = self.registry
        if registry is None:
            registry = DataRegistry(self.data, to_table=self.to_table, first=first_data)
        timeline, ended, clock = PromptTimeline(row=prompt.row), threading.Event(), StoppableClock()
        telling = threading.Lock()  # servers ask in threads of their own

        def tell(event: AgentEvent) -> None:
            if isinstance(event, PromptGiven):
                event = replace(event, text=prompt.text or event.text)
            with telling:
                timeline.take(event)
                self._journal(prompt, event)
                if on_event is not None:
                    on_event(event)

        executor = ToolExecutor(
            self.toolset,
            self._part_of(prompt, host, ended, clock),
            registry=registry,
            options=self.tool_options,
            earlier=_origins(prompt.history),
            first_result=first_result,
            done=None if turns is None else turns.find,
            links=self.links,
        )
        messages, meter = self._messages(prompt, registry), TokenMeter(self.options.token_limit)
        try:
            with self._questions_answered(executor, meter, tell):
                outcome = run_agent(
                    self.model,
                    executor,
                    messages,
                    self.options,
                    turns=turns,
                    meter=meter,
                    clock=clock,
                    on_event=tell,
                    is_canceled=is_canceled,
                )
        finally:
            # KNIME may start a workflow late, when nobody waits for it any more.
            ended.set()
        text = outcome.text if outcome.error is None else str(outcome.error)
        ending = ERROR_ENDING if outcome.ending is None else outcome.ending.value
        # Before a cancel is raised, so that the journal has an end for
        # each prompt that it has a beginning of.
        self.run.note("answer", {"row": prompt.row, "text": text, "ending": ending})
        if isinstance(outcome.error, Canceled):
            raise outcome.error
        return self._answered(prompt, registry, timeline, outcome, tuple(executor.notes))

    def _questions_answered(
        self, executor: ToolExecutor, meter: TokenMeter, tell: Callable[[AgentEvent], None]
    ) -> AbstractContextManager[None]:
        """A context in which the servers' questions are about this prompt."""
        if self.questions is None:
            return nullcontext()
        from ..questions import Questions, ServerModel

        sample = ServerModel(self.model, self.options, meter)
        return self.questions.answered_by(Questions(executor=executor, sample=sample, tell=tell).answer)

    def described(self) -> dict[str, Any]:
        """What the agent was told, for the beginning of its journal."""
        options = {name: value for name, value in asdict(self.options).items() if value is not None}
        return {
            "model": self.model.name,
            "endpoint": self.model.server,
            "temperature": self.model.settings.temperature,
            "system": self._system(),
            "rules": [str(rule) for rule in self.tool_options.rules.rules],
            "trusted": list(self.tool_options.rules.trusted),
            "settings": options,
            "tools": described_tools(bound.tool for bound in self.toolset.bound),
        }

    def _journal(self, prompt: Prompt, event: AgentEvent) -> None:
        """Writes question and turns into the journal, before a call follows from them."""
        match event:
            case PromptGiven(text=text):
                said = [repr(entry.message) for entry in prompt.history]
                digest = sha256(canonical_json(said).encode()).hexdigest() if said else None
                self.run.note("prompt", {"row": prompt.row, "text": text, "history": digest})
            case ModelAnswered(iteration=iteration, message=message, usage=usage):
                calls = [
                    {"name": call["name"], "arguments": call["args"], "id": call["id"]}
                    for call in self._marked(message).tool_calls
                ]
                fields = {"row": prompt.row, "iteration": iteration, "text": text_of(message)}
                tokens = {"read": usage.input, "wrote": usage.output}
                self.run.note("turn", {**fields, "calls": calls, "usage": tokens})
            case _:
                pass

    def _part_of(
        self, prompt: Prompt, host: HostThread, ended: threading.Event, clock: StoppableClock
    ) -> Run:
        """A prompt's part of the run: workflows run in the host's thread, and none after the prompt ended."""
        run_workflow, digest = self.run.run_workflow, self.run.workflow_digest
        return replace(
            self.run,
            ask=None if self.approver is None else without_clocks(host.here(self.approver), clock),
            input_row=prompt.row,
            run_workflow=None if run_workflow is None else host.here(_until_ended(ended, run_workflow)),
            workflow_digest=None if digest is None else host.here(digest),
        )

    def _system(self) -> str:
        schema = self.options.answer_schema
        parts = (self.system_message, "" if schema is None else schema.instructions())
        return "\n\n".join(part for part in parts if part.strip())

    def _messages(self, prompt: Prompt, registry: DataRegistry) -> list[BaseMessage]:
        """System message, history, list of the data, prompt: in KNIME's order."""
        from langchain_core.messages import HumanMessage, SystemMessage

        messages: list[BaseMessage] = []
        if system := self._system():
            messages.append(SystemMessage(system))
        for entry in prompt.history:
            # The settings' system message counts; one of an earlier run would contradict it.
            if entry.message is not None and not isinstance(entry.message, SystemMessage):
                messages.append(renamed(entry.message, self.toolset.bound_name))
        if len(registry) or self.toolset.has_data:
            messages.append(HumanMessage(registry.message()))
        if prompt.text:
            messages.append(HumanMessage(prompt.text))
        return messages

    def _answered(
        self,
        prompt: Prompt,
        registry: DataRegistry,
        timeline: PromptTimeline,
        outcome: AgentOutcome,
        notes: tuple[str, ...],
    ) -> Answered:
        from langchain_core.messages import AIMessage, SystemMessage

        error = outcome.error
        messages = [m for m in outcome.messages if not isinstance(m, SystemMessage)]
        has_answer = bool(messages) and isinstance(messages[-1], AIMessage)
        if outcome.ending is Ending.REFUSED and not has_answer:
            error = PromptFiltered(outcome.text)  # from a filter before the model; it is no message
        if error is not None:
            error = error.at(row=prompt.row)
            timeline.error = str(error)
        timeline.seconds = outcome.duration
        row_outcome = Outcome(
            ending=ERROR_ENDING if error is not None or outcome.ending is None else outcome.ending.value,
            answer=outcome.text if error is None else None,
            iterations=outcome.iterations,
            usage=outcome.usage,
            duration=outcome.duration,
        )
        shown = [renamed(self._marked(message), self.toolset.shown_name) for message in messages]
        return Answered(
            prompt=prompt,
            entries=_rows(prompt, shown, error, row_outcome),
            timeline=timeline,
            registry=registry,
            text=outcome.text if error is None else "",
            error=error,
            ending=outcome.ending if error is None else None,
            notes=(*outcome.notes, *notes),
        )

    def _marked(self, message: M) -> M:
        """A model's message with the secrets in its arguments marked, as in the records."""
        from langchain_core.messages import AIMessage

        if not isinstance(message, AIMessage) or not message.tool_calls:
            return message
        secrets = self.run.secrets
        calls = [
            {**call, "args": self.toolset.marked(call["name"], call["args"], secrets)}
            for call in message.tool_calls
        ]
        return message.model_copy(update={"tool_calls": calls})

    def failed(self, prompt: Prompt, error: MCPError) -> Answered:
        """The answer for a prompt that was not sent to the model: its history and the error."""
        kept = [entry.message for entry in prompt.history if entry.message is not None]
        return Answered(
            prompt=prompt,
            entries=_rows(prompt, kept, error, Outcome(ending=ERROR_ENDING)),
            timeline=PromptTimeline(row=prompt.row, error=str(error)),
            registry=DataRegistry(self.data, to_table=self.to_table),
            error=error,
        )


def _until_ended(ended: threading.Event, run_workflow: WorkflowRunner) -> WorkflowRunner:
    """Wraps the workflow runner: raises `Canceled` for workflows that would start after the run ended."""

    def run(
        tool: WorkflowTool, arguments: dict[str, Any], tables: tuple[Any, ...]
    ) -> tuple[str, tuple[Any, ...]]:
        if ended.is_set():
            raise Canceled("The run ended before the workflow began")
        return run_workflow(tool, arguments, tables)

    return run


def _rows(
    prompt: Prompt, messages: Sequence[BaseMessage], error: MCPError | None, outcome: Outcome
) -> tuple[ConversationRow, ...]:
    """The conversation as rows: the history with its errors, the new messages, the new error."""
    rows = list(_with_errors(prompt.history, messages))
    if error is not None:
        rows.append(ConversationRow(error=str(error)))
    if rows:
        # *Answers* is made from the last row of each conversation.
        rows[-1] = replace(rows[-1], outcome=outcome)
    return tuple(replace(row, input_row=prompt.row) for row in rows)


def _with_errors(
    history: Sequence[ConversationRow], messages: Sequence[BaseMessage]
) -> Iterator[ConversationRow]:
    """Messages as rows; each error of the history keeps its position among the messages."""
    rows = (ConversationRow(message=message) for message in messages)
    for entry in history:
        if entry.error is None:
            yield from islice(rows, 1)
        else:
            yield ConversationRow(error=entry.error)
    yield from rows


def _origins(history: Sequence[ConversationRow]) -> Iterator[str]:
    """Who wrote the tool results in a history, and the prompts that servers have filled in."""
    from langchain_core.messages import ToolMessage

    for entry in history:
        if entry.message is None:
            continue
        origin = origin_of(entry.message)
        if origin or isinstance(entry.message, ToolMessage):
            yield origin


@dataclass(slots=True, kw_only=True)
class PromptRuns:
    """The prompts of one execution; `entries` are the rows of *Conversation*.

    With `keep_errors` an error becomes a row; otherwise it ends the execution. `finished` saves the finished
    conversations of several prompts; `first` is the outcome of the first one. Results of tools are dropped
    from the timelines after the first 100 prompts. `endings` are those of the prompts that did not fail,
    `notes` remarks for the user, without duplicates.
    """

    prompter: Prompter
    keep_errors: bool = False
    outputs: int = 0
    concurrency: int = 1
    finished: FinishedPrompts | None = None
    first: Answered | None = None
    entries: list[ConversationRow] = field(default_factory=list["ConversationRow"])
    timelines: list[PromptTimeline] = field(default_factory=list["PromptTimeline"])
    first_failure: str = ""
    failures: int = 0
    endings: list[Ending] = field(default_factory=list["Ending"])
    notes: dict[str, None] = field(default_factory=dict[str, None])
    _tables: deque[Any] = field(default_factory=deque[Any])

    def run(
        self,
        prompts: Sequence[Prompt],
        *,
        is_canceled: Callable[[], bool],
        on_progress: Callable[[float, str], None] | None = None,
        on_event: Callable[[AgentEvent], None] | None = None,
    ) -> None:
        """Answers all prompts; every callback is called in the calling thread.

        ``on_progress`` is called with the finished fraction and the present step. Raises `Canceled`, or the
        error of a prompt if errors are not kept; both name the journal of the finished calls.
        """
        report = on_progress or _ignore_progress
        # Only the last tables become outputs; the others are released.
        self._tables = deque(maxlen=max(self.outputs, 1))
        limit = self.prompter.options.iteration_limit
        progress = _Progress(report, [prompt.row for prompt in prompts], limit, on_event)
        if self.finished is not None:
            self.finished.take_over(prompts, self.prompter.run.take_over)
            again = repeated_calls(self.finished.unfinished)
            if again:
                self.notes[
                    f"Interrupted runs had made these calls for prompts that were asked again: {again};"
                    " look at whether their effects are there twice"
                ] = None
        # Even a single prompt gets its own thread: its other calls and its clocks go on while a workflow runs
        # in this thread.
        all_answered = answer_prompts(
            prompts, self._ask, concurrency=self.concurrency, is_canceled=is_canceled, on_event=progress
        )
        try:
            self._take_all(all_answered)
        except Canceled as error:
            raise self._canceled(error, len(self.timelines), len(prompts)) from None
        except MCPError as error:
            raise self._failure(error) from None
        report(1.0, "done")

    def data(self) -> list[Any]:
        """The tables for the data outputs: the last ones that tools produced."""
        registry = DataRegistry(self.prompter.data, to_table=self.prompter.to_table)
        for table in self._tables:
            registry.add(table, name="", description="")
        return registry.last_tables(self.outputs)

    def calls(self) -> list[CallRecord]:
        """The records of all calls, in the order in which they ended."""
        return sorted(self.prompter.records, key=lambda record: record.call)

    def question_and_answer(self) -> tuple[str, str]:
        """Prompt and answer of a single prompt; for several, their number."""
        if len(self.timelines) != 1:
            return f"{len(self.timelines)} prompts", ""
        timeline = self.timelines[0]
        return timeline.question, "" if timeline.ended is None else timeline.ended.text

    def warning(self) -> str | None:
        """All warnings for the user in one text; None without any."""
        return " ".join(self.warnings()) or None

    def warnings(self) -> list[str]:
        """All warnings for the user, one sentence each."""
        total = self.failures + len(self.endings)
        calls = self.calls()
        failed = [record for record in calls if not record.ok]
        sentences: list[str] = []
        if self.failures:
            scope = f"{self.failures} of {total} prompts failed; first: " if total > 1 else ""
            sentences.append(f"{scope}{self.first_failure}")
            sentences += self._to_resume()
        if failed:
            first = failed[0]
            reason = one_line(first.error or first.status.value, 300)
            name = first.tool_name or "unknown tool"
            sentences.append(f"{len(failed)} of {len(calls)} tool calls failed; first: {name}: {reason}")
        for ending, sentence in _ENDINGS.items():
            count = self.endings.count(ending)
            if count:
                sentences.append(f"{sentence} ({count} of {total} prompts)" if total > 1 else sentence)
        notes = list(self.notes)
        sentences += notes[:_SHOWN_NOTES]
        if len(notes) > _SHOWN_NOTES:
            sentences.append(f"{len(notes) - _SHOWN_NOTES} more remarks are in the log")
            _log.info("Remarks of the agent: %s", "; ".join(notes))
        return list(map(_sentence, sentences))

    def _ask(
        self,
        prompt: Prompt,
        *,
        is_canceled: Callable[[], bool],
        on_event: Callable[[AgentEvent], None],
        host: HostThread,
    ) -> Answered:
        try:
            answered = None if self.finished is None else self.finished.find(prompt, self.prompter.data)
            if answered is None:
                turns = self._turns_of(prompt)
                answered = self.prompter.ask(
                    prompt, is_canceled=is_canceled, on_event=on_event, host=host, turns=turns
                )
                self._keep(answered)
            return answered
        except (MCPError, JournalWriteError):
            raise
        except Exception as error:
            if not self.keep_errors or prompt.row is None:
                raise
            # A bug that fails one prompt must not lose the answers to the others.
            _log.error("Unexpected %s", kind_and_place(error))
            unexpected = Unexpected(
                f"Unexpected {type(error).__name__}",
                row=prompt.row,
                fix="Please report this together with the log",
            )
            return self.prompter.failed(prompt, unexpected)

    def _turns_of(self, prompt: Prompt) -> KeptTurns | None:
        if self.finished is None or prompt.says_nothing:
            return None
        return self.finished.turns_of(prompt, self.prompter.toolset, self.prompter.run)

    def _keep(self, answered: Answered) -> None:
        if self.finished is None:
            return
        self.finished.keep(answered)
        if self.finished.trouble:
            self.notes[f"Finished conversations cannot be kept: {self.finished.trouble}"] = None

    def _take_all(self, all_answered: Generator[Answered]) -> None:
        try:
            with closing(all_answered):
                for answered in all_answered:
                    if answered.error is not None and not self.keep_errors:
                        raise answered.error
                    self._take(answered)
        finally:
            self.prompter.run.records.finish()

    def _take(self, answered: Answered) -> None:
        self.first = self.first or answered
        self.entries += answered.entries
        if len(self.timelines) >= _WHOLE_TIMELINES:
            answered.timeline.forget_contents()
        self.timelines.append(answered.timeline)
        self.notes |= dict.fromkeys(answered.notes)
        if answered.error is not None:
            self.failures += 1
            self.first_failure = self.first_failure or str(answered.error)
        elif answered.ending is not None:
            self.endings.append(answered.ending)
        if self.outputs:
            self._tables.extend(answered.registry.made_tables)

    def _canceled(self, error: Canceled, done: int, total: int) -> Canceled:
        what = f"Canceled after {done} of {total} prompts" if total > 1 else error.what
        advice = " ".join(_sentence(text) for text in (*self._to_resume(), self._journal_text()) if text)
        return Canceled(what, fix=advice or None)

    def _to_resume(self) -> list[str]:
        """The advice for prompts without an answer."""
        if self.finished is None or not (self.finished.rows or self.prompter.records):
            return []
        return ["Switch on 'Resume an interrupted run' and execute again: only what is missing is asked then"]

    def _failure(self, error: MCPError) -> MCPError:
        journal = self._journal_text()
        fixed = error.at()
        fixed.fix = " ".join(_sentence(text) for text in (error.fix, journal) if text) or None
        return fixed

    def _journal_text(self) -> str | None:
        journal = self.prompter.run.journal
        if journal is None or not journal.count or journal.path is None:
            return None
        calls = "The tool call is" if journal.count == 1 else f"The {journal.count} tool calls are"
        return f"{calls} on record in {journal.path}"


class _Progress:
    def __init__(
        self,
        report: Callable[[float, str], None],
        rows: Sequence[str | None],
        limit: int,
        on_event: Callable[[AgentEvent], None] | None,
    ) -> None:
        self._tell = report
        self._on_event = on_event
        self._rows = rows
        self._limit = limit
        self._running: dict[tuple[int, int], list[str]] = {}
        self._done: dict[int, float] = {}

    def __call__(self, number: int, event: AgentEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)
        match event:
            case ToolStarted(request=request, shown_name=name):
                names = self._running.setdefault((number, request.iteration), [])
                names.append(name)
                shown = ", ".join(names[:_SHOWN_CALLS]) + (" …" if len(names) > _SHOWN_CALLS else "")
                self._say(number, request.iteration, f"step {request.iteration}: {shown}")
            case ModelAnswered(iteration=iteration, message=message) if not message.tool_calls:
                self._say(number, iteration, "answered")
            case ModelRetried(iteration=iteration, reason=reason, wait=wait):
                what = f"step {iteration}: the model again in {wait:.0f} s: {one_line(reason)}"
                self._say(number, iteration, what)
            case RunEnded():
                self._done[number] = 1.0
            case _:
                pass

    def _say(self, number: int, iteration: int, text: str) -> None:
        # One turn more than the limit is possible, and the prompt is done only behind it.
        self._done[number] = min(iteration / (self._limit + 2), 1.0)
        row, total = self._rows[number], len(self._rows)
        prefix = f"prompt {number + 1} of {total} ({row}), " if row is not None else ""
        self._tell(min(sum(self._done.values()) / total, 1.0), f"{prefix}{text}")


def _ignore_progress(_done: float, _text: str) -> None:
    pass


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def answer_prompts(
    prompts: Sequence[Prompt],
    ask: Callable[..., Answered],
    *,
    concurrency: int,
    is_canceled: Callable[[], bool],
    on_event: Callable[[int, AgentEvent], None],
) -> Generator[Answered]:
    """Answers prompts, several at a time, and yields the answers in the order of the prompts.

    ``ask`` answers one prompt, in any thread, see `Prompter.ask`; what it raises is raised here. Callbacks
    and workflows run in the calling thread; ``on_event`` is called with the position of the prompt and the
    event. After a cancel only the finished answers are yielded; all prompts have ended when `Canceled` is
    raised.
    """
    stop, wake = threading.Event(), threading.Event()
    events: queue.SimpleQueue[tuple[int, AgentEvent]] = queue.SimpleQueue()
    host = HostThread(wake.set)

    def tell(number: int, event: AgentEvent) -> None:
        events.put((number, event))
        wake.set()

    def work(number: int, prompt: Prompt) -> Answered:
        if stop.is_set():
            raise Canceled("The run was canceled")
        with _stops_others(stop):
            return ask(prompt, is_canceled=stop.is_set, on_event=partial(tell, number), host=host)

    def wait_for(future: Future[Answered]) -> Answered:
        while True:
            # Asked before the events are emptied: those that came before the end are told before it.
            done = future.done()
            while not events.empty():
                # Here and not in the prompts' threads: KNIME's progress is for its own thread.
                on_event(*events.get())
            host.run_pending()
            if done:
                return future.result()
            if is_canceled():
                stop.set()
                host.close()  # no further workflow begins
            wake.wait(POLL_SECONDS)
            wake.clear()

    with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="prompt") as executor:
        futures = deque(executor.submit(work, number, prompt) for number, prompt in enumerate(prompts))
        for future in futures:
            future.add_done_callback(lambda _: wake.set())
        try:
            canceled: Canceled | None = None
            while futures:  # yielded answers are released: conversations may be long
                try:
                    answered = wait_for(futures.popleft())
                except Canceled as error:
                    canceled = canceled or error
                    stop.set()
                    host.close()
                else:
                    yield answered
            if canceled is not None:
                raise canceled
        finally:
            stop.set()
            host.close()
            # Not waited for: a tool that hangs would keep KNIME's node from ending.
            executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _stops_others(stop: threading.Event) -> Generator[None]:
    """Sets the event `stop` when a prompt raises, so that no other prompt begins."""
    try:
        yield
    except BaseException:
        stop.set()
        raise


class HostThread:
    """Runs functions in the thread that creates the object: that in which KNIME executes the agent's node.

    KNIME's Python side could run workflow tools from any thread (`_execute_tool` has a connection per thread,
    and KNIME sets the node's context itself). But only for the node's thread does KNIME know that the node is
    waiting, and gives its place in the thread pool to the workflow's nodes. From other threads, as many
    agents as the pool has places would block each other forever. While a workflow runs, KNIME checks its
    cancel button itself, and the prompts' other calls and clocks go on in their threads.

    ``wake`` is called from any thread when a function is pending; it must make the host's thread call
    `run_pending`, such as the ``set`` of an event for which the thread waits.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._thread = threading.get_ident()
        self._pending: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._closed = False
        self._lock = threading.Lock()

    def here(self, function: Callable[P, T]) -> Callable[P, T]:
        """Wraps a function, so that calls from any thread run in the host's thread and wait for it.

        They raise `Canceled` if the host is closed before.
        """

        def call(*args: P.args, **options: P.kwargs) -> T:
            if threading.get_ident() == self._thread:
                return function(*args, **options)
            future: Future[T] = Future()
            with self._lock:
                if self._closed:
                    raise Canceled("The run is over")
                self._pending.append((future, partial(function, *args, **options)))
            self._wake()
            return future.result()

        return call

    def run_pending(self) -> None:
        """Runs the pending functions one after the other. Call it in the host's thread only."""
        while self._pending:
            future, function = self._pending.popleft()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
                # Ctrl-C must end the host's thread as well, and not only the call that waits for it.
                if not isinstance(error, Exception):
                    raise

    def close(self) -> None:
        """Refuses further calls; pending ones raise `Canceled`."""
        with self._lock:
            self._closed = True
            pending, self._pending = list(self._pending), deque()
        for future, _ in pending:
            future.set_exception(Canceled("The run is over"))
