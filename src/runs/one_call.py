"""One call, from its plan to its record: check, send, record.

The only place that knows how the two types of tool are executed: an MCP tool through the pool of sessions, a
workflow through a function of the host (in KNIME: ``ctx._execute_tool``).

There are three values: what came on the wire (the client's `CallToolResult`), what is known for ever (the
`CallRecord`), and what somebody reads (`CallOutcome`: the record, the error and the tool's answer).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never, cast

from ..audit.record import CallRecord, CallStatus, prepare, status_of, utc_text
from ..client.protocol.tools import ABSENT, AudioContent, EmbeddedResource, ImageContent
from ..types.errors import ArgumentsInvalid, MCPError, ResultInvalid, kind_and_place
from ..types.texts import canonical_json, counted, without_surrogates
from ..types.tool import MCPTool, WorkflowTool, to_json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..client.mcp_client import MCPClient, Progress
    from ..client.protocol.tools import CallToolResult, ContentBlock
    from ..types.tool import Tool
    from .engine import Run

_log = logging.getLogger(__name__)
_NO_WORKFLOWS = (
    "Use the MCP Agent Prompter or KNIME's Agent Prompter node for workflow tools, in KNIME Analytics"
    " Platform 5.8 or later"
)
_WANTS_TABLES = "Use the MCP Agent Prompter node: its data inputs feed such tools"


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

    @classmethod
    def of(cls, result: CallToolResult, error: MCPError | None = None) -> ToolAnswer:
        """The answer in an MCP result."""
        return cls(
            text=result.text,
            structured=result.structured_content,
            is_error=result.is_error,
            blocks=result.content,
            error=error,
        )


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


def recorded_call(plan: PlannedCall, run: Run) -> CallOutcome:
    """Makes one call and its record; errors are part of the outcome."""
    call = CallInProgress(plan, run)
    if plan.tool is None or plan.error is not None:
        return call.failed(plan.error or MCPError("There is no tool to call"))
    answer: ToolAnswer | None = None
    call.begin()
    try:
        try:
            sent = send(call, while_busy=call.prepare)
        finally:
            call.end()
        answer = call.scrubbed(sent)
        return call.answered(answer)
    except Exception as error:
        if isinstance(error, MCPError):
            _log.debug("%s of tool %s", type(error).__name__, plan.tool.name)
        else:
            _log.error("Tool %s: unexpected %s", plan.tool.name, kind_and_place(error))
        return call.failed(error, answer)


def failed_call(plan: PlannedCall, error: Exception, run: Run) -> CallOutcome:
    """Records a call that was not made, with the error as the reason."""
    return CallInProgress(plan, run).failed(error)


class CallInProgress:
    """What becomes known of a call while it is made, and its record at the end.

    The record's beginning is made and hashed while the server is busy with the call, when it costs nothing.

    Args:
        plan: The call.
        run: The run that it belongs to.

    Attributes:
        tool: The tool as it is called, None if it is not known.
        arguments: The arguments as sent.
        coercions: Descriptions of the changes that were necessary to the arguments.
        note: A warning.
        digest: Digest of the workflow that was run; the digest of an MCP tool is in the tool.
        attempts: The number of times that the call was sent.
        server_version: The server's name and version, as the server reports them.
        protocol: The protocol revision that was used.
    """

    __slots__ = (
        *("tool", "arguments", "coercions", "note", "digest", "attempts", "server_version", "protocol"),
        *("plan", "run", "_started_at", "_clock", "_duration", "_known", "_marker", "_beginning"),
    )

    def __init__(self, plan: PlannedCall, run: Run) -> None:
        self.plan, self.run = plan, run
        self.tool = plan.tool
        self.arguments: dict[str, Any] = dict(plan.arguments or {})
        self.coercions: tuple[str, ...] = ()
        self.note: str | None = None
        self.digest: str | None = None
        self.attempts = 0
        self.server_version: str | None = None
        self.protocol: str | None = None
        self._started_at: str | None = None
        self._clock = 0.0
        self._duration: float | None = None
        self._known: object = None  # the secrets that were known when the record's beginning was made
        self._marker = run.secrets
        self._beginning: CallRecord | None = None

    def begin(self) -> None:
        """Starts the clock."""
        self._started_at, self._clock = utc_text(datetime.now(UTC)), time.perf_counter()

    def end(self) -> None:
        """Stops the clock."""
        self._duration = round(time.perf_counter() - self._clock, 6)

    def sent(self) -> None:
        """Counts an attempt."""
        self.attempts += 1

    def prepare(self) -> None:
        """Makes the record's beginning, and its texts for the journal."""
        prepare(self._begun())

    def scrubbed(self, answer: ToolAnswer) -> ToolAnswer:
        """Marks the secrets in an answer's text and structured value; its blocks stay unchanged."""
        self._begun()
        before, marker = answer.structured, self._marker
        text = without_surrogates(cast("str", marker.scrub(answer.text)))
        structured = before if before is ABSENT else marker.scrub(before)
        if text is answer.text and structured is before:
            return answer
        return replace(answer, text=text, structured=structured)

    def answered(self, answer: ToolAnswer) -> CallOutcome:
        """The outcome of a call that was answered; saves the files of the answer, whose secrets are marked.

        Raises:
            MCPError: A file cannot be saved.
        """
        structured = None if answer.structured is ABSENT else canonical_json(answer.structured)
        files, image = save_blobs(self.plan, answer.blocks, self.run)
        status, error = CallStatus.OK, None
        if answer.error is not None:
            status, error = status_of(answer.error), self._text_of(answer.error)
        elif answer.is_error:
            status, error = CallStatus.TOOL_ERROR, answer.text or "The tool failed without saying why"
        result = None if answer.is_error else answer.text
        return self._outcome(
            answer.error,
            answer,
            status=status,
            result=result,
            error=error,
            structured_result=structured,
            files=files,
            image=image,
        )

    def failed(self, error: Exception, answer: ToolAnswer | None = None) -> CallOutcome:
        """The outcome of a call that was not made, or not answered, or whose answer could not be kept."""
        self._begun()
        status = CallStatus.DENIED if self.plan.denied else status_of(error)
        return self._outcome(error, answer, status=status, error=self._text_of(error))

    def _outcome(self, problem: Exception | None, answer: ToolAnswer | None, **ending: Any) -> CallOutcome:
        record = self._begun().but(
            attempts=self.attempts,
            server_version=self.server_version,
            protocol=self.protocol,
            duration=self._duration,
            **ending,
        )
        return CallOutcome(
            record=record,
            tool=self.tool,
            error=problem,
            coercions=self.coercions,
            note=self.note,
            answer=answer,
        )

    def _begun(self) -> CallRecord:
        """The record's beginning: what is known before the answer. Made anew if a secret became known."""
        secrets = self.run.secrets
        if self._beginning is None or self._known is not secrets.known:
            self._known = secrets.known
            tool = self.tool
            if tool is None:
                self._marker, self._beginning = secrets, self._begun_without_tool()
            else:
                # It also marks the secrets among the arguments where the server repeats them.
                self._marker = secrets.for_call(self.arguments, _schema_of(tool))
                self._beginning = self._begun_of(tool)
        return self._beginning

    def _begun_of(self, tool: Tool) -> CallRecord:
        is_mcp = isinstance(tool, MCPTool)
        return CallRecord(
            run=self.run.id,
            iteration=self.plan.iteration,
            input_row=self.plan.input_row,
            tool=to_json_text(tool),
            tool_name=tool.name,
            tool_type=tool.tool_type.name.lower(),
            server=tool.route.display if is_mcp else None,
            digest=tool.digest if is_mcp else self.digest,
            arguments=None if self.plan.arguments is None else self._arguments_text(tool),
            status=CallStatus.FAILED,  # until it has ended
            started_at=self._started_at,
        )

    def _begun_without_tool(self) -> CallRecord:
        plan, scrub = self.plan, self.run.secrets.scrub
        try:
            arguments = None if plan.arguments is None else canonical_json(scrub(dict(plan.arguments)))
        except (ValueError, TypeError, RecursionError):
            arguments = None
        return CallRecord(
            run=self.run.id,
            iteration=plan.iteration,
            input_row=plan.input_row,
            tool_name=None if plan.name is None else without_surrogates(scrub(plan.name)),
            arguments=arguments,
            status=CallStatus.FAILED,
            started_at=self._started_at,
        )

    def _arguments_text(self, tool: Tool) -> str | None:
        try:
            arguments = self._marker.mark(self.arguments, _schema_of(tool))
            if self.plan.data:  # the input tables are recorded in the form that models use
                chosen = {data.port: data.id for data in self.plan.data}
                arguments = {"configuration": arguments, "data_inputs": chosen}
            return canonical_json(arguments)
        except (ValueError, TypeError, RecursionError):
            return None  # the call's error names the value that JSON cannot hold

    def _text_of(self, error: Exception) -> str:
        """The text of an error, with its place and the next step, without secrets."""
        if isinstance(error, MCPError):
            server = self.tool.route.display if isinstance(self.tool, MCPTool) else None
            name = None if self.tool is None else self.tool.name
            placed = error.at(server=server, tool=name, row=self.plan.input_row)
            pointer = error.pointer if isinstance(error, ArgumentsInvalid) else ""
            text = f"{pointer}: {placed}" if pointer and pointer not in str(placed) else str(placed)
        else:
            # An exception of other code: its message may contain arguments and credentials.
            text = f"Unexpected {type(error).__name__}. Please report this together with the log."
        return without_surrogates(cast("str", self._marker.scrub(text)))


