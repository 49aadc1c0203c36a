"""Providers as data: public metadata and documented answers, for the authorization server of `world`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from knime_mcp.client.oauth.logins import RegisteredClient
from tests.client.oauth.world import ASM, CANARY, OIDC, Canned, World

# A request of the token endpoint, or the query of the authorization endpoint.
Asked = dict[str, Any]
Objection = Callable[[World, Asked], dict[str, str] | None]


@dataclass(frozen=True, kw_only=True)
class Provider:
    """One provider; in braces are the origin `{base}`, the `{issuer}`, and the `{mcp}` server's URL."""

    name: str
    path: str = ""  # of the issuer
    listed_as: str = "{issuer}"  # by the MCP server
    document: str  # the path of its only metadata document
    metadata: dict[str, Any]
    client: RegisteredClient | None = None  # None: it registers anybody
    scopes: str | None = None  # that the MCP server names
    chosen: str | None = None  # by the person, with --scope
    named: bool = False  # with --issuer
    shape: Callable[[dict[str, Any]], Any] = field(default=lambda body: body)
    objection: Objection = field(default=lambda world, asked: None)
    sends_iss: bool = False
    refreshes: bool = True
    steps_up: bool = True
    gone: Canned  # what it says of a refresh token that was revoked
    trouble: Canned
    particular: str  # for the table

    @property
    def how(self) -> str:
        """What a person types."""
        words = []
        if self.client is not None:
            words += ["`--client-id`"] + ["`--client-secret-env`"] * (self.client.secret is not None)
        words += ["`--issuer`"] * self.named + ["`--scope`"] * (self.chosen is not None)
        return ", ".join(words) or "nothing"

    def build(self, world: World) -> None:
        """Makes the world's authorization server this provider; its path has to be that of the issuer."""
        auth = world.auth
        names = {"base": auth.http.url, "issuer": auth.issuer, "mcp": world.url}
        auth.metadata = _filled(self.metadata, names)
        auth.metadata_paths = {self.document}
        auth.shape = self.shape
        auth.says_scope = True
        auth.objection = lambda asked: self.objection(world, asked)
        auth.gone = self.gone
        if not self.refreshes:
            auth.token_extra = {"refresh_token": None}
        if self.sends_iss:
            auth.redirect_extra = {"iss": auth.metadata["issuer"]}
        world.resource_metadata = {
            "resource": world.url,
            "authorization_servers": [self.listed_as.format(**names)],
        }
        if self.scopes is not None:
            world.resource_metadata["scopes_supported"] = self.scopes.format(**names).split()


def _filled(value: Any, names: dict[str, str]) -> Any:
    match value:
        case str():
            return value.format(**names)
        case dict():
            return {key: _filled(inner, names) for key, inner in value.items()}
        case list():
            return [_filled(inner, names) for inner in value]
        case _:
            return value


def endpoints(authorize: str, token: str, register: str | None = None) -> dict[str, str]:
    more = {} if register is None else {"registration_endpoint": register}
    return {"authorization_endpoint": authorize, "token_endpoint": token} | more


def _entra(world: World, asked: Asked) -> dict[str, str] | None:
    """Version 2: each request has scopes, and a resource has to be what they begin with."""
    scopes = [scope for scope in asked.get("scope", "").split() if "://" in scope]
    if asked.get("grant_type") != "authorization_code" and not scopes:
        return {
            "error": "invalid_request",
            "error_description": "AADSTS90009: requesting a token for itself.",
        }
    wanted = asked.get("resource")
    if wanted is not None and not all(scope.startswith(f"{wanted}/") for scope in scopes):
        said = "AADSTS9010010: The resource parameter provided in the request doesn't match"
        return {"error": "invalid_target", "error_description": said}
    return None


def _slack(world: World, asked: Asked) -> dict[str, str] | None:
    is_page = "grant_type" not in asked
    return {"error": "invalid_scope_requested"} if is_page and not asked.get("scope") else None


def _slack_tokens(body: dict[str, Any]) -> dict[str, Any]:
    scopes = body.get("scope", "").replace(" ", ",")
    return body | {"ok": True, "token_type": "user", "scope": scopes, "team": {"id": "T1"}}


def _github_tokens(body: dict[str, Any]) -> bytes:
    return urlencode(
        body | {"scope": body.get("scope", "").replace(" ", ","), "token_type": "bearer"}
    ).encode()


def _entra_tokens(body: dict[str, Any]) -> dict[str, Any]:
    kept = " ".join(scope for scope in body.get("scope", "").split() if scope != "offline_access")
    return body | {"scope": kept, "expires_in": str(body["expires_in"]), "ext_expires_in": "3599"}


