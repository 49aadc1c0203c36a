import re
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from hypothesis import given

from knime_mcp.types.errors import SettingInvalid
from knime_mcp.types.routing import ServerRoute, merge_tool, split_tool
from tests.types.strategies import names, routes


@given(routes)
def test_parse_reads_what_uri_writes(route):
    assert ServerRoute.parse(route.uri) == route
    assert ServerRoute.parse(route.uri).uri == route.uri


@given(routes)
def test_the_text_is_a_valid_uri(route):
    allowed = r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*"  # RFC 3986
    assert re.fullmatch(allowed, route.uri)
    assert not re.search("%(?![0-9A-F]{2})", urlsplit(route.uri).fragment)


@given(routes, names)
def test_the_tool_goes_in_and_comes_out(route, tool):
    uri = ServerRoute.parse(route.uri.split("#")[0]).uri
    assert split_tool(merge_tool(uri, tool)) == (uri, tool)
    assert ServerRoute.parse(merge_tool(uri, tool)).tool == tool
    without, found = split_tool(route.uri)
    assert found == route.tool
    assert ServerRoute.parse(without).tool is None


def test_only_what_differs_from_the_default_is_said():
    assert ServerRoute("https://h/mcp").uri == "https://h/mcp"
    full = ServerRoute(
        "https://h/mcp?v=1",
        credential="prod key",
        send_credentials_as="header",
        header_name="X-Key",
        issuer="https://login.host/realm",
        scope="read write",
        headers=(("X-Team", "a b"), ("X-Token", "{credential.password}")),
        transport="sse",
        tool="ünï&tool",
        digest="sha256:00",
    )
    assert full.uri == (
        "https://h/mcp?v=1#tool=%C3%BCn%C3%AF%26tool&credential=prod%20key&send_credentials_as=header"
        "&header_name=X-Key&issuer=https://login.host/realm&scope=read%20write&header=X-Team:a%20b&header=X-Token:%7Bcredential.password%7D&transport=sse"
        "&digest=sha256:00"
    )
    assert full.url == "https://h/mcp?v=1"


@pytest.mark.parametrize(
    ("text", "uri", "tool"),
    [
        ("https://h#tool=a", "https://h", "a"),
        ("https://h#credential=c&tool=a%20b&transport=sse", "https://h#credential=c&transport=sse", "a b"),
        ("https://h#credential=c&tool=a", "https://h#credential=c", "a"),
        ("https://h?tool=a", "https://h?tool=a", None),
        ("https://h#credential=tool=a", "https://h#credential=tool=a", None),
    ],
)
def test_the_tool_is_found_wherever_it_stands(text, uri, tool):
    assert split_tool(text) == (uri, tool)


def test_a_route_keeps_what_it_says_itself_and_takes_over_the_rest():
    own = ServerRoute.parse("https://h#send_credentials_as=basic&header=X-A:1&transport=sse")
    options = ServerRoute(
        "https://other",
        credential="prod",
        send_credentials_as="header",
        header_name="X-Key",
        headers=(("X-B", "2"),),
        transport="http",
        digest="sha256:00",
    )
    rest = "#credential=prod&send_credentials_as=basic&header_name=X-Key&header=X-B:2&header=X-A:1"
    assert own.completed(options).uri == f"https://h{rest}&transport=sse&digest=sha256:00"
    # How a credential is sent means nothing without one.
    plain = ServerRoute("https://h").completed(replace(options, credential=None))
    assert plain.uri == "https://h#header=X-B:2&transport=http&digest=sha256:00"


def test_what_people_paste_is_understood():
    assert ServerRoute.parse("  https://h/mcp \n").url == "https://h/mcp"
    assert ServerRoute.parse("https://h/mcp#").uri == "https://h/mcp"
    assert ServerRoute.parse("https://h/mcp#credential=&transport=auto").credential is None


