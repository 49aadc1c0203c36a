"""Short runs in the calling thread: tried, and given up without a trace where they take long."""

import pytest

from knime_mcp_graph import McpGraphApi
from knime_mcp_graph.graph_service import QuickRuns
from tests.graph.graphs import ENTRY, EXIT, call, document, load, tool, transform, yaml

pytestmark = pytest.mark.quick


WORK = "entry.n > 0 ? {'r': $sum([1..entry.n].($ * 2))} : {'r': 0}"


def quick_runs(*nodes, **options):
    return QuickRuns(McpGraphApi(document(ENTRY, *nodes, EXIT, **options)).executor)


def test_a_tool_that_computes_is_run_at_once():
    quick = quick_runs(transform("{'r': entry.v + $executionCount('x')}"))
    # On a busy machine the first runs may take long, and are given up.
    found = next(found for _ in range(100_000) if (found := quick.run("t", {"v": 1})) is not None)
    assert found.result == {"r": 1}
    assert [record.node_id for record in found.history] == ["entry", "x", "exit"]


def test_what_takes_long_is_given_up_and_left_alone_for_a_while():
    quick = quick_runs(transform(WORK))
    assert quick.run("t", {"n": 200_000}) is None
    assert quick.run("t", {"n": 0}) is None  # it could be long again
    tries = 1
    while quick.run("t", {"n": 0}) is None:
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
    assert quick_runs(transform(expression)).run("t", {}) is None


def test_what_calls_servers_or_takes_threads_is_not_tried():
    calling = tool(ENTRY, call("echo"), EXIT, name="calling")
    inner = tool(ENTRY, "{id: x, type: tool, tool: calling, args: {}, next: exit}", EXIT, name="inner")
    quick = QuickRuns(McpGraphApi(load(yaml(calling, inner))).executor)
    assert quick.run("calling", {}) is None
    assert quick.run("inner", {}) is None
    assert quick.run("unknown", {}) is None
