"""The two grants, a person logs in or a program does, and their requests for tokens and registration.

OAuth 2.1 §3.2, RFC 7591, RFC 7523 §2.2. Strict with secrets: they go to one server, in a way that it offers.
"""

import base64
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol
from urllib.parse import quote, urlencode

from ...types.errors import AuthError, MCPError, SettingInvalid
from ...types.texts import origin_and_path
from ..clock import IsCanceled
from .answers import UNKNOWN_CLIENT, GrantRefused, error_code, failure, read_answer, tokens_from
from .browser_login import new_request, read_redirect
from .discovery import AuthorizationMetadata, Discovered
from .dpop import WANTS_NONCE, ProofKey, signing_library
from .guard import Fetched, Guard
from .logins import (
    AuthMethod,
    GrantName,
    RegisteredClient,
    Tokens,
    TokenStore,
    client_from_text,
    to_text,
)

JWT_BEARER: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_SECONDS: Final = 300
# An assertion is good for one request.
_REPEATABLE: Final = frozenset({"authorization_code", "client_credentials", "refresh_token"})
_SECRET_FIELDS: Final = (
    *("assertion", "client_assertion", "client_secret", "code", "code_verifier", "refresh_token"),
    "subject_token",
)
_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)


class UserAgent(Protocol):
    """Sends a person to a login page and receives the answer."""

    def redirect_uri(self, registered: str | None) -> str:
        """The URI at which the answer is received: the one that the server already knows, if possible."""
        ...

    def authorize(self, url: str, is_canceled: IsCanceled | None) -> str:
        """Opens the login page for the person; returns the whole URL that the browser was redirected to."""
        ...


@dataclass(frozen=True, slots=True)
class Situation:
    server_url: str
    guard: Guard
    found: Discovered
    store: TokenStore
    pinned: bool  # the person has named this issuer
    previous_issuer: str | None  # the issuer of the last login
    resource: str | None  # for token requests, see `discovery.resource_for`
    proof_key: ProofKey | None = None  # that the tokens are to be bound to

    def may_use(self, client: RegisteredClient) -> bool:
        """Whether a client that was registered by hand belongs to this issuer.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration#authorization-server-binding:
        refused if the client has a secret and no issuer was configured, as a hostile MCP server could name
        its own authorization server and collect the secret.
        """
        issuer = self.found.server.issuer
        if self.pinned:
            return True
        if client.secret is not None:
            raise AuthError(
                "The client secret belongs to one authorization server, and nobody said to which; the MCP "
                f"server names {origin_and_path(issuer)}",
                fix=f"If the client is registered there, give '{issuer}' as issuer",
            )
        return self.previous_issuer in (None, issuer)

    def tokens(self, client: RegisteredClient, fields: Mapping[str, str | None]) -> Tokens:
        """The tokens that the authorization server gives."""
        server = self.found.server
        answer = token_request(self.guard, server, client, fields, proof_key=self.proof_key)
        return tokens_from(answer, server.issuer, self.proof_key)


