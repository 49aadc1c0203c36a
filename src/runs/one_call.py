"""The values of a call: the call to make, its trace, answer and outcome, and what calls of a run share."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Required, Self, TypeAlias, TypedDict, Unpack, assert_never, cast

from ..audit.chain import prepare
from ..audit.record import CallRecord, CallStatus, status_of, utc_text
from ..client.protocol.results import ABSENT, AudioContent, EmbeddedResource, ImageContent
from ..types.canonical import canonical_json, without_surrogates
from ..types.errors import ArgumentsInvalid, MCPError, ResultInvalid, kind_and_place
from ..types.fields import to_json_text
from ..types.short_texts import counted
from ..types.tool import MCPTool, WorkflowTool
from .definitions import Pinning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..audit.secrets import SecretMarker
    from ..client.mcp_client import MCPClient, Progress, SessionPool
    from ..client.protocol.results import CallToolResult, ContentBlock
    from ..types.tool import Tool
    from .definitions import Definitions


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
    from ..client.validation.argument_checks import ArgumentValidator

    validator = ArgumentValidator.for_schema(tool.schema_json)
    trace.arguments, coercions = validator.check(trace.arguments)
    trace.coercions = tuple(f"{c.pointer}: text was read as {c.wanted}" for c in coercions)
    if validator.fault is not None:
        unchecked = (
            f"The arguments of '{tool.name}' were not checked, because of its schema: {validator.fault}"
        )
        trace.note = f"{trace.note} {unchecked}" if trace.note else unchecked


_log = logging.getLogger(__name__)


class Ending(TypedDict, total=False):
    """The attributes of a record that are known at the end of the call; the status is required."""

    status: Required[CallStatus]
    result: str | None
    error: str | None
    structured_result: str | None
    files: tuple[str, ...]
    image: str | None


def unknown_record(call: Call, dispatcher: Dispatcher, **ending: Unpack[Ending]) -> CallRecord:
    """The record of a call to an unknown tool."""
    secrets = dispatcher.secrets
    return CallRecord(
        run=dispatcher.run,
        iteration=call.iteration,
        input_row=call.input_row,
        tool_name=None if call.name is None else without_surrogates(secrets.scrub(call.name)),
        arguments=_json_text(call.arguments, secrets),
        **ending,
    )


def record_of(
    call: Call, trace: Trace, marker: SecretMarker, dispatcher: Dispatcher, **ending: Unpack[Ending]
) -> CallRecord:
    """The record of a call that has ended, with the facts of its trace and its secrets marked."""
    return _ended(_begun(call, trace, marker, dispatcher), trace, ending)


class Opening:
    """The part of a call's record that is known before the call is answered.

    Args:
        call: The call.
        trace: The facts that are known about it.
        dispatcher: The objects that the calls of the run share.

    Attributes:
        marker: Marks secrets, including secrets among the arguments.
    """

    __slots__ = ("_known", "_record", "marker")

    def __init__(self, call: Call, trace: Trace, dispatcher: Dispatcher) -> None:
        self._known = dispatcher.secrets.known
        self.marker = marker_of(trace, dispatcher)
        self._record = _begun(call, trace, self.marker, dispatcher)

    def holds(self, dispatcher: Dispatcher) -> bool:
        """Returns whether the opening can still be used: no new secret became known since."""
        return self._known is dispatcher.secrets.known

    def prepare(self) -> Self:
        """Writes the record's texts for the journal in advance."""
        prepare(self._record)
        return self

    def ended(self, trace: Trace, ending: Ending) -> CallRecord:
        """The finished record, with the facts of the trace and the ending."""
        return _ended(self._record, trace, ending)


def _begun(call: Call, trace: Trace, marker: SecretMarker, dispatcher: Dispatcher) -> CallRecord:
    tool = trace.tool
    is_mcp = isinstance(tool, MCPTool)
    return CallRecord(
        run=dispatcher.run,
        iteration=call.iteration,
        input_row=call.input_row,
        tool=to_json_text(tool),
        tool_name=tool.name,
        tool_type=tool.tool_type.name.lower(),
        server=tool.route.display if is_mcp else None,
        digest=tool.digest if is_mcp else trace.digest,
        arguments=None if call.arguments is None else _arguments_text(trace, marker),
        status=CallStatus.FAILED,  # until it has ended
        started_at=None if trace.started_at is None else utc_text(trace.started_at),
    )


