"""The pages of ``audit show --html``, as many as the calls need."""

import base64
import re
from functools import partial
from pathlib import Path

from knime_mcp.audit.calls_table import journal_calls
from knime_mcp.audit.verify import verify_file
from knime_mcp.audit.verify_journal import saved_file
from knime_mcp.cli import audit_page
from tests.audit.calls import write_run
from tests.audit.signing import PICTURE, write_journal


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
