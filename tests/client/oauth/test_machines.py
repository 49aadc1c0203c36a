"""Client credentials: a program logs in by secret or by key."""

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth.grants import ClientCredentials
from knime_mcp.client.oauth.logins import RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth
from knime_mcp.types.errors import AuthError, SettingInvalid
from tests.client.oauth.world import basic


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def machine(world, client, **options):
    options = {"issuer": world.auth.issuer} | options
    return OAuth(world.url, ClientCredentials(client), **options)


def use(world, authorization):
    with MCPClient(world.url, auth=authorization) as client:
        return client.call_tool("ask", {}).text


@pytest.mark.parametrize(
    ("offered", "way"),
    [(["client_secret_basic"], "basic"), (["client_secret_post"], "post"), (None, "basic")],
)
def test_a_secret_is_sent_in_the_way_that_the_server_offers(world, offered, way):
    world.auth.metadata["token_endpoint_auth_methods_supported"] = offered
    world.auth.metadata["code_challenge_methods_supported"] = None  # of no interest without a browser
    world.auth.metadata["authorization_endpoint"] = None
    assert use(world, machine(world, RegisteredClient("robot", "s3cr3t-canary"), scope="a b")) == "answer"
    (token,) = world.auth.http.at("/token")
    assert token.fields["grant_type"] == "client_credentials"
    assert token.fields["resource"] == world.url
    assert token.fields["scope"] == "a b"
    if way == "basic":
        assert basic(token.headers["authorization"]) == ("robot", "s3cr3t-canary")
        assert "client_secret" not in token.fields
    else:
        assert token.fields["client_secret"] == "s3cr3t-canary"
        assert "authorization" not in token.headers


@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
def test_a_key_signs_for_this_issuer_only(world, algorithm):
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if algorithm == "ES256"
        else rsa.generate_private_key(65537, 2048)
    )
    world.auth.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
    assert (
        use(
            world,
            machine(world, RegisteredClient("robot", private_key=pem(key), algorithm=algorithm), issuer=None),
        )
        == "answer"
    )
    (token,) = world.auth.http.at("/token")
    assert token.fields["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    claims = jwt.decode(
        token.fields["client_assertion"],
        key.public_key(),
        algorithms=[algorithm],
        audience=world.auth.issuer,
        options={"require": ["exp", "iat", "jti", "iss", "sub", "aud"]},
    )
    assert claims["iss"] == claims["sub"] == "robot"
    assert 0 < claims["exp"] - claims["iat"] <= 600


@pytest.mark.parametrize("algorithm", ["RS256", "HS256", "none", "ES999"])
def test_a_key_that_does_not_fit_is_not_shown(world, algorithm):
    world.auth.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
    key = pem(ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(SettingInvalid) as caught:
        use(world, machine(world, RegisteredClient("robot", private_key=key, algorithm=algorithm)))
    assert key.splitlines()[1] not in str(caught.value)
    assert caught.value.__cause__ is None
    assert world.auth.http.at("/token") == []


def test_a_server_that_takes_no_secrets_is_told_apart(world):
    world.auth.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt", "none"]
    with pytest.raises(AuthError, match=r"takes private_key_jwt, none, this client has client_secret_basic"):
        use(world, machine(world, RegisteredClient("robot", "s3cr3t")))
    assert world.auth.http.at("/token") == []


def test_a_token_that_ended_is_replaced_without_a_refresh_token(world):
    authorization = machine(world, RegisteredClient("robot", "s3cr3t-canary"))
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
        world.expire_all()
        assert client.call_tool("ask", {}).text == "answer"
    assert world.auth.grants == ["client_credentials"] * 2


def test_a_token_that_is_due_is_replaced_before_it_is_used(world):
    world.auth.expires_in = 0
    authorization = machine(world, RegisteredClient("robot", "s3cr3t-canary"))
    authorization.log_in()
    world.auth.expires_in = 3600
    use(world, authorization)
    assert world.auth.grants == ["client_credentials"] * 2
    first = next(seen for seen in world.mcp.seen if seen.method == "POST")
    assert "authorization" in first.headers


def test_missing_scopes_are_asked_for_once(world):
    world.needed = {"tools/call": "call"}
    assert use(world, machine(world, RegisteredClient("robot", "s3cr3t-canary"), scope="list")) == "answer"
    assert [seen.fields["scope"] for seen in world.auth.http.at("/token")] == ["list", "list call"]