def _ended(begun: CallRecord, trace: Trace, ending: Ending) -> CallRecord:
    return begun.but(
        attempts=trace.attempts,
        server_version=trace.server_version,
        protocol=trace.protocol,
        duration=trace.duration,
        **ending,
    )


def marker_of(trace: Trace, dispatcher: Dispatcher) -> SecretMarker:
    """Makes the marker of one call, which also marks the secrets among its arguments."""
    return dispatcher.secrets.for_call(trace.arguments, _schema_of(trace.tool))


def _schema_of(tool: Tool) -> str:  # @ToolTypeDispatch
    """The schema of a tool's arguments as text."""
    match tool:
        case MCPTool():
            return tool.schema_json
        case WorkflowTool():  # it holds only the properties of its schema
            return f'{{"properties":{tool.schema_json or "{}"}}}'
        case _:
            assert_never(tool)


def _arguments_text(trace: Trace, marker: SecretMarker) -> str | None:
    try:
        arguments = marker.mark(trace.arguments, _schema_of(trace.tool))
        if trace.data:  # the input tables are recorded in the form that models use
            chosen = {data.port: data.id for data in trace.data}
            arguments = {"configuration": arguments, "data_inputs": chosen}
        return canonical_json(arguments)
    except (ValueError, TypeError, RecursionError):
        return None  # the call's error names the value that JSON cannot hold


def _json_text(arguments: Mapping[str, Any] | None, marker: SecretMarker) -> str | None:
    """The arguments of a call to an unknown tool."""
    try:
        return None if arguments is None else canonical_json(marker.scrub(dict(arguments)))
    except (ValueError, TypeError, RecursionError):
        return None


def scrubbed(answer: Answer, marker: SecretMarker) -> Answer:
    """Marks the secrets in an answer's text and structured value; its blocks stay unchanged."""
    before = answer.structured
    text = without_surrogates(cast("str", marker.scrub(answer.text)))
    structured = before if before is ABSENT else marker.scrub(before)
    if text is answer.text and structured is before:
        return answer
    return replace(answer, text=text, structured=structured)


def answered(call: Call, answer: Answer, secrets: SecretMarker, dispatcher: Dispatcher) -> Ending:
    """The ending of an answered call, from the answer with its secrets marked; saves its blobs."""
    text = answer.text
    structured = None if answer.structured is ABSENT else canonical_json(answer.structured)
    files, image = save_blobs(call, answer.blocks, dispatcher)
    status, error = CallStatus.OK, None
    if answer.error is not None:
        status, error = status_of(answer.error), error_text(answer.error, call, call.tool, secrets)
    elif answer.is_error:
        status, error = CallStatus.TOOL_ERROR, text or "The tool failed without saying why"
    return Ending(
        status=status,
        result=None if answer.is_error else text,
        error=error,
        structured_result=structured,
        files=files,
        image=image,
    )


def save_blobs(
    call: Call, blocks: tuple[ContentBlock, ...], dispatcher: Dispatcher
) -> tuple[tuple[str, ...], str | None]:
    """Saves the blobs of an answer, and returns their paths and the path of the first picture."""
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


def error_text(error: Exception, call: Call, tool: Tool | None, secrets: SecretMarker) -> str:
    """The text of an error, with its place and the next step, without secrets."""
    if isinstance(error, MCPError):
        server = tool.route.display if isinstance(tool, MCPTool) else None
        placed = error.at(server=server, tool=tool.name if tool else None, row=call.input_row)
        pointer = error.pointer if isinstance(error, ArgumentsInvalid) else ""
        text = f"{pointer}: {placed}" if pointer and pointer not in str(placed) else str(placed)
    else:
        # An exception of other code: its message may contain arguments and credentials.
        text = f"Unexpected {type(error).__name__}. Please report this together with the log."
    return without_surrogates(cast("str", secrets.scrub(text)))


def log_failure(error: Exception, tool: Tool) -> None:
    """Logs that a call failed, without its arguments and its message."""
    if isinstance(error, MCPError):
        _log.debug("%s of tool %s", type(error).__name__, tool.name)
    else:
        _log.error("Tool %s: unexpected %s", tool.name, kind_and_place(error))
