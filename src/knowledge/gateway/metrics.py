"""Metrics for Prometheus: calls by tool, durations, errors, cache hits. For the internal listener only."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from ...version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The metrics of one gateway.

    Labels only have values that the gateway knows, never values from requests, which have no limit in number.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, namespace="knime_mcp_gateway", registry=self._registry)
        gauge = partial(Gauge, namespace="knime_mcp_gateway", registry=self._registry)
        seconds = partial(Histogram, namespace="knime_mcp_gateway", registry=self._registry, buckets=_SECONDS)
        self._requests = counter("requests", "Requests.", ("listener", "route", "method", "status"))
        self._request_seconds = seconds(
            "request_seconds",
            "Time from the request's headers to the end of the answer.",
            ("listener", "route"),
        )
        self._calls = counter("tool_calls", "Calls of tools.", ("tool", "outcome"))
        self._call_seconds = seconds("tool_seconds", "Time that tools took.", ("tool",))
        self._errors = counter("errors", "Errors that were answered.", ("error_type",))
        self._lookups = counter("cache_lookups", "Questions to a cache.", ("cache", "outcome"))
        self._refused = counter("refused", "Requests not let in.", ("reason",))
        self._healthy = gauge("healthy", "Whether the tools work: 1 or 0.")
        gauge("info", "The gateway that runs.", ("version",)).labels(VERSION).set(1)

    def request(self, *, listener: str, route: str, method: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        self._requests.labels(listener, route, method, str(status)).inc()
        self._request_seconds.labels(listener, route).observe(seconds)

    def call(self, *, tool: str, outcome: str, seconds: float) -> None:
        """Counts a call of a tool, with the outcome ``ok`` or the type of its error."""
        self._calls.labels(tool, outcome).inc()
        self._call_seconds.labels(tool).observe(seconds)

    def error(self, error_type: str) -> None:
        """Counts an error that was sent to a client."""
        self._errors.labels(error_type).inc()

    def refused(self, reason: str) -> None:
        """Counts a refused request, with the reason ``key``, ``scope`` or ``rate``."""
        self._refused.labels(reason).inc()

    def lookups(self, cache: str) -> Callable[[bool], None]:
        """A function that counts the lookups in a cache, called with whether the answer was there."""
        hit, miss = (self._lookups.labels(cache, outcome) for outcome in ("hit", "miss"))
        return lambda was_there: (hit if was_there else miss).inc()

    def exposed(self, *, healthy: bool) -> bytes:
        """The metrics in Prometheus' format."""
        self._healthy.set(healthy)
        return generate_latest(self._registry)
