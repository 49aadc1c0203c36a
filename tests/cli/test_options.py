from typing import ClassVar

import pytest

from knime_mcp.cli.command_errors import UsageError
from knime_mcp.cli.connection_options import ConnectionOptions
from knime_mcp.cli.sessions import Credentials
from knime_mcp.tools.node_settings.connection import Credential
from knime_mcp.types.errors import SettingInvalid

URL = "https://host.example/mcp"


def route(**options):
    (found,) = ConnectionOptions(**options).routes([URL])
    return found


def test_default_route_is_the_bare_url():
    assert route().uri == URL


def test_options_become_the_route():
    found = route(
        credential="prod",
        send_credentials_as="header",
        header_name="X-API-Key",
        header=["X-Team: sales"],
        transport="sse",
    )
    assert (found.credential, found.send_credentials_as, found.header_name) == ("prod", "header", "X-API-Key")
    assert (found.headers, found.transport) == ((("X-Team", "sales"),), "sse")


def test_what_a_url_says_itself_wins():
    (found,) = ConnectionOptions(credential="a", transport="http").routes(
        [f"{URL}#credential=b&transport=sse"]
    )
    assert (found.credential, found.transport) == ("b", "sse")


def test_one_secret_for_two_origins_is_refused():
    options = ConnectionOptions(credential="prod")
    with pytest.raises(UsageError, match="2 different servers"):
        options.routes([URL, "https://other.example/mcp"])
    assert len(options.routes([URL, "https://host.example/second"])) == 2
    assert len(options.routes([URL, "https://HOST.example:443/mcp"])) == 2
    assert len(options.routes([URL, "https://other.example/mcp#credential=other"])) == 2


def test_headers_with_a_secret_are_refused_without_showing_it():
    with pytest.raises(SettingInvalid) as caught:
        route(header=["Authorization: Bearer canary-1234"])
    assert "canary" not in str(caught.value)
    assert route(credential="p", header=["X-API-Key: {credential.password}"]).headers


def test_a_header_is_sent_once():
    assert route(header=["X-Team: a", "X-Team: a", "X-Other: b"]).headers == (
        ("X-Team", "a"),
        ("X-Other", "b"),
    )
    with pytest.raises(UsageError, match="--header names x-team twice"):
        route(header=["X-Team: a", "x-team: b"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"credential": "a", "bearer_env": "B"}, "--credential and --bearer-env cannot be used together"),
        ({"send_credentials_as": "header", "credential": "a"}, "needs --header-name"),
        ({"send_credentials_as": "basic"}, "needs --credential NAME"),
        ({"send_credentials_as": "client_credentials", "credential": "a"}, "needs --issuer"),
        ({"issuer": "https://login.host"}, "are for --send-credentials-as client_credentials"),
        ({"header": ["canary-1234"]}, "needs a name and a value"),
    ],
)
def test_contradictions_are_explained(options, words):
    with pytest.raises(UsageError, match=words) as caught:
        route(**options)
    assert "canary" not in str(caught.value)


def test_credentials_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("KNIME_MCP_MY_PROD_USERNAME", "anna")
    monkeypatch.setenv("KNIME_MCP_MY_PROD_PASSWORD", "canary-1234")
    credentials = Credentials(ConnectionOptions(credential="my prod"))
    assert credentials("my prod") == Credential("my prod", "anna", "canary-1234")
    assert credentials.secrets == ["canary-1234"]
    assert "canary" not in repr(credentials)


def test_then_from_the_keyring(monkeypatch):
    import keyring
    from keyring.backend import KeyringBackend

    class Memory(KeyringBackend):
        priority = 1
        stored: ClassVar = {("knime-mcp:prod", "anna"): "canary-1234"}

        def get_password(self, service, username):
            return self.stored.get((service, username))

        def get_credential(self, service, username):
            from keyring.credentials import SimpleCredential

            return next((SimpleCredential(u, p) for (s, u), p in self.stored.items() if s == service), None)

        def set_password(self, service, username, password):
            raise NotImplementedError

    before = keyring.get_keyring()
    keyring.set_keyring(Memory())
    try:
        assert Credentials(ConnectionOptions(credential="prod"))("prod") == Credential(
            "prod", "anna", "canary-1234"
        )
        with pytest.raises(SettingInvalid, match="KNIME_MCP_OTHER_PASSWORD"):
            Credentials(ConnectionOptions(credential="other"))("other")
    finally:
        keyring.set_keyring(before)


def test_a_token_from_a_variable(monkeypatch):
    options = ConnectionOptions(bearer_env="MY_TOKEN")
    (found,) = options.routes([URL])
    monkeypatch.setenv("MY_TOKEN", "canary-1234\n")
    assert Credentials(options)(found.credential) == Credential("MY_TOKEN", "", "canary-1234")
    monkeypatch.delenv("MY_TOKEN")
    with pytest.raises(SettingInvalid, match="MY_TOKEN is not set"):
        Credentials(options)(found.credential)


@pytest.mark.parametrize(
    "words",
    [
        ("call", "http://127.0.0.1:1/mcp", "t", "--total-timeout", "nan"),
        ("agent", "--time-limit", "nan", "hello"),
        ("knime-nodes", "keys", "create", "ci", "--days", "nan"),
    ],
)
def test_nan_is_neither_too_small_nor_too_large(cli, words):
    done = cli(*words)
    assert done.code == 2
    assert "'nan' is no number" in done.err
