"""The settings: names and defaults of the sources, and a table in the docs that says the same."""

import re
from pathlib import Path

import pytest

from knime_mcp.types.errors import SettingInvalid
from knime_node_knowledge.gateway.gateway_settings import GatewaySettings, read_settings
from knime_node_knowledge.gateway.observing import LOGGER

ROOT = Path(__file__).parents[5]


@pytest.mark.requirement("W5", "N29", "N30")
def test_names_and_defaults_are_the_sources():
    settings = read_settings({})
    assert settings.mcp_enabled is True
    assert settings.mcp_max_results_per_tool == 100
    assert settings.node_knowledge_supabase_url is settings.node_knowledge_supabase_key is None
    assert settings.node_knowledge_default_threshold == 0.3
    assert (settings.elasticsearch_host, settings.elasticsearch_port) == ("localhost", 9200)
    assert (settings.log_level, settings.log_format, settings.debug) == ("INFO", "json", False)
    assert settings.gateway_port == 8000
    names = {"supabase_url", "supabase_secret_key", "supabase_anon_key"}
    assert names <= set(GatewaySettings.model_fields)


@pytest.mark.requirement("N29")
def test_the_container_has_the_same_port_and_settings_and_asks_for_the_health(gateway, monkeypatch):
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", "")
    (environment,) = re.findall(r"^ENV (.+)$", text, re.M)
    for pair in environment.split():
        monkeypatch.setenv(*pair.split("="))
    settings = read_settings()
    assert (settings.gateway_host, settings.gateway_port) == ("0.0.0.0", 8000)
    assert str(settings.gateway_keys_file).startswith("/data/knime-mcp/")
    assert re.findall(r"^EXPOSE (.+)$", text, re.M) == ["8000"]
    (path,) = re.findall(r"http://127\.0\.0\.1:8000(/[\w/]+)", text)
    with gateway.client("") as client:
        assert client.get(path).json()["status"] == "healthy"


def test_the_environment_counts_and_options_count_more():
    environment = {
        "MCP_ENABLED": "false",
        "LOG_LEVEL": "debug",
        "ELASTICSEARCH_INDICES": "a, b",
        "GATEWAY_PORT": "9000",
        "GATEWAY_HOST": "",
        "PATH": "/bin",
    }
    settings = read_settings(environment, gateway_port=9001, gateway_host=None)
    assert (settings.mcp_enabled, settings.log_level) == (False, "DEBUG")
    assert settings.elasticsearch_indices == ("a", "b")
    assert (settings.gateway_port, settings.gateway_host) == (9001, "127.0.0.1")


def test_a_setting_that_cannot_work_is_named_without_its_value(subtests):
    for environment, named in [
        ({"GATEWAY_PORT": "many"}, "GATEWAY_PORT"),
        ({"NODE_KNOWLEDGE_DEFAULT_THRESHOLD": "2"}, "NODE_KNOWLEDGE_DEFAULT_THRESHOLD"),
        ({"LOG_LEVEL": "secret-value"}, "LOG_LEVEL"),
        ({"GATEWAY_INTERNAL_HOST": "0.0.0.0"}, "GATEWAY_INTERNAL_HOST"),
        ({"GATEWAY_INTERNAL_HOST": "secret-value"}, "GATEWAY_INTERNAL_HOST"),
        ({"GATEWAY_TLS_CERTIFICATE": "secret-value"}, "GATEWAY_TLS_KEY"),
        ({"NODE_KNOWLEDGE_SUPABASE_URL": "https://secret-value"}, "NODE_KNOWLEDGE_SUPABASE_KEY"),
        ({"GATEWAY_CORS_ORIGINS": "*"}, "GATEWAY_CORS_ORIGINS"),
        ({"ELASTICSEARCH_INDICES": "logs-*"}, "ELASTICSEARCH_INDICES"),
        ({"ELASTICSEARCH_INDICES": "_all"}, "ELASTICSEARCH_INDICES"),
    ]:
        with subtests.test(environment=environment, named=named):
            with pytest.raises(SettingInvalid) as caught:
                read_settings(environment)
            assert named in str(caught.value)
            assert "secret-value" not in str(caught.value)


def test_secrets_are_not_shown():
    settings = read_settings({"SUPABASE_URL": "https://x", "SUPABASE_SECRET_KEY": "secret-value"})
    assert "secret-value" not in repr(settings)
    assert "secret-value" not in settings.model_dump_json()


@pytest.mark.requirement("N26")
@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({"gateway_host": "0.0.0.0"}, True),
        ({"gateway_host": "0.0.0.0", "gateway_behind_proxy": True}, False),
        ({"gateway_host": "127.0.0.1"}, False),
    ],
)
def test_plain_http_beyond_this_machine_is_warned_about(start, caplog, given, warned):
    caplog.set_level("WARNING", LOGGER.name)
    start(**given)
    assert ("unencrypted" in caplog.text) is warned


def test_an_address_in_use_is_an_error_with_a_name(start):
    port = start().url.rpartition(":")[2]
    with pytest.raises(OSError, match=port):
        start(gateway_port=int(port))
