"""Servers of ``knime-mcp config`` by their names: in the dialogs of the nodes, and when they are executed."""

import json
import re

import knime.extension as knext
import pytest

from knime_mcp.tools.node_settings.named_servers import named_route
from knime_mcp.types.errors import FileFailed
from knime_mcp.types.tool import from_json_text
from tests.support.dialogs import controls
from tests.tools.conftest import listing_server
from tests.tools.provider.running import list_tools, rows, servers_table, tool

pytestmark = pytest.mark.quick


NODES = ("mcp_tool_provider", "mcp_tool_caller", "mcp_resource_reader", "mcp_prompt")


@pytest.fixture
def named(tmp_path, monkeypatch):
    """Writes the file of servers: an entry, or the URL of one, by name."""
    file = tmp_path / "servers.json"
    monkeypatch.setenv("KNIME_MCP_SERVERS", str(file))

    def write(**servers):
        entries = {name: {"url": each} if isinstance(each, str) else each for name, each in servers.items()}
        file.write_text(json.dumps({"mcpServers": entries}))
        return file

    return write


def server_url(dialog):
    """The field *Server URL* of a dialog: how KNIME draws it, and its help."""
    control = next(c for c in controls(dialog["ui_schema"]) if c["scope"].endswith("/server_url"))
    return control["options"], dialog["schema"]["properties"]["model"]["properties"]["server_url"]


@pytest.mark.parametrize("node", NODES)
def test_dialogs_offer_the_names_and_take_any_url(host, named, node):
    fresh = host.dialog(node)
    assert server_url(fresh)[0] == {"format": "string"}
    named(files="http://127.0.0.1:9/mcp", crm={"command": "crm"}, **{"no name": "https://host/mcp"})
    options, schema = server_url(host.dialog(node))
    assert schema["type"] == "string"
    assert re.search(r"Names: (`|<tt>)crm(`|</tt>), (`|<tt>)files(`|</tt>)\.", schema["description"])
    if hasattr(knext.EnumParameter, "_get_visible_options") or not host.is_real:  # KNIME 5.10
        names = [{"id": name, "text": name} for name in ("crm", "files")]
        assert options == {"format": "dropDown", "allowNewValue": True, "possibleValues": names}
    else:
        assert options == {"format": "string"}
    saved = host.dialog(node, parameters={"server_url": "https://other/mcp"})
    assert saved["data"]["model"] == {**fresh["data"]["model"], "server_url": "https://other/mcp"}
    assert host.dialog(node)["data"] == fresh["data"]


@pytest.mark.parametrize("content", ["{", "[]", '{"mcpServers": 1}', "\xff"])
def test_a_dialog_opens_whatever_is_in_the_file(host, named, content):
    named().write_text(content, encoding="latin-1")
    assert server_url(host.dialog(NODES[0]))[0] == {"format": "string"}
    with pytest.raises(FileFailed, match=r"servers\.json"):
        named_route("files")
    failed = list_tools(host, "files")
    assert "servers.json" in failed.failure["message"]


def test_a_name_gives_tools_that_hold_the_address(host, named, serve, call, rows_of):
    server = serve([tool("find")])
    named(files=server.url)
    result = list_tools(host, " files ", column_form="portable")
    [row] = rows(result)
    found = from_json_text(row["Tool (JSON)"])
    assert found.server_uri.partition("#")[0] == server.url
    assert result.parameters["model"]["server_url"] == " files "
    assert rows(result, 1)[0]["Server"] == server.url
    [called] = rows_of(call(server_url="files", tool_name="find"))
    assert called["Server"] == server.url


def test_a_table_cannot_name_a_server(host, named, serve):
    server = serve([tool("find")])
    named(files=server.url)
    result = list_tools(host, servers=servers_table("files"), server_url_column="URL")
    assert "does not start with http" in result.failure["message"]
    assert server.requests == []


def test_the_credential_of_a_name_is_found_by_its_name(host, named):
    with listing_server([tool("find")], wants={"X-Key": "s3cret-of-files"}) as server:
        named(files=f"{server.url}#credential=prod&send_credentials_as=header&header_name=X-Key")
        assert "no credential 'prod'" in list_tools(host, "files").failure["message"]
        result = list_tools(host, "files", credentials_in={"prod": ("", "s3cret-of-files")})
        assert rows(result, 1)[0]["Status"] == "ok"


def test_headers_and_transport_of_an_entry_are_the_routes(named):
    named(
        plain={"serverUrl": "https://host/mcp", "type": "sse", "headers": {"X-Team": "a"}},
        script={"url": "https://host/mcp", "requestInit": {"headers": {"X-Team": "b"}}},
    )
    assert named_route("plain").uri == "https://host/mcp#header=X-Team:a&transport=sse"
    assert named_route("script").headers == (("X-Team", "b"),)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": "files"}, "cannot be started from a workflow"),
        (
            {"url": "https://host/mcp", "headers": {"Authorization": "Bearer ${FILES_TOKEN}"}},
            "config add files URL --credential NAME",
        ),
        ({"url": "https://host/mcp?key=${FILES_TOKEN}"}, "FILES_TOKEN"),
        ({"url": "https://host/mcp", "headers": {"X-Api-Key": "canary-53"}}, "looks like a secret"),
        ({"url": "https://me:canary-53@host/mcp"}, "user name or password"),
        ({}, "cannot be started from a workflow"),
    ],
)
def test_what_a_node_cannot_use_is_refused_when_it_is_configured(host, named, entry, said):
    named(files=entry)
    result = host.run(NODES[0], [None, None], {"server_url": "files"}, execute=False)
    assert result.failure["invalid_settings"]
    assert said in result.failure["message"]
    assert "canary-53" not in result.failure["message"]


@pytest.mark.parametrize("servers", [{}, {"crm": "https://host/crm", "files": "https://host/files"}])
def test_a_name_that_nobody_gave_says_which_there_are(host, named, servers):
    if servers:
        named(**servers)
    result = host.run(NODES[0], [None, None], {"server_url": "pasted-canary"}, execute=False)
    message = result.failure["message"]
    assert f"on this computer: {', '.join(servers) or 'none yet'}." in message
    assert "knime-mcp config add" in message
    assert "https://host/mcp" in message
    assert "pasted-canary" not in message
