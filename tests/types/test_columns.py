import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.types import columns as c
from knime_mcp.types.columns import ColumnForm, NativeCell, read_tools, tool_column_names, write_tools
from knime_mcp.types.errors import MCPError, SettingInvalid, ToolFormatError
from knime_mcp.types.tool import MCPTool, ToolPort, WorkflowTool, from_fields, from_json_text
from tests.types.knime_tables import add_file_store, as_input, executing
from tests.types.strategies import columns

FORMS = [form for form in ColumnForm if c._type_of(form) is not None]
MCP = MCPTool(
    "a_search",
    "Finds",
    '{"b": 1,  "a": 2}',
    "https://h/mcp#credential=prod&transport=sse",
    "search",
    title="Search",
)
WORKFLOW = WorkflowTool(
    "forecast",
    "Looks ahead",
    '{"n": {}}',
    0,
    (ToolPort("in", "i", "Table"),),
    (ToolPort("out", "o", "Table", "{}"),),
    "k1",
)


def table(**forms):
    with executing():
        return as_input(
            {name.replace("_", " "): write_tools(tools, form) for name, (form, tools) in forms.items()}
        )


@pytest.mark.requirement("T32")
@pytest.mark.requirement("T40")
@pytest.mark.parametrize("form", FORMS)
@given(columns.filter(bool))
def test_what_is_written_is_read(form, tools):
    with executing():
        cells = write_tools(tools, form)
        assert cells.null_count == tools.count(None)
        given = as_input({c.column_name(form): cells})
        assert read_tools(given) == tools
        assert read_tools(given, c.column_name(form)) == tools


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_table_has_no_tools(form):
    with executing():
        given = as_input({c.column_name(form): write_tools([], form)})
    assert tool_column_names(given.schema) == [c.column_name(form)]
    assert read_tools(given) == []


@pytest.mark.requirement("T15")
@pytest.mark.parametrize("form", FORMS)
def test_configure_and_execute_agree_on_the_type(form):
    import knime.api.schema as ks

    planned = ks.Schema.from_columns([ks.Column(c.knime_type(form), c.column_name(form))])
    given = table(**{c.column_name(form): (form, [MCP, WORKFLOW])})
    assert [column.ktype for column in given.schema] == [column.ktype for column in planned]
    assert tool_column_names(planned) == [c.column_name(form)]


def test_forms_are_found_by_asking_the_registry():
    assert c.choose_form("auto") is FORMS[0]
    for form in ColumnForm:
        if form in FORMS:
            assert c.choose_form(form.value) is form
        else:
            with pytest.raises(SettingInvalid, match=f"no cell type for tool columns of the form '{form}'"):
                c.choose_form(form.value)
            with pytest.raises(SettingInvalid):
                c.knime_type(form)
            with pytest.raises(SettingInvalid):
                write_tools([MCP], form)


def test_only_the_column_of_text_has_another_name():
    assert [c.column_name(form) for form in ColumnForm] == ["Tool", "Tool", "Tool (JSON)"]


@pytest.mark.parametrize("form", FORMS)
def test_slices_and_chunks_are_read(form):
    tools = [MCP, None, WORKFLOW, None, MCP, WORKFLOW]
    with executing():
        whole = write_tools(tools, form)
        parts = pa.chunked_array([whole.slice(0, 2), whole.slice(2, 2), whole.slice(4)])
        assert read_tools(as_input({"Tool (JSON)": parts})) == tools
        assert read_tools(as_input({"Tool (JSON)": whole.slice(1, 4)})) == tools[1:5]


def test_all_forms_mixed_and_the_first_cell_that_is_not_missing_counts():
    other = MCPTool("other", "", "{}", "https://h/mcp", "other")
    rows = [[MCP, None, None, None], [other, WORKFLOW, None, other], [None, None, None, MCP]]
    forms = [ColumnForm.CARRIER, FORMS[0], ColumnForm.PORTABLE]
    with executing():
        cells = {
            name: write_tools(tools, form)
            for name, form, tools in zip(["A", "Tool", "Tool (JSON)"], forms, rows, strict=True)
        }
        given = as_input({"x": pa.array(["a", "b", "c", "d"]), **cells})
        assert tool_column_names(given.schema) == ["A", "Tool", "Tool (JSON)"]
        assert read_tools(given) == [MCP, WORKFLOW, None, other]
        assert read_tools(given, "Tool (JSON)") == [None, None, None, MCP]
        assert read_tools(given, None) == read_tools(given, "") == read_tools(given, c.AUTO)


