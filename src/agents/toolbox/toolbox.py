"""The interface between the agent's loop and the tools: the model's requests, and the replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...audit.record import CallRecord
    from ...types.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A tool call that a model requests.

    Attributes:
        id: The model's id of the call; the reply has the same id.
        name: The name that the model used, as bound (not the shown name of the tool).
        arguments: The arguments, or None if they could not be read.
        iteration: The agent's turn, from 1.
        error: The reason why the arguments could not be read, for the model; None if they could.
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
    """The answer to one request: content for the model, and a record for people.

    Attributes:
        request: The model's request.
        content: Text, or content blocks in LangChain's form (text and image blocks), for the model.
        origin: The server that wrote the content; empty for workflows and for texts of the agent.
        record: The record of the call; None for a call of a built-in tool (`read_result`, `find_tools`).
        tool: The tool that was called, None for a built-in or unknown tool.
        failed: True if the call failed; the content holds the error.
        stop: True if the run must end after this failure.
        unfinished: True if the run ended before the call; it is not known whether the tool had effects.
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

        The list may grow from turn to turn, when the model finds tools by searching.
        """
        ...

    def run(self, request: ToolRequest, *, is_canceled: Callable[[], bool]) -> ToolReply:
        """Runs one call, blocking. Errors of the tool, the server or the model become a reply.

        Raises:
            Canceled: `is_canceled` returned True while the call ran.
        """
        ...

    def shown_name(self, name: str) -> str:
        """The name that people see for a bound name; an unknown name is returned unchanged."""
        ...
