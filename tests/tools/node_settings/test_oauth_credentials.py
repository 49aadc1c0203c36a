"""OAuth client credentials in the nodes: the secret goes to one server only, which gives a token."""

import json

import pytest

from tests.client.oauth.world import basic, open_world

SECRET = "s3cr3t-canary"


@pytest.fixture
def world():
    with open_world() as opened:
        yield opened


def execute(host, world, **settings):
    ways = {"server_url": world.url, "credentials": "robot", "send_credentials_as": "client_credentials"}
    return host.run(
        "mcp_tool_provider", [None, None], ways | settings, credentials={"robot": ("robot", SECRET)}
    )


def test_the_provider_gets_a_token_and_lists(host, world, caplog):
    caplog.set_level("DEBUG")
    result = execute(host, world, issuer=world.auth.issuer, scope="a")
    assert result.ok, result.failure
    (token,) = world.auth.http.at("/token")
    assert basic(token.headers["authorization"]) == ("robot", SECRET)
    assert token.fields["scope"] == "a"
    told = json.dumps([result.outputs[0].to_pylist(), result.flow_variables], default=str)
    assert SECRET not in told + caplog.text + str(result.view_html)


def test_a_server_that_names_another_issuer_does_not_get_the_secret(host, world):
    result = execute(host, world, issuer="http://127.0.0.1:9/realm")
    assert not result.ok
    assert world.auth.http.at("/token") == []
    assert SECRET not in str(result.failure)


def test_no_issuer_is_an_error_that_says_so(host, world):
    result = execute(host, world)
    assert not result.ok
    assert "which authorization server may see the client secret" in result.failure["message"]
