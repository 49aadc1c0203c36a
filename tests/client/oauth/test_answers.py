"""What token endpoints answer in the wild: tokens in many forms, refusals, and troubles that end no login."""

import json
from urllib.parse import urlencode

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth import answers
from knime_mcp.client.oauth.answers import GrantRefused
from knime_mcp.client.oauth.grants import AuthorizationCode, ClientCredentials
from knime_mcp.client.oauth.guard import Fetched
from knime_mcp.client.oauth.logins import MemoryStore, RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth
from knime_mcp.types.errors import AuthError
from tests.client.oauth.world import CANARY, Canned, World, in_trouble

ISSUER = "https://as.example"
BARE = {"access_token": "t"}

# what is answered, and what is read of it: token, scope, whether it ends
TOKENS = [
    (BARE | {"token_type": "Bearer"}, ("t", None, False)),
    (BARE, ("t", None, False)),
    (BARE | {"token_type": None}, ("t", None, False)),
    (BARE | {"token_type": "BEARER "}, ("t", None, False)),
    (BARE | {"token_type": "user"}, ("t", None, False)),  # Slack
    (BARE | {"token_type": "bot", "ok": True}, ("t", None, False)),  # Slack
    (BARE | {"token_type": "access_token"}, ("t", None, False)),
    (BARE | {"token_type": ["Bearer"]}, ("t", None, False)),
    (BARE | {"expires_in": "5250", "ext_expires_in": "5250"}, ("t", None, True)),  # Entra ID
    (BARE | {"expires_in": 3599.5}, ("t", None, True)),
    (BARE | {"expires_in": 0}, ("t", None, True)),
    (BARE | {"expires_in": "3600abc"}, ("t", None, False)),
    (BARE | {"expires_in": {}}, ("t", None, False)),
    (BARE | {"scope": "a b"}, ("t", "a b", False)),
    (BARE | {"scope": ["a", "b"]}, ("t", "a b", False)),
    (BARE | {"scope": "a,b"}, ("t", "a b", False)),  # GitHub, Slack
    (BARE | {"scope": ""}, ("t", None, False)),
    (BARE | {"scope": 7}, ("t", None, False)),
    ({"ok": True, "authed_user": BARE | {"scope": "a"}}, ("t", "a", False)),  # Slack
    ({"code": 0, "data": BARE | {"expires_in": 7200}}, ("t", None, True)),
    ({"access_token": None, "result": BARE}, ("t", None, False)),
    (
        b"access_token=t&expires_in=28800&refresh_token=r&scope=repo%2Cgist&token_type=bearer",
        ("t", "repo gist", True),
    ),
    (b"access_token=t\r\n", ("t", None, False)),
    (b'\xef\xbb\xbf{"access_token": "t"}', ("t", None, False)),
]
REFUSED, TROUBLE, NEITHER = "refused", "out of order", "neither"
# status, body, what it is, and what the error has to say
FAILURES = [
    (400, {"error": "invalid_grant", "error_description": "gone"}, REFUSED, "invalid_grant: gone"),
    (401, {"error": "invalid_client"}, REFUSED, "invalid_client"),
    (400, {"error": "invalid_request", "error_description": "over"}, REFUSED, "invalid_request: over"),
    (400, {"error": "INVALID_GRANT"}, REFUSED, "invalid_grant"),
    (400, b"error=invalid_grant&error_description=The+token+is+gone", REFUSED, "The token is gone"),
    (
        403,
        {"error": "unauthorized_client", "error_description": "x"},
        REFUSED,
        "unauthorized_client",
    ),  # Atlassian
    (200, {"ok": False, "error": "invalid_refresh_token"}, REFUSED, "invalid_refresh_token"),  # Slack
    (200, b"error=bad_refresh_token", REFUSED, "bad_refresh_token"),  # GitHub
    (400, {"error": "invalid_target"}, REFUSED, "--scope"),
    (400, {"error": {"code": "invalid_grant", "message": "x"}}, REFUSED, "invalid_grant"),
    (503, {"error": "temporarily_unavailable", "error_description": "try again"}, TROUBLE, "503"),
    (503, {"error": "invalid_grant"}, TROUBLE, "503"),
    (500, {"error": "server_error"}, TROUBLE, "server_error"),
    (429, {"error": "too_many_requests"}, TROUBLE, "429"),
    (429, {"error": "invalid_request"}, TROUBLE, "429"),
    (408, b"", TROUBLE, "408"),
    (502, {"message": "Bad Gateway"}, TROUBLE, "Bad Gateway"),
    (504, b"<html>504</html>", TROUBLE, "504"),
    (529, b"", TROUBLE, "529"),
    (400, {"error": "temporarily_unavailable"}, TROUBLE, "temporarily_unavailable"),
    (200, {"ok": False, "error": "ratelimited"}, TROUBLE, "ratelimited"),  # Slack
    (400, {"error": "slow_down"}, TROUBLE, "slow_down"),
    (400, {"error": "Bad Request"}, NEITHER, "400"),
    (401, [{"logref": "1", "message": "Bad credentials"}], NEITHER, "401"),
    (403, {"error": "Forbidden", "message": "blocked by the firewall"}, NEITHER, "blocked by the firewall"),
    (403, b"<html>403</html>", NEITHER, "403"),
    (404, {"error": "not_found"}, NEITHER, "404"),
    (400, {"error": "rate_limit_exceeded"}, NEITHER, "rate_limit_exceeded"),
    (200, {"status": "ok"}, NEITHER, "200"),
    (200, b"", NEITHER, "200"),
    (302, b"", NEITHER, "302"),
]


