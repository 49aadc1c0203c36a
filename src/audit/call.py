"""The values of a call: the call to make, its trace, answer and outcome, and what calls of a run share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .definitions import Pinning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from ..tools.mcp_client import Progress
    from ..tools.protocol.results import ContentBlock
    from ..tools.session_pool import SessionPool
    from ..types.errors import MCPError
    from ..types.tool import Tool, WorkflowTool
    from .definitions import Definitions
    from .record import CallRecord
    from .secrets import SecretMarker

WorkflowRunner: TypeAlias = (
    "Callable[[WorkflowTool, dict[str, Any], tuple[Any, ...]], tuple[str, tuple[Any, ...]]]"
)
"""Runs a workflow tool: the tool, its parameters, a table per input port; gives message and output tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataInput:
    """A table that a workflow tool is given.

    Attributes:
        port: Name of the port.
        id: Id of the table in the agent's data registry.
        table: The table, as the host takes it.
    """

    port: str
    id: str
    table: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call to make.

    Attributes:
        tool: The tool.
        arguments: The arguments, as far as they could be read.
        input_row: RowID of the row of parameters, or None.
        error: What is wrong with the call already, so that it must not be made.
        denied: Whether the error is that a policy does not allow the call.
        name: The name that was asked for, where there is no such tool.
        iteration: The agent's turn, or None outside an agent.
        data: The tables for a workflow's inputs, in the order of its ports.
    """

    tool: Tool | None
    arguments: Mapping[str, Any] | None = None
    input_row: str | None = None
    error: MCPError | None = None
    denied: bool = False
    name: str | None = None
    iteration: int | None = None
    data: tuple[DataInput, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a tool.

    Attributes:
        text: Text for people and models.
        structured: JSON value, or ``ABSENT`` of the client's results.
        is_error: The tool itself says that it failed.
        blocks: The blocks of an MCP result.
        outputs: The output tables of a workflow.
        error: What is wrong with the answer, which is kept beside it.
    """

    text: str
    structured: Any
    is_error: bool = False
    blocks: tuple[ContentBlock, ...] = ()
    outputs: tuple[Any, ...] = ()
    error: MCPError | None = None


@dataclass(slots=True, kw_only=True)
class Trace:
    """Facts about a call that become known while it runs, kept even if it fails.

    Attributes:
        tool: The tool as it was called.
        arguments: The arguments as sent.
        data: The tables for a workflow's inputs.
        coercions: What had to be done to the arguments, in words.
        note: Something to warn of.
        digest: Digest of the workflow that was run; that of an MCP tool is in the tool.
        attempts: How often the call was sent.
        server_version: What the server says that it is.
        protocol: The protocol revision that was spoken.
        started_at: When the call began.
        duration: Seconds that the call took.
    """

    tool: Tool
    arguments: dict[str, Any]
    data: tuple[DataInput, ...] = ()
    coercions: tuple[str, ...] = ()
    note: str | None = None
    digest: str | None = None
    attempts: int = 0
    server_version: str | None = None
    protocol: str | None = None
    started_at: datetime | None = None
    duration: float | None = None

    def sent(self) -> None:
        """Counts an attempt."""
        self.attempts += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """All that calls of one run share.

    Attributes:
        run: Id of the run.
        pool: The sessions.
        definitions: What the servers say about their tools.
        secrets: Marks secrets in records.
        pinning: What to do with a tool that changed since it was chosen.
        run_workflow: Runs a workflow tool with arguments and input tables, and gives its message and output
            tables; None where the host cannot.
        workflow_digest: Says which workflow a tool is, by a digest; None where nobody can. Called where
            ``run_workflow`` is called.
        save_blob: Saves a blob of a call's result and gives the path; None keeps no blobs.
        is_canceled: Ends waiting.
        on_progress: Is told what tools report while they run, in the thread of the call or of a reader.
    """

    run: str
    pool: SessionPool
    definitions: Definitions
    secrets: SecretMarker
    pinning: Pinning = Pinning.WARN
    run_workflow: WorkflowRunner | None = None
    workflow_digest: Callable[[WorkflowTool], str | None] | None = None
    save_blob: Callable[[Call, int, bytes, str], str] | None = None
    is_canceled: Callable[[], bool] | None = None
    on_progress: Callable[[Progress], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """A finished call.

    Attributes:
        record: The record of it.
        tool: The tool as it was called, None if it is not known.
        error: What ended it, None if the tool answered.
        coercions: What had to be done to the arguments, in words.
        note: Something to warn of.
        answer: What the tool answered, None if it did not. Secrets are marked in its text and structured
            value, not in its blocks.
    """

    record: CallRecord
    tool: Tool | None
    error: Exception | None = None
    coercions: tuple[str, ...] = ()
    note: str | None = None
    answer: Answer | None = None
