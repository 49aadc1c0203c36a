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
    *("d mmm yyyy hh:mm", "yyyy/mm/dd hh.mm.ss", "dddd, d. mmmm yyyy", 'yyyy"年"m"月"d"日"', "yyyy-mm-dd;@"),
    *(
        "[$-F800]dddd\\,\\ mmmm\\ dd\\,\\ yyyy",
        "[$-409]m/d/yy h:mm AM/PM;@",
        "mmm yy",
        "yyyy-mm-dd\\Thh:mm:ss",
    ),
]
#: Text files by their names: separator, encoding, and content.
TEXTS = {
    "comma.csv": (",", "utf-8", 'id,größe,text\n1,1.5,é\n2,,"a\nb"\n'),
    "semicolon.csv": (";", "utf-8-sig", 'id;größe;text\n1;1,5;é\n2;;"a\nb"\n'),
    "tab.csv": ("\t", "utf-16", 'id\tgröße\ttext\n1\t1,5\té\n2\t\t"a\nb"\n'),
    "bar.csv": ("|", "utf-8", 'id|größe|text\n1|1,5|é\n2||"a\nb"\n'),
    "latin.csv": (";", "cp1252", "id;größe;text\n1;5 €;é\n"),
    "no sign.csv": (";", "utf-16-le", "a;b\n1;ä\n"),
    "lines of a mac.csv": (",", "utf-8", "a,b\r1,2\r3,4\r"),
    "mixed lines.csv": (",", "utf-8", "a,b\r\n1,2\n3,4\r\n"),
    "empty columns.csv": (",", "utf-8", "a,b\n1,2\n\n3,\n\n"),
    "quotes.csv": (",", "utf-8", 'a,b\n"x ""y""","1\n2"\n"p,q",z\n'),
    "a mark.csv": (",", "utf-8", 'a,b\n5" pipe,1\nsay "hi" now,2\n'),
    "blanks.csv": (",", "utf-8", "a,b\n 1 , x \n2,y\n"),
    "one column.csv": (",", "utf-8", 'text\n"a, b"\n"c, d, e"\n'),
    "names only.csv": (",", "utf-8", "a,b"),
    "years.csv": (",", "utf-8", "2023,2024\n1,2\n"),
    "more commas.csv": (";", "utf-8", "id;betrag;text\n1;1.000,50;a, b, c\n2;3,5;d, e, f\n"),
    "odd lines.csv": (",", "utf-8", "a,b\n1\u2028x,2\n3,\x0b4\n"),
    "marks.tsv": ("\t", "utf-8", 'a\tb\nsay "hi" now\t2\n"1"\t2\n'),
}


def by_openpyxl(file, rows, *, formats=None, changed=lambda book: None):
    book = Workbook()
    for row in rows:
        book.active.append(row)
    for cell, code in (formats or {}).items():
        book.active[cell].number_format = code
    changed(book)
    book.save(file)


def by_xlsxwriter(file, rows, code="yyyy-mm-dd hh:mm:ss", **options):
    with xlsxwriter.Workbook(str(file), {"default_date_format": code, **options}) as book:
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


def as_without_places(name, part):
    return re.sub(r' r="[A-Z]*\d+"', "", part) if name == "xl/worksheets/sheet1.xml" else part


def as_with_prefixes(name, part):
    if name != "xl/worksheets/sheet1.xml":
        return part
    return re.sub(r"<(/?)(?!\?)", r"<\1x:", part).replace("xmlns=", "xmlns:x=")


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
    types = [types[0], *([*row[:3], row[3].replace("=", "-")] for row in types[1:])]
    by_xlsxwriter(folder / "types.xlsx", types)
    by_openpyxl(folder / "days.xlsx", [["on"], [date(2024, 3, 1)], [date(1999, 12, 31)]])
    by_openpyxl(folder / "no places.xlsx", [["a", "b"], [1, 2], [3, 4]])
    with_parts(folder / "no places.xlsx", as_without_places)
    by_openpyxl(folder / "prefixes.xlsx", ROWS)
    with_parts(folder / "prefixes.xlsx", as_with_prefixes)
    by_openpyxl(folder / "iso dates.xlsx", ROWS, changed=lambda book: setattr(book, "iso_dates", True))
    by_xlsxwriter(folder / "1904.xlsx", ROWS, date_1904=True)
    by_xlsxwriter(folder / "inline.xlsx", types, constant_memory=True)
    formats = {
        "A2": "0%",
        "B2": '#,##0.00 "€"',
        "C2": "# ?/?",
        "D2": "0.00E+00",
        "E2": "[h]:mm:ss",
        "F2": "mm:ss.0",
    }
    numbers = [0.25, 1234.5, 0.5, 1.5e-7, 1.25, 0.0125]
    by_openpyxl(
        folder / "numbers.xlsx", [[*"abcdef"], numbers, [1e20, -0.0, 0.1 + 0.2, 1e15, 0, 1]], formats=formats
    )
    with xlsxwriter.Workbook(str(folder / "calculated.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["text", "truth", "day", "link"])
        sheet.write_formula(1, 0, '=A2&"x"', None, "1x")
        sheet.write_formula(1, 1, "=A2=1", None, True)
        sheet.write_formula(1, 2, "=TODAY()", book.add_format({"num_format": "yyyy-mm-dd"}), 45352)
        sheet.write_url(1, 3, "https://host/x", string="there")
        sheet.write_rich_string(2, 0, "This is ", book.add_format({"bold": True}), "bold", " text")
        for row in range(3, 50):
            sheet.write_blank(row, 0, None, book.add_format({"bg_color": "yellow"}))
    for name, (_, encoding, text) in TEXTS.items():
        (folder / name).write_text(text, encoding=encoding, newline="")
    yield from sorted(folder.iterdir())


def of_pandas(file):
    import pandas

    if file.name in TEXTS:
        separator, encoding, _ = TEXTS[file.name]
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
