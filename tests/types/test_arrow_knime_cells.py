"""The column forms under KNIME's own Python sources: what KNIME's reader, writer and (as far as the sources
tell) its Java side make of our cells, and we of KNIME's."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest

from knime_mcp.types.columns import ColumnForm, choose_form, knime_type, knime_value, read_tools, write_tools
from knime_mcp.types.errors import ToolFormatError
from knime_mcp.types.tool import MCPTool, ToolPort, WorkflowTool
from tests.types.knime_tables import REAL, add_file_store, as_input, executing

if REAL:
    from tests.support import real_knime as rig

pytestmark = pytest.mark.real_knime

PROTOTYPE = os.environ.get("RIG_MCP_TOOLS") == "1"
CELL_FORMS = [ColumnForm.NATIVE, ColumnForm.CARRIER] if PROTOTYPE else [ColumnForm.CARRIER]
MCP = MCPTool(
    "a_sèarch",
    "Finds",
    '{"b": 1,  "a": {"$ref": "#"}}',
    "https://h/mcp?k={credential.password}#credential=prod&transport=sse&digest=sha256:00",
    "search",
    output_schema={"type": "object"},
    annotations={"readOnlyHint": True},
    title="Search",
)
WORKFLOW = WorkflowTool(
    "forecast",
    "Looks ahead",
    {"n": {"type": "integer"}},
    0,
    (ToolPort("in", "data", "Table", '{"a": "Integer"}'),),
    (ToolPort("message", "", "Table"), ToolPort("out", "data", "Table")),
    "seg",
)


def of_knime(value_type, **fields):
    """A value of KNIME's own, as Workflow to Tool makes it."""
    import knime.types.tool as kt

    given = {
        "name": "forecast",
        "description": "Looks ahead",
        "parameter_schema": {"n": {"type": "integer"}},
        "message_output_port_index": 0,
        "input_ports": [kt.ToolPort("in", "data", "Table", '{"a": "Integer"}')],
        "output_ports": [
            kt.ToolPort("message", "", "Table", None),
            kt.ToolPort("out", "data", "Table", None),
        ],
        "_filestore_keys": "seg",
    }
    return getattr(kt, value_type)(**given | fields)


@pytest.mark.parametrize("form", [*CELL_FORMS, ColumnForm.PORTABLE])
def test_java_can_read_what_we_write(form):
    add_file_store("seg")
    with executing():
        cells = write_tools([MCP, None, WORKFLOW, MCP], form)
        given = as_input({"Tool": cells, "Tool (JSON)": cells})  # refuses what Java would refuse
        assert read_tools(given, "Tool") == [MCP, None, WORKFLOW, MCP]


@pytest.mark.parametrize("form", [*CELL_FORMS, ColumnForm.PORTABLE])
def test_a_batch_is_read_as_a_table(form):
    """KNIME gives a batch as Arrow's RecordBatch, whose columns have no chunks."""
    with executing():
        batches = as_input({"Tool": write_tools([MCP, None, MCP], form)}).batches()
        assert [tool for batch in batches for tool in read_tools(batch, "Tool")] == [MCP, None, MCP]


def test_the_form_is_the_best_that_this_knime_has():
    assert choose_form("auto") is CELL_FORMS[0]
    assert knime_type(ColumnForm.CARRIER).value_type == "knime.types.tool.WorkflowTool"


@pytest.mark.requirement("T36")
@pytest.mark.parametrize("form", CELL_FORMS)
def test_knimes_own_reader_takes_our_cells(form):
    add_file_store("seg")
    with executing():
        cells = write_tools([MCP, WORKFLOW] if form is ColumnForm.CARRIER else [MCP], form)
        column = as_input({"Tool": cells})["Tool"].to_pyarrow().column("Tool")
        values = column.to_pylist()
    assert [value.name for value in values] == [tool.name for tool in [MCP, WORKFLOW][: len(values)]]
    if form is ColumnForm.CARRIER:
        assert values[0].message_output_port_index == -1  # KNIME's agents cannot run it
        assert values[0].input_ports == []
        assert values[1] == of_knime("WorkflowTool")
    else:
        assert values[0].parameter_schema == MCP.parameter_schema
        assert values[0].server_uri == MCP.cell_uri
        assert values[0].credential_name == "prod"


