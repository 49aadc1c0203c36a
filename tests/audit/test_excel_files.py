"""Excel's workbooks: what is written comes back, what Excel cannot hold is kept elsewhere, nothing is run."""

import zipfile
from datetime import UTC, date, datetime, time

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl import Workbook, load_workbook

from knime_mcp.audit import excel_files
from knime_mcp.audit.table_formats import TableError, TableWriter, read_table_file


def written(file, columns):
    with TableWriter(file) as writer:
        writer.write(pa.table(columns))
    return writer


def saved(file, *rows):
    """A workbook as another program saves it."""
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(file)
    return file


@pytest.mark.parametrize(
    "values",
    [
        [1, None, -5],
        [1.5, 2.0, None],
        [True, False, None],
        ["=1+1", "+cmd", "-2", "@x", "#N/A", "a\nb", "00123", "_x0041_", "\x01\x0b", "\r\n", "😀", None],
        [date(2026, 1, 2), None, date(1900, 3, 1)],
        [datetime(2026, 1, 2, 3, 4, 5), None, datetime(2026, 1, 2, 3, 4, 5, 123000)],
    ],
    ids=["integers", "numbers", "booleans", "texts", "dates", "moments"],
)
def test_values_come_back_with_their_types(tmp_path, values):
    written(tmp_path / "t.xlsx", {"a": values, "last": ["x"] * len(values)})
    read = read_table_file(tmp_path / "t.xlsx")
    assert read.table.column("a").to_pylist() == values