def body_of(answer):
    return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


def test_what_is_answered_is_read_as_what_it_is():
    wrong = []
    for answer, wanted in TOKENS:
        tokens = answers.tokens_from(answers.read_answer(body_of(answer)), ISSUER, None)
        got = (tokens.access_token, tokens.scope, tokens.expires_at is not None)
        if got != wanted:
            wrong.append((answer, got))
    for status, answer, kind, said in FAILURES:
        body = body_of(answer)
        reply = Fetched(status, body)
        error = answers.failure(reply, answers.read_answer(body), "token endpoint", ISSUER, ())
        is_outage = "out of order for now" in str(error)
        got = REFUSED if isinstance(error, GrantRefused) else TROUBLE if is_outage else NEITHER
        if got != kind or said not in str(error) or "as.example" not in str(error):
            wrong.append((status, answer, got, str(error)))
    assert wrong == []


@pytest.mark.parametrize("kind", ["DPoP", "mac", "PoP", "N_A"])
def test_a_token_that_needs_more_than_its_text_is_refused(kind):
    with pytest.raises(AuthError, match="no Bearer token"):
        answers.tokens_from(BARE | {"token_type": kind}, ISSUER, None)


def stored(world, person, **options):
    store = MemoryStore()
    OAuth(world.url, AuthorizationCode(person), store=store, **options).log_in()
    return store


