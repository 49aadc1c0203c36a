"""The Caller's view: the called tool with its schema, and the outcomes of the calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from ...audit.record import CallStatus
from ...types.errors import ToolFormatError
from ...types.texts import counted, visible
from ...types.tool import MCPTool, WorkflowTool
from .html import (
    Html,
    badge,
    data_image,
    details,
    element,
    heading,
    join,
    json_block,
    note,
    page,
    paragraph,
    properties,
)

if TYPE_CHECKING:
    from ...audit.record import CallRecord
    from ...runs.table_run import RunSummary
    from ...types.tool import Tool
    from .html import BadgeKind


def meaning_of(status: CallStatus) -> BadgeKind:
    """The meaning of a status: good, bad, or intended although there is no result."""
    match status:
        case CallStatus.OK:
            return "good"
        case CallStatus.DENIED | CallStatus.CANCELED:
            return "warning"
        case CallStatus.TOOL_ERROR | CallStatus.INVALID_ARGUMENTS | CallStatus.NOT_FOUND | CallStatus.FAILED:
            return "bad"
        case _:
            assert_never(status)


def status_badge(status: CallStatus) -> Html:
    return badge(status.value, meaning_of(status))


_SHOWN_TOOLS: Final = 20
_SHOWN_PICTURES: Final = 10
_LARGEST_PICTURE: Final = 500_000  # bytes, so that the page stays below some megabytes


def calls_page(summary: RunSummary) -> str:
    warning = visible(summary.warning() or "")
    counts = ", ".join(f"{count} {status.value}" for status, count in summary.statuses.most_common())
    totals = counted(summary.statuses.total(), "call") + (f": {counts}" if counts else "")
    if summary.resumed:
        totals += f"; {summary.resumed} of them filled in from the run before"
    tools = [*summary.tools.values()]
    more = len(tools) - _SHOWN_TOOLS
    return page(
        "MCP Tool Caller",
        heading(1, "MCP Tool Caller"),
        paragraph(totals),
        note(warning, kind="warning") if warning else None,
        heading(2, "Tool" if len(tools) == 1 else "Tools") if tools else None,
        join(_tool(tool, opened=len(tools) == 1) for tool in tools[:_SHOWN_TOOLS]),
        paragraph(f"… and {more} more tools, in the table", soft=True) if more > 0 else None,
        _calls("Calls without a result", summary.failures, summary.failed),
        _calls("Calls", summary.successes, summary.statuses[CallStatus.OK]),
    )


def _tool(tool: Tool, *, opened: bool) -> Html:  # @ToolTypeDispatch
    match tool:
        case MCPTool():
            kind, server, remote = "MCP tool", tool.route.display, tool.tool_name
            declared = _output_schema(tool)
        case WorkflowTool():
            kind, server, remote, declared = "KNIME workflow", None, tool.name, None
        case _:
            assert_never(tool)
    return details(
        join((element("b", tool.name), badge(kind)), " "),
        properties(
            (
                ("Type", kind),
                ("Name", tool.name),
                ("Name at the server", remote if remote != tool.name else None),
                ("Description", tool.description),
                ("Server", server),
                ("Digest", tool.digest if isinstance(tool, MCPTool) else None),
            )
        ),
        heading(3, "Parameter schema"),
        json_block(tool.schema_json or "{}"),
        heading(3, "Output schema") if declared is not None else None,
        json_block(declared) if declared is not None else None,
        opened=opened,
    )


def _output_schema(tool: MCPTool) -> Any:
    """The output schema, or its text if that is not JSON, as the calls were made all the same."""
    try:
        return tool.output_schema
    except ToolFormatError:
        return tool.declared_json


def _calls(title: str, records: list[CallRecord], count: int) -> Html:
    if not records:
        return Html()
    more = count - len(records)
    return join(
        (
            heading(2, title),
            join(
                _call(record, opened=count == 1, pictured=place < _SHOWN_PICTURES)
                for place, record in enumerate(records)
            ),
            paragraph(f"… and {more} more, in the table", soft=True) if more > 0 else None,
        )
    )


def _call(record: CallRecord, *, opened: bool, pictured: bool) -> Html:
    where = record.input_row if record.input_row is not None else "Call"
    duration = None if record.duration is None else f"{record.duration:.3f} s"
    summary = join(
        (
            element("b", where),
            element("span", record.tool_name or "no tool"),
            status_badge(record.status),
            badge("resumed") if record.resumed_from else None,
            duration,
        ),
        " ",
    )
    return details(
        summary,
        json_block(record.arguments) if record.arguments is not None else None,
        note(record.error, kind="bad") if record.error else None,
        paragraph(record.result) if record.result else None,
        _picture(record.image) if pictured and record.image else None,
        json_block(record.structured_result) if record.structured_result else None,
        properties((("Files", "\n".join(record.files)), ("Started at", record.started_at))),
        opened=opened,
    )


def _picture(file: str) -> Html | None:
    try:
        data = Path(file).read_bytes() if Path(file).stat().st_size <= _LARGEST_PICTURE else None
    except OSError:  # an earlier run's file may be gone
        data = None
    return data_image(data, "image/png", description="Image that the tool gave") if data else None