def _schema_of(tool: Tool) -> str:  # @ToolTypeDispatch
    """The schema of a tool's arguments as text."""
    match tool:
        case MCPTool():
            return tool.schema_json
        case WorkflowTool():  # it holds only the properties of its schema
            return f'{{"properties":{tool.schema_json or "{}"}}}'
        case _:
            assert_never(tool)


def send(
    call: CallInProgress, *, while_busy: Callable[[], None] | None = None
) -> ToolAnswer:  # @ToolTypeDispatch
    """Checks a call and sends it to its tool, of either type.

    Args:
        call: The call; what becomes known of it is added.
        while_busy: Called once while a server is busy with the call.

    Returns:
        The tool's answer, which may say that the tool failed.

    Raises:
        MCPError: The call could not be made, or was not answered.
    """
    match call.tool:
        case MCPTool():
            return _send_mcp(call.tool, call, while_busy)
        case WorkflowTool():
            return _run_workflow(call.tool, call)
        case None:
            raise MCPError("There is no tool to call")
        case _:
            assert_never(call.tool)


def _send_mcp(tool: MCPTool, call: CallInProgress, while_busy: Callable[[], None] | None) -> ToolAnswer:
    run = call.run
    checked = run.definitions.check(tool, run.pinning, is_canceled=run.is_canceled)
    call.tool, call.note = checked.tool, checked.note
    _check_arguments(checked.tool, call)
    client = run.pool.client(checked.tool.route)
    invalid: ResultInvalid | None = None
    try:
        result = client.call_tool(
            checked.tool.tool_name,
            call.arguments,
            on_progress=None if run.on_progress is None else partial(_tell, client, run),
            on_attempt=call.sent,
            meanwhile=while_busy,
            is_canceled=run.is_canceled,
        )
    except ResultInvalid as error:
        invalid, result = error, cast("CallToolResult", error.result)
    run.secrets.learn(client.secrets())
    call.server_version = client.server.version
    call.protocol = client.server.protocol_version
    return ToolAnswer.of(result, invalid)


