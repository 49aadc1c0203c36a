"""The node that connects a chat model, on whichever host, against an endpoint on loopback."""

import json
import socket
import subprocess
import sys

import pytest

from tests.agents.playing import asked
from tests.support.chat_server import ChatServer, fails, says
from tests.support.dialogs import shown
from tests.support.host import KNIME_YML
from tests.support.messages_server import MessagesServer

NODE = "openai_compatible_chat_model"
KEYS = {
    "base_url": "",
    "credentials": "<none>",
    "model": "<as entered>",
    "model_name": "",
    "check_connection": True,
    "set_temperature": False,
    "temperature": 0.2,
    "token_limit_as": "none",
    "token_limit": 4096,
    "top_p": 1.0,
    "reasoning_effort": "unset",
    "request_fields": "",
    "timeout": 120.0,
    "extra_headers": "",
}
KEY = "sk-very-secret-0123456789"
CREDENTIALS = {"openai": ("", KEY)}


def connect(host, url, *, credentials=None, cancel=False, **settings):
    chosen = {"base_url": url, "model_name": "test-model", **settings}
    return host.run(NODE, [], chosen, credentials=credentials, cancel=cancel)


def settings_of(document):
    return document.get("model", document)


def choices(dialog):
    schema = dialog["schema"]["properties"]
    schema = schema.get("model", schema)
    if "properties" in schema:
        schema = schema["properties"]
    return [choice["const"] for choice in schema["model"]["oneOf"]], schema["model"]["description"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_node_is_described_without_problems(host):
    described = host.describe()
    assert [problem for problem in described["problems"] if "chat_model" in str(problem).lower()] == []
    node = next(node for node in described["nodes"] if node["id"] == NODE)
    assert node["name"] == "OpenAI-Compatible Chat Model Connector"
    assert node["category"] == "/community/mcp"
    assert node["icon_path"] == "icons/chat_model.png"


def test_keys_and_defaults(host):
    assert settings_of(host.dialog(NODE, [])["data"]) == KEYS


def test_at_most_five_settings_are_visible(host):
    visible = ["base_url", "credentials", "model", "model_name"]
    assert shown(host.dialog(NODE, [])) == visible


def test_the_port_carries_the_settings_and_no_secret(host):
    with ChatServer(key=KEY) as server:
        result = host.run(
            NODE,
            [],
            {
                "base_url": f"{server.url}/chat/completions",
                "model": "other-model",
                "credentials": "openai",
                "set_temperature": True,
                "temperature": 0.5,
                "token_limit_as": "max_tokens",
                "token_limit": 99,
                "timeout": 30.0,
                "extra_headers": "X-Team: blue",
            },
            credentials=CREDENTIALS,
        )
        assert result.ok, result.failure
        assert result.warnings == []
        spec, data = result.outputs[0]
        assert spec["id"] == "org.knime_mcp.mcp.ChatModel"
        assert spec["data"] == {
            "route": f"{server.url}#credential=openai&header=X-Team:blue",
            "model": "other-model",
            "temperature": 0.5,
            "token_limit": 99,
            "token_limit_field": "max_tokens",
            "timeout": 30.0,
        }
        assert KEY not in json.dumps(spec) + data.decode() + str(result.logs)
        [asked] = server.other_requests
        assert asked.path == "/v1/models"
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.headers["x-team"] == "blue"


def test_the_object_makes_a_model_that_answers(host, knows):
    with ChatServer([says("Hello")], key=KEY) as server:
        result = connect(host, server.url, credentials=CREDENTIALS)
        assert not result.ok  # no credential is chosen
        result = host.run(
            NODE,
            [],
            {"base_url": server.url, "model_name": "test-model", "credentials": "openai"},
            credentials=CREDENTIALS,
        )
        assert result.ok, result.failure
        port = host.port_object(result.outputs[0])

        model = port.create_model(knows("openai", KEY))
        assert asked(model).content == "Hello"
        assert KEY not in repr(model)
        assert port.spec.serialize() == result.outputs[0][0]["data"]


def test_a_local_endpoint_wants_no_key(host):
    with ChatServer() as server:
        result = connect(host, server.url)
        assert result.ok, result.failure
        assert "authorization" not in server.other_requests[0].headers


@pytest.mark.parametrize(
    ("settings", "says_what"),
    [
        ({"base_url": ""}, "base URL is empty"),
        ({"base_url": "localhost:1234"}, "http://"),
        ({"base_url": "https://user:pw@host/v1"}, "user name or password"),
        ({"base_url": "https://host/v1?api_key=abc"}, "looks like a secret"),
        ({"base_url": "stdio:x"}, "http://"),
        ({"model_name": "  "}, "No model is chosen"),
        ({"credentials": "gone"}, "no credential 'gone'"),
        ({"extra_headers": "Authorization: Bearer abc"}, "looks like a secret"),
        ({"extra_headers": "no colon"}, "no colon"),
    ],
)
def test_configure_says_what_is_wrong(host, settings, says_what):
    chosen = {"base_url": "https://host/v1", "model_name": "m", **settings}
    result = host.run(NODE, [], chosen, credentials=CREDENTIALS, execute=False)
    assert not result.ok
    assert says_what in result.failure["message"]
    assert "server URL" not in result.failure["message"]
    for secret in ("pw@", "abc"):
        assert secret not in result.failure["message"]


def test_configure_contacts_nobody(host):
    with ChatServer() as server:
        result = host.run(
            NODE, [], {"base_url": server.url, "model": "test-model"}, credentials={}, execute=False
        )
        assert result.ok, result.failure
        assert server.other_requests == []
        assert result.specs[0]["data"]["model"] == "test-model"


def test_a_wrong_key_is_found_here(host):
    with ChatServer(key="another") as server:
        result = host.run(
            NODE,
            [],
            {"base_url": server.url, "model_name": "m", "credentials": "openai"},
            credentials=CREDENTIALS,
        )
    assert "does not accept the credential (401)" in result.failure["message"]
    assert KEY not in str(result.failure)
    assert KEY not in str(result.logs)


def test_an_address_where_nothing_runs_is_found_here(host):
    result = connect(host, f"http://127.0.0.1:{free_port()}/v1")
    assert "No connection to the model's endpoint" in result.failure["message"]
    assert "Check that it runs" in result.failure["message"]
    assert connect(host, f"http://127.0.0.1:{free_port()}/v1", check_connection=False).ok


def test_an_unlisted_model_is_a_warning_and_no_list_is_none(host):
    with ChatServer() as server:
        result = connect(host, server.url, model_name="test-modle")
        assert result.ok
        assert "does not list the model 'test-modle'. It lists test-model" in result.warnings[-1]
    for models in (None, []):
        with ChatServer(models=models) as server:
            result = connect(host, server.url)
            assert (result.ok, result.warnings) == (True, [])


def test_a_key_over_http_to_another_machine_is_a_warning(host):
    result = host.run(
        NODE,
        [],
        {"base_url": "http://host.example/v1", "model_name": "m", "credentials": "openai"},
        credentials=CREDENTIALS,
        execute=False,
    )
    assert "over http" in result.warnings[-1]


def test_the_check_can_be_canceled(host):
    with ChatServer(models_delay=15.0) as server:
        result = connect(host, server.url, cancel=lambda: bool(server.other_requests))
        assert not result.ok
        assert "canceled" in result.failure["message"].lower()


def test_the_dialog_offers_what_the_endpoint_lists(host):
    with ChatServer(models=["b", "a"], key=KEY) as server:
        dialog = host.dialog(
            NODE, [], {"base_url": server.url, "credentials": "openai"}, credentials=CREDENTIALS
        )
        assert choices(dialog)[0] == ["<as entered>", "a", "b"]
        assert server.other_requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert len(server.other_requests) == 1
        # A saved model that the endpoint does not list (any more) stays chosen.
        dialog = host.dialog(
            NODE, [], {"base_url": server.url, "credentials": "openai", "model": "c"}, credentials=CREDENTIALS
        )
        assert choices(dialog)[0] == ["<as entered>", "a", "b", "c"]
        assert settings_of(dialog["data"])["model"] == "c"


def test_models_without_a_name_are_not_offered(host):
    with ChatServer(models=["a", "", " "]) as server:
        dialog = host.dialog(NODE, [], {"base_url": server.url})
    assert choices(dialog)[0] == ["<as entered>", "a"]


def test_the_dialog_opens_whatever_the_endpoint_does(host):
    assert choices(host.dialog(NODE, []))[0] == ["<as entered>"]
    for url in ("nonsense", f"http://127.0.0.1:{free_port()}/v1", "http://[::1", "https://a.invalid/v1"):
        assert choices(host.dialog(NODE, [], {"base_url": url}))[0] == ["<as entered>"]
    with ChatServer() as server:
        dialog = host.dialog(NODE, [], {"base_url": server.url, "credentials": "gone"})
        assert choices(dialog)[0] == ["<as entered>"]
    turns = [fails(500), says("x"), fails(301, headers=(("Location", "http://127.0.0.1:1/"),))]
    for turn in turns:
        with ChatServer(models_turn=turn) as server:
            assert choices(host.dialog(NODE, [], {"base_url": server.url}))[0] == ["<as entered>"]


def test_the_dialog_does_not_wait_for_a_slow_endpoint(host):
    import knime.extension as knext

    with ChatServer(models_delay=15.0) as server:
        dialog = host.dialog(NODE, [], {"base_url": server.url})
        offered, description = choices(dialog)
        assert offered == ["<as entered>"]
        if hasattr(knext.StringParameter, "Choice"):  # KNIME before 5.8 has nowhere to say why
            assert "did not answer within 1.8 seconds" in description


def test_a_dialog_does_not_change_a_fresh_node(host):
    with ChatServer() as server:
        host.dialog(NODE, [], {"base_url": server.url, "model": "test-model"}, credentials=CREDENTIALS)
    assert settings_of(host.dialog(NODE, [])["data"]) == KEYS
    fresh = host.run(NODE, [], {"base_url": "https://host/v1", "model_name": "m"}, execute=False)
    assert settings_of(fresh.parameters)["model"] == "<as entered>"


def test_what_was_saved_is_loaded_again(host):
    saved = {"model": KEYS | {"base_url": "https://host/v1", "model": "m", "token_limit_as": "max_tokens"}}
    assert settings_of(host.load_parameters(NODE, saved, "0.1.0")) == saved["model"]


def test_nothing_heavy_is_imported_with_the_node():
    script = """
import sys
from tests.support.knime_host import load_extension
load_extension(sys.argv[1])
heavy = {"httpx", "langchain_core", "langchain_anthropic", "pydantic"} & set(sys.modules)
assert not heavy, heavy
assert "knime_mcp.agents.chat_model_connector" in sys.modules
"""
    command = [sys.executable, "-c", script, str(KNIME_YML)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_fields_of_requests_go_with_the_model(host):
    chosen = {"top_p": 0.5, "reasoning_effort": "low", "request_fields": '{"seed": 1, "top_p": 0.9}'}
    result = connect(host, "http://127.0.0.1:9/v1", check_connection=False, **chosen)
    assert result.ok, result.failure
    more = host.port_object(result.outputs[0]).spec.settings.more
    assert more == {"seed": 1, "top_p": 0.5, "reasoning_effort": "low"}


@pytest.mark.parametrize(
    ("text", "said"), [("seed: 1", "cannot be read"), ("[1]", "not an object"), ('{"tools": []}', "'tools'")]
)
def test_fields_that_cannot_be_sent(host, text, said):
    result = connect(host, "http://127.0.0.1:9/v1", check_connection=False, request_fields=text)
    assert not result.ok
    assert said in result.failure["message"]


def test_anthropics_models_by_their_own_protocol(host):
    with MessagesServer([says("Hello")], key=KEY) as server:
        named = {"base_url": server.url, "credentials": "openai", "model_name": "anthropic:test-model"}
        result = host.run(NODE, [], named, credentials=CREDENTIALS)
        assert (result.failure, list(result.warnings)) == (None, [])
        [listing] = server.other_requests
        assert (listing.path, listing.headers["anthropic-version"]) == ("/v1/models", "2023-06-01")
        settings = result.outputs[0][0]["data"]
        assert settings["model"] == "anthropic:test-model"
        dialog = host.dialog(NODE, [], named, credentials=CREDENTIALS)
        assert choices(dialog)[0] == ["<as entered>", "anthropic:other-model", "anthropic:test-model"]
    unnamed = {"base_url": "", "credentials": "openai", "model_name": "test-model"}
    assert "base URL" in str(host.run(NODE, [], unnamed, credentials=CREDENTIALS).failure)
