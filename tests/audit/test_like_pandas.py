"""Tables as people have them are read as pandas reads the same files, and as a person sees them."""

import re
import zipfile
from datetime import date, datetime, time
from pathlib import Path

import pandas
import xlsxwriter
from openpyxl import Workbook

from knime_mcp.audit.arrow_cells import Unreadable, json_value
from knime_mcp.audit.table_formats import read_parameters

HERE = Path(__file__).parent
MOMENT = datetime(2024, 3, 1, 18, 30)
FORMATS = [
    *("yyyy-mm-dd HH:MM:SS", "YYYY-MM-DD HH:MM:SS", "dd.MM.yyyy HH:mm", "d.m.yy HH:MM", "dd/mm/yyyy"),
    *("mm/dd/yyyy h:mm AM/PM", "[$-407]d. mmmm yyyy hh:mm", "[Blue]yyyy-mm-dd hh:mm:ss.000"),
]


def by_openpyxl(file, rows, *, formats=None, changed=lambda book: None):
    book = Workbook()
    for row in rows:
        book.active.append(row)
    for cell, code in (formats or {}).items():
        book.active[cell].number_format = code
    changed(book)
    book.save(file)


def by_xlsxwriter(file, rows, code="yyyy-mm-dd hh:mm:ss"):
    with xlsxwriter.Workbook(str(file), {"default_date_format": code}) as book:
        sheet = book.add_worksheet()
        for place, row in enumerate(rows):
            sheet.write_row(place, 0, row)


def by_pandas(file, rows):
    pandas.DataFrame(rows[1:], columns=rows[0]).to_excel(file, index=False)


def with_parts(file, change):
    """Writes the parts of a workbook as another program does."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, change(name, part))


def as_google_sheets(name, part):
    if name != "xl/worksheets/sheet1.xml":
        return part
    part = re.sub(r"<v>(\d{1,6})</v>", r"<v>\1.0</v>", part)
    return part.replace("<v>4006381333931</v>", "<v>4.006381333931E12</v>")


def as_strict(name, part):
    return part.replace(
        "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
        "http://purl.oclc.org/ooxml/spreadsheetml/main",
    ).replace(
        "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
        "http://purl.oclc.org/ooxml/officeDocument/relationships",
    )


def as_excel_calculates(name, part):
    """An empty text that a formula gave."""
    return re.sub(r'<c r="B2"[^>]*>.*?</c>', '<c r="B2" t="str"><f>IF(A2,"")</f><v></v></c>', part)


ROWS = [["id", "code", "at"], [1001, 4006381333931, MOMENT], [1002, 7, datetime(2024, 3, 2)]]


def made(folder):
    """The files by name."""
    for number, code in enumerate(FORMATS):
        by_openpyxl(folder / f"openpyxl {number}.xlsx", ROWS, formats={"C2": code, "C3": code})
        by_xlsxwriter(folder / f"xlsxwriter {number}.xlsx", ROWS, code)
    by_pandas(folder / "pandas.xlsx", ROWS)
    by_openpyxl(folder / "google.xlsx", [ROWS[0], [1001, 4006381333931, 5]])
    with_parts(folder / "google.xlsx", as_google_sheets)
    by_openpyxl(folder / "strict.xlsx", ROWS)
    with_parts(folder / "strict.xlsx", as_strict)
    by_openpyxl(folder / "empty text.xlsx", [["a", "b"], [1, "=x"], [2, 5]])
    with_parts(folder / "empty text.xlsx", as_excel_calculates)
    types = [
        ["a", "b", "c", "d"],
        [1.5, True, time(18, 30), " x "],
        [2, False, None, "a\nb"],
        [-1, None, None, "=1"],
    ]
    by_xlsxwriter(
        folder / "types.xlsx", [types[0], *([*row[:3], row[3].replace("=", "-")] for row in types[1:])]
    )
    by_openpyxl(folder / "days.xlsx", [["on"], [date(2024, 3, 1)], [date(1999, 12, 31)]])
    for name, separator, encoding in (
        *(("comma.csv", ",", "utf-8"), ("semicolon.csv", ";", "utf-8-sig"), ("tab.csv", "\t", "utf-16")),
        *(("bar.csv", "|", "utf-8"), ("latin.csv", ";", "cp1252")),
    ):
        rows = [
            ["id", "größe", "text"],
            ["1", "1,5" if separator != "," else "1.5", "é"],
            ["2", "", '"a\nb"'],
        ]
        text = "\n".join(separator.join(row) for row in rows) + "\n"
        (folder / name).write_text(text, encoding=encoding, newline="")
    yield from sorted(folder.iterdir())


def of_pandas(file):
    if file.suffix == ".csv":
        separator = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "latin": ";"}[file.stem]
        encoding = {"semicolon": "utf-8-sig", "tab": "utf-16", "latin": "cp1252"}.get(file.stem, "utf-8")
        frame = pandas.read_csv(file, sep=separator, encoding=encoding, dtype=str)
    else:
        frame = pandas.read_excel(file, dtype=object, engine="calamine")
    return [[_plain(value) for value in row] for row in frame.itertuples(index=False)]


def _plain(value):
    if value is None or value is pandas.NaT or value != value:
        return None
    if isinstance(value, pandas.Timestamp):
        value = value.to_pydatetime()
    text = json_value(value)
    return text.removesuffix("T00:00:00") if isinstance(text, str) else text


def test_files_are_read_as_pandas_reads_them(tmp_path):
    read = {
        file.name: [[_plain(value) for value in row.values()] for row in read_parameters(file, ()).rows()]
        for file in made(tmp_path)
    }
    assert len(read) > 20
    assert {name: rows for name, rows in read.items() if rows != of_pandas(tmp_path / name)} == {}


def test_a_sheet_of_libreoffice():
    """Whose first sheet is hidden, with formulas, zeros before numbers, an error and a row in between."""
    table = read_parameters(HERE / "workbooks" / "libreoffice.xlsx", ())
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

    rows = [["to", "n"], ["a", 12], [None, 2], ["b", 3]]
    by_openpyxl(tmp_path / "t.xlsx", rows, formats={"B2": '"x";"y";"z"'}, changed=changed)
    table = read_parameters(tmp_path / "t.xlsx", ())
    assert [row["to"] for row in table.rows()] == ["a", "a", "b"]
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
