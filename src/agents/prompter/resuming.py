"""Saves conversations as they go on, so that an interrupted run of an agent can be resumed.

KNIME discards the tables of a canceled node, and a killed process writes none. So each turn of the model is
written as a line of a file beside the journal of the calls, before its calls are made (see `KeptTurns`), and
each answered prompt as another one, with the rows of its conversation and the tables that its tools returned.
The next run takes finished conversations over, and goes on with the others after their last turn.
The first line of its own file names the run before, so that a second interruption does not lose the
conversations of the first run.

A run is gone on with by going through it again: the model's answers on file stand for those of the model,
and the calls on record for those of the tools, so that everything between them (data, long results, rules)
is as it was. Only what is on neither is asked or called. A call that was sent, and whose end is not on
record, is not made: the model is told that it may have been carried out.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import threading
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ...audit.journal import SUFFIX
from ...audit.journal_lines import JournalError
from ...audit.journal_reading import is_complete
from ...audit.record import CallStatus, plan_digest
from ...client.protocol.tools import ABSENT
from ...runs.call_values import CallOutcome, ToolAnswer
from ...runs.resuming import JournalAltered, to_resume
from ...types.errors import ArgumentsInvalid, MCPError, ProtocolError
from ...types.texts import canonical_json
from ...types.tool import MCPTool, WorkflowTool
from ..agent_events import Ending, PromptGiven, RunEnded, TokenUsage
from ..message_content import text_of
from ..timeline import PromptTimeline
from ..toolbox.data_registry import DataRegistry, table_of_text, table_text
from .conversation_table import (
    ERRORS,
    ConversationLayout,
    ConversationRow,
    MessageForm,
    Outcome,
    message_of,
)
from .prompter import Answered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from langchain_core.messages import AIMessage

    from ...audit.journal_reading import JournalContent
    from ...audit.record import CallRecord
    from ...runs.call_values import PlannedCall
    from ...runs.engine import Run
    from ..model_calls import Turn
    from ..toolbox.toolset import Toolset
    from .prompter import Prompt

_SUFFIX: Final = ".conversations"  # differs from the journal's suffix
_BEGUN: Final = ("row", "prompt", "run", "text")
_TURN: Final = ("row", "prompt", "run", "turn", "message", "usage", "attempts", "marked")
_FINISHED: Final = ("row", "prompt", "run", "at", "outcome", "notes", "rows", "tables")
_FOLLOWS: Final = "follows"  # key of the first line of a resuming run: the run before
_LAYOUT: Final = ConversationLayout(form=MessageForm.PLAIN, error_column=ERRORS)
_TABLES_LOST: Final = (
    "The Data outputs lack tables of workflows that ran in the interrupted run: only tables of MCP tools are"
    " taken over from it. Execute without 'Resume an interrupted run' if you need them"
)


class SecretsNotKept(MCPError):  # noqa: N818
    """A call of an interrupted run that was not made, and cannot be: its secrets are not in the journal."""

    CODE = "KMCP-RESUME"


@dataclass(slots=True)
class KeptTurns:
    """What is on file of a prompt's run, which may be interrupted again; see `agent_loop.Turns`.

    Attributes:
        write: Writes a turn, as a JSON object.
        turns: The turns on file by their number, from 1, without a gap.
        records: The calls on record, in the order in which they ended.
    """

    write: Callable[[dict[str, Any]], None]
    toolset: Toolset
    run: Run
    turns: Mapping[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    records: Iterable[CallRecord] = ()
    _left: dict[tuple[int | None, str], deque[CallRecord]] = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._left = defaultdict(deque)
        for record in self.records:
            self._left[record.iteration, plan_digest(record)].append(record)

    def known(self, number: int) -> Turn | None:
        """The model's answer on file, None if the model has to be asked."""
        from langchain_core.messages import messages_from_dict

        from ..model_calls import Turn

        kept = self.turns.get(number)
        if kept is None:
            return None
        (message,) = messages_from_dict([kept["message"]])
        usage = TokenUsage(**kept["usage"])
        return Turn(message=message, usage=usage, attempts=kept["attempts"])  # pyright: ignore[reportArgumentType]

    def keep(self, number: int, turn: Turn) -> None:
        """Writes an answer of the model, before any of its calls is made; secret arguments are marked."""
        from langchain_core.messages import message_to_dict

        message, is_marked = _marked(turn.message, self.toolset, self.run)
        self.write(
            {
                "turn": number,
                "message": json.loads(json.dumps(message_to_dict(message), default=str)),
                "usage": asdict(turn.usage),
                "attempts": turn.attempts,
                "marked": is_marked,
            }
        )

    def find(self, plan: PlannedCall, run: Run) -> CallOutcome | None:
        """The outcome of a call of an earlier turn; None if it has to be made."""
        kept = self.turns.get(plan.iteration or 0)
        if kept is None:
            return None
        for digest in _digests(plan, run):
            with self._lock, suppress(IndexError):
                # Popped, as a turn may have the same call twice.
                record = self._left[plan.iteration, digest].popleft()
                if record.status is CallStatus.UNKNOWN and run.unknown.get(digest):
                    run.unknown[digest].pop()  # the model is told of it here, once
                return _outcome(record, plan)
        # Nothing secret was left out of it, so it can be made now.
        if not kept["marked"]:
            return None
        error = SecretsNotKept(
            "The run was interrupted before this call was sent, and its secret arguments are not kept",
            fix="Nothing was done: call it again",
        )
        return run.call(replace(plan, error=error))


