"""The result of a login: the tokens and their client, and how both are stored."""

import json
import time
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from ...types.canonical import canonical_json

_EARLY_SECONDS: Final = 60.0
AuthMethod = Literal["client_secret_basic", "client_secret_post", "none", "private_key_jwt"]
GrantName = Literal["authorization_code", "client_credentials"]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one grant.

    Attributes:
        access_token: The token for the MCP server.
        refresh_token: The token for the authorization server, None if it issued none.
        expires_at: Expiry of the access token in seconds since the epoch, None if unknown.
        renew_at: The time from which the access token is renewed before use.
        scope: The granted scopes, None if the server did not say.
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    renew_at: float | None = None
    scope: str | None = None

    @property
    def is_due(self) -> bool:
        """True if the token should be renewed before it is used again."""
        return self.renew_at is not None and time.time() >= self.renew_at

    @property
    def is_over(self) -> bool:
        """True if the token has expired."""
        return self.expires_at is not None and time.time() >= self.expires_at


def lifetime(expires_in: float | None) -> tuple[float | None, float | None]:
    """The times at which a token that is valid for some seconds expires and should be renewed.

    Renewal is a minute before expiry, or a third of the token's life if that is shorter, so that the token
    does not expire on its way: many servers count whole seconds.
    """
    if expires_in is None:
        return None, None
    now = time.time()
    return now + expires_in, now + expires_in - min(_EARLY_SECONDS, expires_in / 3)


@dataclass(frozen=True, slots=True)
class Client:
    """A client of an authorization server.

    Attributes:
        client_id: The client's id.
        secret: The client's secret, if it has one.
        private_key: The client's private key as PEM, for ``private_key_jwt``.
        algorithm: The algorithm of signatures with that key.
        method: The authentication method at the token endpoint; None to choose from the server's.
        redirect_uri: The registered redirect URI, None if this program did not register the client.
    """

    client_id: str
    secret: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)
    algorithm: str = "ES256"
    method: AuthMethod | None = None
    redirect_uri: str | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """A login at one issuer for one MCP server.

    Attributes:
        issuer: The issuer of the tokens.
        resource: The resource that the tokens are for.
        client: The client of the tokens; never used with another issuer.
        tokens: The tokens.
        scope: All scopes that were asked for so far.
        grant: The name of the grant.
    """

    issuer: str
    resource: str
    client: Client
    tokens: Tokens
    scope: str | None = None
    grant: GrantName = "authorization_code"


def login_to_text(login: Login) -> str:
    """A login as JSON text, secrets included."""
    return canonical_json(
        {
            "issuer": login.issuer,
            "resource": login.resource,
            "scope": login.scope,
            "grant": login.grant,
            "client": _fields(login.client),
            "tokens": _fields(login.tokens),
        }
    )


def login_from_text(text: str) -> Login | None:
    """The inverse of `login_to_text`; None for text that is not a login."""
    try:
        value = cast("dict[str, Any]", json.loads(text))
        login = Login(
            issuer=value["issuer"],
            resource=value["resource"],
            client=Client(**value["client"]),
            tokens=Tokens(**value["tokens"]),
            scope=value["scope"],
            grant=value["grant"],
        )
    except (ValueError, KeyError, TypeError):
        return None
    return login if isinstance(login.tokens.access_token, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]


def client_to_text(client: Client) -> str:
    """A registered client as JSON text, secrets included."""
    return canonical_json(_fields(client))


def client_from_text(text: str) -> Client | None:
    """The inverse of `client_to_text`; None for text that is not a client."""
    try:
        return Client(**cast("dict[str, Any]", json.loads(text)))
    except (ValueError, TypeError):
        return None


def _fields(value: Client | Tokens) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
