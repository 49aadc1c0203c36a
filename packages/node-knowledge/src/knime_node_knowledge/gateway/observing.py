"""What is known of a request afterwards: an id, a log line, a span and metrics, never its content.

`Observed` is the middleware that makes them; the metrics are for the internal listener only.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.datastructures import Headers, MutableHeaders

from knime_mcp.version import VERSION
from knime_mcp.web.tracing import Tracing, provider_from_environment

from .gateway_errors import Envelope, as_mcp_error, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, TracerProvider
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from .gateway import Gateway
    from .gateway_settings import GatewaySettings


LOGGER: Final = logging.getLogger("knime_node_knowledge.gateway")
LEFT: Final = 499
"""The status in logs and metrics of a request whose client disconnected before the answer."""

_FIELDS: Final = "fields"
_LOGGED: Final = (
    *("request_id", "client", "key_id", "status", "tool", "tool_ms", "query_hash", "error_type", "error"),
)

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUEST_ID: Final = "X-Request-ID"
_RECORD: Final = "knime_node_knowledge.record"
_GOOD_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """The logged facts of a request."""

    request_id: str  # the client's own, if it has an allowed form, else a random one
    started: float = field(default_factory=time.perf_counter)
    client: str | None = None
    key_id: str | None = None
    tool: str | None = None  # None for an unknown tool
    tool_ms: float | None = None
    rpc_id: str | int | None = None  # of the JSON-RPC request; None for other requests
    status: int = LEFT
    error_type: str | None = None
    error: str | None = None
    query_hash: str | None = None

    @property
    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self.started) * 1000, 2)

    @property
    def answered_id(self) -> str | int:
        return self.request_id if self.rpc_id is None else self.rpc_id


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        more: Mapping[str, Any] = getattr(record, _FIELDS, {})
        line |= {name: value for name, value in more.items() if value is not None}
        # Only the type, as the message of an exception may quote the request.
        if record.exc_info and record.exc_info[0]:
            line["exception"] = record.exc_info[0].__name__
        return json.dumps(line, ensure_ascii=True)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        more: Mapping[str, Any] = getattr(record, _FIELDS, {})
        shown = ("request_id", "duration_ms", "error_type", "error")
        pairs = "".join(f" {name}={more[name]!r}" for name in shown if more.get(name) is not None)
        message = record.getMessage().encode("unicode_escape").decode() if more else record.getMessage()
        return f"{at} {record.levelname} {message}{pairs}"


def configure_logging(settings: GatewaySettings) -> None:
    """Sends log records to standard error, with the format and level of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for ours in ("knime_mcp", "knime_node_knowledge"):
        logging.getLogger(ours).setLevel("DEBUG" if settings.debug else settings.log_level)
    logging.captureWarnings(True)


