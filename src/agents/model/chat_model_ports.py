"""The ports through which a chat model reaches the agent: settings only, never a secret.

A port object describes the model. The receiving node makes the model with its own access to the workflow's
credentials. Beside our own port type there are those of KNIME's AI extension: those whose services have an
endpoint in OpenAI's form fit, all others are refused with what to use instead.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import urljoin, urlsplit

import knime.extension as knext
from knime.extension.nodes import get_port_type_for_id, has_port_type_for_id

from ...tools.node_settings.connection import find_credential
from ...types.errors import SettingInvalid
from .chat_model import ChatModelSettings, create_model, model_route

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...client.authorization import Authorization
    from ...client.clock import IsCanceled
    from ...tools.node_settings.connection import Credential
    from .agent_model import AgentModel


PORT_TYPE_ID: Final = "org.knime_mcp.mcp.ChatModel"
_EXTENSION: Final = "org.knime.python.llm.models"
_OPENAI_URL: Final = "https://api.openai.com/v1"
_OLDER_LIMIT: Final = "max_tokens"
_GEMINI_URL: Final = "https://generativelanguage.googleapis.com/v1beta/openai"
_HUGGING_FACE_URL: Final = "https://router.huggingface.co/v1"
_DATABRICKS_WORKSPACE: Final = "org.knime.bigdata.databricks.workspace.port.DatabricksWorkspacePortObject"
_REASONING_MODELS: Final = re.compile(r"o\d|gpt-5")
_OUR_NODE: Final = "OpenAI-Compatible Chat Model Connector"


class ChatModelPortObjectSpec(knext.PortObjectSpec):
    def __init__(self, settings: ChatModelSettings) -> None:
        self._settings = settings

    @property
    def settings(self) -> ChatModelSettings:
        return self._settings

    def check(self, ctx: Any) -> None:
        """Checks whether the model can be made, without a connection; for ``configure``."""
        self.credential(ctx)

    def credential(self, ctx: Any) -> Credential | None:
        """Looks up the endpoint's credential; None for an endpoint that needs none."""
        return find_credential(ctx, self.settings.route.credential)

    def authorization(self) -> Authorization | None:
        """The login that travels with the model, in place of a credential; None if there is no login."""
        return None

    def headers(self) -> dict[str, str]:
        """Further headers, which may hold secrets."""
        return {}

    def serialize(self) -> dict[str, Any]:
        return self._settings.to_json()

    @classmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> ChatModelPortObjectSpec:  # noqa: ARG003
        return cls(ChatModelSettings.from_json(data))


class ChatModelPortObject(knext.PortObject):
    """A chat model; all its data is in the spec."""

    @property
    def spec(self) -> ChatModelPortObjectSpec:
        return self._spec

    def create_model(self, ctx: Any) -> AgentModel:
        """Makes the model with the credential of an execution context; imports what speaks its protocol."""
        spec = self.spec
        return create_model(
            spec.settings,
            spec.credential(ctx),
            authorization=spec.authorization(),
            headers=spec.headers(),
        )

    def serialize(self) -> bytes:
        """Nothing, as the spec holds all data."""
        return b""

    @classmethod
    def deserialize(cls, spec: ChatModelPortObjectSpec, storage: bytes) -> ChatModelPortObject:  # noqa: ARG003
        return cls(spec)


chat_model_port_type: Final = knext.port_type(
    "Chat model", ChatModelPortObject, ChatModelPortObjectSpec, id=PORT_TYPE_ID
)
model_input: Final = knext.input_port(
    "Chat model",
    "The model that thinks, from an *OpenAI-Compatible Chat Model Connector*.",
    chat_model_port_type,
)


