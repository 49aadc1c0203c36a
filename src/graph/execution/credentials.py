"""The credentials of a document's servers, which must not be written into records, traces and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...audit.secrets import SecretMarker
from ...client.authorization import header_secrets, secrets_in
from ...types.routing import looks_secret
from ..server_config import StdioConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..server_config import ServerConfig


def marker_of_servers(servers: Mapping[str, ServerConfig]) -> SecretMarker:
    """Makes the marker that replaces the credentials in the settings of servers."""
    return SecretMarker(secret for config in servers.values() for secret in _secrets(config))


def _secrets(config: ServerConfig) -> Iterator[str]:
    if isinstance(config, StdioConfig):
        yield from config.env.values()
        yield from (argument for argument in config.args if looks_secret("", argument))
    else:
        yield from header_secrets(config.headers.values())
        yield from secrets_in({}, config.url)
