"""The life of a login at each provider: found, renewed, with more scopes, in trouble, revoked."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth.browser_login import new_request
from knime_mcp.client.oauth.discovery import AuthorizationMetadata
from knime_mcp.client.oauth.grants import AuthorizationCode
from knime_mcp.client.oauth.logins import MemoryStore
from knime_mcp.client.oauth.oauth import OAuth, stored_login
from knime_mcp.types.errors import AuthError
from tests.client.oauth.providers import PROVIDERS
from tests.client.oauth.world import open_world


@pytest.fixture(params=PROVIDERS, ids=lambda provider: provider.name)
def provider(request):
    return request.param


@pytest.fixture
def world(provider):
    with open_world(issuer_path=provider.path) as opened:
        provider.build(opened)
        yield opened


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def authorization(provider, world, person, store):
    grant = AuthorizationCode(person, client=provider.client)
    issuer = world.resource_metadata["authorization_servers"][0] if provider.named else None
    return OAuth(world.url, grant, store=store, issuer=issuer, scope=provider.chosen)


def call(world, authorization):
    with MCPClient(world.url, auth=authorization) as client:
        return client.call_tool("ask", {}).text


def token_requests(world):
    return world.auth.http.at(urlsplit(world.auth.metadata["token_endpoint"]).path)


def test_a_person_logs_in(provider, world, person, authorization):
    assert call(world, authorization) == "answer"
    (page,) = (
        {name: value[0] for name, value in parse_qs(urlsplit(url).query).items()} for url in person.pages
    )
    assert page["code_challenge_method"] == "S256"
    requests = [page, *(seen.fields for seen in token_requests(world))]
    # Scopes that a person has chosen name the resource themselves, where the provider wants that.
    assert {request.get("resource") for request in requests} == {None if provider.chosen else world.url}
    registered = [seen for seen in world.auth.http.seen if "redirect_uris" in seen.fields]
    assert len(registered) == (provider.client is None)


def test_a_login_is_renewed_without_the_person_and_kept_through_trouble(
    provider, world, person, store, authorization
):
    call(world, authorization)
    for _ in range(2):
        world.expire_all()
        stored = stored_login(world.url, store=store)
        if not provider.refreshes:
            with pytest.raises(AuthError, match="Run: knime-mcp login"):
                call(world, stored)
            return
        path = urlsplit(world.auth.metadata["token_endpoint"]).path
        trouble = provider.trouble
        world.auth.http.canned[path] = replace(trouble, headers=trouble.headers | {"Retry-After": "0"})
        with pytest.raises(AuthError, match="out of order for now") as caught:
            call(world, stored)
        assert "knime-mcp login" not in str(caught.value)
        del world.auth.http.canned[path]
        assert call(world, stored) == "answer"
    assert len(person.pages) == 1


def test_a_login_that_was_revoked_asks_for_another_one(provider, world, person, store, authorization):
    call(world, authorization)
    world.expire_all()
    world.auth.refuse_refresh = True
    with pytest.raises(AuthError, match="Run: knime-mcp login"):
        call(world, stored_login(world.url, store=store))
    assert call(world, authorization) == "answer"
    assert len(person.pages) == 2


def test_more_scopes_are_asked_for_if_the_server_wants_them(provider, world, person, authorization):
    more = world.resource_metadata.get("scopes_supported", ["read"])[0] + ".more"
    world.needed = {"tools/call": more}
    if provider.steps_up:
        assert call(world, authorization) == "answer"
        assert more in person.scopes()[-1].split()
    else:
        with pytest.raises(AuthError, match=r"AADSTS9010010.*--scope"):
            call(world, authorization)
    assert len(person.pages) == 2


def test_google_is_asked_for_a_refresh_token():
    google = "https://accounts.google.com"
    server = AuthorizationMetadata(
        issuer=google, answers_as=google, authorization_endpoint=google + "/auth", token_endpoint=google
    )
    request = new_request(
        server, client_id="id", redirect_uri="http://127.0.0.1:7/callback", resource=None, scope=None
    )
    query = parse_qs(urlsplit(request.url).query)
    assert (query["access_type"], query["prompt"]) == (["offline"], ["consent"])
