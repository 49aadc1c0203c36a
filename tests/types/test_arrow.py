import io
from itertools import pairwise

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.types.arrow import TOOL_STORAGE, decode_tools, encode_tools
from knime_mcp.types.errors import ToolFormatError
from knime_mcp.types.tool import MCPTool, ToolPort, WorkflowTool
from tests.types.strategies import columns

WORKFLOW = WorkflowTool(
    "forecast", "Looks ahead", '{"n": {}}', 1, (ToolPort("in", "data", "Table", None),), (), "k1;k2"
)
MCP = MCPTool(
    "a_search", "Finds", '{"type":"object"}', "https://h/mcp#credential=prod", "search", title="Search"
)


@pytest.mark.requirement("T38")
@pytest.mark.requirement("T34")
def test_nine_fields_in_order():
    assert pa.struct([(str(i), pa.int32() if i in {0, 6} else pa.string()) for i in range(9)]) == TOOL_STORAGE


@pytest.mark.requirement("T39")
def test_what_each_kind_stores():
    workflow, mcp = (list(row.values()) for row in encode_tools([WORKFLOW, MCP]).to_pylist())
    spec = '[{"name":"in","description":"data","type":"Table","spec":null}]'
    assert workflow == [0, "forecast", "Looks ahead", '{"n": {}}', spec, "[]", 1, "k1;k2", None]
    uri = "https://h/mcp#tool=search&credential=prod"
    assert mcp == [1, "a_search", "Finds", '{"type":"object"}', None, '{"title":"Search"}', -1, None, uri]
    plain = MCPTool("search", "", "", "https://h/mcp", "search")
    assert list(encode_tools([plain])[0].as_py().values()) == [
        1,
        "search",
        "",
        "",
        None,
        None,
        -1,
        None,
        "https://h/mcp",
    ]


@pytest.mark.requirement("T7")
@pytest.mark.requirement("T32")
@pytest.mark.requirement("T47")
@given(columns)
def test_decoding_undoes_encoding(tools):
    array = encode_tools(tools)
    assert array.type == TOOL_STORAGE
    assert array.null_count == tools.count(None)
    array.validate(full=True)
    decoded = decode_tools(array)
    assert decoded == tools
    assert encode_tools(decoded).equals(array)


@given(columns, st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_slices_and_chunks_are_read(tools, cuts):
    array = encode_tools(tools)
    edges = sorted({0, len(tools), *(min(cut, len(tools)) for cut in cuts)})
    chunks = [array.slice(start, end - start) for start, end in pairwise(edges)]
    for (start, end), chunk in zip(pairwise(edges), chunks, strict=True):
        assert decode_tools(chunk) == tools[start:end]
    assert decode_tools(pa.chunked_array(chunks, TOOL_STORAGE)) == tools


@given(columns)
def test_columns_survive_files(tools):
    table = pa.table({"Tool": encode_tools(tools)})
    stream = io.BytesIO()
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    assert decode_tools(pa.ipc.open_file(stream.getvalue()).read_all().column("Tool")) == tools
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=2)
    assert decode_tools(pq.read_table(io.BytesIO(stream.getvalue())).column("Tool")) == tools


@pytest.mark.parametrize("different", [1, 3, 9_000])
@pytest.mark.parametrize("missing", [0, 7])
def test_long_columns_are_read_whether_their_texts_repeat_or_not(different, missing):
    tools = [
        MCPTool(f"t{i}", f"Does {i % different}", f'{{"n": {i % different}}}', "https://h/mcp", f"t{i}")
        for i in range(9_000)
    ]
    if missing:
        tools[::missing] = [None] * len(tools[::missing])
    assert decode_tools(encode_tools(tools)) == tools


def test_empty_columns_are_written_and_read():
    assert encode_tools([]).type == TOOL_STORAGE
    assert decode_tools(encode_tools([])) == []
    assert decode_tools(pa.chunked_array([], TOOL_STORAGE)) == []


@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
@pytest.mark.parametrize("number", [pa.int8(), pa.int16(), pa.int64()], ids=str)
def test_other_integer_and_text_types_are_read(number, text):
    columns = [
        pa.array(column.to_pylist(), number if pa.types.is_integer(column.type) else text)
        for column in encode_tools([WORKFLOW, MCP]).flatten()
    ]
    array = pa.StructArray.from_arrays(columns, names=[str(i) for i in range(9)])
    assert decode_tools(array) == [WORKFLOW, MCP]


