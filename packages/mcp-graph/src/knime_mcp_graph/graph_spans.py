"""OpenTelemetry: a span for each run and each node, without arguments and results.

Names of spans and attributes: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/. Without the
``opentelemetry`` packages, or without ``OTEL_*`` settings, no spans are made or sent.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from knime_mcp.web.tracing import Tracing

from .nodes import McpNode, ToolNode

if TYPE_CHECKING:
    from collections.abc import Generator

    from opentelemetry.trace import Span, TracerProvider

    from .nodes import Node
    from .run_state import NodeRecord, RunState


class GraphSpans(Tracing):
    """Makes spans; without a provider, with that of the process."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        super().__init__("knime_mcp_graph", provider)

    @contextmanager
    def run(self, run: RunState) -> Generator[None]:
        attributes = {
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": run.tool.name,
        }
        kind = self._trace.SpanKind.SERVER
        with self._watched(f"tools/call {run.tool.name}", kind=kind, attributes=attributes) as span:
            run.span = span
            try:
                yield
            finally:
                span.set_attribute("graph.node.count", len(run.history))

    @contextmanager
    def node(self, run: RunState, node: Node, record: NodeRecord) -> Generator[None]:
        attributes: dict[str, Any] = {
            "graph.tool": run.tool.name,
            "graph.node.id": node.id,
            "graph.node.type": record.node_type,
            "graph.execution.index": record.index,
        }
        name, kind = f"{record.node_type} {node.id}", self._trace.SpanKind.INTERNAL
        if isinstance(node, McpNode):
            kind = self._trace.SpanKind.CLIENT
            attributes |= {
                "mcp.method.name": "tools/call",
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": node.tool,
                "graph.server": node.server,
            }
        elif isinstance(node, ToolNode):
            attributes["gen_ai.tool.name"] = node.tool
        # Branches run in other threads, in which the span of the run is not current.
        parent = self._trace.set_span_in_context(run.span) if run.span is not None else None
        with self._watched(name, context=parent, kind=kind, attributes=attributes):
            yield

    @contextmanager
    def _watched(self, name: str, **options: Any) -> Generator[Span]:
        """A span that says of what kind the error is with which its block ends."""
        with self._opened(name, **options) as span:
            try:
                yield span
            except BaseException as error:
                self.failed(span, str(getattr(error, "kind", None) or type(error).__name__))
                raise
