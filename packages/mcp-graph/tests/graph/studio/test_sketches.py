"""Drawings of documents, also of those with mistakes."""

import pytest

from knime_mcp_graph.document_loading import check_text
from knime_mcp_graph.graph_drawing import lay_out
from knime_mcp_graph.studio.sketches import sketches

from .. import graphs
from ..test_document_edits import ALL_KINDS

pytestmark = pytest.mark.quick


def test_a_sketch_is_the_drawing_of_the_tool():
    sketch = sketches(check_text(ALL_KINDS))[0]
    drawing = lay_out(graphs.load(ALL_KINDS).tools[0])
    lines = sorted(
        (line.way.source, line.target, line.way.label, [[x, y] for x, y in line.points])
        for line in drawing.lines
    )
    found = [
        (line["source"], line["target"], line["label"], line["points"]) for line in sketch["drawing"]["lines"]
    ]
    assert sorted(found) == lines
    boxes = {box.id: (box.x, box.y, box.width) for box in drawing.boxes}
    assert {
        name: (box["x"], box["y"], box["width"]) for name, box in sketch["drawing"]["boxes"].items()
    } == boxes
    assert ("twice", "each") in {(line["source"], line["target"]) for line in sketch["drawing"]["lines"]}
    ways = [(way["source"], way["target"], way["key"]) for way in sketch["ways"]]
    assert ("twice", "fan", ["next"]) in ways


def test_nodes_of_a_common_list_belong_to_their_tools():
    text = (
        f"{graphs.HEAD}tools:\n  - {{name: a}}\n  - {{name: b}}\nnodes:\n"
        "  - {id: s, tool: a, type: entry, next: x}\n  - {id: x, type: transform, next: e}\n"
        "  - {id: e, tool: a, type: exit}\n  - {id: s2, tool: b, type: entry, next: e2}\n"
        "  - {id: e2, tool: b, type: exit}\n"
    )
    one, other = sketches(check_text(text))
    assert [node["id"] for node in one["nodes"]] == ["s", "x", "e"]
    assert [node["path"] for node in other["nodes"]] == [["nodes", 3], ["nodes", 4]]


def test_whatever_is_there_is_drawn():
    nodes = (
        "[1, {id: 3}, {id: a, type: 7, next: [x]}, {id: a, conditions: 5, branches: {}}, {id: b, next: b}]"
    )
    text = f"tools:\n  - name: t\n    nodes: {nodes}\n  - 5\n"
    sketch, nothing = sketches(check_text(text))
    assert [(node["id"], node["path"][-1]) for node in sketch["nodes"]] == [("a", 3), ("b", 4)]
    assert nothing["nodes"] == []
