"""The scripts of docs/audit.md, which need nothing of ours; for what they find see test_tampering.py, too."""

import pytest

from knime_mcp.audit.journal import Journal, SentCall
from tests.audit.calls import record
from tests.audit.outside import CALLS, LINES, says


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "r.jsonl"
    for run in ("a", "b"):
        with Journal(path, run=run, append=True) as written:
            for number in (1, 2, 3, 4):  # the last one is of a workflow with tables in its file store
                written.sent(SentCall(key=f"k{number}", plan="p", tool_name="pay"))
                written.append(record(number, run=run, key=f"k{number}"))
    return path


def of_calls(path):
    return [line.partition(" ")[2] for line in says(CALLS, path)]


def test_what_nobody_changed_is_as_it_was_written(journal):
    assert of_calls(journal) == ["as it was written"] * 8


def test_a_journal_with_calls_of_workflows_is_consistent(journal):
    assert says(LINES, journal) == ["complete in itself, but nobody vouches for it"]


def test_a_changed_result_shows(journal):
    journal.write_bytes(journal.read_bytes().replace(b"Row2", b"Row9", 1))
    assert "changed" in of_calls(journal)
