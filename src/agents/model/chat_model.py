"""A chat model at an endpoint: its settings, as they are saved.

The endpoint speaks OpenAI's chat completions, or, if the model's name begins with ``anthropic:``, Anthropic's
own protocol. LangChain's ``init_chat_model`` names models so, too.

The settings hold no secret: the credential is a name, and headers or query values that need a secret are
templates, by the same rules as the address of an MCP server (`knime_mcp.types.routing`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

from ...types.errors import SettingInvalid
from ...types.routing import ServerRoute
from ...types.texts import parse_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...client.authorization import Authorization
    from ...tools.node_settings.connection import Credential
    from .agent_model import AgentModel

TokenLimitField = Literal["max_completion_tokens", "max_tokens"]

DEFAULT_TIMEOUT: Final = 120.0
_OURS: Final = frozenset(
    {
        *("messages", "model", "tools", "tool_choice", "functions", "function_call", "response_format"),
        *("stream", "stream_options", "n"),
    }
)
_EXAMPLE: Final = "https://api.openai.com/v1"
_ANTHROPIC: Final = "anthropic:"
_ANTHROPIC_URL: Final = "https://api.anthropic.com/v1"
# There is no later one: https://docs.anthropic.com/en/api/versioning
_ANTHROPIC_VERSION: Final = "2023-06-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatModelSettings:
    """The settings of a chat model: endpoint, model and request options.

    Attributes:
        route: The base URL (the part before ``/chat/completions``), the credential's name, extra headers.
        model: The model's name, as the endpoint lists it, perhaps after ``anthropic:``; at Azure the name of
            the deployment.
        temperature: None leaves it to the endpoint; models that reason refuse it.
        token_limit: The most tokens of one answer, None to set no limit.
        token_limit_field: How the request names the limit: the newer ``max_completion_tokens`` or
            ``max_tokens``, which older servers know.
        timeout: Seconds that the endpoint may be silent.
        more: Further fields of every request, such as ``{"seed": 1}``; what the agent itself decides about
            (see `more_fields`) is not among them.

    Raises:
        SettingInvalid: A setting that cannot work.
    """

    route: ServerRoute
    model: str
    temperature: float | None = None
    token_limit: int | None = None
    token_limit_field: TokenLimitField = "max_completion_tokens"  # noqa: S105
    timeout: float = DEFAULT_TIMEOUT
    more: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.route.url.startswith("stdio:"):
            raise SettingInvalid(
                "The base URL of a model must start with http:// or https://",
                setting="base_url",
                fix=f"Enter it as the provider's documentation gives it, such as {_EXAMPLE}",
            )
        if not self.model.strip().removeprefix(_ANTHROPIC):
            raise SettingInvalid(
                "No model is chosen",
                setting="model",
                fix="Choose a model in the dialog, or enter its name",
            )
        if self.temperature is not None and not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise SettingInvalid(
                "The temperature must be 0 or more", setting="temperature", fix="0 to 1 is usual"
            )
        if self.token_limit is not None and self.token_limit < 1:
            raise SettingInvalid(
                "The token limit must be at least 1", setting="token_limit", fix="1000 and more is usual"
            )
        if self.token_limit_field not in get_args(TokenLimitField):
            raise SettingInvalid(
                f"'{self.token_limit_field}' is no field for a token limit",
                setting="token_limit_as",
                fix=f"Use one of {', '.join(get_args(TokenLimitField))}",
            )

    @property
    def base_url(self) -> str:
        """The base URL without its query, safe to show."""
        return self.route.url.partition("?")[0].rstrip("/")

    @property
    def is_anthropic(self) -> bool:
        """Whether the endpoint is spoken to in Anthropic's own protocol."""
        return is_anthropic(self.model)

    @property
    def listed_name(self) -> str:
        """The model's name as the endpoint lists it."""
        return self.model.strip().removeprefix(_ANTHROPIC)

    def to_json(self) -> dict[str, Any]:
        """The settings as a JSON document for the port, without secrets."""
        document: dict[str, Any] = {
            "route": self.route.uri,
            "model": self.model,
            "temperature": self.temperature,
            "token_limit": self.token_limit,
            "token_limit_field": self.token_limit_field,
            "timeout": self.timeout,
        }
        if self.more:
            document["more"] = dict(self.more)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote; `SettingInvalid` if the document has another form."""
        try:
            return cls(
                route=ServerRoute.parse(document["route"]),
                model=document["model"],
                temperature=document.get("temperature"),
                token_limit=document.get("token_limit"),
                token_limit_field=document.get("token_limit_field", "max_completion_tokens"),
                timeout=document.get("timeout", DEFAULT_TIMEOUT),
                more=document.get("more"),
            )
        except (KeyError, TypeError, AttributeError):
            raise SettingInvalid(
                "The chat model that arrives at the port cannot be read",
                setting="model",
                fix="Execute the node before again; both nodes must be of the same version of the extension",
            ) from None


def is_anthropic(model: str) -> bool:
    """Whether a model's name says that it is spoken to in Anthropic's own protocol."""
    return model.strip().startswith(_ANTHROPIC)


def more_fields(text: str, **fields: Any) -> dict[str, Any]:
    """Reads further fields of requests, a JSON object, beside ``fields`` that are not None.

    Raises `SettingInvalid` if it is none, or has a field that the agent fills in.
    """
    try:
        written = parse_object(text.strip())
    except ValueError as error:
        raise SettingInvalid(
            f"The further fields of requests cannot be read: {error}",
            setting="request_fields",
            fix='Write a JSON object, such as {"seed": 1}',
        ) from None
    # Overwritten, they would break the loop in ways that nobody could trace back to a setting.
    ours = sorted(_OURS & written.keys())
    if ours:
        raise SettingInvalid(
            f"The further fields of requests have '{ours[0]}', which is filled in already",
            setting="request_fields",
            fix="Leave it out",
        )
    return {**written, **{name: value for name, value in fields.items() if value is not None}}


def model_route(
    base_url: str | None,
    *,
    model: str = "",
    credential: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> ServerRoute:
    """Makes the route of a base URL, with or without ``/chat/completions``; Anthropic's may be left out.

    Raises `SettingInvalid` if the URL cannot be used, or holds a secret; the error's text says "base URL".
    """
    if is_anthropic(model):
        base_url = (base_url or "").strip() or _ANTHROPIC_URL
        # People paste the address in any of these forms.
        base_url = f"{base_url.rstrip('/').removesuffix('/messages').removesuffix('/v1')}/v1"
        key = () if credential is None else (("x-api-key", "{credential.password}"),)
        headers = (*key, ("anthropic-version", _ANTHROPIC_VERSION), *headers)
    url, mark, query = (base_url or "").strip().partition("?")
    url = url.rstrip("/").removesuffix("/chat/completions")
    try:
        return replace(ServerRoute(f"{url}{mark}{query}"), credential=credential, headers=headers)
    except SettingInvalid as error:
        raise SettingInvalid(
            error.what.replace("server URL", "base URL"),
            setting={"server_url": "base_url", "headers": "extra_headers"}.get(error.setting, error.setting),
            server=error.server,
            fix=(error.fix or "").replace("server's URL", "base URL").replace("https://host/mcp", _EXAMPLE),
        ) from None


def create_model(
    settings: ChatModelSettings,
    credential: Credential | None,
    *,
    authorization: Authorization | None = None,
    headers: Mapping[str, str] | None = None,
) -> AgentModel:
    """Makes the model. Imports what speaks its protocol; makes no connection.

    An `authorization` replaces the credential; further headers may hold secrets and are never shown. Raises
    `SettingInvalid` if the credential cannot be sent.
    """
    from .endpoint import Endpoint

    endpoint = Endpoint(settings.route, credential, authorization=authorization, headers=headers)
    if settings.is_anthropic:
        from .anthropic_model import AnthropicModel

        return AnthropicModel(settings, endpoint)
    from .openai_model import EndpointModel

    return EndpointModel(settings, endpoint)
