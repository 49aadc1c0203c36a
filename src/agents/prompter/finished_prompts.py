"""Saves each finished conversation, so that an interrupted run of many prompts can be resumed.

KNIME discards the tables of a canceled node, and a killed process writes none. So each answered prompt is
written as one line of a file beside the journal of the calls, with the rows of its conversation and the
tables that its tools returned. The next run takes these conversations over, and asks the model only for the
other prompts. The first line of its own file names the run before, so that a second interruption does not
lose the conversations of the first run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ...audit.journal import SUFFIX, JournalError
from ...runs.resuming import to_resume
from ...types.errors import MCPError
from ...types.texts import canonical_json
from ..agent_events import Ending, PromptGiven, RunEnded, TokenUsage
from ..timeline import PromptTimeline
from ..toolbox.data_registry import DataRegistry
from .conversation_history import message_of
from .conversation_table import ConversationLayout, Entry, MessageForm, Outcome
from .prompter import Answered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from ...audit.journal import JournalContent
    from ...audit.record import CallRecord
    from .prompter import Prompt

_SUFFIX: Final = ".conversations"  # differs from the journal's suffix
_FIELDS: Final = ("row", "prompt", "at", "outcome", "notes", "rows", "tables")
_FOLLOWS: Final = "follows"  # key of the first line of a resuming run: the run before
_ERRORS: Final = "Errors"
_LAYOUT: Final = ConversationLayout(form=MessageForm.PLAIN, error_column=_ERRORS)
_TABLES_LOST: Final = (
    "The Data outputs lack tables of workflows that ran in the interrupted run: only tables of MCP tools are"
    " taken over from it. Execute without 'Resume an interrupted run' if you need them"
)


class FinishedPrompts:
    """The finished conversations of a run, and those of the interrupted runs before it.

    Safe to use from several threads. Create it before the run's journal: it writes the id of the run before,
    without which that journal cannot be resumed. ``outputs`` is the number of the node's data outputs, which
    is the most tables kept per prompt.

    `rows` are the RowIDs of the prompts whose conversations are in the files, `unfinished` the calls of
    interrupted runs for prompts without an answer, which are asked again. Raises `MCPError` if a file of an
    interrupted run was changed.
    """

    def __init__(
        self, folder: Path, run: str, interrupted: JournalContent | None = None, *, outputs: int = 0
    ) -> None:
        self._path = folder / f"{run}{_SUFFIX}"
        self._outputs = outputs
        self._lock = threading.Lock()
        self._files = [self._path]
        self._earlier: dict[tuple[str, str], tuple[dict[str, Any], list[CallRecord]]] = {}
        self._taken_over: dict[str | None, dict[str, Any]] = {}
        self.rows: set[str] = set()
        self.unfinished: list[CallRecord] = []
        if interrupted is not None:
            self._write({_FOLLOWS: interrupted.run})
        while interrupted is not None:
            interrupted = self._read(interrupted)

    @property
    def resumed(self) -> int:
        """The number of conversations that were taken over."""
        return len(self._taken_over)

    def take_over(self, prompts: Sequence[Prompt], keep: Callable[[CallRecord], object]) -> None:
        """Takes over the conversations of prompts that have the same row, text and history as before.

        `keep` is called with the records of their calls.
        """
        for prompt in prompts if self._earlier else ():
            earlier = None if prompt.row is None else self._earlier.get((prompt.row, _digest(prompt)))
            if earlier is not None:
                self._taken_over[prompt.row], records = earlier
                self.rows.add(earlier[0]["row"])
                for record in records:
                    keep(record)
        rows = {prompt.row for prompt in prompts}
        self.unfinished = [record for record in self.unfinished if record.input_row in rows]

    def find(self, prompt: Prompt, data: Sequence[Any]) -> Answered | None:
        """Finds the conversation that was taken over for a prompt; `data` are the tables for tools."""
        line = self._taken_over.get(prompt.row)
        return None if line is None else _answered(prompt, line, DataRegistry(data))

    def keep(self, answered: Answered) -> None:
        """Writes a conversation to the file, if it has an answer and a row."""
        outcome = answered.entries[-1].outcome if answered.entries else None
        start = answered.timeline.start
        if answered.prompt.row is None or answered.ending is None or outcome is None or start is None:
            return
        tables = answered.registry.made_tables[-self._outputs :] if self._outputs else []
        self._write(
            {
                "row": answered.prompt.row,
                "prompt": _digest(answered.prompt),
                "at": start.isoformat(),
                "outcome": asdict(outcome),
                "notes": answered.notes,
                "rows": [_LAYOUT.cells(entry) for entry in answered.entries],
                "tables": [_table_text(table) for table in tables],
            }
        )
        self.rows.add(answered.prompt.row)

    def forget(self) -> None:
        """Removes the files, which are not needed after a run that answered all prompts."""
        for path in self._files:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _read(self, earlier: JournalContent) -> JournalContent | None:
        """Reads the file of an interrupted run; returns the journal of the run before it, if any."""
        path = self._path.parent / f"{earlier.run}{_SUFFIX}"
        if path in self._files:  # the files name each other in a cycle
            return None
        self._files.append(path)
        before: Path | None = None
        records: defaultdict[str | None, list[CallRecord]] = defaultdict(list)
        for record in earlier.records:
            if record.resumed_from is None:
                records[record.input_row].append(record)
        for line in _lines(path):
            if _FOLLOWS in line:
                before = self._path.parent / f"{line[_FOLLOWS]}{SUFFIX}"
            else:
                self._earlier[line["row"], line["prompt"]] = line, records.pop(line["row"], [])
        self.unfinished += chain.from_iterable(records.values())
        if before is None or not before.exists():
            return None
        try:
            return to_resume(before)
        except JournalError as error:
            raise MCPError(
                str(error), fix="Restore the file, or switch off 'Resume an interrupted run'"
            ) from None

    def _write(self, line: dict[str, Any]) -> None:
        data = f"{canonical_json(line)}\n".encode()
        with self._lock, open(self._path, "ab", opener=_open_private) as file:
            file.write(data)


def _answered(prompt: Prompt, line: dict[str, Any], registry: DataRegistry) -> Answered:
    from datetime import datetime

    saved = Outcome(**line["outcome"])
    outcome = replace(saved, usage=TokenUsage(**line["outcome"]["usage"]))
    entries = [
        Entry(message=message_of(cells, cells[_LAYOUT.column]), input_row=prompt.row)
        if cells.get(_ERRORS) is None
        else Entry(error=cells[_ERRORS], input_row=prompt.row)
        for cells in line["rows"]
    ]
    entries[-1] = replace(entries[-1], outcome=outcome)
    for text in line["tables"]:
        if text is not None:
            registry.add(_table(text), name="", description="")
    return Answered(
        prompt=prompt,
        entries=tuple(entries),
        timeline=_timeline(prompt, outcome, datetime.fromisoformat(line["at"])),
        registry=registry,
        text=outcome.answer or "",
        ending=Ending(outcome.ending),
        notes=(*line["notes"], *((_TABLES_LOST,) if None in line["tables"] else ())),
    )


def _table_text(table: Any) -> str | None:
    """An Arrow table as text; None for KNIME's own tables, which another KNIME may not be able to read."""
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def _table(text: str) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_all()


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
            if not data.endswith(b"\n"):
                return
            try:
                line = json.loads(data)
                yield line if _FOLLOWS in line else {name: line[name] for name in _FIELDS}
            except (ValueError, KeyError, TypeError):
                raise MCPError(
                    f"Line {number} of {path} is not as it was written, so nothing is taken from it",
                    fix="Restore the file, or switch off 'Resume an interrupted run'",
                ) from None


def _digest(prompt: Prompt) -> str:
    identity = [prompt.text, [_LAYOUT.cells(entry) for entry in prompt.history]]
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
