"""Tokens that are bound to a key (DPoP): asked for where the MCP server takes them, proven per request."""

import json
import threading

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth.grants import AuthorizationCode, ClientCredentials
from knime_mcp.client.oauth.logins import MemoryStore, RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth, login_key
from knime_mcp.types.errors import AuthError


@pytest.fixture
def bound(world):
    world.auth.binds = True
    world.auth.metadata["dpop_signing_alg_values_supported"] = ["ES256"]
    world.challenge = f'DPoP resource_metadata="{world.mcp.url}{world.metadata_path}"'
    return world


def use(world, authorization):
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
        return client.call_tool("ask", {}).text


def test_each_request_proves_that_it_has_the_key(bound, person):
    authorization = OAuth(bound.url, AuthorizationCode(person))
    assert use(bound, authorization) == "answer"
    assert "a DPoP token from" in authorization.describe()
    sent = [seen.headers for seen in bound.mcp.seen if "authorization" in seen.headers]
    assert len({headers["dpop"] for headers in sent}) == len(sent) >= 3


def test_a_nonce_is_sent_by_the_next_proof(bound, person):
    bound.nonce, bound.auth.nonce = "first", "of-the-token-endpoint"
    authorization = OAuth(bound.url, AuthorizationCode(person))
    with MCPClient(bound.url, auth=authorization) as client:
        assert client.call_tool("ask", {}).text == "answer"
        bound.nonce = "second"
        assert client.call_tool("ask", {}).text == "answer"
    assert len(person.pages) == 1


def test_a_nonce_that_never_counts_ends_as_an_error(bound, person):
    bound.nonce = "always the same"
    authorization = OAuth(bound.url, AuthorizationCode(person))
    authorization.take_nonce = lambda nonce: None
    with pytest.raises(AuthError, match="401"):
        use(bound, authorization)


def test_a_stored_login_keeps_its_key_through_a_refresh(bound, person):
    store = MemoryStore()
    assert use(bound, OAuth(bound.url, AuthorizationCode(person), store=store)) == "answer"
    bound.expire_all()
    later = OAuth(bound.url, AuthorizationCode(), store=store)
    assert use(bound, later) == "answer"
    assert bound.auth.grants == ["authorization_code", "refresh_token"]
    assert len(set(bound.bound.values())) == 1
    key = json.loads(store.load(login_key(bound.url)))["tokens"]["proof_key"]
    assert key in later.secrets()
    assert key not in repr(later.login)


def test_threads_prove_the_token_that_they_send(bound):
    authorization = OAuth(
        bound.url, ClientCredentials(RegisteredClient("robot", "s3cr3t-canary")), issuer=bound.auth.issuer
    )
    texts = []
    with MCPClient(bound.url, auth=authorization) as client:
        client.connect()

        def call():
            for number in range(5):
                if number == 2:
                    bound.expire_all()
                texts.append(client.call_tool("ask", {}).text)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert texts == ["answer"] * 20


def test_a_server_that_takes_bearer_gets_bearer_from_a_server_that_could_bind(bound, person):
    bound.auth.binds = False
    bound.challenge = f'Bearer resource_metadata="{bound.mcp.url}{bound.metadata_path}"'
    assert use(bound, OAuth(bound.url, AuthorizationCode(person))) == "answer"
    assert not any("dpop" in seen.headers for seen in [*bound.mcp.seen, *bound.auth.http.seen])


def test_metadata_can_ask_for_it_as_well_as_a_challenge(bound, person):
    bound.challenge = f'Bearer resource_metadata="{bound.mcp.url}{bound.metadata_path}"'
    bound.resource_metadata["dpop_bound_access_tokens_required"] = True
    assert use(bound, OAuth(bound.url, AuthorizationCode(person))) == "answer"
    assert len(bound.bound) == 1


def test_an_authorization_server_with_other_signatures_is_named(bound, person):
    bound.auth.metadata["dpop_signing_alg_values_supported"] = ["PS512"]
    with pytest.raises(AuthError, match=r"PS512 for that; this client signs with ES256"):
        use(bound, OAuth(bound.url, AuthorizationCode(person)))
    assert person.pages == []


def test_a_token_that_is_bound_without_being_asked_is_refused(world, person):
    world.auth.token_extra = {"token_type": "DPoP"}
    with pytest.raises(AuthError, match="gave no Bearer token"):
        use(world, OAuth(world.url, AuthorizationCode(person)))


@pytest.mark.parametrize("scheme", ["Bearer", "DPoP"])
def test_a_bound_login_gets_more_scopes_in_a_bound_token_whatever_the_challenge_names(bound, person, scheme):
    bound.needed = {"tools/call": "call"}
    bound.forbidden_scheme = scheme
    assert use(bound, OAuth(bound.url, AuthorizationCode(person))) == "answer"
    assert len(person.pages) == 2
    assert len(set(bound.bound.values())) == 1
