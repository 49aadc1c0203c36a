"""Metadata as strangers write it: used where that costs no security, else if a person names the issuer."""

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth import discovery
from knime_mcp.client.oauth.grants import AuthorizationCode
from knime_mcp.client.oauth.logins import MemoryStore, RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth
from knime_mcp.types.errors import AuthError, Canceled
from tests.client.oauth.world import ASM, OIDC, PRM, Canned, open_world


def use(world, person, **options):
    with MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(person), **options)) as client:
        return client.call_tool("ask", {}).text


@pytest.mark.parametrize("document", [ASM, OIDC])
def test_a_server_that_lists_no_pkce_methods_gets_pkce(world, person, document):
    del world.auth.metadata["code_challenge_methods_supported"]
    world.auth.metadata_paths = {document}
    assert use(world, person) == "answer"
    assert world.auth.http.at("/authorize")[0].query["code_challenge_method"] == "S256"


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://other.example"},
        {"issuer": "https://other.example", "authorization_response_iss_parameter_supported": True},
        {"code_challenge_methods_supported": ["plain"]},
        {"code_challenge_methods_supported": []},
    ],
)
def test_what_is_refused_is_used_if_a_person_names_the_issuer(world, person, change):
    world.auth.metadata |= change
    world.auth.redirect_extra = {"iss": world.auth.metadata["issuer"]}
    with pytest.raises(AuthError, match=f"--issuer '{world.auth.issuer}'") as caught:
        use(world, person)
    assert "attack" not in str(caught.value)
    assert person.pages == []
    store = MemoryStore()
    assert use(world, person, issuer=world.auth.issuer, store=store) == "answer"
    world.expire_all()
    with MCPClient(
        world.url, auth=OAuth(world.url, AuthorizationCode(), store=store, issuer=world.auth.issuer)
    ) as c:
        assert c.call_tool("ask", {}).text == "answer"
    assert len(person.pages) == 1


@pytest.mark.parametrize(
    ("path", "stated"),
    [
        ("/organizations/v2.0", "{base}/{{tenantid}}/v2.0"),
        ("/tenant", "{base}"),
        ("", "{base}/backend/oauthproxy"),
        ("/a", "{base}/b"),
    ],
)
def test_an_issuer_of_the_same_server_is_used_and_logins_belong_to_the_one_that_was_asked(
    person, path, stated
):
    with open_world(issuer_path=path) as world:
        world.auth.metadata["issuer"] = stated.format(base=world.auth.http.url)
        store = MemoryStore()
        assert use(world, person, store=store) == "answer"
        world.expire_all()
        later = OAuth(world.url, AuthorizationCode(), store=store)
        assert later.login.issuer == world.auth.issuer
        with MCPClient(world.url, auth=later) as client:
            assert client.call_tool("ask", {}).text == "answer"
        assert len(world.auth.http.at(f"{path}/register")) == 1


@pytest.mark.parametrize(
    ("path", "stated", "iss", "is_right"),
    [
        ("/organizations/v2.0", "{base}/{{tenantid}}/v2.0", "{base}/4711-tenant/v2.0", True),
        ("/organizations/v2.0", "{base}/{{tenantid}}/v2.0", "{base}/4711-tenant/v1.0", False),
        ("/organizations/v2.0", "{base}/{{tenantid}}/v2.0", "https://evil.example/4711-tenant/v2.0", False),
        ("/organizations/v2.0", "{base}/{{tenantid}}/v2.0", "{base}//v2.0", False),
        ("/a", "{base}/b", "{base}/a", True),
        ("/a", "{base}/b", "{base}/b", False),
    ],
)
def test_the_issuer_in_a_redirect_is_checked_all_the_same(person, path, stated, iss, is_right):
    with open_world(issuer_path=path) as world:
        base = world.auth.http.url
        world.auth.metadata["issuer"] = stated.format(base=base)
        world.auth.redirect_extra = {"iss": iss.format(base=base)}
        if is_right:
            assert use(world, person) == "answer"
            return
        with pytest.raises(AuthError, match="wrong issuer"):
            use(world, person)
        assert world.auth.http.at(f"{path}/token") == []


def test_the_document_of_the_very_issuer_goes_before_one_that_is_like_it(person):
    """A server that answers every path with the document of its root."""
    with open_world(issuer_path="/tenant") as world:
        root = world.auth.metadata | {
            "issuer": world.auth.http.url,
            "token_endpoint": "https://10.0.0.1/never",
        }
        world.auth.http.canned[ASM + "/tenant"] = Canned(
            body=root | {"token_endpoint": f"{world.auth.issuer}/no"}
        )
        world.auth.metadata_paths = {"/tenant" + OIDC}
        assert use(world, person) == "answer"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("https://h/a", "https://h/a/", True),
        ("https://H/a", "https://h/a", True),
        ("HTTPS://h:443", "https://h/", True),
        ("https://h/A", "https://h/a", False),
        ("https://h/a", "https://h/a//", False),
        ("https://h", "http://h", False),
        ("https://h:8443", "https://h", False),
        ("h", "h", True),
        ("", "https://h", False),
        ("x:y", "z:y", False),
    ],
)
def test_which_issuers_are_the_same(first, second, same):
    assert discovery.is_same_issuer(first, second) == discovery.is_same_issuer(second, first) == same


