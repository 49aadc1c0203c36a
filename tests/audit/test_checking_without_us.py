"""The program of docs/audit.md, which needs nothing of ours; for what it finds see test_tampering.py, too."""

import pytest

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.journal_reading import SentCall
from tests.audit.calls import record
from tests.audit.outside import says


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "r.jsonl"
    for run in ("a", "b"):
        with Journal(path, run=run, append=True) as written:
            for number in (1, 2, 3, 4):  # the last one is of a workflow with tables in its file store
                written.sent(SentCall(key=f"k{number}", plan="p", tool_name="pay"))
                written.append(record(number, run=run, key=f"k{number}"))
    return path


def test_a_journal_with_calls_of_workflows_is_consistent(journal):
    assert says(journal) == ["complete in itself, but nobody vouches for it"]


def test_a_changed_result_shows(journal):
    journal.write_bytes(journal.read_bytes().replace(b"Row2", b"Row9", 1))
    found = says(journal)
    assert (found[-1], any("of run a" in line for line in found)) == ("changed", True)
