"""A company's identity instead of a login: nobody is asked, and there is no secret per server.

`KNIME_MCP_IDENTITY` in the environment names a JSON file that whoever runs the machine has written. It says
where a token of the company's is, and which authorization servers may get it:

- of a workload, such as Kubernetes projects into a file. The authorization server takes it as it is:
  https://github.com/modelcontextprotocol/ext-auth/blob/main/specification/draft/workload-identity-federation.mdx
- of a person, from single sign-on. The company's identity provider first makes an assertion of it that is for
  one authorization server and one MCP server:
  https://github.com/modelcontextprotocol/ext-auth/blob/main/specification/stable/enterprise-managed-authorization.mdx

No server, workflow or table can name another file, as it decides who gets the token.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from ...types.errors import AuthError, ProtocolError, SettingInvalid
from ...types.texts import in_one_line, origin_and_path
from ..authorization import IDENTITY_VARIABLE as VARIABLE
from ..network import NetworkSettings
from ..protocol.messages import decode
from .answers import GrantRefused
from .discovery import is_same_issuer, server_metadata
from .dpop import ALGORITHM, signing_library
from .grants import Situation, token_request
from .logins import GrantName, RegisteredClient, Tokens
from .oauth import OAuth

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_TYPE: Final = "urn:ietf:params:oauth:token-type:"
_TOKEN_TYPES: Final = ("id_token", "refresh_token", "saml2", "jwt", "access_token")
_LARGEST: Final = 64 * 1024
_CLIENT: Final = ("client_id", "client_secret_env", "client_secret_file", "private_key_file")


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """The company's identity provider, which makes assertions for authorization servers (RFC 8693)."""

    issuer: str
    client: RegisteredClient
    token_type: str = "id_token"  # noqa: S105 - what the identity token is


@dataclass(frozen=True, slots=True)
class IdentityAssertion:
    """The grant: an identity token, or what the provider makes of it, for an access token (RFC 7523 §2.1).

    Args:
        token: Reads the identity token, for each request anew, as platforms replace it before it expires.
        clients: The authorization servers that may get it, and who we are there.
        provider: The company's identity provider; None for the token of a workload.
    """

    name: ClassVar[GrantName] = "identity_assertion"
    refreshable: ClassVar[bool] = False

    token: Callable[[], str] = field(repr=False)
    clients: Mapping[str, RegisteredClient]
    provider: IdentityProvider | None = None
    asks_person: bool = field(default=False, init=False)
    client_id: str = field(default="", init=False)  # differs per authorization server

    @property
    def issuers(self) -> tuple[str, ...]:
        return (*self.clients, *((self.provider.issuer,) if self.provider is not None else ()))

    @property
    def secrets(self) -> tuple[str, ...]:
        clients = [*self.clients.values(), *((self.provider.client,) if self.provider is not None else ())]
        return tuple(
            secret for each in clients for secret in (each.secret, each.private_key) if secret is not None
        )

    def obtain(self, situation: Situation, scope: str | None) -> tuple[RegisteredClient, Tokens]:
        server = situation.found.server
        client = next((c for name, c in self.clients.items() if is_same_issuer(name, server.issuer)), None)
        if client is None:
            raise AuthError(
                f"The server's authorization server {origin_and_path(server.issuer)[:200]} is none of those "
                "that may get the company's identity",
                fix=f"If it should, add it to 'authorization_servers' in the file that {VARIABLE} names",
            )
        assertion = self.token()
        if self.provider is not None:
            assertion = self._exchanged(assertion, self.provider, situation, scope)
        fields = {
            "grant_type": JWT_BEARER,
            "assertion": assertion,
            "scope": scope,
            "resource": situation.resource,
        }
        try:
            return client, situation.tokens(client, fields)
        except GrantRefused as refusal:
            raise _explained(refusal) from None

    def _exchanged(
        self, token: str, provider: IdentityProvider, situation: Situation, scope: str | None
    ) -> str:
        """The provider's assertion about the identity, for this authorization server and MCP server only."""
        fields = {
            "grant_type": _EXCHANGE,
            "requested_token_type": _TYPE + "id-jag",
            "audience": situation.found.server.issuer,
            "resource": situation.found.resource,
            "scope": scope,
            "subject_token": token,
            "subject_token_type": _TYPE + provider.token_type,
        }
        server = server_metadata(provider.issuer, situation.guard, is_named=True)
        try:
            answer = token_request(situation.guard, server, provider.client, fields)
        except GrantRefused as refusal:
            raise _explained(refusal) from None
        made = answer["access_token"]  # RFC 8693 §2.2.1: the name stands for any kind of token
        if not isinstance(made, str) or answer.get("issued_token_type") != _TYPE + "id-jag":
            raise AuthError(
                f"The identity provider {origin_and_path(provider.issuer)} gave no assertion for others",
                fix="Ask whoever runs it to turn on the identity assertion grant (ID-JAG)",
            )
        return made