class PortAuthorization:
    """The login that comes with a model's port; its token is read again for each request."""

    def __init__(self, spec: Any) -> None:
        self._spec = spec
        self._last_token: tuple[str, ...] = ()

    def headers(self, _: IsCanceled | None = None, /) -> dict[str, str]:
        """The Authorization header, with the token that KNIME may have renewed.

        Raises `SettingInvalid` if there is none.
        """
        try:
            schema, token = str(self._spec.auth_schema), str(self._spec.auth_parameters)
        except (ValueError, AttributeError):
            raise SettingInvalid(
                "The login that comes with the chat model is not available",
                setting="credentials",
                fix="Execute the nodes before again; KNIME forgets logins when a workflow is closed",
            ) from None
        self._last_token = (token,)
        return {"Authorization": f"{schema} {token}"}

    def challenged(self, status: int, challenge: str | None, _: IsCanceled | None = None, /) -> bool:  # noqa: ARG002
        """Returns False: a login that comes with a port cannot be renewed here."""
        return False

    @property
    def identity(self) -> str:
        return "port"

    def describe(self) -> str:
        return "the login that comes with the chat model"

    def secrets(self) -> tuple[str, ...]:
        """The token that was sent last; before the first request, the token that will be sent."""
        if not self._last_token:
            with contextlib.suppress(SettingInvalid):
                self.headers()
        return self._last_token


class ForeignChatModelSpec(ChatModelPortObjectSpec):
    """Settings of a model in the AI extension's form, as it saved them.

    KNIME passes the settings of another extension's port to the extension that registered the same port id.
    The ids and the form of the documents are private to the AI extension
    (github.com/knime/knime-python-llm, `src/models`) and may change, so errors name the field that is
    missing or odd.
    """

    read: Callable[[Any], ChatModelSettings]
    login: Callable[[Any], Any]

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    @property
    def settings(self) -> ChatModelSettings:
        """The settings in our form; `SettingInvalid` if they have an unknown form, or cannot be used."""
        try:
            return type(self).read(self._document)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise SettingInvalid(
                f"The model of KNIME's AI extension has settings in an unknown form ({error!r})",
                setting="model",
                fix=f"Use the node '{_OUR_NODE}' instead",
            ) from None

    def authorization(self) -> Authorization | None:
        login = type(self).login(self._document)
        return None if login is None else PortAuthorization(login)

    def headers(self) -> dict[str, str]:
        headers = cast("dict[str, Any]", self._document.get("custom_headers") or {})
        return {name: str(value) for name, value in headers.items()}

    def serialize(self) -> dict[str, Any]:
        return self._document

    @classmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> ForeignChatModelSpec:  # noqa: ARG003
        """Keeps the document unread: `settings` reads it later, where an error can be shown."""
        return cls(data)


def _login(document: dict[str, Any], field: str = "credential_spec") -> Any:
    """The login that came through a port in place of the name of a credential."""
    login = document.get(field)
    return None if login is None else knext.CredentialPortObjectSpec.deserialize(login)


def _settings(
    document: dict[str, Any], url: str, model: str, credential: str | None = None, **fields: Any
) -> ChatModelSettings:
    """The settings that most documents have under the same names."""
    limit = document["max_tokens"] or None
    given: dict[str, Any] = {"temperature": document["temperature"], "token_limit": limit, **fields}
    return ChatModelSettings(route=model_route(url, model=model, credential=credential), model=model, **given)


def _openai(document: dict[str, Any]) -> ChatModelSettings:
    # One of the two: a login that came through a port, or the name of a credential of the workflow.
    by_name = document["credentials"] if document.get("credential_spec") is None else None
    model, more = str(document["model"]), {"seed": document.get("seed", 0)}
    # These refuse every temperature but their own, and the AI extension leaves it out, too.
    own = {"temperature": None} if _REASONING_MODELS.match(model) else {}
    return _settings(document, document.get("base_url") or _OPENAI_URL, model, by_name, more=more, **own)


