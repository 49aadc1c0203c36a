"""Naming a tool."""

import pyarrow as pa
import pytest

from knime_mcp.runs.argument_sources import PlannedCalls
from knime_mcp.runs.parameter_rows import ParameterRows
from knime_mcp.types.columns import ToolLookup
from knime_mcp.types.errors import ToolNotFound
from knime_mcp.types.tool import MCPTool, WorkflowTool

pytestmark = pytest.mark.quick


def tool(name, url="https://one.test/mcp", remote=None):
    return MCPTool(name, "", {}, url, remote or name)


ONE, TWO = tool("search"), tool("search", "https://two.test/mcp")
PREFIXED = tool("crm_find", remote="find")
WORKFLOW = WorkflowTool("search", "", {})


@pytest.mark.requirement("T54")
def test_a_tool_is_found_by_every_name_it_has(subtests):
    for tools, name, found in [
        ([ONE], "search", ONE),
        ([ONE], " search ", ONE),
        ([ONE], "Row0", ONE),
        ([ONE, TWO], "search @ two.test", TWO),
        ([ONE, TWO], "search @ https://two.test/mcp", TWO),
        ([ONE, WORKFLOW], "search @ workflow", WORKFLOW),
        ([ONE, TWO], "Row1", TWO),
        ([ONE, ONE], "search", ONE),
        ([PREFIXED], "crm_find", PREFIXED),
        ([PREFIXED], "find", PREFIXED),
        ([PREFIXED, tool("find")], "find", tool("find")),
        ([tool("Row1"), TWO], "Row1", tool("Row1")),
        ([None, ONE], "search", ONE),
    ]:
        with subtests.test(tools=tools, name=name, found=found):
            assert ToolLookup(tools, [f"Row{i}" for i in range(len(tools))]).find(name) == found


def test_a_name_of_no_tool_or_of_several_says_what_to_write(subtests):
    for tools, name, said in [
        ([ONE, TWO], "search", ("search @ one.test", "search @ two.test")),
        ([ONE, WORKFLOW], "search", ("search @ one.test", "search @ workflow")),
        ([tool("a", remote="x"), tool("b", remote="x")], "x", ("a", "b")),
        ([ONE, tool("sort")], "serach", ("search",)),
        ([ONE], "SEARCH", ("search",)),
        ([tool("find_all @ one.test", remote="find_all")], "Find all", ("find_all @ one.test",)),
        ([ONE, TWO], "serach", ("search @ one.test", "search @ two.test")),
        ([], "search", ()),
        ([ONE], "", ()),
        ([None], "Row0", ()),
    ]:
        with subtests.test(tools=tools, name=name, said=said):
            with pytest.raises(ToolNotFound) as caught:
                ToolLookup(tools, [f"Row{i}" for i in range(len(tools))]).find(name)
            assert caught.value.suggestions == said
            assert all(repr(text) in str(caught.value) for text in said)
            assert caught.value.fix


def test_what_is_suggested_can_be_found():
    tools = [ONE, TWO, WORKFLOW, tool("search", "https://one.test/other")]
    lookup = ToolLookup(tools, ["a", "b", "c", "d"])
    with pytest.raises(ToolNotFound) as caught:
        lookup.find("search")
    assert [lookup.find(text) for text in caught.value.suggestions] == tools


def test_rows_that_name_the_same_tool_look_for_it_once():
    lookup, asked = ToolLookup([ONE, TWO, PREFIXED], ["a", "b", "c"]), []

    def find(name):
        asked.append(name)
        return lookup.find(name)

    names = ["crm_find", "crm_fnd", "search", None] * 3
    rows = pa.table({"<RowID>": [f"Row{i}" for i in range(12)], "tool": names})
    calls = list(
        PlannedCalls(find_tool=find, parameters=ParameterRows(table=rows), tool_column="tool").calls()
    )
    assert [call.tool for call in calls] == [PREFIXED, None, None, None] * 3
    assert [type(call.error) for call in calls] == [type(None), *[ToolNotFound] * 3] * 3
    assert "Did you mean 'crm_find'?" in str(calls[5].error)
    assert asked == ["crm_find", "crm_fnd", "search"]
