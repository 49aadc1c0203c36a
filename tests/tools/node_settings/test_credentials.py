import base64
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import assume, given

from knime_mcp.tools.node_settings.connection import (
    OF_CALLS,
    OF_SERVER,
    ConnectionSettings,
    Credential,
    check_one_origin,
    chosen,
    client_for,
    credential_from_port,
    fill,
    find_credential,
    header_lines,
    options_text,
    refuse_commands,
    route_from_settings,
    sent_in_clear,
    timeouts_from_settings,
)
from knime_mcp.tools.node_settings.shared_parameters import credential_choices
from knime_mcp.types.errors import SettingInvalid
from knime_mcp.types.routing import ServerRoute
from tests.support.scripted_server import ScriptedServer, modern
from tests.types import strategies

pytestmark = pytest.mark.quick


CANARY = "canary-7f3a-secret"
PROD = Credential("prod", "ann", CANARY)
URL = "https://host/mcp"


class Store:
    def __init__(self, *names):
        self.names = names

    def get_credential_names(self):
        return self.names

    def get_credentials(self, name):
        if name not in self.names:
            raise KeyError(name)
        return SimpleNamespace(username="ann", password=CANARY)


def headers(auth):
    return None if auth is None else auth.headers()


def test_a_credential_is_found_by_name():
    assert find_credential(Store("dev", "prod"), "prod") == PROD
    assert find_credential(Store("prod"), None) is None


def test_an_unknown_credential_is_an_error_that_says_what_there_is_and_how_to_wire():
    with pytest.raises(SettingInvalid) as caught:
        find_credential(Store("dev", "prod"), "porod")
    assert "'porod'" in str(caught.value)
    assert "Available: dev, prod" in str(caught.value)
    assert "Credentials Configuration" in str(caught.value)
    with pytest.raises(SettingInvalid, match="None is available"):
        find_credential(Store(), "prod")


@pytest.mark.parametrize("name", ["", " ", None, "<none>"])
def test_an_empty_name_is_no_credential(name):
    assert chosen(name) is None


@pytest.mark.parametrize(
    ("ways", "sent"),
    [
        ({}, {"Authorization": f"Bearer {CANARY}"}),
        (
            {"send_credentials_as": "basic"},
            {"Authorization": "Basic " + base64.b64encode(f"ann:{CANARY}".encode()).decode()},
        ),
        ({"send_credentials_as": "header", "header_name": "X-Key"}, {"X-Key": CANARY}),
        ({"send_credentials_as": "header"}, {"X-API-Key": CANARY}),
    ],
)
def test_a_credential_is_sent_as_the_route_says(ways, sent):
    assert headers(fill(ServerRoute(URL, credential="prod", **ways), PROD).auth) == sent


def test_a_template_gets_the_password_and_nothing_else_does():
    route = ServerRoute(URL + "?key={credential.password}", credential="prod")
    filled = fill(route, Credential("prod", "ann", "a&b=c d"))
    assert filled.url == "https://host/mcp?key=a%26b%3Dc%20d"
    assert filled.auth is None


def test_templates_in_headers_are_filled_in():
    route = ServerRoute(
        URL,
        credential="prod",
        headers=(("X-User", "{credential.username}"), ("Authorization", "Token {credential.password}")),
    )
    filled = fill(route, PROD)
    assert filled.headers == {"X-User": "ann", "Authorization": f"Token {CANARY}"}
    assert filled.auth is None


def test_a_template_of_the_user_name_leaves_the_password_to_the_authorization():
    filled = fill(ServerRoute(URL + "?u={credential.username}", credential="prod"), PROD)
    assert filled.url == "https://host/mcp?u=ann"
    assert headers(filled.auth) == {"Authorization": f"Bearer {CANARY}"}


def test_a_user_name_that_looks_like_a_template_is_not_filled_in_again():
    sly = Credential("prod", "{credential.password}", CANARY)
    filled = fill(ServerRoute(URL, credential="prod", headers=(("X-User", "{credential.username}"),)), sly)
    assert filled.headers == {"X-User": "{credential.password}"}


@pytest.mark.parametrize(
    ("route", "credential", "words"),
    [
        (ServerRoute(URL + "?key={credential.password}"), None, "no credential is chosen"),
        (ServerRoute(URL, credential="prod"), Credential("prod", "ann", ""), "has no password"),
        (
            ServerRoute(URL + "?u={credential.username}", credential="prod"),
            Credential("prod", "", CANARY),
            "has no user name",
        ),
        (ServerRoute(URL, credential="prod"), Credential("prod", "", CANARY + " x"), "'prod'"),
        (ServerRoute(URL, credential="prod"), Credential("prod", "", CANARY + "\n"), "line break"),
        (
            ServerRoute(URL, credential="prod", send_credentials_as="basic"),
            Credential("prod", "a:b", CANARY),
            "colon",
        ),
        (
            ServerRoute(URL, credential="prod", headers=(("X-A", "{credential.password}"),)),
            Credential("prod", "", CANARY + "\r\nX-Evil: 1"),
            "line break",
        ),
    ],
)
def test_what_cannot_be_sent_is_an_error_without_the_secret(route, credential, words):
    with pytest.raises(SettingInvalid) as caught:
        fill(route, credential)
    assert words in str(caught.value)
    assert CANARY not in str(caught.value) + repr(caught.value) + repr(caught.value.__context__)


def test_nothing_shows_a_secret_by_accident():
    assert CANARY not in repr(PROD)
    assert CANARY not in repr(fill(ServerRoute(URL + "?key={credential.password}", credential="prod"), PROD))