class GatewaySpans(Tracing):
    """Makes OpenTelemetry spans: one per request, as child of the client's ``traceparent``, and one per call.

    https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/ defines the attributes of calls.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        from opentelemetry import propagate

        super().__init__("knime_node_knowledge.gateway", provider)
        self._extract = propagate.extract

    def request(self, method: str, headers: Mapping[str, str]) -> AbstractContextManager[Span]:
        return self._opened(
            method,
            context=self._extract(headers),
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.request.method": method},
        )

    def answered(self, span: Span, record: RequestRecord, *, method: str, route: str) -> None:
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", record.status)
        span.set_attribute("knime_mcp.request_id", record.request_id)
        if record.client is not None:
            span.set_attribute("knime_mcp.client", record.client)
        if record.status >= 500:
            self.failed(span, record.error_type or str(record.status))

    def call(self, tool: str) -> AbstractContextManager[Span]:
        attributes = {
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
        }
        return self._opened(f"tools/call {tool}", attributes=attributes)


def spans_from_environment() -> GatewaySpans:
    """Makes spans for the endpoint in ``OTEL_*``, or else for the provider of the process."""
    return GatewaySpans(provider_from_environment("knime-mcp-gateway"))


class Metrics:
    """The metrics of one gateway.

    Labels only have values that the gateway knows, never values from requests, which have no limit in number.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, namespace="knime_nodes_gateway", registry=self._registry)
        gauge = partial(Gauge, namespace="knime_nodes_gateway", registry=self._registry)
        seconds = partial(
            Histogram, namespace="knime_nodes_gateway", registry=self._registry, buckets=_SECONDS
        )
        self.requests = counter("requests", "Requests.", ("listener", "route", "method", "status"))
        self.request_seconds = seconds(
            "request_seconds",
            "Time from the request's headers to the end of the answer.",
            ("listener", "route"),
        )
        self.calls = counter("tool_calls", "Calls of tools.", ("tool", "outcome"))  # ok, or the error's type
        self.call_seconds = seconds("tool_seconds", "Time that tools took.", ("tool",))
        self.empty = counter("empty_answers", "Searches that found nothing.", ("tool",))
        self.errors = counter("errors", "Errors that were answered.", ("error_type",))
        self._lookups = counter("cache_lookups", "Questions to a cache.", ("cache", "outcome"))
        self.refused = counter("refused", "Requests not let in.", ("reason",))  # key, scope or rate
        self._healthy = gauge("healthy", "Whether the tools work: 1 or 0.")
        gauge("info", "The gateway that runs.", ("version",)).labels(VERSION).set(1)

    def lookups(self, cache: str) -> Callable[[bool], None]:
        hit, miss = (self._lookups.labels(cache, outcome) for outcome in ("hit", "miss"))
        return lambda was_there: (hit if was_there else miss).inc()

    def exposed(self, *, healthy: bool) -> bytes:
        self._healthy.set(healthy)
        return generate_latest(self._registry)


def gateway_of(request: Request) -> Gateway:
    return cast("Gateway", request.app.state.gateway)


def record_of(request: Request) -> RequestRecord:
    return cast("RequestRecord", request.scope[_RECORD])


class Observed:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_ID, "")
        record = RequestRecord(request_id=given if _GOOD_ID.fullmatch(given) else uuid.uuid4().hex)
        scope[_RECORD] = record
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        if method == "HEAD":
            # GET endpoints answer HEAD requests, too; uvicorn leaves the body out.
            scope = {**scope, "method": "GET"}
        begun = finished = False

        def finish() -> None:
            nonlocal finished
            if not finished:
                finished = True
                self._record_end(scope, record, method, span)

        async def observed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                record.status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = record.request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            elif message["type"] == "http.response.body" and not message.get("more_body"):
                # Done before the last part is sent, so that every answered request is in the log.
                finish()
            await send(message)

        gateway: Gateway = scope["app"].state.gateway
        with gateway.spans.request(method, headers) as span:
            try:
                await self._app(scope, receive, observed)
            except Exception as error:
                mcp_error = as_mcp_error(error)
                if not begun:
                    record.error_type, record.error = mcp_error.error_type.value, mcp_error.message
                    await failure(mcp_error, Envelope.PLAIN, record)(scope, receive, observed)
            finally:
                finish()

    def _record_end(self, scope: Scope, record: RequestRecord, method: str, span: Any) -> None:
        # The template of the path, as the path itself has parts that clients choose.
        route: str = getattr(scope.get("route"), "path", "unmatched")
        gateway: Gateway = scope["app"].state.gateway
        listener: str = scope["app"].state.listener
        gateway.spans.answered(span, record, method=method, route=route)
        gateway.metrics.requests.labels(listener, route, method, str(record.status)).inc()
        gateway.metrics.request_seconds.labels(listener, route).observe(record.elapsed_ms / 1000)
        level = logging.ERROR if record.status >= 500 else logging.INFO
        if LOGGER.isEnabledFor(level):
            tool, who = record.tool and f"{record.tool} ", record.client and f" for client {record.client}"
            fields = {
                "event": "request",
                "listener": listener,
                "method": method,
                "route": route,
                **{name: getattr(record, name) for name in _LOGGED},
                "duration_ms": record.elapsed_ms,
            }
            text = f"{method} {route} {tool or ''}{record.status}{who or ''}"
            LOGGER.log(level, text, extra={_FIELDS: fields})
