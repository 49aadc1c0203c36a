"""The values of a call: what is planned, what hooks say, what the tool answered, and what came of it.

There are three that last: what came on the wire (the client's `CallToolResult`), what is known for ever (the
`CallRecord`), and what somebody reads (`CallOutcome`: the record, the error and the tool's answer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from ..client.protocol.tools import ABSENT
from ..types.errors import CallDenied, MCPError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..audit.record import CallRecord
    from ..client.protocol.tools import ContentBlock
    from ..types.tool import Tool

_REPEAT: Final = "make it again: option --repeat-unknown, or in KNIME a run of its row that does not resume"


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
    # what hooks decided about the call, and by whom, for the record; None until they were asked
    decision: str | None = None
    asked: float | None = None  # seconds that the question stood before a person; None without one


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may be made. `by` says who decided so, for the record; empty for one that has no objection.

    `asked`, here and below, is how many seconds the question stood, if a person had to decide.
    """

    by: str = ""
    asked: float | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """The call must not be made; the reason is its error, `by` who decided so."""

    reason: MCPError
    by: str = ""
    asked: float | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A person has to decide; `why` is for that person.

    It is `about` a call, or about what a server asks: to fill in a form, whose fields are the arguments, to
    open a page, to let it use the model, or to get the model's answer, which is the argument ``text``.
    """

    why: str
    about: Literal["call", "form", "page", "model", "answer"] = "call"


@dataclass(frozen=True, slots=True)
class Edit:
    """The call is made with other arguments, if no hook has an objection against these."""

    arguments: Mapping[str, Any]
    by: str
    asked: float | None = None


Verdict: TypeAlias = Allow | Deny | Ask | Edit
"""What a hook says of a call."""


class CallHook(Protocol):
    """What is asked before and after every call of a run, in the thread of the call.

    Rules, people's approval, limits, retries: all of them are hooks, and `Run.call` is the one place that
    calls them.
    """

    def before(self, plan: PlannedCall) -> Verdict:
        """Decides about a call that is not checked yet; asked again, with a decision, if it was edited."""
        ...

    def after(self, plan: PlannedCall, outcome: CallOutcome) -> float | None:
        """Looks at what came of a call, made or not; returns seconds to make it again after, or None.

        It is made again only if it does no harm twice, or surely was not carried out.
        """
        ...


Approver: TypeAlias = "Callable[[PlannedCall, Ask], Allow | Deny | Edit]"
"""Asks a person about a call, and waits for the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The answer of a tool of either type."""

    text: str  # text for people and models
    structured: Any = ABSENT  # JSON value, or ``ABSENT`` of the client's results
    is_error: bool = False  # whether the tool reported that it failed
    blocks: tuple[ContentBlock, ...] = ()  # of an MCP result
    outputs: tuple[Any, ...] = ()  # tables of a workflow; None for one that an interrupted run has lost
    error: MCPError | None = None  # a problem with the answer; the answer is kept as well
    irregular: tuple[str, ...] = ()  # what misses the protocol's schema in the blocks, for people


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
    return OutcomeUnknown(
        "An earlier run has sent this call, and nobody knows whether it was carried out, so it is not made"
        " again",
        fix=f"See at the server whether it was; if not, {_REPEAT}",
    )


def nobody_asked(question: Ask) -> Deny:
    """The verdict where a person has to decide and there is none."""
    error = CallDenied(
        f"A person has to allow this call, and nobody can be asked here ({question.why})",
        fix="Go on without it, and say in your answer what could not be done",
    )
    return Deny(error, f"default: nobody can be asked ({question.why})")
