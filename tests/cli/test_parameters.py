from datetime import UTC, datetime, time, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knime_mcp.cli.errors import CommandError
from knime_mcp.cli.parameters import read_parameters


def rows_of(file):
    return list(read_parameters(file).rows())


def test_csv_cells_stay_text(tmp_path):
    file = tmp_path / "p.csv"
    file.write_bytes('\ufeffcode,text\r\n007,"a ""b"", c"\r\n,""\r\n'.encode())
    table = read_parameters(file)
    assert table.columns == ["code", "text"]
    assert list(table.rows()) == [{"code": "007", "text": 'a "b", c'}, {"code": None, "text": ""}]
    assert not table.typed


def test_parquet_keeps_types(tmp_path):
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"n": [1, None], "l": [["a"], []]}), file)
    table = read_parameters(file)
    assert list(table.rows()) == [{"n": 1, "l": ["a"]}, {"n": None, "l": []}]
    assert table.typed


def test_json_lines_are_rows(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_text('{"a": 1}\n\n{"b": {"c": []}}\n', encoding="utf-8")
    found = read_parameters(file)
    assert list(found.rows()) == [{"a": 1, "b": None}, {"a": None, "b": {"c": []}}]
    assert found.table.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": '{"c": []}'}]


def test_a_list_of_objects_is_rows(tmp_path):
    file = tmp_path / "p.json"
    file.write_text('[{"a": 1}, {"b": {"c": []}}]', encoding="utf-8")
    assert rows_of(file) == [{"a": 1, "b": None}, {"a": None, "b": {"c": []}}]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.xlsx", b"", "has to be one of .csv"),
        ("p.csv", b"", "is empty"),
        ("p.json", b'{"a": 1}', "not a list of JSON objects"),
        ("p.json", b'[{"a": 1}, 2]', "not a list of JSON objects"),
        ("p.parquet", b"nonsense nonsense", "cannot be read as Parquet"),
        ("p.jsonl", b'{"a": 1}\n{"a"\n', "line 2 is not JSON"),
        ("p.jsonl", b'{"a": "\xe4"}', "is not UTF-8"),
        ("p.jsonl", b"[1]\n", "line 1 is not a JSON object"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(tmp_path, name, content, words):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(CommandError, match=words):
        read_parameters(file)


def test_rows_from_the_middle(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("a\n" + "".join(f"{number}\n" for number in range(1200)), encoding="utf-8")
    found = read_parameters(file)
    assert [row["a"] for row in found.rows(1100)] == [str(number) for number in range(1100, 1200)]
    assert found.total == 1200


@pytest.mark.parametrize("name", ["p.jsonl", "p.json", "p.csv", "p.parquet"])
def test_a_device_has_no_end(tmp_path, name):
    file = tmp_path / name
    file.symlink_to("/dev/zero")
    with pytest.raises(CommandError, match="is a device or a pipe, not a file"):
        read_parameters(file)


def test_a_cell_without_a_value_in_python_loses_no_other(tmp_path):
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"at": pa.array([10**15, 0], pa.timestamp("s")), "a": [1, 2]}), file)
    assert [row["a"] for row in rows_of(file)] == [1, 2]
    assert rows_of(file)[1]["at"].year == 1970


def test_nanoseconds_are_left_out(tmp_path):
    kinds = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns"), pa.duration("ns"))
    columns = {str(place): pa.array([1_001, None], kind) for place, kind in enumerate(kinds)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    first, second = read_parameters(tmp_path / "t.parquet").rows()
    assert first == {
        "0": datetime(1970, 1, 1, microsecond=1),
        "1": datetime(1970, 1, 1, microsecond=1, tzinfo=UTC),
        "2": time(microsecond=1),
        "3": timedelta(microseconds=1),
    }
    assert set(second.values()) == {None}
