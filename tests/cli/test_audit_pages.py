"""The pages of ``audit show --html``, as many as the calls need."""

import base64
import json
import re
from functools import partial
from pathlib import Path

import pytest
import typer

from knime_mcp.audit.calls_table import journal_calls
from knime_mcp.audit.verify import verify_file
from knime_mcp.audit.verify_journal import saved_file
from knime_mcp.cli import audit, audit_page
from tests.audit.calls import write_run
from tests.audit.signing import PICTURE, rechained, write_journal
from tests.support.files import json_lines


def test_every_call_is_on_a_page_and_pages_lead_to_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_page, "_MOST_CALLS", 3)
    records, _ = write_run(tmp_path / "r.jsonl", 8)
    found = verify_file(tmp_path / "r.jsonl")
    pages = dict(audit_page.audit_pages(tmp_path / "r.html", "r.jsonl", iter(records), found, Path))
    assert [file.name for file in pages] == ["r.html", "r-2.html", "r-3.html"]
    assert [re.findall(r'href="([^"]+)"', page) for page in pages.values()] == [
        ["r-2.html", "r-3.html"],
        ["r.html", "r-3.html"],
        ["r.html", "r-2.html"],
    ]
    assert [page.count("Previous hash") for page in pages.values()] == [2, 3, 2]  # the first call has none
    records, _ = write_run(tmp_path / "s.jsonl", 3)
    found = verify_file(tmp_path / "s.jsonl")
    (page,) = dict(audit_page.audit_pages(tmp_path / "r.html", "r", records, found, Path)).values()
    assert "href" not in page


def test_a_page_shows_the_pictures_on_record_and_no_others(tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    (tmp_path / "a2.png").write_bytes(b"another picture")
    find = partial(saved_file, journal=path)
    pages = audit_page.audit_pages(tmp_path / "r.html", "r", journal_calls(path), verify_file(path), find)
    ((_, page),) = pages
    shown = [base64.b64decode(data) for data in re.findall(r"data:image/png;base64,([^\"]+)", page)]
    assert shown == [PICTURE + b"1", PICTURE + b"3"]


def swapped(old, new):
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new, 1))


def spoiled(path):
    (path.parent / "a2.png").write_bytes(PICTURE + b"9")


def with_chain_anew(**values):
    def tamper(path):
        lines = [line | values if line.get("call") == 2 else line for line in json_lines(path)]
        path.write_bytes(b"".join(rechained(lines)))

    return tamper


def twice(path):
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"call":2' in line)
    path.write_bytes(b"".join([*lines[:at], lines[at].replace(b"paid 2", b"paid 9"), *lines[at:]]))


TAMPERED = {
    "result": swapped(b"paid 2", b"paid 9"),
    "what no hash of a call covers": swapped(b'"image":"a2', b'"image":"a9'),
    "hash": swapped(b'"call":2,', b'"call":2,"mood":"good",'),
    "result, and the chain of lines made anew": with_chain_anew(result="paid 9"),
    "status, and the chain of lines made anew": with_chain_anew(status="denied"),
    "without its chain": lambda path: path.write_bytes(
        re.sub(rb'(paid 2".*),"chain":"\w+"', rb"\1", path.read_bytes())
    ),
    "saved file": spoiled,
    "there twice": twice,
}


def test_an_altered_call_looks_altered_in_its_row_and_no_other_does(tmp_path, capsys):
    wrong = {}
    for name, tamper in TAMPERED.items():
        folder = tmp_path / name
        folder.mkdir()
        path = write_journal(folder / "r.jsonl", ("a",))
        whole = path.read_bytes()
        tamper(path)
        assert path.read_bytes() != whole or name == "saved file"
        found = verify_file(path)
        pages = audit_page.audit_pages(tmp_path / "r.html", "r", journal_calls(path), found, Path)
        ((_, page),) = pages
        rows = re.findall(r"<details.*?</details>", page, re.DOTALL)
        look = ["altered" in row and 'class="badge bad"' in row and "good" not in row for row in rows]
        wanted = [False, True, True, False] if name == "there twice" else [False, True, False]
        for as_json in (False, True):
            with pytest.raises(typer.Exit):
                audit.show_records(path, as_json=as_json)
        out = capsys.readouterr().out
        shown = json.loads(out[out.index("[\n") :])
        if look != wanted or [call.get("altered", False) for call in shown] != wanted:
            wrong[name] = look, shown
        if out.count("altered (says") != wanted.count(True):
            wrong[name] = out
    assert wrong == {}
