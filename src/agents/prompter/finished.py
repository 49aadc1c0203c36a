"""Keeps each conversation as it is finished, so that an interrupted run of many prompts can be resumed.

KNIME discards the tables of a node that was canceled, and a process that is killed has none. So a file beside
the journal of the calls takes one line per prompt that was answered, with the rows of its conversation as
text; the next run takes those over, and asks the model only for the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from ...types.canonical import canonical_json
from ...types.errors import MCPError
from ..run.events import Ending, PromptGiven, RunEnded, TokenUsage
from ..timeline.timeline import PromptTimeline
from ..toolbox.data_registry import DataRegistry
from .conversation import ConversationLayout, Entry, MessageForm, Outcome
from .history import message_of
from .prompter import Answered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from ...audit.journal import JournalContent
    from ...audit.record import CallRecord
    from .prompter import Prompt

_SUFFIX: Final = ".conversations"  # not that of a journal
_FIELDS: Final = ("row", "prompt", "at", "outcome", "notes", "rows")
_ERRORS: Final = "Errors"
_LAYOUT: Final = ConversationLayout(form=MessageForm.PLAIN, error_column=_ERRORS)


class Finished:
    """The conversations that a run finishes, and those of the interrupted run before it.

    Safe to use from several threads.

    Args:
        folder: Where the journals are.
        run: Id of the run.
        interrupted: The journal to resume, None to begin anew.

    Attributes:
        count: Conversations that were kept.
        resumed: Those that were taken over.

    Raises:
        MCPError: Somebody changed the file of the interrupted run.
    """

    def __init__(self, folder: Path, run: str, interrupted: JournalContent | None = None) -> None:
        self._path = folder / f"{run}{_SUFFIX}"
        self._lock = threading.Lock()
        self._earlier: dict[tuple[str, str], dict[str, Any]] = {}
        self._records: dict[str, list[CallRecord]] = {}
        self.count = 0
        self.resumed = 0
        if interrupted is not None:
            self._earlier = {
                (line["row"], line["prompt"]): line for line in _lines(folder / f"{interrupted.run}{_SUFFIX}")
            }
            for record in interrupted.records:
                self._records.setdefault(record.input_row or "", []).append(record)

    def keep(self, answered: Answered) -> None:
        """Writes a conversation, if it is one of several and has an answer.

        Args:
            answered: What became of a prompt.

        Raises:
            OSError: It cannot be written.
        """
        outcome = answered.entries[-1].outcome if answered.entries else None
        start = answered.timeline.start
        if answered.prompt.row is None or answered.ending is None or outcome is None or start is None:
            return
        line = {
            "row": answered.prompt.row,
            "prompt": _digest(answered.prompt),
            "at": start.isoformat(),
            "outcome": asdict(outcome),
            "notes": answered.notes,
            "rows": [_LAYOUT.cells(entry) for entry in answered.entries],
        }
        data = f"{canonical_json(line)}\n".encode()
        with self._lock, open(self._path, "ab", opener=_private) as file:
            file.write(data)
            self.count += 1

    def find(self, prompt: Prompt, data: Sequence[Any]) -> tuple[Answered, list[CallRecord]] | None:
        """Finds what the interrupted run made of a prompt.

        Args:
            prompt: The prompt: row, text and history must be the same.
            data: The tables for tools.

        Returns:
            The conversation and the records of its calls; None if it was not finished.
        """
        line = None if prompt.row is None else self._earlier.get((prompt.row, _digest(prompt)))
        if line is None or prompt.row is None:
            return None
        with self._lock:
            self.resumed += 1
        return _answered(prompt, line, DataRegistry(data)), self._records.get(prompt.row, [])


def _answered(prompt: Prompt, line: dict[str, Any], registry: DataRegistry) -> Answered:
    from datetime import datetime

    told = Outcome(**line["outcome"])
    outcome = replace(told, usage=TokenUsage(**line["outcome"]["usage"]))
    entries = [
        Entry(message=message_of(cells, cells[_LAYOUT.column]), input_row=prompt.row)
        if cells.get(_ERRORS) is None
        else Entry(error=cells[_ERRORS], input_row=prompt.row)
        for cells in line["rows"]
    ]
    entries[-1] = replace(entries[-1], outcome=outcome)
    return Answered(
        prompt=prompt,
        entries=tuple(entries),
        timeline=_timeline(prompt, outcome, datetime.fromisoformat(line["at"])),
        registry=registry,
        text=outcome.answer or "",
        ending=Ending(outcome.ending),
        notes=tuple(line["notes"]),
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
    """The lines of a file, without a last one that was not written to its end."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, data in enumerate(file, 1):
            if not data.endswith(b"\n"):
                return
            try:
                line = json.loads(data)
                yield {name: line[name] for name in _FIELDS}
            except (ValueError, KeyError, TypeError):
                raise MCPError(
                    f"Line {number} of {path} is not as it was written, so nothing is taken from it",
                    fix="Restore the file, or switch off 'Resume an interrupted run'",
                ) from None


def _digest(prompt: Prompt) -> str:
    said = [prompt.text, [_LAYOUT.cells(entry) for entry in prompt.history]]
    return hashlib.sha256(canonical_json(said).encode()).hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
