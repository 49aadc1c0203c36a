"""A graph behind bearer tokens, and the two spellings of its address."""

import httpx
import pytest

from knime_mcp.tools import BearerAuth, MCPClient
from knime_mcp.types.errors import MCPError

from .graphs import transform
from .live import REVISIONS, SERVE, command, graph_file, served

HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    },
}
LISTING = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    file = folder / "tokens"
    file.write_text("# the team's\nteam-token\n\n  other-token  \n")
    document = graph_file(folder, transform("{'r': entry.v}"))
    with served(*SERVE, document, "--http", "0", "--tokens-file", file) as server:
        yield server.url
    assert "team-token" not in "".join(server.said)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("token", ["team-token", "other-token"])
@pytest.mark.parametrize("end", ["", "/"])
def test_a_client_with_a_token_lists_and_calls(url, revision, token, end):
    with MCPClient(url + end, auth=BearerAuth(token), protocol_version=revision) as client:
        assert [tool.name for tool in client.list_tools()] == ["t"]
        assert client.call_tool("t", {"v": 1}).structured_content == {"r": 1}


@pytest.mark.parametrize("auth", [None, "no-token", "# the team's"])
@pytest.mark.parametrize("end", ["", "/"])
def test_nobody_else_is_let_in(url, auth, end):
    headers = {} if auth is None else {"Authorization": f"Bearer {auth}"}
    answer = httpx.post(url + end, json=HELLO, headers=HEADERS | headers, verify=False, timeout=60)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    with pytest.raises(MCPError):
        MCPClient(url + end).connect()


def test_a_session_belongs_to_the_token_that_began_it(url):
    def client(token):
        return httpx.Client(headers=HEADERS | {"Authorization": f"Bearer {token}"}, verify=False, timeout=60)

    with client("team-token") as mine, client("other-token") as theirs:
        session = {"Mcp-Session-Id": mine.post(url, json=HELLO).headers["mcp-session-id"]}
        assert theirs.post(url, json=LISTING, headers=session).status_code == 404
        assert theirs.delete(url, headers=session).status_code == 404
        assert mine.post(url, json=LISTING, headers=session).status_code == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tokens-file", "tokens"], "does not go with stdin"),
        (["--http", "0", "--tokens-file", "tokens", "--unprotected"], "does not go with --unprotected"),
        (["--http", "0", "--tokens-file", "empty"], "no token"),
        (["--http", "0", "--tokens-file", "two words"], "characters"),
        (["--http", "0", "--host", "0.0.0.0"], "--tokens-file FILE asks for a bearer token"),
    ],
)
def test_tokens_that_would_guard_nothing_are_an_error(tmp_path, options, said):
    (tmp_path / "tokens").write_text("a\n")
    (tmp_path / "empty").write_text("# a\n\n")
    (tmp_path / "two words").write_text("a b\n")
    document = graph_file(tmp_path, transform("1"))
    given = [str(tmp_path / word) if (tmp_path / word).exists() else word for word in options]
    done = command("serve", document, *given)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
