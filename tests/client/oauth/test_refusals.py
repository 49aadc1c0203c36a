"""What must stop a login before any harm is done: nothing is sent on, and the person is told."""

import pytest

from knime_mcp.client.limits import Timeouts
from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth.discovery import discover
from knime_mcp.client.oauth.grants import AuthorizationCode
from knime_mcp.client.oauth.guard import Guard
from knime_mcp.client.oauth.logins import RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth
from knime_mcp.types.errors import AuthError, ConnectError, SettingInvalid
from tests.client.oauth.world import ASM, OIDC, PRM, Canned, in_trouble


def refused(world, person, said, **options):
    authorization = OAuth(world.url, AuthorizationCode(person), **options)
    with pytest.raises(AuthError, match=said) as caught, MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert str(caught.value).count(world.url) >= 1, "the error names the server"
    return caught.value


def nothing_was_sent(world):
    assert world.auth.http.at("/token") == []
    assert world.auth.http.at("/authorize") == []


def test_metadata_of_another_issuer(world, person):
    world.auth.metadata["issuer"] = "https://other.example"
    refused(world, person, "names another issuer")
    nothing_was_sent(world)


@pytest.mark.parametrize("stated", ["{issuer}//", "{issuer}/other", "{issuer}/{{tenantid}}"])
def test_metadata_of_another_issuer_whose_answers_name_it(world, person, stated):
    """RFC 9207 would be of no use, if a document could choose the issuer that answers have to name."""
    world.auth.metadata["issuer"] = stated.format(issuer=world.auth.issuer)
    world.auth.metadata["authorization_response_iss_parameter_supported"] = True
    refused(world, person, rf"names another issuer.*--issuer '{world.auth.issuer}'")
    nothing_was_sent(world)


@pytest.mark.parametrize(
    "resource", ["https://other.example/mcp", "{origin}/mc", "{origin}/mcp/deeper", "{origin}/other"]
)
def test_metadata_of_another_resource(world, person, resource):
    world.resource_metadata["resource"] = resource.format(origin=world.mcp.url)
    refused(world, person, "about another resource")
    assert world.auth.http.seen == []


@pytest.mark.parametrize("resource", ["{origin}", "{origin}/", "{origin}/mcp", "{origin}/mcp/"])
def test_a_resource_that_covers_the_url_is_sent_as_it_was_written(world, person, resource):
    world.resource_metadata["resource"] = resource.format(origin=world.mcp.url)
    with MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(person))) as client:
        client.list_tools()
    (token,) = world.auth.http.at("/token")
    assert token.fields["resource"] == resource.format(origin=world.mcp.url)


@pytest.mark.parametrize("methods", [[], ["plain"]])
def test_a_server_without_s256(world, person, methods):
    world.auth.metadata["code_challenge_methods_supported"] = methods
    refused(world, person, "PKCE without S256.*--issuer")
    nothing_was_sent(world)
    assert world.auth.http.at("/register") == []


@pytest.mark.parametrize(
    ("advertised", "extra", "said"),
    [
        (False, {"iss": "https://other.example"}, "wrong issuer"),
        (True, {"iss": "https://other.example"}, "wrong issuer"),
        (True, {"iss": "{issuer}/"}, "wrong issuer"),
        (True, {}, "no issuer"),
        (False, {"state": "somebody else's"}, "wrong state"),
        (False, {"state": None}, "wrong state"),
        (False, {"code": None}, "without a code"),
        (False, {"code": None, "error": "access_denied"}, "refused the login: access_denied"),
    ],
)
def test_an_answer_that_is_not_ours(world, person, advertised, extra, said):
    world.auth.metadata["authorization_response_iss_parameter_supported"] = advertised
    issuer = world.auth.issuer
    world.auth.redirect_extra = {k: v and v.format(issuer=issuer) for k, v in extra.items()}
    refused(world, person, said)
    assert world.auth.http.at("/token") == []


