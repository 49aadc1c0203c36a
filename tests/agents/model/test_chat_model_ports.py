"""Chat models of KNIME's AI extension: requests like those of its own nodes; other models are refused."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from knime_mcp.types.errors import SettingInvalid
from tests.agents.playing import asked
from tests.support.chat_server import ChatServer, says
from tests.support.host import KNIME_YML
from tests.support.messages_server import MessagesServer

KEY = "sk-very-secret-0123456789"
PREFIX = "org.knime.python.llm.models."
OPENAI = f"{PREFIX}openai.OpenAIChatModelPortObject"
AZURE = f"{PREFIX}azure.AzureOpenAIChatModelPortObject"
HUB = f"{PREFIX}knime._chat.KnimeHubChatModelPortObject"
COMMON = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 200, "n_requests": 1}


def samples(url):
    """Documents in the AI extension's form; `test_its_own_classes_write_these_documents` compares."""
    openai = {
        "credentials": "openai",
        "base_url": f"{url}/v1",
        "credential_spec": None,
        "custom_headers": {"X-Team": "blue"},
        "seed": 3,
        **COMMON,
    }
    azure = {
        "credentials": "openai",
        "base_url": url,
        "credential_spec": None,
        "custom_headers": {},
        "api_version": "2024-06-01",
        "api_type": "azure",
        "model": "mine",
        "seed": 3,
        **COMMON,
    }
    ported = {**openai, "credentials": "", "custom_headers": {}, "credential_spec": {"data": "xml"}}
    login = {"data": "xml", "hub_url": f"{url}/some/hub"}
    return {
        "openai": {"id": OPENAI, "data": {**openai, "model": "gpt-4o"}},
        "openai_reasoning": {"id": OPENAI, "data": {**openai, "model": "o3-mini"}},
        "openai_port": {"id": OPENAI, "data": {**ported, "model": "gpt-4o"}},
        "azure": {"id": AZURE, "data": {**azure, "is_reasoning_model": False}},
        "azure_reasoning": {"id": AZURE, "data": {**azure, "is_reasoning_model": True}},
        "hub": {"id": HUB, "data": {"auth": login, "model_name": "team:model", **COMMON}},
    }


@pytest.fixture
def context(knows):
    return knows("openai", KEY)


@pytest.fixture
def arrived(host):
    """A model as it arrives at the agent's port."""
    return lambda document: host.port_object((document, b""))


@pytest.mark.parametrize(
    ("name", "path", "headers", "fields"),
    [
        (
            "openai",
            "/v1/chat/completions",
            {"authorization": f"Bearer {KEY}", "x-team": "blue"},
            {"model": "gpt-4o", "temperature": 0.2, "max_completion_tokens": 200, "seed": 3},
        ),
        (
            "openai_reasoning",
            "/v1/chat/completions",
            {"authorization": f"Bearer {KEY}", "x-team": "blue"},
            {"model": "o3-mini", "max_completion_tokens": 200, "seed": 3},
        ),
        (
            "azure",
            "/openai/deployments/mine/chat/completions?api-version=2024-06-01",
            {"api-key": KEY},
            {"model": "mine", "temperature": 0.2, "max_tokens": 200, "seed": 3, "top_p": 0.9},
        ),
        (
            "azure_reasoning",
            "/openai/deployments/mine/chat/completions?api-version=2024-06-01",
            {"api-key": KEY},
            {"model": "mine", "max_completion_tokens": 200, "seed": 3},
        ),
    ],
)
def test_what_is_sent_for_a_model_with_a_credential(arrived, context, name, path, headers, fields):
    with ChatServer([says("Hello")], models=["gpt-4o", "o3-mini", "mine"]) as server:
        model = arrived(samples(server.url.removesuffix("/v1"))[name])
        model.spec.check(context)
        assert asked(model.create_model(context)).content == "Hello"
        [request] = server.requests
    assert request.path == path
    sent = {
        name: value
        for name, value in request.headers.items()
        if name in {"authorization", "api-key", "x-team"}
    }
    assert sent == headers
    body = {key: value for key, value in request.body.items() if key not in {"messages", "stream"}}
    assert body == fields


