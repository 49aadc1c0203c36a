"""Tools of *MCP Tool Provider* and of KNIME's *Workflow to Tool* in one column, as Concatenate makes it."""

import pyarrow as pa
import pytest

pytestmark = pytest.mark.quick


@pytest.fixture
def workflow_tools(host):
    """A column as *Workflow to Tool* writes it."""
    from knime.types.tool import WorkflowTool

    host.add_file_store("segment", b"workflow")
    schema = {"city": {"type": "string"}}
    return host.tool_column([WorkflowTool("Report", "Makes a report", schema, 0, [], [], "segment")])


@pytest.fixture
def mcp_tools(host, server):
    """The Provider's tool column in KNIME's own tool cells."""
    settings = {"server_url": server.url("/one"), "column_form": "carrier", "include": "add, who"}
    result = host.run("mcp_tool_provider", [None, None], settings)
    assert result.ok, result.failure
    return result.outputs[0].arrow.column("Tool")


def handler(tool, parameters, inputs, hints):
    return f"report on {parameters['city']}", []


def rows():
    return {"which": ["Report", "add", "who"], "city": ["Konstanz", None, None], "a": [None, 20, None]}


@pytest.mark.requirement("T2", "T32", "T40", "T43", "T45", "T48")
def test_one_column_holds_workflow_and_mcp_tools(host, call, rows_of, mcp_tools, workflow_tools):
    assert mcp_tools.type == workflow_tools.type
    mixed = pa.chunked_array([workflow_tools, *mcp_tools.chunks])
    tools = host.table(pa.table({"Tool": mixed.combine_chunks()}))
    result = call(tools, rows(), tool_per_row_column="which", tool_handler=handler)
    found = rows_of(result)
    assert [row["Tool type"] for row in found] == ["workflow", "mcp", "mcp"]
    assert [row["Result"] for row in found] == ["report on Konstanz", "21", "one"]
    assert not result.problems


@pytest.mark.requirement("T32")
def test_all_tool_columns_count_each_row_by_its_first_cell(
    host, call, rows_of, server, mcp_tools, workflow_tools
):
    from knime_mcp.types.tool import MCPTool, to_json_text

    text = MCPTool("text tool", "", {}, server.url("/one"), "who")
    nothing = workflow_tools.slice(0, 0)
    cells = pa.chunked_array([workflow_tools, *mcp_tools.chunks], type=workflow_tools.type).combine_chunks()
    count = len(cells) + 1
    column = host.table(
        pa.table(
            {
                "Tool": pa.concat_arrays([cells, pa.nulls(1, nothing.type)]),
                "Tool (JSON)": pa.array([None] * (count - 1) + [to_json_text(text)]),
            }
        )
    )
    result = call(
        column,
        {"which": ["text tool", "Report"], "city": [None, "Bodman"]},
        tool_per_row_column="which",
        tool_handler=handler,
    )
    assert [row["Result"] for row in rows_of(result)] == ["one", "report on Bodman"]


class JavaFailure(Exception):  # noqa: N818
    """As py4j raises it: its text has the stack trace of KNIME's Java side."""

    def __init__(self, message):
        super().__init__()
        java = {"getMessage": lambda _: message, "getClass": lambda self: self, "getName": lambda _: "a.b.C"}
        self.java_exception = type("Failure", (), java)()

    def __str__(self):
        return (
            "An error occurred while calling o1.execute_tool.\n: a.b.C\n\tat org.knime.Some.call(Some.java:1)"
        )


@pytest.mark.parametrize(
    ("message", "said"), [("The workflow is gone", "The workflow is gone"), (None, "a.b.C")]
)
def test_a_failure_inside_knime_is_told_without_its_stack_trace(
    host, call, rows_of, workflow_tools, message, said
):
    def fail(*_):
        raise JavaFailure(message)

    tools = host.table(pa.table({"Tool": workflow_tools}))
    (row,) = rows_of(call(tools, tool="Report", arguments={"city": "x"}, tool_handler=fail))
    assert row["Status"] == "tool error"
    assert said in f"{row['Result']} {row['Error']}"
    assert "Some.java" not in f"{row['Result']} {row['Error']}"
