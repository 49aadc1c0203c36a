"""Tables from files for a workflow's inputs: ``knime-mcp run --input``."""

import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knime_mcp.knwf import Connection, Workflow, boundary_node, write_workflow


@pytest.fixture
def handed_on(cli, tmp_path):
    """Runs a workflow that hands on what it is given; gives the run, and the table at its end."""
    nodes = (boundary_node(1, "input", parameter="rows"), boundary_node(2, "output", parameter="result"))
    write_workflow(Workflow("w", nodes, (Connection(1, 1, 2, 1),)), tmp_path / "w.knwf")

    def run(file):
        done = cli("run", "w.knwf", "--input", f"rows={file}", "--out", "out")
        end = tmp_path / "out" / "2 Workflow Output.parquet"
        return done, pq.read_table(end).to_pydict() if end.exists() else None

    return run


def test_cells_of_csv_are_text(handed_on, cli, tmp_path):
    (tmp_path / "t.csv").write_text("q\n007\n\n", encoding="utf-8")
    done, table = handed_on("t.csv")
    assert done.code == 0, done.err
    assert table["q"][0] == "007"
    assert cli("run", "w.knwf").code == 1, "without its input"


COLUMNS = {
    "small": (pa.array([1, -1], pa.int8()), [1, -1]),
    "unsigned": (pa.array([1, 2**32 - 1], pa.uint32()), [1, 2**32 - 1]),
    "too large": (pa.array([1, 2**64 - 1], pa.uint64()), ["1", str(2**64 - 1)]),
    "half": (pa.array([0.5, None], pa.float32()).cast(pa.float16()), [0.5, None]),
    "decimal": (pa.array([Decimal("1.5"), None]), [1.5, None]),
    "large text": (pa.array(["a", None], pa.large_string()), ["a", None]),
    "category": (pa.array(["a", None], pa.large_string()).dictionary_encode(), ["a", None]),
    "large texts": (pa.array([["a"], []], pa.large_list(pa.large_string())), [["a"], []]),
    "lists of lists": (pa.array([[[1]], None]), ["[[1]]", None]),
    "structure": (pa.array([{"a": [1]}, None]), ['{"a": [1]}', None]),
    "bytes": (pa.array([b"ab", None]), ["ab", None]),
    "nanoseconds": (pa.array([1_001, None], pa.timestamp("ns")), ["1970-01-01T00:00:00.000001", None]),
}


def test_columns_of_parquet_get_types_that_knime_has(handed_on, tmp_path):
    pq.write_table(pa.table({name: column for name, (column, _) in COLUMNS.items()}), tmp_path / "t.parquet")
    done, table = handed_on("t.parquet")
    assert done.code == 0, done.err
    assert table == {name: wanted for name, (_, wanted) in COLUMNS.items()}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("t.csv", ",q\n0,1\n", "t.csv has a column without a name"),
        ("t.jsonl", json.dumps({" ": 1}), "t.jsonl has a column without a name"),
        ("t.jsonl", "", "t.jsonl has no columns"),
    ],
)
def test_tables_that_knime_cannot_have(handed_on, tmp_path, name, text, why):
    (tmp_path / name).write_text(text, encoding="utf-8")
    done, table = handed_on(name)
    assert (done.code, table) == (1, None)
    assert why in done.err