@pytest.mark.parametrize(
    ("name", "path"), [("hub", "/ai-gateway/v1/chat/completions"), ("openai_port", "/v1/chat/completions")]
)
def test_a_login_that_travels_with_the_model(arrived, context, host, name, path, monkeypatch):
    with ChatServer([says("Hello"), says("again")], models=["team:model", "gpt-4o"]) as server:
        document = samples(server.url.removesuffix("/v1"))[name]
        tokens = iter(["first", "second", "third"])
        spec = arrived(document).spec
        login = type(spec.authorization()._spec)
        monkeypatch.setattr(login, "auth_schema", property(lambda self: "Bearer"))
        monkeypatch.setattr(login, "auth_parameters", property(lambda self: next(tokens)))
        model = arrived(document).create_model(context)
        assert model.secrets == ("first",)  # known before the first request, so that they can be blacked out
        assert asked(model).content == "Hello"
        assert asked(model).content == "again"
        assert [request.path for request in server.requests] == [path, path]
        # KNIME renews tokens, so the token is read for each request.
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer second", "Bearer third"]
    assert model.secrets == ("third",)


@pytest.mark.parametrize(
    ("place", "data", "path", "fields"),
    [
        (
            "deepseek._chat.DeepSeekChatModelPortObject",
            {
                "auth": {"credentials": "openai", "base_url": "{}"},
                "n_requests": 1,
                "model": "deepseek-chat",
                "temperature": 0.5,
                "max_tokens": 300,
            },
            "/chat/completions",
            {"model": "deepseek-chat", "temperature": 0.5, "max_tokens": 300},
        ),
        (
            "huggingface.HFTGIChatModelPortObject",
            {
                "inference_server_url": "{}/",
                "max_new_tokens": 50,
                "top_k": 1,
                "top_p": 0.9,
                "typical_p": 0.9,
                "temperature": 0.2,
                "repetition_penalty": 1.0,
                "seed": 3,
                "n_requests": 1,
                "hf_hub_auth": {"credentials": "openai"},
            },
            "/v1/chat/completions",
            {"model": "tgi", "temperature": 0.2, "max_tokens": 50, "top_p": 0.9, "seed": 3},
        ),
    ],
)
def test_services_with_an_endpoint_in_openais_form(arrived, context, place, data, path, fields):
    with ChatServer([says("Hello")], models=[fields["model"]]) as server:
        url = server.url.removesuffix("/v1")
        document = json.loads(json.dumps(data).replace("{}", url))
        model = arrived({"id": PREFIX + place, "data": document})
        model.spec.check(context)
        assert asked(model.create_model(context)).content == "Hello"
        [request] = server.requests
    assert (request.path, request.headers["authorization"]) == (path, f"Bearer {KEY}")
    assert {key: request.body[key] for key in fields} == fields


@pytest.mark.parametrize(
    ("place", "data", "url", "model"),
    [
        (
            "google._port_types.GeminiChatModelPortObject",
            {
                "connection_type": "google_ai_studio",
                "connection_spec_data": {"credentials": "openai"},
                "model_name": "gemini-3",
                "max_output_tokens": 9,
                "temperature": 0.1,
                "n_requests": 1,
            },
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "gemini-3",
        ),
        *[
            (
                place,
                {
                    "credentials": "openai",
                    "repo_id": "org/m",
                    "provider": "auto",
                    "n_requests": 1,
                    "model_kwargs": {"max_tokens": 9, "top_p": 0.9, "temperature": 0.1},
                },
                "https://router.huggingface.co/v1",
                "org/m:auto",
            )
            for place in (
                "huggingface.HFHubChatModelPortObject",
                "huggingface.hf_hub.HFHubChatModel2PortObject",
            )
        ],
    ],
)
def test_services_at_one_place(arrived, context, place, data, url, model):
    spec = arrived({"id": PREFIX + place, "data": data}).spec
    spec.check(context)
    settings = spec.settings
    assert (settings.base_url, settings.model, settings.token_limit, settings.temperature) == (
        url,
        model,
        9,
        0.1,
    )
    assert settings.route.credential == "openai"


