"""The interface between the agent's loop and the tools: requests of the model, and replies to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...audit.record import CallRecord
    from ...types.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A tool call that a model asks for.

    Attributes:
        id: The model's id of the call; the reply carries it.
        name: The name that the model used, as bound (not the shown name of the tool).
        arguments: The arguments, or None if they could not be read.
        iteration: The agent's turn, from 1.
        error: Why the arguments could not be read, in words for the model; None if they could.
        written: The beginning of arguments that could not be read. It may hold secrets.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    iteration: int
    error: str | None = None
    written: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """The answer to one request: one part for the model, one for everybody else.

    Attributes:
        request: What was asked for.
        content: Text, or content blocks in LangChain's form (text and image blocks), for the model.
        origin: The server that wrote the content; empty for workflows and for the agent's own words.
        record: The record of the call; None for a call of a built-in tool (`read_result`, `find_tools`).
        tool: The tool that was called, None for a built-in or unknown one.
        failed: The model is told of a failure.
        stop: The policy says that the run must not go on after this failure.
        unfinished: The run ended before the tool did; whether it did its work is not known.
    """

    request: ToolRequest
    content: str | list[dict[str, Any]]
    origin: str = ""
    record: CallRecord | None = None
    tool: Tool | None = None
    failed: bool = False
    stop: bool = False
    unfinished: bool = False

    @property
    def text(self) -> str:
        """The content without its images."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(str(block["text"]) for block in self.content if block.get("type") == "text")


class Toolbox(Protocol):
    """The tools of one run. `run` is called from many threads at once."""

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The functions to bind to the model in the next turn, in the chat-completions form.

        They may grow from turn to turn, when the model found tools by searching.
        """
        ...

    def run(self, request: ToolRequest, *, is_canceled: Callable[[], bool]) -> ToolReply:
        """Runs one call, blocking. Never raises for what a tool, a server or the model did.

        Raises:
            Canceled: `is_canceled` said so while the call ran.
        """
        ...

    def shown_name(self, name: str) -> str:
        """The name that people see for a bound name; the same text if it is not known."""
        ...