@pytest.mark.requirement("T32")
@pytest.mark.requirement("T51")
def test_knimes_own_workflow_tools_are_read_and_executed_as_they_are():
    import knime.types.tool as kt

    add_file_store("seg")
    theirs = of_knime("WorkflowTool")
    column = rig.column_of([theirs, None, theirs], kt.WorkflowTool)
    with executing():
        ours = write_tools([MCP, MCP, MCP], ColumnForm.CARRIER)
        given = as_input({"Tool": pa.chunked_array([column, ours])})
        tools = read_tools(given)
        assert tools == [WORKFLOW, None, WORKFLOW, MCP, MCP, MCP]
        assert knime_value(tools[0]) == theirs
        again = as_input({"Tool": write_tools(tools, ColumnForm.CARRIER)})
        assert read_tools(again) == tools
        assert knime_value(read_tools(again)[2]) == theirs


def test_a_workflow_tool_without_parameters_is_read():
    import knime.types.tool as kt

    column = rig.column_of(
        [of_knime("WorkflowTool", parameter_schema={}, _filestore_keys=None)], kt.WorkflowTool
    )
    (tool,) = read_tools(as_input({"Tool": column}))
    assert tool.parameter_schema == {}
    assert tool.filestore_keys is None


if PROTOTYPE:

    @pytest.mark.requirement("T36")
    def test_cells_of_the_prototypes_own_provider_are_read():
        import knime.types.tool as kt

        theirs = [
            kt.Tool.create_mcp_tool(
                "search", "Finds", {"a": 1}, "https://h/mcp", "search", credential_name=name
            )
            for name in ("prod", None)
        ]
        tools = read_tools(as_input({"MCP Tools": rig.column_of(theirs, kt.Tool)}))
        assert [tool.route.credential for tool in tools] == ["prod", None]
        assert tools[1] == MCPTool("search", "Finds", {"a": 1}, "https://h/mcp", "search")

    def test_a_workflow_tool_of_the_prototype_is_executed_as_workflow_tool():
        add_file_store("seg")
        with executing():
            (tool,) = read_tools(as_input({"Tool": write_tools([WORKFLOW], ColumnForm.NATIVE)}))
            assert knime_value(tool) == of_knime("WorkflowTool")

    def test_another_layout_of_the_prototype_is_an_error_that_names_it():
        from knime_mcp.types.arrow import KNIME_TOOL_STORAGE
        from knime_mcp.types.columns import _read_chunk

        kind = knime_type(ColumnForm.NATIVE).to_pyarrow()
        layout = pa.struct([("0", pa.string()), ("1", pa.struct([("0", pa.int32())]))])
        other = type(kind)(None, layout, kind.logical_type)
        cells = pa.ExtensionArray.from_storage(other, pa.nulls(1, layout))
        assert kind.storage_type == KNIME_TOOL_STORAGE
        with pytest.raises(ToolFormatError, match=r"struct<0: string, 1: struct<0: int32>>.*row Row0"):
            _read_chunk(cells, ["Row0"], "Tool")

else:

    @pytest.mark.requirement("T36")
    def test_the_same_with_knimes_prototype_of_a_tool_type():
        # The prototype replaces a module of KNIME's, so it needs a process of its own.
        done = subprocess.run(
            [sys.executable, "-m", "pytest", __file__, "-q", "-p", "no:cacheprovider"],
            env=os.environ | {"RIG_MCP_TOOLS": "1"},
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert " passed" in done.stdout
