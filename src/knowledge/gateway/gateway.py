"""The gateway without its listeners: settings, tools, keys and metrics, and calls of tools."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from ..node_service import NodeKnowledgeMCPService
from .cache import TTLCache
from .elasticsearch_tool import ElasticsearchTool
from .errors import as_mcp_error, unavailable
from .keys import KeyStore
from .metrics import Metrics
from .observability import RequestRecord, Spans, spans_from_environment
from .rate_limit import RateLimiter
from .retriever_tool import CatalogueKnowledge
from .tool_registry import ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from ..catalogue_reader import Catalogue
    from .settings import GatewaySettings
    from .tool_registry import ToolSource

SESSION_SECONDS: Final = 12 * 3600
_MOST_SESSIONS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The state that all listeners of a gateway share."""

    settings: GatewaySettings
    registry: ToolRegistry
    catalogue: Catalogue
    keys: KeyStore
    metrics: Metrics = field(default_factory=Metrics)
    spans: Spans = field(default_factory=Spans)
    limiter: RateLimiter = field(default_factory=RateLimiter)
    sessions: TTLCache[str] = field(
        default_factory=lambda: TTLCache(seconds=SESSION_SECONDS, most=_MOST_SESSIONS)
    )
    """The ids of keys by the cookies of visitors of the page. A restart signs out all visitors."""

    def tools(self) -> ToolRegistry:
        """The tools.

        Raises:
            MCPError: The tools are switched off.
        """
        if not self.settings.mcp_enabled:
            raise unavailable("MCP_ENABLED is false", "The tools are switched off on this gateway.")
        return self.registry

    def problem(self) -> str | None:
        """The reason why the tools do not work; None if they work."""
        return self.registry.problem() if self.settings.mcp_enabled else None

    async def call(self, name: str, arguments: Mapping[str, Any], record: RequestRecord) -> dict[str, Any]:
        """Checks the arguments and runs a tool, in a thread unless the call is brief.

        Args:
            name: The tool.
            arguments: The arguments in the request.
            record: The record of the request; gets the tool, its duration and the hash of the query.

        Returns:
            The structured result.

        Raises:
            MCPError: The call failed; other exceptions are converted to this one.
        """
        registry = self.tools()
        record.tool = registry.find(name).name
        query = arguments.get("query")
        if isinstance(query, str):
            record.query_hash = self.keys.hashed(query)
        checked = registry.validate_tool_params(name, arguments)
        started = time.perf_counter()
        outcome = "ok"
        with self.spans.call(name) as span:
            try:
                if registry.is_brief(name, checked):
                    return registry.invoke_tool(name, checked)
                with anyio.fail_after(self.settings.gateway_tool_timeout):
                    return await anyio.to_thread.run_sync(
                        registry.invoke_tool, name, checked, abandon_on_cancel=True
                    )
            except Exception as error:
                failure = as_mcp_error(error)
                outcome = failure.error_type.value
                self.spans.failed(span, outcome)
                raise failure from None
            finally:
                seconds = time.perf_counter() - started
                record.tool_ms = round(seconds * 1000, 2)
                self.metrics.call(tool=name, outcome=outcome, seconds=seconds)


@contextmanager
def opened_gateway(
    settings: GatewaySettings, catalogue: Catalogue, *, spans: Spans | None = None
) -> Generator[Gateway]:
    """Opens a gateway, and closes it on exit.

    Args:
        settings: The gateway's settings.
        catalogue: The catalogue; it is not closed.
        spans: The spans; None for those of the environment variables ``OTEL_*``.

    Raises:
        MCPError: The keys cannot be read, or a setting is not valid.
    """
    with ExitStack() as stack:
        keys = stack.enter_context(KeyStore(settings.gateway_keys_file))
        metrics = Metrics()
        sources: list[ToolSource] = [NodeKnowledgeMCPService(catalogue)]
        if settings.supabase() is None:
            threshold = settings.node_knowledge_default_threshold
            sources.append(CatalogueKnowledge(catalogue, threshold=threshold))
        else:
            from .supabase import SupabaseKnowledge  # imported here, as its HTTP client takes long to load

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
