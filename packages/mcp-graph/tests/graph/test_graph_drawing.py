"""Graphs as Mermaid text, as drawings and as a page, with a recorded run."""

import itertools

import pytest

from knime_mcp_graph import McpGraphApi, RunError
from knime_mcp_graph.commands.graph_page import graph_page
from knime_mcp_graph.document_loading import STARTER, check_text
from knime_mcp_graph.graph_drawing import drawn_ways, lay_out, mermaid
from knime_mcp_graph.recorded_runs import saved_records, ways_taken

from . import graphs
from .graphs import one_tool, transform

pytestmark = pytest.mark.quick


LOOP = one_tool(
    '{id: entry, type: entry, next: "a b"}',
    '{id: "a b", type: switch, conditions: [{rule: true, next: "<b>"}], next: exit}',
    '{id: "<b>", type: transform, transform: {expr: entry}, onError: exit, next: "a b"}',
    "{id: exit, type: exit}",
)


def with_ways(history):
    saved = saved_records([record.to_json() for record in history])
    return saved, ways_taken(saved)


def taken(history):
    return {way for ways in with_ways(history)[1] for way in ways or ()}


def tool_of(text):
    checked = check_text(text)
    assert checked.document is not None, checked.problems
    return checked.document.tools[0]


def test_mermaid():
    assert mermaid(tool_of(LOOP)).splitlines() == [
        "flowchart TD",
        '    n0(["entry"])',
        '    n1{"a b<br/>switch"}',
        '    n2["#60;b#62;<br/>transform"]',
        '    n3(["exit"])',
        "    n0 --> n1",
        '    n1 -->|"true"| n2',
        '    n1 -->|"otherwise"| n3',
        "    n2 --> n1",
        '    n2 -.->|"error"| n3',
    ]


@pytest.mark.parametrize("text", [LOOP, STARTER.read_text()], ids=["loop", "starter"])
def test_nodes_do_not_overlap_and_ways_touch_them(text):
    tool = tool_of(text)
    drawing = lay_out(tool)
    for one, other in itertools.combinations(drawing.boxes, 2):
        apart = abs(one.x - other.x) - (one.width + other.width) / 2
        assert apart > 0 or abs(one.y - other.y) >= (one.height + other.height) / 2
    boxes = {box.id: box for box in drawing.boxes}
    for line in drawing.lines:
        (x0, y0), (x1, y1) = line.points[0], line.points[-1]
        source, target = boxes[line.way.source], boxes[line.target]
        assert (abs(x0 - source.x) <= source.width / 2, y0) == (True, source.y + source.height / 2)
        assert (abs(x1 - target.x) <= target.width / 2, y1) == (True, target.y - target.height / 2)
        assert line.is_back == (target.y <= source.y)
        assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in line.points)


def test_a_long_chain_and_many_branches():
    chain = ["{id: entry, type: entry, next: n0}"]
    chain += [f"{{id: n{i}, type: transform, transform: {{expr: '1'}}, next: n{i + 1}}}" for i in range(200)]
    ways = ", ".join(f"{{rule: false, next: n{i}}}" for i in range(0, 200, 7))
    chain += [f"{{id: n200, type: switch, conditions: [{ways}], next: exit}}", "{id: exit, type: exit}"]
    drawing = lay_out(tool_of(one_tool(*chain)))
    assert len(drawing.boxes) == 203
    assert sum(line.is_back for line in drawing.lines) == 29


@pytest.mark.requirement("G10")
def test_the_page_with_a_run():
    checked = check_text(LOOP)
    run = {
        "executionHistory": [
            {
                "nodeId": "entry",
                "nodeType": "entry",
                "output": {"q": "<script>alert(1)</script>"},
                "duration": 0,
            },
            {"nodeId": "a b", "nodeType": "switch", "output": "<b>", "duration": 1},
            {"nodeId": "<b>", "nodeType": "transform", "output": None, "error": {"message": "No such thing"}},
        ]
    }
    page = graph_page("g.yaml", checked.document, checked.document.tools, run)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;b&gt;" in page
    assert "No such thing" in page
    assert page.count('class="way taken"') == 2
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert 'class="node failed"' in page
    plain = graph_page("g.yaml", checked.document, checked.document.tools)
    assert "taken" not in plain[plain.index("<svg") : plain.index("</svg>")].replace(
        'head-taken"', ""
    ).replace('head taken"', "")


