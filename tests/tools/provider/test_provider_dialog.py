"""What the node repository and the dialog show."""

import pyarrow as pa
import pytest

from tests.support.dialogs import controls, shown

pytestmark = pytest.mark.quick


NODE = "mcp_tool_provider"
KEYS = {
    "server_url": "",
    "credentials": "<none>",
    "connection_options": "",
    "include": "",
    "on_failure": "fail",
    "column_form": "auto",
    "for_agents": "read_only",
    "save_components_to": "",
    "server_url_column": "",
    "credentials_column": "<none>",
}


def settings(document):
    return document.get("model", document)


@pytest.mark.requirement("T12")
@pytest.mark.requirement("T13")
def test_the_node_repository_shows_name_category_and_icon(host):
    described = host.describe()
    assert [problem for problem in described["problems"] if "provider" in str(problem).lower()] == []
    node = next(node for node in described["nodes"] if node["id"] == NODE)
    assert node["name"] == "MCP Tool Provider"
    assert node["category"] == "/community/mcp"
    assert node["icon_path"] == "icons/provider.png"
    assert node["node_type"] == "Source"


@pytest.mark.requirement("T14")
def test_parameter_keys_and_defaults_are_those_of_saved_workflows(host):
    found = settings(host.dialog(NODE, [None, None])["data"])
    # Before 5.9 KNIME writes a column that is not chosen as null.
    assert {key: "" if value is None else value for key, value in found.items()} == KEYS


def test_at_most_four_settings_are_shown(host):
    alone = shown(host.dialog(NODE, [None, None]))
    assert alone == ["server_url", "credentials", "include"]
    table = host.table(pa.table({"URL": ["x"], "n": [1]})).schema
    connected = shown(host.dialog(NODE, [table, None]))
    assert connected == ["server_url_column", "credentials_column", "include"]


def test_a_dialog_does_not_change_a_fresh_node(host):
    before = host.dialog(NODE, [None, None])["data"]
    opened = host.dialog(NODE, [None, None], credentials={"prod": ("a", "b"), "dev": ("c", "d")})
    choices = opened["schema"]["properties"]["model"]["properties"]["credentials"]["oneOf"]
    assert [choice["const"] for choice in choices] == ["<none>", "dev", "prod"]
    assert opened["data"] == before
    assert host.dialog(NODE, [None, None])["data"] == before
    fresh = host.run(NODE, [None, None], {"server_url": "https://host/mcp"}, execute=False)
    assert fresh.ok, fresh.failure
    assert settings(fresh.parameters)["credentials"] == "<none>"


def test_only_text_columns_are_offered(host):
    table = host.table(pa.table({"URL": ["x"], "n": [1], "other": ["y"]})).schema
    dialog = host.dialog(NODE, [table, None])
    for key in ("server_url_column", "credentials_column"):
        control = next(c for c in controls(dialog["ui_schema"]) if c["scope"].endswith(f"/{key}"))
        offered = [value["id"] for value in control["options"]["possibleValues"] if value["id"] != "<none>"]
        assert offered == ["URL", "other"]


def test_what_was_saved_is_loaded_again(host):
    saved = {"model": KEYS | {"server_url": "https://host/mcp", "include": "p_*", "on_failure": "warn"}}
    loaded = host.load_parameters(NODE, saved, "0.1.0")
    assert settings(loaded)["on_failure"] == "warn"
    assert settings(loaded)["include"] == "p_*"
