"""What token and registration endpoints answer: tokens, a refusal, or neither.

Only a refusal ends a login, so it is told apart from an outage by tables of what servers are known to say.
What costs no security is read leniently: most providers are older than OAuth 2.1.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qsl

from ...types.errors import AuthError, ProtocolError, SettingInvalid
from ...types.secret_rules import KnownSecrets
from ...types.texts import in_one_line, origin_and_path
from ..authorization import BearerAuth
from ..protocol.messages import decode
from .dpop import WANTS_NONCE, ProofKey
from .guard import Fetched
from .logins import Tokens, lifetime

UNKNOWN_CLIENT: Final = frozenset(
    {"invalid_client", "unauthorized_client", "incorrect_client_credentials", "bad_client_secret"}
)
_OAUTH: Final = frozenset(
    {
        # RFC 6749 §4.1.2.1, §5.2; RFC 7591 §3.2.2; RFC 8707 §2; RFC 9449; OpenID Connect Core §3.1.2.6
        *("access_denied", "invalid_grant", "invalid_request", "invalid_scope", "invalid_target"),
        "invalid_resource",  # Entra ID's invalid_target
        *("unsupported_grant_type", "unsupported_response_type", "invalid_dpop_proof", WANTS_NONCE),
        *("invalid_client_metadata", "invalid_redirect_uri", "invalid_software_statement"),
        *("unapproved_software_statement", "account_selection_required", "consent_required"),
        *("interaction_required", "login_required", "expired_token", "invalid_token"),
    }
)
_GITHUB: Final = frozenset(
    {
        # https://docs.github.com/en/apps/oauth-apps/maintaining-oauth-apps/troubleshooting-oauth-app-access-token-request-errors
        *("bad_refresh_token", "bad_verification_code", "redirect_uri_mismatch", "unverified_user_email"),
    }
)
_SLACK: Final = frozenset(
    {
        # https://docs.slack.dev/reference/methods/oauth.v2.access#errors
        *("account_inactive", "bad_redirect_uri", "code_already_used", "invalid_auth", "invalid_client_id"),
        *("invalid_code", "invalid_grant_type", "invalid_refresh_token", "not_authed", "token_expired"),
        *("token_revoked",),
    }
)
_REFUSALS: Final = UNKNOWN_CLIENT | _OAUTH | _GITHUB | _SLACK
# Said with any status, also 400 and 200.
_OUTAGES: Final = frozenset(
    {
        *("server_error", "temporarily_unavailable", "slow_down"),  # RFC 6749 §4.1.2.1, RFC 8628 §3.5
        *("fatal_error", "internal_error", "ratelimited", "request_timeout", "service_unavailable"),  # Slack
    }
)
_FIXES: Final = (
    (
        ("invalid_target", "invalid_resource", "AADSTS901002", "AADSTS9010010", "AADSTS500011"),
        "The authorization server does not know this MCP server as a resource. If its scopes name the "
        "resource, as those of Entra ID do, and the MCP server may have a token for it, name them yourself "
        "(--scope, in nodes 'Scope')",
    ),
    (
        ("invalid_grant", "invalid_scope", *UNKNOWN_CLIENT),
        "Check client id, secret and scope, or log in again",
    ),
)
_DESCRIPTIONS: Final = ("error_description", "error_message", "message", "errorSummary", "detail")
# A token of another kind needs more than its text.
_PROVEN_KINDS: Final = frozenset({"dpop", "mac", "n_a", "pop"})


class GrantRefused(AuthError):  # noqa: N818 - as in types.errors
    """A refusal by the authorization server; ``error`` is its code, such as ``invalid_grant``."""

    CODE = "KMCP-LOGIN-REFUSED"

    def __init__(self, what: str, *, error: str, fix: str) -> None:
        super().__init__(what, fix=fix)
        self.error = error


def read_answer(body: bytes) -> dict[str, Any]:
    """The members of an answer, JSON or form-encoded (GitHub's) whatever its content type; empty if neither.

    Tokens may stand in another object, such as Slack's ``authed_user``.
    """
    try:
        value = decode(body)
    except ProtocolError:
        value = _form(body)
    if not isinstance(value, dict):
        return {}
    answer = cast("dict[str, Any]", value)
    if answer.get("access_token") is not None:
        return answer
    objects = [cast("dict[str, Any]", each) for each in answer.values() if isinstance(each, dict)]
    return next((each for each in objects if "access_token" in each), answer)


def _form(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode("ascii").strip(), strict_parsing=True))
    except ValueError:
        return {}


def error_code(answer: Mapping[str, Any]) -> str:
    """The code in ``error``, which some servers make an object; empty if there is none."""
    error = answer.get("error")
    if isinstance(error, dict):
        inner = cast("dict[str, Any]", error)
        error = next(
            (text for key in ("code", "type", "status") if isinstance(text := inner.get(key), str)), ""
        )
    return error.strip().lower() if isinstance(error, str) else ""


def fix_of(said: str) -> str | None:
    """What to do about a refusal, from its code and description."""
    return next((fix for signs, fix in _FIXES if any(sign in said for sign in signs)), None)


def failure(
    reply: Fetched, answer: Mapping[str, Any], what: str, issuer: str, hidden: Iterable[str]
) -> AuthError:
    """The error for an answer without what was asked for, without the `hidden` secrets, which it may quote.

    Only a code that is known as a refusal makes a `GrantRefused`, which ends the login; what a gateway or a
    server in trouble says does not.
    """
    server = origin_and_path(issuer)
    code = error_code(answer)
    described = (text for name in _DESCRIPTIONS if isinstance(text := answer.get(name), str) and text)
    said = ": ".join(filter(None, (code, next(described, ""))))
    # Some servers quote the request in their error description, which ends up in logs and tables.
    said = in_one_line(KnownSecrets(list(hidden)).in_foreign(said, lambda _: "[secret]"), 200)
    if reply.is_outage or code in _OUTAGES:
        when = f"; it asks to wait {reply.retry_after:.0f} s" if reply.retry_after is not None else ""
        return AuthError(
            f"The authorization server {server} is out of order for now: its {what} answered {reply.status}"
            f"{f' ({said})' if said else ''}{when}",
            fix="Try again later; the login is kept",
        )
    if code in _REFUSALS:
        return GrantRefused(
            f"The authorization server {server} refused: {said}",
            error=code,
            fix=fix_of(said) or "Ask whoever runs the authorization server",
        )
    return AuthError(
        f"The {what} of {server} answered {reply.status}{f' ({said})' if said else ' with nothing to use'}",
        fix="Try again later. If it stays, log in again, or ask whoever runs the authorization server",
    )


def tokens_from(answer: Mapping[str, Any], issuer: str, proof_key: ProofKey | None) -> Tokens:
    """The tokens of an answer, bound to the key if the server has done that."""
    token, kind = answer["access_token"], answer.get("token_type")
    # RFC 6749 §5.1: case-insensitive. Slack's says whose token it is, and others leave it out.
    kind = kind.strip().lower() if isinstance(kind, str) else ""
    is_bound = kind == "dpop" and proof_key is not None
    if not isinstance(token, str) or (kind in _PROVEN_KINDS and not is_bound):
        raise AuthError(
            f"The authorization server {origin_and_path(issuer)} gave no Bearer token",
            fix="This client speaks no other kind; ask whoever runs it",
        )
    try:
        # Checked here, where the server that made it can still be named.
        BearerAuth(token)
    except SettingInvalid:
        raise AuthError(
            f"The authorization server {origin_and_path(issuer)} gave a token that cannot be sent",
            fix="Ask whoever runs it",
        ) from None
    refresh = answer.get("refresh_token")
    expires_at, renew_at = lifetime(_seconds(answer.get("expires_in")))
    return Tokens(
        access_token=token,
        refresh_token=refresh if isinstance(refresh, str) and refresh else None,
        expires_at=expires_at,
        renew_at=renew_at,
        scope=_scope(answer.get("scope")),
        proof_key=proof_key.pem if is_bound and proof_key is not None else None,
    )


def _scope(value: object) -> str | None:
    """The granted scopes: also from a list, or separated by commas as GitHub and Slack do."""
    if isinstance(value, list):
        value = " ".join(each for each in cast("list[Any]", value) if isinstance(each, str))
    return " ".join(value.replace(",", " ").split()) or None if isinstance(value, str) else None


def _seconds(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e10 else None  # also refuses NaN
