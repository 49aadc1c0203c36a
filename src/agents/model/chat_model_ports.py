"""The ports through which a chat model reaches the agent: settings only, never a secret.

A port object describes the model. The receiving node makes the model with its own access to the workflow's
credentials. Beside our own port type there are those of KNIME's AI extension: those whose services have an
endpoint in OpenAI's form fit, all others are refused with what to use instead.
"""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, cast
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
_EXTENSION: Final = "org.knime.python.llm"
_OPENAI_URL: Final = "https://api.openai.com/v1"
_OLDER_LIMIT: Final = "max_tokens"
_GEMINI_URL: Final = "https://generativelanguage.googleapis.com/v1beta/openai"
_HUGGING_FACE_URL: Final = "https://router.huggingface.co/v1"
_DATABRICKS_WORKSPACE: Final = "org.knime.bigdata.databricks.workspace.port.DatabricksWorkspacePortObject"
_REASONING_MODELS: Final = re.compile(r"o\d|gpt-5")
_OUR_NODE: Final = "OpenAI-Compatible Chat Model Connector"
_REFUSED: Final = {
    "models.mistral._chat.MistralChatModelPortObject": (
        "Mistral AI",
        "the base URL https://api.mistral.ai/v1",
    ),
    "models.ibm._chat.IBMwatsonxChatModelPortObject": (
        "IBM watsonx.ai",
        "the base URL of a gateway that speaks OpenAI's chat completions",
    ),
    "models.gpt4all._chat.GPT4AllChatModelPortObject": (
        "GPT4All",
        "the base URL http://localhost:4891/v1 of GPT4All's own server",
    ),
    "models.fake.TestChatModelPortObject": ("tests", "the provider's base URL"),
    "models.base.ChatModelPortObject": ("this kind", "the provider's base URL"),
}


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


class ForeignChatModelSpec(ChatModelPortObjectSpec, ABC):
    """Settings of a model in the AI extension's form; `document` is what it saved.

    KNIME passes the settings of another extension's port to the extension that registered the same port id.
    The ids and the form of the documents are private to the AI extension
    (github.com/knime/knime-python-llm, `src/models`) and may change, so errors name the field that is
    missing or odd.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    @property
    def settings(self) -> ChatModelSettings:
        """The settings in our form; `SettingInvalid` if they have an unknown form, or cannot be used."""
        try:
            return self._read(self._document)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise SettingInvalid(
                f"The model of KNIME's AI extension has settings in an unknown form ({error!r})",
                setting="model",
                fix=f"Use the node '{_OUR_NODE}' instead",
            ) from None

    def authorization(self) -> Authorization | None:
        login = self._login(self._document)
        return None if login is None else PortAuthorization(login)

    def headers(self) -> dict[str, str]:
        headers = cast("dict[str, Any]", self._document.get("custom_headers") or {})
        return {name: str(value) for name, value in headers.items()}

    @abstractmethod
    def _read(self, document: dict[str, Any]) -> ChatModelSettings: ...

    def _login(self, document: dict[str, Any]) -> Any:
        login = document.get("credential_spec")
        return None if login is None else knext.CredentialPortObjectSpec.deserialize(login)

    def serialize(self) -> dict[str, Any]:
        return self._document

    @classmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> ForeignChatModelSpec:  # noqa: ARG003
        """Keeps the document unread: `settings` reads it later, where an error can be shown."""
        return cls(data)


class OpenAIChatModelSpec(ForeignChatModelSpec):
    """Of the AI extension's *OpenAI LLM Selector*."""

    def _read(self, document: dict[str, Any]) -> ChatModelSettings:
        # One of the two: a login that came through a port, or the name of a credential of the workflow.
        by_name = document["credentials"] if document.get("credential_spec") is None else None
        model = str(document["model"])
        return ChatModelSettings(
            route=model_route(document.get("base_url") or _OPENAI_URL, credential=by_name),
            model=model,
            # These refuse every temperature but their own, and the AI extension leaves it out, too.
            temperature=None if _REASONING_MODELS.match(model) else document["temperature"],
            token_limit=document["max_tokens"] or None,
            more={"seed": document.get("seed", 0)},
        )


class AzureChatModelSpec(ForeignChatModelSpec):
    """Of the AI extension's *Azure OpenAI LLM Selector*."""

    def _read(self, document: dict[str, Any]) -> ChatModelSettings:
        by_name = document["credentials"] if document.get("credential_spec") is None else None
        base = str(document.get("base_url") or document["api_base"]).rstrip("/")
        model, reasons = str(document["model"]), bool(document.get("is_reasoning_model", False))
        url = f"{base}/openai/deployments/{model}?api-version={document['api_version']}"
        more = {"seed": document.get("seed", 0)}
        return ChatModelSettings(
            route=model_route(
                url,
                credential=by_name,
                # A key goes into a header of Azure's own; a login from a port is sent as Authorization.
                headers=(("api-key", "{credential.password}"),) if by_name else (),
            ),
            model=model,
            temperature=None if reasons else document["temperature"],
            token_limit=document["max_tokens"] or None,
            # Azure's models that reason refuse `max_tokens`, and `top_p` and a temperature, too.
            token_limit_field="max_completion_tokens" if reasons else "max_tokens",
            more=more if reasons else {**more, "top_p": document["top_p"]},
        )


