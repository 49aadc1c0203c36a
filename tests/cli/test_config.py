"""Servers with names, and those of other programs."""

import json
import shlex
import sys

import pytest

from knime_mcp.cli.connection_options import servers
from knime_mcp.cli.other_programs import ExportedServers, without_secrets
from knime_mcp.tools.node_settings.named_servers import read_entries
from tests.cli.conftest import ROOT, SECRET
from tests.support import commands
from tests.support.chat_server import ChatServer, says

CHILD = ROOT / "tests" / "client" / "stdio_child.py"
KEY = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


@pytest.fixture
def named(cli, tmp_path):
    """Runs the command line with a file of servers of its own."""
    file = tmp_path / "settings" / "servers.json"

    def run(*words, **options):
        return cli(*words, env={"KNIME_MCP_SERVERS": str(file), **options.pop("env", {})}, **options)

    run.file = file
    return run


def test_a_name_stands_for_a_url_in_every_command(named, server, tmp_path):
    assert named("config", "add", "mine", server.url).code == 0
    assert "echo" in named("list", "mine").out
    assert named("call", "mine", "add", "a=2", "b=40").out.strip() == "42"
    table = tmp_path / "numbers.csv"
    table.write_text("a,b\n1,2\n")
    assert named("batch", "mine", "add", table).code == 0
    assert "knime-mcp list mine" in named("inspect", "mine").out
    assert "knime-mcp list mine" in named("call", "mine", "nosuch").err


def test_a_name_stands_for_a_command_and_no_table_can_start_it(named, server):
    command = commands.words_of("knime-nodes", "serve")
    assert named("config", "add", "nodes", "--stdio", shlex.join(command)).code == 0
    assert "search_nodes" in named("list", "nodes").out
    done = named("list", "stdio:nodes")
    assert done.code == 1
    assert "search_nodes" not in done.out