class Grant(Protocol):
    name: ClassVar[GrantName]  # as in stored logins
    refreshable: ClassVar[bool]  # the grant can use refresh tokens

    @property
    def issuers(self) -> tuple[str, ...]:
        """Servers that whoever configured the grant has named, and that may be in any network."""
        ...

    @property
    def asks_person(self) -> bool: ...

    @property
    def client_id(self) -> str: ...

    @property
    def secrets(self) -> tuple[str, ...]: ...

    def obtain(self, situation: Situation, scope: str | None) -> tuple[RegisteredClient, Tokens]: ...


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A program authenticates with the secret or private key of its registered client.

    https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials
    """

    name: ClassVar[GrantName] = "client_credentials"
    refreshable: ClassVar[bool] = False

    client: RegisteredClient
    asks_person: bool = field(default=False, init=False)
    issuers: tuple[str, ...] = field(default=(), init=False)

    @property
    def client_id(self) -> str:
        return self.client.client_id

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(secret for secret in (self.client.secret, self.client.private_key) if secret)

    def obtain(self, situation: Situation, scope: str | None) -> tuple[RegisteredClient, Tokens]:
        if not situation.may_use(self.client):
            raise AuthError(
                "The server has moved to another authorization server, where this client is not known",
                fix=f"Register a client at {origin_and_path(situation.found.server.issuer)}",
            )
        fields = {"grant_type": "client_credentials", "scope": scope, "resource": situation.resource}
        return self.client, situation.tokens(self.client, fields)


@dataclass(frozen=True, slots=True)
class AuthorizationCode:
    """A person logs in with a browser."""

    name: ClassVar[GrantName] = "authorization_code"
    refreshable: ClassVar[bool] = True

    user_agent: UserAgent | None = None  # None if there is no person, so that only stored logins can be used
    client: RegisteredClient | None = None  # the client that was registered by hand
    client_metadata_url: str | None = None  # URL of the published document about this client (CIMD)
    issuers: tuple[str, ...] = field(default=(), init=False)

    @property
    def asks_person(self) -> bool:
        return self.user_agent is not None

    @property
    def client_id(self) -> str:
        return self.client.client_id if self.client is not None else self.client_metadata_url or ""

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.client.secret,) if self.client is not None and self.client.secret else ()

    def obtain(self, situation: Situation, scope: str | None) -> tuple[RegisteredClient, Tokens]:
        if self.user_agent is None:
            server = origin_and_path(situation.server_url)
            wanted = f" --scope '{scope}'" if scope else ""
            raise GrantRefused(
                "The server wants a person to log in",
                error="login_required",
                fix=f"Run: knime-mcp login {server}{wanted}",
            )
        server = situation.found.server
        if not situation.pinned:
            server.require_pkce()  # first, as registering a client would be useless otherwise
        client, redirect_uri = self._client(situation, self.user_agent, scope)
        request = new_request(
            server,
            client_id=client.client_id,
            redirect_uri=redirect_uri,
            resource=situation.resource,
            scope=scope,
        )
        situation.guard.check(request.url)
        try:
            code = read_redirect(request, self.user_agent.authorize(request.url, situation.guard.is_canceled))
        except MCPError:
            # A server that has forgotten the client says so on its page only, and nobody comes back from it.
            situation.store.delete(client_key(server.issuer))
            raise
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": request.verifier,
            "resource": situation.resource,
        }
        return client, situation.tokens(client, fields)

    def _client(
        self, situation: Situation, user_agent: UserAgent, scope: str | None
    ) -> tuple[RegisteredClient, str]:
        """Chooses the client: registered by hand, described by a published document, or registered now.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#client-registration
        """
        server = situation.found.server
        if self.client is not None and situation.may_use(self.client):
            return self.client, user_agent.redirect_uri(self.client.redirect_uri)
        if self.client_metadata_url is not None and server.takes_metadata_client_ids:
            return RegisteredClient(self.client_metadata_url, method="none"), user_agent.redirect_uri(None)
        if server.registration_endpoint is None:
            raise AuthError(
                f"The authorization server {origin_and_path(server.issuer)} lets no client register itself",
                fix="Register a client there by hand, and log in with its id (--client-id)",
            )
        return self._registered(situation, user_agent, scope)

    def _registered(
        self, situation: Situation, user_agent: UserAgent, scope: str | None
    ) -> tuple[RegisteredClient, str]:
        server = situation.found.server
        key = client_key(server.issuer)
        known = client_from_text(situation.store.load(key) or "")
        redirect_uri = user_agent.redirect_uri(known.redirect_uri if known is not None else None)
        # RFC 6749 §3.1.2: the redirect must be a registered one; the port may have been taken meanwhile.
        if known is not None and known.redirect_uri == redirect_uri:
            return known, redirect_uri
        client = register(situation.guard, server, redirect_uri=redirect_uri, scope=scope)
        situation.store.save(key, to_text(client))
        return client, redirect_uri


def client_key(issuer: str) -> str:
    return f"client {issuer}"


def token_request(
    guard: Guard,
    server: AuthorizationMetadata,
    client: RegisteredClient,
    fields: Mapping[str, str | None],
    *,
    proof_key: ProofKey | None = None,
    is_patient: bool = True,
) -> dict[str, Any]:
    """Sends a token request, without fields that are None; the answer has an ``access_token``.

    A server that refuses raises `GrantRefused`. One that wants a nonce in the proof gets it in a second
    request (RFC 9449 §8), and one that is in trouble for a moment is asked again if `is_patient`.
    """
    assert server.token_endpoint is not None
    endpoint = server.token_endpoint
    given = {name: value for name, value in fields.items() if value is not None}
    methods = auth_methods(client, server)
    hidden = [value for name in _SECRET_FIELDS if (value := given.get(name))] + [client.secret or ""]
    nonce: str | None = None

    def send() -> Fetched:
        # Made anew for each attempt, as proofs and assertions are good for one.
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        body = dict(given)
        _authenticate(client, server, methods[0], headers, body)
        if proof_key is not None:
            headers["DPoP"] = proof_key.proof("POST", endpoint, nonce=nonce)
        return guard.fetch("POST", endpoint, headers=headers, body=urlencode(body).encode())

    while True:
        reply = guard.persist(send) if is_patient and given["grant_type"] in _REPEATABLE else send()
        answer = read_answer(reply.body)
        if 200 <= reply.status < 300 and answer.get("access_token") is not None:
            return answer
        code = error_code(answer)
        if code == WANTS_NONCE and proof_key is not None and nonce is None and reply.nonce:
            nonce = reply.nonce
        elif code in UNKNOWN_CLIENT and len(methods) > 1:
            methods = methods[1:]
        else:
            raise failure(reply, answer, "token endpoint", server.issuer, hidden)


def auth_methods(client: RegisteredClient, server: AuthorizationMetadata) -> tuple[AuthMethod, ...]:
    """The client authentication method: the registered one, else the best that the server offers.

    For a secret at a server without a list, both ways: Basic is its default (RFC 8414 §2), but GitHub, for
    one, takes the secret in the body alone.
    """
    offered = server.token_auth_methods
    if client.private_key is not None:
        possible: tuple[AuthMethod, ...] = ("private_key_jwt",)
    elif client.secret is not None:
        possible = ("client_secret_basic", "client_secret_post")
    else:
        possible = ("none",)
    if client.method is not None and client.method in possible:
        return (client.method,)
    # A public client has nothing to choose from, and a private key is no server's default.
    if offered is None or possible == ("none",):
        return possible
    for method in possible:
        if method in offered:
            return (method,)
    raise AuthError(
        f"The authorization server {origin_and_path(server.issuer)} takes {', '.join(offered)[:200]}, "
        f"this client has {' or '.join(possible)}",
        fix="Register the client there with a way that both sides know",
    )


def _authenticate(
    client: RegisteredClient,
    server: AuthorizationMetadata,
    method: AuthMethod,
    headers: dict[str, str],
    body: dict[str, str],
) -> None:
    # With Basic the id in the body is superfluous, but servers of the official Python SDK require it.
    if client.client_id:  # a workload needs none
        body["client_id"] = client.client_id
    match method:
        case "client_secret_basic":
            # OAuth 2.1 §2.4.1: both parts are form-encoded before they are joined.
            pair = f"{quote(client.client_id, safe='')}:{quote(client.secret or '', safe='')}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        case "client_secret_post":
            body["client_secret"] = client.secret or ""
        case "none":
            pass
        case "private_key_jwt":
            body["client_assertion_type"] = JWT_BEARER
            body["client_assertion"] = _assertion(client, server)


def _assertion(client: RegisteredClient, server: AuthorizationMetadata) -> str:
    """A signed assertion of the client's identity, valid at this issuer only (RFC 7523 §3)."""
    jwt = signing_library()
    if client.algorithm not in _ALGORITHMS:
        raise SettingInvalid(
            f"'{client.algorithm}' is not a signature algorithm with a private key",
            setting="credentials",
            fix="Use ES256 or RS256",
        )
    now = int(time.time())
    claims = {
        "iss": client.client_id,
        "sub": client.client_id,
        # RFC 7523 §3 allows the token endpoint, too; the issuer is what the extension wants, and no other
        # server accepts it.
        "aud": server.issuer,
        "iat": now,
        "exp": now + _ASSERTION_SECONDS,
        "jti": secrets.token_urlsafe(16),
    }
    try:
        return jwt.encode(claims, client.private_key or "", algorithm=client.algorithm)
    except Exception:  # for a malformed key cryptography raises many classes, whose texts may quote the key
        raise SettingInvalid(
            f"The private key cannot sign with {client.algorithm}",
            setting="credentials",
            fix="Give an unencrypted PEM key (PKCS#8) of the algorithm's kind: EC for ES256, RSA for RS256",
        ) from None


