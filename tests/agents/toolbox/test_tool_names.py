"""Names for models: valid, unique, stable, and reversible."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.agents.toolbox.toolset import Toolset, bound_names, shown_names
from knime_mcp.types.tool import MCPTool, WorkflowTool

FIT = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def mcp(name, host="one.example", tool_name=None):
    return MCPTool(name, "", {}, f"https://{host}/mcp", tool_name or name)


TOOLS = st.lists(
    st.builds(
        lambda name, host, kind: mcp(name, host) if kind else WorkflowTool(name, host, {}),
        st.text(alphabet="aB_- .é工" + "0", max_size=4)
        | st.sampled_from(["n" * 64, "n" * 65, "n" * 200, "a", "a b", "a_b"]),
        st.sampled_from(["one.example", "two.example"]),
        st.booleans(),
    ),
    max_size=12,
    unique=True,
)


@given(tools=TOOLS, seed=st.integers(0, 99))
def test_fit_unique_and_independent_of_order(tools, seed):
    names = bound_names(tools)
    assert all(FIT.fullmatch(name) for name in names)
    assert len(set(names)) == len(tools)
    toolset = Toolset(tools)
    assert [toolset.by_name[name].tool for name in names] == tools
    distinct = [t for t in tools if isinstance(t, MCPTool)]
    shuffled = random.Random(seed).sample(distinct, len(distinct))
    assert dict(zip(distinct, bound_names(distinct), strict=True)) == dict(
        zip(shuffled, bound_names(shuffled), strict=True)
    )


def test_names_that_fit_stay():
    tools = [mcp("search"), mcp("get-item_2"), WorkflowTool("Report", "", {})]
    assert bound_names(tools) == ("search", "get-item_2", "Report")
    assert shown_names(tools) == ("search", "get-item_2", "Report")


def test_names_begin_as_all_endpoints_want_it():
    assert bound_names([mcp("2d"), mcp("-x"), mcp("_x"), mcp("größe")]) == ("_2d", "_-x", "_x", "gr__e")


def test_an_unfit_name_does_not_take_a_fit_one():
    spaced, fit = bound_names([mcp("a b"), mcp("a_b")])
    assert fit == "a_b"
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", spaced)
    assert bound_names([mcp("Customer report")]) == ("Customer_report",)


@pytest.mark.requirement("T25")
def test_a_workflow_and_two_servers_with_one_name():
    tools = [WorkflowTool("search", "", {}), mcp("search"), mcp("search", "two.example")]
    names = bound_names(tools)
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"search_[0-9a-f]{8}", name) for name in names)
    assert shown_names(tools) == ("search @ workflow", "search @ one.example", "search @ two.example")
    toolset = Toolset(tools)
    for tool, name, shown in zip(tools, names, shown_names(tools), strict=True):
        assert toolset.by_name[name].tool is tool
        assert toolset.shown_name(name) == shown


def test_a_new_definition_keeps_the_name():
    before, after = (
        MCPTool("a b", "", {}, f"https://one.example/mcp#digest=sha256:{digit * 64}", "a b") for digit in "01"
    )
    assert bound_names([before, mcp("a_b")]) == bound_names([after, mcp("a_b")])


def test_long_names_keep_their_beginning():
    (name,) = bound_names([mcp("n" * 200)])
    assert len(name) == 64
    assert name.startswith("n" * 55 + "_")


def test_the_same_tool_twice_is_one_tool():
    toolset = Toolset([mcp("a"), mcp("a"), mcp("b")])
    assert [bound.name for bound in toolset.bound] == ["a", "b"]


def test_tools_that_nothing_tells_apart_are_numbered():
    tools = [WorkflowTool("w", description, {}) for description in "xyz"]
    names = bound_names(tools)
    assert len(set(names)) == 3
    assert names[1] == f"{names[0]}_2"


def test_a_wrong_name_suggests_the_right_ones():
    toolset = Toolset([mcp("get_weather"), mcp("get_forecast"), mcp("Send mail")])
    assert toolset.similar("getWeather") == ("get_weather",)
    assert toolset.similar("send_mail") == ("Send_mail",)
    assert toolset.similar("functions.get_weather")[0] == "get_weather"
    assert toolset.similar("get_forecast<|channel|>commentary")[0] == "get_forecast"
    assert toolset.similar("xyz") == ()
    assert toolset.shown_name("nothing") == "nothing"


def test_real_tools_win_the_names_of_built_in_ones():
    assert Toolset([mcp("a")]).free_name("read_result") == "read_result"
    assert Toolset([mcp("read_result"), mcp("read_result_2")]).free_name("read_result") == "read_result_3"
