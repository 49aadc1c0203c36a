"""The events in a run of an agent: for progress, the terminal, the view and tests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from langchain_core.messages import AIMessage

    from ..toolbox.toolbox import ToolReply, ToolRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """The numbers of tokens that an endpoint reported.

    Attributes:
        input: Tokens of the prompts.
        output: Tokens of the answers.
        turns: Model calls that reported usage.
        unreported: Model calls without a report.
    """

    input: int = 0
    output: int = 0
    turns: int = 0
    unreported: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Adds the counts."""
        return TokenUsage(
            input=self.input + other.input,
            output=self.output + other.output,
            turns=self.turns + other.turns,
            unreported=self.unreported + other.unreported,
        )


class Ending(StrEnum):
    """The reasons for which a run of an agent ends without an error."""

    ANSWER = "answer"
    """The model answered without asking for a tool."""
    LIMIT = "iteration limit"
    """The limit was reached, and the model was asked for a final answer without tools."""
    STOPPED = "stopped"
    """A tool failed, and the options say stop."""
    REFUSED = "refused"
    """The model, or a filter before it, refused to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptGiven:
    """The question that begins the run."""

    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswered:
    """The model's answer in one turn.

    Attributes:
        iteration: The turn, from 1.
        message: The answer, tool calls included.
        usage: Tokens of this turn.
        at: The time at which the turn began.
        duration: Seconds, retries included.
        attempts: The number of times that the request was sent.
    """

    iteration: int
    message: AIMessage
    usage: TokenUsage
    at: datetime
    duration: float
    attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetried:
    """A request to the model failed and is sent again.

    Attributes:
        iteration: The turn.
        reason: The error, for people.
        wait: Seconds until the next try.
    """

    iteration: int
    reason: str
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A piece of the model's text while the model writes; only with streaming.

    Attributes:
        iteration: The turn. After a `ModelRetried` of the same turn the text starts again.
        text: The piece, unchanged.
    """

    iteration: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A tool call begins."""

    request: ToolRequest
    shown_name: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A tool call ended, with or without a result.

    Attributes:
        reply: The answer and its record.
        shown_name: The tool's name for people.
        duration: Seconds.
    """

    reply: ToolReply
    shown_name: str
    duration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run is over.

    Attributes:
        ending: The reason of the end.
        text: The final answer, or the text in its place.
        usage: Tokens of all turns.
        iterations: The number of turns.
        duration: Seconds of the whole run.
    """

    ending: Ending
    text: str
    usage: TokenUsage
    iterations: int
    duration: float


AgentEvent = PromptGiven | ModelAnswered | ModelRetried | TextDelta | ToolStarted | ToolFinished | RunEnded
