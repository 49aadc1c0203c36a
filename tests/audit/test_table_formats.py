"""Tables in files: CSV as spreadsheets and people write it, JSON, Parquet that may be damaged."""

import json
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knime_mcp.audit.table_formats import (
    READABLE,
    WRITABLE,
    TableError,
    TableWriter,
    read_parameters,
    read_table_file,
)
from tests.support import commands


@pytest.fixture
def csv_of(tmp_path):
    """Reads a CSV file of some content."""

    def read(content, name="t.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table_file(tmp_path / name).table

    return read


@pytest.mark.parametrize(
    "text",
    [
        "n,text\n1,a\n",
        "n, text \r\n1,a",
        "\ufeffn;text\n1;a\n",
        "sep=;\nn;text\n1;a\n",
        '"sep=,"\r\nn,text\r\n1,a\r\n',
        "sep=\t\nn\ttext\n1\ta",
        '"n"\t"\ntext"\n1\ta',
        "n,text\r1,a\r",
        "\ufeffSEP=|\nn|text\n1|a\n",
    ],
)
def test_a_csv_as_spreadsheets_write_it(csv_of, text):
    assert csv_of(text).to_pylist() == [{"n": "1", "text": "a"}]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_csv_without_rows(csv_of, end):
    table = csv_of(f"n,text{end}")
    assert (table.column_names, table.num_rows) == (["n", "text"], 0)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a;b\n1,5;x\n", {"a": "1,5", "b": "x"}),
        ("a\tb\n1,5\tx\n", {"a": "1,5", "b": "x"}),
        ('a,b\n"one\ntwo",3\n', {"a": "one\ntwo", "b": "3"}),
        ('a,b\n5" pipe,"one\ntwo"\n', {"a": '5" pipe', "b": "one\ntwo"}),
        ('"name, first";"name, last";b\nA;B;1\n', {"name, first": "A", "name, last": "B", "b": "1"}),
        (f"a,b\n{'x' * 3_000_000},1\n", {"a": "x" * 3_000_000, "b": "1"}),
    ],
    ids=["semicolons", "tabs", "lines in a cell", "inches", "separators in names", "a long cell"],
)
def test_separators_and_marks_within_cells_separate_nothing(csv_of, text, row):
    assert csv_of(text).to_pylist() == [row]


def test_a_tsv_is_separated_by_tabs(csv_of):
    assert csv_of("text, or not\na,b\n", "t.tsv").to_pylist() == [{"text, or not": "a,b"}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"a,a\n1,2\n", "more than one column called 'a'"),
        (b"a,b\n1,2\n1\n", "has 1 cell in line 3, and 2 names of columns in line 1"),
        (b"x" * 200_000, "cannot be read as CSV"),
        (b'a,b\n1,2\n3,"4\n5,6\n', "quotation mark that is not closed"),
        (b'a,b\n"1,2\n3,4\n"5",6\n', "quotation mark that is not closed"),
        (b"\xef\xbb\xbfa,b\n\xe4,2\n", "is UTF-8 with other bytes in line 2. Save it as 'CSV UTF-8'"),
        (b"text\n\xc3\xa4\n" + b"a\n" * 9000 + b"caf\xe9\n", "is UTF-8 with other bytes in line 9003"),
        (b"\xff\xfet\x00\x00\xd8", "is not text"),
    ],
)
def test_a_csv_that_cannot_be_read_says_why(csv_of, content, words):
    with pytest.raises(TableError, match=words):
        csv_of(content)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"]
)
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_csv_in_any_usual_encoding(csv_of, encoding, separator):
    text = separator.join(["name", "größe"]) + "\n" + separator.join(["Müller", "5"]) + "\n"
    assert csv_of(text.encode(encoding)).to_pylist() == [{"name": "Müller", "größe": "5"}]


def test_columns_without_a_name_have_that_of_their_place_if_they_have_values(csv_of):
    assert csv_of("a;;\n1;;\n2;x;\n").to_pylist() == [
        {"a": "1", "Column B": None},
        {"a": "2", "Column B": "x"},
    ]


