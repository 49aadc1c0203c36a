"""The authorization code flow, against real servers: discovery, registration, tokens."""

from urllib.parse import parse_qs, urlsplit

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth.grants import AuthorizationCode
from knime_mcp.client.oauth.logins import MemoryStore, RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth
from knime_mcp.types.errors import AuthError
from tests.client.oauth.world import ASM, OIDC, PRM, Canned, basic, in_trouble, open_world


def oauth(world, person, **options):
    grant = {k: options.pop(k) for k in ("client", "client_metadata_url") if k in options}
    return OAuth(world.url, AuthorizationCode(person, **grant), **options)


def use(world, authorization):
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
        return client.call_tool("ask", {}).text


def test_a_person_logs_in_and_every_request_carries_the_token(world, person):
    assert use(world, oauth(world, person)) == "answer"
    sent = [seen.headers.get("authorization") for seen in world.mcp.seen if seen.method == "POST"]
    assert sent[0] is None
    assert {value in {f"Bearer {token}" for token in world.valid} for value in sent[1:]} == {True}
    assert len(person.pages) == 1


def test_the_authorization_request_is_complete(world, person):
    use(world, oauth(world, person))
    query = {k: v[0] for k, v in parse_qs(urlsplit(person.pages[0]).query).items()}
    assert query["response_type"] == "code"
    assert query["resource"] == world.url
    assert query["code_challenge_method"] == "S256"
    assert len(query["code_challenge"]) == 43
    assert len(query["state"]) >= 32
    assert "scope" not in query
    (token,) = world.auth.http.at("/token")
    assert token.fields["resource"] == world.url
    assert token.fields["redirect_uri"] == query["redirect_uri"]
    assert 43 <= len(token.fields["code_verifier"]) <= 128


def test_state_and_verifier_are_new_each_time(world, person):
    authorization = oauth(world, person)
    authorization.log_in()
    authorization.log_in()
    first, second = (parse_qs(urlsplit(page).query) for page in person.pages)
    assert first["state"] != second["state"]
    assert first["code_challenge"] != second["code_challenge"]


def test_registration_says_native_and_is_done_once_per_issuer(world, person):
    store = MemoryStore()
    oauth(world, person, store=store).log_in()
    oauth(world, person, store=store).log_in()
    (registered,) = world.auth.http.at("/register")
    assert registered.fields["application_type"] == "native"
    assert registered.fields["grant_types"] == ["authorization_code", "refresh_token"]
    assert registered.fields["redirect_uris"] == ["http://127.0.0.1:1/callback"]


@pytest.mark.parametrize("where", ["path", "root", "custom"])
@pytest.mark.parametrize("has_header", [True, False])
def test_resource_metadata_is_found(world, person, where, has_header):
    world.metadata_path = {"path": PRM + "/mcp", "root": PRM, "custom": "/custom/metadata.json"}[where]
    world.challenge = (
        f'Bearer resource_metadata="{world.mcp.url}{world.metadata_path}"' if has_header else None
    )
    if where == "custom" and not has_header:
        with pytest.raises(AuthError):  # nobody could find it; falls back to 2025-03-26, where nothing is
            use(world, oauth(world, person))
        return
    use(world, oauth(world, person))
    asked = [path for path in world.mcp.paths("GET") if path.startswith(("/.well", "/custom"))]
    wanted = [PRM + "/mcp", PRM] if where == "root" and not has_header else [world.metadata_path]
    assert asked == wanted


@pytest.mark.parametrize(
    ("issuer_path", "document", "asked"),
    [
        ("", ASM, [ASM]),
        ("", OIDC, [ASM, OIDC]),
        ("/t", ASM + "/t", [ASM + "/t"]),
        ("/t", OIDC + "/t", [ASM + "/t", OIDC + "/t"]),
        ("/t", "/t" + OIDC, [ASM + "/t", OIDC + "/t", "/t" + OIDC]),
    ],
)
def test_server_metadata_is_asked_for_in_order_and_never_at_the_root_of_others(
    person, issuer_path, document, asked
):
    with open_world(issuer_path=issuer_path) as world:
        world.auth.metadata_paths = {document}
        use(world, oauth(world, person))
        assert [path for path in world.auth.http.paths("GET") if ".well-known" in path] == asked


def test_a_server_that_registers_no_scopes_of_resources_is_asked_without(world, person):
    world.resource_metadata["scopes_supported"] = ["read"]
    world.auth.registers_scopes = False
    assert use(world, oauth(world, person)) == "answer"
    assert ["scope" in seen.fields for seen in world.auth.http.at("/register")] == [True, False]
    assert person.scopes() == ["read"]


