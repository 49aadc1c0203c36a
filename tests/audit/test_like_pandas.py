"""Tables as people have them are read as pandas reads the same files, and as a person sees them."""

import json

import xlsxwriter

from knime_mcp.audit.arrow_cells import Unreadable
from knime_mcp.audit.table_formats import read_parameters
from tests.audit.as_pandas import HERE, SAID, by_openpyxl, made, plain


def test_files_are_read_as_pandas_reads_them(tmp_path):
    read = {
        file.name: [[plain(value) for value in row.values()] for row in read_parameters(file, ()).rows()]
        for file in made(tmp_path)
    }
    said = json.loads(SAID.read_text("utf-8"))
    assert read.keys() == said.keys()
    assert {name: rows for name, rows in read.items() if rows != said[name]} == {}


def test_a_sheet_of_libreoffice():
    """Whose first sheet is hidden, with formulas, zeros before numbers, an error and a row in between."""
    table = read_parameters(HERE / "libreoffice.xlsx", ())
    rows = list(table.rows())
    assert [row["id"] for row in rows] == [1001, 1002, 1003, None, 1009]
    assert [str(row["code"]) for row in rows if row["id"]] == ["01234", "01235", "01236", "00009"]
    assert [row["when"] for row in rows][:2] == ["2024-03-01T18:30:00", "2024-03-02T18:30:00"]
    assert rows[4]["when"] == "2024-03-09T00:00:00"
    assert [row["total"] for row in rows][:3] == [2002, 2004, 2006]
    assert {row["empty"] for row in rows} == {None}
    assert rows[1]["broken"] == Unreadable("the error #N/A in cell F3", fix="Correct it, or empty the cell")
    assert (table.understood, table.notes) == (
        "sheet 'Orders', names in row 1",
        ("hidden sheets, which are not read: 'Old'",),
    )
    assert table.filled_rows() == [0, 1, 2, 4]


def test_what_a_person_sees_otherwise_is_noted(tmp_path):
    def changed(book):
        book.active.merge_cells("A2:A3")
        book.active.row_dimensions[4].hidden = True
        book.create_sheet("More")
        book.create_chartsheet("Chart", 0)

    rows = [["to", "n"], ["a", 12], [None, 2], ["b", 3], ["\u200b", "\u00a0"]]
    by_openpyxl(tmp_path / "t.xlsx", rows, formats={"B2": '"x";"y";"z"'}, changed=changed)
    table = read_parameters(tmp_path / "t.xlsx", ())
    assert [row["to"] for row in table.rows()] == ["a", "a", "b", "\u200b"]
    assert table.filled_rows() == [0, 1, 2]
    assert table.notes == (
        "merged cells count for each of their rows: A2:A3",
        "hidden rows of the sheet, which are read all the same: 4",
        "further sheets, which are not read: 'More'",
    )
    assert table.disguised == (("n", "B2"),)


def test_ids_have_the_zeros_that_their_cells_show(tmp_path):
    shown = {
        "00000": "00012",
        '"KD-"0000': "KD-0012",
        "000\\-00\\-0000": "000-00-0012",
        "(00) 0": "(01) 2",
        "0": "12",
        '0" kg"': "12",
        "0.00": "12",
        "#,##0": "12",
    }
    formats = {f"A{row}": code for row, code in enumerate(shown, 2)}
    by_openpyxl(tmp_path / "t.xlsx", [["id"], *[[12]] * len(shown)], formats=formats)
    values = [row["id"] for row in read_parameters(tmp_path / "t.xlsx", ()).rows()]
    assert (list(map(str, values)), values) == (list(shown.values()), [12] * len(shown))


def test_formulas_that_were_never_calculated_have_no_value(tmp_path):
    """Also where a program that cannot calculate wrote 0."""
    by_openpyxl(tmp_path / "openpyxl.xlsx", [["a", "b"], [1, "=A2+1"]])
    with xlsxwriter.Workbook(str(tmp_path / "xlsxwriter.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["a", "b", "c"])
        sheet.write(1, 0, 1)
        sheet.write_formula(1, 1, "=A2+1")
        sheet.write_formula(1, 2, "=A2+1", value=2)
    for name in ("openpyxl", "xlsxwriter"):
        (row,) = read_parameters(tmp_path / f"{name}.xlsx", ()).rows()
        why = "a formula in cell B2 that was never calculated"
        assert row["b"] == Unreadable(why, fix="Save it with Excel"), name
        assert row.get("c", 2) == 2


def test_titles_stand_above_the_names(tmp_path):
    rows = [
        ["Payments of May"],
        [None],
        ["Account", "DE1"],
        [None, "To ", "amount", None],
        [None, "a", 5, "rest"],
    ]
    by_openpyxl(tmp_path / "t.xlsx", rows)
    table = read_parameters(tmp_path / "t.xlsx", ["to", "amount"])
    assert table.understood == "sheet 'Sheet', names in row 4"
    assert list(table.rows()) == [{"To": "a", "amount": 5, "Column D": "rest"}]
