"""Nodes in surroundings that no demo has: tables without columns or rows, names alike, holes, secrets."""

import json

import pyarrow as pa
import pytest

from knime_mcp.tools.calling_hints import ParameterHint, ToolChoice, encode_choices
from knime_mcp.types.tool import MCPTool, to_json_text
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

pytestmark = pytest.mark.quick


#: Every node, with the kinds of its input ports.
NODES = {
    "mcp_tool_provider": ("table", "credential"),
    "mcp_tool_caller": ("table", "table", "credential"),
    "mcp_agent_prompter": ("other", "table", "table", "group", "credential"),
    "mcp_agent_chat": ("other", "table", "table", "group", "credential"),
    "mcp_resource_reader": ("table", "credential"),
    "mcp_prompt": ("table", "credential"),
    "tool_call_replayer": ("table", "credential"),
    "openai_compatible_chat_model": (),
    "mcp_tool_in_segment": (),
}
SECRET = "canary-5b1e0f7a33"
XML = "<b a='1'>&amp;\"]]></b>"
ALIKE = ["a", "A", "a ", " a", "a\u200b", "<none>", "<auto>", "<by name>", XML, "x\ny", "ä", "a\u0308"]
TABLES = {
    "no columns": pa.table({"<RowID>": ["Row0"]}),
    "no rows": pa.table({"Tool (JSON)": pa.array([], pa.string())}),
    "names alike": pa.table({name: ["x"] for name in ALIKE}),
    "no texts": pa.table({"n": [1], "d": [0.5], "b": [True], "l": [["x"]]}),
}
VARIABLES = {
    f"mcp_tools: {XML}": encode_choices(
        [ToolChoice(name=XML, parameters=(ParameterHint(XML, XML, True),), description=XML * 300)]
    ),
    "mcp_tools: ": ["{", "null", "[]", '{"name": ""}', '{"name": 5}'],
    "mcp_tools: number": 5,
    "token": SECRET,
    "mcp_audit_head": "",
}


def kinds_of_ports(node):
    import knime.extension as knext
    from knime.extension import nodes

    for port in node.input_ports:
        if isinstance(port, nodes.PortGroup):
            yield "group"
        elif port.type in (knext.PortType.TABLE, knext.PortType.CREDENTIAL):
            yield "table" if port.type == knext.PortType.TABLE else "credential"
        else:
            yield "other"


@pytest.fixture
def provide(host):
    def run(servers=None, execute=True, stored=None, **parameters):
        table = None if servers is None else host.table(pa.table(servers))
        return host.run(
            "mcp_tool_provider", [table, None], parameters, execute=execute, credentials=stored or {}
        )

    return run


def test_every_node_is_tried_here(host):
    described = host.describe()
    assert [problem for problem in described["problems"] if problem[0] == "error"] == []
    assert {node["id"] for node in described["nodes"]} == set(NODES)
    declared = host.host.nodes
    for node in NODES:
        entry = declared[node] if isinstance(declared, dict) else host.host.proxy(node)._node
        assert tuple(kinds_of_ports(entry)) == NODES[node]


@pytest.mark.parametrize("node", ["mcp_tool_provider", "mcp_tool_caller"])
def test_every_setting_has_a_label_and_says_what_to_do(host, node):
    for key, setting in host.dialog(node)["schema"]["properties"]["model"]["properties"].items():
        assert setting["title"] not in ("", key)
        assert len(setting["description"]) > 30, key


def test_a_dialog_opens_whatever_is_connected(subtests, host):
    for table in TABLES:
        for node in NODES:
            with subtests.test(table=table, node=node):
                schema = host.table(TABLES[table]).schema
                inputs = [{"table": schema, "group": [schema, schema]}.get(kind) for kind in NODES[node]]
                fresh = host.dialog(node)["data"]
                credentials = dict.fromkeys((XML, "<none>", "", " "), ("user", SECRET))
                dialog = host.dialog(node, inputs, credentials=credentials, flow_variables=VARIABLES)
                assert SECRET not in json.dumps(dialog)
                assert json.loads(json.dumps(dialog["data"])) == fresh
                assert host.dialog(node)["data"] == fresh


