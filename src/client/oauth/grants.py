"""The two grants: a person logs in (authorization code), or a program does (client credentials)."""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from ...types.errors import AuthError, origin_and_path
from ..clock import IsCanceled
from .discovery import Discovered
from .guard import Guard
from .redirect import new_request, read_redirect
from .store import TokenStore
from .token_endpoint import GrantRefused, register, request_tokens
from .tokens import Client, GrantName, Tokens, client_from_text, client_to_text


class UserAgent(Protocol):
    """Sends a person to a login page and receives the answer."""

    def redirect_uri(self, registered: str | None) -> str:
        """The URI at which the answer is received.

        Args:
            registered: The URI that the authorization server already knows; used again if possible.
        """
        ...

    def authorize(self, url: str, is_canceled: IsCanceled | None) -> str:
        """Opens the login page for the person and waits for the redirect.

        Args:
            url: The URL of the authorization request; already checked.
            is_canceled: Called at least every 0.5 s.

        Returns:
            The whole URL that the browser was redirected to.

        Raises:
            MCPError: The person did not log in.
        """
        ...


@dataclass(frozen=True, slots=True)
class Situation:
    """The inputs of a grant.

    Attributes:
        server_url: The MCP server.
        guard: Sends requests.
        found: The authorization server.
        store: Keeps registered clients.
        pinned: True if the person has named this issuer.
        previous_issuer: The issuer of the last login, None if there was none.
    """

    server_url: str
    guard: Guard
    found: Discovered
    store: TokenStore
    pinned: bool
    previous_issuer: str | None

    def may_use(self, client: Client) -> bool:
        """Returns whether a client that was registered by hand belongs to this issuer.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-server-binding

        Raises:
            AuthError: The client has a secret, and no issuer was configured: a hostile MCP server could name
                its own authorization server and collect the secret.
        """
        issuer = self.found.server.issuer
        if self.pinned:
            return True
        if client.secret is not None:
            raise AuthError(
                "The client secret belongs to one authorization server, and nobody said to which; the MCP "
                f"server names {origin_and_path(issuer)}",
                status=401,
                fix=f"If the client is registered there, give '{issuer}' as issuer",
            )
        return self.previous_issuer in (None, issuer)


class Grant(Protocol):
    """A way to get tokens.

    Attributes:
        name: The grant's name in stored logins.
        refreshable: True if the grant can use refresh tokens.
    """

    name: ClassVar[GrantName]
    refreshable: ClassVar[bool]

    @property
    def asks_person(self) -> bool:
        """True if new tokens need a person to log in."""
        ...

    @property
    def client_id(self) -> str:
        """The configured client id, empty if there is none."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """The configured secrets."""
        ...

    def obtain(self, situation: Situation, scope: str | None) -> tuple[Client, Tokens]:
        """Gets new tokens.

        Raises:
            MCPError: No tokens could be obtained.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A program authenticates with a secret or a private key.

    https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials

    Attributes:
        client: The registered client, with its secret or private key.
    """

    name: ClassVar[GrantName] = "client_credentials"
    refreshable: ClassVar[bool] = False

    client: Client
    asks_person: bool = field(default=False, init=False)

    @property
    def client_id(self) -> str:
        """See the protocol class."""
        return self.client.client_id

    @property
    def secrets(self) -> tuple[str, ...]:
        """See the protocol class."""
        return tuple(secret for secret in (self.client.secret, self.client.private_key) if secret)

    def obtain(self, situation: Situation, scope: str | None) -> tuple[Client, Tokens]:
        """See the protocol class."""
        if not situation.may_use(self.client):
            raise AuthError(
                "The server has moved to another authorization server, where this client is not known",
                status=401,
                fix=f"Register a client at {origin_and_path(situation.found.server.issuer)}",
            )
        fields = {"grant_type": "client_credentials", "scope": scope, "resource": situation.found.resource}
        return self.client, request_tokens(situation.guard, situation.found.server, self.client, fields)


@dataclass(frozen=True, slots=True)
class AuthorizationCode:
    """A person logs in with a browser.

    Attributes:
        user_agent: Sends the person to the login page; None if there is no person and only stored logins can
            be used.
        client: The client that was registered by hand, None without such a client.
        client_metadata_url: URL of the published document about this client (CIMD), None without one.
    """

    name: ClassVar[GrantName] = "authorization_code"
    refreshable: ClassVar[bool] = True

    user_agent: UserAgent | None = None
    client: Client | None = None
    client_metadata_url: str | None = None

    @property
    def asks_person(self) -> bool:
        """See the protocol class."""
        return self.user_agent is not None

    @property
    def client_id(self) -> str:
        """See the protocol class."""
        return self.client.client_id if self.client is not None else self.client_metadata_url or ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """See the protocol class."""
        return (self.client.secret,) if self.client is not None and self.client.secret else ()

    def obtain(self, situation: Situation, scope: str | None) -> tuple[Client, Tokens]:
        """See the protocol class."""
        if self.user_agent is None:
            server = origin_and_path(situation.server_url)
            wanted = f" --scope '{scope}'" if scope else ""
            raise GrantRefused(
                "The server wants a person to log in",
                error="login_required",
                fix=f"Run: knime-mcp login {server}{wanted}",
            )
        server = situation.found.server
        server.require_pkce()  # first, as registering a client would be useless otherwise
        client, redirect_uri = self._client(situation, self.user_agent, scope)
        resource = situation.found.resource
        request = new_request(
            server, client_id=client.client_id, redirect_uri=redirect_uri, resource=resource, scope=scope
        )
        situation.guard.check(request.url)
        code = read_redirect(request, self.user_agent.authorize(request.url, situation.guard.is_canceled))
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": request.verifier,
            "resource": resource,
        }
        return client, request_tokens(situation.guard, server, client, fields)

    def _client(self, situation: Situation, user_agent: UserAgent, scope: str | None) -> tuple[Client, str]:
        """Chooses the client: registered by hand, described by a published document, or registered now.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#client-registration-approaches
        """
        server = situation.found.server
        if self.client is not None and situation.may_use(self.client):
            return self.client, user_agent.redirect_uri(self.client.redirect_uri)
        if self.client_metadata_url is not None and server.takes_metadata_client_ids:
            return Client(self.client_metadata_url, method="none"), user_agent.redirect_uri(None)
        if server.registration_endpoint is None:
            raise AuthError(
                f"The authorization server {origin_and_path(server.issuer)} lets no client register itself",
                status=401,
                fix="Register a client there by hand, and log in with its id (--client-id)",
            )
        return self._registered(situation, user_agent, scope)

    def _registered(
        self, situation: Situation, user_agent: UserAgent, scope: str | None
    ) -> tuple[Client, str]:
        server = situation.found.server
        key = client_key(server.issuer)
        known = client_from_text(situation.store.load(key) or "")
        redirect_uri = user_agent.redirect_uri(known.redirect_uri if known is not None else None)
        if known is not None and known.redirect_uri == redirect_uri:
            return known, redirect_uri
        client = register(situation.guard, server, redirect_uri=redirect_uri, scope=scope)
        situation.store.save(key, client_to_text(client))
        return client, redirect_uri


def client_key(issuer: str) -> str:
    """The key under which the client registered at an issuer is stored."""
    return f"client {issuer}"
