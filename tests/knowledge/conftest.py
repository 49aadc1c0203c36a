"""The catalogue that comes along, made by the command line itself in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest

from knime_mcp.knowledge.answers.tool_definitions import TOOLS_BY_NAME
from knime_mcp.knowledge.catalogue import Catalogue
from knime_mcp.knowledge.service import NodeKnowledgeMCPService

DEADLINE = 60


def nodes_command(*arguments):
    """The command line as a process is started with it."""
    return [sys.executable, "-m", "knime_mcp.cli.app", "nodes", *map(str, arguments)]


def clean_environment(folder):
    """Without a catalogue of whoever runs the tests."""
    dropped = {"KNIME_PYTHON_ROOT", "KNIME_LLM_ROOT"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_DATA_HOME": str(folder / "data")}


@pytest.fixture(scope="session")
def catalogue_file(tmp_path_factory):
    """The file: spec packs, this extension's nodes, and well-known nodes of KNIME in short."""
    folder = tmp_path_factory.mktemp("knowledge")
    done = subprocess.run(
        nodes_command("types"),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        env=clean_environment(folder),
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    (file,) = folder.rglob("default-*.sqlite")
    return file


@pytest.fixture(scope="session")
def own_catalogue(catalogue_file):
    """The same, opened."""
    with Catalogue(catalogue_file) as opened:
        yield opened


@pytest.fixture
def reader(own_catalogue):
    """The same, for reading."""
    with own_catalogue.reading() as reading:
        yield reading


@pytest.fixture(scope="session")
def tools(own_catalogue):
    """The tools on it."""
    return NodeKnowledgeMCPService(own_catalogue)


@pytest.fixture
def call(tools):
    """Calls a tool; the answer fits the tool's output schema."""

    def invoke(name, **arguments):
        found = tools.invoke_tool(name, arguments)
        jsonschema_rs.validate(dict(TOOLS_BY_NAME[name].output_schema), found)
        return found

    return invoke
