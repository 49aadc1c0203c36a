"""The tracer provider of the ``OTEL_*`` variables, for the graphs and for the gateway."""

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from knime_mcp.web.tracing import Tracing, provider_from_environment
from knime_mcp_graph import api as of_graphs
from knime_node_knowledge.gateway import observing as of_gateway

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in (
        ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED",
        "OTEL_SERVICE_NAME",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {ENDPOINT: ""},
        {ENDPOINT: NOWHERE, "OTEL_SDK_DISABLED": "True"},
        {ENDPOINT: NOWHERE, "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_without_an_endpoint_there_is_no_provider(monkeypatch, settings, caplog):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert provider_from_environment("s") is None
    assert of_graphs.spans_from_environment() is None  # no cost per node
    of_gateway.spans_from_environment().close()  # the provider of the process is not closed
    assert not caplog.records


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({ENDPOINT: NOWHERE}, "s"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{NOWHERE}/v1/traces"}, "s"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "s"),
        ({ENDPOINT: NOWHERE, "OTEL_SERVICE_NAME": "mine"}, "mine"),
    ],
)
def test_the_provider_has_the_name_of_the_service(monkeypatch, settings, name):
    for key, value in settings.items():
        monkeypatch.setenv(key, value)
    provider = provider_from_environment("s")
    assert provider.resource.attributes["service.name"] == name
    Tracing("scope", provider).close()


def test_without_the_exporters_package_there_is_a_warning_and_the_program_goes_on(monkeypatch, caplog):
    monkeypatch.setenv(ENDPOINT, NOWHERE)
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    assert of_graphs.spans_from_environment() is None
    with of_gateway.spans_from_environment().call("t") as span:
        assert not span.is_recording()
    assert [record.message for record in caplog.records] == [
        f"No spans are sent over OTLP/HTTP: the package {EXPORTER} is missing"
    ] * 2


def test_without_any_package_the_gateway_names_its_extra(tmp_path):
    code = """
import sys
sys.modules["opentelemetry"] = None
from knime_node_knowledge.commands.program import main
sys.argv = ["knime-nodes", "gateway", "--port", "0"]
main()
"""
    gateway = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "COLUMNS": "300"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert gateway.returncode == 1, gateway.stderr
    assert "The gateway needs the extra 'gateway' (opentelemetry is missing)" in gateway.stderr
    assert "packages/node-knowledge[gateway]'" in gateway.stderr
    assert "Traceback" not in gateway.stderr


def test_a_failed_span_has_the_type_of_its_error_but_not_its_text():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = of_gateway.GatewaySpans(provider)

    def fail():
        with spans.call("t") as span:
            spans.failed(span, "PARAMETER_ERROR")
            raise ValueError("hush")

    with pytest.raises(ValueError, match="hush"):
        fail()
    (failed,) = exporter.get_finished_spans()
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "PARAMETER_ERROR")
    assert failed.attributes["error.type"] == "PARAMETER_ERROR"
    assert not failed.events
    spans.close()