@pytest.mark.parametrize("node", NODES)
def test_what_a_dialog_offers_has_no_choice_twice(host, node):
    schema = host.table(TABLES["names alike"]).schema
    inputs = [{"table": schema, "group": [schema]}.get(kind) for kind in NODES[node]]
    credentials = dict.fromkeys(("<none>", "b", "a", XML), ("user", ""))
    dialog = host.dialog(node, inputs, credentials=credentials, flow_variables=VARIABLES)
    for key, setting in dialog["schema"]["properties"]["model"].get("properties", {}).items():
        offered = [choice["const"] for choice in setting.get("oneOf", ())]
        assert len(offered) == len(set(offered)), key


#: What KNIME saves for a column that is not chosen: before 5.8, in 5.8.0, and since.
NOT_CHOSEN = (None, "<none>", "")


def test_settings_of_other_versions_are_loaded(subtests, host):
    for node in NODES:
        for version in ["0.1.0", None]:
            with subtests.test(node=node, version=version):
                fresh = host.dialog(node)["data"]
                newer = {"model": {**fresh["model"], "setting_of_a_later_version": 1}}
                assert host.load_parameters(node, newer, version) == fresh


@pytest.mark.parametrize("saved", NOT_CHOSEN)
def test_columns_that_another_knime_saved_as_not_chosen(host, saved):
    fresh = host.dialog("mcp_tool_provider")["data"]["model"]
    columns = dict.fromkeys((name for name in fresh if name.endswith("_column")), saved)
    loaded = host.load_parameters("mcp_tool_provider", {"model": {**fresh, **columns}}, "0.1.0")["model"]
    assert {**loaded, **columns} == {**fresh, **columns}
    assert all(loaded[name] in NOT_CHOSEN for name in columns)


@pytest.mark.parametrize("table", ["no columns", "no texts"])
def test_a_table_of_servers_without_texts(provide, table, message):
    text = message(provide(TABLES[table], execute=False))
    assert "no String column" in text
    assert "addresses" in text


def test_a_column_of_servers_that_a_flow_variable_names_and_holds_no_texts(subtests, provide, message):
    for setting in ["server_url_column", "credentials_column"]:
        for column in ["n", "d", "b", "l"]:
            with subtests.test(setting=setting, column=column):
                servers = {"url": ["http://127.0.0.1:9/mcp"], "n": [1], "d": [0.5], "b": [True], "l": [["x"]]}
                settings = {"server_url_column": "url", setting: column}
                text = message(provide(servers, execute=False, **settings))
                assert f"'{column}' of the Servers table holds no texts" in text
                assert "choose a String column" in text


def test_columns_of_servers_without_any_value(provide):
    servers = {"url": ["http://127.0.0.1:9/mcp"], "who": pa.nulls(1)}
    result = provide(servers, on_failure="warn", credentials_column="who")
    assert result.ok, result.failure
    assert result.outputs[1].to_pylist()[0]["Phase"] == "tcp"


def test_no_column_of_servers_is_guessed_like_an_empty_one(provide):
    result = provide({"url": ["http://127.0.0.1:9/mcp"]}, server_url_column="<none>", on_failure="warn")
    assert result.ok, result.failure
    assert result.outputs[1].to_pylist()[0]["Phase"] == "tcp"


def test_a_table_of_servers_without_rows(provide):
    result = provide({"url": pa.array([], pa.string())})
    assert result.ok, result.failure
    assert [table.arrow.num_rows for table in result.outputs] == [0, 0]
    assert "no rows" in " ".join(result.warnings)
    assert not result.problems


def test_holes_in_a_table_of_servers_are_rows_that_say_so(provide):
    servers = {
        "url": [None, "", "  ", "http://127.0.0.1:9/mcp"],
        "who": [None, "nobody", "  ", None],
    }
    result = provide(servers, on_failure="warn", credentials_column="who")
    assert result.ok, result.failure
    assert result.outputs[0].arrow.num_rows == 0
    rows = result.outputs[1].to_pylist()
    assert [row["Phase"] for row in rows[:3]] == ["settings"] * 3
    assert all(row["Next step"] for row in rows)
    assert rows[3]["Phase"] == "tcp"
    assert not result.problems