@pytest.mark.requirement("T42")
@pytest.mark.parametrize("nothing", [None, ""])
@pytest.mark.parametrize("index", [None, -1])
def test_fields_that_do_not_apply_may_be_null_empty_or_minus_one(nothing, index):
    rows = [
        {
            "0": 0,
            "1": "w",
            "2": nothing,
            "3": nothing,
            "4": nothing,
            "5": nothing,
            "6": index,
            "7": nothing,
            "8": nothing,
        },
        {
            "0": 1,
            "1": "m",
            "2": nothing,
            "3": "{}",
            "4": nothing,
            "5": nothing,
            "6": index,
            "7": nothing,
            "8": "https://h",
        },
    ]
    decoded = decode_tools(pa.array(rows, TOOL_STORAGE))
    assert decoded == [WorkflowTool("w", "", ""), MCPTool("m", "", "{}", "https://h", "m")]
    assert decode_tools(pa.array(rows)) == decoded, "fields that are null everywhere have Arrow's null type"


def with_field(field, value, tool=MCP):
    row = encode_tools([tool])[0].as_py() | {str(field): value}
    return pa.array([encode_tools([tool])[0].as_py(), row], TOOL_STORAGE)


@pytest.mark.requirement("T67")
@pytest.mark.parametrize("value", [7, -1, None])
def test_an_unknown_discriminator_names_value_row_and_field(value):
    with pytest.raises(
        ToolFormatError, match=rf"type {value} is unknown.*0 \(workflow\), 1 \(mcp\).*row B"
    ) as caught:
        decode_tools(with_field(0, value), rows=["A", "B"])
    assert (caught.value.field, caught.value.row) == ("tool_type", "B")


@pytest.mark.parametrize(("field", "name"), [(0, "tool_type"), (6, "message_output_port_index")])
def test_a_number_that_no_tool_has_names_value_and_field(field, name):
    wide = pa.array([1 << 40], pa.int64())
    parts = [wide if i == field else part for i, part in enumerate(encode_tools([MCP]).flatten())]
    with pytest.raises(ToolFormatError, match=rf"{name} .*{1 << 40}") as caught:
        decode_tools(pa.StructArray.from_arrays(parts, names=[str(i) for i in range(9)]))
    assert caught.value.field == name


@pytest.mark.parametrize(("field", "name"), [(1, "name"), (8, "server_uri")])
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_field_names_row_and_field(field, name, value):
    with pytest.raises(ToolFormatError, match=rf"{name}.*missing.*row 1") as caught:
        decode_tools(with_field(field, value))
    assert (caught.value.field, caught.value.row) == (name, "1")


def test_malformed_json_names_row_and_field_where_it_is_used(subtests):
    for tool, field, name, attribute in [
        (MCP, 3, "parameter_schema", "parameter_schema"),
        (MCP, 5, "output_spec", "output_schema"),
        (MCP, 5, "output_spec", "annotations"),
        (MCP, 5, "output_spec", "title"),
        (WORKFLOW, 3, "parameter_schema", "parameter_schema"),
        (WORKFLOW, 4, "input_spec", "input_ports"),
        (WORKFLOW, 5, "output_spec", "output_ports"),
    ]:
        for text in ["{x", '"text"', "[1]", '{"title": 1, "outputSchema": []}']:
            with subtests.test(tool=tool, field=field, name=name, attribute=attribute, text=text):
                if field == 3 and text.startswith('{"'):
                    text = "[]"
                good, bad = decode_tools(with_field(field, text, tool), rows=["A", "B"])
                assert good == tool
                with pytest.raises(ToolFormatError, match=rf"field {name} .*row B") as caught:
                    getattr(bad, attribute)
                assert (caught.value.field, caught.value.row, caught.value.tool) == (name, "B", tool.name)
                assert repr(bad), "a tool that cannot be read can still be shown"


def test_a_malformed_route_names_the_row():
    _, bad = decode_tools(with_field(8, "https://user:S3CRET@h/"), rows=["A", "B"])
    with pytest.raises(Exception, match="row B") as caught:
        _ = bad.route
    assert "S3CRET" not in str(caught.value) + repr(bad)


@pytest.mark.requirement("T42")
@pytest.mark.parametrize(
    ("kind", "field", "why"),
    [
        (pa.string(), "tool_type", "is no struct"),
        (pa.struct([("0", pa.int32())]), "name", "missing"),
        (pa.struct([*TOOL_STORAGE, pa.field("9", pa.string())]), "9", "'9' is unknown"),
        (pa.struct([pa.field("type", pa.int32()), *list(TOOL_STORAGE)[1:]]), "tool_type", "another name"),
        (
            pa.struct([pa.field("0", pa.string()), *list(TOOL_STORAGE)[1:]]),
            "tool_type",
            "is string, not int32",
        ),
        (
            pa.struct([*list(TOOL_STORAGE)[:8], pa.field("8", pa.binary())]),
            "server_uri",
            "is binary, not string",
        ),
    ],
    ids=str,
)
def test_another_layout_names_row_field_and_layout(kind, field, why):
    with pytest.raises(ToolFormatError, match=why) as caught:
        decode_tools(pa.nulls(2, kind), rows=["A", "B"])
    assert (caught.value.field, caught.value.row) == (field, "A")
    assert str(kind) in str(caught.value)
    with pytest.raises(ToolFormatError):
        decode_tools(pa.nulls(0, kind))
