"""What a login leaves behind: the tokens, the client they were given to, and how both are written down."""

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
        access_token: For the MCP server.
        refresh_token: For the authorization server, None if it gave none.
        expires_at: Seconds since the epoch, None if unknown.
        renew_at: From then on it is renewed before it is used.
        scope: What was granted, None if the server did not say.
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    renew_at: float | None = None
    scope: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether the token should be renewed before it is used again."""
        return self.renew_at is not None and time.time() >= self.renew_at

    @property
    def is_over(self) -> bool:
        """Whether the token has expired."""
        return self.expires_at is not None and time.time() >= self.expires_at


def lifetime(expires_in: float | None) -> tuple[float | None, float | None]:
    """When a token that lives so many seconds from now expires, and when it is renewed.

    A minute early, or a third of its life if that is shorter, so that it does not expire on its way: many
    servers count whole seconds.
    """
    if expires_in is None:
        return None, None
    now = time.time()
    return now + expires_in, now + expires_in - min(_EARLY_SECONDS, expires_in / 3)


@dataclass(frozen=True, slots=True)
class Client:
    """A client as an authorization server knows it.

    Attributes:
        client_id: Its id.
        secret: Its secret, if it has one.
        private_key: PEM of its key, for ``private_key_jwt``.
        algorithm: Of signatures with that key.
        method: How it proves who it is at the token endpoint; None to go by what the server offers.
        redirect_uri: The one it was registered with, None if it was not registered by us.
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
        issuer: Who gave the tokens.
        resource: What they are for.
        client: Whom they were given to; never used with another issuer.
        tokens: The tokens.
        scope: All that was asked for so far.
        grant: How they were obtained.
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
    """The inverse of `login_to_text`; None for text that is not a login, which then has to be made again."""
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
