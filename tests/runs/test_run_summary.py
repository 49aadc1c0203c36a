"""What a run has to say stays short, however much there is to say."""

import pytest

from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.runs.call_values import CallOutcome
from knime_mcp.runs.table_run import RunSummary
from knime_mcp.tools.caller.calls_report import calls_page
from knime_mcp.tools.views.run_page import Steps, call_step
from knime_mcp.types.tool import MCPTool, from_fields, to_json_text
from tests.support.pages import RunPage

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
    assert r"The call failed: no \u{202e}\u{0000} way" in calls_page(summary, Steps())


def page_of(tools):
    """The view of a call of each tool."""
    summary, steps = RunSummary(total=len(tools)), Steps()
    for tool in tools:
        record = CallRecord(run="r", status=CallStatus.OK, tool=to_json_text(tool), tool_name=tool.name)
        outcome = CallOutcome(record=record, tool=tool)
        summary.add(outcome)
        steps.add(call_step(record))
    return RunPage(calls_page(summary, steps))


def test_a_cell_that_cannot_be_read_whole_does_not_lose_the_calls_that_were_made():
    tool = from_fields(1, "t", None, "{x", None, "{<y>", -1, None, "http://127.0.0.1:9/mcp")
    page = page_of([tool])
    assert [step["name"] for step in page.steps] == ["t"]
    assert page.tools["0"]["schema"] == "{x"
    assert page.tools["0"]["output"] == "{<y>"


def test_many_tools_with_huge_schemas_make_no_huge_page():
    page = page_of(
        [
            MCPTool(f"t{i}", "", {"description": "x" * 1_000_000}, "http://127.0.0.1:9/mcp", f"t{i}")
            for i in range(23)
        ]
    )
    assert len(page.text) < 1_000_000
    assert page.text.count("1,000,018 characters in all") == 23
