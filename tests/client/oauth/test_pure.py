"""The rules without I/O: challenges, well-known addresses, scopes, PKCE, the checks on an answer."""

import string
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.client.oauth import discovery
from knime_mcp.client.oauth.browser_login import new_request, read_redirect, s256
from knime_mcp.client.refusals import BearerChallenge
from knime_mcp.types.errors import AuthError

TOKEN = string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, BearerChallenge()),
        ("", BearerChallenge()),
        ("Bearer", BearerChallenge()),
        ("Basic realm=x", BearerChallenge(wants_token=False)),
        ('Bearer resource_metadata="https://h/x"', BearerChallenge(resource_metadata="https://h/x")),
        ("bearer resource_metadata=https://h/x", BearerChallenge(resource_metadata="https://h/x")),
        ('Basic realm="a, b", Bearer scope="a b"', BearerChallenge(scope="a b")),
        ('Bearer scope="a", Basic realm="b"', BearerChallenge(scope="a")),
        (
            'Bearer error="insufficient_scope",scope="a  b"',
            BearerChallenge(error="insufficient_scope", scope="a b"),
        ),
        ('BEARER Scope = "a" , ERROR = invalid_token', BearerChallenge(error="invalid_token", scope="a")),
        ('Bearer realm="say \\"hi\\", Basic", scope=x', BearerChallenge(scope="x")),
        ('DPoP algs="ES256", Bearer error="x"', BearerChallenge(error="x", takes_proof=True)),
        ('Bearer scope="a", Bearer scope="b", error=e', BearerChallenge(scope="a", error="e")),
        ("Negotiate abc==, Bearer scope=s", BearerChallenge(scope="s")),
        ('Bearer scope=""', BearerChallenge()),
    ],
)
def test_the_first_bearer_challenge_counts_whatever_stands_beside_it(header, expected):
    assert BearerChallenge.read(header) == expected


@given(st.text() | st.text(alphabet=' ,="\\abBearerscopt\t'))
def test_no_challenge_breaks_the_reader(header):
    read = BearerChallenge.read(header)
    assert read.scope is None or read.scope == " ".join(read.scope.split())


@given(
    st.dictionaries(
        st.sampled_from(["scope", "error", "resource_metadata", "realm", "x-other"]),
        st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40),
    ),
    st.sampled_from(["", 'Basic realm="a, Bearer b"', "Negotiate", 'Digest qop="auth,auth-int"']),
    st.booleans(),
    st.sampled_from([", ", ",", " ,  "]),
)
def test_a_quoted_challenge_is_read_back_beside_others(parameters, other, first, separator):
    quoted = [f'{k}="' + v.replace("\\", "\\\\").replace('"', '\\"') + '"' for k, v in parameters.items()]
    bearer = "Bearer " + separator.join(quoted) if quoted else "Bearer"
    challenges = [bearer, other] if first else [other, bearer]
    read = BearerChallenge.read(separator.join(each for each in challenges if each))
    assert read.wants_token
    for name in ("scope", "error", "resource_metadata"):
        assert getattr(read, name) == parameters.get(name)


@given(st.text(alphabet=TOKEN, min_size=1, max_size=30), st.text(alphabet=TOKEN, min_size=1, max_size=30))
def test_a_bare_challenge_is_read_back(scope, error):
    read = BearerChallenge.read(f"Bearer scope={scope}, error={error}")
    assert (read.scope, read.error) == (scope, error)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "https://h/mcp",
            [
                "https://h/.well-known/oauth-protected-resource/mcp",
                "https://h/.well-known/oauth-protected-resource",
            ],
        ),
        (
            "https://h:8/a/b/?key=canary",
            [
                "https://h:8/.well-known/oauth-protected-resource/a/b",
                "https://h:8/.well-known/oauth-protected-resource",
            ],
        ),
        ("https://h", ["https://h/.well-known/oauth-protected-resource"]),
        ("https://h/", ["https://h/.well-known/oauth-protected-resource"]),
    ],
)
def test_where_resource_metadata_is(url, expected):
    assert discovery.resource_metadata_urls(url) == expected


