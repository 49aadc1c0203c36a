"""The node on its host against a real server: one call, one per row, and everything that can be wrong."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from knime_mcp.types.tool import MCPTool, WorkflowTool, to_json_text
from tests.support.pages import RunPage

OUTCOME = ["Result", "Status", "Error"]
COLUMNS = [
    *OUTCOME,
    *("Structured result", "Files", "Tool name", "Tool type", "Server", "Protocol", "Digest", "Input row"),
    *("Arguments", "Started at", "Duration (s)", "Attempts"),
]


def plain(names):
    """Without the columns whose name or presence depends on the host."""
    return [name for name in names if name not in {"Tool", "Tool (JSON)", "Image"}]


def portable(host, *tools, row_ids=None):
    """A table of tools as text."""
    ids = row_ids or [f"Row{i}" for i in range(len(tools))]
    texts = [None if tool is None else to_json_text(tool) for tool in tools]
    return host.table(
        pa.table({"<RowID>": pa.array(ids, pa.string()), "Tool (JSON)": pa.array(texts, pa.string())})
    )


@pytest.mark.requirement("T51", "T53", "T57", "T58", "T60")
def test_one_call_of_a_tool_from_the_provider(server, tools_of, call, rows_of):
    result = call(tools_of(server.url("/one")), tool_name="add", arguments={"a": "2", "b": "40"})
    (row,) = rows_of(result)
    assert plain(result.outputs[0].column_names) == COLUMNS
    assert result.outputs[0].row_ids == ["Row0"]
    assert (row["Status"], row["Result"], json.loads(row["Structured result"])) == (
        "ok",
        "42",
        {"result": 42},
    )
    assert (row["Tool name"], row["Tool type"], row["Server"]) == ("add", "mcp", server.url("/one"))
    assert row["Arguments"] == '{"a":2,"b":40}'
    assert row["Digest"].startswith("sha256:")
    assert row["Input row"] is None
    assert row["Error"] is None
    assert row["Attempts"] == 1
    assert row["Duration (s)"] > 0
    assert row["Started at"].utcoffset().total_seconds() == 0
    assert result.warnings == []


@pytest.mark.requirement("T52")
@pytest.mark.parametrize("form", ["auto", "carrier", "portable"])
def test_one_call_per_row(server, tools_of, call, rows_of, form):
    result = call(
        tools_of(server.url("/one"), form=form),
        {"a": [1, 2, 3], "b": [10.0, None, 30.0], "note": ["x", "y", "z"]},
        tool_name="add",
    )
    rows = rows_of(result)
    assert plain(result.outputs[0].column_names) == ["a", "b", "note", *COLUMNS]
    assert [(row["a"], row["Result"], row["Input row"]) for row in rows] == [
        (1, "11", "Row0"),
        (2, "3", "Row1"),
        (3, "33", "Row2"),
    ]
    assert [row["Arguments"] for row in rows] == ['{"a":1,"b":10}', '{"a":2}', '{"a":3,"b":30}']
    (warning,) = result.warnings
    assert "'note'" in warning
    assert "failed" not in warning


def test_results_are_the_input_and_what_came_unless_all_columns_are_wanted(server, tools_of, call, rows_of):
    tools, table = tools_of(server.url("/one")), {"a": [1, None], "Status": ["x", "y"]}
    promised = call(tools, table, execute=False, tool_name="add", all_columns=False).specs[0]["columnNames"]
    result = call(tools, table, tool_name="add", all_columns=False)
    assert result.outputs[0].column_names == promised[1:] == ["a", "Status (input)", *OUTCOME]
    assert [(row["Result"], row["Status"]) for row in rows_of(result)] == [
        ("2", "ok"),
        (None, "invalid arguments"),
    ]
    again = call(tools, result.outputs[0].as_input(), tool_name="add")
    assert [row["Arguments"] for row in rows_of(again)] == ['{"a":1}', "{}"]


@pytest.mark.requirement("T61")
def test_without_a_tools_table_the_node_stands_alone(server, call, rows_of):
    result = call(server_url=server.url("/one"), tool_name="add", arguments={"a": "1"})
    (row,) = rows_of(result)
    assert row["Result"] == "2"
    digest = row["Digest"]
    pinned = call(
        server_url=server.url("/one"),
        tool_name="add",
        arguments={"a": "1"},
        connection_options=f"digest = {digest}",
        pinning="fail",
    )
    assert rows_of(pinned)[0]["Status"] == "ok"
    assert pinned.warnings == []


def test_old_servers_are_called_too(server, call, rows_of):
    result = call(server_url=server.url("/old"), tool_name="add", arguments={"a": "1"})
    assert rows_of(result)[0]["Result"] == "2"


def test_each_row_names_its_tool_and_ambiguous_names_say_how(server, tools_of, call, rows_of):
    tools = tools_of(server.url("/one"), server.url("/two"))
    host = f"127.0.0.1:{server.port}"
    names = ["who", f"who @ {host}/one", f"who @ {host}/two", f"who @ {server.url('/two')}", "nobody", None]
    result = call(tools, {"tool": names}, tool_per_row_column="tool")
    rows = rows_of(result)
    assert [row["Status"] for row in rows] == ["not found", "ok", "ok", "ok", "not found", "not found"]
    assert [row["Result"] for row in rows] == [None, "one", "two", "two", None, None]
    assert "2 of the tools are named 'who'" in rows[0]["Error"]
    assert f"Write 'who @ {host}/one' or 'who @ {host}/two'" in rows[0]["Error"]
    assert "Choose" in rows[4]["Error"]
    assert "Row4" in rows[4]["Error"]
    assert "missing" in rows[5]["Error"]
    assert result.warnings[-1].startswith("3 of 6 calls failed; first: row Row0, ")


def test_tools_of_one_name_in_two_tables_are_told_apart(server, host, tools_of, call, rows_of):
    schema = {"type": "object"}
    tools = [MCPTool("who", "", schema, server.url(path), "who") for path in ("/one", "/two")]
    table = portable(host, tools[0], None, tools[1], tools[1], row_ids=["a", "b", "c", "d"])
    names = ["who", f"who @ 127.0.0.1:{server.port}/one", f"who @ 127.0.0.1:{server.port}/two", "c", "b"]
    rows = rows_of(call(table, {"which": names}, tool_per_row_column="which"))
    assert [row["Result"] for row in rows] == [None, "one", "two", "two", None]
    assert "2 of the tools are named 'who'" in rows[0]["Error"]
    assert f"who @ 127.0.0.1:{server.port}/one" in rows[0]["Error"]


@pytest.mark.requirement("T54")
def test_a_row_id_or_a_shown_name_names_a_tool(server, host, call, rows_of):
    tool = MCPTool("shown", "", {"type": "object"}, server.url("/one"), "who")
    assert rows_of(call(portable(host, tool, row_ids=["my row"]), tool_name="my row"))[0]["Result"] == "one"
    assert rows_of(call(portable(host, tool, row_ids=["my row"]), tool_name="shown"))[0]["Result"] == "one"


def test_a_tool_that_fails_and_one_that_is_gone(server, host, tools_of, call, rows_of):
    tools = tools_of(server.url("/one"))
    result = call(tools, tool_name="fail", arguments={"why": "tired"})
    (row,) = rows_of(result)
    assert (row["Status"], row["Result"]) == ("tool error", None)
    assert "tired" in row["Error"]
    assert result.warnings[-1].startswith("The call failed: ")
    gone = MCPTool("gone", "", {"type": "object"}, server.url("/one") + "#digest=sha256:00", "ad")
    (row,) = rows_of(call(portable(host, gone), tool_name="gone"))
    assert row["Status"] == "not found"
    assert "Did you mean add" in row["Error"]


@pytest.mark.parametrize("pinning", ["warn", "fail", "ignore"])
def test_a_tool_that_changed_is_called_or_refused_as_the_settings_say(server, host, call, rows_of, pinning):
    seen = MCPTool("add", "An old text", {"type": "object"}, server.url("/one") + "#digest=sha256:00", "add")
    result = call(portable(host, seen), {"a": [1, 2]}, tool_name="add", pinning=pinning)
    rows = rows_of(result)
    warning = " ".join(result.warnings[-1:])
    if pinning == "fail":
        assert [row["Status"] for row in rows] == ["failed", "failed"]
        assert "description, parameters" in rows[0]["Error"]
        assert rows[0]["Attempts"] == 0
    elif pinning == "warn":
        # Compared with the definition of now, which knows `a`, the arguments are right; the columns were
        # planned with the old one, which does not.
        assert "changed" in warning
        assert warning.count("description, parameters") == 1
        assert {row["Digest"] for row in rows} != {"sha256:00"}
    else:
        assert "changed" not in warning
        assert {row["Digest"] for row in rows} == {"sha256:00"}


def test_the_first_image_is_a_picture_cell(server, tools_of, call):
    result = call(tools_of(server.url("/one")), {"tool": ["pixel", "called"]}, tool_per_row_column="tool")
    assert result.ok, result.failure
    assert not result.problems
    picture, nothing = result.outputs[0].to_pylist()
    assert (picture["Image"].format, picture["Image"].size) == ("PNG", (1, 1))
    assert nothing["Image"] is None


def test_the_view_shows_pictures_that_are_not_too_large(server, tools_of, call, monkeypatch):
    from knime_mcp.tools.views import journal_page

    pixel = {"tools": tools_of(server.url("/one")), "tool_name": "pixel"}
    ((source, _),) = RunPage(call(**pixel).view_html).steps[0]["pictures"]
    assert source.startswith("data:image/png;base64,iVBOR")
    monkeypatch.setattr(journal_page, "_LARGEST_PICTURE", 10)
    assert "pictures" not in RunPage(call(**pixel).view_html).steps[0]


def test_images_and_other_blobs_are_files(server, tools_of, call, rows_of):
    (row,) = rows_of(call(tools_of(server.url("/one")), tool_name="pixel"))
    assert Path(row["Files"]).read_bytes().startswith(b"\x89PNG")
    assert "image/png" in row["Result"]
    assert "mcp-files" in row["Files"]


def test_a_file_that_cannot_be_saved_is_the_error_of_its_row(server, tools_of, call, rows_of, tmp_path):
    data = tmp_path / "workflow" / "data"
    data.mkdir(parents=True)
    (data / "mcp-files").write_text("in the way")
    result = call(tools_of(server.url("/one")), {"tool": ["pixel", "who"]}, tool_per_row_column="tool")
    pixel, who = rows_of(result)
    assert (pixel["Status"], who["Status"]) == ("outcome unknown", "ok")
    assert "The tool has answered, but" in pixel["Error"]
    assert "save the workflow elsewhere" in pixel["Error"]


@pytest.mark.requirement("T60")
def test_a_dead_server_gives_error_rows_or_fails(call, rows_of, host):
    soon = {"connection_options": "connect_timeout = 2"}
    tool = MCPTool("add", "", {"type": "object"}, "http://127.0.0.1:9/mcp", "add")
    result = call(portable(host, tool), {"x": [1, 2, 3]}, tool_name="add", **soon)
    rows = rows_of(result)
    assert [row["Status"] for row in rows] == ["failed"] * 3
    assert "127.0.0.1:9" in rows[0]["Error"]
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith(f"3 of 3 calls failed; first: row Row0, {rows[0]['Error']}")
    own = call(server_url="http://127.0.0.1:9/mcp", tool_name="add", **soon)
    (row,) = rows_of(own)
    assert (row["Status"], row["Tool name"], row["Server"]) == ("failed", "add", "http://127.0.0.1:9/mcp")
    failing = call(
        server_url="http://127.0.0.1:9/mcp",
        tool_name="add",
        **soon,
        on_error="fail",
    )
    assert not failing.ok
    assert "127.0.0.1:9" in failing.failure["message"]


def test_results_have_tools_that_can_be_called_again(server, tools_of, call, rows_of):
    first = call(tools_of(server.url("/one")), {"a": [1, 2]}, tool_name="add")
    again = call(first.outputs[0].as_input(), tool_name="add", arguments={"a": "5"})
    assert rows_of(again)[0]["Result"] == "6"
    assert rows_of(again)[0]["Digest"] == rows_of(first)[0]["Digest"]


def test_the_outcomes_of_one_caller_are_no_arguments_of_the_next(server, host, tools_of, call, rows_of):
    first = call(tools_of(server.url("/one")), {"a": [1, 2], "note": ["x", "y"]}, tool_name="add")
    schema = {"properties": {"a": {}, "status": {}, "files": {}, "Result": {}, "digest": {}}}
    tool = MCPTool("echo", "", schema, server.url("/one"), "echo")
    results = first.outputs[0].as_input()
    second = call(portable(host, tool), results, tool_name="echo", pinning="ignore")
    assert json.loads(rows_of(second)[0]["Arguments"]) == {"a": 1, "Result": "2"}
    unmatched = "No tool has a parameter for the column 'note': not sent."
    assert unmatched in second.warnings[-1]
    third = call(portable(host, tool), second.outputs[0].as_input(), tool_name="echo", pinning="ignore")
    assert unmatched in third.warnings[-1]
    table = {"a": [1], "Status": ["open"]}
    (row,) = rows_of(call(portable(host, tool), table, tool_name="echo", pinning="ignore"))
    assert json.loads(row["Arguments"]) == {"a": 1, "status": "open"}


def test_an_empty_parameter_table_gives_an_empty_table(server, tools_of, call, rows_of):
    result = call(
        tools_of(server.url("/one")),
        {"a": pa.array([], pa.int64()), "when": pa.array([], pa.date32()), "s": pa.array([], pa.string())},
        tool_name="add",
    )
    assert rows_of(result) == []
    assert plain(result.outputs[0].column_names) == ["a", "when", "s", *COLUMNS]


@pytest.mark.long
def test_thousands_of_rows_keep_their_order(server, tools_of, call, rows_of):
    result = call(
        tools_of(server.url("/two")),
        {"a": list(range(3_000)), "b": [0] * 3_000},
        tool_name="add",
        connection_options="concurrency = 8",
    )
    rows = rows_of(result)
    assert [int(row["Result"]) for row in rows] == list(range(3_000))
    assert result.outputs[0].row_ids[2_999] == "Row2999"
    assert "call 3000 of 3000" in [text for _, text in result.progress]


@pytest.mark.requirement("T28", "T51")
def test_workflow_tools_run_through_knime(server, host, tools_of, call, rows_of):
    from knime.types.tool import ToolPort as KnimePort
    from knime.types.tool import WorkflowTool as KnimeTool

    host.add_file_store("key1", b"workflow")
    schema = {"limit": {"type": "integer"}, "city": {"type": "string"}}
    port = KnimePort("t", "", "Table", "{}")
    column = host.tool_column(
        [
            KnimeTool("Report", "Makes a report", schema, 0, [], [], "key1"),
            KnimeTool("Joiner", "Wants a table", {}, 0, [port], [], "key1"),
            None,
        ]
    )
    tools = host.table(pa.table({"Tool": column}))
    asked = []

    def handler(tool, parameters, inputs, hints):
        asked.append((parameters, len(inputs), hints))
        if parameters.get("city") == "nowhere":
            raise RuntimeError("no such city")
        return f"limit {parameters.get('limit')}", []

    result = call(
        tools,
        {"which": ["Report", "Report", "Joiner"], "limit": [5.0, None, None], "city": ["x", "nowhere", None]},
        tool_per_row_column="which",
        tool_handler=handler,
    )
    rows = rows_of(result)
    assert [row["Status"] for row in rows] == ["ok", "tool error", "failed"]
    assert [row["Tool type"] for row in rows] == ["workflow"] * 3
    assert rows[0]["Result"] == "limit 5"
    assert "no such city" in rows[1]["Error"]
    assert "MCP Agent Prompter" in rows[2]["Error"]
    assert asked[0][:2] == ({"limit": 5, "city": "x"}, 0)
    text = WorkflowTool("Elsewhere", "", {})
    (row,) = rows_of(call(portable(host, text), tool_name="Elsewhere", tool_handler=handler))
    assert row["Status"] == "failed"
    assert "Workflow to Tool" in row["Error"]


@pytest.mark.requirement("T55")
def test_the_view_shows_tool_and_calls(server, tools_of, call):
    result = call(tools_of(server.url("/one")), {"a": [1, None]}, tool_name="add")
    page = result.view_html
    for text in (
        "MCP tool",
        "add",
        "Adds two whole numbers.",
        server.url("/one"),
        "Parameter schema",
        "integer",
    ):
        assert text in page
    assert "invalid arguments" in page
    assert "1 of 2 calls failed" in page
    hostile = call(
        server_url=server.url("/one"),
        tool_name="echo",
        arguments={"value": '{"x": "<script>alert(1)</script>"}'},
    )
    assert "<script>alert" not in hostile.view_html


def test_the_journal_has_one_line_per_call(server, tools_of, call, journals, rows_of):
    rows_of(call(tools_of(server.url("/one")), {"a": [1, 2, None]}, tool_name="add"))
    (lines,) = journals()
    assert [line["kind"] for line in lines] == ["start", "call", "call", "call", "end"]
    assert lines[-1]["outcome"] == "complete"
    assert {line["input_row"] for line in lines[1:-1]} == {"Row0", "Row1", "Row2"}
    assert all(
        re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["started_at"]) for line in lines[1:-1]
    )
    assert [line["call"] for line in lines[1:-1]] == [1, 2, 3]