def _azure(document: dict[str, Any]) -> ChatModelSettings:
    by_name = document["credentials"] if document.get("credential_spec") is None else None
    base = str(document.get("base_url") or document["api_base"]).rstrip("/")
    model, more = str(document["model"]), {"seed": document.get("seed", 0)}
    # Azure's models that reason refuse `max_tokens`, and `top_p` and a temperature, too.
    reasons = bool(document.get("is_reasoning_model", False))
    own = {"temperature": None} if reasons else {"token_limit_field": "max_tokens"}
    url = f"{base}/openai/deployments/{model}?api-version={document['api_version']}"
    settings = _settings(
        document, url, model, by_name, more=more if reasons else {**more, "top_p": document["top_p"]}, **own
    )
    # A key goes into a header of Azure's own; a login from a port is sent as Authorization.
    headers = (("api-key", "{credential.password}"),) if by_name else ()
    return replace(settings, route=replace(settings.route, headers=headers))


def _hub(document: dict[str, Any]) -> ChatModelSettings:
    hub = urlsplit(str(document["auth"].get("hub_url") or ""))
    if not hub.netloc:
        raise SettingInvalid(
            "The connection to the KNIME Hub is not available",
            setting="model",
            fix="Execute the nodes before again, and check that you are still logged in at the Hub",
        )
    return _settings(document, f"{hub.scheme}://{hub.netloc}/ai-gateway/v1", str(document["model_name"]))


def _anthropic(document: dict[str, Any]) -> ChatModelSettings:
    login = document["auth"]
    return _settings(document, login["base_url"], f"anthropic:{document['model']}", login["credentials"])


def _databricks(document: dict[str, Any]) -> ChatModelSettings:
    """A workspace serves its models in OpenAI's form."""
    url = urljoin(str(_databricks_workspace(document).workspace_url), "serving-endpoints")
    more = {"top_p": document["top_p"]}
    return _settings(document, url, str(document["endpoint"]), token_limit_field=_OLDER_LIMIT, more=more)


def _databricks_workspace(document: dict[str, Any]) -> Any:
    if not has_port_type_for_id(_DATABRICKS_WORKSPACE):
        raise SettingInvalid(
            "A chat model at Databricks cannot be used here without KNIME's Databricks Integration",
            setting="model",
            fix="Install that extension",
        )
    # The class is the Databricks extension's, which alone knows how to read its document.
    workspace: Any = get_port_type_for_id(_DATABRICKS_WORKSPACE).spec_class
    return workspace.deserialize(document["databricks_workspace_spec"])


def _deepseek(document: dict[str, Any]) -> ChatModelSettings:
    login, model = document["auth"], str(document["model"])
    return _settings(document, login["base_url"], model, login["credentials"], token_limit_field=_OLDER_LIMIT)


def _gemini(document: dict[str, Any]) -> ChatModelSettings:
    """At Google AI Studio with a key, or at Vertex AI.

    https://docs.cloud.google.com/vertex-ai/generative-ai/docs/start/openai
    """
    place, model, credential = document["connection_spec_data"], str(document["model_name"]), None
    if document["connection_type"] == "google_ai_studio":
        url, credential = _GEMINI_URL, place["credentials"]
    else:
        project, location = place["project_id"], place["location"]
        # The global endpoint is the only one without its region in front.
        host = "aiplatform" if location == "global" else f"{location}-aiplatform"
        base = str(place["custom_base_api_url"] or f"https://{host}.googleapis.com").rstrip("/")
        url = f"{base}/v1/projects/{project}/locations/{location}/endpoints/openapi"
        model = f"google/{model}"
    common = {**document, "max_tokens": document["max_output_tokens"]}
    return _settings(common, url, model, credential, token_limit_field=_OLDER_LIMIT)


def _tgi(document: dict[str, Any]) -> ChatModelSettings:
    login = cast("dict[str, Any]", document.get("hf_hub_auth") or {})
    # Its dialog takes the address of the server, and people paste that of the endpoint.
    url = f"{str(document['inference_server_url']).rstrip('/').removesuffix('/v1')}/v1"
    common = {**document, "max_tokens": document["max_new_tokens"]}
    more = {"top_p": document["top_p"], "seed": document.get("seed", 0)}
    # Such a server has one model, and takes any name.
    return _settings(common, url, "tgi", login.get("credentials"), token_limit_field=_OLDER_LIMIT, more=more)


