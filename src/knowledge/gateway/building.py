"""Puts a gateway together from its settings and a catalogue."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ..service import NodeKnowledgeMCPService
from .elasticsearch_tool import ElasticsearchTool
from .gateway import Gateway
from .keys import KeyStore
from .metrics import Metrics
from .observability import spans_from_environment
from .retriever import CatalogueKnowledge
from .tools import ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Generator

    from ..catalogue import Catalogue
    from .observability import Spans
    from .settings import GatewaySettings
    from .tools import ToolSource


@contextmanager
def opened_gateway(
    settings: GatewaySettings, catalogue: Catalogue, *, spans: Spans | None = None
) -> Generator[Gateway]:
    """A gateway, as long as inside.

    Args:
        settings: How it runs.
        catalogue: What the tools know; stays open.
        spans: Where spans go; None: where ``OTEL_*`` says.

    Raises:
        MCPError: The keys cannot be read, or a setting cannot work.
    """
    with ExitStack() as stack:
        keys = stack.enter_context(KeyStore(settings.gateway_keys_file))
        metrics = Metrics()
        sources: list[ToolSource] = [NodeKnowledgeMCPService(catalogue)]
        if settings.supabase() is None:
            threshold = settings.node_knowledge_default_threshold
            sources.append(CatalogueKnowledge(catalogue, threshold=threshold))
        else:
            from .supabase import SupabaseKnowledge  # its HTTP client takes long to load

            supabase = SupabaseKnowledge(settings, on_lookup=metrics.lookups("supabase"))
            stack.callback(supabase.close)
            sources.append(supabase)
        if settings.elasticsearch_indices:
            elasticsearch = ElasticsearchTool(settings)
            stack.callback(elasticsearch.close)
            sources.append(elasticsearch)
        watching = spans or spans_from_environment()
        stack.callback(watching.close)
        yield Gateway(
            settings=settings,
            registry=ToolRegistry(sources, most_results=settings.mcp_max_results_per_tool),
            catalogue=catalogue,
            keys=keys,
            metrics=metrics,
            spans=watching,
        )
