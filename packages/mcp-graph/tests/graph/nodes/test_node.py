"""A kind of node that one class makes known to everybody who asks."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from knime_mcp_graph.commands.graph_page import graph_page
from knime_mcp_graph.executor import GraphExecutor
from knime_mcp_graph.graph_drawing import mermaid
from knime_mcp_graph.nodes import KINDS
from knime_mcp_graph.nodes.node import Node, NodeField, Opening, Way
from knime_mcp_graph.studio.desk import DocumentDesk

from .. import graphs

pytestmark = pytest.mark.quick


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitNode(Node):
    kind: ClassVar[str] = "wait"
    fields: ClassVar[tuple[NodeField, ...]] = (NodeField(key="seconds", label="Seconds"),)
    new: ClassVar[dict] = {"seconds": 1}
    openings: ClassVar[tuple[Opening, ...]] = (
        *Node.openings,
        Opening(key="late", label="late", words="if it is late", called="late node"),
    )

    seconds: float

    @classmethod
    def read(cls, fields, reading):
        fields.optional_text("late")
        return cls(**reading.common(fields), seconds=reading.seconds(fields, "seconds", default=1))

    def run(self, run):
        run.line.sleep(self.seconds)
        return self.seconds


TEXT = graphs.one_tool(
    graphs.ENTRY,
    "{id: x, type: wait, seconds: 1ms, next: y, late: z}",
    graphs.transform("{'waited': x}", node="y"),
    graphs.transform("{}", node="z"),
    graphs.EXIT,
)


def test_a_class_is_all_that_a_kind_of_node_needs(monkeypatch, tmp_path):
    monkeypatch.setitem(KINDS, "wait", WaitNode)
    document = graphs.load(TEXT)
    assert GraphExecutor(document, None).run("t").result == {"waited": 0.001}
    assert 'n1 -->|"late"| n3' in mermaid(document.tools[0])
    assert "1ms" in graph_page("f", document, document.tools)
    file = tmp_path / "g.yaml"
    file.write_text(TEXT)
    desk = DocumentDesk(file)
    kind = desk.state()["kinds"]["wait"]
    assert (kind["new"], kind["ways"][-1]) == ({"seconds": 1}, {"key": ["late"], "words": "if it is late"})
    desk.apply(1, {"kind": "rename", "nodes": ["tools", 0, "nodes"], "id": "z", "to": "other"})
    assert "late: other" in desk.text
    wrong = graphs.texts(graphs.check_text(TEXT.replace("1ms", "soon").replace("late: z", "late: nowhere")))
    assert [said.split("error: ")[1].split(" (at")[0] for said in wrong] == [
        "'soon' is not a duration",
        'Node "x" in tool "t" references non-existent late node "nowhere"',
    ]


def test_ways_of_a_node_of_no_known_kind_are_those_of_most():
    ways = list(Node.ways_of({"id": "a", "type": "paint", "next": "b", "onError": "c"}, "next"))
    assert [(way.target, way.is_error) for way in ways] == [("b", False), ("c", True)]
    assert isinstance(ways[0], Way)
