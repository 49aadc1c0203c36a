"""Runs one call of a tool of either type, and makes the record of it.

The only place that knows how the two types of tool are executed: an MCP tool through the pool of sessions, a
workflow through a function that the host hands in (in KNIME: ``ctx._execute_tool``). Agents, the Caller node,
replay and the command line all call through here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never, cast

from ..tools.protocol.results import ABSENT
from ..types.errors import MCPError, ResultInvalid
from ..types.tool import MCPTool, WorkflowTool
from .definitions import Pinning
from .record import CallStatus, status_of
from .recording import (
    Ending,
    Opening,
    answered,
    error_text,
    log_failure,
    marker_of,
    record_of,
    scrubbed,
    unknown_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..tools.mcp_client import MCPClient, Progress
    from ..tools.protocol.results import CallToolResult, ContentBlock
    from ..tools.session_pool import SessionPool
    from ..types.tool import Tool
    from .definitions import Definitions
    from .record import CallRecord
    from .secrets import SecretMarker

WorkflowRunner: TypeAlias = (
    "Callable[[WorkflowTool, dict[str, Any], tuple[Any, ...]], tuple[str, tuple[Any, ...]]]"
)
"""Runs a workflow tool: the tool, its parameters, a table per input port; gives message and output tables."""

_NO_WORKFLOWS = (
    "Use the MCP Agent Prompter or KNIME's Agent Prompter node for workflow tools, in KNIME Analytics"
    " Platform 5.8 or later"
)
_WANTS_TABLES = "Use the MCP Agent Prompter node: its data inputs feed such tools"


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
    """What a tool answered.

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
    """What became known about a call while it ran, kept if it fails.

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


def run_call(  # @ToolTypeDispatch
    trace: Trace, dispatcher: Dispatcher, *, meanwhile: Callable[[], None] | None = None
) -> Answer:
    """Runs one call of a tool of either type.

    Args:
        trace: Tool and arguments; filled in with what becomes known.
        dispatcher: What the calls of the run share.
        meanwhile: Done once while a server is busy with the call.

    Returns:
        What the tool answered; its own failure included.

    Raises:
        MCPError: The call could not be made, or gave no answer.
    """
    match trace.tool:
        case MCPTool():
            return _run_mcp(trace.tool, trace, dispatcher, meanwhile)
        case WorkflowTool():
            return _run_workflow(trace.tool, trace, dispatcher)
        case _:
            assert_never(trace.tool)


def recorded_call(call: Call, dispatcher: Dispatcher) -> CallOutcome:
    """Runs one call and records it, however it ends; errors are part of the outcome."""
    if call.tool is None or call.error is not None:
        error = call.error or MCPError("There is no tool to call")
        return failed_call(call, error, dispatcher)
    trace = Trace(
        tool=call.tool, arguments=dict(call.arguments or {}), data=call.data, started_at=datetime.now(UTC)
    )
    clock = time.perf_counter()
    answer: Answer | None = None
    opening: Opening | None = None

    def begin() -> None:
        nonlocal opening
        opening = Opening(call, trace, dispatcher).prepare()

    try:
        try:
            found = run_call(trace, dispatcher, meanwhile=begin)
        finally:
            trace.duration = round(time.perf_counter() - clock, 6)
        opening = _opened(opening, call, trace, dispatcher)
        answer = scrubbed(found, opening.marker)
        ending = answered(call, answer, opening.marker, dispatcher)
        error = answer.error
    except Exception as caught:
        log_failure(caught, trace.tool)
        opening = _opened(opening, call, trace, dispatcher)
        text = error_text(caught, call, trace.tool, opening.marker)
        ending = Ending(status=status_of(caught), error=text)
        error = caught
    return CallOutcome(
        record=opening.ended(trace, ending),
        tool=trace.tool,
        error=error,
        coercions=trace.coercions,
        note=trace.note,
        answer=answer,
    )


def _opened(opening: Opening | None, call: Call, trace: Trace, dispatcher: Dispatcher) -> Opening:
    """What was prepared while the server was busy, or the same anew where that no longer holds."""
    if opening is not None and opening.holds(dispatcher):
        return opening
    return Opening(call, trace, dispatcher)


def failed_call(call: Call, error: Exception, dispatcher: Dispatcher) -> CallOutcome:
    """Records a call that was not made, and why: the call, finished with that error."""
    status = CallStatus.DENIED if call.denied else status_of(error)
    if call.tool is None:
        text = error_text(error, call, None, dispatcher.secrets)
        record = unknown_record(call, dispatcher, status=status, error=text)
    else:
        trace = Trace(tool=call.tool, arguments=dict(call.arguments or {}), data=call.data)
        marker = marker_of(trace, dispatcher)
        text = error_text(error, call, call.tool, marker)
        record = record_of(call, trace, marker, dispatcher, status=status, error=text)
    return CallOutcome(record=record, tool=call.tool, error=error)


def _run_mcp(
    tool: MCPTool, trace: Trace, dispatcher: Dispatcher, meanwhile: Callable[[], None] | None
) -> Answer:
    checked = dispatcher.definitions.check(tool, dispatcher.pinning, is_canceled=dispatcher.is_canceled)
    trace.tool, trace.note = checked.tool, checked.note
    _validate(checked.tool, trace)
    client = dispatcher.pool.client(checked.tool.route)
    invalid: ResultInvalid | None = None
    try:
        result = client.call_tool(
            checked.tool.tool_name,
            trace.arguments,
            on_progress=None if dispatcher.on_progress is None else partial(_tell, client, dispatcher),
            on_attempt=trace.sent,
            meanwhile=meanwhile,
            is_canceled=dispatcher.is_canceled,
        )
    except ResultInvalid as error:
        invalid, result = error, cast("CallToolResult", error.result)
    dispatcher.secrets.learn(client.secrets())
    trace.server_version = client.server.version
    trace.protocol = client.server.protocol_version
    return Answer(
        text=result.text,
        structured=result.structured_content,
        is_error=result.is_error,
        blocks=result.content,
        error=invalid,
    )


def _tell(client: MCPClient, dispatcher: Dispatcher, progress: Progress) -> None:
    """Tells what a tool reports. A token may be newer than the run, hence asked for each time."""
    assert dispatcher.on_progress is not None
    dispatcher.secrets.learn(client.secrets())
    dispatcher.on_progress(replace(progress, message=dispatcher.secrets.scrub(progress.message)))


def _run_workflow(tool: WorkflowTool, trace: Trace, dispatcher: Dispatcher) -> Answer:
    if dispatcher.run_workflow is None:
        raise MCPError("Workflow tools cannot be run here", tool=tool.name, fix=_NO_WORKFLOWS)
    if len(trace.data) != len(tool.input_ports):
        raise MCPError(
            f"The workflow wants {len(tool.input_ports)} input table(s), but has {len(trace.data)}",
            tool=tool.name,
            fix=_WANTS_TABLES,
        )
    if dispatcher.workflow_digest is not None:
        trace.digest = dispatcher.workflow_digest(tool)
    trace.attempts = 1
    try:
        tables = tuple(data.table for data in trace.data)
        message, outputs = dispatcher.run_workflow(tool, trace.arguments, tables)
    except MCPError:
        raise
    except Exception as error:
        # What a tool's own failure is for an MCP tool, KNIME tells by an exception.
        return Answer(text=_said(error), structured=ABSENT, is_error=True)
    return Answer(text=message, structured=ABSENT, outputs=outputs)


def _said(error: Exception) -> str:
    """An exception's message. As text, one from KNIME's Java side is its whole stack trace."""
    java: Any = getattr(error, "java_exception", None)
    said = str(error) if java is None else str(java.getMessage() or java.getClass().getName())
    return said or type(error).__name__


def _validate(tool: MCPTool, trace: Trace) -> None:
    """Checks the arguments against the schema before anything is sent."""
    from ..tools.arguments import ArgumentValidator

    validator = ArgumentValidator.for_schema(tool.schema_json)
    trace.arguments, coercions = validator.check(trace.arguments)
    trace.coercions = tuple(f"{c.pointer}: text was read as {c.wanted}" for c in coercions)
    if validator.fault is not None:
        unchecked = (
            f"The arguments of '{tool.name}' were not checked, because of its schema: {validator.fault}"
        )
        trace.note = f"{trace.note} {unchecked}" if trace.note else unchecked