def _digests(plan: PlannedCall, run: Run) -> Iterator[str]:
    """How the call may be on record: with the arguments as the model wrote them, or as they were sent."""
    yield run.digest_of(plan)
    if isinstance(plan.tool, MCPTool):
        from ...runs.checked_calls import ArgumentValidator

        with suppress(ArgumentsInvalid, ProtocolError):
            arguments, changes = ArgumentValidator.for_schema(plan.tool.schema_json).check(
                dict(plan.arguments or {})
            )
            if changes:
                yield run.digest_of(replace(plan, arguments=arguments))


def _outcome(record: CallRecord, plan: PlannedCall) -> CallOutcome:
    if record.result is None and record.structured_result is None:
        return CallOutcome(record=record, tool=plan.tool)
    structured = ABSENT if record.structured_result is None else json.loads(record.structured_result)
    ports = plan.tool.output_ports if isinstance(plan.tool, WorkflowTool) else ()
    answer = ToolAnswer(text=record.result or "", structured=structured, outputs=(None,) * len(ports))
    return CallOutcome(record=record, tool=plan.tool, answer=answer)


def _marked(message: AIMessage, toolset: Toolset, run: Run) -> tuple[AIMessage, bool]:
    """The message without secrets in the arguments of its calls, and whether there are any.

    A message with secrets keeps only its text and its calls, as other members may repeat the arguments.
    """
    from langchain_core.messages import AIMessage

    from ..message_content import UNREADABLE_AT

    calls = [
        {**call, "args": toolset.marked(call["name"], call["args"], run.secrets)}
        for call in message.tool_calls
    ]
    hidden = [
        call
        for call in message.invalid_tool_calls
        if toolset.has_secrets(call["name"] or "", call["args"] or "", run.secrets)
    ]
    if not hidden and all(
        marked["args"] == call["args"] for marked, call in zip(calls, message.tool_calls, strict=True)
    ):
        return message, False
    unreadable = [{**call, "args": ""} if call in hidden else call for call in message.invalid_tool_calls]
    marked = AIMessage(
        content=text_of(message),
        id=message.id,
        tool_calls=calls,
        invalid_tool_calls=unreadable,
        additional_kwargs={UNREADABLE_AT: message.additional_kwargs.get(UNREADABLE_AT)},
    )
    return marked, True


@dataclass(slots=True)
class _Earlier:
    """What interrupted runs did for a prompt."""

    runs: dict[str, None] = field(default_factory=dict[str, None])
    text: str | None = None
    turns: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    finished: dict[str, Any] | None = None

    def take(self, line: dict[str, Any]) -> None:
        self.runs[line["run"]] = None
        match line:
            case {"turn": int(number)}:
                self.turns[number] = line
            case {"outcome": _}:
                self.finished = line
            case _:
                self.text = line["text"]

    def whole_turns(self) -> dict[int, dict[str, Any]]:
        """The turns up to the first that is not there."""
        count = next(number for number in itertools.count(1) if number not in self.turns)
        return {number: self.turns[number] for number in range(1, count)}


