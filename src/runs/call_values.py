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
    """A call to make.

    Attributes:
        tool: The tool; None if it is not known.
        arguments: The arguments; None if they could not be read.
        input_row: RowID of the row of parameters, or None.
        error: An error that was found before the call, so that the call must not be made.
        denied: Whether the error is that a policy does not allow the call.
        name: The requested name, if there is no such tool.
        iteration: The agent's turn, or None outside an agent.
        data: The tables for a workflow's inputs, in the order of its ports.
        schemas: What says which arguments are secret, if not the tool's schema: if there is no such tool, the
            schemas of the others.
    """

    tool: Tool | None
    arguments: Mapping[str, Any] | None = None
    input_row: str | None = None
    error: MCPError | None = None
    denied: bool = False
    name: str | None = None
    iteration: int | None = None
    data: tuple[DataInput, ...] = ()
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
    """The answer of a tool of either type.

    Attributes:
        text: Text for people and models.
        structured: JSON value, or ``ABSENT`` of the client's results.
        is_error: Whether the tool reported that it failed.
        blocks: The blocks of an MCP result.
        outputs: The output tables of a workflow.
        error: A problem with the answer; the answer is kept as well.
    """

    text: str
    structured: Any = ABSENT
    is_error: bool = False
    blocks: tuple[ContentBlock, ...] = ()
    outputs: tuple[Any, ...] = ()
    error: MCPError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """A finished call.

    Attributes:
        record: The record of it.
        tool: The tool as it was called, None if the tool is not known.
        error: The error that ended the call, None if the tool answered.
        coercions: Descriptions of the changes that were necessary to the arguments.
        note: A warning.
        answer: The tool's answer, None if there is no answer. Secrets are marked in its text and structured
            value, not in its blocks.
    """

    record: CallRecord
    tool: Tool | None
    error: Exception | None = None
    coercions: tuple[str, ...] = ()
    note: str | None = None
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
