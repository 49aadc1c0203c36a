"""Finds the authorization server of an MCP server, and the scopes to ask it for.

Protected resource metadata (RFC 9728) names the authorization server of an MCP server; authorization server
metadata (RFC 8414, OpenID Connect Discovery) names its endpoints. Both documents are fetched and checked.
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-server-discovery,
#scope-selection-strategy and #scope-challenge-handling.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

from ...types.errors import AuthError, ProtocolError
from ...types.texts import origin_and_path
from ..network import origin_of
from ..protocol.messages import decode
from ..protocol.negotiation import ALL_VERSIONS
from .guard import Guard

_logger = logging.getLogger(__name__)
_HEADERS: Final = {"Accept": "application/json", "MCP-Protocol-Version": ALL_VERSIONS[-1]}
_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
OFFLINE = "offline_access"


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """The protected resource metadata of an MCP server; at least one issuer."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] | None = None  # None if the document has no list
    wants_proof: bool = False  # takes only tokens that are bound to a key (RFC 9728 §2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationMetadata:
    issuer: str
    authorization_endpoint: str | None
    token_endpoint: str | None
    registration_endpoint: str | None = None  # RFC 7591
    scopes_supported: tuple[str, ...] | None = None
    # None if the document has no list, which means no PKCE
    code_challenge_methods: tuple[str, ...] | None = None
    token_auth_methods: tuple[str, ...] | None = None
    proof_algorithms: tuple[str, ...] | None = None  # of DPoP; None if the document has no list
    takes_metadata_client_ids: bool = False  # a client id may be the URL of a document (CIMD)
    sends_issuer: bool = False  # redirects carry ``iss`` (RFC 9207 §3)
    is_assumed: bool = False  # there is no document; the endpoints are the defaults of revision 2025-03-26

    def require_pkce(self) -> None:
        """Refuses a server that does not declare PKCE with ``S256``.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-code-protection:
        a client MUST refuse when ``code_challenge_methods_supported`` is absent.
        """
        if self.is_assumed or "S256" in (self.code_challenge_methods or ()):
            return
        raise AuthError(
            f"The authorization server {origin_and_path(self.issuer)} does not offer PKCE with S256, without "
            "which a login can be stolen",
            fix="Ask whoever runs it to turn PKCE on, or use a token or client credentials instead",
        )


@dataclass(frozen=True, slots=True)
class Discovered:
    resource: str  # the resource identifier for token requests
    resource_scopes: tuple[str, ...] | None  # scopes that the MCP server lists, None if it has no list
    server: AuthorizationMetadata
    wants_proof: bool = False


def discover(
    server_url: str,
    guard: Guard,
    *,
    metadata_url: str | None = None,
    issuer: str | None = None,
    known: Collection[str] = (),
) -> Discovered:
    """Finds the authorization server of an MCP server.

    That is the `issuer` if given, else the first in the metadata that is among the `known`, else the first.
    `metadata_url` is the URL of the protected resource metadata in the server's challenge.
    """
    metadata = _resource_metadata(server_url, guard, metadata_url)
    if metadata is None:
        server = _legacy_server(server_url, guard)
        _require(server.issuer, (server.issuer,), issuer)
        return Discovered(canonical_resource(server_url), None, server)
    check_resource(metadata, server_url)
    named = metadata.authorization_servers
    # A grant that names issuers has a client only there, whatever the server lists first.
    preferred = (each for each in named if any(is_same_issuer(each, other) for other in known))
    chosen = _require(next(preferred, named[0]), named, issuer)
    server = server_metadata(chosen, guard)
    return Discovered(metadata.resource, metadata.scopes_supported, server, metadata.wants_proof)


def _require(first: str, named: tuple[str, ...], wanted: str | None) -> str:
    """Chooses the issuer: the wanted one, which the metadata must name, else the first.

    Credentials belong to one issuer, and an MCP server must not be able to redirect them to another.
    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration#authorization-server-binding
    """
    if wanted is None:
        return first
    if any(is_same_issuer(issuer, wanted) for issuer in named):
        return wanted
    raise AuthError(
        f"The server names {origin_and_path(first)[:200]} as its authorization server, the credentials "
        f"belong to {origin_and_path(wanted)}",
        fix="If the server has moved, register a client at the new one and change the issuer",
    )


