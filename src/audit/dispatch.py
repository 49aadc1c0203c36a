"""Runs one call of a tool of either type, and makes the record of it.

The only place that knows how the two types of tool are executed: an MCP tool through the pool of sessions, a
workflow through a function that the host hands in (in KNIME: ``ctx._execute_tool``). Agents, the Caller node,
replay and the command line all call through here.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, assert_never, cast

from ..types.canonical import canonical_json, without_surrogates
from ..types.errors import ArgumentsInvalid, MCPError, ResultInvalid
from ..types.tool import MCPTool, WorkflowTool
from .definitions import Pinning
from .record import CallRecord, CallStatus, status_of, tool_text, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..tools.mcp_client import Progress
    from ..tools.protocol.results import CallToolResult, ContentBlock
    from ..tools.session_pool import SessionPool
    from ..types.tool import Tool
    from .definitions import Definitions
    from .secrets import SecretMarker

_log = logging.getLogger(__name__)

_NO_WORKFLOWS = (
    "Use the MCP Agent Prompter or KNIME's Agent Prompter node for workflow tools, in KNIME Analytics"
    " Platform 5.8 or later"
)
_WANTS_TABLES = "Use the MCP Agent Prompter node: its data inputs feed such tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call to make.

    Attributes:
        tool: The tool.
        arguments: The arguments, as far as they could be read.
        input_row: RowID of the row of parameters, or None.
        error: What is wrong with the call already, so that it must not be made.
    """

    tool: Tool | None
    arguments: Mapping[str, Any] | None = None
    input_row: str | None = None
    error: MCPError | None = None


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
        coercions: What had to be done to the arguments, in words.
        note: Something to warn of.
        attempts: How often the call was sent.
        server_version: What the server says that it is.
        protocol: The protocol revision that was spoken.
    """

    tool: Tool
    arguments: dict[str, Any]
    coercions: tuple[str, ...] = ()
    note: str | None = None
    attempts: int = 0
    server_version: str | None = None
    protocol: str | None = None

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
        run_workflow: Runs a workflow tool with arguments and gives its message and output tables; None where
            the host cannot.
        save_blob: Saves a blob of a call's result and gives the path; None keeps no blobs.
        is_canceled: Ends waiting.
        on_progress: Is told what tools report while they run, in the thread of the call or of a reader.
    """

    run: str
    pool: SessionPool
    definitions: Definitions
    secrets: SecretMarker
    pinning: Pinning = Pinning.WARN
    run_workflow: Callable[[WorkflowTool, dict[str, Any]], tuple[str, tuple[Any, ...]]] | None = None
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
    """

    record: CallRecord
    tool: Tool | None
    error: Exception | None = None
    coercions: tuple[str, ...] = ()
    note: str | None = None


def run_call(trace: Trace, dispatcher: Dispatcher) -> Answer:  # @ToolTypeDispatch
    """Runs one call of a tool of either type.

    Args:
        trace: Tool and arguments; filled in with what becomes known.
        dispatcher: What the calls of the run share.

    Returns:
        What the tool answered; its own failure included.

    Raises:
        MCPError: The call could not be made, or gave no answer.
    """
    match trace.tool:
        case MCPTool():
            return _run_mcp(trace.tool, trace, dispatcher)
        case WorkflowTool():
            return _run_workflow(trace.tool, trace, dispatcher)
        case _:
            assert_never(trace.tool)


def recorded_call(call: Call, dispatcher: Dispatcher) -> CallOutcome:
    """Runs one call and records it, however it ends.

    Args:
        call: The call.
        dispatcher: What the calls of the run share.

    Returns:
        The finished call. Errors are part of it.
    """
    started = datetime.now(UTC)
    clock = time.perf_counter()
    if call.tool is None or call.error is not None:
        error = call.error or MCPError("There is no tool to call")
        return failed_call(call, error, dispatcher)
    trace = Trace(tool=call.tool, arguments=dict(call.arguments or {}))
    try:
        answer = run_call(trace, dispatcher)
        marker = _marker(trace, dispatcher)
        base = _base(call, trace, marker, dispatcher)
        record = _answered(base, call, answer, marker, dispatcher)
        error = answer.error
    except Exception as caught:
        _log_failure(caught, trace.tool)
        marker = _marker(trace, dispatcher)
        text = _error_text(caught, call, trace.tool, marker)
        record = replace(_base(call, trace, marker, dispatcher), status=status_of(caught), error=text)
        error = caught
    record = replace(record, started_at=utc_text(started), duration=round(time.perf_counter() - clock, 6))
    return CallOutcome(
        record=record, tool=trace.tool, error=error, coercions=trace.coercions, note=trace.note
    )


def failed_call(call: Call, error: Exception, dispatcher: Dispatcher) -> CallOutcome:
    """Records a call that was not made.

    Args:
        call: The call.
        error: Why.
        dispatcher: What the calls of the run share.

    Returns:
        The call, finished with that error.
    """
    if call.tool is None:
        base = CallRecord(run=dispatcher.run, input_row=call.input_row, status=CallStatus.FAILED)
        marker = dispatcher.secrets
    else:
        trace = Trace(tool=call.tool, arguments=dict(call.arguments or {}))
        marker = _marker(trace, dispatcher)
        base = _base(call, trace, marker, dispatcher)
    record = replace(base, status=status_of(error), error=_error_text(error, call, call.tool, marker))
    return CallOutcome(record=record, tool=call.tool, error=error)


def _run_mcp(tool: MCPTool, trace: Trace, dispatcher: Dispatcher) -> Answer:
    checked = dispatcher.definitions.check(tool, dispatcher.pinning, is_canceled=dispatcher.is_canceled)
    trace.tool, trace.note = checked.tool, checked.note
    _validate(checked.tool, trace)
    client = dispatcher.pool.client(checked.tool.route)
    invalid: ResultInvalid | None = None
    try:
        result = client.call_tool(
            checked.tool.tool_name,
            trace.arguments,
            on_progress=dispatcher.on_progress,
            on_attempt=trace.sent,
            is_canceled=dispatcher.is_canceled,
        )
    except ResultInvalid as error:
        invalid, result = error, cast("CallToolResult", error.result)
    trace.server_version = client.server.version
    trace.protocol = client.server.protocol_version
    return Answer(
        text=result.text,
        structured=result.structured_content,
        is_error=result.is_error,
        blocks=result.content,
        error=invalid,
    )


def _run_workflow(tool: WorkflowTool, trace: Trace, dispatcher: Dispatcher) -> Answer:
    from ..tools.protocol.results import ABSENT

    if dispatcher.run_workflow is None:
        raise MCPError("Workflow tools cannot be run here", tool=tool.name, fix=_NO_WORKFLOWS)
    if tool.input_ports:
        raise MCPError(
            f"The workflow wants {len(tool.input_ports)} input table(s), which this node does not have",
            tool=tool.name,
            fix=_WANTS_TABLES,
        )
    trace.attempts = 1
    try:
        message, outputs = dispatcher.run_workflow(tool, trace.arguments)
    except MCPError:
        raise
    except Exception as error:
        # What a tool's own failure is for an MCP tool, KNIME tells by an exception.
        return Answer(text=str(error) or type(error).__name__, structured=ABSENT, is_error=True)
    return Answer(text=message, structured=ABSENT, outputs=outputs)


def _validate(tool: MCPTool, trace: Trace) -> None:
    """Checks the arguments against the schema before anything is sent."""
    from ..tools.arguments import ArgumentValidator

    validator = ArgumentValidator.for_schema(tool.schema_json)
    trace.arguments, coercions = validator.check(trace.arguments)
    trace.coercions = tuple(f"{c.pointer}: text was read as {c.wanted}" for c in coercions)


def _base(call: Call, trace: Trace, marker: SecretMarker, dispatcher: Dispatcher) -> CallRecord:
    tool = trace.tool
    is_mcp = isinstance(tool, MCPTool)
    return CallRecord(
        run=dispatcher.run,
        input_row=call.input_row,
        tool=tool_text(tool),
        tool_name=tool.name,
        tool_type=tool.tool_type.name.lower(),
        server=tool.route.display if is_mcp else None,
        digest=tool.digest if is_mcp else None,
        arguments=None if call.arguments is None else _arguments_text(trace, marker),
        status=CallStatus.FAILED,
        attempts=trace.attempts,
        server_version=trace.server_version,
        protocol=trace.protocol,
    )


def _marker(trace: Trace, dispatcher: Dispatcher) -> SecretMarker:
    return dispatcher.secrets.for_call(trace.arguments, trace.tool.schema_json)


def _arguments_text(trace: Trace, marker: SecretMarker) -> str | None:
    try:
        return canonical_json(marker.mark(trace.arguments, trace.tool.schema_json))
    except (ValueError, TypeError, RecursionError):
        return None  # the call's error says what JSON cannot hold


def _answered(
    base: CallRecord, call: Call, answer: Answer, secrets: SecretMarker, dispatcher: Dispatcher
) -> CallRecord:
    from ..tools.protocol.results import ABSENT

    text = without_surrogates(cast("str", secrets.scrub(answer.text)))
    structured = None
    if answer.structured is not ABSENT:
        structured = canonical_json(secrets.scrub(answer.structured))
    files, image = _save_blobs(call, answer.blocks, dispatcher)
    status, error = CallStatus.OK, None
    if answer.error is not None:
        status, error = status_of(answer.error), _error_text(answer.error, call, call.tool, secrets)
    elif answer.is_error:
        status, error = CallStatus.TOOL_ERROR, text or "The tool failed without saying why"
    return replace(
        base,
        status=status,
        result=None if answer.is_error else text,
        error=error,
        structured_result=structured,
        files=files,
        image=image,
    )


def _save_blobs(
    call: Call, blocks: tuple[ContentBlock, ...], dispatcher: Dispatcher
) -> tuple[tuple[str, ...], str | None]:
    from ..tools.protocol.results import AudioContent, EmbeddedResource, ImageContent

    if dispatcher.save_blob is None:
        return (), None
    files: list[str] = []
    image: str | None = None
    for block in blocks:
        match block:
            case ImageContent(data=data, mime_type=mime_type) | AudioContent(data=data, mime_type=mime_type):
                pass
            case EmbeddedResource(blob=bytes(data), mime_type=mime_type):
                pass
            case _:
                continue
        files.append(dispatcher.save_blob(call, len(files), data, mime_type or "application/octet-stream"))
        if image is None and mime_type == "image/png":
            image = files[-1]
    return tuple(files), image


def _error_text(error: Exception, call: Call, tool: Tool | None, secrets: SecretMarker) -> str:
    if isinstance(error, MCPError):
        server = tool.route.display if isinstance(tool, MCPTool) else None
        placed = error.at(server=server, tool=tool.name if tool else None, row=call.input_row)
        pointer = error.pointer if isinstance(error, ArgumentsInvalid) else ""
        text = f"{pointer}: {placed}" if pointer and pointer not in str(placed) else str(placed)
    else:
        # Not one of ours: its message may hold anything, arguments and credentials included.
        text = f"Unexpected {type(error).__name__}. Please report this together with the log."
    return without_surrogates(cast("str", secrets.scrub(text)))


def _log_failure(error: Exception, tool: Tool) -> None:
    if isinstance(error, MCPError):
        _log.debug("%s of tool %s", type(error).__name__, tool.name)
    else:
        # Only where it happened: messages and locals may hold arguments.
        frames: list[str] = []
        trace = error.__traceback__
        while trace is not None:
            frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
            trace = trace.tb_next
        _log.error(
            "Unexpected %s of tool %s at %s", type(error).__name__, tool.name, " < ".join(frames[::-1])
        )
