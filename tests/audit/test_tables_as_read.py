"""Tables with a true head that a person reads otherwise than they were written: never intact."""

import json
import re

import openpyxl
import pytest
import typer

from knime_mcp.audit.calls_table import calls_table, journal_calls, write_calls
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.table_formats import TableError
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file, verify_table
from knime_mcp.cli import audit
from knime_mcp.runs.replaying import read_recording
from knime_mcp.types.errors import SettingInvalid
from tests.audit.calls import record


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "r.jsonl", run="r") as written:
        for number in range(1, 4):
            values = {"result": "long " * 10_000} if number == 2 else {"result": f"paid {number}"}
            written.append(record(number, run="r", **values))
    return tmp_path / "r.jsonl"


def verdict(file, head):
    """What is said of a table; one that is refused is found, too."""
    try:
        return verify_file(file, head=head).verdict
    except TableError:
        return Verdict.ALTERED


def cell(name, row, change):
    """Changes a cell of a workbook by the name of its column."""

    def tamper(book):
        sheet = book["Table"]
        place = next(found for found in sheet[1] if found.value == name)
        change(sheet.cell(row + 1, place.column))

    return tamper


def to(text):
    return lambda found: setattr(found, "value", text)


def shown(number_format):
    return lambda found: setattr(found, "number_format", number_format)


def another_first_sheet(book):
    copy = book.copy_worksheet(book["Table"])
    copy.title = "Calls"
    book.move_sheet(copy, -book.index(copy))
    book["Table"].sheet_state = "hidden"
    cell("Result", 1, to("paid 9"))({"Table": copy})


def rows_below_other_names(book):
    sheet, more = book["Table"], book.create_sheet("Table 2", 1)
    names = [found.value for found in sheet[1]]
    last = [found.value for found in sheet[4]]
    swap = {"Result": "Error", "Error": "Result"}
    more.append([swap.get(name, name) for name in names])
    more.append(last)
    sheet.delete_rows(4)


WORKBOOKS = {
    "the visible beginning of a long value": cell(
        "Result", 2, lambda found: setattr(found, "value", found.value.replace("long", "lang", 1))
    ),
    "another text in place of a long value": cell("Result", 2, to("denied")),
    "another length of a long value": cell(
        "Result", 2, lambda found: setattr(found, "value", found.value.replace("50,000", "50,001"))
    ),
    "nothing in place of a long value": cell("Result", 2, to(None)),
    "a long value for a short cell": lambda book: book["Long values"].append([1, "Result", "paid 9"]),
    "a format that shows another text": cell("Result", 1, shown(';;;"paid 9"')),
    "a format that shows more text": cell("Result", 1, shown('@" and 9"')),
    "a format that shows another text, escaped": cell("Result", 1, shown(r"0;0;0;\n\o")),
    "a format that shows another number": cell("Attempts", 1, shown('"7"')),
    "a visible sheet beside the hidden one": another_first_sheet,
    "a further sheet with other names": rows_below_other_names,
}


def test_workbooks(journal, tmp_path):
    head = verify_file(journal).runs[0].head
    file = tmp_path / "t.xlsx"
    write_calls(journal_calls(journal), file)
    assert verify_file(file, head=head).intact
    found = {}
    for name, tamper in WORKBOOKS.items():
        book = openpyxl.load_workbook(file)
        tamper(book)
        book.save(tmp_path / "forged.xlsx")
        found[name] = verdict(tmp_path / "forged.xlsx", head)
    assert {name: said for name, said in found.items() if said is not Verdict.ALTERED} == {}


def test_workbooks_that_were_saved_again_or_given_usual_formats_are_intact(journal, tmp_path):
    head = verify_file(journal).runs[0].head
    file = tmp_path / "t.xlsx"
    write_calls(journal_calls(journal), file)
    book = openpyxl.load_workbook(file)
    cell("Result", 1, shown("@"))(book)
    cell("Result", 3, shown('_-* #,##0.00\\ "€"_-;-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-'))(book)
    cell("Attempts", 1, shown('0" times"'))(book)
    cell("Duration (s)", 1, shown("[Red]0.000;[Blue]-0.000"))(book)
    cell("Tool name", 1, shown("0.00"))(book)
    book["Long values"].sheet_state = "hidden"
    book.save(file)
    assert verify_file(file, head=head).intact


def in_json(name, change):
    """Changes the text of a cell of a row given as JSON."""

    def tamper(line):
        row = json.loads(line)
        new = change(row[name])
        assert new != row[name]
        return json.dumps(row | {name: new}, ensure_ascii=False)

    return tamper


def twice(old, new):
    return lambda text: re.sub(old, new, text, count=1)


ROWS = {
    "arguments with a name twice": in_json("Arguments", twice(r'"a":(\d)', r'"a":9,"a":\1')),
    "structured result with a name twice": in_json("Structured result", twice(r"\{", '{"v":["paid"],')),
    "a tool with a name twice": in_json("Tool (JSON)", twice(r"\{", '{"name":"find",')),
    "a mark of ours in place of a number": in_json(
        "Arguments", lambda text: text.replace('"a":1', '"a":"\\ue0000\\ue000"')
    ),
    "a row with a name twice": lambda line: line.replace("{", '{"Result": "paid 9", ', 1),
    **{
        f"behind the time: {behind}": in_json("Started at", lambda text, behind=behind: text + behind)
        for behind in (
            *("[denied]", "[", "[]", "[UTC", "[UTC] denied", "[UTC][denied]", " [UTC]]", "[../UTC]"),
            *("[Europe/Berlin]", "[Approved/By_Anna]"),
        )
    },
    "a number that only Python reads": in_json("Attempts", lambda value: "0_1"),
    "digits of another script": in_json("Attempts", lambda value: "١"),
}


def test_rows_of_json(journal, tmp_path):
    head = verify_file(journal).runs[0].head
    file, forged = tmp_path / "t.jsonl", tmp_path / "forged.jsonl"
    write_calls(journal_calls(journal), file)
    assert verify_file(file, head=head).intact
    first, *others = file.read_text("utf-8").splitlines(keepends=True)
    found = {}
    for name, tamper in ROWS.items():
        changed = tamper(first)
        assert changed != first, name
        forged.write_text("".join([changed.rstrip("\n") + "\n", *others]), "utf-8")
        found[name] = verdict(forged, head)
    assert {name: said for name, said in found.items() if said is not Verdict.ALTERED} == {}
    for same in ("2026-01-31T12:00:01Z[UTC]", "2026-01-31T13:00:01+01:00[Europe/Berlin]"):
        forged.write_text(in_json("Started at", lambda _, same=same: same)(first) + "\n" + "".join(others))
        assert verdict(forged, head) is Verdict.INTACT, same


def test_a_head_that_is_none_is_refused_and_proves_nothing(journal, tmp_path):
    table = calls_table(journal_calls(journal))
    write_calls(journal_calls(journal), tmp_path / "t.csv")
    for head in ("", " ", "\n", "sha256:", "sha256:-", "-", "x", "0" * 63, "sha256:" + "g" * 64):
        for ask in (
            lambda head=head: verify_file(journal, head=head),
            lambda head=head: verify_table(table, head=head),
            lambda head=head: read_recording(journal, head=head),
        ):
            with pytest.raises(SettingInvalid, match="is not one"):
                ask()
        for file in (journal, tmp_path / "t.csv"):
            with pytest.raises(typer.Exit) as ended:
                audit.verify(file, head=[head])
            assert ended.value.exit_code == 2