def _resource_metadata(server_url: str, guard: Guard, metadata_url: str | None) -> ResourceMetadata | None:
    """The first readable metadata document; None if there is none, as before revision 2025-06-18."""
    trouble: str | None = None
    places = ([metadata_url] if metadata_url else []) + resource_metadata_urls(server_url)
    # The first readable document ends the search: the one at the root may be that of another resource on
    # the host.
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


def server_metadata(issuer: str, guard: Guard) -> AuthorizationMetadata:
    trouble = "no document in any of its places"
    for url in server_metadata_urls(issuer):
        status, document = _get(url, guard)
        # Not on to the next place: while one is out of order,
        # another document there could name a foreign server.
        if status == 429 or status >= 500:
            trouble = f"{origin_and_path(url)} answers {status}"
            break
        if status == 200:
            try:
                return _checked(read_server_metadata(document, issuer=issuer), guard)
            except ValueError as error:
                trouble = f"{origin_and_path(url)} cannot be read: {error}"
    raise _unavailable(f"The metadata of authorization server {origin_and_path(issuer)[:200]}", trouble)


def _legacy_server(server_url: str, guard: Guard) -> AuthorizationMetadata:
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


def _checked(server: AuthorizationMetadata, guard: Guard) -> AuthorizationMetadata:
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
    return AuthError(f"{what} cannot be had: {why}", fix="Try again later, or ask whoever runs it")


def canonical_resource(server_url: str) -> str:
    """The identifier of an MCP server: scheme and host in lower case, no query, fragment or trailing slash.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#canonical-server-uri. The
    query is left out (RFC 8707 §2 discourages it) because it may hold a secret.
    """
    parts = urlsplit(server_url)
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/"), "", ""))


def resource_metadata_urls(server_url: str) -> list[str]:
    """The possible URLs of protected resource metadata: with the path, then at the root (RFC 9728 §3.1)."""
    paths = [_RESOURCE + urlsplit(server_url).path.rstrip("/"), _RESOURCE]
    return [_beside(server_url, path) for path in dict.fromkeys(paths)]


def server_metadata_urls(issuer: str) -> list[str]:
    """The possible URLs of authorization server metadata, in the order of the specification.

    If the issuer has a path, the root is left out, as another tenant may be there (RFC 8414 §3.1, OpenID
    Connect Discovery 1.0 §4).
    """
    path = urlsplit(issuer).path.rstrip("/")
    paths = [_OAUTH + path, _OPENID + path, path + _OPENID] if path else [_OAUTH, _OPENID]
    return [_beside(issuer, each) for each in paths]


def is_same_issuer(first: str, second: str) -> bool:
    """Returns whether two identifiers name the same issuer: equal, except for one slash at the end.

    Many MCP servers add the slash (pydantic does) or leave it out. Both identifiers lead to the same
    metadata, whose URL is made without the slash (RFC 8414 §3.1).
    """
    return first.removesuffix("/") == second.removesuffix("/")


def assumed_metadata(server_url: str) -> AuthorizationMetadata:
    """The endpoints of a server of revision 2025-03-26 that has no metadata at all.

    https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery
    """
    origin = _beside(server_url, "")
    return AuthorizationMetadata(
        issuer=origin,
        authorization_endpoint=origin + "/authorize",
        token_endpoint=origin + "/token",
        registration_endpoint=origin + "/register",
        is_assumed=True,
    )


def read_resource_metadata(document: object) -> ResourceMetadata:
    """Raises `ValueError` if it is no object, or lacks ``resource`` or ``authorization_servers``."""
    fields = _object(document)
    resource = _text(fields, "resource")
    servers = _texts(fields, "authorization_servers")
    if resource is None or not servers:
        raise ValueError("resource or authorization_servers is missing")
    wants_proof = fields.get("dpop_bound_access_tokens_required") is True
    return ResourceMetadata(resource, servers, _texts(fields, "scopes_supported"), wants_proof)


