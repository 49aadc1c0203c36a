from knime_mcp.knwf import CONFIGURATION_FACTORIES, check_archive, read_configuration, read_workflow
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool
from tests.tools.test_tool_component import SCHEMA

TYPED = {
    "type": "object",
    "properties": {
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "picture": {"type": "string", "contentEncoding": "base64"},
        "options": {"type": "object"},
        "mode": {"enum": ["fast", "slow"]},
    },
    "required": ["day", "at", "picture", "options"],
}


def settings_of(file):
    """The settings of a component by name, with what they are at first."""
    nodes = read_workflow(file).nodes
    known = [node for node in nodes if getattr(node, "factory", "") in CONFIGURATION_FACTORIES]
    return {own.parameter: own.value for own in map(read_configuration, known)}


def test_a_component_of_a_tool_has_its_settings(cli, tmp_path):
    listed = rpc({"tools": [tool("find", inputSchema=SCHEMA, title="Find things")]})
    with ScriptedServer(modern(tools__list=listed)) as server:
        made = cli("make-component", server.url, "find", "--out", "find.knwf")
    assert (made.code, "with 8 settings" in made.err) == (0, True), made.err
    assert "not opened in KNIME itself" in made.err
    assert list(check_archive(tmp_path / "find.knwf")) == []
    found = settings_of(tmp_path / "find.knwf")
    assert {"query", "limit", "order", "exact", "ratio"} <= set(found)
    assert found["order"] == "up"


def test_dates_files_and_objects_have_settings_of_their_own(cli, tmp_path):
    listed = rpc({"tools": [tool("show", inputSchema=TYPED)]})
    with ScriptedServer(modern(tools__list=listed)) as server:
        assert cli("make-component", server.url, "show").code == 0
    assert list(check_archive(tmp_path / "show.knwf")) == []
    assert set(TYPED["properties"]) <= set(settings_of(tmp_path / "show.knwf"))


def test_what_cannot_be_made_says_why(cli):
    assert cli("make-component", "http://h/mcp").code == 2
    assert cli("make-component", "http://h/mcp", "t", "--out", "t.zip").code == 2


def test_a_server_that_is_a_command_is_refused_at_once(cli, linear, tmp_path):
    made = cli("make-component", "--stdio", "files=no-such-program", "find")
    assert made.code == 2
    assert "stdio:files is a command on this computer, which KNIME does not start" in made.err
    assert "enter its URL" in made.err
    assert list(tmp_path.glob("*.knwf")) == []
