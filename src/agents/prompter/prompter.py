"""Answers one prompt with an agent: the messages to the model, the run, and the rows of the conversation.

Used by the node and by the command line; needs neither KNIME nor a terminal.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...client.clock import StoppableClock
from ...runs.checked_calls import described_tools
from ...types.errors import Canceled, InputInvalid, MCPError
from ...types.texts import canonical_json
from ..agent_events import Ending, ModelAnswered, PromptGiven, TokenMeter
from ..message_content import origin_of, text_of
from ..model.model_errors import PromptFiltered
from ..person_clock import without_clocks
from ..timeline import PromptTimeline
from ..toolbox.data_registry import DataRegistry, next_ids
from ..toolbox.tool_executor import ToolExecutor, ToolOptions
from .conversation_table import ConversationRow, Outcome, renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from langchain_core.messages import BaseMessage

    from ...audit.record import CallRecord
    from ...runs.call_values import Approver
    from ...runs.engine import Run, WorkflowRunner
    from ...runs.server_questions import ServerQuestions
    from ...types.tool import WorkflowTool
    from ..agent_events import AgentEvent, AgentOptions, AgentOutcome
    from ..model.agent_model import AgentModel
    from ..toolbox.linked_resources import Links
    from ..toolbox.toolset import Toolset
    from .prompt_runs import HostThread
    from .resuming import KeptTurns

T = TypeVar("T", bound="BaseMessage")
ERROR_ENDING: Final = "error"


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
        from ..questions import Questions
        from ..server_model import ServerModel

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

    def _marked(self, message: T) -> T:
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
