"""A run of an agent as people see it: its events in order, and short texts about turns, calls and tools."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, assert_never

from ..tools.views.html import meaning_of
from ..types.texts import shortened
from ..types.tool import MCPTool, WorkflowTool
from .agent_events import ModelAnswered, PromptGiven, RunEnded, TextDelta, TokenUsage, ToolFinished

if TYPE_CHECKING:
    from datetime import datetime

    from ..tools.views.html import BadgeKind
    from ..types.tool import Tool
    from .agent_events import AgentEvent


_LONGEST_PREVIEW: Final = 160


@dataclass(slots=True, kw_only=True)
class PromptTimeline:
    """The timeline of one prompt; `row` is None for a single prompt."""

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
        return next((event.at for event in self.events if isinstance(event, PromptGiven)), None)

    @property
    def question(self) -> str:
        return next((event.text for event in self.events if isinstance(event, PromptGiven)), "")

    @property
    def ended(self) -> RunEnded | None:
        return next((event for event in self.events if isinstance(event, RunEnded)), None)

    @property
    def calls(self) -> list[ToolFinished]:
        return [event for event in self.events if isinstance(event, ToolFinished)]

    @property
    def turns(self) -> list[ModelAnswered]:
        return [event for event in self.events if isinstance(event, ModelAnswered)]

    @property
    def usage(self) -> TokenUsage:
        """Tokens of all turns; once the run has ended also those of servers that asked its model."""
        turns = sum((turn.usage for turn in self.turns), TokenUsage())
        return turns if self.ended is None else self.ended.usage


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
    return shortened(" ".join(text.split()), limit)


def arguments_line(call: ToolFinished) -> str:
    """The arguments of a call on one line; with secrets marked if the call has a record."""
    # The arguments of a record have marks in place of secrets; those of the request have not.
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


@dataclass(frozen=True, slots=True)
class ToolKind:
    """A kind of tool: a word, as not all people can tell pictures apart, and a character."""

    word: str
    glyph: str


WORKFLOW: Final = ToolKind("workflow", "⧉")
MCP: Final = ToolKind("MCP", "⚡")
BUILT_IN: Final = ToolKind("agent", "◦")
UNKNOWN: Final = ToolKind("no tool", "?")
UNFINISHED: Final = ToolKind("tool", "…")


def kind_of(
    tool: Tool | None, *, recorded: bool = True, unfinished: bool = False
) -> ToolKind:  # @ToolTypeDispatch
    """The kind of the tool that was called; `tool` is None for a built-in or unknown tool.

    Calls of built-in tools have no record. `unfinished` calls did not end before the run.
    """
    match tool:
        case None if unfinished:
            return UNFINISHED
        case None:
            return UNKNOWN if recorded else BUILT_IN
        case MCPTool():
            return MCP
        case WorkflowTool():
            return WORKFLOW
        case _:
            assert_never(tool)
