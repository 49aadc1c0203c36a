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
from ..network import origin_of, with_tls
from ..protocol.messages import decode
from ..protocol.negotiation import ALL_VERSIONS
from .guard import Fetched, Guard

_logger = logging.getLogger(__name__)
_HEADERS: Final = {"Accept": "application/json", "MCP-Protocol-Version": ALL_VERSIONS[-1]}
_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
_RESOURCE_IN_SCOPES: Final = "/oauth2/v2.0/token"
_AUTHORITY: Final = 2  # scheme, nothing and host come before the path's segments
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
    issuer: str  # to which credentials and logins belong
    authorization_endpoint: str | None
    token_endpoint: str | None
    answers_as: str  # what ``iss`` of its redirects has to be, see `is_issuer`
    registration_endpoint: str | None = None  # RFC 7591
    scopes_supported: tuple[str, ...] | None = None
    code_challenge_methods: tuple[str, ...] | None = None  # None if the document has no list
    token_auth_methods: tuple[str, ...] | None = None
    proof_algorithms: tuple[str, ...] | None = None  # of DPoP; None if the document has no list
    takes_metadata_client_ids: bool = False  # a client id may be the URL of a document (CIMD)
    sends_issuer: bool = False  # redirects carry ``iss`` (RFC 9207 §3)

    def require_pkce(self) -> None:
        """Refuses a server whose list of PKCE methods has no ``S256``.

        Against https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-code-protection
        a server without any list is not refused: OpenID Connect Discovery has no such member, so that Entra
        ID, Cognito and others leave it out although they check PKCE. It is sent to every server.
        """
        if self.code_challenge_methods is None or "S256" in self.code_challenge_methods:
            return
        raise AuthError(
            f"The authorization server {origin_and_path(self.issuer)} offers PKCE without S256, which guards "
            "a login from being stolen",
            fix="Ask whoever runs it to turn S256 on. To log in all the same, " + name_it(self.issuer),
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
        # Revision 2025-03-26: the MCP server's origin is the authorization server.
        assumed = assumed_metadata(server_url)
        metadata = ResourceMetadata(canonical_resource(server_url), (assumed.issuer,))
    else:
        assumed = None
        check_resource(metadata, server_url)
    named = tuple(with_tls(each, server_url) for each in metadata.authorization_servers)
    # A grant that names issuers has a client only there, whatever the server lists first.
    preferred = (each for each in named if any(is_same_issuer(each, other) for other in known))
    chosen = _require(next(preferred, named[0]), named, issuer)
    is_named = any(is_same_issuer(chosen, other) for other in (*known, *filter(None, (issuer,))))
    server = server_metadata(chosen, guard, is_named=is_named, assumed=assumed)
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
    places = resource_metadata_urls(server_url)
    if metadata_url is not None:
        # Some servers leave out their origin.
        said = _beside(server_url, metadata_url) if metadata_url.startswith("/") else metadata_url
        places.insert(0, with_tls(said, server_url))
    # The first readable document ends the search: the one at the root may be that of another resource on
    # the host.
    for url in dict.fromkeys(places):
        reply, document = _get(url, guard)
        try:
            if document is not None:
                return read_resource_metadata(document, server_url)
        except ValueError as error:
            trouble = trouble or f"{origin_and_path(url)} cannot be read: {error}"
        if reply.is_outage:
            trouble = f"{origin_and_path(url)} answers {reply.status}"
    if trouble is not None or metadata_url is not None:
        # The fallback for old servers would ask the wrong authorization server for a login.
        raise _unavailable("The server's protected resource metadata", trouble or "no document where it says")
    return None


def server_metadata(
    issuer: str, guard: Guard, *, is_named: bool = False, assumed: AuthorizationMetadata | None = None
) -> AuthorizationMetadata:
    """The metadata of an authorization server, see `read_server_metadata`.

    Without any document it is what was `assumed`, as in revision 2025-03-26.
    """
    what = f"The metadata of authorization server {origin_and_path(issuer)[:200]}"
    trouble: str | None = None
    similar: AuthorizationMetadata | None = None
    for url in server_metadata_urls(issuer):
        reply, document = _get(url, guard)
        # Not on to the next place: while one is out of order,
        # another document there could name a foreign server.
        if reply.is_outage:
            raise _unavailable(what, f"{origin_and_path(url)} answers {reply.status}")
        if document is None:
            continue
        try:
            found = _checked(read_server_metadata(document, issuer=issuer, is_named=is_named), guard)
        except ValueError as error:
            trouble = f"{origin_and_path(url)} cannot be read: {error}"
            continue
        if is_same_issuer(with_tls(_object(document)["issuer"], issuer), issuer):
            return found
        similar = similar or found  # the document of this very issuer may be in the next place
    if similar is not None:
        return similar
    if trouble is None and assumed is not None:
        return _checked(assumed, guard)
    raise _unavailable(what, trouble or "no document in any of its places")


def _checked(server: AuthorizationMetadata, guard: Guard) -> AuthorizationMetadata:
    """Checks all endpoints with the guard, before any request is sent to them."""
    for url in (server.authorization_endpoint, server.token_endpoint, server.registration_endpoint):
        if url is not None:
            guard.check(url)
    return server


def _get(url: str, guard: Guard) -> tuple[Fetched, Any]:
    """Fetches a document: the reply and its JSON. A page that is no JSON counts as no document, None."""
    reply = guard.persist(lambda: guard.fetch("GET", url, headers=_HEADERS, confidential=False))
    _logger.debug("GET %s: %d, %d bytes", origin_and_path(url), reply.status, len(reply.body))
    if reply.status != 200:
        return reply, None
    try:
        return reply, decode(reply.body)
    except ProtocolError:
        return reply, None


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
    Connect Discovery 1.0 §4). The last one is in no specification, but is where Atlassian has it, for one.
    """
    path = urlsplit(issuer).path.rstrip("/")
    paths = [_OAUTH + path, _OPENID + path, path + _OPENID, path + _OAUTH] if path else [_OAUTH, _OPENID]
    return [_beside(issuer, each) for each in paths]


def is_same_issuer(first: str, second: str) -> bool:
    """Returns whether two identifiers name the same issuer: they lead to the same metadata.

    One slash at the end makes no difference, which many MCP servers add (pydantic does) or leave out, nor do
    the case of the host and the usual port (RFC 3986 §6.2).
    """

    def rest(url: str) -> str:
        return urlunsplit(urlsplit(url)._replace(scheme="", netloc="")).removesuffix("/")

    origin = origin_of(first)
    return first == second or (origin != "" and origin == origin_of(second) and rest(first) == rest(second))


def is_issuer(stated: str, issuer: str) -> bool:
    """Returns whether an issuer is the stated one, whose segments in braces stand for any.

    Entra ID has one document for all tenants, with the issuer ``https://login.microsoftonline.com/{tenantid}/v2.0``.
    """
    stated_parts, issuer_parts = stated.split("/"), issuer.split("/")
    return len(stated_parts) == len(issuer_parts) and all(
        each == other or (number > _AUTHORITY and each.startswith("{") and each.endswith("}") and other != "")
        for number, (each, other) in enumerate(zip(stated_parts, issuer_parts, strict=True))
    )


def assumed_metadata(server_url: str) -> AuthorizationMetadata:
    """The endpoints of a server of revision 2025-03-26 that has no metadata at all.

    https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery
    """
    origin = _beside(server_url, "")
    return AuthorizationMetadata(
        issuer=origin,
        answers_as=origin,
        authorization_endpoint=origin + "/authorize",
        token_endpoint=origin + "/token",
        registration_endpoint=origin + "/register",
    )


def read_resource_metadata(document: object, server_url: str) -> ResourceMetadata:
    """Raises `ValueError` if it is no object, or lacks ``authorization_servers``.

    Without ``resource`` it is about this very server, as no other one can be meant.
    """
    fields = _object(document)
    resource = _text(fields, "resource") or canonical_resource(server_url)
    servers = _texts(fields, "authorization_servers")
    if not servers:
        raise ValueError("authorization_servers is missing")
    wants_proof = fields.get("dpop_bound_access_tokens_required") is True
    return ResourceMetadata(resource, servers, _texts(fields, "scopes_supported"), wants_proof)


def check_resource(metadata: ResourceMetadata, server_url: str) -> None:
    """Refuses metadata of another resource, whose token this server could then use there.

    RFC 9728 §3.3. The identifier must cover the server's URL: same origin, and a path that is a prefix in
    whole segments.
    """
    resource = with_tls(metadata.resource, server_url)
    server, target = urlsplit(canonical_resource(server_url)), urlsplit(resource)
    prefix = target.path.rstrip("/")
    covers = origin_of(resource) == origin_of(server_url) and (
        server.path == prefix or server.path.startswith(prefix + "/")
    )
    if not covers or target.fragment:
        raise AuthError(
            f"The server's metadata is about another resource ({origin_and_path(metadata.resource)[:200]})",
            fix="A token for it could be stolen, so no login was started. Check the URL, or ask whoever runs "
            "the server",
        )


def read_server_metadata(document: object, *, issuer: str, is_named: bool = False) -> AuthorizationMetadata:
    """Reads an authorization server metadata document and checks that it is this issuer's (RFC 8414 §3.3).

    Raises `ValueError` if it is no object, or lacks ``issuer`` or ``token_endpoint``, and `AuthError` if
    ``issuer`` is another one.
    """
    fields = _object(document)
    stated = _text(fields, "issuer")
    if stated is None or _text(fields, "token_endpoint") is None:
        raise ValueError("issuer or token_endpoint is missing")
    sends_issuer = fields.get("authorization_response_iss_parameter_supported") is True
    endpoints = {name: (url := _text(fields, name)) and with_tls(url, issuer) for name in _ENDPOINTS}
    known_as, answers_as = _identity(issuer, stated, sends_issuer=sends_issuer, is_named=is_named)
    return AuthorizationMetadata(
        issuer=known_as,
        answers_as=answers_as,
        authorization_endpoint=endpoints["authorization_endpoint"],
        token_endpoint=endpoints["token_endpoint"],
        registration_endpoint=endpoints["registration_endpoint"],
        scopes_supported=_texts(fields, "scopes_supported"),
        code_challenge_methods=_texts(fields, "code_challenge_methods_supported"),
        token_auth_methods=_texts(fields, "token_endpoint_auth_methods_supported"),
        proof_algorithms=_texts(fields, "dpop_signing_alg_values_supported"),
        takes_metadata_client_ids=fields.get("client_id_metadata_document_supported") is True,
        sends_issuer=sends_issuer,
    )


def _identity(issuer: str, stated: str, *, sends_issuer: bool, is_named: bool) -> tuple[str, str]:
    """The issuer to which credentials belong, and the one that its redirects have to name, if any.

    What a document states is believed only about itself: else a hostile server could state a good one, and
    get the codes that the good one gives (RFC 9207 §1). So they belong to the issuer that was asked, and:

    - a difference in spelling is none;
    - a document for all tenants states all of them;
    - one of the same origin is of the same server, such as Atlassian's, which drops the path. Its redirects
      must not name another issuer, so that it is refused if it says that they do;
    - what a person has named (``--issuer``) is taken as it is.
    """
    if is_same_issuer(with_tls(stated, issuer), issuer):
        return with_tls(stated, issuer), stated
    if is_named or is_issuer(stated, issuer):
        return issuer, stated
    if origin_of(stated) == origin_of(issuer) and not sends_issuer:
        return issuer, issuer
    raise AuthError(
        f"The metadata of authorization server {origin_and_path(issuer)} names another issuer "
        f"({origin_and_path(stated)[:200]})",
        fix="No login was started, as one server can pose as another in this way. If whoever runs it says "
        "that both are the same, " + name_it(issuer),
    )


def name_it(issuer: str) -> str:
    """The setting that says: this authorization server is meant, as it is."""
    url = origin_and_path(issuer)[:200]
    return f"name it: --issuer '{url}' (in nodes a line of 'Connection options', in Python issuer=)"


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
    """The texts of a list; some servers write one text, separated by blanks like scopes."""
    value = fields.get(key)
    if isinstance(value, str):
        return tuple(value.split())
    if not isinstance(value, list):
        return None
    return tuple(item for item in cast("list[Any]", value) if isinstance(item, str) and item)


def with_offline(scope: str | None, server_scopes: Iterable[str] | None, *, refreshable: bool) -> str | None:
    """Adds ``offline_access`` for a grant with refresh tokens if the server lists it, else removes it.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#refresh-tokens
    """
    # The MCP server may list it although its authorization server refuses the whole request because of it.
    scopes = without_offline(scope).split()
    if scopes and refreshable and OFFLINE in (server_scopes or ()):
        scopes.append(OFFLINE)
    return " ".join(dict.fromkeys(scopes)) or None


def without_offline(scope: str | None) -> str:
    return " ".join(each for each in (scope or "").split() if each != OFFLINE)


def granted(asked: str | None, given: str | None) -> str | None:
    """The scopes to ask for at a refresh: no more than were granted, as far as the server said (RFC 6749 §6).

    Entra ID wants them, and would else give a token for another resource. ``offline_access`` is granted
    without a word.
    """
    have = [OFFLINE, *(given or asked or "").split()]
    return " ".join(each for each in (asked or "").split() if each in have) or None


def resource_for(discovered: Discovered, scope: str | None, *, chosen: str | None) -> str | None:
    """The resource indicator of token requests (RFC 8707), which keeps a token from use at other servers.

    None at version 2 of Entra ID's endpoints, where scopes name the resource and another indicator is
    refused, if a person has chosen the scopes. Those that the MCP server names could be those of another.
    """
    names_resource = (discovered.server.token_endpoint or "").endswith(_RESOURCE_IN_SCOPES)
    wanted = without_offline(scope)
    return None if names_resource and wanted and covers(chosen, wanted) else discovered.resource


def union(*scopes: str | None) -> str | None:
    """All scopes, in order of first appearance, so that a step-up keeps the scopes granted before."""
    return " ".join(dict.fromkeys(each for scope in scopes for each in (scope or "").split())) or None


def covers(have: str | None, needed: str) -> bool:
    return set(needed.split()) <= set((have or "").split())
