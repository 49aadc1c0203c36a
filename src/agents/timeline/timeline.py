"""The timeline of a prompt's run, and its texts for the view, the terminal and the audit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ...tools.views.statuses import meaning_of
from ...types.short_texts import shortened
from ..run.events import (
    ModelAnswered,
    PromptGiven,
    RunEnded,
    TextDelta,
    TokenUsage,
    ToolFinished,
)

if TYPE_CHECKING:
    from datetime import datetime

    from ...tools.views.html import BadgeKind
    from ..run.events import AgentEvent

_LONGEST_PREVIEW: Final = 160


@dataclass(slots=True, kw_only=True)
class PromptTimeline:
    """The timeline of one prompt.

    Attributes:
        row: RowID of the prompt, None for a single prompt.
        events: The events, in order.
        error: The error, None if the run did not fail.
        seconds: The duration.
    """

    row: str | None = None
    events: list[AgentEvent] = field(default_factory=list["AgentEvent"])
    error: str | None = None
    seconds: float = 0.0

    def take(self, event: AgentEvent) -> None:
        """Adds an event; pieces of text are not kept, as `ModelAnswered` has the whole text."""
        if not isinstance(event, TextDelta):
            self.events.append(event)
        if isinstance(event, RunEnded):
            self.seconds = event.duration

    def forget_contents(self) -> None:
        """Drops the results of tools to save memory. Counts and durations stay."""
        self.events = [
            _without_data(event) if isinstance(event, ToolFinished) else event for event in self.events
        ]

    @property
    def start(self) -> datetime | None:
        """The time at which the run began."""
        return next((event.at for event in self.events if isinstance(event, PromptGiven)), None)

    @property
    def question(self) -> str:
        """The prompt."""
        return next((event.text for event in self.events if isinstance(event, PromptGiven)), "")

    @property
    def ended(self) -> RunEnded | None:
        """The event of the end; None if the run failed or was canceled."""
        return next((event for event in self.events if isinstance(event, RunEnded)), None)

    @property
    def calls(self) -> list[ToolFinished]:
        """The tool calls that ended."""
        return [event for event in self.events if isinstance(event, ToolFinished)]

    @property
    def turns(self) -> list[ModelAnswered]:
        """The turns of the model."""
        return [event for event in self.events if isinstance(event, ModelAnswered)]

    @property
    def usage(self) -> TokenUsage:
        """Tokens of all turns."""
        return sum((turn.usage for turn in self.turns), TokenUsage())


def duration_text(seconds: float) -> str:
    """Writes a duration for people: ``0.12 s``, ``12.3 s``, ``2 min 5 s``."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def tokens_text(usage: TokenUsage) -> str | None:
    """Writes token counts for people; None if the endpoint reported none."""
    if not usage.turns:
        return None
    least = "at least " if usage.unreported else ""
    return f"{least}{usage.input:,} tokens in, {usage.output:,} out"


def one_line(text: str, limit: int = _LONGEST_PREVIEW) -> str:
    """The beginning of a text, on one line."""
    return shortened(" ".join(text.split()), limit)


def arguments_line(call: ToolFinished) -> str:
    """The arguments of a call on one line; with secrets marked if the call has a record."""
    if call.reply.record is not None:
        return one_line(call.reply.record.arguments or "")
    if call.reply.unfinished:
        return ""  # its secrets are not marked
    request = call.reply.request
    if request.arguments is None:
        return "(unreadable)"
    return one_line(json.dumps(dict(request.arguments), ensure_ascii=False, default=str))


def status_of_call(call: ToolFinished) -> tuple[str, BadgeKind]:
    """The status of a call as a word, and its meaning for the badge."""
    record = call.reply.record
    if call.reply.unfinished:
        return "not finished", "warning"
    if record is None:
        return ("failed", "bad") if call.reply.failed else ("ok", "good")
    return record.status.value, meaning_of(record.status)


def _without_data(call: ToolFinished) -> ToolFinished:
    record = call.reply.record
    if record is not None:
        record = replace(record, tool=None, result=None, structured_result=None)
    return replace(call, reply=replace(call.reply, content="", record=record))
