"""The scripts of docs/audit.md, which need nothing of ours; for what they find see test_tampering.py, too."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from knime_mcp.audit.journal import Journal, SentCall
from tests.audit.calls import record

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
LINES, CALLS = re.findall(
    r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8").partition("## Checking")[2], re.DOTALL
)


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "r.jsonl"
    for run in ("a", "b"):
        with Journal(path, run=run, append=True) as written:
            for number in (1, 2, 3, 4):  # the last one is of a workflow with tables in its file store
                written.sent(SentCall(key=f"k{number}", plan="p", tool_name="pay"))
                written.append(record(number, run=run, key=f"k{number}"))
    return path


def says(script, path):
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True)
    return [line.partition(" ")[2] for line in done.stdout.splitlines()]


def test_what_nobody_changed_is_as_it_was_written(journal):
    assert says(CALLS, journal) == ["as it was written"] * 8


def test_a_journal_with_calls_of_workflows_is_consistent(journal):
    command = [sys.executable, "-c", LINES, str(journal)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert done.stdout.splitlines() == ["consistent, but not anchored"]


def test_a_changed_result_shows(journal):
    journal.write_bytes(journal.read_bytes().replace(b"Row2", b"Row9", 1))
    assert "altered" in says(CALLS, journal)