def _explained(refusal: GrantRefused) -> GrantRefused:
    fix = (
        "The identity token may have expired or be for another audience, or nobody has allowed this: ask "
        f"whoever wrote the file that {VARIABLE} names, or runs the authorization server"
    )
    return GrantRefused(refusal.what, error=refusal.error, fix=fix)


def company_login(server_url: str, network: NetworkSettings) -> OAuth:
    """The authorization by the identity of the environment; it does nothing until a server refuses access."""
    return OAuth(server_url, read_identity(Path(os.environ[VARIABLE])), network=network)


def read_identity(file: Path) -> IdentityAssertion:
    """Reads the company's file, and the secrets of its clients.

    Raises:
        SettingInvalid: It cannot be read, or says what cannot work; the error shows no secret.
    """
    try:
        document = decode(_content(file))
    except ProtocolError:
        document = None
    entries = _known(
        document, "the file", ("token_file", "token_env", "authorization_servers", "identity_provider")
    )
    servers = entries.get("authorization_servers")
    if not isinstance(servers, dict) or not servers:
        raise _wrong("'authorization_servers' has to name those that may get the identity token, as URLs")
    clients = {
        issuer: _client(_known(entry, f"'{issuer[:100]}'", _CLIENT))
        for issuer, entry in cast("dict[str, Any]", servers).items()
    }
    provider = None
    if "identity_provider" in entries:
        said = _known(entries["identity_provider"], "'identity_provider'", (*_CLIENT, "issuer", "token_type"))
        kind = said.get("token_type", "id_token")
        if kind not in _TOKEN_TYPES or not isinstance(said.get("issuer"), str):
            raise _wrong(
                f"'identity_provider' needs 'issuer', and as 'token_type' one of {', '.join(_TOKEN_TYPES)}"
            )
        provider = IdentityProvider(said["issuer"], _client(said), kind)
    if ("token_file" in entries) == ("token_env" in entries):
        raise _wrong("it needs either 'token_file' or 'token_env'")
    which = "token_file" if "token_file" in entries else "token_env"
    source = _text(entries, which)
    return IdentityAssertion(lambda: _secret(which, source), clients, provider)


def key_algorithm(pem: str) -> str:
    """The usual signature algorithm for a private key of its kind; `SettingInvalid` if it is no key."""
    signing_library()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except Exception:  # many classes, whose texts may quote the key
        key = None
    match key:
        case ec.EllipticCurvePrivateKey():
            return {256: ALGORITHM, 384: "ES384", 521: "ES512"}.get(key.key_size, ALGORITHM)
        case rsa.RSAPrivateKey():
            return "RS256"
        case ed25519.Ed25519PrivateKey():
            return "EdDSA"
        case _:
            raise SettingInvalid(
                "The private key cannot be read",
                setting="credentials",
                fix="Give an unencrypted PEM key (PKCS#8): EC, RSA or Ed25519",
            )


def _client(entry: Mapping[str, Any]) -> RegisteredClient:
    ways = [name for name in _CLIENT[1:] if name in entry]
    if len(ways) > 1 or (ways and "client_id" not in entry):
        raise _wrong(f"a client has 'client_id' and at most one of {', '.join(_CLIENT[1:])}")
    client_id = _text(entry, "client_id") if "client_id" in entry else ""
    if not ways:
        return RegisteredClient(client_id, method="none")
    secret = _secret(ways[0], _text(entry, ways[0]))
    if ways[0] == "private_key_file":
        return RegisteredClient(client_id, private_key=secret, algorithm=key_algorithm(secret))
    return RegisteredClient(client_id, secret=secret)


def _secret(which: str, source: str) -> str:
    """The secret in a file or an environment variable."""
    if which.endswith("_file"):
        secret = _content(Path(source)).decode("utf-8", "replace").strip()
    else:
        secret = os.environ.get(source, "").strip()
    if not secret:
        raise _wrong(f"what '{which}' names is empty or not set")
    return secret


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            # A wrong path may name a device or a huge file.
            return opened.read(_LARGEST)
    except OSError as error:
        reason = in_one_line(error.strerror or type(error).__name__, 100)
        raise _wrong(f"'{file}' cannot be read ({reason})") from None


def _known(value: object, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The object, which has no other members: a misspelled one would silently not count."""
    if not isinstance(value, dict):
        raise _wrong(f"{what} is no JSON object")
    entry = cast("dict[str, Any]", value)
    if unknown := [name for name in entry if name not in names]:
        raise _wrong(f"{what} has '{unknown[0][:80]}'; known are {', '.join(names)}")
    return entry


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry[name]
    if not isinstance(value, str) or not value:
        raise _wrong(f"'{name}' is no text")
    return value


def _wrong(what: str) -> SettingInvalid:
    return SettingInvalid(
        f"The company's identity ({VARIABLE}) cannot be used: {what}",
        setting="credentials",
        fix=f"Correct the file that the environment variable {VARIABLE} names, or unset it",
    )
