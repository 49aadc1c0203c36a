"""Makes the records of calls from what was sent and returned, with every secret marked."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Required, Self, TypedDict, Unpack, assert_never, cast

from ..client.protocol.results import ABSENT, AudioContent, EmbeddedResource, ImageContent
from ..types.canonical import canonical_json, without_surrogates
from ..types.errors import ArgumentsInvalid, MCPError, kind_and_place
from ..types.portable import to_json_text
from ..types.tool import MCPTool, WorkflowTool
from .chain import prepare
from .record import CallRecord, CallStatus, status_of, utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..client.protocol.results import ContentBlock
    from ..types.tool import Tool
    from .call import Answer, Call, Dispatcher, Trace
    from .secrets import SecretMarker

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