def test_a_command_with_a_name_starts_in_its_folder_wherever_the_name_is_used(named, tmp_path):
    child = [sys.executable, str(CHILD)]
    assert named("config", "add", "here", "--stdio", shlex.join(child)).code == 0
    (tmp_path / "project" / "data").mkdir(parents=True)
    servers = {
        "around": {"command": child[0], "args": child[1:]},
        "data": {"command": child[0], "args": child[1:], "cwd": "data"},
    }
    (tmp_path / "project" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert named("config", "import", tmp_path / "project" / "mcp.json").code == 0
    for name, folder in (("here", "."), ("around", "project"), ("data", "project/data")):
        done = named("call", name, "env")
        assert json.loads(done.out)["cwd"] == str(tmp_path / folder), done.err


def test_the_secret_of_a_name_comes_from_the_environment_and_shows_nowhere(named, server):
    url = f"{server.base}/guarded/mcp"
    done = named("config", "add", "locked", url, "--bearer-env", "LOCKED_TOKEN")
    assert done.code == 0
    assert "LOCKED_TOKEN" in named.file.read_text()
    unset = named("list", "locked")
    assert unset.code == 1
    assert "LOCKED_TOKEN is not set" in unset.err
    assert "echo" in named("list", "locked", env={"LOCKED_TOKEN": SECRET}).out
    wrong = named("list", "locked", env={"LOCKED_TOKEN": "canary-of-a-wrong-token-91"})
    assert wrong.code == 1
    assert "canary-of-a-wrong-token-91" not in wrong.out + wrong.err


def test_a_name_that_nobody_gave_names_those_that_there_are(named, server):
    named("config", "add", "mine", server.url)
    done = named("list", "mime")
    assert done.code == 2
    assert "mine" in done.err
    assert "config add mime" in done.err


def test_a_name_is_taken_for_one_before_any_server_has_a_name(named, tmp_path):
    (tmp_path / "in.csv").write_text("a\n1\n", encoding="utf-8")
    for words in (("list", "files"), ("call", "files", "echo"), ("batch", "files", "echo", "in.csv")):
        done = named(*words)
        assert done.code == 2
        assert "no server called 'files'. Servers with a name: none yet." in done.err
        assert "config add files URL" in done.err
    assert "does not start with http" in named("list", "files.example").err  # a host without its scheme


def test_names_are_listed_replaced_on_request_and_forgotten(named, server):
    assert "config add" in named("config", "list").out
    named("config", "add", "mine", server.url)
    assert named("config", "add", "mine", "http://127.0.0.1:9/other").code == 2
    assert named("config", "add", "mine", "http://127.0.0.1:9/other", "--force").code == 0
    assert named("config", "list", "--json").json == {"mine": {"url": "http://127.0.0.1:9/other"}}
    assert named("config", "remove", "mine").code == 0
    assert named("config", "remove", "mine").code == 2
    assert named("config", "add", "no name", server.url).code == 2


def test_the_file_is_for_its_user_only(named, server):
    named("config", "add", "mine", server.url)
    assert named.file.stat().st_mode & 0o077 == 0


# Comments and commas at the end, as VS Code allows them.
FOREIGN = """{ // mine
  "servers": {
    "git hub": {
      "type": "stdio", "command": "npx", "args": ["-y", "x", "--token", "KEY",], "env": {"MODE": "fast"}
    },
    "mine": {
      "url": "http://127.0.0.1:9/mcp?lang=de&api_key=KEY", "headers": {"Authorization": "Bearer KEY"}
    }, /* last */
  }
}""".replace("KEY", KEY)


def test_servers_of_another_program_come_without_their_secrets(named, server, tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text(FOREIGN)
    done = named("config", "import", file)
    assert done.code == 0
    assert KEY not in done.out + done.err + named.file.read_text()
    entries = json.loads(named.file.read_text())["mcpServers"]
    assert entries["git-hub"]["args"][-1] == "${GIT_HUB_TOKEN}"
    assert entries["git-hub"]["env"] == {"MODE": "fast"}
    assert entries["mine"]["url"] == "http://127.0.0.1:9/mcp?lang=de&api_key=${MINE_API_KEY}"
    assert entries["mine"]["headers"] == {"Authorization": "Bearer ${MINE_AUTHORIZATION}"}
    assert "GIT_HUB_TOKEN" in done.err
    again = named("config", "import", file)
    assert again.code == 1
    assert "--force" in again.err


def test_servers_in_the_forms_of_other_programs_are_used(named, server, tmp_path):
    """And what cannot be is said when it is imported, and not when it is used."""
    url = f"{server.base}/mcp"
    token = {"headers": {"X-Team": "$MCP_TEAM"}}
    forms = {
        "nested": {"transport": {"type": "http", "url": url, **token}},
        "dollar": {"type": "http", "url": f"{server.base}$MCP_PATH"},
        "percent": {"type": "streamable_http", "url": url, "headers": {"X-Team": "%MCP_TEAM%"}},
        "braces": {"type": "remote", "url": url, "headers": {"X-Team": "{env:MCP_TEAM}"}, "enabled": True},
        "capitals": {"type": "Streamable-HTTP", "url": url},
        "list": {
            "type": "local",
            "command": [sys.executable, str(CHILD)],
            "environment": {"A": "$5 pa$word"},
        },
        "off": {"type": "http", "url": url, "enabled": False},
    }
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcp": forms}))
    done = named("config", "import", file)
    assert done.code == 0, done.err
    assert "'off' is left out" in done.err
    entries = json.loads(named.file.read_text())["mcpServers"]
    assert entries["nested"]["headers"] == {"X-Team": "${MCP_TEAM}"}
    assert entries["percent"]["headers"] == entries["braces"]["headers"] == {"X-Team": "${MCP_TEAM}"}
    assert entries["list"]["env"] == {"A": "$5 pa$word"}
    for name in forms.keys() - {"off"}:
        used = named("list", name, env={"MCP_TEAM": "t", "MCP_PATH": "/mcp"})
        assert (name, used.code) == (name, 0), used.err
    file.write_text(json.dumps({"mcpServers": {"pigeon": {"type": "carrier-pigeon", "url": url}}}))
    done = named("config", "import", file)
    assert done.code == 1
    assert "'pigeon' has an unknown type" in done.err


VS_CODE = """{
  // Servers of this workspace
  "inputs": [{"type": "promptString", "id": "git-token", "description": "Token", "password": true}],
  "servers": {
    "git": {"type": "http", "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer ${input:git-token}"}},
    "here": {"type": "stdio", "command": "PYTHON", "args": ["${workspaceFolder}/server.py"],
             "env": {"KEY": "${input:git-token}", "PLACE": "${userHome}"},
             "envFile": "${workspaceFolder}/.env"},
    "off": {"command": "x", "disabled": true},
  },
}"""


def test_what_only_vs_code_can_fill_in_is_filled_in_or_named(named, tmp_path):
    folder = tmp_path / "project" / ".vscode"
    folder.mkdir(parents=True)
    (folder / "mcp.json").write_text(VS_CODE.replace("PYTHON", sys.executable))
    done = named("config", "import", folder / "mcp.json", env={"HOME": str(tmp_path)})
    assert done.code == 0, done.err
    entries = json.loads(named.file.read_text())["mcpServers"]
    assert entries["git"]["headers"] == {"Authorization": "Bearer ${GIT_TOKEN}"}
    assert entries["here"]["args"] == [f"{folder.parent}/server.py"]
    assert entries["here"]["env"] == {"KEY": "${GIT_TOKEN}", "PLACE": str(tmp_path)}
    assert "off" not in entries
    assert done.err.count("GIT_TOKEN") == 1
    assert "'off' is left out" in done.err
    assert ".env" in done.err


def test_two_servers_of_a_file_that_would_have_the_same_name(named, tmp_path):
    servers = {name: {"url": f"http://127.0.0.1:9/{n}"} for n, name in enumerate(("my server", "my-server"))}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    done = named("config", "import", tmp_path / "mcp.json")
    assert "'my-server' is left out, as another one of that file is called so" in done.err
    assert json.loads(named.file.read_text())["mcpServers"] == {"my-server": servers["my server"]}


def test_a_program_is_looked_for_where_it_keeps_its_servers(named, tmp_path):
    folder = tmp_path / ".cursor"
    folder.mkdir()
    (folder / "mcp.json").write_text('{"mcpServers": {"a": {"url": "http://127.0.0.1:9/mcp"}}}')
    assert "a" in named("config", "import", "cursor", env={"HOME": str(tmp_path)}).out
    missing = named("config", "import", "windsurf", env={"HOME": str(tmp_path)})
    assert missing.code == 1
    assert "Windsurf" in missing.err


@pytest.mark.parametrize("text", ["[1]", '{"mcpServers": []}', "{", '{"mcpServers": {}}'])
def test_a_file_without_servers_is_named(named, tmp_path, text):
    file = tmp_path / "mcp.json"
    file.write_text(text)
    done = named("config", "import", file)
    assert done.code == 1
    assert str(file) in done.err


def test_comments_are_no_part_of_texts(tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"url": "http://127.0.0.1/x,]//y", "args": ["/*", "b", ]}}} // end')
    assert read_entries(file) == {"a": {"url": "http://127.0.0.1/x,]//y", "args": ["/*", "b"]}}


