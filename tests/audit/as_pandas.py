"""Tables as people have them, from several programs, and what pandas reads in them.

The tests do without pandas, which Arrow would load in all of them. Where it is installed,
``python -m tests.audit.as_pandas`` writes anew what it says.
"""

import json
import re
import shutil
import zipfile
from datetime import date, datetime, time
from pathlib import Path
from tempfile import TemporaryDirectory

import xlsxwriter
from openpyxl import Workbook

from knime_mcp.audit.arrow_cells import json_value

HERE = Path(__file__).parent / "workbooks"
SAID = HERE / "pandas.json"
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
    shutil.copy(HERE / "by_pandas.xlsx", folder)
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
    import pandas

    if file.suffix == ".csv":
        separator = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "latin": ";"}[file.stem]
        encoding = {"semicolon": "utf-8-sig", "tab": "utf-16", "latin": "cp1252"}.get(file.stem, "utf-8")
        frame = pandas.read_csv(file, sep=separator, encoding=encoding, dtype=str)
    else:
        frame = pandas.read_excel(file, dtype=object, engine="calamine")
    return [
        [plain(None if value != value else value) for value in row] for row in frame.itertuples(index=False)
    ]


def plain(value):
    """A cell as JSON, whose days have no time."""
    to_python = getattr(value, "to_pydatetime", None)
    said = json_value(value if to_python is None else to_python())
    return said.removesuffix("T00:00:00") if isinstance(said, str) else said


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        said = {file.name: of_pandas(file) for file in made(Path(folder))}
    SAID.write_text(json.dumps(said, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
