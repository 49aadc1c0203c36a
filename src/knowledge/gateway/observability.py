"""Logs and spans of requests: one log line and one span per request, without the request's content."""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ...web.tracing import Tracing, provider_from_environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, TracerProvider

    from .settings import GatewaySettings

LOGGER: Final = logging.getLogger("knime_mcp.gateway")
LEFT: Final = 499
"""The status in logs and metrics of a request whose client disconnected before the answer."""

_FIELDS: Final = "fields"


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """The logged facts of a request.

    Attributes:
        request_id: The id of the request: the client's id if it has an allowed form, else a random one.
        started: The time when the headers were received, by `time.perf_counter`.
        client: The name of the key.
        tool: The name of the tool; None for an unknown tool.
        rpc_id: The id of the JSON-RPC request; None for other requests.
    """

    request_id: str
    started: float = field(default_factory=time.perf_counter)
    client: str | None = None
    key_id: str | None = None
    tool: str | None = None
    tool_ms: float | None = None
    rpc_id: str | int | None = None
    status: int = LEFT
    error_type: str | None = None
    error: str | None = None
    query_hash: str | None = None

    @property
    def elapsed_ms(self) -> float:
        """The milliseconds since the request was received."""
        return round((time.perf_counter() - self.started) * 1000, 2)

    @property
    def answered_id(self) -> str | int:
        """The id for a JSON-RPC answer."""
        return self.request_id if self.rpc_id is None else self.rpc_id


def log_request(record: RequestRecord, *, listener: str, method: str, route: str) -> None:
    """Writes the log line of a request."""
    level = logging.ERROR if record.status >= 500 else logging.INFO
    if not LOGGER.isEnabledFor(level):
        return
    what = f"{record.tool} " if record.tool else ""
    who = f" for client {record.client}" if record.client else ""
    text = f"{method} {route} {what}{record.status}{who}"
    fields = {
        "event": "request",
        "listener": listener,
        "request_id": record.request_id,
        "client": record.client,
        "key_id": record.key_id,
        "method": method,
        "route": route,
        "status": record.status,
        "duration_ms": record.elapsed_ms,
        "tool": record.tool,
        "tool_ms": record.tool_ms,
        "query_hash": record.query_hash,
        "error_type": record.error_type,
        "error": record.error,
    }
    LOGGER.log(level, text, extra={_FIELDS: fields})


class JsonFormatter(logging.Formatter):
    """Formats records as JSON lines with ``time``, ``level``, ``logger``, ``message`` and further fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Writes a record."""
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
    """Formats records as lines of text for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Writes a record."""
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
    logging.getLogger("knime_mcp").setLevel("DEBUG" if settings.debug else settings.log_level)
    logging.captureWarnings(True)


class Spans(Tracing):
    """Makes OpenTelemetry spans: one per request, as child of the client's ``traceparent``, and one per call.

    https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/ defines the attributes of calls.

    Args:
        provider: The tracer provider; None for the provider of the process.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        from opentelemetry import propagate

        super().__init__("knime_mcp.gateway", provider)
        self._extract = propagate.extract

    def request(self, method: str, headers: Mapping[str, str]) -> AbstractContextManager[Span]:
        """Opens the span of a request, and closes it on exit."""
        return self._opened(
            method,
            context=self._extract(headers),
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.request.method": method},
        )

    def answered(self, span: Span, record: RequestRecord, *, method: str, route: str) -> None:
        """Adds the route, status and client of an answered request to its span."""
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", record.status)
        span.set_attribute("knime_mcp.request_id", record.request_id)
        if record.client is not None:
            span.set_attribute("knime_mcp.client", record.client)
        if record.status >= 500:
            self.failed(span, record.error_type or str(record.status))

    def call(self, tool: str) -> AbstractContextManager[Span]:
        """Opens the span of a call, and closes it on exit."""
        attributes = {
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
        }
        return self._opened(f"tools/call {tool}", attributes=attributes)


def spans_from_environment() -> Spans:
    """Makes spans for the endpoint in ``OTEL_*``, or else for the provider of the process."""
    return Spans(provider_from_environment("knime-mcp-gateway"))