def _hugging_face(document: dict[str, Any]) -> ChatModelSettings:
    """In its older and its newer form."""
    chosen, provider, model = document["model_kwargs"], document.get("provider"), str(document["repo_id"])
    top_p = chosen.get("top_p")
    return _settings(
        {"temperature": chosen.get("temperature"), "max_tokens": chosen.get("max_tokens")},
        _HUGGING_FACE_URL,
        # The router takes the provider as an ending of the model's name.
        f"{model}:{provider}" if provider else model,
        document["credentials"],
        token_limit=chosen.get("max_tokens") or chosen.get("max_new_tokens"),
        token_limit_field=_OLDER_LIMIT,
        more=None if top_p is None else {"top_p": top_p},
    )


def _refused(kind: str, instead: str) -> Callable[[dict[str, Any]], ChatModelSettings]:
    def refuse(_: dict[str, Any]) -> ChatModelSettings:
        raise SettingInvalid(
            f"A chat model of KNIME's AI extension of {kind} cannot be used here",
            setting="model",
            fix=f"Use the node '{_OUR_NODE}' with {instead}",
        )

    return refuse


_Reading: TypeAlias = "tuple[str, Callable[[dict[str, Any]], ChatModelSettings], Callable[[Any], Any]]"


def _not_here(kind: str, instead: str) -> _Reading:
    return kind, _refused(kind, instead), _login


#: Where the AI extension has a kind of model, what it is called, how its document and its login are read.
_FOREIGN: Final[dict[str, _Reading]] = {
    "openai.OpenAIChatModelPortObject": ("OpenAI", _openai, _login),
    "azure.AzureOpenAIChatModelPortObject": ("Azure OpenAI", _azure, _login),
    "knime._chat.KnimeHubChatModelPortObject": (
        "KNIME Hub",
        _hub,
        lambda document: _login(document, "auth"),
    ),
    "anthropic_api._chat.AnthropicChatModelPortObject": ("Anthropic", _anthropic, _login),
    "databricks._chat.DatabricksChatModelPortObject": ("Databricks", _databricks, _databricks_workspace),
    "deepseek._chat.DeepSeekChatModelPortObject": ("DeepSeek", _deepseek, _login),
    "google._port_types.GeminiChatModelPortObject": (
        "Gemini",
        _gemini,
        lambda document: _login(document["connection_spec_data"], "google_credentials_spec"),
    ),
    "huggingface.HFTGIChatModelPortObject": ("Hugging Face TGI", _tgi, _login),
    "huggingface.HFHubChatModelPortObject": ("Hugging Face Hub", _hugging_face, _login),
    "huggingface.hf_hub.HFHubChatModel2PortObject": ("Hugging Face Hub (newer)", _hugging_face, _login),
    "mistral._chat.MistralChatModelPortObject": _not_here(
        "Mistral AI", "the base URL https://api.mistral.ai/v1"
    ),
    "ibm._chat.IBMwatsonxChatModelPortObject": _not_here(
        "IBM watsonx.ai", "the base URL of a gateway that speaks OpenAI's chat completions"
    ),
    "gpt4all._chat.GPT4AllChatModelPortObject": _not_here(
        "GPT4All", "the base URL http://localhost:4891/v1 of GPT4All's own server"
    ),
    "fake.TestChatModelPortObject": _not_here("tests", "the provider's base URL"),
    "base.ChatModelPortObject": _not_here("this kind", "the provider's base URL"),
}


def _port_type(id: str, kind: str, read: Any, login: Any) -> Any:  # noqa: A002
    # KNIME requires a separate object and spec class for each.
    fields = {"read": staticmethod(read), "login": staticmethod(login)}
    spec_class = type("ForeignSpec", (ForeignChatModelSpec,), fields)
    object_class = type("ForeignObject", (ChatModelPortObject,), {})
    return knext.port_type(f"{kind} chat model of KNIME's AI extension", object_class, spec_class, id=id)


PORT_TYPES: Final = {
    (id_ := f"{_EXTENSION}.{place}"): _port_type(id_, *reading) for place, reading in _FOREIGN.items()
}
"""The port types by id."""
