"""What a Provider hands on: its tools as choices of the Caller, and tools that are not there."""

import json
import re

import pyarrow as pa
import pytest

from knime_mcp.types.tool import MCPTool, to_json_text
from tests.support.host import HAS_JSON
from tests.support.scripted_server import ScriptedServer, http, modern, rpc, tool


@pytest.fixture
def provided(host):
    """Runs Providers one behind the other; gives their tables, and the flow variables after the last."""

    def run(*urls, **settings):
        variables, tables = {}, []
        for url in urls:
            result = host.run(
                "mcp_tool_provider", [None, None], {"server_url": url, **settings}, flow_variables=variables
            )
            assert result.ok, result.failure
            variables |= result.flow_variables
            tables.append(result.outputs[0].as_input())
        return tables, variables

    return run


def choices(dialog):
    """What the dropdown of tools offers."""
    text = json.dumps(dialog["schema"]) + json.dumps(dialog["ui_schema"])
    found = dict.fromkeys(re.findall(r'"(?:const|id)": "([^"]*)"', text))
    return [name for name in found if " @ " in name or name in {"who", "add", "called", "gone"}]


def concatenated(host, *tables):
    """The tools of several Providers, as *Concatenate* makes it."""
    columns = [table.to_pyarrow().select(["<RowID>", "Tool (JSON)"]) for table in tables]
    ids = pa.array([f"{i}" for i in range(sum(map(len, columns)))], pa.string())
    joined = pa.concat_tables(columns).combine_chunks()
    return host.table(joined.set_column(0, "<RowID>", ids))


def test_tools_of_one_name_are_choices_that_can_be_called(host, server, provided, call, rows_of):
    urls = [server.url("/one"), server.url("/two")]
    tables, variables = provided(*urls, column_form="portable")
    offered = choices(host.dialog("mcp_tool_caller", flow_variables=variables))
    names = [f"who @ {url}" for url in urls]
    assert set(names) <= set(offered)
    assert "who" not in offered
    both = concatenated(host, *tables)
    for name, answer in zip(names, ["one", "two"], strict=True):
        (row,) = rows_of(call(both, tool=name, flow_variables=variables))
        assert row["Result"] == answer
        (row,) = rows_of(call(None, tool=name, flow_variables=variables))
        assert row["Result"] == answer


def test_a_flow_variable_connection_is_enough(server, provided, call, rows_of, message):
    _, variables = provided(server.url("/one"))
    result = call(None, tool="who", flow_variables=variables)
    (row,) = rows_of(result)
    assert (row["Result"], row["Tool name"], row["Server"]) == ("one", "who", server.url("/one"))
    assert row["Digest"].startswith("sha256:")
    assert "URL" in message(call(None, tool="who", execute=False))


def test_what_a_reset_provider_offered_stays_a_choice(host):
    saved = host.dialog("mcp_tool_caller")["data"]["model"]
    assert choices(host.dialog("mcp_tool_caller", parameters={**saved, "tool": "gone"})) == ["gone"]
    assert choices(host.dialog("mcp_tool_caller", parameters=saved)) == []


def names_offered(dialog):
    """The choices for the name of an argument; None where it is entered."""
    arguments = dialog["schema"]["properties"]["model"]["properties"]["arguments"]
    (control,) = (
        part
        for element in dialog["ui_schema"]["elements"]
        for inner in element.get("elements", ())
        if inner["scope"].endswith("/arguments")
        for part in inner["options"]["detail"]["layout"]["elements"]
        if part["scope"].endswith("/name")
    )
    assert control["options"]["format"] == "string"
    name = arguments["items"]["properties"]["name"]
    assert name["default"] == ""
    assert ("oneOf" in name) != (name.get("type") == "string")
    return {choice["const"]: choice["title"] for choice in name["oneOf"]} if "oneOf" in name else None


def test_the_parameters_of_the_chosen_tool_are_choices(host, provided, call, rows_of):
    wanted = {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}}
    weather = tool("weather", inputSchema={"type": "object", "properties": wanted, "required": ["city"]})
    with ScriptedServer(modern(tools__list=rpc({"tools": [weather]}))) as server:
        _, variables = provided(server.url)
    fresh = host.dialog("mcp_tool_caller", flow_variables=variables)
    assert names_offered(fresh) is None  # no tool is chosen: it is entered
    for chosen in ({"tool": "weather"}, {"tool_name": " weather "}):
        dialog = host.dialog("mcp_tool_caller", parameters=chosen, flow_variables=variables)
        offered = names_offered(dialog)
        assert list(offered) == ["city", "days"]
        if offered["city"] != "city":  # older branches of KNIME have choices without labels
            assert offered == {"city": "city: string, required", "days": "days: integer = 3"}
    used = [{"name": "gone", "value": "1"}, {"name": "city", "value": "Konstanz"}]
    saved = {"tool": "weather", "arguments": used}
    dialog = host.dialog("mcp_tool_caller", parameters=saved, flow_variables=variables)
    assert set(names_offered(dialog)) == {"gone", "city", "days"}
    assert dialog["data"]["model"]["arguments"] == used
    reset = host.dialog("mcp_tool_caller", parameters=saved)
    assert names_offered(reset) is None
    assert reset["data"]["model"]["arguments"] == used
    assert host.dialog("mcp_tool_caller", flow_variables=variables)["data"] == fresh["data"]


