"""The Tab key: servers with names, their tools and parameters, from the server or from what was kept."""

import json
import os
import subprocess
import sys

import pytest
import typer
from typer.main import get_command

from knime_mcp.cli import completion
from knime_mcp.cli.commands import build_app
from knime_mcp.client.protocol.tools import ToolDefinition
from tests.support.scripted_server import ScriptedServer, modern

SEARCH = ToolDefinition.from_raw(
    {
        "name": "search",
        "inputSchema": {
            "properties": {
                "text": {"type": "string", "description": "What to `find`: $(touch x)"},
                "exact": {"type": "boolean"},
                "order": {"enum": ["up", "down", "$(touch x)"]},
                "$(touch x)": {},
            }
        },
        "description": "Find 'it'; or \"not\".",
    }
)


@pytest.fixture(autouse=True)
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KNIME_MCP_SERVERS", str(tmp_path / "servers.json"))
    monkeypatch.setattr(completion, "_SECONDS", 60.0)  # a busy machine
    return tmp_path


def name_servers(folder, **servers):
    (folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))


def context(*words):
    """What typer knows of the words of `call` before the one that is completed."""
    command = get_command(build_app("call"))
    root = typer.Context(command, resilient_parsing=True)
    call = command.commands["call"]
    return call.make_context("call", list(words), parent=root, resilient_parsing=True)


def test_names_of_servers(settings):
    name_servers(
        settings, files={"url": "http://127.0.0.1:1/mcp?key=x"}, other={"command": "c", "args": ["x"]}
    )
    assert completion.servers("f") == [("files", "http://127.0.0.1:1/mcp")]
    assert [name for name, _ in completion.servers("")] == ["files", "other"]


def test_without_servers_nothing_is_offered():
    assert completion.servers("") == []


def test_tools_of_a_server_that_answers(settings):
    with ScriptedServer(modern()) as server:
        name_servers(settings, files={"url": server.url})
        (offered,) = completion.tools(context("files"), "")
    # The server is gone; what it said is kept.
    assert completion.tools(context("files"), offered[0][:2]) == [offered]


def test_a_server_that_does_not_answer_offers_nothing():
    assert completion.tools(context("http://127.0.0.1:1/mcp"), "") == []


def test_a_command_is_not_started(settings):
    name_servers(settings, mine={"command": sys.executable, "args": ["-c", f"open('{settings}/ran', 'w')"]})
    assert completion.tools(context("mine"), "") == []
    assert not (settings / "ran").exists()
    completion.keep_tools("mine", [SEARCH])  # as `knime-mcp list mine` does
    assert completion.tools(context("mine"), "") == [("search", "Find it or not .")]


@pytest.mark.parametrize(
    ("typed", "incomplete", "offered"),
    [
        ([], "", ["text=", "exact=", "order="]),
        (["text=a"], "", ["exact=", "order="]),
        ([], "te", ["text="]),
        ([], "order=", ["order=up", "order=down"]),
        ([], "order=d", ["order=down"]),
        ([], "text=", []),  # the shell offers files
        # As bash divides words, and click leaves out an = before the cursor:
        (["order"], "", ["up", "down"]),
        (["order", "="], "u", ["up"]),
        (["text"], "", []),
        (["text", "="], "a", []),
        (["text", "=", "a"], "", ["exact=", "order="]),
        (["nosuch", "="], "", []),
    ],
)
def test_parameters_and_their_choices(typed, incomplete, offered):
    completion.keep_tools("mine", [SEARCH])
    found = completion.arguments(context("mine", "search", *typed), incomplete)
    assert [name for name, _ in found] == offered


def test_what_is_said_of_a_parameter_is_harmless():
    completion.keep_tools("mine", [SEARCH])
    assert ("text=", "What to find touch x") in completion.arguments(context("mine", "search"), "te")
    assert completion.arguments(context("mine", "nosuch"), "") == []


@pytest.mark.parametrize(
    "properties", [{"x": True}, {"x": {"enum": 7, "description": 5}}, {"x": None}, ["x"], 3]
)
def test_definitions_that_are_no_schema_are_kept(settings, properties):
    definition = ToolDefinition.from_raw({"name": "odd", "inputSchema": {"properties": properties}})
    completion.keep_tools("mine", [definition])
    (kept,) = (settings / "cache" / "knime-mcp" / "tools").iterdir()
    assert "odd" in json.loads(kept.read_text())


def test_what_was_kept_and_is_damaged_offers_nothing(settings):
    completion.keep_tools("mine", [SEARCH])
    (kept,) = (settings / "cache" / "knime-mcp" / "tools").iterdir()
    kept.write_text("{")
    assert completion.tools(context("mine"), "") == []


@pytest.mark.parametrize(
    ("line", "offered"),
    [("knime-mcp ca", ["call"]), ("knime-mcp call ", ["mine"]), ("knime-mcp call mine ", ["search"])],
)
def test_the_shell_asks_the_command(settings, line, offered):
    name_servers(settings, mine={"command": "c"})
    completion.keep_tools("mine", [SEARCH])
    asked = {"_KNIME_MCP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "knime_mcp.cli.app"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == offered
    assert done.stderr == ""
