"""No token, code, verifier, secret or key is ever seen: not in errors, logs, descriptions or tracebacks."""

import logging
import traceback

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth.grants import AuthorizationCode, ClientCredentials
from knime_mcp.client.oauth.logins import Login, MemoryStore, RegisteredClient, Tokens, to_text
from knime_mcp.client.oauth.oauth import OAuth, login_key
from knime_mcp.types.errors import AuthError, MCPError
from tests.client.oauth.world import CANARY, Canned

pytestmark = pytest.mark.quick


def everything(error, authorization, store, caplog):
    told = [str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error))]
    told += [repr(authorization), authorization.describe(), authorization.identity, repr(store)]
    told += [repr(authorization.login), caplog.text]
    return "\n".join(told)


def test_a_whole_life_of_a_login_shows_no_secret(world, person, caplog):
    caplog.set_level(logging.DEBUG)
    store = MemoryStore()
    authorization = OAuth(world.url, AuthorizationCode(person), store=store)
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
        world.expire_all()
        client.list_tools()
        world.expire_all()
        world.auth.refuse_refresh = True
        world.auth.redirect_extra = {"code": None, "error": "access_denied"}
        with pytest.raises(AuthError) as caught:
            client.list_tools()
    own = [record for record in caplog.records if record.name.startswith("knime_mcp")]
    assert own, "something is logged"
    caplog.records[:] = own
    told = everything(caught.value, authorization, store, caplog)
    assert CANARY not in told.replace(caplog.text, "") + "\n".join(record.getMessage() for record in own)


def test_a_token_endpoint_that_echoes_secrets(world, caplog):
    caplog.set_level(logging.DEBUG, "knime_mcp")
    secret = f"machine-{CANARY}"
    store = MemoryStore()
    authorization = OAuth(
        world.url, ClientCredentials(RegisteredClient("robot", secret)), store=store, issuer=world.auth.issuer
    )
    world.auth.http.canned["/token"] = Canned(
        400, {"error": "invalid_client", "error_description": f"the secret {secret} is wrong"}
    )
    with (
        pytest.raises(AuthError, match=r"the secret \[secret\] is wrong") as caught,
        MCPClient(world.url, auth=authorization),
    ):
        pass
    assert CANARY not in everything(caught.value, authorization, store, caplog)


def test_an_mcp_server_that_echoes_the_token(world, person, caplog):
    caplog.set_level(logging.DEBUG, "knime_mcp")
    store = MemoryStore()
    authorization = OAuth(world.url, AuthorizationCode(person), store=store)
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
        token = authorization.login.tokens.access_token
        world.mcp.canned["/mcp"] = Canned(500, f"bad token {token}".encode(), {"Content-Type": "text/plain"})
        with pytest.raises(MCPError, match=r"bad token \[secret\]") as caught:
            client.call_tool("ask", {})
    assert CANARY not in everything(caught.value, authorization, store, caplog)


def test_past_tokens_are_still_blacked_out(world, person):
    authorization = OAuth(world.url, AuthorizationCode(person))
    tokens = [authorization.log_in().tokens.access_token for _ in range(3)]
    assert set(tokens) <= set(authorization.secrets())


def test_the_grant_s_own_secrets_are_blacked_out_however_many_tokens_there_were():
    """Another process renews the token, and this one finds it in the store."""
    url, client, store = "https://host/mcp", RegisteredClient("robot", private_key=CANARY), MemoryStore()
    authorization = OAuth(url, ClientCredentials(client), store=store)
    for number in range(100):
        authorization.headers()
        login = Login("https://login", url, RegisteredClient("robot"), Tokens(f"token-{number}"))
        store.save(login_key(url), to_text(login))
        assert authorization.challenged(401, None)
    assert {CANARY, "token-99", "token-98"} <= set(authorization.secrets())
