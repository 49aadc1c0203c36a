"""Views of nodes: self-contained HTML pages."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NodeView:
    html: str


view_html = NodeView
