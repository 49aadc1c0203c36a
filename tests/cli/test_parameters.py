from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knime_mcp.cli.exits import CommandError
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


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(tmp_path, delimiter):
    file = tmp_path / "p.csv"
    file.write_text(f"a{delimiter}b\n1,5{delimiter}x\n", encoding="utf-8")
    assert rows_of(file) == [{"a": "1,5", "b": "x"}]


def test_header_only_is_an_empty_table(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("a,b\n", encoding="utf-8")
    assert rows_of(file) == []


def test_line_breaks_in_cells(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text('a,b\n"one\ntwo",3\n', encoding="utf-8")
    assert rows_of(file) == [{"a": "one\ntwo", "b": "3"}]


def test_parquet_keeps_types(tmp_path):
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"n": [1, None], "l": [["a"], []]}), file)
    table = read_parameters(file)
    assert list(table.rows()) == [{"n": 1, "l": ["a"]}, {"n": None, "l": []}]
    assert table.typed


def test_json_lines(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_text('{"a": 1}\n\n{"b": {"c": []}}\n', encoding="utf-8")
    found = read_parameters(file)
    assert list(found.rows()) == [{"a": 1, "b": None}, {"a": None, "b": {"c": []}}]
    assert found.table.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": '{"c": []}'}]


def test_a_list_of_objects(tmp_path):
    file = tmp_path / "p.json"
    file.write_text('[{"a": 1}, {"b": {"c": []}}]', encoding="utf-8")
    assert rows_of(file) == [{"a": 1, "b": None}, {"a": None, "b": {"c": []}}]


def test_a_cell_of_any_length(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text(f"a,b\n{'x' * 3_000_000},1\n", encoding="utf-8")
    assert len(rows_of(file)[0]["a"]) == 3_000_000


def test_a_tsv_is_separated_by_tabs(tmp_path):
    file = tmp_path / "p.tsv"
    file.write_text("text, or not\na,b\n", encoding="utf-8")
    assert rows_of(file) == [{"text, or not": "a,b"}]


def test_marks_within_cells_are_no_open_ones(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text('a,b\n5" pipe,"one\ntwo"\n', encoding="utf-8")
    assert rows_of(file) == [{"a": '5" pipe', "b": "one\ntwo"}]


@pytest.mark.parametrize("place", range(4, 700, 13))
def test_a_damaged_parquet_file_is_read_or_refused(tmp_path, place):
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"text": [str(n) for n in range(50)], "n": range(50)}), file)
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= 0xFF
    file.write_bytes(data)
    with suppress(CommandError):
        read_parameters(file)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.xlsx", b"", r"Use one of \.csv"),
        ("p.csv", b"", "is empty"),
        ("p.csv", b"a,a\n1,2\n", "more than one column called 'a'"),
        ("p.csv", b"a,b\n1\n", "cannot be read as CSV"),
        ("p.csv", b"\xe4,b\n1,2\n", "is not UTF-8"),
        ("p.csv", b"a,b\n\xe4,2\n", "is not UTF-8|cannot be read as CSV"),
        ("p.csv", b"x" * 200_000, "cannot be read as CSV"),
        ("p.csv", b"a,,\n1,,\n", "more than one column without a name"),
        ("p.csv", b'a,b\n1,2\n3,"4\n5,6\n', "quotation mark that is not closed"),
        ("p.json", b'{"a": 1}', "not a list of JSON objects"),
        ("p.json", b'[{"a": 1}, 2]', "not a list of JSON objects"),
        ("p.parquet", b"nonsense nonsense", "cannot be read as Parquet"),
        ("p.jsonl", b'{"a": 1}\n{"a"\n', "line 2 is not JSON"),
        ("p.jsonl", b'{"a": "\xe4"}', "is not UTF-8"),
        ("p.jsonl", b"[1]\n", "line 1 is not a JSON object"),
    ],
)
def test_says_what_is_wrong(tmp_path, name, content, words):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(CommandError, match=words):
        read_parameters(file)


@pytest.mark.parametrize(
    "data",
    [
        b"text\n" + b"a\n" * 9000 + "caf\xe9\n".encode("latin-1"),
        "text,times\na,1\n".encode("utf-16"),
        "text,times\na,1\n".encode("utf-16-le"),
    ],
    ids=["far behind", "utf-16", "utf-16 that does not say so"],
)
def test_a_csv_file_that_is_not_utf_8_says_how_to_save_it(tmp_path, data):
    file = tmp_path / "p.csv"
    file.write_bytes(data)
    with pytest.raises(CommandError, match="is not UTF-8"):
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
    with pytest.raises(CommandError, match="is a device or a pipe, and no file"):
        read_parameters(file)


def test_separators_within_names_of_columns_separate_nothing(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text('"name, first";"name, last";b\nA;B;1\n', encoding="utf-8")
    assert rows_of(file) == [{"name, first": "A", "name, last": "B", "b": "1"}]


def test_a_cell_without_a_value_in_python_loses_no_other(tmp_path):
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"at": pa.array([10**15, 0], pa.timestamp("s")), "a": [1, 2]}), file)
    assert [row["a"] for row in rows_of(file)] == [1, 2]
    assert rows_of(file)[1]["at"].year == 1970