def register(
    guard: Guard, server: AuthorizationMetadata, *, redirect_uri: str, scope: str | None
) -> RegisteredClient:
    """Registers a client (RFC 7591; deprecated since 2026-07-28, but most servers offer only this)."""
    assert server.registration_endpoint is not None
    endpoint = server.registration_endpoint
    offered = server.token_auth_methods or ("client_secret_basic",)
    methods: tuple[AuthMethod, ...] = ("none", "client_secret_basic", "client_secret_post")
    # A public client first: a secret of a program that everybody can install is none.
    method = next((each for each in methods if each in offered), "none")
    wanted: dict[str, Any] = {
        "client_name": "KNIME MCP",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        # https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration#dynamic-client-registration:
        # the default would be "web", which forbids loopback redirects.
        "application_type": "native",
    }
    if scope is not None:
        wanted["scope"] = scope

    def send() -> Fetched:
        return guard.fetch(
            "POST",
            endpoint,
            headers={"Accept": "application/json", "Content-Type": "application/json"},
            body=json.dumps(wanted).encode(),
        )

    while True:
        reply = guard.persist(send)
        answer = read_answer(reply.body)
        if error_code(answer) != "invalid_client_metadata" or wanted.pop("scope", None) is None:
            break  # some servers register only their own scopes, but also grant those of a resource
    client_id, secret = answer.get("client_id"), answer.get("client_secret") or None
    if not 200 <= reply.status < 300 or not isinstance(client_id, str | int):
        raise failure(reply, answer, "registration endpoint", server.issuer, [])
    # RFC 7591 §3.2.1: the registered method counts, not the requested one.
    said = answer.get("token_endpoint_auth_method")
    registered: AuthMethod = "none"
    if said in methods:
        registered = methods[methods.index(said)]
    elif said:
        raise AuthError(
            f"The authorization server {origin_and_path(server.issuer)} registered this client with a way "
            f"to log in that it does not have ({str(said)[:80]})",
            fix="Register a client there yourself and give its id",
        )
    elif secret is not None:  # Slack's method is null, others' is empty or left out
        ways: tuple[AuthMethod, ...] = tuple(each for each in methods[1:] if each in offered)
        registered = ways[0] if ways else "none"
    if not isinstance(secret, str):
        registered = "none"  # whatever the answer says, there is nothing to log in with
    return RegisteredClient(
        client_id=str(client_id),
        secret=secret if registered != "none" else None,
        method=registered,
        redirect_uri=redirect_uri,
    )
