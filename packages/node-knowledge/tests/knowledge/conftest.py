"""The catalogue that comes along, made by the command line itself in a process of its own."""

import json
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import jsonschema_rs
import pytest

from knime_node_knowledge.catalogue_reader import Catalogue
from knime_node_knowledge.node_model import NodeSpec, Origin, SourceKind
from knime_node_knowledge.node_service import NodeKnowledgeMCPService
from knime_node_knowledge.tool_definitions import TOOLS_BY_NAME
from tests.cli.conftest import cli  # noqa: F401 - a fixture
from tests.support import commands

DEADLINE = 240  # only detects a hang
ORIGIN = Origin(kind=SourceKind.SPEC_PACK, name="p", version="1", file="p.yaml:3")
ERAS = ["2025-11-25", "2026-07-28"]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
TOOL_NAMES = [
    *("get_node_types", "get_node_details", "search_nodes", "find_compatible", "check_configuration"),
    "check_workflow",
]


def spec(subtype, node_type="ACTION", **fields):
    """A node of a pack."""
    values = {"id": f"{node_type}.{subtype}", "name": subtype.title(), "origin": ORIGIN, **fields}
    return NodeSpec(node_type=node_type, subtype=subtype, **values)


def nodes_command(*arguments):
    """The command line as a process is started with it."""
    return commands.words_of("knime-nodes", *arguments)


def clean_environment(folder):
    """Without a catalogue of whoever runs the tests."""
    dropped = {"KNIME_PYTHON_ROOT", "KNIME_LLM_ROOT"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_DATA_HOME": str(folder / "data")}


@contextmanager
def served(file, *options):
    """A server over HTTP; gives its URL and process."""
    process = commands.Popen(
        nodes_command("serve", "--http", "0", "--catalogue", file, *options),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if line.startswith("Serving at "):
                break
        else:
            raise AssertionError("the server did not start")
        yield line.split()[-1], process
    finally:
        process.kill()
        process.wait(DEADLINE)
        process.stderr.close()


def data(result):
    assert not result.is_error, result.text
    assert json.loads(result.text) == result.structured_content
    return result.structured_content


@pytest.fixture(scope="session")
def catalogue_file(tmp_path_factory):
    """The file: spec packs, this extension's nodes, and well-known nodes of KNIME in short."""
    folder = tmp_path_factory.mktemp("knowledge")
    done = commands.run(
        nodes_command("types"),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        env=clean_environment(folder),
        cwd=Path(__file__).parents[4],
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