def test_anthropics_selector_speaks_anthropics_protocol(arrived, context):
    fields = {"n_requests": 1, "model": "claude", "temperature": 0.5, "max_tokens": 300}
    with MessagesServer([says("Hello")], models=["claude"], key=KEY) as server:
        login = {"credentials": "openai", "base_url": server.url.removesuffix("/v1")}
        place = f"{PREFIX}anthropic_api._chat.AnthropicChatModelPortObject"
        model = arrived({"id": place, "data": {"auth": login, **fields}})
        model.spec.check(context)
        assert asked(model.create_model(context)).content == "Hello"
        body = server.requests[0].body
    assert (body["temperature"], body["max_tokens"]) == (0.5, 300)


@pytest.mark.parametrize(
    ("location", "custom", "url"),
    [
        ("europe-west1", "", "https://europe-west1-aiplatform.googleapis.com"),
        ("global", None, "https://aiplatform.googleapis.com"),
        ("global", "https://gate.example/", "https://gate.example"),
    ],
)
def test_gemini_at_vertex(arrived, context, monkeypatch, location, custom, url):
    place = {"google_credentials_spec": {"data": "xml"}, "project_id": "p", "location": location}
    data = {
        "connection_type": "vertex_ai",
        "connection_spec_data": {**place, "custom_base_api_url": custom},
        "model_name": "gemini-3",
        "max_output_tokens": 9,
        "temperature": 0.1,
        "n_requests": 1,
    }
    spec = arrived({"id": f"{PREFIX}google._port_types.GeminiChatModelPortObject", "data": data}).spec
    spec.check(context)
    settings = spec.settings
    assert settings.base_url == f"{url}/v1/projects/p/locations/{location}/endpoints/openapi"
    assert (settings.model, settings.route.credential) == ("google/gemini-3", None)
    login = spec.authorization()
    monkeypatch.setattr(type(login._spec), "auth_schema", property(lambda self: "Bearer"))
    monkeypatch.setattr(type(login._spec), "auth_parameters", property(lambda self: "ya29"))
    assert login.headers() == {"Authorization": "Bearer ya29"}


DATABRICKS = """
import sys
from tests.support.knime_host import load_extension
from knime_mcp.types.errors import SettingInvalid
load_extension(sys.argv[1])
import knime.extension as knext
from knime.extension.nodes import get_port_type_for_id

data = {"databricks_workspace_spec": {"data": "xml", "where": "https://w.example/"}, "endpoint": "llama",
        "temperature": 0.2, "top_p": 0.9, "max_tokens": 64, "n_requests": 1}
model = get_port_type_for_id("org.knime.python.llm.models.databricks._chat.DatabricksChatModelPortObject")
spec = model.spec_class.deserialize(data)
try:
    spec.settings
    raise AssertionError("there is no such extension")
except SettingInvalid as error:
    assert "without KNIME's Databricks Integration" in str(error), error


class Workspace(knext.CredentialPortObjectSpec):
    auth_schema, auth_parameters = "Bearer", "dapi"

    def __init__(self, where):
        self.workspace_url = where

    @classmethod
    def deserialize(cls, data):
        return cls(data["where"])


id = "org.knime.bigdata.databricks.workspace.port.DatabricksWorkspacePortObject"
knext.port_type("Databricks Workspace", knext.PortObject, Workspace, id=id)
assert spec.settings.base_url == "https://w.example/serving-endpoints"
assert (spec.settings.model, spec.settings.more) == ("llama", {"top_p": 0.9})
assert spec.authorization().headers() == {"Authorization": "Bearer dapi"}
"""


