"""The settings of the gateway, read from the environment."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from knime_mcp.types.errors import SettingInvalid

from ..default_catalogue import user_catalogue
from .api_keys import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping


def _split(value: Any) -> Any:
    return (
        tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    )


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _beside_the_catalogue() -> Path:
    return user_catalogue().with_name("gateway-keys.sqlite")


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]


class GatewaySettings(BaseModel):
    """The gateway's settings. Each field is set by the environment variable of its name in capitals.

    `docs/gateway.md` has the table that is made of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    gateway_host: str = Field("127.0.0.1", description="Address that the public listener binds.")
    gateway_port: int = Field(8000, ge=0, le=65535, description="Its port; 0: any that is free.")
    gateway_internal_host: str = Field(
        "127.0.0.1", description="Address of the listener without keys; loopback only."
    )
    gateway_internal_port: int = Field(
        8001, ge=-1, le=65535, description="Its port; 0: any that is free, -1: no such listener."
    )
    gateway_keys_file: Path = Field(
        default_factory=_beside_the_catalogue, description="Where the keys are kept, hashed."
    )
    gateway_tls_certificate: Path | None = Field(
        None, description="PEM file with the certificate chain: speak HTTPS."
    )
    gateway_tls_key: Path | None = Field(None, description="PEM file with its private key.")
    gateway_behind_proxy: bool = Field(
        False, description="A proxy in front speaks HTTPS: no warning about plain HTTP beyond loopback."
    )
    gateway_cors_origins: Names = Field(
        (), description="Origins whose web pages may call, apart by commas; none: no page may."
    )
    gateway_public_url: str | None = Field(
        None, description="How clients reach it, such as `https://nodes.example`. Logins need it."
    )
    gateway_oauth_issuer: str | None = Field(
        None, description="Provider at which clients log in; its tokens (JWT) count beside keys."
    )
    gateway_oauth_audience: Names = Field(
        (), description="What its tokens are for, apart by commas; else `GATEWAY_PUBLIC_URL` with `/mcp`."
    )
    gateway_oauth_jwks_url: str | None = Field(
        None, description="Where its public keys are; else its metadata says so."
    )
    gateway_oauth_scopes: Names = Field(
        (), description="Its scopes or roles and what they allow: `nodes.read=tools:read`, apart by commas."
    )
    gateway_rate_limit: int = Field(
        600, ge=0, description="Requests per minute for each key that has no limit of its own; 0: any number."
    )
    gateway_max_body_bytes: int = Field(1_048_576, ge=1024, description="Largest body of a request.")
    gateway_request_timeout: float = Field(
        10.0, gt=0, description="Seconds that a client may take to send the body of a request."
    )
    gateway_tool_timeout: float = Field(30.0, gt=0, description="Seconds that a tool may take.")
    gateway_max_connections: int = Field(
        1000, ge=1, description="Connections at the same time on a listener; those beyond get 503."
    )
    gateway_cache_seconds: float = Field(
        300.0, ge=0, description="How long answers of services outside are kept; 0: not at all."
    )
    mcp_enabled: bool = Field(True, description="Whether the tools are offered; false: only health is.")
    mcp_max_results_per_tool: int = Field(
        100, ge=1, description="Most results, and most entries of a list in arguments, per call."
    )
    node_knowledge_supabase_url: str | None = Field(
        None, description="Supabase project whose `match_node_knowledge` answers `node_knowledge_retriever`."
    )
    node_knowledge_supabase_key: SecretStr | None = Field(None, description="Its key.")
    node_knowledge_default_threshold: float = Field(
        0.3, ge=0, le=1, description="Smallest similarity of what `node_knowledge_retriever` finds."
    )
    node_knowledge_embeddings_url: str | None = Field(
        None,
        description="OpenAI-compatible service for `query_embedding`, such as `https://api.openai.com/v1`;"
        " without it the function gets `query_text`.",
    )
    node_knowledge_embeddings_key: SecretStr | None = Field(None, description="Its key.")
    node_knowledge_embeddings_model: str = Field("text-embedding-ada-002", description="Its model.")
    supabase_url: str | None = Field(None, description="Used where `NODE_KNOWLEDGE_SUPABASE_URL` is not set.")
    supabase_secret_key: SecretStr | None = Field(
        None, description="Used where `NODE_KNOWLEDGE_SUPABASE_KEY` is not set."
    )
    supabase_anon_key: SecretStr | None = Field(
        None, description="Used where `SUPABASE_SECRET_KEY` is not set either."
    )
    elasticsearch_host: str = Field(
        "localhost", description="Elasticsearch, as a host or a URL. Asked only with `ELASTICSEARCH_INDICES`."
    )
    elasticsearch_port: int = Field(9200, ge=1, le=65535, description="Its port.")
    elasticsearch_indices: Names = Field(
        (), description="Indices that may be searched, apart by commas; none: there is no such tool."
    )
    elasticsearch_api_key: SecretStr | None = Field(None, description="API key for it.")
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)] = Field(
        "INFO", description="What is logged: DEBUG, INFO, WARNING or ERROR."
    )
    log_format: Literal["json", "text"] = Field("json", description="`json`, one object per line, or `text`.")
    debug: bool = Field(False, description="Log at DEBUG, and show the interactive documentation at `/docs`.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not is_loopback(self.gateway_internal_host):
            raise ValueError(
                "GATEWAY_INTERNAL_HOST: the listener without keys binds loopback addresses only,"
                " such as 127.0.0.1"
            )
        if (self.gateway_tls_certificate is None) != (self.gateway_tls_key is None):
            raise ValueError("GATEWAY_TLS_CERTIFICATE and GATEWAY_TLS_KEY: one needs the other")
        if self.gateway_oauth_issuer and not self.gateway_public_url:
            raise ValueError("GATEWAY_PUBLIC_URL: clients that log in have to know the gateway's own URL")
        for name in ("gateway_public_url", "gateway_oauth_issuer", "gateway_oauth_jwks_url"):
            url: str | None = getattr(self, name)
            if url and not is_trusted(url):
                raise ValueError(f"{name.upper()}: an https URL, or one of this machine")
        for pair in self.gateway_oauth_scopes:
            if pair.partition("=")[2] not in frozenset(Scope):
                raise ValueError(f"GATEWAY_OAUTH_SCOPES: pairs such as nodes.read={Scope.TOOLS_READ.value}")
        if self.node_knowledge_supabase_url and self.supabase() is None:
            raise ValueError("NODE_KNOWLEDGE_SUPABASE_URL is set, but NODE_KNOWLEDGE_SUPABASE_KEY is not")
        if "*" in self.gateway_cors_origins:
            raise ValueError("GATEWAY_CORS_ORIGINS: name the origins; '*' would let every web page in")
        # Patterns, lists, `-name` and `_all` would reach other indices than those that were named.
        if any(
            set(name) & set("*,/ ") or name.startswith(("_", "-", ".")) for name in self.elasticsearch_indices
        ):
            raise ValueError("ELASTICSEARCH_INDICES: names of indices, without patterns")
        return self

    def supabase(self) -> tuple[str, SecretStr] | None:
        url = self.node_knowledge_supabase_url or self.supabase_url
        key = self.node_knowledge_supabase_key or self.supabase_secret_key or self.supabase_anon_key
        return (url.rstrip("/"), key) if url and key else None

    @property
    def resource(self) -> str:
        """The URL of the MCP server, as clients know it, and as tokens name it."""
        return f"{(self.gateway_public_url or '').rstrip('/')}/mcp"

    @property
    def cors_origins(self) -> list[str]:
        return [origin.rstrip("/") for origin in self.gateway_cors_origins]

    @property
    def needs_tls_warning(self) -> bool:
        """True if keys travel unencrypted to other machines."""
        plain = self.gateway_tls_certificate is None and not self.gateway_behind_proxy
        return plain and not is_loopback(self.gateway_host)


def read_settings(environment: Mapping[str, str] | None = None, **given: Any) -> GatewaySettings:
    """Reads the settings. `given` fields override the environment, unless they are None.

    Raises `SettingInvalid` with the name of a setting that is not valid, but not with its value.
    """
    values: dict[str, Any] = {}
    for name, value in (os.environ if environment is None else environment).items():
        field = name.lower()
        # An empty variable counts as unset: Dockerfiles and unit files cannot unset variables otherwise.
        if name == name.upper() and field in GatewaySettings.model_fields and value != "":
            values[field] = value
    values |= {name: value for name, value in given.items() if value is not None}
    try:
        return GatewaySettings.model_validate(values)
    except ValidationError as error:
        # Without the input, which may be a key.
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        name = ".".join(map(str, first["loc"])).upper()
        text = first["msg"].removeprefix("Value error, ")
        raise SettingInvalid(
            f"{name}: {text}" if name else text, setting=name, fix="docs/gateway.md has all settings."
        ) from None


def is_trusted(url: str) -> bool:
    """Returns whether what a URL names cannot be changed on its way."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
