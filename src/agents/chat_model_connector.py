"""The node *OpenAI-Compatible Chat Model Connector*: chooses the model of an agent.

The dialog asks the endpoint for its models. KNIME does not tell the function that lists them which node's
dialog is opened. So the settings are noted when KNIME loads them into the node, which it does right before,
in the same thread.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import knime.extension as knext

from ..tools.node_settings import shared_parameters
from ..tools.node_settings.connection import (
    as_setting_error,
    chosen,
    find_credential,
    header_lines,
    sent_in_clear,
)
from ..tools.node_settings.shared_parameters import labelled
from ..types.errors import MCPError
from .model.chat_model import (
    DEFAULT_TIMEOUT,
    ChatModelSettings,
    is_anthropic,
    model_route,
    more_fields,
)
from .model.chat_model_ports import ChatModelPortObject, ChatModelPortObjectSpec, chat_model_port_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..types.routing import ServerRoute
    from .model.chat_model import TokenLimitField

_AS_ENTERED: Final = "<as entered>"
_DIALOG_SECONDS: Final = 1.8
_CHECK_SECONDS: Final = 15.0
_LONGEST: Final = 24 * 3600.0
_SHOWN_MODELS: Final = 10
_loaded = threading.local()


class _TokenLimit(knext.EnumParameterOptions):
    none = ("Do not limit", "The endpoint decides.")
    max_completion_tokens = ("max_completion_tokens", "OpenAI's newer name, which its models require.")
    max_tokens = ("max_tokens", "The older name, which many compatible servers know alone.")


class _Effort(knext.EnumParameterOptions):
    unset = ("As the model has it", "The endpoint decides.")
    none = ("None", "No reasoning, for models that can do without.")
    minimal = ("Minimal", "As little as possible.")
    low = ("Low", "Fast and cheap.")
    medium = ("Medium", "Between low and high.")
    high = ("High", "Slow and thorough.")


def _model_choices(context: Any) -> list[Any]:
    """Lists the endpoint's models. Never raises and takes at most two seconds, as the dialog waits for it."""
    settings = cast("Mapping[str, Any]", getattr(_loaded, "settings", {}))
    current = str(settings.get("model") or _AS_ENTERED)
    try:
        names, reason = _listed_models(settings, context)
    except MCPError as error:
        names, reason = (), str(error)
    except Exception as error:
        names, reason = (), f"The endpoint could not be asked ({type(error).__name__})."
    # With the chosen one even if the endpoint does not list it now, as KNIME would show it as missing.
    others = sorted({*names, current} - {_AS_ENTERED})
    first = (_AS_ENTERED, "As entered below", reason or "Enter the model's name below.")
    return labelled([first, *((name, name, "") for name in others)])


def _listed_models(settings: Mapping[str, Any], context: Any) -> tuple[tuple[str, ...], str]:
    model = _chosen_model(settings)
    if not is_anthropic(model) and not str(settings.get("base_url") or "").strip():
        return (
            (),
            "Enter the base URL, apply, and open the dialog again to choose from the endpoint's models.",
        )
    from .model.endpoint import Endpoint, list_models

    route = _route(settings)
    endpoint = Endpoint(route, find_credential(context, route.credential))
    names = list_models(endpoint, seconds=_DIALOG_SECONDS)
    if names is None:
        return (), "The endpoint does not list its models. Enter the model's name below."
    return tuple(f"anthropic:{name}" for name in names) if is_anthropic(model) else names, ""


def _chosen_model(settings: Mapping[str, Any]) -> str:
    chosen_one = str(settings.get("model") or _AS_ENTERED)
    return (str(settings.get("model_name") or "") if chosen_one == _AS_ENTERED else chosen_one).strip()


def _route(settings: Mapping[str, Any]) -> ServerRoute:
    return model_route(
        str(settings.get("base_url") or ""),
        model=_chosen_model(settings),
        credential=chosen(str(settings.get("credentials") or "")),
        headers=header_lines(str(settings.get("extra_headers") or "")),
    )


