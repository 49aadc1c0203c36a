"""What a run has to say stays short, however much there is to say."""

import pytest

from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.runs.call_values import CallOutcome
from knime_mcp.runs.table_run import RunSummary
from knime_mcp.tools.caller.calls_report import calls_page
from knime_mcp.types.tool import MCPTool

pytestmark = pytest.mark.quick


def test_a_thousand_things_to_warn_of_are_a_few_and_a_number():
    summary = RunSummary(total=1000)
    for number in range(1000):
        record = CallRecord(run="r", status=CallStatus.OK)
        summary.add(CallOutcome(record=record, tool=None, note=f"tool {number}: changed"))
    assert summary.warning() == (
        "tool 0: changed. tool 1: changed. tool 2: changed. tool 3: changed. tool 4: changed."
        " And 995 more of this kind."
    )


def test_what_a_tool_says_hides_nothing_in_the_warning():
    summary = RunSummary(total=1)
    record = CallRecord(run="r", status=CallStatus.TOOL_ERROR, error="no \u202e\x00 way")
    summary.add(CallOutcome(record=record, tool=None))
    assert r"The call failed: no \u{202e}\u{0000} way" in calls_page(summary)


def test_a_cell_that_cannot_be_read_whole_does_not_lose_the_calls_that_were_made():
    cell = ("t", None, "{x", "{<y>", "http://127.0.0.1:9/mcp", None)
    tool = MCPTool.from_cell(*cell)
    summary = RunSummary(total=1)
    summary.add(CallOutcome(record=CallRecord(run="r", status=CallStatus.OK), tool=tool))
    page = calls_page(summary)
    assert "{x" in page
    assert "{&lt;y&gt;" in page


def test_many_tools_with_huge_schemas_make_no_huge_page():
    summary = RunSummary(total=23)
    for i in range(23):
        tool = MCPTool(f"t{i}", "", {"description": "x" * 1_000_000}, "http://127.0.0.1:9/mcp", f"t{i}")
        summary.add(CallOutcome(record=CallRecord(run="r", status=CallStatus.OK), tool=tool))
    page = calls_page(summary)
    assert len(page) < 4_100_000
    assert page.count("1,000,018 characters in all") == 20
    assert "… and 3 more tools, in the table" in page


def test_row_and_tool_stand_apart_whatever_their_direction():
    tool = MCPTool("\u05d7\u05d9", "", {}, "http://127.0.0.1:9/mcp", "t")
    record = CallRecord(run="r", status=CallStatus.OK, input_row="\u05e9\u05d5 1", tool_name=tool.name)
    summary = RunSummary(total=1)
    summary.add(CallOutcome(record=record, tool=tool))
    page = calls_page(summary)
    assert f"<summary><b>\u05e9\u05d5 1</b> <span>{tool.name}</span> " in page
    assert f"<summary><b>{tool.name}</b> " in page
    assert "b, span, .text, .note, td, dd { unicode-bidi: plaintext; }" in page