def test_what_cannot_work_is_refused(subtests):
    for text, message in [
        ("", "is empty"),
        ("   ", "is empty"),
        ("host/mcp", "does not start with http"),
        ("localhost:8000/mcp", "does not start with http"),
        ("ftp://host/x", "starts with ftp://"),
        ("https:///mcp", "names no host"),
        ("https://host:99999/", "malformed host or port"),
        ("https://host:port/", "malformed host or port"),
        ("https://[::1/mcp", "malformed host or port"),
        ("https://host/a b", "no URL can hold"),
        ("npx -y @modelcontextprotocol/server-everything", "is a command or another text"),
        ("https://host/\\x", "no URL can hold"),
        ("https://host/\ud800", "no URL can hold"),
        ("stdio:", "names no command"),
        ("https://{credential.password}.host/", "outside the values"),
        ("https://host/{credential.password}", "outside the values"),
        ("https://host/?{credential.password}=1", "in the name of a query parameter"),
        ("https://host/#section", "cannot be read"),
        ("https://host/#tool=a&tool=b", "cannot be read"),
        ("https://host/#future=1", "cannot be read"),
        ("https://host/#transport=carrier-pigeon", "no possible value of transport"),
        ("https://host/#send_credentials_as=x", "no possible value of send_credentials_as"),
        ("https://host/#header=:x", "name of a header"),
        ("https://host/#header=X-A:a%0Ab", "line break"),
    ]:
        with subtests.test(text=text, message=message):
            with pytest.raises(SettingInvalid, match=re.escape(message)) as caught:
                ServerRoute.parse(text)
            assert caught.value.fix, "every error says what to do"


def test_secrets_are_refused_and_never_shown(subtests):
    for text in [
        "https://user:S3CRET@host/mcp",
        "https://S3CRET@host/mcp",
        "https://host/?api_key=S3CRET",
        "https://host/?exaApiKey=S3CRET",
        "https://host/?access_token=S3CRET",
        "https://host/?key=S3CRET",
        "https://host/?x-amz-signature=S3CRET",
        "https://host/?code=S3CRETS3CRETS3CRETS3CRET",
        "https://host/?v=1&client_secret=S3CRET",
        "https://host/?q=sk-S3CRET",
        "https://host/#header=Authorization:Bearer%20S3CRET",
        "https://host/#header=X-Api-Key:S3CRET",
        "https://host/#header=Cookie:S3CRET",
        "https://host/#header=X-Team:Bearer%20sk-S3CRET",
        "ftp://user:S3CRET@host/",
        "https://user:S3CRET@host:port/",
        "https://host/?S3CRET#x",
    ]:
        with subtests.test(text=text):
            with pytest.raises(SettingInvalid) as caught:
                ServerRoute.parse(text)
            assert "S3CRET" not in str(caught.value) + repr(vars(caught.value))
            assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "text",
    [
        "https://host/?country_code=de&code=de&sort_key=name&max_tokens=5&author=me&token=",
        "https://host/?apiKey={credential.password}&user={credential.username}",
        "https://host/?apiKey=%7Bcredential.password%7D",
        "https://host/@scope/mcp",
        "https://[::1]:8000/mcp",
        "http://127.0.0.1:8000/sse",
        "stdio:files",
        "https://host/#header=Authorization:Basic%20{credential.password}",
    ],
)
def test_what_is_no_secret_is_taken(text):
    route = ServerRoute.parse(text)
    assert ServerRoute.parse(route.uri) == route


@pytest.mark.parametrize(
    "issuer",
    [
        "login.host",
        "ftp://login.host",
        "https://me:s3cret@host",
        "https://host?a=1",
        "https://host/#x",
        "https://h h",
    ],
)
def test_an_issuer_is_the_url_of_a_server(issuer):
    with pytest.raises(SettingInvalid, match="not the URL of an authorization server") as caught:
        ServerRoute("https://h", issuer=issuer)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("scope", ["a  b", " a", 'a"b', "a\nb", "ä"])
def test_a_scope_is_what_oauth_can_send(scope):
    with pytest.raises(SettingInvalid, match="no OAuth scope can hold"):
        ServerRoute("https://h", scope=scope)


def test_a_header_of_the_route_itself_counts_more_than_one_of_the_options():
    own = ServerRoute.parse("https://h.example/mcp#header=x-tenant:row")
    options = ServerRoute("https://h.example/mcp", headers=(("X-Tenant", "node"), ("X-Other", "node")))
    assert own.completed(options).headers == (("X-Other", "node"), ("x-tenant", "row"))
