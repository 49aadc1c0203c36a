"""Graphs as Mermaid text, as drawings and as a page, with a recorded run."""

import itertools

import pytest

from knime_mcp.cli.graph.page import graph_page
from knime_mcp.graph.documents.loading import check_text
from knime_mcp.graph.documents.starter import STARTER
from knime_mcp.graph.drawing.layout import lay_out
from knime_mcp.graph.drawing.mermaid import mermaid

from .test_document import document

LOOP = document(
    '{id: entry, type: entry, next: "a b"}',
    '{id: "a b", type: switch, conditions: [{rule: true, next: "<b>"}], next: exit}',
    '{id: "<b>", type: transform, transform: {expr: entry}, onError: exit, next: "a b"}',
    "{id: exit, type: exit}",
)


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
        '    n1 -->|"condition 1"| n2',
        '    n1 -->|"otherwise"| n3',
        "    n2 --> n1",
        '    n2 -.->|"error"| n3',
    ]


@pytest.mark.parametrize("text", [LOOP, STARTER], ids=["loop", "starter"])
def test_nodes_do_not_overlap_and_ways_touch_them(text):
    tool = tool_of(text)
    drawing = lay_out(tool)
    for one, other in itertools.combinations(drawing.boxes, 2):
        apart = abs(one.x - other.x) - (one.width + other.width) / 2
        assert apart > 0 or abs(one.y - other.y) >= (one.height + other.height) / 2
    boxes = {box.id: box for box in drawing.boxes}
    for line in drawing.lines:
        (x0, y0), (x1, y1) = line.points[0], line.points[-1]
        source, target = boxes[line.source], boxes[line.target]
        assert (abs(x0 - source.x) <= source.width / 2, y0) == (True, source.y + source.height / 2)
        assert (abs(x1 - target.x) <= target.width / 2, y1) == (True, target.y - target.height / 2)
        assert line.is_back == (target.y <= source.y)
        assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in line.points)


def test_a_long_chain_and_many_branches():
    chain = ["{id: entry, type: entry, next: n0}"]
    chain += [f"{{id: n{i}, type: transform, transform: {{expr: '1'}}, next: n{i + 1}}}" for i in range(200)]
    ways = ", ".join(f"{{rule: false, next: n{i}}}" for i in range(0, 200, 7))
    chain += [f"{{id: n200, type: switch, conditions: [{ways}], next: exit}}", "{id: exit, type: exit}"]
    drawing = lay_out(tool_of(document(*chain)))
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