def test_a_client_is_made_from_a_route():
    with ScriptedServer(modern()) as server:
        route = ServerRoute(server.url + "?key={credential.password}", credential="prod")
        with client_for(route, PROD) as client:
            client.list_tools()
        assert server.requests[-1].target.endswith(f"?key={CANARY}")
        with client_for(ServerRoute(server.url), None) as client:
            client.list_tools()
        assert "authorization" not in server.requests[-1].headers


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://host/mcp", True),
        ("https://host/mcp", False),
        ("http://localhost:1/mcp", False),
        ("http://127.0.0.1/mcp", False),
        ("http://[::1]/mcp", False),
        ("http://127.evil.example/mcp", True),
        ("http://localhost.evil.example/mcp", True),
    ],
)
def test_credentials_in_clear_are_noticed(url, clear):
    assert sent_in_clear(url) is clear


class Port:
    def __init__(self, schema="Bearer", parameters=CANARY, error=None):
        self.schema, self.parameters, self.error = schema, parameters, error

    @property
    def spec(self):
        if self.error:
            raise self.error
        return SimpleNamespace(auth_schema=self.schema, auth_parameters=self.parameters)


def test_a_credential_port_gives_a_bearer_token():
    filled = fill(ServerRoute(URL), credential_from_port(Port()))
    assert headers(filled.auth) == {"Authorization": f"Bearer {CANARY}"}


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (Port(schema="Basic"), "type 'Basic', but only Bearer"),
        (Port(parameters=""), "token of the credential port is empty"),
        (Port(error=ValueError(CANARY)), "credential port"),
        (object(), "credential port"),
    ],
)
def test_a_credential_port_without_a_token_is_an_error(port, words):
    with pytest.raises(SettingInvalid, match=words) as caught:
        credential_from_port(port)
    assert CANARY not in str(caught.value)


def test_a_ports_token_goes_to_one_origin_only():
    check_one_origin(["https://a/x", "https://a/y"])
    with pytest.raises(SettingInvalid, match=r"2 servers: https://a, https://b"):
        check_one_origin(["https://a/x", "https://b/x"])


def route(text="", *, url=URL, name="<none>"):
    options = ConnectionSettings.parse(text, names=(*OF_SERVER, "digest", *OF_CALLS))
    return route_from_settings(SimpleNamespace(server_url=url, credentials=name), options)


def test_settings_become_a_route_that_says_only_what_differs():
    assert route().uri == URL
    assert route("header_name = X-Key").uri == URL
    lines = "header_name = X-Key\ntransport=sse\n\n header = X-A: 1=1\nheader =X-B:2\ndigest = sha256:1"
    assert route(lines, name="prod") == ServerRoute(
        URL,
        credential="prod",
        send_credentials_as="header",
        header_name="X-Key",
        transport="sse",
        headers=(("X-A", "1=1"), ("X-B", "2")),
        digest="sha256:1",
    )


def test_an_issuer_gets_the_credential_and_a_server_without_one_gets_none():
    text = "issuer = https://login.host/realm\nscope = a b"
    found = route(text, name="prod")
    assert (found.send_credentials_as, found.issuer, found.scope) == (
        "client_credentials",
        "https://login.host/realm",
        "a b",
    )
    assert route(text).issuer is None


@given(strategies.routes)
def test_the_lines_of_a_route_are_read_back(whole):
    assume(whole.send_credentials_as != "bearer" or not (whole.header_name or whole.issuer))
    assume(whole.credential is None or whole.credential == whole.credential.strip() != "")
    if whole.credential is None:
        ways = {"send_credentials_as": "bearer", "header_name": None, "issuer": None, "scope": None}
        whole = replace(whole, **ways)
    found = route(options_text(whole), url=whole.url, name=whole.credential or "")
    assert found == replace(whole, tool=None)


@pytest.mark.parametrize(
    ("credential", "issuer", "said"),
    [
        (
            Credential("prod", "robot", ""),
            "https://login.host",
            "no password, which is needed for the client",
        ),
        (
            Credential("prod", "", CANARY),
            "https://login.host",
            "no user name, which is needed for the client id",
        ),
        (Credential("prod", "robot", CANARY), None, "which authorization server may see the client secret"),
    ],
)
def test_a_client_secret_goes_nowhere_without_all_that_it_needs(credential, issuer, said):
    route = ServerRoute(URL, credential="prod", send_credentials_as="client_credentials", issuer=issuer)
    with pytest.raises(SettingInvalid, match=said) as caught:
        fill(route, credential)
    assert CANARY not in str(caught.value)


def test_what_the_urls_fragment_says_wins():
    found = route("transport = http", url=URL + "#credential=prod&transport=sse", name="dev")
    assert (found.credential, found.transport) == ("prod", "sse")


def test_a_header_line_without_colon_is_named_by_number_only():
    with pytest.raises(SettingInvalid, match="Line 2") as caught:
        header_lines(f"X-A: 1\n{CANARY}")
    assert CANARY not in str(caught.value)


def test_a_flow_variable_that_is_no_number_is_no_clock():
    node = SimpleNamespace(connect_timeout=1.0, idle_timeout=float("nan"), total_timeout=1.0)
    with pytest.raises(SettingInvalid, match="idle timeout is no number"):
        timeouts_from_settings(node)


def test_servers_that_are_commands_are_refused():
    refuse_commands(ServerRoute(URL))
    with pytest.raises(SettingInvalid, match="Run it as an HTTP server"):
        refuse_commands(ServerRoute("stdio:files"))


class Broken:
    def get_credential_names(self):
        raise RuntimeError


@pytest.mark.parametrize("context", [None, Broken(), object()])
def test_the_choice_of_credentials_never_raises(context):
    assert credential_choices(context) == ["<none>"]


def test_no_credential_is_the_first_choice():
    assert credential_choices(Store("z", "a", "<none>")) == ["<none>", "a", "z"]