class HubChatModelSpec(ForeignChatModelSpec):
    """Of the AI extension's *KNIME Hub LLM Selector*."""

    def _read(self, document: dict[str, Any]) -> ChatModelSettings:
        hub = urlsplit(str(document["auth"].get("hub_url") or ""))
        if not hub.netloc:
            raise SettingInvalid(
                "The connection to the KNIME Hub is not available",
                setting="model",
                fix="Execute the nodes before again, and check that you are still logged in at the Hub",
            )
        return ChatModelSettings(
            route=model_route(f"{hub.scheme}://{hub.netloc}/ai-gateway/v1"),
            model=str(document["model_name"]),
            temperature=document["temperature"],
            token_limit=document["max_tokens"] or None,
        )

    def _login(self, document: dict[str, Any]) -> Any:
        return knext.CredentialPortObjectSpec.deserialize(document["auth"])


class AnthropicChatModelSpec(ForeignChatModelSpec):
    """Of the AI extension's *Anthropic LLM Selector*."""

    def _read(self, document: dict[str, Any]) -> ChatModelSettings:
        model = f"anthropic:{document['model']}"
        login = document["auth"]
        return ChatModelSettings(
            route=model_route(login["base_url"], model=model, credential=login["credentials"]),
            model=model,
            temperature=document["temperature"],
            token_limit=document["max_tokens"] or None,
        )


class DatabricksChatModelSpec(ForeignChatModelSpec):
    """Of the AI extension's *Databricks LLM Selector*: a workspace serves its models in OpenAI's form."""

    def _read(self, document: dict[str, Any]) -> ChatModelSettings:
        workspace = str(self._login(document).workspace_url)
        return ChatModelSettings(
            route=model_route(urljoin(workspace, "serving-endpoints")),
            model=str(document["endpoint"]),
            temperature=document["temperature"],
            token_limit=document["max_tokens"] or None,
            token_limit_field=_OLDER_LIMIT,
            more={"top_p": document["top_p"]},
        )

    def _login(self, document: dict[str, Any]) -> Any:
        if not has_port_type_for_id(_DATABRICKS_WORKSPACE):
            raise SettingInvalid(
                "A chat model at Databricks cannot be used here without KNIME's Databricks Integration",
                setting="model",
                fix="Install that extension",
            )
        # The class is the Databricks extension's, which alone knows how to read its document.
        workspace: Any = get_port_type_for_id(_DATABRICKS_WORKSPACE).spec_class
        return workspace.deserialize(document["databricks_workspace_spec"])


class DeepSeekChatModelSpec(ForeignChatModelSpec):
    """Of the AI extension's *DeepSeek LLM Selector*."""

    def _read(self, document: dict[str, Any]) -> ChatModelSettings:
        return _at_service(document, document["auth"]["base_url"])


class GeminiChatModelSpec(ForeignChatModelSpec):
    """Of the AI extension's *Gemini LLM Selector*, at Google AI Studio with a key, or at Vertex AI.

    https://docs.cloud.google.com/vertex-ai/generative-ai/docs/start/openai
    """

    def _read(self, document: dict[str, Any]) -> ChatModelSettings:
        place = document["connection_spec_data"]
        if document["connection_type"] == "google_ai_studio":
            route = model_route(_GEMINI_URL, credential=place["credentials"])
            model = str(document["model_name"])
        else:
            project, location = place["project_id"], place["location"]
            # The global endpoint is the only one without its region in front.
            host = "aiplatform" if location == "global" else f"{location}-aiplatform"
            base = str(place["custom_base_api_url"] or f"https://{host}.googleapis.com").rstrip("/")
            route = model_route(f"{base}/v1/projects/{project}/locations/{location}/endpoints/openapi")
            model = f"google/{document['model_name']}"
        return ChatModelSettings(
            route=route,
            model=model,
            temperature=document["temperature"],
            token_limit=document["max_output_tokens"] or None,
            token_limit_field=_OLDER_LIMIT,
        )

    def _login(self, document: dict[str, Any]) -> Any:
        login = document["connection_spec_data"].get("google_credentials_spec")
        return None if login is None else knext.CredentialPortObjectSpec.deserialize(login)