@knext.node(
    name="OpenAI-Compatible Chat Model Connector",
    node_type=knext.NodeType.SOURCE,
    icon_path="icons/chat_model.png",
    category="/community/mcp",
    id="openai_compatible_chat_model",
    after="mcp_tool_caller",
    keywords=["LLM", "chat model", "OpenAI", "GPT", "Azure", "Ollama", "vLLM", "agent", "AI"],
)
@knext.output_port(
    "Chat model",
    "The model, for *MCP Agent Prompter*. It holds addresses and settings; the key stays in the credential.",
    chat_model_port_type,
)
class OpenAICompatibleChatModelConnector:
    """Connects a chat model for agents.

    Works with OpenAI and with every service or local server that speaks its chat-completions protocol, such
    as Azure OpenAI, Mistral, Gemini, OpenRouter, Ollama, vLLM and LM Studio.

    **How to use it**

    - Enter the *Base URL* from the provider's documentation, such as `https://api.openai.com/v1`, or
      `http://localhost:11434/v1` for Ollama on this computer.
    - If it wants an API key, add a *Credentials Configuration* node, enter the key as password, connect its
      flow variable port to this node and choose the credential. Local servers usually want none.
    - Apply, open the dialog again and choose the *Model*; or enter its name.

    **For agents**, the model has to be able to call tools. The provider's documentation says whether it can.

    **Azure OpenAI:** the base URL is `https://(resource).openai.azure.com/openai/v1`, the model is the name
    of your deployment.

    **Anthropic's models** are spoken to in their own protocol: leave the base URL empty, and enter the name
    after `anthropic:`, such as `anthropic:claude-sonnet-5`.
    """

    base_url = knext.StringParameter(
        "Base URL",
        "Address of the API, as the provider's documentation gives it, often ending in `/v1`. Put no key into"
        " it. After changing it, apply and open the dialog again to see the models that are there.",
        default_value="",
    )
    credentials = shared_parameters.credentials()
    extra_headers = shared_parameters.extra_headers()
    check_connection = knext.BoolParameter(
        "Check the connection when executed",
        "Asks the endpoint for its models when the node is executed, to find a wrong address or key here"
        " instead of in the agent. Costs no tokens.",
        default_value=True,
        is_advanced=True,
    )
    model = knext.StringParameter(
        "Model",
        "Which model to use, from the list that the endpoint gives. If it gives none, enter the name below.",
        default_value=_AS_ENTERED,
        choices=_model_choices,
    )
    model_name = knext.StringParameter(
        "Model name",
        "Name of the model, as the provider writes it; at Azure the name of the deployment; of Anthropic's"
        " models after `anthropic:`. Counts if *Model* is *As entered below*.",
        default_value="",
    )
    set_temperature = knext.BoolParameter(
        "Set the temperature",
        "Otherwise the endpoint decides. Models that reason before they answer refuse a temperature.",
        default_value=False,
        is_advanced=True,
    )
    temperature = knext.DoubleParameter(
        "Temperature",
        "How much chance there is in the answers; 0 is the least.",
        default_value=0.2,
        min_value=0.0,
        max_value=2.0,
        is_advanced=True,
    )
    token_limit_as = knext.EnumParameter(
        "Limit the answer's tokens as",
        "By which name the request limits the length of one answer.",
        default_value=_TokenLimit.none.name,
        enum=_TokenLimit,
        is_advanced=True,
    )
    token_limit = knext.IntParameter(
        "Token limit",
        "The most tokens of one answer; what a model thinks before it answers counts, too.",
        default_value=4096,
        min_value=1,
        is_advanced=True,
    )
    top_p = knext.DoubleParameter(
        "Top-p",
        "Only the most likely words are chosen from, which have this probability together. 1 leaves it to the"
        " endpoint.",
        default_value=1.0,
        min_value=0.0,
        max_value=1.0,
        is_advanced=True,
    )
    reasoning_effort = knext.EnumParameter(
        "Reasoning effort",
        "How much a model that reasons thinks before it answers. Other models refuse it.",
        default_value=_Effort.unset.name,
        enum=_Effort,
        is_advanced=True,
    )
    request_fields = knext.MultilineStringParameter(
        "Further request fields",
        'What else is to be in each request, as JSON, such as `{"seed": 1}`. Put no secrets here.',
        default_value="",
        number_of_lines=3,
        is_advanced=True,
    )
    timeout = knext.DoubleParameter(
        "Timeout (s)",
        "How long the endpoint may be silent before the request is given up. Large models need minutes.",
        default_value=DEFAULT_TIMEOUT,
        min_value=1.0,
        max_value=_LONGEST,
        is_advanced=True,
    )

    shared_parameters.headings(Connection=[base_url], Model=[model], Advanced=[timeout])
    model_name.rule(knext.OneOf(model, [_AS_ENTERED]), knext.Effect.SHOW)
    temperature.rule(knext.OneOf(set_temperature, [True]), knext.Effect.SHOW)
    token_limit.rule(knext.OneOf(token_limit_as, [_TokenLimit.none.name]), knext.Effect.HIDE)

    def _modify_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """KNIME's hook for loaded settings: changes none, notes them for `_model_choices`."""
        _loaded.settings = dict(parameters)
        return parameters

    def configure(self, ctx: Any) -> ChatModelPortObjectSpec:
        """Checks the settings; makes no connection."""
        try:
            spec = ChatModelPortObjectSpec(self._settings())
            spec.check(ctx)
        except MCPError as error:
            raise as_setting_error(error) from None
        if warning := _clear_text_warning(spec):
            ctx.set_warning(warning)
        return spec

    def execute(self, ctx: Any) -> ChatModelPortObject:
        """Checks the connection if the setting says so, and returns the model."""
        spec = ChatModelPortObjectSpec(self._settings())
        credential = spec.credential(ctx)
        warnings = [_clear_text_warning(spec)]
        if self.check_connection:
            from .model.endpoint import Endpoint, list_models

            ctx.set_progress(0.1, f"Asking {spec.settings.base_url} for its models")
            endpoint = Endpoint(spec.settings.route, credential)
            seconds = min(_CHECK_SECONDS, spec.settings.timeout)
            names = list_models(endpoint, seconds=seconds, is_canceled=ctx.is_canceled)
            name = spec.settings.listed_name
            # A warning only: services take names that they do not list, such as aliases and deployments.
            if names and name not in names:
                warnings.append(_unlisted_warning(name, names))
        if any(warnings):
            ctx.set_warning("\n".join(filter(None, warnings)))
        return ChatModelPortObject(spec)

    def _settings(self) -> ChatModelSettings:
        model = _chosen_model({"model": self.model, "model_name": self.model_name})
        route = _route(
            {
                "base_url": self.base_url,
                "model": model,
                "credentials": self.credentials,
                "extra_headers": self.extra_headers,
            }
        )
        settings = ChatModelSettings(
            route=route,
            model=model,
            temperature=self.temperature if self.set_temperature else None,
            timeout=self.timeout,
            more=more_fields(
                self.request_fields,
                # Left out, as models that reason refuse the field itself.
                top_p=None if self.top_p == 1.0 else self.top_p,
                reasoning_effort=None
                if self.reasoning_effort == _Effort.unset.name
                else self.reasoning_effort,
            ),
        )
        if self.token_limit_as != _TokenLimit.none.name:
            field = cast("TokenLimitField", self.token_limit_as)
            settings = replace(settings, token_limit=self.token_limit, token_limit_field=field)
        return settings


def _clear_text_warning(spec: ChatModelPortObjectSpec) -> str:
    route = spec.settings.route
    if route.credential is None or not sent_in_clear(route.url):
        return ""
    return "The credential is sent over http, where others can read it. Use the https address."


def _unlisted_warning(model: str, names: tuple[str, ...]) -> str:
    import difflib

    similar = difflib.get_close_matches(model, names, n=3) or list(names[:_SHOWN_MODELS])
    more = "" if len(similar) == len(names) else ", …"
    return f"The endpoint does not list the model '{model}'. It lists {', '.join(similar)}{more}."