def test_what_is_no_secret_stays():
    entry = {"command": "x", "args": ["--mode", "fast", "--depth=3", "/tmp"], "env": {"LOG_LEVEL": "error"}}
    assert without_secrets("a", entry) == (entry, [])
    given = {"headers": {"Authorization": "Bearer ${TOKEN}"}, "args": [f"--api-key={KEY}", 3]}
    clean, variables = without_secrets("a b", given)
    assert clean == {"headers": given["headers"], "args": ["--api-key=${A_B_API_KEY}", 3]}
    assert variables == ["A_B_API_KEY"]


def test_an_entry_that_cannot_be_used_spoils_no_other(named, server):
    named.file.parent.mkdir()
    entries = {"good": {"type": "http", "url": server.url}, "text": 5}
    entries["host"] = {"type": "http", "url": "http://[bad"}
    named.file.write_text(json.dumps({"mcpServers": entries}))
    assert "echo" in named("list", "good").out
    assert server.url in named("config", "list").out
    done = named("list", "host")
    assert done.code == 1
    assert "the URL of the server 'host' has a malformed host" in done.err


def test_a_command_without_its_words_gets_no_name(named):
    done = named("config", "add", "mine", "stdio:files")
    assert done.code == 2
    assert "--stdio 'COMMAND'" in done.err
    assert not named.file.exists()


def test_what_is_exported_is_what_the_program_would_be_imported_from(named, tmp_path, monkeypatch):
    servers = {
        "web": {"url": "https://host.example/mcp", "headers": {"Authorization": "Bearer ${WEB_TOKEN}"}},
        "old": {"url": "https://host.example/sse", "type": "sse"},
        "files": {"command": "npx", "args": ["-y", "files"], "env": {"KEY": "${FILES_KEY}"}},
        "ours": {"url": "https://host.example/ours#credential=prod", "trust": True},
    }
    named.file.parent.mkdir()
    wrong = {}
    for program in ("claude-code", "cursor", "vscode"):
        named.file.write_text(json.dumps({"mcpServers": servers}))
        done = named("config", "export", "--for", program)
        assert done.code == 0, done.err
        assert "'ours' takes a credential by its name" in done.err
        assert ("WEB_TOKEN, FILES_KEY" in done.err) == (program != "vscode")
        (tmp_path / "there.json").write_text(done.out)
        named.file.unlink()
        assert named("config", "import", tmp_path / "there.json").code == 0
        again = read_entries(named.file)
        kept = {key: {**entry} for key, entry in servers.items()}
        kept["ours"] = {"url": "https://host.example/ours"}
        for entry in (*again.values(), *kept.values()):
            if entry.get("type") != "sse":
                entry.pop("type", None)
            if program == "cursor":  # which finds out the transport
                entry.pop("type", None)
            if "command" in entry:
                entry.pop("cwd", None)  # the folder of the file
            for values in (entry.get("headers"), entry.get("env")):
                for key in values or ():
                    values[key] = values[key].replace("${env:", "${")
        if again != kept:
            wrong[program] = again
    assert wrong == {}


