"""The values of a call: the call to make, its trace, answer and outcome, and what calls of a run share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .definitions import Pinning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from ..client.mcp_client import Progress
    from ..client.protocol.results import ContentBlock
    from ..client.session_pool import SessionPool
    from ..types.errors import MCPError
    from ..types.tool import Tool, WorkflowTool
    from .definitions import Definitions
    from .record import CallRecord
    from .secrets import SecretMarker

WorkflowRunner: TypeAlias = (
    "Callable[[WorkflowTool, dict[str, Any], tuple[Any, ...]], tuple[str, tuple[Any, ...]]]"
)
"""Runs a workflow tool with its parameters and a table per input port; returns message and output tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataInput:
    """An input table of a workflow tool.

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
        arguments: The arguments; None if they could not be read.
        input_row: RowID of the row of parameters, or None.
        error: An error that was found before the call, so that the call must not be made.
        denied: Whether the error is that a policy does not allow the call.
        name: The requested name, if there is no such tool.
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
        is_error: Whether the tool reported that it failed.
        blocks: The blocks of an MCP result.
        outputs: The output tables of a workflow.
        error: A problem with the answer; the answer is kept as well.
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
        coercions: Descriptions of the changes that were necessary to the arguments.
        note: A warning.
        digest: Digest of the workflow that was run; the digest of an MCP tool is in the tool.
        attempts: The number of times that the call was sent.
        server_version: The server's name and version, as the server reports them.
        protocol: The protocol revision that was used.
        started_at: The beginning of the call.
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
    """The objects that all calls of one run share.

    Attributes:
        run: Id of the run.
        pool: The sessions.
        definitions: The servers' current definitions of tools.
        secrets: Marks secrets in records.
        pinning: The action for a tool that changed since it was chosen.
        run_workflow: Runs a workflow tool with arguments and input tables, and returns its message and output
            tables; None if the host cannot run workflows.
        workflow_digest: Computes the digest of a tool's workflow; None if the host cannot. Called in the same
            thread as ``run_workflow``.
        save_blob: Saves a blob of a call's result and returns the path; None: blobs are not saved.
        is_canceled: Ends waiting.
        on_progress: Called with the progress that tools report, in the thread of the call or of a reader.
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
    answer: Answer | None = None
