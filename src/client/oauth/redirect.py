"""The authorization request for a person's browser, and the checks of the redirect that answers it.

OAuth 2.1 §4.1, PKCE (RFC 7636), resource indicators (RFC 8707), issuer identification (RFC 9207). No I/O.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

from ...types.errors import AuthError, origin_and_path
from ..words import in_one_line
from .metadata import ServerMetadata
from .scopes import OFFLINE


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """An authorization request, and the values needed to check and use its answer.

    Attributes:
        url: The URL to open in the browser.
        redirect_uri: The URI that receives the answer.
        state: A random text that the answer must repeat.
        verifier: The code verifier of PKCE, which proves to the token endpoint that the code is ours.
        issuer: The issuer that must answer.
        issuer_required: True if the answer must contain ``iss``.
    """

    url: str = field(repr=False)
    redirect_uri: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    issuer: str
    issuer_required: bool


def new_request(
    server: ServerMetadata, *, client_id: str, redirect_uri: str, resource: str, scope: str | None
) -> AuthorizationRequest:
    """Makes an authorization request.

    Raises:
        AuthError: The server has no authorization endpoint.
    """
    if server.authorization_endpoint is None:
        raise AuthError(
            f"The authorization server {origin_and_path(server.issuer)} has no page to log in at",
            status=401,
            fix="Use client credentials or a token instead",
        )
    verifier = secrets.token_urlsafe(64)  # RFC 7636 §4.1: 43 to 128 characters; this makes 86
    state = secrets.token_urlsafe(32)
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": s256(verifier),
        "code_challenge_method": "S256",
        "resource": resource,
    }
    if scope is not None:
        parameters["scope"] = scope
        if OFFLINE in scope.split():
            parameters["prompt"] = "consent"  # OpenID Connect Core §11: else no refresh token
    parts = urlsplit(server.authorization_endpoint)
    # RFC 6749 §3.1: a query of the endpoint's URL must be kept; no parameter may be repeated.
    kept = [(name, value) for name, value in parse_qsl(parts.query, True) if name not in parameters]
    query = urlencode([*kept, *parameters.items()])
    return AuthorizationRequest(
        url=urlunsplit((parts.scheme, parts.netloc, parts.path, query, "")),
        redirect_uri=redirect_uri,
        state=state,
        verifier=verifier,
        issuer=server.issuer,
        issuer_required=server.sends_issuer,
    )


def s256(verifier: str) -> str:
    """The code challenge of a verifier (RFC 7636 §4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()


def read_redirect(request: AuthorizationRequest, url: str) -> str:
    """Checks the URL of the redirect and returns its authorization code.

    Args:
        request: The authorization request.
        url: The whole URL of the redirect.

    Returns:
        The code.

    Raises:
        AuthError: The redirect does not answer this request, is of another issuer, or is a refusal. Texts of
            a foreign answer are not shown.
    """
    target = url.partition("?")[0]
    answers = parse_qs(urlsplit(url).query, keep_blank_values=True)
    if target != request.redirect_uri or any(len(values) > 1 for values in answers.values()):
        raise _not_ours("The login came back to another address, or with a parameter twice")
    answer = {name: values[0] for name, values in answers.items()}
    if not hmac.compare_digest(answer.get("state", "").encode(), request.state.encode()):
        raise _not_ours("The login that came back is not the one that was started (wrong state)")
    # RFC 9207 §2.4: compared as strings, without normalization, before the answer is used.
    issuer = answer.get("iss")
    if issuer is not None and issuer != request.issuer:
        raise _not_ours("The login came back from another authorization server (wrong issuer)")
    if issuer is None and request.issuer_required:
        raise _not_ours("The login came back without saying from which authorization server (no issuer)")
    if "error" in answer:
        refusal_text = in_one_line(
            ": ".join(filter(None, (answer["error"], answer.get("error_description")))), 200
        )
        raise AuthError(
            f"The authorization server refused the login: {refusal_text}",
            status=401,
            fix="Log in again and consent, or ask whoever runs the server for access",
        )
    code = answer.get("code")
    if not code:
        raise _not_ours("The login came back without a code")
    return code


def _not_ours(what: str) -> AuthError:
    return AuthError(what, status=401, fix="This can be an attack, so nothing of it was used. Log in again")
