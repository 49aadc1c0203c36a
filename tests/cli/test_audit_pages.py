"""The pages of ``audit show --html``, as many as the calls need."""

import base64
import json
import re

import pytest
import typer

from knime_mcp.audit.calls_table import read_calls, write_calls
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.verify import verify_file
from knime_mcp.cli import audit
from knime_mcp.tools.views import journal_page, run_page
from knime_mcp.tools.views.journal_page import RunPages
from tests.audit.calls import write_run
from tests.audit.signing import PICTURE, rechained, write_journal
from tests.support.files import json_lines
from tests.support.pages import RunPage


def pages_of(path, page="r.html"):
    pages, verified = RunPages(path, page), verify_file(path)
    return {pages.name(n): RunPage(pages.page(n, verified)) for n in range(1, len(pages) + 1)}


def test_every_call_is_on_a_page_and_pages_lead_to_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_page, "_LINES", 3)
    write_run(tmp_path / "j.jsonl", 8)  # ten steps, with beginning and end
    pages = pages_of(tmp_path / "j.jsonl")
    first, *others, last = names = list(pages)
    assert (first, *others, last) == ("r.html", *(f"r-{number}.html" for number in range(2, len(names) + 1)))
    links = [re.findall(r'href="([^"]+)"', page.html) for page in pages.values()]
    between = [[first, before, after, last] for before, after in zip(names, names[2:], strict=False)]
    assert links == [[names[1], last], *between, [first, names[-2]]]
    calls = [step["number"] for page in pages.values() for step in page.calls]
    assert calls == [str(number + 1) for number in range(8)]
    write_run(tmp_path / "s.jsonl", 1)
    (page,) = pages_of(tmp_path / "s.jsonl").values()
    assert "href" not in page.html


def test_who_runs_no_scripts_sees_the_first_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(run_page, "_FIRST", 4)
    write_run(tmp_path / "j.jsonl", 8)
    (page,) = pages_of(tmp_path / "j.jsonl").values()
    (without,) = re.findall("<noscript>(.*?)</noscript>", page.text, re.DOTALL)
    assert without.count("<tr>") == 1 + 4
    assert "<td>Row1</td><td>search</td><td>ok</td>" in without
    assert "It failed" in without


def test_a_page_shows_the_pictures_on_record_and_no_others(tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    (tmp_path / "a2.png").write_bytes(b"another picture")
    (page,) = pages_of(path).values()
    sources = [source for step in page.steps for source, _ in step.get("pictures", ())]
    shown = [base64.b64decode(source.partition(",")[2]) for source in sources]
    assert shown == [PICTURE + b"1", PICTURE + b"3"]


def test_the_page_of_an_agent_says_what_was_asked_and_by_whom(tmp_path):
    path = tmp_path / "a.jsonl"
    what = {"kind": "agent", "model": "m-1", "endpoint": "http://127.0.0.1:9/v1"}
    with Journal(path, run="r", about="knime-mcp agent", what=what) as journal:
        journal.note("prompt", {"row": None, "text": "Which chair?", "history": None})
        turn = {"row": None, "iteration": 1, "text": "I look.", "usage": {"read": 5, "wrote": 2}}
        journal.note("turn", {**turn, "calls": [{"name": "t", "arguments": {}, "id": "1"}]})
        journal.note("answer", {"row": None, "text": "The <b>red</b> one.", "ending": "answer"})
    (page,) = pages_of(path).values()
    for said in (
        "Which chair?",
        "The &lt;b&gt;red&lt;/b&gt; one.",
        "m-1 at http://127.0.0.1:9/v1",
        "knime-mcp ",
    ):
        assert said in page.html, said
    assert [step["name"] for step in page.steps] == ["Begin", "Question", "Model", "Answer", "End"]


def test_what_is_altered_looks_altered_in_its_place(tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"call":2' in line)
    path.write_bytes(b"".join([*lines[:at], b"not a line\n", *lines[at + 1 :]]))
    (page,) = pages_of(path).values()
    names = [(step["name"], "altered" in step) for step in page.steps]
    assert (f"Line {at + 1}", True) in names
    assert ("Missing", True) in names
    assert ("Begin", False) in names


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


def test_an_altered_call_looks_altered_in_its_row_and_no_other_does(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    wrong = {}
    for name, tamper in TAMPERED.items():
        folder = tmp_path / name
        folder.mkdir()
        path = write_journal(folder / "r.jsonl", ("a",))
        whole = path.read_bytes()
        tamper(path)
        assert path.read_bytes() != whole or name == "saved file"
        (page,) = pages_of(path).values()
        look = [
            "altered" in step and step["status"] == "changed" and step["mood"] == "bad" for step in page.calls
        ]
        wanted = [False, True, True, False] if name == "there twice" else [False, True, False]
        for as_json in (False, True):
            with pytest.raises(typer.Exit):
                audit.show_records(path, as_json=as_json)
        out = capsys.readouterr().out
        shown = json.loads(out[out.index("[\n") :])
        if look != wanted or [call.get("altered", False) for call in shown] != wanted:
            wrong[name] = look, shown
        if out.count("changed (says") != wanted.count(True):
            wrong[name] = out
    assert wrong == {}


def test_any_page_is_made_by_itself_and_before_the_records_are_verified(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_page, "_LINES", 3)
    path = tmp_path / "j.jsonl"
    write_run(path, 8)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], *lines[4:]]))  # call 3, at the end of the first page's calls
    pages = RunPages(path, "r.html")
    assert len(pages) == 3
    second = RunPage(pages.page(2, None, is_served=True))
    assert [step.get("number", step["name"]) for step in second.steps] == ["Missing", "4", "5", "6"]
    assert "still being looked at" in second.html
    assert "connect-src" in second.text
    verified = verify_file(path)
    assert "still being looked at" in pages.top(None)
    assert "still being looked at" not in pages.top(verified)


def test_pages_of_a_table_are_no_longer_than_those_of_a_journal(tmp_path, monkeypatch):
    write_run(tmp_path / "j.jsonl", 8)
    journal_page_size = sum(len(page.text) for page in pages_of(tmp_path / "j.jsonl").values())
    write_calls(read_calls(tmp_path / "j.jsonl"), tmp_path / "t.parquet")
    (page,) = pages_of(tmp_path / "t.parquet").values()
    assert len(page.text) < 2 * journal_page_size
    monkeypatch.setattr(journal_page, "_BYTES", 1)
    pages = pages_of(tmp_path / "t.parquet")
    assert [step["number"] for page in pages.values() for step in page.calls] == list(map(str, range(1, 9)))
    assert len(pages) == 8
