"""Runs one call of a tool of either type, and makes the record of the call.

The only place that knows how the two types of tool are executed: an MCP tool through the pool of sessions, a
workflow through a function of the host (in KNIME: ``ctx._execute_tool``). Agents, the Caller node, replay and
the command line all use this module.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never, cast

from ..client.protocol.results import ABSENT
from ..client.words import counted
from ..types.errors import MCPError, ResultInvalid
from ..types.tool import MCPTool, WorkflowTool
from .call import Answer, CallOutcome, Trace
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
    from collections.abc import Callable

    from ..client.mcp_client import MCPClient, Progress
    from ..client.protocol.results import CallToolResult
    from .call import Call, Dispatcher

_NO_WORKFLOWS = (
    "Use the MCP Agent Prompter or KNIME's Agent Prompter node for workflow tools, in KNIME Analytics"
    " Platform 5.8 or later"
)
_WANTS_TABLES = "Use the MCP Agent Prompter node: its data inputs feed such tools"


def run_call(  # @ToolTypeDispatch
    trace: Trace, dispatcher: Dispatcher, *, meanwhile: Callable[[], None] | None = None
) -> Answer:
    """Runs one call of a tool of either type.

    Args:
        trace: Tool and arguments; further facts are added while the call runs.
        dispatcher: The objects that the calls of the run share.
        meanwhile: Called once while a server is busy with the call.

    Returns:
        The tool's answer, which may say that the tool failed.

    Raises:
        MCPError: The call could not be made, or was not answered.
    """
    match trace.tool:
        case MCPTool():
            return _run_mcp(trace.tool, trace, dispatcher, meanwhile)
        case WorkflowTool():
            return _run_workflow(trace.tool, trace, dispatcher)
        case _:
            assert_never(trace.tool)


def recorded_call(call: Call, dispatcher: Dispatcher) -> CallOutcome:
    """Runs one call and records it; errors are part of the outcome."""
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
            tool_answer = run_call(trace, dispatcher, meanwhile=begin)
        finally:
            trace.duration = round(time.perf_counter() - clock, 6)
        opening = _opened(opening, call, trace, dispatcher)
        answer = scrubbed(tool_answer, opening.marker)
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
    """The opening made while the server was busy, or a new one if a secret became known since."""
    if opening is not None and opening.holds(dispatcher):
        return opening
    return Opening(call, trace, dispatcher)


def failed_call(call: Call, error: Exception, dispatcher: Dispatcher) -> CallOutcome:
    """Records a call that was not made, with the error as the reason."""
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
    """Passes on a progress report. Reads the client's secrets each time, as tokens may have been renewed."""
    assert dispatcher.on_progress is not None
    dispatcher.secrets.learn(client.secrets())
    dispatcher.on_progress(replace(progress, message=dispatcher.secrets.scrub(progress.message)))


def _run_workflow(tool: WorkflowTool, trace: Trace, dispatcher: Dispatcher) -> Answer:
    if dispatcher.run_workflow is None:
        raise MCPError("Workflow tools cannot be run here", tool=tool.name, fix=_NO_WORKFLOWS)
    if len(trace.data) != len(tool.input_ports):
        raise MCPError(
            f"The workflow wants {counted(len(tool.input_ports), 'input table')}, but has {len(trace.data)}",
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
        # KNIME raises an exception where an MCP tool would return a result with isError.
        return Answer(text=_message_of(error), structured=ABSENT, is_error=True)
    return Answer(text=message, structured=ABSENT, outputs=outputs)


def _message_of(error: Exception) -> str:
    """An exception's message. The text of exceptions from KNIME's Java side is a whole stack trace."""
    java: Any = getattr(error, "java_exception", None)
    message = str(error) if java is None else str(java.getMessage() or java.getClass().getName())
    return message or type(error).__name__


def _validate(tool: MCPTool, trace: Trace) -> None:
    """Checks the arguments against the schema before anything is sent."""
    from ..client.arguments import ArgumentValidator

    validator = ArgumentValidator.for_schema(tool.schema_json)
    trace.arguments, coercions = validator.check(trace.arguments)
    trace.coercions = tuple(f"{c.pointer}: text was read as {c.wanted}" for c in coercions)
    if validator.fault is not None:
        unchecked = (
            f"The arguments of '{tool.name}' were not checked, because of its schema: {validator.fault}"
        )
        trace.note = f"{trace.note} {unchecked}" if trace.note else unchecked
