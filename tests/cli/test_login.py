"""`knime-mcp login` and `logout`, as people run them, with a browser that logs in at once."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.network import NetworkSettings
from knime_mcp.client.oauth.grants import AuthorizationCode, ClientCredentials
from knime_mcp.client.oauth.logins import MemoryStore, RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth, stored_login
from tests.cli.conftest import CommandLine
from tests.client.oauth.world import CANARY, Person, open_world

# A keyring in a file of the test, and a browser that is a short program.
KEYRING = """
import json, os
from pathlib import Path
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

class TestKeyring(KeyringBackend):
    priority = 5

    def read(self):
        path = Path(os.environ["TEST_KEYRING_FILE"])
        return json.loads(path.read_text()) if path.exists() else {}

    def write(self, entries):
        Path(os.environ["TEST_KEYRING_FILE"]).write_text(json.dumps(entries))

    def get_password(self, service, username):
        return self.read().get(f"{service}|{username}")

    def set_password(self, service, username, password):
        self.write(self.read() | {f"{service}|{username}": password})

    def delete_password(self, service, username):
        entries = self.read()
        if f"{service}|{username}" not in entries:
            raise PasswordDeleteError("none")
        del entries[f"{service}|{username}"]
        self.write(entries)
"""


@pytest.fixture
def world():
    with open_world() as opened:
        yield opened


class Terminal(CommandLine):
    """The command line with a keyring and a browser."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "test_keyring_backend.py").write_text(KEYRING)
        browser = folder / "browser.py"
        browser.write_text(
            "import sys, httpx; httpx.get(sys.argv[1], follow_redirects=True, trust_env=False)\n"
        )
        self.keyring = folder / "keyring.json"
        self.env = {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])),
            "PYTHON_KEYRING_BACKEND": "test_keyring_backend.TestKeyring",
            "TEST_KEYRING_FILE": str(self.keyring),
            "BROWSER": f"{sys.executable} {browser} %s &",
            "COLUMNS": "200",
            "PYTHONWARNINGS": "error,ignore::ResourceWarning",  # Python waits for no browser
        }

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return super().start(*arguments, env=self.env | env)

    def __call__(self, *arguments: str, **env: str) -> tuple[int, str, str]:
        done = self.finish(self.start(*arguments, **env))
        return done.code, done.out, done.err


@pytest.fixture
def terminal(tmp_path):
    return Terminal(tmp_path)


def test_login_opens_a_browser_and_keeps_the_login(world, terminal):
    code, out, err = terminal("login", world.url)
    assert code == 0, err
    assert f"Logged in at {world.auth.issuer}; the server offers 1 tool." in out
    assert "is renewed then" in out
    assert CANARY not in out + err
    assert CANARY in terminal.keyring.read_text()
    assert world.auth.grants == ["authorization_code"]


def test_a_second_login_uses_the_same_client(world, terminal):
    assert terminal("login", world.url)[0] == 0
    assert terminal("login", world.url)[0] == 0
    assert len(world.auth.http.at("/register")) == 1


def test_logout_forgets_the_login(world, terminal):
    terminal("login", world.url)
    code, out, _ = terminal("logout", world.url)
    assert code == 0
    assert "is forgotten" in out
    assert terminal.keyring.read_text() == "{}"
    assert "There was no login" in terminal("logout", world.url)[1]


def test_without_a_browser_the_address_is_shown(world, terminal):
    process = terminal.start("login", world.url, "--no-browser")
    try:
        address = ""
        while not address.startswith("http"):
            address = process.stderr.readline().strip()
            assert process.poll() is None or address
        httpx.get(address, follow_redirects=True, trust_env=False)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert "Logged in at" in out


def test_a_machine_without_a_keyring_says_what_to_do_and_opens_nothing(world, terminal):
    code, _, err = terminal("login", world.url, PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring")
    assert code == 2
    assert "no keyring that could keep a login safe" in err
    assert "--print-token" in err
    assert world.mcp.seen == []


def test_a_machine_without_a_keyring_can_print_the_token(world, terminal):
    code, out, err = terminal(
        "login", world.url, "--print-token", PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring"
    )
    assert code == 0, err
    assert out.strip() in world.valid
    assert not terminal.keyring.exists()


def test_a_program_logs_in_with_a_secret_from_the_environment(world, terminal):
    arguments = [
        "login",
        world.url,
        "--client-credentials",
        "--client-id",
        "robot",
        "--client-secret-env",
        "S",
    ]
    code, out, err = terminal(*arguments, S=f"secret-{CANARY}")
    assert code == 1, "nobody said whose secret it is"
    assert f"give '{world.auth.issuer}' as issuer" in err
    code, out, err = terminal(*arguments, "--issuer", world.auth.issuer, S=f"secret-{CANARY}")
    assert code == 0, err
    assert world.auth.grants == ["client_credentials"]
    assert CANARY not in out + err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--client-credentials"], "needs --client-id"),
        (["--client-secret-env", "S"], "need --client-id"),
        (["--client-id", "x", "--client-secret-env", "KNIME_MCP_NOT_SET"], "is not set or empty"),
        (["--client-id", "x", "--client-secret-env", "S", "--private-key", "k"], "cannot be used together"),
    ],
)
def test_options_that_cannot_work(world, terminal, arguments, said):
    code, _, err = terminal("login", world.url, *arguments, S="x")
    assert code == 2
    assert said in err
    assert world.mcp.seen == []


def test_a_login_that_is_refused_says_why(world, terminal):
    world.auth.redirect_extra = {"code": None, "error": "access_denied"}
    code, _, err = terminal("login", world.url)
    assert code == 1
    assert "refused the login: access_denied" in err
    assert not terminal.keyring.exists() or "login" not in terminal.keyring.read_text()


def test_a_server_that_lets_everybody_in_needs_no_login(world, terminal):
    world.valid[""] = set()
    code, out, _ = terminal("login", world.url)
    assert code == 0
    assert "lets everybody in" in out
    assert world.auth.http.seen == []


@pytest.mark.parametrize("kind", ["person", "machine"])
def test_other_commands_use_the_stored_login_and_renew_it(world, kind):
    store = MemoryStore()
    assert stored_login(world.url, network=NetworkSettings(), store=store) is None
    grant = (
        AuthorizationCode(Person())
        if kind == "person"
        else ClientCredentials(RegisteredClient("robot", "s3cr3t"))
    )
    OAuth(world.url, grant, store=store, issuer=world.auth.issuer).log_in()
    world.expire_all()
    found = stored_login(world.url, network=NetworkSettings(), store=store)
    with MCPClient(world.url, auth=found) as client:
        assert client.list_tools()
    assert world.auth.grants[1:] == ["refresh_token" if kind == "person" else "client_credentials"]
