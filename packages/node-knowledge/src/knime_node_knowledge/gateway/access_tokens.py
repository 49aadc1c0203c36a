"""Tokens (JWT) of the company's provider: what they have to say, and how clients find the provider.

The gateway is a resource server of OAuth 2.1 as MCP describes it
(https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization): it publishes who gives out its
tokens (RFC 9728), takes only those that are meant for it (RFC 8707, RFC 9068), and passes none on.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import anyio
import jwt

from knime_mcp.yaml_text import as_list, as_mapping

from .api_keys import Caller, Scope
from .gateway_errors import unavailable
from .gateway_settings import is_trusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .gateway_settings import GatewaySettings

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_ALGORITHMS: Final = tuple(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512))
"""Signatures whose key is public. What is signed with a shared secret could be signed with the public key."""

_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_CLAIMS: Final = ("exp", "iss", "aud")
_LEEWAY_SECONDS: Final = 30
_LONGEST: Final = 16_384
_LARGEST_DOCUMENT: Final = 1_000_000
_FETCH_SECONDS: Final = 5.0
_KEPT_SECONDS: Final = 3600.0
_PAUSE_SECONDS: Final = 30.0
"""The time between two questions for keys, as anybody can send tokens that name a key nobody knows."""

_log = logging.getLogger("knime_node_knowledge.gateway")


class TokenVerifier:
    """The provider's tokens for one gateway. Its public keys are fetched when they are first needed."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._issuer = settings.gateway_oauth_issuer or ""
        self._audience = settings.gateway_oauth_audience or (settings.resource,)
        self._jwks_url = settings.gateway_oauth_jwks_url
        self._resource = settings.resource
        names = [pair.partition("=")[::2] for pair in settings.gateway_oauth_scopes]
        self._scopes = [(theirs, Scope(ours)) for theirs, ours in names] or [
            (own.value, own) for own in Scope
        ]
        self._keys: tuple[jwt.PyJWK, ...] = ()
        self._fetched = -_KEPT_SECONDS
        self._lock = anyio.Lock()

    @property
    def metadata_url(self) -> str:
        """Where the metadata are: the path of the resource follows (RFC 9728, section 3.1)."""
        parts = urlsplit(self._resource)
        return f"{parts.scheme}://{parts.netloc}{METADATA_PATH}{parts.path}"

    def metadata(self) -> dict[str, Any]:
        return {
            "resource": self._resource,
            "authorization_servers": [self._issuer],
            "scopes_supported": list(dict.fromkeys(theirs for theirs, _ in self._scopes)),
            "bearer_methods_supported": ["header"],
        }

    def challenge(self, error: str = "", scope: Scope | None = None) -> dict[str, str]:
        """The header that sends a client to the provider, for all scopes or for one that it lacks."""
        wanted = [theirs for theirs, ours in self._scopes if scope in (None, ours)]
        parts = {
            "error": error,
            "scope": " ".join(dict.fromkeys(wanted)),
            "resource_metadata": self.metadata_url,
        }
        return {
            "WWW-Authenticate": "Bearer "
            + ", ".join(f'{name}="{text}"' for name, text in parts.items() if text)
        }

    async def caller(self, token: str) -> Caller | None:
        """Whom a token names; None if it is none of the provider's for this server, or not in force."""
        if len(token) > _LONGEST:
            return None
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError):
            return None
        # RFC 8725, sections 3.1 and 3.11: the sender chooses neither the algorithm nor the kind of token.
        if header.get("alg") not in _ALGORITHMS or str(header.get("typ", "jwt")).lower() not in _TYPES:
            return None
        for key in await self._keys_for(header.get("kid")):
            claims = self._claims(token, key)
            if claims is not None:
                return self._caller(claims)
        return None

    def _claims(self, token: str, key: jwt.PyJWK) -> dict[str, Any] | None:
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=[*_ALGORITHMS],
                audience=[*self._audience],
                issuer=self._issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": [*_CLAIMS]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:  # a key of another kind is a TypeError
            _log.debug("A token is not taken: %s", type(error).__name__)
            return None

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        # Providers differ: `scope` is of RFC 8693, `scp` and `roles` are Microsoft's.
        granted = {name for claim in ("scope", "scp", "roles") for name in _names(claims.get(claim))}
        who = next((str(claims[name]) for name in ("client_id", "azp", "sub") if claims.get(name)), "unknown")
        return Caller(
            # Whose limit counts: of each person, not of a program that many use.
            id=f"{self._issuer} {claims.get('sub') or who}"[:300],
            name=who[:100] if who.isprintable() else "unknown",
            scopes=frozenset(ours for theirs, ours in self._scopes if theirs in granted),
        )

    async def _keys_for(self, kid: Any) -> list[jwt.PyJWK]:
        async with self._lock:
            age = time.monotonic() - self._fetched
            found = self._named(kid)
            # A provider that changes its keys names one that is not known yet.
            if age > _KEPT_SECONDS or (not found and age > _PAUSE_SECONDS):
                await self._fetch()
                found = self._named(kid)
        return found

    def _named(self, kid: Any) -> list[jwt.PyJWK]:
        return [key for key in self._keys if kid is None or key.key_id in (kid, None)]

    async def _fetch(self) -> None:
        """Fetches the keys; those that are known go on if the provider does not answer."""
        try:
            self._jwks_url = self._jwks_url or await self._discovered()
            document = await _fetched(self._jwks_url)
            self._keys = tuple(_public_keys(document.get("keys")))
        except (OSError, ValueError, KeyError, LookupError) as error:
            why = f"The provider's keys cannot be fetched: {type(error).__name__}: {error}"
            if not self._keys:
                raise unavailable(why, "The provider of logins does not answer. Try again later.") from None
            _log.warning(why)
        # Also after a failure, so that a provider that is down is not asked for each token.
        self._fetched = time.monotonic()

    async def _discovered(self) -> str:
        """The URL of the keys: https://www.rfc-editor.org/rfc/rfc8414#section-3.1, and OpenID Connect's."""
        parts = urlsplit(self._issuer)
        host, path = f"{parts.scheme}://{parts.netloc}/.well-known", parts.path.rstrip("/")
        for url in (
            f"{host}/oauth-authorization-server{path}",
            f"{host}/openid-configuration{path}",
            f"{self._issuer.rstrip('/')}/.well-known/openid-configuration",
        ):
            try:
                document = await _fetched(url)
            except (OSError, ValueError):
                continue
            # RFC 8414, section 3.3: metadata of another issuer must not be used.
            if document.get("issuer") == self._issuer and is_trusted(str(document.get("jwks_uri"))):
                return str(document["jwks_uri"])
        raise LookupError(f"{self._issuer} has no metadata with jwks_uri; GATEWAY_OAUTH_JWKS_URL can name it")


async def _fetched(url: str) -> dict[str, Any]:
    import httpx

    try:
        async with (
            httpx.AsyncClient(timeout=_FETCH_SECONDS) as client,
            client.stream("GET", url, headers={"Accept": "application/json"}) as response,
        ):
            response.raise_for_status()
            body = b""
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _LARGEST_DOCUMENT:
                    raise ValueError("the document is too large")
    except httpx.HTTPError as error:
        raise OSError(type(error).__name__) from None
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("the document is no object")
    return cast("dict[str, Any]", found)


def _public_keys(entries: Any) -> Iterable[jwt.PyJWK]:
    for found in map(as_mapping, as_list(entries)):
        if found.get("use", "sig") != "sig" or found.get("kty") == "oct":
            continue
        try:
            yield jwt.PyJWK(found)
        except (jwt.PyJWTError, ValueError):
            continue  # of a kind that this version does not know; the others count


def _names(claim: Any) -> Iterable[str]:
    if isinstance(claim, str):
        return claim.split()
    return [name for name in as_list(claim) if isinstance(name, str)]
