"""The values of a call: what is planned, what the gate says, what the tool answered, and what came of it.

There are three that last: what came on the wire (the client's `CallToolResult`), what is known for ever (the
`CallRecord`), and what somebody reads (`CallOutcome`: the record, the error and the tool's answer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..client.protocol.tools import ABSENT
from ..types.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..audit.record import CallRecord
    from ..client.protocol.tools import ContentBlock
    from ..types.tool import Tool

_REPEAT: Final = "make it again: setting 'Repeat calls with unknown outcome', or option --repeat-unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataInput:
    """An input table of a workflow tool; `id` is its id in the agent's data registry."""

    port: str
    id: str
    table: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """A call to make."""

    tool: Tool | None  # None if it is not known
    arguments: Mapping[str, Any] | None = None  # None if they could not be read
    input_row: str | None = None  # RowID of the row of parameters
    # an error that was found before the call, so that the call must not be made
    error: MCPError | None = None
    denied: bool = False  # whether the error is that a policy does not allow the call
    name: str | None = None  # the requested name, if there is no such tool
    iteration: int | None = None  # the agent's turn
    data: tuple[DataInput, ...] = ()  # the tables for a workflow's inputs, in the order of its ports
    # what says which arguments are secret, if not the tool's schema: if there is no such tool, the schemas of
    # the others
    schemas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may be made."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call must not be made; the reason is its error."""

    reason: MCPError


GateAnswer: TypeAlias = Allow | Deny
"""What a gate says of a call. Asking a person, and changing the call, will be further answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The answer of a tool of either type."""

    text: str  # text for people and models
    structured: Any = ABSENT  # JSON value, or ``ABSENT`` of the client's results
    is_error: bool = False  # whether the tool reported that it failed
    blocks: tuple[ContentBlock, ...] = ()  # of an MCP result
    outputs: tuple[Any, ...] = ()  # tables of a workflow
    error: MCPError | None = None  # a problem with the answer; the answer is kept as well


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """A finished call."""

    record: CallRecord
    tool: Tool | None  # as it was called; None if it is not known
    error: Exception | None = None  # what ended the call; None if the tool answered
    coercions: tuple[str, ...] = ()  # descriptions of the changes that were necessary to the arguments
    note: str | None = None  # a warning
    # Secrets are marked in its text and structured value, not in its blocks.
    answer: ToolAnswer | None = None


def sent_before() -> MCPError:
    """The error of a call that an interrupted run has sent."""
    error = MCPError(
        "An earlier run has sent this call, and nobody knows whether it was carried out, so it is not made"
        " again",
        fix=f"See at the server whether it was; if not, {_REPEAT}",
    )
    error.may_have_run = True
    return error
