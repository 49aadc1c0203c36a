"""Expressions on saved runs, compared with what the nodes saw while they ran."""

import json

import pytest

from knime_mcp.types.errors import SettingInvalid
from knime_mcp_graph import McpGraphApi
from knime_mcp_graph.expressions import UNDEFINED
from knime_mcp_graph.expressions.javascript import json_value
from knime_mcp_graph.recorded_runs import evaluate_in_run, saved_records, ways_taken

from .graphs import ENTRY, EXIT, load, tool, transform, yaml

pytestmark = pytest.mark.quick


INNER = tool("{id: entry, type: entry, next: x}", transform("{'got': entry.v}"), EXIT, name="inner")
OUTER = tool(
    ENTRY,
    transform("{'first': 1}", following="fan"),
    "{id: fan, type: parallel, branches: [left, right], next: each}",
    transform("{'l': x.first}", node="left", following="left2"),
    transform("{'l2': left.l + 1}", node="left2", following="each"),
    "{id: right, type: tool, tool: inner, args: {v: 7}, next: each}",
    "{id: each, type: forEach, items: '[10, 20]', do: body, next: again}",
    transform("{'sum': each.item + each.index}", node="body", following="again"),
    transform("{'n': $executionCount('again') + 1}", node="again", following="more"),
    "{id: more, type: switch, conditions: [{rule: {'<': [{var: again.n}, 2]}, next: again}], next: last}",
    transform("{'done': true}", node="last"),
    EXIT,
)


@pytest.fixture(scope="module")
def saved():
    """A run as JSON, and the context that each of its executions saw."""
    with McpGraphApi(load(yaml(OUTER, INNER, servers=""))) as api:
        result = api.execute_tool("t", {"a": 1})
    seen = {record.index: record.context() for record in result.history}
    history = json.loads(json.dumps([record.to_json() for record in result.history]))
    return history, seen


def test_each_execution_sees_what_it_saw(saved):
    history, seen = saved
    assert len(seen) == len(history) > 14
    for number, context in seen.items():
        found = evaluate_in_run("$$", {"executionHistory": history}, str(number))
        assert found == json_value(context), history[number]["nodeId"]


def test_the_end_and_the_functions_of_histories(saved):
    history, _ = saved
    assert evaluate_in_run("each[0].sum", history) == 10
    assert evaluate_in_run("$executionCount('again')", history) == 2
    assert evaluate_in_run("$executionCount('body')", history) == 2
    assert evaluate_in_run("$nodeExecutions('again').n", history, "exit") == [1, 2]
    assert evaluate_in_run("nothing", history) is UNDEFINED


@pytest.mark.parametrize(
    ("recorded", "at", "said"),
    [
        ({}, None, "no saved run"),
        ([{"nodeId": "x"}], "y", "no execution 'y'"),
        ([], "y", "No node of it ran"),
        ([{"no": 1}], None, "no saved run"),
    ],
)
def test_what_is_no_run_or_not_in_it(recorded, at, said):
    with pytest.raises(SettingInvalid, match=said):
        evaluate_in_run("1", recorded, at)


@pytest.mark.parametrize("name", ["x#99[0]", "x#1[0]", "x#0[9]", "x#0[left]", "x#" + "9" * 5000 + "[0]"])
def test_branches_that_nothing_opened_are_left_out(name):
    history = [{"nodeId": "x", "nodeType": "forEach", "input": [1]}, {"nodeId": "y", "branch": [name]}]
    assert evaluate_in_run("1", history, "y") == 1
    assert len(ways_taken(saved_records(history))) == 2