def _check_arguments(tool: MCPTool, call: CallInProgress) -> None:
    """Checks the arguments against the schema before anything is sent."""
    from ..client.validation.argument_schemas import ArgumentValidator

    validator = ArgumentValidator.for_schema(tool.schema_json)
    call.arguments, coercions = validator.check(call.arguments)
    call.coercions = tuple(f"{c.pointer}: text was read as {c.wanted}" for c in coercions)
    if validator.fault is not None:
        unchecked = (
            f"The arguments of '{tool.name}' were not checked, because of its schema: {validator.fault}"
        )
        call.note = f"{call.note} {unchecked}" if call.note else unchecked


def _tell(client: MCPClient, run: Run, progress: Progress) -> None:
    """Passes on a progress report. Reads the client's secrets each time, as tokens may have been renewed."""
    assert run.on_progress is not None
    run.secrets.learn(client.secrets())
    run.on_progress(replace(progress, message=run.secrets.scrub(progress.message)))


def _run_workflow(tool: WorkflowTool, call: CallInProgress) -> ToolAnswer:
    run, data = call.run, call.plan.data
    if run.run_workflow is None:
        raise MCPError("Workflow tools cannot be run here", tool=tool.name, fix=_NO_WORKFLOWS)
    if len(data) != len(tool.input_ports):
        raise MCPError(
            f"The workflow wants {counted(len(tool.input_ports), 'input table')}, but has {len(data)}",
            tool=tool.name,
            fix=_WANTS_TABLES,
        )
    if run.workflow_digest is not None:
        call.digest = run.workflow_digest(tool)
    call.attempts = 1
    try:
        message, outputs = run.run_workflow(tool, call.arguments, tuple(given.table for given in data))
    except MCPError:
        raise
    except Exception as error:
        # KNIME raises an exception where an MCP tool would return a result with isError. The text of one from
        # its Java side is a whole stack trace.
        java: Any = getattr(error, "java_exception", None)
        text = str(error) if java is None else str(java.getMessage() or java.getClass().getName())
        return ToolAnswer(text=text or type(error).__name__, is_error=True)
    return ToolAnswer(text=message, outputs=outputs)


def save_blobs(
    plan: PlannedCall, blocks: tuple[ContentBlock, ...], run: Run
) -> tuple[tuple[str, ...], str | None]:
    """Saves the blobs of an answer, and returns their paths and the path of the first picture."""
    if run.save_blob is None:
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
        files.append(run.save_blob(plan, len(files), data, mime_type or "application/octet-stream"))
        if image is None and mime_type == "image/png":
            image = files[-1]
    return tuple(files), image
