"""A server's description of itself, untrusted and for display only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .jsonrpc import as_object, as_text

TransportKind = Literal["http", "sse", "stdio"]
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A connected server.

    Attributes:
        name: The server's name; empty if missing.
        title: The server's name for people.
        version: The server's version; empty if missing.
        instructions: The server's instructions for its use.
        protocol_version: The negotiated revision.
        transport: The transport in use.
        capabilities: The declared capabilities.
        url: Origin and path, without query or secrets.
    """

    name: str
    title: str | None
    version: str
    instructions: str | None
    protocol_version: str
    transport: TransportKind
    capabilities: dict[str, Any] = field(default_factory=dict[str, Any])
    url: str = ""


def read_server_info(
    result: Mapping[str, Any], *, protocol_version: str, transport: TransportKind, url: str
) -> ServerInfo:
    """Reads the result of ``initialize`` or ``server/discover``.

    ``serverInfo`` is a member of the result in the handshake era and in drafts of 2026-07-28, and of its
    ``_meta`` since 2026-07-28. It may be absent or malformed.
    """
    meta = as_object(result.get("_meta"))
    info = as_object(meta.get(SERVER_INFO_KEY)) or as_object(result.get("serverInfo"))
    return ServerInfo(
        name=as_text(info.get("name")) or "",
        title=as_text(info.get("title")),
        version=as_text(info.get("version")) or "",
        instructions=as_text(result.get("instructions")),
        protocol_version=protocol_version,
        transport=transport,
        capabilities=as_object(result.get("capabilities")),
        url=url,
    )