def test_any_text_column_may_be_named_but_only_the_usual_names_are_found():
    text = write_tools([MCP], ColumnForm.PORTABLE)
    with executing():
        given = as_input(
            {"my tools": text, "Tool (JSON) (#1)": text, "Tool (JSON)x": text, "n": pa.array([1])}
        )
    assert tool_column_names(given.schema) == ["Tool (JSON) (#1)"]
    assert read_tools(given, "my tools") == [MCP]


def test_an_empty_text_is_a_missing_tool_as_in_files_of_others():
    texts = pa.array(["", *write_tools([MCP, None], ColumnForm.PORTABLE).to_pylist()])
    with executing():
        given = as_input({"Tool (JSON)": texts})
    assert read_tools(given) == [None, MCP, None]


def test_columns_without_tools_are_refused_with_what_to_choose():
    with executing():
        given = as_input({"n": pa.array([1]), "Tool (JSON)": write_tools([MCP], ColumnForm.PORTABLE)})
        without = as_input({"n": pa.array([1])})
    with pytest.raises(SettingInvalid, match=r"no column 'x'.*'Tool \(JSON\)'"):
        read_tools(given, "x")
    with pytest.raises(SettingInvalid, match=r"column 'n' holds no tools.*'Tool \(JSON\)'"):
        tool_column_names(given.schema, "n")
    assert tool_column_names(without.schema) == []
    with pytest.raises(SettingInvalid, match=r"has no tool column.*MCP Tool Provider"):
        read_tools(without)


def test_a_malformed_cell_names_its_row():
    with executing():
        given = as_input({"Tool (JSON)": pa.array(["{x", None])}, row_ids=["tool a", "tool b"])
    with pytest.raises(ToolFormatError, match="row tool a"):
        read_tools(given)


def corrupted(tools, form, change):
    """The column with one storage value changed by hand."""
    cells = write_tools(tools, form)
    values = cells.storage.to_pylist()
    change(values)
    return pa.ExtensionArray.from_storage(cells.type, pa.array(values, cells.type.storage_type))


def test_a_carrier_cell_without_server_names_row_and_field():
    with executing() as stores:
        cells = write_tools([WORKFLOW, MCP], ColumnForm.CARRIER)
        path = Path(stores.file_store_key_to_absolute_path(cells.storage.to_pylist()[1]["0"]))
        with zipfile.ZipFile(path, "w") as store:
            store.writestr("mcp-tool.json", '{"tool_type": 1, "name": "t"}')
        given = as_input({"Tool": cells})
        with pytest.raises(ToolFormatError, match=r"server_uri .*missing") as caught:
            read_tools(given)
    assert (caught.value.field, caught.value.row) == ("server_uri", "Row1")


def test_a_carrier_cell_with_malformed_json_names_row_and_field_where_it_is_used():
    broken = from_fields(1, "t", "d", "{}", None, "{x", -1, None, "https://h/mcp")
    with executing():
        given = as_input({"Tool": write_tools([WORKFLOW, broken], ColumnForm.CARRIER)})
        tools = read_tools(given)
    assert tools[0] == WORKFLOW
    with pytest.raises(ToolFormatError, match="not JSON") as caught:
        _ = tools[1].output_schema
    assert (caught.value.field, caught.value.row) == ("output_spec", "Row1")


def test_a_carrier_cell_without_name_names_its_row():
    with executing():
        given = as_input(
            {
                "Tool": corrupted(
                    [WORKFLOW], ColumnForm.CARRIER, lambda values: values[0]["1"].update({"1": "", "0": None})
                )
            }
        )
    with pytest.raises(ToolFormatError, match=r"name.*missing.*row Row0"):
        read_tools(given)


