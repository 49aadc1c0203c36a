"""What the node checks before it runs, and its dialog."""

import json
import re

import pyarrow as pa
import pytest

from knime_mcp.tools.calling_hints import ParameterHint, ToolChoice, encode_choices
from tests.support.dialogs import shown

pytestmark = pytest.mark.quick


@pytest.fixture
def tools(host):
    from knime_mcp.types.tool import MCPTool, to_json_text

    tool = MCPTool("add", "", {}, "http://127.0.0.1:9/mcp", "add")
    return host.table(pa.table({"Tool (JSON)": [to_json_text(tool)]}))


@pytest.mark.requirement("T59", "T56")
def test_settings_that_cannot_work_fail_in_configure(subtests, call, message):
    for settings, said in [
        ({}, "No tool is chosen"),
        ({"tool_name": "add"}, "URL"),
        ({"tool_name": "add", "server_url": "not a url"}, "URL"),
        ({"tool_name": "add", "server_url": "https://user:pass@host/mcp"}, "user"),
        ({"tool_name": "add", "server_url": "https://host/mcp?api_key=12345678"}, "api_key"),
        ({"tool_name": "add", "server_url": "http://h/mcp", "arguments_json": "{"}, "not JSON"),
        ({"tool_name": "add", "server_url": "http://h/mcp", "arguments_json": "[1]"}, "an array"),
        ({"tool_name": "add", "server_url": "http://h/mcp", "connection_options": "nonsense"}, "Line 1"),
        (
            {"tool_name": "add", "server_url": "http://h/mcp", "connection_options": "concurrency = 0"},
            "a number from 1 to 64",
        ),
        ({"server_url": "http://h/mcp", "tool_per_row_column": "x"}, "no table of tools"),
    ]:
        with subtests.test(settings=settings, said=said):
            text = message(call(execute=False, **settings))
            assert said in text
            assert text.endswith((". [KMCP-SETTING]", "? [KMCP-SETTING]"))
            assert "pass@" not in text
            assert "12345678" not in text


@pytest.mark.requirement("T59")
def test_a_table_without_tools_fails_in_configure(call, message):
    text = message(call({"a": ["x"]}, execute=False, tool_name="add"))
    assert "no tool column" in text
    assert "MCP Tool Provider" in text
    assert "There is no column 'b'" in message(
        call({"a": ["x"]}, execute=False, tool_name="add", tool_column="b")
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tool_per_row_column": "nope"}, "no column 'nope'"),
        (
            {"tool_name": "add", "arguments_column": "nope"},
            "no column 'nope'",
        ),
    ],
)
def test_columns_that_are_not_there_fail_in_configure(call, message, tools, settings, said):
    assert said in message(call(tools, {"a": [1]}, execute=False, **settings))
    if "tool_per_row_column" in settings:
        assert "no Parameters table" in message(call(tools, execute=False, **settings))


def test_a_column_of_tools_is_no_column_with_their_names(call, message, tools):
    text = message(call(tools, tools, execute=False, tool_per_row_column="Tool (JSON)"))
    assert "The column 'Tool (JSON)' holds tools, not their names" in text
    assert "'Tool name'" in text


def test_configure_contacts_nobody_and_promises_what_execute_delivers(call, tools):
    result = call(tools, {"a": [1], "Status": ["x"]}, execute=False, tool_name="add")
    assert result.ok, result.failure
    names = result.specs[0]["columnNames"][1:]
    assert names[:2] == ["a", "Status (input)"]
    assert names.count("Status") == 1


def test_the_dialog_opens_with_nothing_connected_and_changes_no_default(host):
    before = host.dialog("mcp_tool_caller")
    for schemas in (None, [None, None, None]):
        dialog = host.dialog(
            "mcp_tool_caller",
            schemas,
            credentials={"another node's": ("u", "p")},
            flow_variables={"mcp_tools: x": encode_choices([ToolChoice(name="sneaky")])},
        )
        assert dialog["data"] == before["data"]
    assert host.dialog("mcp_tool_caller")["data"] == before["data"]
    model = before["data"]["model"]
    assert (model["tool"], model["credentials"], model["tool_column"]) == ("<by name>", "<none>", "<auto>")
    assert (model["tool_per_row_column"], model["arguments_column"]) == ("<none>", "<none>")


def test_at_most_four_settings_are_visible(host):
    first = ["server_url", "tool", "tool_name", "arguments"]
    assert shown(host.dialog("mcp_tool_caller")) == first
    there = shown(host.dialog("mcp_tool_caller", credentials={"crm": ("me", "")}))
    assert there == ["server_url", "credentials", *first[1:]]


@pytest.mark.requirement("T54", "T55")
def test_the_dialog_offers_the_providers_tools(host):
    offered = [
        ToolChoice(
            name="add",
            route="http://h/mcp",
            parameters=(ParameterHint("a", "integer", True), ParameterHint("b", "integer", False)),
            description="Adds\n numbers.",
        ),
        ToolChoice(name="report", description="x" * 1000),
        ToolChoice(name="sub\u202etract", description="Hides\u200b."),
    ]
    dialog = host.dialog(
        "mcp_tool_caller",
        flow_variables={"mcp_tools: h": encode_choices(offered), "mcp_tools: bad": ["{"], "other": 5},
    )
    import knime.extension as knext

    text = json.dumps(dialog, ensure_ascii=False)
    if hasattr(knext.StringParameter, "Choice"):  # KNIME's older branches have choices without labels
        assert "add(a: integer, b?: integer)" in text
        assert "The tool named below" in text
        assert r"sub\\u{202e}tract(…)" in text
        assert r"Hides\\u{200b}." in text
    ids = re.findall(
        r'"(?:const|id)": "([^"]*)"', json.dumps(dialog["schema"]) + json.dumps(dialog["ui_schema"])
    )
    assert ids.index("<by name>") < ids.index("add") < ids.index("report")


def test_saved_settings_are_read_back(host):
    saved = host.dialog("mcp_tool_caller")["data"]
    saved["model"]["arguments"] = [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
    loaded = host.load_parameters("mcp_tool_caller", saved, "0.1.0")
    assert loaded["model"] == saved["model"]


def test_the_tool_of_the_dropdown_is_called(server, tools_of, call, rows_of):
    assert rows_of(call(tools_of(server.url("/one")), tool="who", tool_name="ignored"))[0]["Result"] == "one"


def test_the_credential_port_refuses_what_cannot_be_sent(server, host, call):
    options = {"server_url": server.url("/one"), "tool_name": "who"}
    basic = call(None, credential=host.credential_port("dTpw", schema="Basic"), **options)
    assert "Bearer" in basic.failure["message"]
    early = call(None, credential=host.credential_port(available=False), **options)
    assert "Execute it first" in early.failure["message"]


def test_the_token_goes_to_one_server_only(server, host, call, tools_of):
    tools = tools_of(server.url("/one"), server.url("/two").replace("127.0.0.1", "localhost"))
    result = call(tools, {"t": ["who"]}, credential=host.credential_port("abcdefgh"), tool_per_row_column="t")
    assert "2 servers" in result.failure["message"]


def test_an_unknown_credential_says_how_to_wire_it(server, call):
    result = call(server_url=server.url("/one"), tool_name="who", credentials="prod")
    text = result.failure["message"] if not result.ok else result.outputs[0].to_pylist()[0]["Error"]
    assert "There is no credential 'prod'" in text
    assert "Credentials Configuration" in text