def test_titles_may_stand_above_the_names_of_the_columns(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("Sales, of May\nAccount;1, 2\n\nTo ;amount\na;1,5\n", encoding="utf-8")
    table = read_parameters(file, ["to", "amount"])
    assert (table.understood, list(table.rows())) == (
        "separated by semicolons, UTF-8, names in line 4",
        [{"To": "a", "amount": "1,5"}],
    )


def test_a_cell_in_quotes_that_looks_like_rows_is_noted(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text('to,amount\n"a,1\nb,2\nc",3\n"one\ntwo",4\n', encoding="utf-8")
    (note,) = read_parameters(file, ()).notes
    assert note.endswith("to which a mark may be missing: up to line 4")


def test_rows_without_any_value_can_be_left_out(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text('a;b\n1;2\n;\n ;\n"";\n3;\n;;;\n'.replace(";;;", ";"), encoding="utf-8")
    table = read_parameters(file, ())
    kept = table.only(table.filled_rows())
    assert (kept.numbers, list(kept.rows())) == (
        [1, 4, 5],
        [{"a": "1", "b": "2"}, {"a": "", "b": None}, {"a": "3", "b": None}],
    )


@pytest.mark.parametrize("place", range(4, 700, 13))
def test_a_damaged_parquet_file_is_read_or_refused(tmp_path, place):
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": [str(n) for n in range(50)], "n": range(50)}), file)
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= 0xFF
    file.write_bytes(data)
    with suppress(TableError):
        read_table_file(file)


def rows_of(file):
    return list(read_table_file(file).rows())


def test_csv_cells_stay_text(tmp_path):
    file = tmp_path / "p.csv"
    file.write_bytes('\ufeffcode,text\r\n007,"a ""b"", c"\r\n,""\r\n'.encode())
    table = read_table_file(file)
    assert table.columns == ["code", "text"]
    assert list(table.rows()) == [{"code": "007", "text": 'a "b", c'}, {"code": None, "text": ""}]


def test_parquet_keeps_types(tmp_path):
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"n": [1, None], "l": [["a"], []]}), file)
    table = read_table_file(file)
    assert list(table.rows()) == [{"n": 1, "l": ["a"]}, {"n": None, "l": []}]


def test_json_lines_are_rows(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_text('{"a": 1}\n\n{"b": {"c": []}}\n', encoding="utf-8")
    found = read_table_file(file)
    assert list(found.rows()) == [{"a": 1, "b": None}, {"a": None, "b": {"c": []}}]
    assert found.table.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": '{"c": []}'}]


def test_a_list_of_objects_is_rows(tmp_path):
    file = tmp_path / "p.json"
    file.write_text('[{"a": 1}, {"b": {"c": []}}]', encoding="utf-8")
    assert rows_of(file) == [{"a": 1, "b": None}, {"a": None, "b": {"c": []}}]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.xls", b"", "has to be one of .csv"),
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
    with pytest.raises(TableError, match=words):
        read_table_file(file)


def test_rows_from_the_middle(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("a\n" + "".join(f"{number}\n" for number in range(1200)), encoding="utf-8")
    found = read_table_file(file)
    assert [row["a"] for row in found.rows(1100)] == [str(number) for number in range(1100, 1200)]
    assert found.total == 1200


@pytest.mark.parametrize("ending", READABLE)
def test_a_device_has_no_end(tmp_path, ending):
    file = tmp_path / f"p{ending}"
    file.symlink_to("/dev/zero")
    with pytest.raises(TableError, match="is a device or a pipe, not a file"):
        read_table_file(file)


def test_a_cell_without_a_value_in_python_loses_no_other(tmp_path):
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"at": pa.array([10**15, 0], pa.timestamp("s")), "a": [1, 2]}), file)
    assert [row["a"] for row in rows_of(file)] == [1, 2]
    assert rows_of(file)[1]["at"].year == 1970


def test_nanoseconds_are_left_out(tmp_path):
    kinds = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns"), pa.duration("ns"))
    columns = {str(place): pa.array([1_001, None], kind) for place, kind in enumerate(kinds)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    first, second = read_table_file(tmp_path / "t.parquet").rows()
    assert first == {
        "0": datetime(1970, 1, 1, microsecond=1),
        "1": datetime(1970, 1, 1, microsecond=1, tzinfo=UTC),
        "2": time(microsecond=1),
        "3": timedelta(microseconds=1),
    }
    assert set(second.values()) == {None}


@pytest.mark.parametrize("ending", WRITABLE)
def test_a_table_is_written_in_pieces_without_row_ids_and_read_again(tmp_path, ending):
    file = tmp_path / f"t{ending}"
    with TableWriter(file) as writer:
        for number in range(3):
            writer.write(pa.table({"<RowID>": [f"Row{number}"], "n": [number], "text": ["ä" * (number + 1)]}))
    table = read_table_file(file)
    assert table.columns == ["n", "text"]
    assert [(str(row["n"]), row["text"]) for row in table.rows()] == [("0", "ä"), ("1", "ää"), ("2", "äää")]


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".xlsx"])
def test_a_map_is_written_as_an_object(tmp_path, ending):
    with TableWriter(tmp_path / f"t{ending}") as writer:
        writer.write(pa.table({"map": pa.array([[("a", 1.5)]], pa.map_(pa.string(), pa.float64()))}))
    (row,) = read_table_file(tmp_path / f"t{ending}").rows()
    assert row["map"] == {"a": 1.5} if ending == ".jsonl" else json.loads(row["map"]) == {"a": 1.5}