class TGIChatModelSpec(ForeignChatModelSpec):
    """Of the AI extension's *HF TGI LLM Selector*, at the server's endpoint in OpenAI's form."""

    def _read(self, document: dict[str, Any]) -> ChatModelSettings:
        login = cast("dict[str, Any]", document.get("hf_hub_auth") or {})
        # Its dialog takes the address of the server, and people paste that of the endpoint.
        url = str(document["inference_server_url"]).rstrip("/").removesuffix("/v1")
        return ChatModelSettings(
            route=model_route(f"{url}/v1", credential=login.get("credentials")),
            model="tgi",  # such a server has one model, and takes any name
            temperature=document["temperature"],
            token_limit=document["max_new_tokens"] or None,
            token_limit_field=_OLDER_LIMIT,
            more={"top_p": document["top_p"], "seed": document.get("seed", 0)},
        )


class HuggingFaceChatModelSpec(ForeignChatModelSpec):
    """Of the AI extension's *HF Hub LLM Selector*, in its older and its newer form."""

    def _read(self, document: dict[str, Any]) -> ChatModelSettings:
        chosen = document["model_kwargs"]
        provider = document.get("provider")
        top_p = chosen.get("top_p")
        return ChatModelSettings(
            route=model_route(_HUGGING_FACE_URL, credential=document["credentials"]),
            # The router takes the provider as an ending of the model's name.
            model=f"{document['repo_id']}:{provider}" if provider else str(document["repo_id"]),
            temperature=chosen.get("temperature"),
            token_limit=chosen.get("max_tokens") or chosen.get("max_new_tokens"),
            token_limit_field=_OLDER_LIMIT,
            more=None if top_p is None else {"top_p": top_p},
        )


def _at_service(document: dict[str, Any], url: str) -> ChatModelSettings:
    return ChatModelSettings(
        route=model_route(url, credential=document["auth"]["credentials"]),
        model=str(document["model"]),
        temperature=document["temperature"],
        token_limit=document["max_tokens"] or None,
        token_limit_field=_OLDER_LIMIT,
    )


def _refusal(kind: str, instead: str) -> Callable[[Any, dict[str, Any]], ChatModelSettings]:
    def refuse(_self: Any, _document: dict[str, Any]) -> ChatModelSettings:
        raise SettingInvalid(
            f"A chat model of KNIME's AI extension of {kind} cannot be used here",
            setting="model",
            fix=f"Use the node '{_OUR_NODE}' with {instead}",
        )

    return refuse


class _Refused(ForeignChatModelSpec):
    def check(self, ctx: Any) -> None:  # noqa: ARG002
        # Raises the refusal in `configure`, before anything is executed.
        _ = self.settings


def _register() -> dict[str, Any]:
    """Registers one port type per id. KNIME requires a separate object and spec class for each."""
    kinds: dict[str, tuple[str, type[ForeignChatModelSpec]]] = {
        "models.openai.OpenAIChatModelPortObject": ("OpenAI", OpenAIChatModelSpec),
        "models.azure.AzureOpenAIChatModelPortObject": ("Azure OpenAI", AzureChatModelSpec),
        "models.knime._chat.KnimeHubChatModelPortObject": ("KNIME Hub", HubChatModelSpec),
        "models.anthropic_api._chat.AnthropicChatModelPortObject": ("Anthropic", AnthropicChatModelSpec),
        "models.databricks._chat.DatabricksChatModelPortObject": ("Databricks", DatabricksChatModelSpec),
        "models.deepseek._chat.DeepSeekChatModelPortObject": ("DeepSeek", DeepSeekChatModelSpec),
        "models.google._port_types.GeminiChatModelPortObject": ("Gemini", GeminiChatModelSpec),
        "models.huggingface.HFTGIChatModelPortObject": ("Hugging Face TGI", TGIChatModelSpec),
        "models.huggingface.HFHubChatModelPortObject": ("Hugging Face Hub", HuggingFaceChatModelSpec),
        "models.huggingface.hf_hub.HFHubChatModel2PortObject": (
            "Hugging Face Hub (newer)",
            type("HuggingFaceChatModel2Spec", (HuggingFaceChatModelSpec,), {}),
        ),
    }
    for place, (kind, instead) in _REFUSED.items():
        refusing_class = type(f"_Refused{len(kinds)}", (_Refused,), {"_read": _refusal(kind, instead)})
        kinds[place] = (kind, refusing_class)
    types: dict[str, Any] = {}
    for place, (kind, spec_class) in kinds.items():
        object_class = type(f"{spec_class.__name__}Object", (ChatModelPortObject,), {})
        type_id = f"{_EXTENSION}.{place}"
        types[type_id] = knext.port_type(
            f"{kind} chat model of KNIME's AI extension", object_class, spec_class, id=type_id
        )
    return types


PORT_TYPES: Final = _register()
"""The port types by id."""