BY_HAND = RegisteredClient("0f5c-app")
WITH_SECRET = RegisteredClient("0f5c-app", f"client-secret-{CANARY}")
_ENTRA: dict[str, Any] = {
    **endpoints("{base}/t1/oauth2/v2.0/authorize", "{base}/t1/oauth2/v2.0/token"),
    "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt", "client_secret_basic"],
    "scopes_supported": ["openid", "profile", "email", "offline_access"],
    "response_types_supported": ["code", "id_token", "code id_token", "id_token token"],
    "tenant_region_scope": "EU",
    "cloud_instance_name": "microsoftonline.com",
}
_ENTRA_GONE = Canned(
    400,
    {
        "error": "invalid_grant",
        "error_description": "AADSTS50173: The provided grant has expired due to it being revoked.",
        "error_codes": [50173],
        "suberror": "bad_token",
    },
)
_ENTRA_TROUBLE = Canned(
    503,
    {
        "error": "temporarily_unavailable",
        "error_description": "AADSTS90033: A transient error.",
        "error_codes": [90033],
    },
)
_S256 = {"code_challenge_methods_supported": ["S256"]}

PROVIDERS = [
    Provider(
        name="Microsoft Entra ID, one tenant",
        path="/t1/v2.0",
        document="/t1/v2.0" + OIDC,
        metadata={"issuer": "{issuer}", **_ENTRA},
        client=BY_HAND,
        scopes="{mcp}/mcp.read",
        shape=_entra_tokens,
        objection=_entra,
        gone=_ENTRA_GONE,
        trouble=_ENTRA_TROUBLE,
        particular=(
            "Names no PKCE methods, but checks PKCE. Wants scopes at a refresh. The application "
            "ID URI is the MCP server's URL, so that its scopes belong to the resource that is "
            "asked for"
        ),
    ),
    Provider(
        name="Microsoft Entra ID, all tenants, scopes `api://…`",
        path="/organizations/v2.0",
        document="/organizations/v2.0" + OIDC,
        metadata={"issuer": "{base}/{{tenantid}}/v2.0", **_ENTRA},
        client=BY_HAND,
        scopes="api://x/mcp.read",
        chosen="api://x/mcp.read",
        shape=_entra_tokens,
        objection=_entra,
        steps_up=False,
        gone=_ENTRA_GONE,
        trouble=_ENTRA_TROUBLE,
        particular=(
            "Its issuer has a gap for the tenant. It refuses a resource that the scopes do not "
            "begin with (AADSTS9010010), so name the scopes yourself: the resource is then left "
            "out. More scopes need another login"
        ),
    ),
    Provider(
        name="Okta",
        path="/oauth2/default",
        document="/oauth2/default" + OIDC,
        metadata={
            "issuer": "{issuer}",
            **endpoints("{issuer}/v1/authorize", "{issuer}/v1/token", "{base}/oauth2/v1/clients"),
            "scopes_supported": ["openid", "offline_access", "mcp.read"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
            "dpop_signing_alg_values_supported": ["RS256", "ES256"],
            **_S256,
        },
        client=BY_HAND,
        scopes="mcp.read",
        gone=Canned(
            400, {"error": "invalid_grant", "error_description": "The refresh token is invalid or expired."}
        ),
        trouble=Canned(429, {"errorCode": "E0000047", "errorSummary": "API call exceeded rate limit"}),
        particular=(
            "Its registration wants an API token. Refresh tokens rotate; they need the scope "
            "`offline_access`, which is asked for by itself"
        ),
    ),
    Provider(
        name="Auth0",
        listed_as="{issuer}",
        document=OIDC,
        metadata={
            "issuer": "{issuer}/",
            **endpoints("{issuer}/authorize", "{issuer}/oauth/token", "{issuer}/oidc/register"),
            "scopes_supported": ["openid", "profile", "offline_access"],
            "token_endpoint_auth_methods_supported": [
                "client_secret_basic",
                "client_secret_post",
                "private_key_jwt",
                "none",
            ],
            "code_challenge_methods_supported": ["S256", "plain"],
        },
        scopes="read:tools",
        gone=Canned(
            403, {"error": "invalid_grant", "error_description": "Unknown or invalid refresh token."}
        ),
        trouble=Canned(
            429, {"error": "too_many_requests", "error_description": "Global limit has been reached"}
        ),
        particular=(
            "Its issuer ends with a slash, and MCP servers leave it out. Says 403 where a refresh"
            " token is over"
        ),
    ),
    Provider(
        name="Keycloak",
        path="/realms/company",
        document="/realms/company" + OIDC,
        metadata={
            "issuer": "{issuer}",
            **endpoints(
                "{issuer}/protocol/openid-connect/auth",
                "{issuer}/protocol/openid-connect/token",
                "{issuer}/clients-registrations/openid-connect",
            ),
            "scopes_supported": ["openid", "offline_access", "tools"],
            "token_endpoint_auth_methods_supported": [
                "private_key_jwt",
                "client_secret_basic",
                "client_secret_post",
            ],
            "code_challenge_methods_supported": ["plain", "S256"],
            "dpop_signing_alg_values_supported": ["PS384", "ES256"],
            "authorization_response_iss_parameter_supported": True,
        },
        scopes="tools",
        sends_iss=True,
        shape=lambda body: body | {"not-before-policy": 0, "session_state": "s", "refresh_expires_in": 1800},
        gone=Canned(400, {"error": "invalid_grant", "error_description": "Token is not active"}),
        trouble=Canned(
            500,
            {"error": "unknown_error", "error_description": "For more on this error consult the server log."},
        ),
        particular=(
            "Redirects name the issuer, which is checked. Where its policies let nobody register:"
            " `--client-id`"
        ),
    ),
    Provider(
        name="Google",
        listed_as="{issuer}/",
        document=OIDC,
        metadata={
            "issuer": "{issuer}",
            **endpoints("{issuer}/o/oauth2/v2/auth", "{issuer}/oauth2/token"),
            "scopes_supported": ["openid", "email", "profile"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
            "code_challenge_methods_supported": ["plain", "S256"],
        },
        client=WITH_SECRET,
        named=True,
        scopes="https://www.googleapis.com/auth/drive.readonly",
        refreshes=False,
        gone=Canned(
            400, {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
        ),
        trouble=Canned(
            503,
            {
                "error": {
                    "code": 503,
                    "message": "The service is currently unavailable.",
                    "status": "UNAVAILABLE",
                }
            },
        ),
        particular=(
            "MCP servers add a slash to its issuer. Clients of the kind *Desktop app* have a "
            "secret, too. Gives a refresh token only where it is asked for offline access, as is "
            "done at `accounts.google.com`"
        ),
    ),
    Provider(
        name="GitHub",
        path="/login/oauth",
        document=ASM + "/login/oauth",
        metadata={"issuer": "{issuer}", **endpoints("{issuer}/authorize", "{issuer}/access_token"), **_S256},
        client=WITH_SECRET,
        named=True,
        scopes="repo read:org",
        shape=_github_tokens,
        gone=Canned(
            200,
            b"error=bad_refresh_token&error_description=The+refresh+token+passed+is+incorrect+or+expired.",
        ),
        trouble=Canned(502, b"<html><title>Unicorn!</title></html>", {"Content-Type": "text/html"}),
        particular=(
            "Answers form-encoded, refuses with 200, separates scopes by commas. Its metadata "
            "does not say how it wants the secret: if not by Basic, it is sent in the body"
        ),
    ),
    Provider(
        name="Slack",
        document=ASM,
        metadata={
            "issuer": "{issuer}",
            **endpoints("{issuer}/oauth/v2_user/authorize", "{issuer}/api/oauth.v2.user.access"),
            "token_endpoint_auth_methods_supported": ["client_secret_post", "none"],
            **_S256,
        },
        client=BY_HAND,
        scopes="search:read.public chat:write",
        shape=_slack_tokens,
        objection=_slack,
        gone=Canned(200, {"ok": False, "error": "invalid_refresh_token"}),
        trouble=Canned(200, {"ok": False, "error": "ratelimited"}),
        particular=("Tokens are of the kind `user`, scopes separated by commas, refusals have status 200"),
    ),
    Provider(
        name="Atlassian",
        path="/VCeDsk8ZH",
        document="/VCeDsk8ZH" + ASM,
        metadata={
            "issuer": "{base}",
            **endpoints("{issuer}/authorize", "{issuer}/oauth/token", "{issuer}/register"),
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
            "code_challenge_methods_supported": ["plain", "S256"],
        },
        scopes="read:jira-work",
        gone=Canned(403, {"error": "unauthorized_client", "error_description": "refresh_token is invalid"}),
        trouble=Canned(429, {"code": 429, "message": "Rate limit exceeded"}),
        particular=(
            "Its document stands behind the issuer's path, and names the issuer without that "
            "path, on the same origin. Says *unauthorized_client* where a refresh token is over; "
            "the next login registers a new client"
        ),
    ),
    Provider(
        name="Notion",
        document=ASM,
        metadata={
            "issuer": "{issuer}",
            **endpoints("{issuer}/authorize", "{issuer}/token", "{issuer}/register"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
            "code_challenge_methods_supported": ["plain", "S256"],
        },
        gone=Canned(400, {"error": "invalid_grant", "error_description": "Grant not found"}),
        trouble=Canned(504, b"error code: 504", {"Content-Type": "text/plain"}),
        particular=("Names no scopes, so that none are asked for. Refresh tokens rotate"),
    ),
]