TROUBLES = {
    "503 with a refusal's code": in_trouble(503, {"error": "invalid_grant"}),
    "429, not yet": Canned(429, {"error": "too_many_requests"}, {"Retry-After": "3600"}),
    "500": in_trouble(500, {"error": "server_error"}),
    "502 of a gateway": in_trouble(502, {"message": "Bad Gateway"}),
    "a page": Canned(403, b"<html>no</html>", {"Content-Type": "text/html"}),
    "a firewall": Canned(403, {"error": "Forbidden"}),
    "in words": Canned(400, {"error": "temporarily_unavailable"}),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_a_trouble_of_the_token_endpoint_ends_no_login_and_opens_no_page(world, person, trouble):
    store = stored(world, person)
    there = OAuth(world.url, AuthorizationCode(person), store=store)
    nobody = OAuth(world.url, AuthorizationCode(), store=store)
    with MCPClient(world.url, auth=there) as one, MCPClient(world.url, auth=nobody) as other:
        for client in (one, other, one, other):
            client.call_tool("ask", {})
            world.expire_all()
            world.auth.http.canned["/token"] = trouble
            with pytest.raises(AuthError) as caught:
                client.call_tool("ask", {})
            assert "knime-mcp login" not in str(caught.value)
            del world.auth.http.canned["/token"]
            assert client.call_tool("ask", {}).text == "answer"
    assert len(person.pages) == 1


@pytest.mark.parametrize("grant", ["refresh_token", "client_credentials"])
def test_a_trouble_of_a_moment_is_waited_for(world, person, grant):
    if grant == "refresh_token":
        authorization = OAuth(world.url, AuthorizationCode(), store=stored(world, person))
    else:
        robot = ClientCredentials(RegisteredClient("robot", f"secret-{CANARY}"))
        authorization = OAuth(world.url, robot, issuer=world.auth.issuer)
        authorization.log_in()
    world.expire_all()
    before = len(world.auth.http.at("/token"))
    passing(world, in_trouble(429, {"error": "too_many_requests"}), in_trouble(503))
    with MCPClient(world.url, auth=authorization) as client:
        assert client.call_tool("ask", {}).text == "answer"
    assert len(world.auth.http.at("/token")) - before == 3


def passing(world: World, *troubles: Canned) -> None:
    """The token endpoint is in trouble for some requests."""
    waiting, usual = list(troubles), world.auth.http._answer

    def answer(origin, seen):
        return waiting.pop(0) if seen.path == "/token" and waiting else usual(origin, seen)

    world.auth.http._answer = answer


def test_tokens_that_are_form_encoded_are_kept_at_a_refresh(world, person):
    store = stored(world, person)
    world.auth.shape = lambda body: urlencode(body).encode()
    authorization = OAuth(world.url, AuthorizationCode(), store=store)
    with MCPClient(world.url, auth=authorization) as client:
        for _ in range(2):  # the second one needs the refresh token that the first one brought
            world.expire_all()
            assert client.call_tool("ask", {}).text == "answer"
    assert world.auth.grants == ["authorization_code", "refresh_token", "refresh_token"]


def test_a_refresh_asks_for_the_scopes_that_were_granted(world, person):
    world.auth.metadata["scopes_supported"] = ["offline_access"]
    world.auth.token_extra = {"scope": "a,c"}
    store = stored(world, person, scope="a b")
    world.expire_all()
    with MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(), store=store)) as client:
        client.list_tools()
    assert world.auth.http.at("/token")[-1].fields["scope"] == "a offline_access"


def test_a_refresh_whose_scopes_are_refused_is_made_without(world, person):
    store = stored(world, person, scope="a b")
    world.expire_all()
    passing(world, Canned(400, {"error": "invalid_scope"}))
    with MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(), store=store)) as client:
        client.list_tools()
    assert ["scope" in seen.fields for seen in world.auth.http.at("/token")[-2:]] == [True, False]
    assert len(person.pages) == 1


@pytest.mark.parametrize(
    ("said", "secret", "offered", "sent"),
    [
        (None, True, ["client_secret_post", "none"], "post"),
        ("", True, ["client_secret_basic"], "basic"),
        (None, False, ["client_secret_post", "none"], "none"),
        ("client_secret_basic", False, None, "none"),
        (None, True, ["none"], "none"),
        ("client_secret_post", True, ["none", "client_secret_post"], "post"),
    ],
)
def test_a_registration_with_a_gap_is_used_as_far_as_it_goes(world, person, said, secret, offered, sent):
    world.auth.metadata["token_endpoint_auth_methods_supported"] = offered
    given = {"client_secret": world.auth.secret} if secret else {}
    world.auth.http.canned["/register"] = Canned(
        200, {"client_id": 4711, "token_endpoint_auth_method": said} | given
    )
    stored(world, person)
    (token,) = world.auth.http.at("/token")
    assert token.fields["client_id"] == "4711"
    assert ("client_secret" in token.fields, "authorization" in token.headers) == (
        sent == "post",
        sent == "basic",
    )


def test_a_secret_at_a_server_without_a_list_of_methods_is_sent_in_the_other_way_if_refused(world, person):
    world.auth.metadata["token_endpoint_auth_methods_supported"] = None
    passing(world, Canned(200, b"error=incorrect_client_credentials"))
    client = RegisteredClient("by-hand", f"secret-{CANARY}")
    OAuth(world.url, AuthorizationCode(person, client=client), issuer=world.auth.issuer).log_in()
    first, second = world.auth.http.at("/token")
    assert ("authorization" in first.headers, "client_secret" in first.fields) == (True, False)
    assert ("authorization" in second.headers, "client_secret" in second.fields) == (False, True)
