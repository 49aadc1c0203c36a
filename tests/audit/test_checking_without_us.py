"""The scripts of docs/audit.md, which need nothing of ours, on journals that somebody changed."""

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
            for number in (1, 2, 3):
                written.sent(SentCall(key=f"k{number}", plan="p", tool_name="pay"))
                written.append(record(number, run=run, key=f"k{number}"))
    return path


def says(script, path):
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True)
    return [line.partition(" ")[2] for line in done.stdout.splitlines()]


def test_what_nobody_changed_is_as_it_was_written(journal):
    assert set(says(LINES, journal)) == set(says(CALLS, journal)) == {"as it was written"}
    assert (len(says(LINES, journal)), len(says(CALLS, journal))) == (16, 6)


@pytest.mark.parametrize("number", range(15))
def test_a_line_that_was_removed_shows(journal, number):
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
    assert says(LINES, journal)[number].startswith("altered")


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"outcome":"complete"', b'"outcome":"failed"'), (b'"about":""', b'"about":"x"'), (b'"pay"', b'"get"')],
)
def test_what_is_not_in_the_calls_shows_too(journal, old, new):
    journal.write_bytes(journal.read_bytes().replace(old, new, 1))
    assert any(text.startswith("altered") for text in says(LINES, journal))


def test_a_changed_result_shows_in_both(journal):
    journal.write_bytes(journal.read_bytes().replace(b"Row2", b"Row9", 1))
    assert "altered" in says(CALLS, journal)
    assert any(text.startswith("altered") for text in says(LINES, journal))
