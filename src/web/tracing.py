"""OpenTelemetry: the tracer provider of the ``OTEL_*`` variables, and spans without the texts of errors."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final

from ..version import VERSION

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, TracerProvider

_LOGGER: Final = logging.getLogger("knime_mcp.tracing")
_SETTINGS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)


class Tracing:
    """Opens spans, marks them as failed, and sends the last ones; without a provider, with the process's."""

    def __init__(self, scope: str, provider: TracerProvider | None = None) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._provider = provider
        self._tracer = trace.get_tracer(scope, VERSION, tracer_provider=provider)

    def failed(self, span: Span, error_type: str) -> None:
        """Marks a span as failed, with the type of the error only, as its text may quote requests."""
        span.set_attribute("error.type", error_type)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, error_type))

    def close(self) -> None:
        shutdown = getattr(self._provider, "shutdown", None)
        if shutdown is not None:
            shutdown()

    def _opened(self, name: str, **options: Any) -> AbstractContextManager[Span]:
        return self._tracer.start_as_current_span(
            # Its text may quote a request: `failed` notes the type alone.
            name,
            record_exception=False,
            set_status_on_exception=False,
            **options,
        )


def provider_from_environment(service: str) -> TracerProvider | None:
    """The provider for the endpoint in ``OTEL_*`` (OTLP over HTTP); None without one, or without packages.

    `service` is its name, unless ``OTEL_SERVICE_NAME`` is set.
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
    except ModuleNotFoundError as error:
        _LOGGER.warning("No spans are sent over OTLP/HTTP: the package %s is missing", error.name)
        return None
    # Given here, it would win over the variable.
    name = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: service}
    provider = TracerProvider(resource=Resource.create(name))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