def test_what_a_foreign_answer_says_is_not_shown(world, person):
    world.auth.redirect_extra = {"iss": "https://evil.example", "error": "x", "error_description": "call 555"}
    error = refused(world, person, "wrong issuer")
    assert "call 555" not in str(error)


@pytest.mark.parametrize("iss", [True, False])
def test_the_right_issuer_is_accepted_whether_announced_or_not(world, person, iss):
    world.auth.metadata["authorization_response_iss_parameter_supported"] = iss
    world.auth.redirect_extra = {"iss": world.auth.issuer}
    with MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(person))) as client:
        assert client.list_tools()


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://169.254.169.254/x",
        "https://10.0.0.1/x",
        "https://[fd00:ec2::254]/x",
        "https://224.0.0.1/x",
        "https://0.0.0.0/x",
        "https://2130706433.example@10.0.0.1/x",
        "http://example.org/x",
        "file:///etc/passwd",
        "gopher://127.0.0.1/x",
    ],
)
def test_metadata_at_an_address_where_nobody_should_go(world, person, url):
    world.challenge = f'Bearer resource_metadata="{url}"'
    refused(world, person, "The server names .* which")
    assert world.mcp.paths("GET") == []


@pytest.mark.parametrize("endpoint", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
@pytest.mark.parametrize(
    "url", ["https://10.0.0.1/x", "http://example.org/x", "javascript:alert(1)", "https://u:p@example.org/"]
)
def test_endpoints_where_nobody_should_go(world, person, endpoint, url):
    world.auth.metadata[endpoint] = url
    refused(world, person, "The server names .* which")
    nothing_was_sent(world)
    assert world.auth.http.at("/register") == []
    assert person.pages == []


def test_an_authorization_server_at_a_private_address(world, person):
    world.resource_metadata["authorization_servers"] = ["https://192.168.1.1"]
    refused(world, person, "a private network, where the MCP server is not")


def test_a_redirect_from_metadata_is_not_followed(world, person):
    world.mcp.canned[PRM + "/mcp"] = Canned(307, headers={"Location": f"{world.auth.http.url}/stolen"})
    refused(world, person, "cannot be had")
    assert world.auth.http.seen == []


def test_a_redirect_from_the_token_endpoint_is_not_followed(world, person):
    other = world.another()
    world.auth.http.canned["/token"] = Canned(307, headers={"Location": f"{other.http.url}/token"})
    refused(world, person, "answered 307")
    assert other.http.seen == []


@pytest.mark.parametrize("where", ["resource", "server"])
def test_huge_metadata_is_refused(world, person, where):
    huge = Canned(body=b'{"x":"' + b"x" * 70_000 + b'"}')
    origin, path = (world.mcp, PRM + "/mcp") if where == "resource" else (world.auth.http, ASM)
    origin.canned[path] = huge
    refused(world, person, "larger than 64 KiB")


def test_huge_metadata_in_a_small_package(world, person):
    import gzip

    body = gzip.compress(b" " * 5_000_000)
    world.mcp.canned[PRM + "/mcp"] = Canned(body=body, headers={"Content-Encoding": "gzip"})
    refused(world, person, "larger than 64 KiB")


def test_slow_metadata_ends_at_the_clock(world, person):
    world.mcp.canned[PRM + "/mcp"] = Canned(body=b" " * 1000, drip=0.05)
    refused(world, person, "No login: No reply within", timeouts=Timeouts(connect=1, idle=1, total=0.5))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"resource": 1}', b'{"resource":"x"}', b"\xff\xfe", b"[" * 60_000]
)
def test_metadata_that_is_none(world, person, body):
    world.mcp.canned[PRM + "/mcp"] = Canned(body=body)
    refused(world, person, "cannot be had")
    assert world.auth.http.seen == []


def test_an_authorization_server_in_trouble_is_not_asked_elsewhere(world, person):
    world.auth.http.canned[ASM] = in_trouble(503)
    refused(world, person, "answers 503")
    assert set(world.auth.http.paths()) == {ASM}


