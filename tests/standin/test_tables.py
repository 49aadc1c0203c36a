"""Tables that nodes make and get."""

import datetime as dt
from pathlib import Path

import pytest

from tests.support.knime_host import HostError

pytestmark = pytest.mark.quick


def run(trial, kind, row_ids="auto", promise=""):
    return trial.run_node("Tables", (), {"kind": kind, "row_ids": row_ids, "promise": promise})


@pytest.mark.parametrize(
    ("kind", "row_ids", "expected"),
    [
        ("plain", "auto", ["Row0", "Row1"]),
        ("plain", "generate", ["Row0", "Row1"]),
        ("ids", "auto", ["x", "y"]),
        ("ids", "keep", ["x", "y"]),
        ("late ids", "auto", ["Row0", "Row1"]),
        ("ids", "generate", ["Row0", "Row1"]),
    ],
)
def test_row_ids_are_kept_or_generated(trial, kind, row_ids, expected):
    result = run(trial, kind, row_ids)
    assert result.ok, result.failure
    assert result.outputs[0].row_ids == expected


@pytest.mark.parametrize(
    ("kind", "row_ids", "error", "named"),
    [
        ("surrogate", "auto", "UnicodeEncodeError", "surrogates"),
        ("nothing", "auto", "IndexError", ""),
        ("plain", "keep", "TypeError", "RowIDs"),
        ("plain", "other", "ValueError", "other"),
        ("no table", "auto", "TypeError", "str"),
    ],
)
def test_tables_that_knime_cannot_have_are_refused(trial, kind, row_ids, error, named):
    failure = run(trial, kind, row_ids).failure
    assert error in failure["details"]
    assert named in failure["message"]


def test_values_of_every_type_come_back(trial):
    result = run(trial, "everything")
    assert result.ok, result.failure
    assert result.problems == []
    first, second = result.outputs[0].to_pylist()
    assert first["int"] == 1
    assert first["long"] == 2**40
    assert first["strings"] == ["a", None]
    assert first["date"] == dt.date(2024, 2, 29)
    assert first["moment"] == dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
    assert first["before"] == dt.datetime(1912, 2, 29, 12, 30, 15, 123456)
    assert first["zoned"] == dt.datetime(2024, 2, 29, 12, 30, 15, 123456, dt.UTC)
    assert first["zoned"].tzname() == "UTC"
    assert first["duration"] == dt.timedelta(days=-1, microseconds=5)
    assert set(second.values()) == {None}


@pytest.mark.parametrize(
    ("promise", "kind", "said"),
    [
        ("name", "plain", "columns ['a'] but configure promised ['b']"),
        ("type", "plain", "IntValueFactory"),
        ("zoned", "plain", "ZonedDateTimeValueFactory2"),
    ],
)
def test_a_table_that_differs_from_what_configure_promised_is_a_problem(trial, promise, kind, said):
    result = run(trial, kind, promise=promise)
    assert result.ok
    assert [said in problem for problem in result.problems] == [True]


def test_a_table_as_promised_is_no_problem(trial):
    assert run(trial, "plain", promise="right").problems == []
    assert run(trial, "zoned", promise="zoned").problems == []


def test_what_java_would_not_read(trial):
    assert "duplicate RowIDs" in run(trial, "same ids").problems[0]
    assert "duplicate column names" in run(trial, "same names").problems[0]


@pytest.mark.parametrize(("kind", "promise"), [("none", ""), ("two", ""), ("plain", "two")])
def test_wrong_number_of_outputs(trial, kind, promise):
    result = run(trial, kind, promise=promise)
    assert not result.ok
    assert "for 1 ports" in result.failure["message"]


def test_outputs_become_inputs(trial):
    made = run(trial, "everything").outputs[0]
    again = made.as_input()
    assert (again.num_rows, again.num_columns) == (2, 16)
    assert again.schema["zoned"].metadata["displayed_column_type"] == "Zoned Date Time"
    assert trial.run_node("Read", (again,)).ok


def test_inputs_that_no_node_could_deliver(trial):
    import pyarrow as pa

    with pytest.raises(HostError, match="duplicate RowIDs"):
        trial.table(pa.table({"<RowID>": ["x", "x"], "a": [1, 2]}))
    with pytest.raises(ValueError, match="int8"):
        trial.table(pa.table({"a": pa.array([1], pa.int8())}))


def test_tables_need_a_running_node():
    import knime.extension as knext
    import pyarrow as pa

    with pytest.raises(AttributeError, match="while a node executes"):
        knext.Table.from_pyarrow(pa.table({"a": [1]}))
    with pytest.raises(AttributeError, match="while a node executes"):
        knext.BatchOutputTable.create()
    with pytest.raises(TypeError, match="from_pyarrow"):
        knext.Table()


def test_json_cells_are_kept_in_file_stores(trial):
    result = run(trial, "json")
    assert result.problems == []
    assert [row["a"] for row in result.outputs[0].to_pylist()] == [{"x": [1]}, None]
    stored = result.outputs[0].arrow.column(1).chunk(0).storage.to_pylist()[0]
    path = trial.file_stores.file_store_key_to_absolute_path(stored["0"])
    assert Path(path).read_bytes() == (10).to_bytes(8, "little") + b'{"x": [1]}'


def test_cells_with_unknown_file_stores(trial):
    import knime.extension as knext
    import pyarrow as pa

    dtype = knext.logical(dict).to_pyarrow()
    cells = pa.ExtensionArray.from_storage(dtype, pa.array([{"0": "gone", "1": None}], dtype.storage_type))
    table = trial.table(pa.table({"a": cells}))
    with pytest.raises(RuntimeError, match="'gone'"), trial.tables_usable():
        table.to_pyarrow().column("a").to_pylist()


def test_all_columns_of_an_input_come_in_the_same_pieces(trial):
    import pyarrow as pa

    table = trial.table(pa.table({"a": pa.chunked_array([[1, 2], [3]])}))
    for some in (table, table[["a"]], table[[]]):
        assert [len(part) for part in some.to_pyarrow().to_batches()] == [2, 1]