@pytest.mark.requirement("T43")
@pytest.mark.requirement("T44")
@pytest.mark.requirement("T42")
def test_mcp_tools_in_a_carrier_column_share_one_real_file_store():
    with executing() as stores:
        keys = [
            row["0"]
            for row in write_tools([MCP, WORKFLOW, None, MCP], ColumnForm.CARRIER).storage.to_pylist()
            if row
        ]
        assert keys[1] == "k1"
        assert keys[0] == keys[2]
        with zipfile.ZipFile(stores.file_store_key_to_absolute_path(keys[0])) as store:
            assert from_json_text(store.read("mcp-tool.json").decode()) == MCP


def test_a_cell_that_came_from_a_table_is_written_as_it_was():
    with executing():
        cells = write_tools([MCP], ColumnForm.CARRIER)
        again = write_tools(read_tools(as_input({"Tool": cells})), ColumnForm.CARRIER)
        assert again.storage.to_pylist() == cells.storage.to_pylist()


def test_a_cell_has_the_same_bytes_on_each_system(monkeypatch):
    def stored():
        with executing() as stores:
            (row,) = write_tools([MCP], ColumnForm.CARRIER).storage.to_pylist()
            return Path(stores.file_store_key_to_absolute_path(row["0"])).read_bytes()

    here = stored()
    monkeypatch.setattr(zipfile.sys, "platform", {"win32": "linux"}.get(sys.platform, "win32"))
    assert stored() == here


def test_a_carrier_column_without_mcp_tools_needs_no_file_store():
    tools = [WORKFLOW, None]
    cells = write_tools(tools, ColumnForm.CARRIER)  # not executing: no file store can be made
    with executing():
        assert read_tools(as_input({"Tool": cells})) == tools


@pytest.mark.requirement("T51")
def test_a_workflow_tool_is_executed_as_knimes_own_value():
    import knime.types.tool as kt

    add_file_store("k1")
    with executing():
        (read,) = read_tools(as_input({"Tool": write_tools([WORKFLOW], ColumnForm.CARRIER)}))
        assert isinstance(read.native, NativeCell)
        values = [c.knime_value(read), c.knime_value(WORKFLOW)]
    for value in values:
        assert isinstance(value, kt.WorkflowTool)
        assert (value.name, value.parameter_schema, value._filestore_keys) == ("forecast", {"n": {}}, "k1")
        assert value.input_ports == [kt.ToolPort("in", "i", "Table", None)]
        assert value.output_ports == [kt.ToolPort("out", "o", "Table", "{}")]
    own = object()
    assert c.knime_value(WorkflowTool("w", "", "", native=own)) is own


def test_a_workflow_tool_without_its_workflow_cannot_be_executed():
    with pytest.raises(MCPError, match=r"not here.*tool w.*Workflow to Tool"):
        c.knime_value(WorkflowTool("w", "", ""))


def test_without_a_type_in_the_registry_only_text_is_left():
    script = """
import tests.support.knime_host
tests.support.knime_host.use_standin()
from knime_mcp.types import columns as c
assert c._registered("knime.types.tool", "WorkflowTool") is None
assert c.choose_form("auto") == "native"
import knime.api.types as kt
kt._python_type_to_bundle.clear()  # as in KNIME
assert c.choose_form("auto") == "portable"
assert c.column_name(c.choose_form("auto")) == "Tool (JSON)"
import knime.api.schema as ks
assert c.knime_type(c.ColumnForm.PORTABLE) == ks.string()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@given(columns.filter(bool), st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_from_form_to_form_nothing_is_lost(tools, first, second):
    with executing():
        once = read_tools(as_input({"Tool (JSON)": write_tools(tools, first)}))
        assert read_tools(as_input({"Tool (JSON)": write_tools(once, second)})) == tools


@pytest.mark.parametrize("form", FORMS)
def test_result_tables_have_no_missing_tool_cell(form):
    with executing():
        cells = write_tools(c.cells_without_gaps([MCP, None], form), form)
        assert cells.null_count == (1 if form is c.ColumnForm.PORTABLE else 0)
        assert read_tools(as_input({c.column_name(form): cells})) == [MCP, None]
