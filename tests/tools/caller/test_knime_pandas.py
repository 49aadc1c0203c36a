"""What KNIME's own Python makes of our tables: it reads all their cells, and writes them as CSV."""

import csv
import io

import pytest

from tests.support.real_knime import tables_usable


@pytest.mark.real_knime
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of KNIME, with numpy 2
def test_knimes_own_python_writes_a_call_that_was_not_found_as_csv(server, host, tools_of, call):
    tools = tools_of(server.url("/one"))
    result = call(tools, {"tool": ["who", "nobody", None]}, tool_per_row_column="tool")
    assert result.ok, result.failure
    table = result.outputs[0].as_input()
    with tables_usable(host.host):
        frame = table.to_pandas()
        rows = list(csv.DictReader(io.StringIO(frame.to_csv())))
    assert [row["Status"] for row in rows] == ["ok", "not found", "not found"]
    assert all(row["Tool"] for row in rows)
    assert "(no such tool)" in rows[1]["Tool"]
