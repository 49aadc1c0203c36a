"""Runs that are over in a moment: tried at once, and given up without a trace."""

import pytest

from knime_mcp.graph import McpGraphApi
from knime_mcp.graph.execution.brief import BriefRuns
from tests.graph.graphs import ENTRY, EXIT, call, document, load, tool, transform, yaml

WORK = "entry.n > 0 ? {'r': $sum([1..entry.n].($ * 2))} : {'r': 0}"


def brief_runs(*nodes, **options):
    return BriefRuns(McpGraphApi(document(ENTRY, *nodes, EXIT, **options)).executor)


def test_a_tool_that_computes_is_run_at_once():
    found = brief_runs(transform("{'r': entry.v + $executionCount('x')}")).run("t", {"v": 1})
    assert found is not None
    assert found.result == {"r": 1}
    assert [record.node_id for record in found.history] == ["entry", "x", "exit"]


def test_what_takes_long_is_given_up_and_left_alone_for_a_while():
    brief = brief_runs(transform(WORK))
    assert brief.run("t", {"n": 200_000}) is None
    assert brief.run("t", {"n": 0}) is None  # it could be long again
    tries = 1
    while brief.run("t", {"n": 0}) is None:
        tries += 1
        assert tries < 100_000
    assert tries > 5


@pytest.mark.parametrize(
    "expression",
    [
        "($f := function($n) {1 + $f($n + 1)}; $f(1))",
        "($f := function($n) {$f($n)}; $f(1))",
        "$match('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!', /^(a|a)*$/)",
        "$error('no')",
    ],
)
def test_why_a_run_fails_is_said_by_the_usual_way(expression):
    assert brief_runs(transform(expression)).run("t", {}) is None


def test_what_calls_servers_or_takes_threads_is_not_tried():
    calling = tool(ENTRY, call("echo"), EXIT, name="calling")
    inner = tool(ENTRY, "{id: x, type: tool, tool: calling, args: {}, next: exit}", EXIT, name="inner")
    brief = BriefRuns(McpGraphApi(load(yaml(calling, inner))).executor)
    assert brief.run("calling", {}) is None
    assert brief.run("inner", {}) is None
    assert brief.run("unknown", {}) is None
