"""Tokens of a provider at the gateway: what they have to say, and clients that log in to get one."""

import json
import socket
import time
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from knime_mcp.client.oauth.grants import AuthorizationCode, ClientCredentials
from knime_mcp.client.oauth.logins import RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth
from knime_mcp.tools import BearerAuth, MCPClient
from knime_mcp.types.errors import SettingInvalid
from knime_node_knowledge.gateway.gateway_settings import read_settings
from tests.client.oauth.world import ASM, OIDC, PRM, AuthorizationServer, Canned, Person

from .test_mcp_endpoint import CALLING, LISTING, metrics, posted

RSA, OTHER, EC = (
    rsa.generate_private_key(65537, 2048),
    rsa.generate_private_key(65537, 2048),
    ec.generate_private_key(ec.SECP256R1()),
)


def jwk(key, **more):
    kind = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    return json.loads(kind.to_jwk(key.public_key())) | more


class Provider(AuthorizationServer):
    """Gives out tokens (JWT) for `resource`."""

    def __init__(self, resource):
        super().__init__(SimpleNamespace(valid={}))
        self.resource = resource
        self.metadata["jwks_uri"] = f"{self.http.url}/jwks"
        self.make_token = lambda scope, fields: self.token(scope=scope)
        self.publish(jwk(RSA, kid="a", use="sig"), jwk(EC, kid="b"))

    def publish(self, *keys):
        self.http.canned["/jwks"] = Canned(body={"keys": [*keys]})

    def token(self, key=RSA, *, algorithm="RS256", kid="a", headers=None, **claims):
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": self.resource, "sub": "anna", "exp": now + 600, "iat": now}
        found = {name: value for name, value in (usual | claims).items() if value is not None}
        return jwt.encode(found, key, algorithm, headers={"kid": kid} | (headers or {}))


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def provider(port):
    found = Provider(f"http://127.0.0.1:{port}/mcp")
    yield found
    found.http.close()


@pytest.fixture
def running(start, provider, port):
    return started(start, provider, port)


def started(start, provider, port, **environment):
    usual = {"GATEWAY_PUBLIC_URL": f"http://127.0.0.1:{port}", "GATEWAY_OAUTH_ISSUER": provider.issuer}
    return start(environment=usual | environment, gateway_port=port)


def with_token(running, message, token):
    return posted(running, message, Authorization=f"Bearer {token}")


BOTH = "tools:read tools:execute"


def test_without_a_token_clients_are_told_where_to_log_in(running, provider):
    answer = posted(running, LISTING)
    assert answer.status_code == 401
    challenge = answer.headers["WWW-Authenticate"]
    assert challenge.startswith('Bearer scope="tools:read tools:execute health:check", resource_metadata="')
    url = challenge.partition('resource_metadata="')[2].rstrip('"')
    assert url == f"{running.url}{PRM}/mcp"
    for address in (url, f"{running.url}{PRM}"):
        assert httpx.get(address, verify=False).json() == {
            "resource": f"{running.url}/mcp",
            "authorization_servers": [provider.issuer],
            "scopes_supported": ["tools:read", "tools:execute", "health:check"],
            "bearer_methods_supported": ["header"],
        }
    assert 'error="invalid_token"' in with_token(running, LISTING, "nonsense").headers["WWW-Authenticate"]


def test_scopes_of_a_token_count(running, provider):
    reads, calls = provider.token(scope="tools:read"), provider.token(scp=["tools:execute"])
    assert with_token(running, LISTING, reads).status_code == 200
    refused = with_token(running, CALLING, reads)
    assert refused.status_code == 403
    assert refused.headers["WWW-Authenticate"].startswith(
        'Bearer error="insufficient_scope", scope="tools:execute", resource_metadata='
    )
    assert with_token(running, CALLING, calls).json()["result"]["structuredContent"]["total"] > 0
    assert with_token(running, LISTING, provider.token()).status_code == 403
    # Tokens count at the other endpoints, too, and keys beside them.
    with running.client("") as client:
        headers = {"Authorization": f"Bearer {reads}"}
        assert client.get("/api/v1/mcp/tools", headers=headers).status_code == 200
        assert client.get("/api/v1/mcp/health", headers=headers).status_code == 403
    assert posted(running, LISTING, running.key()).status_code == 200
    assert with_token(running, LISTING, running.key()).status_code == 200