class FinishedPrompts:
    """The conversations of a run, and those of the interrupted runs before it.

    Safe to use from several threads. Create it before the run's journal: it writes the id of the run before,
    without which that journal cannot be resumed. ``outputs`` is the number of the node's data outputs, which
    is the most tables kept per prompt. With ``in_one_file`` all runs are in one journal, as on the command
    line, and have one file beside it.

    `rows` are the RowIDs of the prompts whose conversations are in the files, `unfinished` the calls of
    interrupted runs for prompts that are not gone on with, as they are other ones now, `trouble` why a line
    could not be written. Raises `JournalAltered` if a file of an interrupted run was changed.
    """

    def __init__(
        self,
        journal: Path,
        run: str,
        interrupted: JournalContent | None = None,
        *,
        outputs: int = 0,
        in_one_file: bool = False,
    ) -> None:
        self._path = journal.with_suffix(_SUFFIX)
        self._run = run
        self._outputs = outputs
        self._lock = threading.Lock()
        self._files = [self._path]
        self._earlier: dict[tuple[str | None, str], _Earlier] = {}
        self._records: defaultdict[tuple[str, str | None], list[CallRecord]] = defaultdict(list)
        self._taken_over: dict[str | None, dict[str, Any]] = {}
        self._gone_on: dict[str | None, tuple[dict[int, dict[str, Any]], list[CallRecord]]] = {}
        self.rows: set[str | None] = set()
        self.trouble = ""
        self.unfinished: list[CallRecord] = []
        # Another run, which nobody has gone on with, may have been interrupted.
        self._is_of_others = in_one_file and interrupted is None and self._path.exists()
        if in_one_file:
            if interrupted is not None:
                self._read(interrupted, self._path)
            return
        if interrupted is not None:
            self._write({_FOLLOWS: interrupted.run})
        while interrupted is not None:
            path = self._path.with_name(f"{interrupted.run}{_SUFFIX}")
            if path in self._files:  # the files name each other in a cycle
                return
            self._files.append(path)
            interrupted = self._read(interrupted, path)

    @property
    def resumed(self) -> int:
        """The number of conversations that were taken over."""
        return len(self._taken_over)

    def open_question(self) -> str | None:
        """The text of the only prompt that was begun and has no answer; None if there are more, or none.

        A single prompt may have an answer that nobody was told.
        """
        texts = [earlier.text for earlier in self._earlier.values() if earlier.finished is None]
        texts = texts or [earlier.text for earlier in self._earlier.values()]
        return texts[0] if len(texts) == 1 else None

    def take_over(self, prompts: Sequence[Prompt], keep: Callable[[CallRecord], CallRecord]) -> None:
        """Takes over the conversations of prompts that have the same row, text and history as before.

        `keep` is called with the records of their calls, and returns them as they are in this run.
        """
        for prompt in prompts if self._earlier else ():
            earlier = self._earlier.get((prompt.row, _digest(prompt)))
            if earlier is None:
                continue
            found = [self._records.pop((run, prompt.row), []) for run in earlier.runs]
            records = sorted(chain.from_iterable(found), key=lambda record: (record.run, record.call))
            if earlier.finished is not None:
                self._taken_over[prompt.row] = earlier.finished
                self.rows.add(prompt.row)
            else:  # a canceled call is made again, or it is one of those of which nobody knows
                records = [record for record in records if record.status is not CallStatus.CANCELED]
            kept = [keep(record) for record in records]
            if earlier.finished is None:
                self._gone_on[prompt.row] = earlier.whole_turns(), kept
        rows = {prompt.row for prompt in prompts}
        # What nobody has taken: calls of prompts that are another text now,
        # whose outcome counts all the same.
        left = chain.from_iterable(self._records.values())
        self.unfinished = [record for record in left if record.input_row in rows]

    def turns_of(self, prompt: Prompt, toolset: Toolset, run: Run) -> KeptTurns:
        """The turns of a prompt that were taken over; further ones are written as they come."""
        identity = {"row": prompt.row, "prompt": _digest(prompt), "run": self._run}
        self._note({**identity, "text": prompt.text})
        turns, records = self._gone_on.get(prompt.row, ({}, []))
        return KeptTurns(lambda turn: self._note({**identity, **turn}), toolset, run, turns, records)

    def find(self, prompt: Prompt, data: Sequence[Any]) -> Answered | None:
        """Finds the conversation that was taken over for a prompt; `data` are the tables for tools."""
        line = self._taken_over.get(prompt.row)
        return None if line is None else _answered(prompt, line, DataRegistry(data))

    def keep(self, answered: Answered) -> None:
        """Writes a conversation to the file, if it has an answer and a row."""
        outcome = answered.entries[-1].outcome if answered.entries else None
        start = answered.timeline.start
        if answered.ending is None or outcome is None or start is None:
            return
        tables = answered.registry.made_tables[-self._outputs :] if self._outputs else []
        self._note(
            {
                "row": answered.prompt.row,
                "prompt": _digest(answered.prompt),
                "run": self._run,
                "at": start.isoformat(),
                "outcome": asdict(outcome),
                "notes": answered.notes,
                "rows": [_LAYOUT.cells(entry) for entry in answered.entries],
                "tables": [table_text(table) for table in tables],
            }
        )
        self.rows.add(answered.prompt.row)

    def keep_until_next(self, about: str) -> None:
        """Keeps what a run that answered all prompts would be resumed from, in one file.

        Removes the files of the runs before: those that were gone on with, and complete ones of the same kind
        (see `Journal.about`).
        """
        # The next resumption reads one file only, so it has to hold all conversations.
        for line in self._taken_over.values():
            self._note({**line, "run": self._run})
        if self.trouble:
            return
        for path in {*self._files, *self._path.parent.glob(f"*{_SUFFIX}")} - {self._path}:
            # Files of other nodes stay, and so do those of runs that may still be resumed.
            if path in self._files or is_complete(path.with_suffix(SUFFIX), about):
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Removes the files, which are not needed after a run that answered all prompts."""
        for path in () if self._is_of_others else self._files:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _read(self, earlier: JournalContent, path: Path) -> JournalContent | None:
        """Reads the file of an interrupted run; returns the journal of the run before it, if any."""
        before: Path | None = None
        is_whole = earlier.outcome == "complete"  # see `keep_until_next`
        for record in earlier.records:
            # A record that was itself taken over is in the file of the run that made the call, which is
            # read as well.
            if is_whole or record.resumed_from is None:
                self._records[record.run, record.input_row].append(record)
        for line in _lines(path):
            if _FOLLOWS in line:
                before = self._path.parent / f"{line[_FOLLOWS]}{SUFFIX}"
            else:
                self._earlier.setdefault((line["row"], line["prompt"]), _Earlier()).take(line)
        if is_whole or before is None or not before.exists():
            return None
        try:
            return to_resume(before)
        except JournalError as error:
            raise JournalAltered(
                str(error), fix="Restore the file, or switch off 'Resume an interrupted run'"
            ) from None

    def _note(self, line: dict[str, Any]) -> None:
        try:
            self._write(line)
        except OSError as error:  # the run goes on, and cannot be resumed
            self.trouble = error.strerror or str(error)

    def _write(self, line: dict[str, Any]) -> None:
        data = f"{canonical_json(line)}\n".encode()
        # Opened for each line, so that nothing is left in a buffer when the process is killed.
        with self._lock, open(self._path, "ab", opener=_open_private) as file:
            file.write(data)


def _answered(prompt: Prompt, line: dict[str, Any], registry: DataRegistry) -> Answered:
    from datetime import datetime

    saved = Outcome(**line["outcome"])
    outcome = replace(saved, usage=TokenUsage(**line["outcome"]["usage"]))
    entries = [
        ConversationRow(message=message_of(cells, cells[_LAYOUT.column]), input_row=prompt.row)
        if cells.get(ERRORS) is None
        else ConversationRow(error=cells[ERRORS], input_row=prompt.row)
        for cells in line["rows"]
    ]
    entries[-1] = replace(entries[-1], outcome=outcome)
    for text in line["tables"]:
        if text is not None:
            registry.add(table_of_text(text), name="", description="")
    return Answered(
        prompt=prompt,
        entries=tuple(entries),
        timeline=_timeline(prompt, outcome, datetime.fromisoformat(line["at"])),
        registry=registry,
        text=outcome.answer or "",
        ending=Ending(outcome.ending),
        notes=(*line["notes"], *((_TABLES_LOST,) if None in line["tables"] else ())),
    )


def _timeline(prompt: Prompt, outcome: Outcome, at: datetime) -> PromptTimeline:
    timeline = PromptTimeline(row=prompt.row)
    timeline.take(PromptGiven(text=prompt.text or "", at=at))
    timeline.take(
        RunEnded(
            ending=Ending(outcome.ending),
            text=outcome.answer or "",
            usage=outcome.usage or TokenUsage(),
            iterations=outcome.iterations,
            duration=outcome.duration,
        )
    )
    return timeline


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, except an incomplete last line."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, data in enumerate(file, 1):
            # The process was killed while it wrote.
            if not data.endswith(b"\n"):
                return
            try:
                line = json.loads(data)
                names = _TURN if "turn" in line else _FINISHED if "outcome" in line else _BEGUN
                yield line if _FOLLOWS in line else {name: line[name] for name in names}
            except (ValueError, KeyError, TypeError):
                raise JournalAltered(
                    f"Line {number} of {path} is not as it was written, so nothing is taken from it",
                    fix="Restore the file, or switch off 'Resume an interrupted run'",
                ) from None


def _digest(prompt: Prompt) -> str:
    identity = [prompt.text, [_LAYOUT.cells(entry) for entry in prompt.history]]
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()


def _open_private(path: str, flags: int) -> int:
    # Conversations may hold what only their user is to read.
    return os.open(path, flags, 0o600)