@given(st.lists(st.text(max_size=20) | st.none(), max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_text_comes_back(tmp_path, texts):
    file = tmp_path / "t.xlsx"
    clean = [None if text is None else text.encode(errors="replace").decode() for text in texts]
    written(file, {"a": pa.array(clean, pa.string()), "last": ["x"] * len(texts)})
    # An empty text is an empty cell in Excel.
    assert read_table_file(file).table.column("a").to_pylist() == [text or None for text in clean]


def test_what_excel_would_change_is_text(tmp_path):
    values = {
        "long": [10**15 + 1],
        "not a number": [float("nan")],
        "zone": [datetime(2026, 1, 2, tzinfo=UTC)],
        "early": [date(1900, 2, 28)],
        "fine": [datetime(2026, 1, 2, 0, 0, 0, 1)],
        "time": [time(1, 2, 3)],
    }
    written(tmp_path / "t.xlsx", values)
    (row,) = read_table_file(tmp_path / "t.xlsx").rows()
    assert row == {
        "long": "1000000000000001",
        "not a number": "nan",
        "zone": "2026-01-02T00:00:00+00:00",
        "early": "1900-02-28",
        "fine": "2026-01-02T00:00:00.000001",
        "time": "01:02:03",
    }


def test_no_text_is_a_formula_for_excel(tmp_path):
    written(tmp_path / "t.xlsx", {"=name": ["=HYPERLINK(1)"]})
    cells = [cell for row in load_workbook(tmp_path / "t.xlsx").active.iter_rows() for cell in row]
    assert [(cell.data_type, cell.quotePrefix) for cell in cells] == [("s", True), ("s", True)]


@pytest.mark.parametrize("text", ["x" * 32_768, "😀" * 20_000, "\x01" * 6_000, "ab_x0041_" * 5_000])
def test_a_text_too_long_for_a_cell_is_kept_in_pieces(tmp_path, text):
    writer = written(tmp_path / "t.xlsx", {"a ": ["short", text], "b": ["x" * 32_767, None]})
    assert writer.remark == (
        "a cell of Excel holds 32,767 characters: 1 longer value in the sheet 'Long values'"
    )
    book = load_workbook(tmp_path / "t.xlsx")
    assert book.sheetnames == ["Table", "Long values"]
    assert book["Table"]["A3"].value.endswith(
        f"… [{len(text):,} characters: all of them are in the sheet 'Long values']"
    )
    assert all(
        len(cell.value) <= 32_767 for row in book["Long values"]["C2:C9"] for cell in row if cell.value
    )
    assert read_table_file(tmp_path / "t.xlsx").table.to_pydict() == {
        "a": ["short", text],
        "b": ["x" * 32_767, None],
    }


def test_a_sheet_of_that_name_in_a_workbook_of_others_is_only_a_sheet(tmp_path):
    book = Workbook()
    for row in (["a"], [1]):
        book.active.append(row)
    book.create_sheet("Long values").append(["something", "else"])
    book["Long values"].append([7])
    book.save(tmp_path / "t.xlsx")
    assert read_table_file(tmp_path / "t.xlsx").table.to_pydict() == {"a": [1]}


def test_more_rows_than_a_sheet_holds_go_on_in_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(excel_files, "ROWS", 4)
    writer = written(tmp_path / "t.xlsx", {"a": list(range(8))})
    assert writer.remark == "a sheet of Excel holds 4 rows: the others are in further sheets"
    assert load_workbook(tmp_path / "t.xlsx").sheetnames == ["Table", "Table 2", "Table 3"]
    assert read_table_file(tmp_path / "t.xlsx").table.to_pydict() == {"a": list(range(8))}


def test_more_columns_than_a_sheet_holds_are_refused(tmp_path):
    with pytest.raises(TableError, match=r"t.xlsx cannot be written: it has 16,385 columns, and a sheet"):
        written(tmp_path / "t.xlsx", {str(number): [1] for number in range(16_385)})


@pytest.mark.parametrize("file", ["t.xlsx", "t.csv"])
def test_the_definition_of_a_tool_stands_behind_all_else(tmp_path, file):
    written(tmp_path / file, {name: ["x"] for name in ["Tool (JSON)", "Tool name", "Title"]})
    assert read_table_file(tmp_path / file).columns == ["Tool name", "Title", "Tool (JSON)"]


def test_a_sheet_as_people_save_it(tmp_path):
    file = saved(tmp_path / "t.xlsx", [" id ", 2026, "when"], [1, 2.5, datetime(2026, 1, 2)], ["A2"], [None])
    table = read_table_file(file)
    assert table.table.to_pydict() == {
        "id": ["1", "A2"],  # several types in a column are text, as a person reads them
        "2026": [2.5, None],
        "when": [datetime(2026, 1, 2), None],
    }
    assert list(table.rows()) == [
        {"id": 1, "2026": 2.5, "when": "2026-01-02T00:00:00"},
        {"id": "A2", "2026": None, "when": None},
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "is empty. Its first row has to name the columns"),
        ([["a", "a"], [1, 2]], "has more than one column called 'a'"),
        ([["a"], ["=1/0"]], "has a formula in cell A2 that was never calculated. Save it with Excel"),
        ([["a"], ["#DIV/0!"]], "has the error #DIV/0! in cell A2. Correct it, or empty the cell"),
    ],
    ids=["empty", "twice", "formula", "error"],
)
def test_a_sheet_that_cannot_be_read_says_why(tmp_path, rows, words):
    with pytest.raises(TableError, match=rf"^{tmp_path}/t.xlsx {words}"):
        read_table_file(saved(tmp_path / "t.xlsx", *rows))


def test_the_value_of_a_formula_is_the_one_that_was_saved(tmp_path):
    saved(tmp_path / "t.xlsx", ["a"], ["=1+1"])
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace(b"<v></v>", b"<v>7</v>").replace(b"<v />", b"<v>7</v>")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert read_table_file(tmp_path / "t.xlsx").table.to_pydict() == {"a": [7]}


@pytest.mark.parametrize("size", [0, 100, 3_000])
def test_a_damaged_workbook_is_refused(tmp_path, size):
    saved(tmp_path / "whole.xlsx", ["a"], [1])
    (tmp_path / "t.xlsx").write_bytes((tmp_path / "whole.xlsx").read_bytes()[:size])
    with pytest.raises(TableError, match=r"t.xlsx is no .xlsx file, or is protected by a password"):
        read_table_file(tmp_path / "t.xlsx")


def test_a_workbook_that_unpacks_to_too_much_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(excel_files, "_UNPACKED", 1_000)
    with pytest.raises(TableError, match=r"t.xlsx unpacks to [\d,]+ bytes, of which 1,000 are allowed"):
        read_table_file(saved(tmp_path / "t.xlsx", ["a"], [1]))


def test_a_workbook_that_is_not_there_is_no_broken_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_table_file(tmp_path / "t.xlsx")
