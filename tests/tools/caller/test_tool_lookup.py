"""Naming a tool."""

import pytest

from knime_mcp.tools.caller.tool_lookup import ToolLookup
from knime_mcp.types.errors import ToolNotFound
from knime_mcp.types.tool import MCPTool, WorkflowTool


def tool(name, url="https://one.test/mcp", remote=None):
    return MCPTool(name, "", {}, url, remote or name)


ONE, TWO = tool("search"), tool("search", "https://two.test/mcp")
PREFIXED = tool("crm_find", remote="find")
WORKFLOW = WorkflowTool("search", "", {})


@pytest.mark.requirement("T54")
@pytest.mark.parametrize(
    ("tools", "name", "found"),
    [
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
    ],
)
def test_names(tools, name, found):
    assert ToolLookup(tools, [f"Row{i}" for i in range(len(tools))]).find(name) == found


@pytest.mark.parametrize(
    ("tools", "name", "said"),
    [
        ([ONE, TWO], "search", ("search @ one.test", "search @ two.test")),
        ([ONE, WORKFLOW], "search", ("search @ one.test", "search @ workflow")),
        ([tool("a", remote="x"), tool("b", remote="x")], "x", ("a", "b")),
        ([ONE, tool("sort")], "serach", ("search",)),
        ([ONE], "SEARCH", ("search",)),
        ([], "search", ()),
        ([ONE], "", ()),
        ([None], "Row0", ()),
    ],
)
def test_what_is_said_instead(tools, name, said):
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
