"""OpenTelemetry: a span for each run and each node, without arguments and results.

Names of spans and attributes: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/. Without the
``opentelemetry`` packages, or without ``OTEL_*`` settings, no spans are made or sent.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ...version import VERSION
from ..nodes import McpNode, ToolNode

if TYPE_CHECKING:
    from collections.abc import Generator

    from opentelemetry.trace import TracerProvider

    from ..nodes import Node
    from .history import NodeRecord
    from .run import Run

_SETTINGS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)


class Spans:
    """Makes spans.

    Args:
        provider: The tracer provider; None for the provider of the process.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._provider = provider
        self._tracer = trace.get_tracer("knime_mcp.graph", VERSION, tracer_provider=provider)

    @contextmanager
    def run(self, run: Run) -> Generator[None]:
        """Opens the span of a run for the duration of the block."""
        attributes = {
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": run.tool.name,
        }
        kind = self._trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(
            f"tools/call {run.tool.name}", kind=kind, attributes=attributes, **_QUIET
        ) as span:
            run.span = span
            try:
                yield
            except BaseException as error:
                self._mark(span, error)
                raise
            finally:
                span.set_attribute("graph.node.count", len(run.history))

    @contextmanager
    def node(self, run: Run, node: Node, record: NodeRecord) -> Generator[None]:
        """Opens the span of a node for the duration of the block."""
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
        with self._tracer.start_as_current_span(
            name, context=parent, kind=kind, attributes=attributes, **_QUIET
        ) as span:
            try:
                yield
            except BaseException as error:
                self._mark(span, error)
                raise

    def close(self) -> None:
        """Sends the remaining spans."""
        shutdown = getattr(self._provider, "shutdown", None)
        if shutdown is not None:
            shutdown()

    def _mark(self, span: Any, error: BaseException) -> None:
        # Only the kind of error, as its text may quote arguments and results.
        kind = getattr(error, "kind", None) or type(error).__name__
        span.set_attribute("error.type", str(kind))
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(kind)))


_QUIET: Final[dict[str, Any]] = {"record_exception": False, "set_status_on_exception": False}


def is_traced() -> bool:
    """Returns whether a tracer provider is installed in this process, as by ``opentelemetry-instrument``."""
    trace = sys.modules.get("opentelemetry.trace")  # imported by any code that installs a provider
    return trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def spans_from_environment() -> Spans | None:
    """Spans for the endpoint in ``OTEL_*`` (OTLP over HTTP); None without such a setting.

    https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if os.environ.get("OTEL_TRACES_EXPORTER") == "none" or not any(map(os.environ.get, _SETTINGS)):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        return None
    name = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "knime-mcp-graph"}
    provider = TracerProvider(resource=Resource.create(name))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Spans(provider)