def test_claude_desktop_gets_commands_only(named):
    named("config", "add", "web", "https://host.example/mcp", "--bearer-env", "WEB", env={"WEB": SECRET})
    named("config", "add", "files", "--stdio", "npx files", "--env", "KEY", env={"KEY": SECRET})
    done = named("config", "export", "--for", "claude")
    # The bridge fills in what stands in its environment: no secret on a command line, and no blank in a word.
    header = ["--header", "Authorization:${AUTHORIZATION_HEADER}"]
    assert done.json["mcpServers"] == {
        "web": {
            "command": "npx",
            "args": ["-y", "mcp-remote", "https://host.example/mcp", *header],
            "env": {"AUTHORIZATION_HEADER": "Bearer ${WEB}"},
        },
        "files": {"command": "npx", "args": ["files"], "env": {"KEY": "${KEY}"}},
    }
    assert "Claude Desktop fills in no variables: write them out there: WEB, KEY" in done.err


def test_headers_and_references_of_any_form_are_exported():
    entries = {
        "web": {"url": "https://host.example/mcp", "requestInit": {"headers": {"X-Key": "${env:KEY}"}}},
        "own": {"url": "https://host.example/own", "headers": {"X-Key": "${KEY:-none}"}},
    }
    servers = ExportedServers("claude-code", entries).content()["mcpServers"]
    headers = {name: server["headers"]["X-Key"] for name, server in servers.items()}
    assert headers == {"web": "${KEY}", "own": "${KEY:-none}"}


def test_the_model_stands_beside_the_servers_and_names_its_key_only(named, server):
    names = ("kept-model", "another")
    with ChatServer([says("Yes."), says("No."), says("Perhaps.")], models=names) as model:
        assert named("agent", "Really?").code == 2
        assert named("config", "model").code == 1
        assert named("config", "model", "kept-model").code == 2
        kept = named("config", "model", "kept-model", "--url", model.url, "--api-key-env", "A_KEY")
        assert kept.code == 0, kept.err
        named("config", "add", "mine", server.url)
        named("config", "trust", "mine")
        env = {"A_KEY": SECRET}
        assert named("agent", "Really?", env=env).out.strip() == "Yes."
        assert named("agent", "Really?", "--model", "another", env=env).out.strip() == "No."
        with ChatServer([says("Elsewhere.")], models=names) as other:
            there = named("agent", "Really?", "--model-url", other.url, env=env)
            assert there.out.strip() == "Elsewhere."
            assert SECRET not in str(other.requests[0].headers)
        assert named("agent", "Really?", "--server", "mine", env=env).out.strip() == "Perhaps."
    assert [request.body["model"] for request in model.requests] == ["kept-model", "another", "kept-model"]
    assert f"Agents ask kept-model at {model.url}, with the key in A_KEY" in named("config", "list").out
    unset = named("agent", "Really?")
    assert (unset.code, "The environment variable A_KEY is not set" in unset.err) == (2, True), unset.err
    content = json.loads(named.file.read_text())
    assert content["model"] == {"name": "kept-model", "url": model.url, "apiKeyEnv": "A_KEY"}
    assert content["mcpServers"]["mine"]["trust"] is True
    assert "yes" in named("config", "list").out
    named("config", "trust", "mine", "--stop")
    assert "trust" not in read_entries(named.file)["mine"]
    assert named("config", "model", "another", "--forget").code == 2
    assert "kept-model" in named("config", "model", "--forget").out
    assert json.loads(named.file.read_text()).keys() == {"mcpServers"}
    assert named("config", "model", "--forget").code == 1
    assert "No model is kept" in named("config", "list").out


def test_a_key_that_is_missing_is_said_before_anything_is_asked(named):
    for model, variable in (
        (("--model", "anthropic:some"), "ANTHROPIC_API_KEY"),
        (("--model", "some", "--model-url", "https://api.openai.com/v1"), "OPENAI_API_KEY"),
    ):
        for command in (("agent", "Really?"), ("chat",)):
            done = named(*command, *model, "--server", "http://127.0.0.1:9/mcp")
            assert done.code == 2
            assert "needs an API key" in done.err
            assert f"name that: --api-key-env {variable}" in done.err
            done = named(*command, *model, "--api-key-env", variable, env={variable: ""})
            assert (done.code, f"{variable} is not set or empty" in done.err) == (2, True)


def test_names_of_servers_are_offered_at_the_tab_key(named, monkeypatch):
    named("config", "add", "files", "http://127.0.0.1:9/mcp?page=x")
    named("config", "add", "other", "--stdio", "c x")
    monkeypatch.setenv("KNIME_MCP_SERVERS", str(named.file))
    assert servers("f") == [("files", "http://127.0.0.1:9/mcp")]
    assert [name for name, _ in servers("")] == ["files", "other"]
    named.file.write_text("{")
    assert servers("") == []
