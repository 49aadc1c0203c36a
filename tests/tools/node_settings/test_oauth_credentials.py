"""OAuth client credentials in the nodes: the secret goes to one server only, which gives a token."""

import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.client.oauth.test_machines import pem
from tests.client.oauth.world import basic, open_world

SECRET = "s3cr3t-canary"


@pytest.fixture
def world():
    with open_world() as opened:
        yield opened


def execute(host, world, password=SECRET, **options):
    return host.run(
        "mcp_tool_provider", [None, None], ways(world, **options), credentials={"robot": ("robot", password)}
    )


def ways(world, **options):
    lines = {"send_credentials_as": "client_credentials"} | options
    text = "\n".join(f"{name} = {value}" for name, value in lines.items())
    return {"server_url": world.url, "credentials": "robot", "connection_options": text}


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


@pytest.mark.parametrize("lines", ["as they are", "in one line"])
def test_a_private_key_signs_and_goes_nowhere(host, world, lines):
    world.auth.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
    key = pem(rsa.generate_private_key(65537, 2048))
    password = key if lines == "as they are" else " ".join(key.splitlines())
    result = execute(host, world, password, issuer=world.auth.issuer)
    assert result.ok, result.failure
    (token,) = world.auth.http.at("/token")
    assert jwt.get_unverified_header(token.fields["client_assertion"])["alg"] == "RS256"
    sent = str([*world.auth.http.seen, *world.mcp.seen])
    assert key.splitlines()[1] not in sent
