"""Tokens that are bound to a key: every request proves that its sender holds the key (DPoP, RFC 9449).

Who has stolen such a token cannot use it. It is asked for only where the MCP server says that it takes it, as
many authorization servers offer DPoP to MCP servers that do not know it.
"""

import base64
import hashlib
import secrets
import time
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from ...types.errors import SettingInvalid

ALGORITHM: Final = "ES256"
WANTS_NONCE: Final = "use_dpop_nonce"
_COORDINATE_BYTES: Final = 32


class ProofKey:
    """A key pair; `pem` is its private key, for the store of logins.

    Raises:
        SettingInvalid: PyJWT or cryptography is not installed.
    """

    def __init__(self, pem: str | None = None) -> None:
        self._library = signing_library()
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        if pem is None:
            key = ec.generate_private_key(ec.SECP256R1())
            pem = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode()
        else:
            loaded = serialization.load_pem_private_key(pem.encode(), None)
            assert isinstance(loaded, ec.EllipticCurvePrivateKey)
            key = loaded
        self.pem = pem
        self._key = key
        point = key.public_key().public_numbers()
        # RFC 7518 §6.2.1.2: always the full length of a coordinate, leading zeros included.
        x, y = (_text(number.to_bytes(_COORDINATE_BYTES)) for number in (point.x, point.y))
        self._header = {"typ": "dpop+jwt", "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y}}

    def __repr__(self) -> str:
        return "<ProofKey>"

    def proof(
        self, method: str, url: str, *, nonce: str | None, token: str | None = None, body: bytes | None = None
    ) -> str:
        """The value of the header ``DPoP`` for one request; with its token and body for an MCP server.

        The digest of the body is MCP's own, as all of its requests go to one URL:
        https://github.com/modelcontextprotocol/ext-auth/blob/main/specification/draft/dpop-extension.mdx
        """
        parts = urlsplit(url)
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            # RFC 9449 §4.2: without query and fragment.
            "htu": urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")),
            "iat": int(time.time()),
        }
        if nonce is not None:
            claims["nonce"] = nonce
        if token is not None:
            claims["ath"] = _text(hashlib.sha256(token.encode()).digest())
            if body is not None:
                digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
                claims["content_digest"] = f"sha-256=:{digest}:"
        return self._library.encode(claims, self._key, algorithm=ALGORITHM, headers=self._header)


@lru_cache(maxsize=16)
def proof_key(pem: str) -> ProofKey:
    """The key of a stored login."""
    return ProofKey(pem)


def signing_library() -> Any:
    """PyJWT with cryptography; imported here, as it loads what most logins do not need."""
    try:
        import cryptography as _  # noqa: F401 - PyJWT alone cannot sign with keys
        import jwt
    except ModuleNotFoundError as error:
        raise SettingInvalid(
            f"The package '{error.name}' is not installed; it signs logins with a private key",
            setting="credentials",
            fix="Install it with: pip install 'pyjwt[crypto]'",
        ) from None
    return jwt


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