def test_server_metadata_that_cannot_be_read_is_looked_for_in_the_next_place(world, person):
    world.auth.http.canned[ASM] = Canned(body=b"<html>")
    world.auth.metadata_paths = {OIDC}
    with MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(person))) as client:
        assert client.list_tools()
    del world.auth.metadata["token_endpoint"]
    refused(world, person, "issuer or token_endpoint is missing")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (in_trouble(503), "answers 503"),
        (
            Canned(body={"issuer": "https://evil.example", "token_endpoint": "https://evil.example/t"}),
            "another issuer",
        ),
        (Canned(body={"issuer": "https://evil.example"}), "token_endpoint is missing"),
        (Canned(body=b"[]"), "not a JSON object"),
    ],
)
def test_an_old_server_whose_metadata_must_not_be_believed(world, person, answer, said):
    world.resource_metadata = world.challenge = None
    world.mcp.canned[ASM] = answer
    refused(world, person, said)
    assert person.pages == []


def test_who_guards_a_server_can_be_asked_before_anything_is_sent(world):
    assert discover(world.url, Guard(world.url)).server.issuer == world.auth.issuer
    assert world.auth.http.paths() == [ASM]
    world.resource_metadata["authorization_servers"] = ["https://10.0.0.1"]
    with pytest.raises(ConnectError, match="private network"):
        discover(world.url, Guard(world.url))


def test_a_secret_is_not_sent_to_an_issuer_that_nobody_named(world, person):
    client = RegisteredClient("by-hand", "canary-secret")
    authorization = OAuth(world.url, AuthorizationCode(person, client=client))
    with pytest.raises(AuthError, match="nobody said to which"), MCPClient(world.url, auth=authorization):
        pass
    nothing_was_sent(world)


def test_a_secret_is_not_sent_to_another_issuer_than_the_named_one(world, person):
    client = RegisteredClient("by-hand", "canary-secret")
    grant = AuthorizationCode(person, client=client)
    authorization = OAuth(world.url, grant, issuer="https://login.example")
    with (
        pytest.raises(AuthError, match=r"belong to https://login\.example"),
        MCPClient(world.url, auth=authorization),
    ):
        pass
    assert world.auth.http.seen == []


def test_a_server_that_says_403_for_ever_gets_three_logins_at_most(world, person):
    world.auth.metadata["scopes_supported"] = ["a"]
    authorization = OAuth(world.url, AuthorizationCode(person))
    for number in range(6):
        world.forbidden_challenge = f'Bearer error="insufficient_scope", scope="s{number}"'
        with pytest.raises(AuthError), MCPClient(world.url, auth=authorization) as client:
            client.list_tools()
    assert len(person.pages) == 3


def test_a_server_that_says_401_for_ever_gets_three_logins_at_most(world, person):
    world.valid = _Nothing()
    authorization = OAuth(world.url, AuthorizationCode(person))
    for _ in range(6):
        with pytest.raises(AuthError), MCPClient(world.url, auth=authorization) as client:
            client.list_tools()
    assert len(person.pages) <= 3


class _Nothing(dict):
    def get(self, key, default=None):
        return default


@pytest.mark.parametrize("url", ["", "mcp", "http://[", "http://0177.0.0.1/mcp", "http://xn--a/mcp"])
def test_a_url_that_cannot_work_is_a_setting(url, person):
    with pytest.raises(SettingInvalid) as caught:
        OAuth(url, AuthorizationCode(person))
    assert caught.value.setting == "server_url"


@pytest.mark.parametrize("metadata", ["https://xn--a/x", "https://0177.0.0.1/x"])
def test_metadata_at_a_host_that_cannot_exist(world, person, metadata):
    world.challenge = f'Bearer resource_metadata="{metadata}"'
    refused(world, person, "is malformed")
