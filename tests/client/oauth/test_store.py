"""Where logins are kept."""

import dataclasses
import threading

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

from knime_mcp.client.oauth import oauth as oauth_module
from knime_mcp.client.oauth.logins import (
    KeyringStore,
    Login,
    MemoryStore,
    RegisteredClient,
    Tokens,
    client_from_text,
    login_from_text,
    to_text,
)
from knime_mcp.client.oauth.oauth import login_key
from knime_mcp.system import try_to_lock
from knime_mcp.types.errors import SettingInvalid
from tests.client.oauth.test_renewal import logged_in
from tests.support.waiting import until

pytestmark = pytest.mark.quick


class SmallKeyring(KeyringBackend):
    """Windows' limits, in memory."""

    priority = 5

    def __init__(self):
        super().__init__()
        self.entries = {}
        self.locked = False

    def get_password(self, service, username):
        if self.locked:
            raise KeyringLocked("locked")
        return self.entries.get((service, username))

    def set_password(self, service, username, password):
        assert len(password.encode("utf-16-le")) <= 2560, "too long for Windows"
        self.entries[service, username] = password

    def delete_password(self, service, username):
        if (service, username) not in self.entries:
            raise PasswordDeleteError("none")
        del self.entries[service, username]


@pytest.fixture
def small():
    before = keyring.get_keyring()
    backend = SmallKeyring()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


@pytest.fixture(params=["memory", "keyring"])
def store(request, small):
    return MemoryStore() if request.param == "memory" else KeyringStore()


@pytest.mark.parametrize("text", ["x", "ü" * 999, "long " * 3000, ""])
def test_text_comes_back(store, text):
    store.save("key", text)
    assert store.load("key") in ({text} if text else {text, None})
    assert store.load("other") is None


def test_a_shorter_text_leaves_nothing_of_the_longer_one(small):
    store = KeyringStore()
    store.save("key", "x" * 5000)
    store.save("key", "y")
    assert store.load("key") == "y"
    assert len(small.entries) == 2
    assert store.delete("key")
    assert small.entries == {}
    assert not store.delete("key")


def test_a_text_that_is_torn_is_none(small):
    store = KeyringStore()
    store.save("key", "x" * 3000)
    small.entries["knime-mcp oauth", "key part 2"] = "somebody else's"
    assert store.load("key") is None


def test_a_locked_keyring_is_an_error_that_says_so(small):
    store = KeyringStore()
    small.locked = True
    with pytest.raises(SettingInvalid, match="Unlock it"):
        store.load("key")


@pytest.mark.parametrize("priority", [0, 0.5, -1])
def test_a_keyring_that_protects_nothing_is_refused(small, priority):
    """Priority 0.5 is that of the plain-text file of keyrings.alt."""
    small.__class__ = type("Poor", (SmallKeyring,), {"priority": priority})
    with pytest.raises(SettingInvalid, match="no keyring that could keep a login safe") as caught:
        KeyringStore()
    assert "--bearer-env" in caught.value.fix


LOGIN = Login(
    "https://as",
    "https://h/mcp",
    RegisteredClient(
        "id", "canary-s", "canary-k", "RS256", "client_secret_post", "http://127.0.0.1:1/callback"
    ),
    Tokens("canary-a", "canary-r", 1.5, 1.0, "a b"),
    "a b",
    "client_credentials",
)


def test_a_login_comes_back_and_shows_no_secret():
    assert login_from_text(to_text(LOGIN)) == LOGIN
    assert client_from_text(to_text(LOGIN.client)) == LOGIN.client
    assert "canary" not in repr(LOGIN)
    assert login_from_text(to_text(LOGIN).replace("{", '{"of_later": 1,', 1)) == LOGIN


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", "x", '{"issuer":"i","resource":"r","client":{"unknown":1}}']
)
def test_what_is_no_login_is_none(text):
    assert login_from_text(text) is None
    assert client_from_text(text) is None


def test_two_processes_do_not_refresh_one_login(small, world, person, tmp_path, monkeypatch):
    """A file is held by who refreshes; who comes second takes the login of the first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    waited = threading.Event()

    def noted(file):
        locked = try_to_lock(file)
        if not locked:
            waited.set()
        return locked

    monkeypatch.setattr(oauth_module, "try_to_lock", noted)
    store, key = KeyringStore(), login_key(world.url)
    mine = logged_in(world, person, store)
    world.expire_all()
    path = store.lock_file(key)
    path.parent.mkdir(parents=True)
    thread = threading.Thread(target=lambda: (mine.headers(), mine.challenged(401, None)))
    with path.open("ab") as file:
        assert try_to_lock(file)
        thread.start()
        until(waited.is_set)
        tokens = dataclasses.replace(mine.login.tokens, access_token="of-the-other")
        store.save(key, to_text(dataclasses.replace(mine.login, tokens=tokens)))
    thread.join(30)
    assert mine.headers() == {"Authorization": "Bearer of-the-other"}
    assert world.auth.grants == ["authorization_code"]
