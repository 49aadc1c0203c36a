"""The pages of ``audit show --html``, as many as the calls need."""

import re

from knime_mcp.audit.verify import verify_file
from knime_mcp.cli import audit_page
from tests.audit.calls import write_run


def test_every_call_is_on_a_page_and_pages_lead_to_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_page, "_MOST_CALLS", 3)
    records, _ = write_run(tmp_path / "r.jsonl", 8)
    found = verify_file(tmp_path / "r.jsonl")
    pages = dict(audit_page.audit_pages(tmp_path / "r.html", "r.jsonl", records, found))
    assert [file.name for file in pages] == ["r.html", "r-2.html", "r-3.html"]
    assert [re.findall(r'href="([^"]+)"', page) for page in pages.values()] == [
        ["r-2.html", "r-3.html"],
        ["r.html", "r-3.html"],
        ["r.html", "r-2.html"],
    ]
    assert [page.count("Previous hash") for page in pages.values()] == [2, 3, 2]  # the first call has none
    (page,) = dict(audit_page.audit_pages(tmp_path / "r.html", "r", records[:3], found)).values()
    assert "href" not in page
