"""The two metadata documents of discovery: their URLs, their contents and the checks on them.

Protected resource metadata (RFC 9728) names the authorization server of an MCP server; authorization server
metadata (RFC 8414, OpenID Connect Discovery) names its endpoints. This module does no I/O.
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from ...types.errors import AuthError, origin_and_path
from ..server_url import origin_of

_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """The protected resource metadata of an MCP server.

    Attributes:
        resource: The resource identifier for token requests.
        authorization_servers: Issuers, at least one.
        scopes_supported: Supported scopes, None if the document has no list.
    """

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetadata:
    """The metadata of an authorization server.

    Attributes:
        issuer: The server's identifier.
        authorization_endpoint: URL of the login page.
        token_endpoint: URL for token requests.
        registration_endpoint: URL for the registration of clients (RFC 7591).
        scopes_supported: Supported scopes, None if the document has no list.
        code_challenge_methods: Methods of PKCE; None if the document has no list, which means no PKCE.
        token_auth_methods: Client authentication methods of the token endpoint; None if not listed.
        takes_metadata_client_ids: True if a client id may be the URL of a document (CIMD).
        sends_issuer: True if redirects carry ``iss`` (RFC 9207 §3).
        is_assumed: True if there is no document and the endpoints are the defaults of revision 2025-03-26.
    """

    issuer: str
    authorization_endpoint: str | None
    token_endpoint: str | None
    registration_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    code_challenge_methods: tuple[str, ...] | None = None
    token_auth_methods: tuple[str, ...] | None = None
    takes_metadata_client_ids: bool = False
    sends_issuer: bool = False
    is_assumed: bool = False

    def require_pkce(self) -> None:
        """Refuses a server that does not declare PKCE with ``S256``.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-code-protection:
        a client MUST refuse when ``code_challenge_methods_supported`` is absent.

        Raises:
            AuthError: ``S256`` is not among the server's methods.
        """
        if self.is_assumed or "S256" in (self.code_challenge_methods or ()):
            return
        raise AuthError(
            f"The authorization server {origin_and_path(self.issuer)} does not offer PKCE with S256, without "
            "which a login can be stolen",
            status=401,
            fix="Ask whoever runs it to turn PKCE on, or use a token or client credentials instead",
        )


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


def assumed_metadata(server_url: str) -> ServerMetadata:
    """The endpoints of a server of revision 2025-03-26 that has no metadata at all.

    https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery
    """
    origin = _beside(server_url, "")
    return ServerMetadata(
        issuer=origin,
        authorization_endpoint=origin + "/authorize",
        token_endpoint=origin + "/token",
        registration_endpoint=origin + "/register",
        is_assumed=True,
    )


def read_resource_metadata(document: object) -> ResourceMetadata:
    """Reads a protected resource metadata document.

    Raises:
        ValueError: The document is not an object, or lacks ``resource`` or ``authorization_servers``.
    """
    fields = _object(document)
    resource = _text(fields, "resource")
    servers = _texts(fields, "authorization_servers")
    if resource is None or not servers:
        raise ValueError("resource or authorization_servers is missing")
    return ResourceMetadata(resource, servers, _texts(fields, "scopes_supported"))


def check_resource(metadata: ResourceMetadata, server_url: str) -> None:
    """Refuses metadata of another resource, whose token this server could then use there.

    RFC 9728 §3.3. The identifier must cover the server's URL: same origin, and a path that is a prefix in
    whole segments.

    Raises:
        AuthError: The identifier does not cover the URL.
    """
    ours, theirs = urlsplit(canonical_resource(server_url)), urlsplit(metadata.resource)
    prefix = theirs.path.rstrip("/")
    covers = origin_of(metadata.resource) == origin_of(server_url) and (
        ours.path == prefix or ours.path.startswith(prefix + "/")
    )
    if not covers or theirs.fragment:
        raise AuthError(
            f"The server's metadata is about another resource ({origin_and_path(metadata.resource)[:200]})",
            status=401,
            fix="A token for it could be stolen, so no login was started. Check the URL, or ask whoever runs "
            "the server",
        )


def read_server_metadata(document: object, *, issuer: str) -> ServerMetadata:
    """Reads an authorization server metadata document and checks that it is this issuer's.

    Args:
        document: The parsed JSON.
        issuer: The issuer whose document was requested.

    Raises:
        ValueError: The document is not an object, or lacks ``issuer`` or ``token_endpoint``.
        AuthError: ``issuer`` differs (RFC 8414 §3.3) by more than a slash at the end.
    """
    fields = _object(document)
    stated = _text(fields, "issuer")
    if stated is None or _text(fields, "token_endpoint") is None:
        raise ValueError("issuer or token_endpoint is missing")
    if not is_same_issuer(stated, issuer):
        raise AuthError(
            f"The metadata of authorization server {origin_and_path(issuer)} names another issuer "
            f"({origin_and_path(stated)[:200]})",
            status=401,
            fix="This can be an attack, so no login was started. Ask whoever runs the server",
        )
    return ServerMetadata(
        issuer=stated,
        authorization_endpoint=_text(fields, "authorization_endpoint"),
        token_endpoint=_text(fields, "token_endpoint"),
        registration_endpoint=_text(fields, "registration_endpoint"),
        scopes_supported=_texts(fields, "scopes_supported"),
        code_challenge_methods=_texts(fields, "code_challenge_methods_supported"),
        token_auth_methods=_texts(fields, "token_endpoint_auth_methods_supported"),
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