@pytest.mark.parametrize(
    "members",
    [
        {"scopes_supported": "read write", "token_endpoint_auth_methods_supported": "none"},
        {"scopes_supported": None, "x_unknown": {"deep": [1]}, "response_types_supported": "code"},
        {"code_challenge_methods_supported": "S256", "grant_types_supported": []},
    ],
)
def test_members_in_another_form_are_read(world, person, members):
    world.auth.metadata |= members
    world.resource_metadata |= {"scopes_supported": "read write", "authorization_servers": world.auth.issuer}
    assert use(world, person) == "answer"
    assert person.scopes() == ["read write"]


def test_resource_metadata_at_a_relative_url_and_without_a_resource_is_this_servers(world, person):
    world.metadata_path = "/mcp/own/metadata"
    world.challenge = 'Bearer resource_metadata="/mcp/own/metadata"'
    del world.resource_metadata["resource"]
    assert use(world, person) == "answer"
    assert world.auth.http.at("/token")[0].fields["resource"] == world.url


@pytest.mark.parametrize("status", [301, 302, 401, 403, 405, 410])
def test_metadata_is_looked_for_in_the_next_place_whatever_the_first_one_says(person, status):
    with open_world(issuer_path="/tenant") as world:
        world.metadata_path, world.challenge = PRM, None
        elsewhere = {"Location": "https://never.example/"} if status < 400 else {}
        world.mcp.canned[PRM + "/mcp"] = Canned(status, b"<html>", elsewhere)
        world.auth.http.canned[ASM + "/tenant"] = Canned(status, b"{}", elsewhere)
        world.auth.http.canned[OIDC + "/tenant"] = Canned(200, {})
        world.auth.metadata_paths = {"/tenant" + OIDC}
        assert use(world, person) == "answer"


def test_a_page_where_metadata_is_due_is_no_document(world, person):
    """A server whose web page answers every path, and whose login is that of revision 2025-03-26."""
    world.resource_metadata, world.challenge = None, None
    page = Canned(body=b"<!doctype html><title>App</title>", headers={"Content-Type": "text/html"})
    for path in (PRM + "/mcp", PRM, ASM):
        world.mcp.canned[path] = page
    world.mcp.canned[OIDC] = Canned(body=world.auth.metadata | {"issuer": world.mcp.url})
    assert use(world, person) == "answer"


def test_a_server_whose_proxy_adds_tls_names_its_own_urls_with_http():
    read = discovery.read_server_metadata(
        {
            "issuer": "http://h.example",
            "authorization_endpoint": "http://h.example/authorize",
            "token_endpoint": "http://h.example/token",
        },
        issuer="https://h.example",
    )
    assert (read.issuer, read.token_endpoint) == ("https://h.example", "https://h.example/token")
    resource = discovery.ResourceMetadata("http://h.example/mcp", ("http://h.example",))
    discovery.check_resource(resource, "https://h.example/mcp")
    with pytest.raises(AuthError, match="another resource"):
        discovery.check_resource(resource, "https://h.example:8443/mcp")


@pytest.mark.parametrize("end", ["refused", "nobody came", "canceled"])
def test_a_registered_client_is_forgotten_if_the_login_fails(world, person, end):
    """A server that has forgotten the client says so on its page only, and the browser never comes back."""
    store = MemoryStore()
    use(world, person, store=store)
    world.auth.redirect_extra = {"error": "invalid_client", "code": None}
    come_back = person.authorize
    if end != "refused":
        failure = Canceled("Canceled") if end == "canceled" else AuthError("Nobody logged in", fix="Again")
        person.authorize = _raising(failure)
    with pytest.raises((AuthError, Canceled)):
        OAuth(world.url, AuthorizationCode(person), store=store).log_in()
    assert len(world.auth.http.at("/register")) == 1
    world.auth.redirect_extra, person.authorize = {}, come_back
    OAuth(world.url, AuthorizationCode(person), store=store).log_in()
    assert len(world.auth.http.at("/register")) == 2


def _raising(error):
    def authorize(url, is_canceled):
        raise error

    return authorize


V2 = "{issuer}/oauth2/v2.0/token"


@pytest.mark.parametrize(
    ("token_endpoint", "chosen", "sent"),
    [
        (V2, "api://x/read", False),
        (V2, None, True),  # the MCP server names the scopes, and could name those of another resource
        ("{issuer}/oauth2/token", "api://x/read", True),
    ],
)
def test_a_resource_is_left_out_only_where_a_persons_scopes_name_it(
    world, person, token_endpoint, chosen, sent
):
    world.resource_metadata["scopes_supported"] = ["api://x/read"]
    world.auth.metadata["token_endpoint"] = token_endpoint.format(issuer=world.auth.issuer)
    store = MemoryStore()
    use(world, person, scope=chosen, store=store)
    world.expire_all()
    with MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(), store=store)) as client:
        client.list_tools()
    requests = [seen for seen in world.auth.http.seen if "grant_type" in seen.fields]
    assert [seen.fields.get("resource") for seen in requests] == [world.url if sent else None] * 2


def test_a_client_with_a_secret_works_at_a_named_server_of_another_name(world, person):
    world.auth.metadata["issuer"] = "https://sts.example/tenant"
    client = RegisteredClient("by-hand", "canary-secret")
    grant = AuthorizationCode(person, client=client)
    with MCPClient(world.url, auth=OAuth(world.url, grant, issuer=world.auth.issuer)) as mcp:
        assert mcp.call_tool("ask", {}).text == "answer"