def test_ways_of_branches_and_entries_are_those_of_their_own_line():
    nodes = (
        "{id: x, type: parallel, branches: [a, b], next: each}",
        transform("1", node="a", following="c"),
        transform("2", node="b", following="each"),
        transform("3", node="c", following="each"),
        "{id: each, type: forEach, items: {expr: '[1..3]'}, do: d, next: out}",
        transform("each.item", node="d", following="e"),
        transform("d", node="e", following="out"),
        transform("{'sum': $sum(each)}", node="out"),
    )
    found = graphs.document(graphs.ENTRY, *nodes, graphs.EXIT)
    with McpGraphApi(found) as api:
        result = api.execute_tool("t", {})
    assert result.result == {"sum": 6}
    tool = found.tools[0]
    every_way = {(way.source, target) for way, target in drawn_ways(tool)}
    assert ("e", "each") in every_way
    assert ("e", "out") not in every_way
    assert taken(result.history) == every_way


def test_a_chain_goes_back_to_the_innermost_loop_around_it():
    nodes = (
        "{id: x, type: forEach, items: {expr: '[1..2]'}, do: inner, next: exit}",
        "{id: inner, type: forEach, items: {expr: '[1..2]'}, do: a, next: b}",
        transform("1", node="a", following="b", onError="b"),
        "{id: b, type: forEach, items: {expr: '[1]'}, do: c, next: exit}",
        transform("1", node="c", following="exit"),
    )
    tool = graphs.document(graphs.ENTRY, *nodes, graphs.EXIT).tools[0]
    assert [(way.source, target, way.label) for way, target in drawn_ways(tool)] == [
        ("entry", "x", ""),
        ("x", "inner", "each"),
        ("x", "exit", "done"),
        ("inner", "a", "each"),
        ("inner", "b", "done"),
        ("a", "inner", ""),
        ("a", "inner", "error"),
        ("b", "c", "each"),
        ("b", "x", "done"),
        ("c", "b", ""),
    ]


def test_steps_have_the_numbers_that_the_command_line_says():
    checked = check_text(LOOP)
    nodes = ("entry", "entry"), ("a b", "switch"), ("exit", "exit")
    run = [{"nodeId": node, "nodeType": kind, "output": {}} for node, kind in nodes]
    page = graph_page("g.yaml", checked.document, checked.document.tools, run)
    assert [f"Step {number}" in page for number in range(4)] == [True, True, True, False]


def test_a_branch_that_failed_did_not_come_to_what_follows():
    nodes = (
        "{id: x, type: parallel, branches: [a, b], next: y}",
        transform("1", node="a", following="y"),
        transform("$error('no')", node="b", following="y"),
        transform("3", node="y"),
    )
    found = graphs.document(graphs.ENTRY, *nodes, graphs.EXIT)
    with McpGraphApi(found) as api, pytest.raises(RunError) as caught:
        api.execute_tool("t", {})
    ways = taken(caught.value.history)
    assert ("x", "b") in ways
    assert not {target for _, target in ways} & {"y", "exit"}


def test_nodes_of_a_tool_that_a_node_calls_are_not_those_of_the_tool_that_ran():
    text = graphs.yaml(
        graphs.tool(
            graphs.ENTRY,
            "{id: x, type: tool, tool: inner, args: {}, onError: y, next: y}",
            transform("{'r': 1}", node="y"),
            graphs.EXIT,
        ),
        graphs.tool(
            "{id: entry, type: entry, next: fan}",
            "{id: fan, type: parallel, branches: [a, y], next: exit}",
            transform("{'q': 1}", node="a"),
            transform("$error('no')", node="y"),
            graphs.EXIT,
            name="inner",
        ),
    )
    found = graphs.load(text)
    with McpGraphApi(found) as api:
        result = api.execute_tool("t", {})
    records = [record.to_json() for record in result.history]
    assert ("fan", ["x#1[inner]"]) in [(record["nodeId"], record.get("branch")) for record in records]
    own = [
        record.node_id for record, ways in zip(*with_ways(result.history), strict=True) if ways is not None
    ]
    assert own == ["entry", "x", "y", "exit"]
    assert taken(result.history) == {("entry", "x"), ("x", "y"), ("y", "exit")}
    page = graph_page("g.yaml", found, found.tools, records)
    assert "x › y" in page
    # The outer "y" ran once and well, the inner one failed: neither count nor failure is the other's.
    drawn = page[: page.index("Recorded run")]
    assert drawn.count('class="node failed"') == 1
    assert page.count("1×") == 4


def test_secrets_of_servers_are_not_shown():
    text = LOOP.replace(
        "tools:",
        "mcpServers:\n  a: {command: python3, args: [canary1], env: {A: canary2}}\n"
        "  b: {type: sse, url: 'https://h/x?key=canary3', headers: {A: canary4}}\ntools:",
    )
    checked = check_text(text, environ={})
    page = graph_page("g.yaml", checked.document, checked.document.tools)
    assert "https://h/x" in page
    assert "canary" not in page