def test_names_of_the_providers_scopes_and_roles_can_be_mapped(start, provider, port):
    pairs = "Nodes.Read=tools:read, Nodes.Call=tools:execute, Nodes.Call=tools:read"
    running = started(start, provider, port, GATEWAY_OAUTH_SCOPES=pairs, GATEWAY_OAUTH_AUDIENCE="api://nodes")
    token = provider.token(aud="api://nodes", roles=["Nodes.Call"])
    assert with_token(running, CALLING, token).status_code == 200
    assert with_token(running, LISTING, token).status_code == 200
    assert with_token(running, LISTING, provider.token(aud="api://nodes", scope=BOTH)).status_code == 403
    assert with_token(running, LISTING, provider.token(scp="Nodes.Call")).status_code == 401
    document = httpx.get(f"{running.url}{PRM}/mcp", verify=False).json()
    assert document["scopes_supported"] == ["Nodes.Read", "Nodes.Call"]


def unsigned(provider):
    return jwt.encode(
        {"iss": provider.issuer, "aud": provider.resource, "exp": 9e9, "scope": BOTH}, None, "none"
    )


def signed_with_the_public_key(provider):
    """What a verifier takes that lets the token choose between public keys and shared secrets."""
    pem = jwk(RSA)["n"].encode()
    return provider.token(pem, algorithm="HS256", scope=BOTH)


def test_other_tokens_are_refused(subtests, running, provider):
    for make in [
        lambda provider: provider.token(exp=int(time.time()) - 60, scope=BOTH),
        lambda provider: provider.token(nbf=int(time.time()) + 600, scope=BOTH),
        lambda provider: provider.token(exp=None, scope=BOTH),
        lambda provider: provider.token(aud="https://elsewhere.example/mcp", scope=BOTH),
        lambda provider: provider.token(aud=None, scope=BOTH),
        lambda provider: provider.token(iss="https://elsewhere.example", scope=BOTH),
        lambda provider: provider.token(iss=None, scope=BOTH),
        lambda provider: provider.token(OTHER, scope=BOTH),
        lambda provider: provider.token(OTHER, kid="unknown", scope=BOTH),
        lambda provider: provider.token(RSA, kid="b", scope=BOTH),
        lambda provider: provider.token(headers={"typ": "logout+jwt"}, scope=BOTH),
        unsigned,
        signed_with_the_public_key,
        lambda provider: provider.token(scope=BOTH)[:-4] + "AAAA",
        lambda provider: provider.token(scope=BOTH) + ".x",
        lambda provider: "a.b.c",
        lambda provider: "x" * 20_000,
        lambda provider: "é.ü.ß".encode().decode("latin-1"),
    ]:
        with subtests.test(make=make):
            answer = posted(running, LISTING, Authorization=b"Bearer " + make(provider).encode("latin-1"))
            assert answer.status_code == 401
            assert "WWW-Authenticate" in answer.headers


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
def test_usual_signatures_are_taken(running, provider, algorithm):
    assert with_token(running, LISTING, provider.token(algorithm=algorithm, scope=BOTH)).status_code == 200
    assert with_token(running, LISTING, provider.token(EC, algorithm="ES256", kid="b", scope=BOTH)).is_success


def test_keys_are_fetched_once_and_new_ones_when_they_are_named(running, provider, monkeypatch):
    for _ in range(3):
        assert with_token(running, LISTING, provider.token(scope=BOTH)).is_success
    assert len(provider.http.at("/jwks")) == 1
    provider.publish(jwk(OTHER, kid="c"))
    new = provider.token(OTHER, kid="c", scope=BOTH)
    # Not at once, as anybody can name keys that nobody knows.
    assert with_token(running, LISTING, new).status_code == 401
    assert len(provider.http.at("/jwks")) == 1
    monkeypatch.setattr("knime_node_knowledge.gateway.access_tokens._PAUSE_SECONDS", 0)
    assert with_token(running, LISTING, new).is_success
    assert with_token(running, LISTING, provider.token(scope=BOTH)).status_code == 401


def test_a_provider_that_does_not_answer_is_503_and_keys_go_on(running, provider, monkeypatch):
    known = provider.http.canned["/jwks"]
    provider.http.canned["/jwks"] = Canned(500)
    assert with_token(running, LISTING, provider.token(scope=BOTH)).status_code == 503
    provider.http.canned["/jwks"] = known
    assert with_token(running, LISTING, provider.token(scope=BOTH)).is_success
    provider.http.canned["/jwks"] = Canned(500)
    monkeypatch.setattr("knime_node_knowledge.gateway.access_tokens._KEPT_SECONDS", 0)
    assert with_token(running, LISTING, provider.token(scope=BOTH)).is_success
    # Without a provider, keys of the gateway work.
    assert posted(running, LISTING, running.key()).is_success