def test_json_lines_hold_what_json_does_not_have_as_text(tmp_path):
    columns = {
        "moment": pa.array([0], pa.timestamp("ns", "UTC")),
        "late": pa.array([10**15], pa.timestamp("s")),
        "price": pa.array([Decimal("2.00")]),
        "number": pa.array([float("nan")]),
        "duration": pa.array([timedelta(hours=30)]),
        "bytes": pa.array([b"\x00\xff"]),
        "list": pa.array([[{"a": 1.5, "b": None}]]),
        "missing": pa.nulls(1),
    }
    with TableWriter(tmp_path / "t.jsonl") as writer:
        writer.write(pa.table(columns))
    assert json.loads((tmp_path / "t.jsonl").read_text(encoding="utf-8")) == {
        "moment": "1970-01-01T00:00:00+00:00",
        "late": "<value out of range>",
        "price": "2.00",
        "number": "nan",
        "duration": "PT30H",
        "bytes": "\0\\xff",
        "list": [{"a": 1.5, "b": None}],
        "missing": None,
    }


@pytest.mark.parametrize("ending", [".xls", "", *(ending for ending in READABLE if ending not in WRITABLE)])
def test_an_ending_that_nothing_is_written_with_names_the_others(tmp_path, ending):
    with pytest.raises(TableError, match=rf"has to be one of {re.escape(', '.join(WRITABLE))}$"):
        TableWriter(tmp_path / f"t{ending}")


FORMULAS = [
    "=HYPERLINK(1)",
    "+cmd",
    "-2+3",
    "@x",
    "\t=1",
    "'=1",
    "''+a",
    "-5",
    "+1.5e3",
    "'-5",
    "a=1",
    "",
    "'a",
    None,
]


@pytest.mark.parametrize("columns", [("Tool name", "Hash"), ("a", "b")])
def test_csv_guards_formulas_and_takes_the_guard_off_its_own_tables(tmp_path, columns):
    file = tmp_path / "t.csv"
    with TableWriter(file) as writer:
        writer.write(pa.table({columns[0]: FORMULAS, columns[1]: ["x"] * len(FORMULAS)}))
    lines = file.read_text("utf-8").splitlines()[1:]
    assert [line.split(",")[0].strip('"')[:1] for line in lines[:4]] == ["'"] * 4
    assert lines[7].startswith('"-5"')
    read = read_table_file(file).table.column(columns[0]).to_pylist()
    assert (read == FORMULAS) == (columns[0] == "Tool name")


@pytest.mark.parametrize("columns", [("Tool name", "Hash"), ("a", "b")])
def test_the_guard_can_be_turned_off(tmp_path, columns):
    file = tmp_path / "t.csv"
    with TableWriter(file, raw_csv=True) as writer:
        writer.write(pa.table({columns[0]: FORMULAS, columns[1]: ["x"] * len(FORMULAS)}))
    assert read_table_file(file).table.column(columns[0]).to_pylist() == FORMULAS


CTRL_C = """
import os, signal, sys, threading
from pathlib import Path
from knime_mcp.audit.table_formats import read_table_file
from knime_mcp.types.errors import Canceled

signal.signal(signal.SIGINT, lambda *_: None)  # as that of a command, which only notes it
done = threading.Event()

def press():
    while not done.wait(0.002):
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press).start()
try:
    read_table_file(Path(sys.argv[1]))
except Canceled:
    print("canceled")
finally:
    done.set()
"""


def test_ctrl_c_while_a_csv_is_read_cancels(tmp_path):
    file = tmp_path / "large.csv"
    file.write_bytes(b"a,b\n" + b"one,two\n" * 4_000_000)
    words = [sys.executable, "-c", CTRL_C, str(file)]
    ended = commands.run(words, capture_output=True, encoding="utf-8", start_new_session=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "canceled\n", "")


def test_rows_of_another_length_are_named_by_their_line(tmp_path):
    file = tmp_path / "t.csv"
    for text, line in (
        ("a,b,c\n1,2\n", 2),
        ("t\n\na,b,c\n1,2,3\n\n3,4\n", 6),
        ('a,b,c\n"x\ny",3,2\n4,5,6,7\n', 4),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(TableError, match=f"has [24] cells in line {line}, and 3 names of columns in"):
            read_parameters(file, ("a", "b", "c"))


def test_texts_that_were_written_as_formulas_for_spreadsheets_are_texts(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text('id,sum\n"=""00123""",=1+1\n7,2\n', encoding="utf-8")
    table = read_parameters(file, ())
    assert [row["id"] for row in table.rows()] == ["00123", "7"]
    assert table.notes == ("cells such as =\"1\" are the text in them, in 'id'",)
