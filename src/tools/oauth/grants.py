"""The two ways to a token: a person logs in (authorization code), or a program does (client credentials)."""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from ...types.errors import AuthError, origin_and_path
from ..clock import IsCanceled
from ..guard import Guard
from .discovery import Discovered
from .redirect import new_request, read_redirect
from .store import TokenStore
from .token_endpoint import GrantRefused, register, request_tokens
from .tokens import Client, GrantName, Tokens, client_from_text, client_to_text


class UserAgent(Protocol):
    """Brings a person to a login page and the answer back."""

    def redirect_uri(self, registered: str | None) -> str:
        """Where answers are awaited.

        Args:
            registered: The one that an authorization server knows already; to be used again if possible.
        """
        ...

    def authorize(self, url: str, is_canceled: IsCanceled | None) -> str:
        """Have a person log in.

        Args:
            url: The authorization request; checked to be a web address.
            is_canceled: Asked at least every 0.5 s.

        Returns:
            The whole URL that the browser was redirected to.

        Raises:
            MCPError: Nobody logged in.
        """
        ...


@dataclass(frozen=True, slots=True)
class Situation:
    """What a grant works with.

    Attributes:
        server_url: The MCP server.
        guard: Sends requests.
        found: The authorization server.
        store: Keeps clients that were registered.
        pinned: The person has named this issuer.
        previous_issuer: Whose client the last login used, None if there was none.
    """

    server_url: str
    guard: Guard
    found: Discovered
    store: TokenStore
    pinned: bool
    previous_issuer: str | None

    def may_use(self, client: Client) -> bool:
        """Whether a client that was registered by hand belongs to this issuer.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-server-binding

        Raises:
            AuthError: It has a secret, and nobody said whose: a hostile MCP server could name its own
                authorization server and collect it.
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
    """A way to a token.

    Attributes:
        name: What is written down about it.
        refreshable: Whether refresh tokens make sense.
    """

    name: ClassVar[GrantName]
    refreshable: ClassVar[bool]

    @property
    def asks_person(self) -> bool:
        """Whether new tokens cost a person a login."""
        ...

    @property
    def client_id(self) -> str:
        """The configured client id, empty if there is none."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be seen."""
        ...

    def obtain(self, situation: Situation, scope: str | None) -> tuple[Client, Tokens]:
        """Get new tokens.

        Raises:
            MCPError: There are none to be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A program proves who it is by a secret or by a private key.

    https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials

    Attributes:
        client: With a secret or a private key.
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
        user_agent: Brings the person there; None where nobody sits, so that only stored logins are used.
        client: Registered by hand, None if it was not.
        client_metadata_url: Where a document about this client is published (CIMD), None if it is not.
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
        server.require_pkce()  # before a client is registered in vain
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
        """Who we are to this server: registered by hand, by a published document, or now.

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
    """Where the client is kept that was registered at an issuer."""
    return f"client {issuer}"