@pytest.mark.standin
def test_databricks_with_and_without_its_extension():
    command = [sys.executable, "-c", DATABRICKS, str(KNIME_YML)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_document_survives_as_it_came(arrived):
    for document in samples("https://host").values():
        assert arrived(document).spec.serialize() == document["data"]
        assert KEY not in json.dumps(arrived(document).spec.serialize())


@pytest.mark.parametrize(
    ("place", "kind", "instead"),
    [
        ("ibm._chat.IBMwatsonxChatModelPortObject", "IBM watsonx.ai", "gateway"),
        ("gpt4all._chat.GPT4AllChatModelPortObject", "GPT4All", "localhost:4891"),
        ("fake.TestChatModelPortObject", "tests", "base URL"),
        ("base.ChatModelPortObject", "this kind", "base URL"),
    ],
)
def test_others_are_refused_with_the_node_to_use(arrived, context, place, kind, instead):
    model = arrived({"id": PREFIX + place, "data": {"anything": 1}})
    for use in (model.spec.check, model.create_model):
        with pytest.raises(SettingInvalid) as raised:
            use(context)
        assert kind in str(raised.value)
        assert "Use the node 'OpenAI-Compatible Chat Model Connector'" in str(raised.value)
        assert instead in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [{"model": None, "credentials": None}, {"temperature": "hot"}, {"max_tokens": [1]}, {"base_url": 7}],
)
def test_a_form_that_changed_is_said(arrived, context, change):
    document = {**samples("https://host")["openai"]["data"], **change}
    document = {key: value for key, value in document.items() if value is not None}
    with pytest.raises(SettingInvalid, match=r"unknown form|No model|no credential"):
        arrived({"id": OPENAI, "data": document}).spec.check(context)


def test_the_hub_without_a_connection(arrived, context):
    document = samples("https://host")["hub"]["data"]
    broken = {"id": HUB, "data": {**document, "auth": {"data": "xml", "hub_url": None}}}
    with pytest.raises(SettingInvalid, match="Execute the nodes before again"):
        arrived(broken).spec.check(context)


def test_a_credential_that_is_gone(arrived, context):
    document = samples("https://host")["openai"]["data"]
    with pytest.raises(SettingInvalid, match="There is no credential 'gone'"):
        arrived({"id": OPENAI, "data": {**document, "credentials": "gone"}}).spec.check(context)


def types_needed(root, bundle):
    """The oldest version of KNIME's Python types that a bundle in a checkout works with.

    Both repositories state it; their own versions rise at different times.
    """
    manifest = Path(os.environ[root], bundle, "META-INF", "MANIFEST.MF").read_text(encoding="utf-8")
    version = re.search(r'org\.knime\.python3\.types;bundle-version="\[(\d+)\.(\d+)\.(\d+),', manifest)
    return tuple(map(int, version.groups()))


def are_of_one_age():
    """Returns whether the checkouts of KNIME and its AI extension work together."""
    needed = types_needed("KNIME_LLM_ROOT", "org.knime.ai.core")
    return needed <= types_needed("KNIME_PYTHON_ROOT", "org.knime.python3.nodes")


if "KNIME_PYTHON_ROOT" not in os.environ or "KNIME_LLM_ROOT" not in os.environ or are_of_one_age():

    @pytest.mark.real_knime
    def test_its_own_classes_write_these_documents():
        assert os.environ.get("KNIME_LLM_ROOT"), "needs KNIME_LLM_ROOT, a checkout of knime-python-llm"
        script = Path(__file__).with_name("foreign_models.py")
        command = [sys.executable, "-W", "ignore", str(script), "https://host"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout.splitlines()[-1]) == samples("https://host")
