"""The server in a process of its own: both transports, every era, KNIME's nodes, rebuilds, two at once."""

import errno
import json
import subprocess

import pyarrow as pa
import pytest
import typer

from knime_mcp.cli.command_errors import reports_errors
from knime_mcp.client.mcp_client import MCPClient, StdioServer
from knime_mcp.types.errors import ServerError, ToolNotFound
from knime_node_knowledge.packs import own_packs
from knime_node_knowledge.sources.catalogue_build import build_catalogue
from tests.support import commands
from tests.support.peers import OWN_CODE

from .conftest import DEADLINE, ERAS, TOOL_NAMES, data, nodes_command, served

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", *ERAS]


@pytest.fixture(scope="module")
def url(catalogue_file):
    with served(catalogue_file) as (address, _):
        yield address


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_revision_over_http(url, version, end):
    with MCPClient(url + end, protocol_version=version) as client:
        assert [tool.name for tool in client.list_tools()] == TOOL_NAMES
        found = data(
            client.call_tool("search_nodes", {"query": "VLOOKUP", "max_results": 1}, timeout=DEADLINE)
        )
        assert found["nodes"][0]["name"] == "Value Lookup"


@pytest.mark.parametrize("version", ERAS)
def test_both_eras_over_stdio(catalogue_file, tmp_path, version):
    command = commands.relayed(nodes_command("serve", "--catalogue", catalogue_file))
    server = StdioServer(name="nodes", command=command, env=OWN_CODE)
    with MCPClient(stdio=server, protocol_version=version) as client:
        assert [tool.name for tool in client.list_tools()] == TOOL_NAMES
        assert (
            data(client.call_tool("get_node_types", {"type_filter": "FLOW"}, timeout=DEADLINE))["FLOW"][0]
            == "IF"
        )


def test_definitions_say_what_a_client_can_use(url):
    with MCPClient(url) as client:
        tools = client.list_tools()
    for tool in tools:
        assert tool.read_only
        assert not tool.destructive
        assert tool.output_schema["type"] == "object"
        assert tool.description


def test_errors_reach_the_model_and_unknown_tools_are_protocol_errors(url):
    with MCPClient(url) as client:
        result = client.call_tool("find_compatible", {"node": "FLOW.IFF"}, timeout=DEADLINE)
        assert result.is_error
        assert "Did you mean FLOW.IF" in result.text
        with pytest.raises((ServerError, ToolNotFound), match="There is no tool 'nope'"):
            client.call_tool("nope", {}, timeout=DEADLINE)


def test_knimes_nodes_list_and_call_it(host, url):
    provided = host.run("mcp_tool_provider", [None, None], {"server_url": url, "column_form": "auto"})
    assert provided.ok, provided.failure
    assert [row["Tool name"] for row in provided.outputs[0].to_pylist()] == TOOL_NAMES
    assert all(row["Read only"] for row in provided.outputs[0].to_pylist())
    rows = host.table(pa.table({"query": pa.array(["VLOOKUP", "group by", "webhook"])}))
    called = host.run(
        "mcp_tool_caller",
        [provided.outputs[0].as_input(), rows, None],
        {"tool_name": "search_nodes", "all_columns": True},
    )
    assert called.ok, called.failure
    found = [
        json.loads(row["Structured result"])["nodes"][0]["name"] for row in called.outputs[0].to_pylist()
    ]
    assert found == ["Value Lookup", "GroupBy", "Webhook Trigger"]


def test_two_servers_on_one_file_and_a_rebuild_while_serving(tmp_path):
    file = tmp_path / "nodes.sqlite"
    build_catalogue(file, packs=own_packs(), with_own_packs=False)
    with (
        served(file) as (one, _),
        served(file) as (two, _),
        MCPClient(one) as first,
        MCPClient(two) as second,
    ):
        before = [data(c.call_tool("get_node_types", {}, timeout=DEADLINE)) for c in (first, second)]
        assert before[0] == before[1]
        pack = tmp_path / "more.yaml"
        pack.write_text(
            "pack: {name: more, version: 1.0.0}\n"
            "nodes:\n  - {type: EXTRA, subtype: NEW_ONE, description: Just built., configurations: {}}\n"
        )
        build_catalogue(file, packs=[pack])
        after = [data(c.call_tool("get_node_types", {}, timeout=DEADLINE)) for c in (first, second)]
        assert after[0] == after[1]
        assert after[0]["EXTRA"] == ["NEW_ONE"]
        assert after[0]["_catalogue"]["version"] != before[0]["_catalogue"]["version"]


def test_a_catalogue_that_breaks_while_it_is_served(tmp_path):
    file = tmp_path / "nodes.sqlite"
    build_catalogue(file, packs=own_packs(), with_own_packs=False)
    whole = file.read_bytes()
    with served(file) as (address, _), MCPClient(address) as client:
        for content in (b"broken", whole):
            other = tmp_path / "other"
            other.write_bytes(content)
            other.replace(file)
            assert len(client.list_tools()) == len(TOOL_NAMES)
            result = client.call_tool("search_nodes", {"query": "webhook"}, timeout=DEADLINE)
            assert result.is_error == (content != whole)
            if result.is_error:
                assert "Build it again: knime-nodes build" in result.text


@pytest.mark.parametrize("content", [b"broken", None], ids=["corrupt", "missing"])
def test_a_catalogue_that_cannot_be_read_is_said_at_the_start(tmp_path, content):
    file = tmp_path / "nodes.sqlite"
    if content is not None:
        file.write_bytes(content)
    done = commands.run(
        nodes_command("serve", "--catalogue", file),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Build it again: knime-nodes build" in done.stderr


def test_a_port_that_is_taken_is_said(catalogue_file, url):
    port = url.rpartition(":")[2].partition("/")[0]
    done = commands.run(
        nodes_command("serve", "--http", port, "--catalogue", catalogue_file),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 1
    assert "Choose another port" in done.stderr


def test_an_address_beyond_this_machine_needs_keys_or_a_word(catalogue_file):
    done = commands.run(
        nodes_command("serve", "--http", "0", "--host", "0.0.0.0", "--catalogue", catalogue_file),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert (done.returncode, done.stdout) == (2, "")
    told = " ".join(done.stderr.split())
    assert "'knime-nodes gateway' asks for keys" in told
    assert "--unprotected" in told


def test_an_address_of_ipv6_that_is_taken_is_said(capsys):
    @reports_errors
    def serve_nodes():
        raise OSError(errno.EADDRINUSE, "Address already in use", "::1:80")

    with pytest.raises(typer.Exit):
        serve_nodes()
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Nothing can listen at ::1, port 80: address already in use.")