def check_resource(metadata: ResourceMetadata, server_url: str) -> None:
    """Refuses metadata of another resource, whose token this server could then use there.

    RFC 9728 §3.3. The identifier must cover the server's URL: same origin, and a path that is a prefix in
    whole segments.
    """
    ours, theirs = urlsplit(canonical_resource(server_url)), urlsplit(metadata.resource)
    prefix = theirs.path.rstrip("/")
    covers = origin_of(metadata.resource) == origin_of(server_url) and (
        ours.path == prefix or ours.path.startswith(prefix + "/")
    )
    if not covers or theirs.fragment:
        raise AuthError(
            f"The server's metadata is about another resource ({origin_and_path(metadata.resource)[:200]})",
            fix="A token for it could be stolen, so no login was started. Check the URL, or ask whoever runs "
            "the server",
        )


def read_server_metadata(document: object, *, issuer: str) -> AuthorizationMetadata:
    """Reads an authorization server metadata document and checks that it is this issuer's.

    Raises `ValueError` if it is no object, or lacks ``issuer`` or ``token_endpoint``, and `AuthError` if
    ``issuer`` differs (RFC 8414 §3.3) by more than a slash at the end.
    """
    fields = _object(document)
    stated = _text(fields, "issuer")
    if stated is None or _text(fields, "token_endpoint") is None:
        raise ValueError("issuer or token_endpoint is missing")
    if not is_same_issuer(stated, issuer):
        raise AuthError(
            f"The metadata of authorization server {origin_and_path(issuer)} names another issuer "
            f"({origin_and_path(stated)[:200]})",
            fix="This can be an attack, so no login was started. Ask whoever runs the server",
        )
    return AuthorizationMetadata(
        issuer=stated,
        authorization_endpoint=_text(fields, "authorization_endpoint"),
        token_endpoint=_text(fields, "token_endpoint"),
        registration_endpoint=_text(fields, "registration_endpoint"),
        scopes_supported=_texts(fields, "scopes_supported"),
        code_challenge_methods=_texts(fields, "code_challenge_methods_supported"),
        token_auth_methods=_texts(fields, "token_endpoint_auth_methods_supported"),
        proof_algorithms=_texts(fields, "dpop_signing_alg_values_supported"),
        takes_metadata_client_ids=fields.get("client_id_metadata_document_supported") is True,
        sends_issuer=fields.get("authorization_response_iss_parameter_supported") is True,
    )


def _beside(url: str, path: str) -> str:
    """The URL of another path on the same server."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _object(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return cast("dict[str, Any]", document)


def _text(fields: dict[str, Any], key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) and value else None


def _texts(fields: dict[str, Any], key: str) -> tuple[str, ...] | None:
    value = fields.get(key)
    if not isinstance(value, list):
        return None
    return tuple(item for item in cast("list[Any]", value) if isinstance(item, str) and item)


def choose_scope(
    *,
    wanted: str | None,
    challenged: str | None,
    resource_scopes: Iterable[str] | None,
    server_scopes: Iterable[str] | None,
    refreshable: bool,
) -> str | None:
    """The scope of a first authorization, None to leave the parameter out.

    The person's setting takes precedence over the server's challenge, and that over metadata. If the grant
    can use a refresh token (`refreshable`), see `with_offline`.
    """
    chosen = wanted or challenged or " ".join(resource_scopes or ()) or None
    return with_offline(chosen, server_scopes, refreshable=refreshable)


def with_offline(scope: str | None, server_scopes: Iterable[str] | None, *, refreshable: bool) -> str | None:
    """Adds ``offline_access`` for a grant with refresh tokens if the server lists it, else removes it.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#refresh-tokens
    """
    # The MCP server may list it although its authorization server refuses the whole request because of it.
    scopes = [each for each in (scope or "").split() if each != OFFLINE]
    if scopes and refreshable and OFFLINE in (server_scopes or ()):
        scopes.append(OFFLINE)
    return " ".join(dict.fromkeys(scopes)) or None


def union(*scopes: str | None) -> str | None:
    """All scopes, in order of first appearance, so that a step-up keeps the scopes granted before."""
    return " ".join(dict.fromkeys(each for scope in scopes for each in (scope or "").split())) or None


def covers(have: str | None, needed: str) -> bool:
    return set(needed.split()) <= set((have or "").split())