def test_where_server_metadata_is():
    assert discovery.server_metadata_urls("https://h/t/") == [
        "https://h/.well-known/oauth-authorization-server/t",
        "https://h/.well-known/openid-configuration/t",
        "https://h/t/.well-known/openid-configuration",
        "https://h/t/.well-known/oauth-authorization-server",
    ]
    assert discovery.server_metadata_urls("https://h/") == [
        "https://h/.well-known/oauth-authorization-server",
        "https://h/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://Host.Example/MCP/", "https://host.example/MCP"),
        ("https://h:8443/a?token=canary#x", "https://h:8443/a"),
        ("https://h/", "https://h"),
    ],
)
def test_the_canonical_resource(url, expected):
    assert discovery.canonical_resource(url) == expected


@pytest.mark.parametrize(
    ("scope", "server", "refreshable", "expected"),
    [
        (None, None, True, None),
        ("c", None, True, "c"),
        ("r s", ("r",), True, "r s"),
        ("c", ("offline_access",), True, "c offline_access"),
        ("c", ("offline_access",), False, "c"),
        ("c offline_access", ("c",), True, "c"),
        (None, ("offline_access",), True, None),
        ("offline_access", None, True, None),
    ],
)
def test_offline_access_is_asked_for_where_the_server_lists_it(scope, server, refreshable, expected):
    assert discovery.with_offline(scope, server, refreshable=refreshable) == expected


def test_the_union_of_scopes_keeps_order_and_covers_both():
    assert discovery.union("a b", None, "b c") == "a b c"
    assert discovery.union(None, "") is None
    assert discovery.covers("a b c", "c a")
    assert not discovery.covers("a", "a b")
    assert not discovery.covers(None, "a")


def test_the_code_challenge_is_that_of_the_rfc():
    """RFC 7636, appendix B."""
    assert (
        s256("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


def server(**changes):
    fields = {
        "issuer": "https://as",
        "answers_as": "https://as",
        "authorization_endpoint": "https://as/login?tenant=7&state=theirs",
        "token_endpoint": "https://as/t",
    }
    return discovery.AuthorizationMetadata(**(fields | {"code_challenge_methods": ("S256",)} | changes))


def request(**changes):
    return new_request(
        server(**changes),
        client_id="id",
        redirect_uri="http://127.0.0.1:7/callback",
        resource="https://h/mcp",
        scope=None,
    )


def test_the_query_of_the_login_page_is_kept_but_cannot_replace_ours():
    made = request()
    query = parse_qs(urlsplit(made.url).query)
    assert query["tenant"] == ["7"]
    assert query["state"] == [made.state]


@pytest.mark.parametrize(
    "change", ["http://127.0.0.1:8/callback", "http://localhost:7/callback", "http://127.0.0.1:7/callback/x"]
)
def test_an_answer_at_another_address_is_not_ours(change):
    made = request()
    with pytest.raises(AuthError, match="another address"):
        read_redirect(made, f"{change}?code=c&state={made.state}")


def test_a_parameter_twice_is_not_ours():
    made = request()
    with pytest.raises(AuthError, match="twice"):
        read_redirect(made, f"{made.redirect_uri}?code=c&code=d&state={made.state}")


@given(st.text())
def test_no_answer_breaks_the_reader(query):
    made = request()
    try:
        read_redirect(made, f"{made.redirect_uri}?{query}")
    except AuthError:
        return
    pytest.fail("nobody can guess the state")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["issuer", "token_endpoint", "resource", "authorization_servers", "scopes_supported"]
                ),
                inner,
            )
        ),
    )
)
def test_no_document_breaks_the_readers(document):
    for read in (
        lambda d: discovery.read_resource_metadata(d, "https://h/mcp"),
        lambda d: discovery.read_server_metadata(d, issuer="https://as"),
    ):
        try:
            read(document)
        except (ValueError, AuthError):
            continue


def test_nothing_secret_is_in_a_repr():
    made = request()
    assert made.state not in repr(made)
    assert made.verifier not in repr(made)
