"""Results on their way out: pieces of equal size that are never too large, values that fit their columns."""

import pyarrow as pa
import pytest

from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.runs.call_values import CallOutcome
from knime_mcp.tools.caller.calls_report import ResultsWriter, plan_results
from knime_mcp.types.columns import ColumnForm
from knime_mcp.types.errors import MCPError
from knime_mcp.types.tool import MCPTool, to_json_text

pytestmark = pytest.mark.quick


MIB = 1 << 20
LARGE = "x" * (20 * MIB)


def outcome(row=None, *, tool=None, **record):
    text = None if tool is None else to_json_text(tool)
    made = CallRecord(run="r", status=CallStatus.OK, input_row=row, tool=text, **record)
    return CallOutcome(record=made, tool=tool)


@pytest.fixture
def written():
    """Writes outcomes; gives the rows of each piece and the last piece."""

    def write(outcomes, **options):
        layout = plan_results((), all_columns=ColumnForm.PORTABLE)
        sizes, last = [], []

        def sink(piece):
            sizes.append(piece.num_rows)
            last[:] = [piece]

        writer = ResultsWriter(layout, None, sink, **options)
        for each in outcomes:
            writer.add(each)
        writer.close()
        return sizes, last[0]

    return write


def test_large_results_make_pieces_of_few_rows_but_equal_size(written):
    sizes, _ = written([outcome(result=LARGE)] * 10 + [outcome(result="small")] * 7)
    assert sizes == [4, 4, 4, 4, 1]


def test_a_large_tool_counts_in_every_row(written):
    tool = MCPTool("t", "", {"description": LARGE}, "http://127.0.0.1:9/mcp", "t")
    sizes, last = written([outcome(tool=tool, tool_name="t")] * 6)
    assert sizes == [4, 2]
    assert len(last.column("Tool (JSON)")[0].as_py()) > 20 * MIB


def test_a_file_takes_pieces_of_any_size(written):
    small, large = outcome(result="small"), outcome(result=LARGE)
    assert written([small] * 600 + [large] * 8, equal=False)[0] == [512, 92, 4]


def test_results_that_grow_beyond_what_a_table_takes_say_what_to_do(written):
    small = [outcome(f"Row{number}", result="small") for number in range(512)]
    large = [outcome(f"Row{number + 512}", result=LARGE) for number in range(512)]
    with pytest.raises(MCPError, match="Row512 to Row1023 have 10,240 MiB") as caught:
        written(small + large)
    assert "largest results come first" in caught.value.fix


def test_a_parameter_table_of_large_cells_is_read_in_small_pieces():
    from knime_mcp.runs.parameter_rows import rows_per_piece

    table = pa.table({"<RowID>": [f"Row{i}" for i in range(20)], "text": [LARGE[:MIB]] * 20})
    assert rows_per_piece(table) == 63
    wide = pa.table({"<RowID>": [f"Row{i}" for i in range(8)], "text": [LARGE] * 8})
    assert rows_per_piece(wide) == 3