@pytest.mark.parametrize("place", [ASM, OIDC])
def test_metadata_name_the_keys_and_their_own_issuer(start, provider, port, place):
    provider.metadata_paths = {place}
    running = started(start, provider, port)
    assert with_token(running, LISTING, provider.token(scope=BOTH)).is_success
    provider.metadata["issuer"] = "https://elsewhere.example"
    other = start(
        environment={
            "GATEWAY_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "GATEWAY_OAUTH_ISSUER": provider.issuer,
        }
    )
    assert with_token(other, LISTING, provider.token(scope=BOTH)).status_code == 503


def test_the_limit_counts_for_each_person(start, provider, port):
    running = started(start, provider, port, GATEWAY_RATE_LIMIT="2")
    anna, bert = (provider.token(sub=name, azp="program", scope=BOTH) for name in ("anna", "bert"))
    assert [with_token(running, LISTING, anna).status_code for _ in range(3)] == [200, 200, 429]
    assert with_token(running, LISTING, bert).status_code == 200


def test_the_log_names_the_program_and_the_metrics_count_what_was_refused(running, provider, caplog):
    with caplog.at_level("INFO", "knime_node_knowledge.gateway"):
        with_token(running, CALLING, provider.token(azp="reports", scope=BOTH))
        with_token(running, LISTING, "nonsense")
    lines = [record.getMessage() for record in caplog.records if "/mcp" in record.getMessage()]
    assert lines == ["POST /mcp search_nodes 200 for client reports", "POST /mcp 401"]
    assert 'refused_total{reason="token"} 1.0' in metrics(running)


def test_our_client_logs_in(running, provider):
    person = Person()
    with MCPClient(
        f"{running.url}/mcp", auth=OAuth(f"{running.url}/mcp", AuthorizationCode(person))
    ) as client:
        assert len(client.list_tools()) > 3
        assert client.call_tool("search_nodes", {"query": "send mail"}).structured_content["total"] > 0
    (page,) = person.pages
    query = parse_qs(urlsplit(page).query)
    assert query["resource"] == [f"{running.url}/mcp"]
    assert set(query["scope"][0].split()) == {"tools:read", "tools:execute", "health:check"}


def test_our_client_logs_in_without_a_person(running, provider):
    grant = ClientCredentials(RegisteredClient("robot", secret="s"))
    login = OAuth(f"{running.url}/mcp", grant, issuer=provider.issuer)
    with MCPClient(f"{running.url}/mcp", auth=login) as client:
        assert client.call_tool("search_nodes", {"query": "send mail"}).structured_content["total"] > 0


def test_the_official_client_logs_in(running, provider):
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.auth.oauth2 import AuthorizationCodeResult
    from mcp.client.session import ClientSession
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.auth import OAuthClientMetadata

    class Kept:
        tokens = client = None

        async def get_tokens(self):
            return self.tokens

        async def set_tokens(self, tokens):
            self.tokens = tokens

        async def get_client_info(self):
            return self.client

        async def set_client_info(self, client_info):
            self.client = client_info

    answered = []

    async def redirect(url):
        answered.append(httpx.get(url, trust_env=False, verify=False).headers["location"])

    async def callback():
        found = parse_qs(urlsplit(answered[-1]).query)
        return AuthorizationCodeResult(code=found["code"][0], state=found["state"][0])

    async def use():
        about = OAuthClientMetadata(redirect_uris=["http://127.0.0.1:1/callback"], client_name="official")
        login = OAuthClientProvider(f"{running.url}/mcp", about, Kept(), redirect, callback)
        async with (
            httpx2.AsyncClient(auth=login, follow_redirects=True) as http,
            streamable_http_client(f"{running.url}/mcp", http_client=http) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            await session.initialize()
            tools = await session.list_tools()
            found = await session.call_tool("search_nodes", {"query": "send mail"})
            return [tool.name for tool in tools.tools], found

    names, found = anyio.run(use)
    assert "search_nodes" in names
    assert found.structured_content["total"] > 0
    assert len(answered) == 1


@pytest.mark.parametrize(
    "environment",
    [
        {"GATEWAY_OAUTH_ISSUER": "https://login.example"},
        {"GATEWAY_OAUTH_ISSUER": "http://login.example", "GATEWAY_PUBLIC_URL": "https://nodes.example"},
        {"GATEWAY_PUBLIC_URL": "http://nodes.example"},
        {"GATEWAY_OAUTH_SCOPES": "Nodes.Read"},
        {"GATEWAY_OAUTH_SCOPES": "Nodes.Read=tools:all"},
    ],
)
def test_settings_that_cannot_protect_are_refused(environment):
    with pytest.raises(SettingInvalid, match="GATEWAY_"):
        read_settings(environment)


def test_a_key_of_the_gateway_is_never_sent_to_the_provider(running, provider):
    with MCPClient(f"{running.url}/mcp", auth=BearerAuth(running.key())) as client:
        client.list_tools()
    assert provider.http.seen == []
