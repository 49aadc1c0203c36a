"""Finds the authorization server of an MCP server by fetching and checking the two metadata documents.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-server-discovery
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

from ...types.errors import AuthError, ProtocolError, origin_and_path
from ..protocol.json_text import decode
from ..protocol.versions import ALL_VERSIONS
from .guard import Guard
from .metadata import (
    ResourceMetadata,
    ServerMetadata,
    assumed_metadata,
    canonical_resource,
    check_resource,
    is_same_issuer,
    read_resource_metadata,
    read_server_metadata,
    resource_metadata_urls,
    server_metadata_urls,
)

_logger = logging.getLogger(__name__)
_HEADERS: Final = {"Accept": "application/json", "MCP-Protocol-Version": ALL_VERSIONS[-1]}


@dataclass(frozen=True, slots=True)
class Discovered:
    """The authorization server of an MCP server.

    Attributes:
        resource: The resource identifier for token requests.
        resource_scopes: Scopes that the MCP server lists, None if it has no list.
        server: The authorization server.
    """

    resource: str
    resource_scopes: tuple[str, ...] | None
    server: ServerMetadata


def discover(
    server_url: str,
    guard: Guard,
    *,
    metadata_url: str | None = None,
    issuer: str | None = None,
) -> Discovered:
    """Finds the authorization server of an MCP server.

    Args:
        server_url: The MCP server.
        guard: Fetches the documents.
        metadata_url: The URL of the protected resource metadata in the server's challenge.
        issuer: The only authorization server to accept; None for the first in the metadata.

    Raises:
        AuthError: The metadata cannot be fetched, or is not valid.
        ConnectError: The guard refuses a URL, or there is no connection.
        TimedOut: A clock ran out.
        Canceled: `Guard.is_canceled` returned True.
    """
    metadata = _resource_metadata(server_url, guard, metadata_url)
    if metadata is None:
        server = _legacy_server(server_url, guard)
        _require(server.issuer, (server.issuer,), issuer)
        return Discovered(canonical_resource(server_url), None, server)
    check_resource(metadata, server_url)
    chosen = _require(metadata.authorization_servers[0], metadata.authorization_servers, issuer)
    server = _server_metadata(chosen, guard)
    return Discovered(metadata.resource, metadata.scopes_supported, server)


def _require(first: str, named: tuple[str, ...], wanted: str | None) -> str:
    """Chooses the issuer: the wanted one, which the metadata must name, else the first.

    Credentials belong to one issuer, and an MCP server must not be able to redirect them to another.
    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-server-binding
    """
    if wanted is None:
        return first
    if any(is_same_issuer(issuer, wanted) for issuer in named):
        return wanted
    raise AuthError(
        f"The server names {origin_and_path(first)[:200]} as its authorization server, the credentials "
        f"belong to {origin_and_path(wanted)}",
        status=401,
        fix="If the server has moved, register a client at the new one and change the issuer",
    )


def _resource_metadata(server_url: str, guard: Guard, metadata_url: str | None) -> ResourceMetadata | None:
    """The first readable metadata document; None if there is none, as before revision 2025-06-18."""
    trouble: str | None = None
    places = ([metadata_url] if metadata_url else []) + resource_metadata_urls(server_url)
    for url in dict.fromkeys(places):
        status, document = _get(url, guard)
        try:
            if status == 200:
                return read_resource_metadata(document)
        except ValueError as error:
            trouble = trouble or f"{origin_and_path(url)} cannot be read: {error}"
        if status == 429 or status >= 500:
            trouble = f"{origin_and_path(url)} answers {status}"
    if trouble is not None or metadata_url is not None:
        # The fallback for old servers would ask the wrong authorization server for a login.
        raise _unavailable("The server's protected resource metadata", trouble or "no document where it says")
    return None


def _server_metadata(issuer: str, guard: Guard) -> ServerMetadata:
    trouble = "no document in any of its places"
    for url in server_metadata_urls(issuer):
        status, document = _get(url, guard)
        if status == 429 or status >= 500:
            trouble = f"{origin_and_path(url)} answers {status}"
            break
        if status == 200:
            try:
                return _checked(read_server_metadata(document, issuer=issuer), guard)
            except ValueError as error:
                trouble = f"{origin_and_path(url)} cannot be read: {error}"
    raise _unavailable(f"The metadata of authorization server {origin_and_path(issuer)[:200]}", trouble)


def _legacy_server(server_url: str, guard: Guard) -> ServerMetadata:
    """Revision 2025-03-26: the MCP server's origin is the authorization server, with or without metadata."""
    assumed = assumed_metadata(server_url)
    url = server_metadata_urls(assumed.issuer)[0]
    status, document = _get(url, guard)
    if status == 429 or status >= 500:
        raise _unavailable(
            "The server's authorization server metadata", f"{origin_and_path(url)} answers {status}"
        )
    if status == 200:
        try:
            return _checked(read_server_metadata(document, issuer=assumed.issuer), guard)
        except ValueError as error:
            raise _unavailable("The server's authorization server metadata", str(error)) from None
    return _checked(assumed, guard)


def _checked(server: ServerMetadata, guard: Guard) -> ServerMetadata:
    """Checks all endpoints with the guard, before any request is sent to them."""
    for url in (server.authorization_endpoint, server.token_endpoint, server.registration_endpoint):
        if url is not None:
            guard.check(url)
    return server


def _get(url: str, guard: Guard) -> tuple[int, Any]:
    """Fetches a document: status and parsed body. A 2xx that is not JSON counts as no document."""
    reply = guard.fetch("GET", url, headers=_HEADERS, confidential=False)
    _logger.debug("GET %s: %d, %d bytes", origin_and_path(url), reply.status, len(reply.body))
    if reply.status != 200:
        return reply.status, None
    try:
        return 200, decode(reply.body)
    except ProtocolError:
        return 200, None


def _unavailable(what: str, why: str) -> AuthError:
    return AuthError(
        f"{what} cannot be had: {why}", status=401, fix="Try again later, or ask whoever runs it"
    )