def test_a_tool_whose_provider_was_reset_says_what_to_execute(call, message):
    text = message(call(None, tool="who", execute=False))
    assert "The tool 'who' is not known now" in text
    assert "Execute the MCP Tool Provider" in text


def test_help_and_list_name_the_same_choice(host):
    text = json.dumps(host.dialog("mcp_tool_caller"))
    assert text.count("The tool named below") > (0 if "Choice" not in text else 1)


def test_five_hundred_tools_stay_small_in_flow_variables_and_help(host, provided, call):
    wanted = {"type": "object", "properties": {"a": {"type": "string"}}}
    many = [tool(f"tool_{i}", description="Does it. " * 60, inputSchema=wanted) for i in range(500)]
    with ScriptedServer(modern(tools__list=rpc({"tools": many}))) as server:
        _, variables = provided(server.url)
    (entries,) = (value for name, value in variables.items() if name.startswith("mcp_tools"))
    assert sum(map(len, entries)) <= 32_768
    dialog = host.dialog("mcp_tool_caller", flow_variables=variables)
    assert len(json.dumps(dialog)) - len(json.dumps(host.dialog("mcp_tool_caller"))) < 120_000


def test_columns_are_offered_that_can_hold_what_is_wanted(host):
    import knime.extension as knext

    schema = knext.Schema.from_columns(
        [knext.Column(knext.string(), "texts"), knext.Column(knext.int64(), "numbers")]
    )
    text = json.dumps(host.dialog("mcp_tool_caller", [None, schema, None]))
    assert '"texts"' in text
    assert '"numbers"' not in text


def test_a_missing_credential_is_found_before_anything_runs(call, message):
    text = message(call(server_url="http://h/mcp", tool_name="who", credentials="prod", execute=False))
    assert "There is no credential 'prod'" in text
    assert "Credentials Configuration" in text


def test_one_tool_that_cannot_be_read_is_the_fault_of_its_calls(host, server, call, rows_of):
    good = to_json_text(MCPTool("who", "", {"type": "object"}, server.url("/one"), "who"))
    ids = pa.array(["a", "b"], pa.string())
    table = pa.table({"<RowID>": ids, "Tool (JSON)": pa.array(['{"tool": 5', good], pa.string())})
    result = call(host.table(table), {"t": ["who", "a", "nobody"]}, tool_per_row_column="t")
    rows = rows_of(result)
    assert [row["Result"] for row in rows] == ["one", None, None]
    assert "row a" in rows[1]["Error"]
    assert "1 row that cannot be read" in rows[2]["Error"]
    assert "cannot be read were left out: row a" in result.warnings[-1]
    (row,) = rows_of(call(host.table(table), tool_name="who"))
    assert row["Result"] == "one"


def test_tools_in_a_json_column_are_found(host, server, call, rows_of):
    if not HAS_JSON:
        with pytest.raises(TypeError):
            host.column_of([{}], dict)
        return
    value = json.loads(to_json_text(MCPTool("who", "", {"type": "object"}, server.url("/one"), "who")))
    table = host.table(pa.table({"Tool (JSON)": host.column_of([value], dict)}))
    assert rows_of(call(table, tool_name="who"))[0]["Result"] == "one"


def test_the_warning_names_the_tool_and_the_error_the_credential(call):
    refuses = modern(
        tools__list=rpc({"tools": [tool("who")]}), tools__call=rpc({"isError": True, "content": []})
    )
    with ScriptedServer(refuses) as server:
        result = call(None, {"x": [1, 2]}, server_url=server.url, tool_name="who")
    assert "2 of 2 calls failed; first: tool who, row Row0, " in result.warnings[-1]
    with ScriptedServer({"*": http(401, "no", headers={"WWW-Authenticate": "Bearer"})}) as server:
        result = call(
            None, server_url=server.url, tool_name="who", credentials="crm", stored={"crm": ("", "abcdefgh")}
        )
    assert "Check the credential 'crm'" in result.outputs[0].to_pylist()[0]["Error"]


def test_a_jpeg_is_an_image(call, rows_of):
    import base64
    import io

    from PIL import Image

    data = io.BytesIO()
    Image.new("CMYK", (2, 2), "red").save(data, format="JPEG")
    block = {"type": "image", "mimeType": "image/jpeg", "data": base64.b64encode(data.getvalue()).decode()}
    script = modern(tools__list=rpc({"tools": [tool("photo")]}), tools__call=rpc({"content": [block]}))
    with ScriptedServer(script) as server:
        result = call(None, server_url=server.url, tool_name="photo")
    (row,) = rows_of(result)
    assert row["Image"].size == (2, 2)
    assert "data:image/jpeg;base64," in result.view_html