@pytest.mark.parametrize("count", [1, 3])
def test_a_tool_table_with_nothing_but_holes(call, count, rows_of):
    result = call({"Tool (JSON)": pa.array([None] * count, pa.string())}, tool_name="add")
    assert result.ok, result.failure
    (row,) = rows_of(result)
    assert row["Status"] == "not found"
    assert "the Tools input has no tools" in row["Error"]


def test_a_renamed_column_of_tools_can_be_chosen(host, call, message, rows_of):
    """Text by another name is no tool column until somebody says so."""
    add = MCPTool("add", "", {}, "http://127.0.0.1:9/mcp", "add")
    tools = {"Werkzeug": [to_json_text(add)], "n": [1]}
    assert "'Tool column'" in message(call(tools, execute=False, tool="add"))
    dialog = host.dialog("mcp_tool_caller", [host.table(pa.table(tools)).schema, None, None])
    setting = dialog["schema"]["properties"]["model"]["properties"]["tool_column"]
    assert [choice["const"] for choice in setting["oneOf"]] == ["<auto>", "Werkzeug"]
    result = call(tools, tool="add", tool_column="Werkzeug")
    assert rows_of(result)[0]["Status"] == "failed"  # nobody listens there: it was called


def test_holes_between_tools_do_no_harm(call, rows_of):
    add = MCPTool("add", "", {}, "http://127.0.0.1:9/mcp", "add")
    result = call({"Tool (JSON)": [None, to_json_text(add), None]}, tool_name="add")
    assert result.ok, result.failure
    assert rows_of(result)[0]["Status"] == "failed"  # nobody listens there: it was called


def test_columns_alike_stay_apart(call, rows_of):
    takes = tool(XML, inputSchema={"type": "object", "properties": {name: {} for name in ALIKE}})
    with ScriptedServer(modern(tools__list=rpc({"tools": [takes]}))) as server:
        rows = {name: ["x"] for name in ALIKE}
        result = call(None, rows, server_url=server.url, tool_name=XML)
        assert server.named("tools/call")[-1].params["arguments"] == dict.fromkeys(ALIKE, "x")
    assert result.ok, result.failure
    assert result.outputs[0].column_names[: len(ALIKE)] == ALIKE
    (row,) = rows_of(result)
    assert row["Tool name"] == XML
    assert json.loads(row["Arguments"]) == dict.fromkeys(ALIKE, "x")
    assert not result.problems


def test_names_with_markup_reach_an_audit_workflow(call, tmp_path):
    from tests.support.archives import read_workflow

    result = call(
        server_url="http://127.0.0.1:9/mcp",
        tool_name=XML,
        arguments=[{"name": XML, "value": XML}],
        save_audit_workflow_to=str(tmp_path / "audit.knwf"),
    )
    assert result.ok, result.failure
    assert read_workflow(tmp_path / "audit.knwf")
    assert XML not in result.view_html


@pytest.mark.parametrize("in_the_way", ["data", "data/mcp-audit"])
@pytest.mark.parametrize("node", ["mcp_tool_caller", "mcp_tool_provider"])
def test_a_workflow_without_a_place_for_its_data(host, tmp_path, node, in_the_way):
    (tmp_path / in_the_way).parent.mkdir(exist_ok=True)
    (tmp_path / in_the_way).write_text("")
    inputs = [None] * len(NODES[node])
    with ScriptedServer(modern(tools__list=rpc({"tools": [tool("echo")]}))) as server:
        named = {"tool_name": "echo"} if node == "mcp_tool_caller" else {}
        result = host.run(node, inputs, {"server_url": server.url, **named}, workflow_dir=tmp_path)
        called = server.named("tools/call")
    if node == "mcp_tool_provider":  # leaves nothing behind
        assert result.ok, result.failure
        return
    assert not called
    assert "data area, where its folder cannot be made" in result.failure["message"]
    assert "mcp-audit: " in result.failure["message"]
    assert "Save the workflow" in result.failure["message"]