@pytest.mark.parametrize(
    ("offered", "sent"),
    [
        (["client_secret_basic"], "basic"),
        (["client_secret_post"], "post"),
        (["none"], "none"),
        (None, "basic"),
    ],
)
def test_the_token_endpoint_gets_the_one_way_that_it_offers(world, person, offered, sent):
    world.auth.metadata["token_endpoint_auth_methods_supported"] = offered
    use(world, oauth(world, person))
    (token,) = world.auth.http.at("/token")
    header = token.headers.get("authorization")
    assert ("client_secret" in token.fields) == (sent == "post")
    assert (header is not None) == (sent == "basic")
    if header is not None:
        assert basic(header)[1] == world.auth.secret
    # Beside Basic, too: the authorization server of the official Python SDK looks for it there.
    assert token.fields["client_id"] == f"client-of-{world.auth.http.url}"


def test_client_id_and_secret_are_form_encoded_before_basic(world, person):
    world.auth.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    client = RegisteredClient("id with:colon/ü", "se%cr et")
    use(world, oauth(world, person, client=client, issuer=world.auth.issuer))
    (token,) = world.auth.http.at("/token")
    assert basic(token.headers["authorization"]) == ("id with:colon/ü", "se%cr et")


def test_a_registered_client_goes_before_a_document_and_that_before_registration(world, person):
    document = "https://example.org/client.json"
    world.auth.metadata["client_id_metadata_document_supported"] = True
    use(world, oauth(world, person, client=RegisteredClient("by-hand"), client_metadata_url=document))
    use(world, oauth(world, person, client_metadata_url=document))
    ids = [parse_qs(urlsplit(page).query)["client_id"][0] for page in person.pages]
    assert ids == ["by-hand", document]
    assert world.auth.http.at("/register") == []


def test_a_server_that_registers_nobody_says_what_to_do(world, person):
    world.auth.metadata["registration_endpoint"] = None
    with pytest.raises(AuthError, match=r"lets no client register itself.*--client-id"):
        use(world, oauth(world, person))


@pytest.mark.parametrize("expires_in", ["3600", 3600.0, None, "soon", -5, True])
def test_token_answers_are_read_leniently(world, person, expires_in):
    world.auth.token_status = 201
    world.auth.expires_in = expires_in
    world.auth.token_extra = {"token_type": None}
    authorization = oauth(world, person)
    assert use(world, authorization) == "answer"
    assert (authorization.login.tokens.expires_at is None) == (expires_in in (None, "soon", -5, True))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"token_type": "DPoP"}, "no Bearer token"),
        ({"access_token": "two words"}, "cannot be sent"),
        ({"access_token": 7}, "no Bearer token"),
        ({"access_token": None, "error": "invalid_code"}, "refused: invalid_code"),
        ({"access_token": None, "error": "server_error"}, r"out of order for now.*server_error"),
    ],
)
def test_tokens_that_cannot_be_used_are_refused(world, person, extra, said):
    world.auth.token_extra = extra
    with pytest.raises(AuthError, match=said):
        use(world, oauth(world, person))


def test_without_resource_metadata_the_origin_is_the_authorization_server(world, person):
    """Revision 2025-03-26, with metadata."""
    world.resource_metadata = None
    world.challenge = None
    own = world.auth.metadata | {"issuer": world.mcp.url}
    world.mcp.canned[ASM] = Canned(body=own)
    assert use(world, oauth(world, person)) == "answer"
    assert [path for path in world.mcp.paths("GET") if "well-known" in path] == [PRM + "/mcp", PRM, ASM]


def test_without_any_metadata_the_default_endpoints_are_used(world, person):
    """Revision 2025-03-26, without metadata."""
    world.resource_metadata = None
    world.challenge = None
    for path in ("/register", "/authorize", "/token"):
        world.mcp.canned[path] = Canned(404)
    with pytest.raises(AuthError, match="registration endpoint"):
        use(world, oauth(world, person))
    assert world.mcp.at("/register")[0].method == "POST"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_is_not_taken_for_an_old_one(world, person, status):
    world.mcp.canned[PRM + "/mcp"] = in_trouble(status)
    world.challenge = None
    with pytest.raises(AuthError, match=f"answers {status}"):
        use(world, oauth(world, person))
    assert world.auth.http.seen == []
    assert ASM not in world.mcp.paths()


def test_challenges_in_several_header_lines_are_read_together(world, person):
    world.challenge = f'Basic realm="a"\n{world.challenge}'
    assert use(world, oauth(world, person)) == "answer"


def test_a_server_that_wants_another_scheme_starts_no_login(world, person):
    world.challenge = 'Basic realm="x"'
    with pytest.raises(AuthError, match="wants a user name and password"):
        use(world, oauth(world, person))
    assert person.pages == []


def test_nobody_is_asked_where_nobody_sits(world):
    with pytest.raises(
        AuthError, match=r"wants a person to log in.*knime-mcp login http://127\.0\.0\.1:\d+/mcp"
    ):
        use(world, OAuth(world.url, AuthorizationCode()))
