"""A journal in several files: one chain, one writer, and every file that is missing or exchanged is named."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from knime_mcp.audit.calls_table import is_journal
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.journal_reading import (
    JournalError,
    SentCall,
    journal_lines,
    journal_parts,
    part_file,
    read_journal,
)
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file
from knime_mcp.runs.replaying import read_recording
from tests.audit.calls import record
from tests.audit.signing import new_key
from tests.audit.test_tampering import outside_verdict
from tests.support import commands


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("KNIME_MCP_AUDIT_PART", "2KB")
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(tmp_path / "keys" / "keys.json"))


def write(path, run="a", calls=8, **options):
    with Journal(path, run=run, append=path.exists(), **options) as journal:
        for number in range(1, calls + 1):
            journal.sent(SentCall(key=f"{run}{number}", plan=f"p{number}", tool_name="pay"))
            journal.append(record(number, run=run, key=f"{run}{number}"))
    return path


def lines_of(path):
    return [line.entry() for line in journal_lines(path)]


def test_a_journal_goes_on_in_other_files_and_is_read_as_one(tmp_path):
    path = write(tmp_path / "r.jsonl")
    parts = journal_parts(path)
    assert list(parts) == list(range(1, len(parts) + 1))
    assert len(parts) > 3
    assert all(part.stat().st_size < 4_500 for part in parts.values())
    content = read_journal(path)
    assert [call.call for call in content.records] == list(range(1, 9))
    assert (content.outcome, content.unanswered) == ("complete", ())
    found = verify_file(path)
    assert (found.verdict, found.runs[0].count) == (Verdict.UNANCHORED, 8)
    assert verify_file(path, head=found.runs[0].anchor).intact
    assert f"The journal is in {len(parts)} files: r.jsonl has lines 1 to" in " ".join(found.notes)
    assert [call.record.call for call in read_recording(path).calls] == list(range(1, 9))


def test_the_files_one_behind_the_other_are_the_journal(tmp_path):
    """So somebody with nothing of ours can check it."""
    path = write(tmp_path / "r.jsonl", calls=3)
    assert len(journal_parts(path)) > 1
    head = verify_file(path).runs[0].anchor
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(b"".join(part.read_bytes() for part in journal_parts(path).values()))
    assert verify_file(whole, head=head).intact
    assert outside_verdict(whole, head) == "unchanged"


@pytest.mark.parametrize("size", ["1", "600B", "2 kb", "1MB", "never"])
def test_signatures_hold_wherever_a_file_ends(size, tmp_path, monkeypatch):
    monkeypatch.setenv("KNIME_MCP_AUDIT_PART", size)
    monkeypatch.setattr("knime_mcp.audit.journal._CALLS_PER_CHECKPOINT", 2)
    new_key(tmp_path / "keys" / "keys.json")
    path = write(tmp_path / "r.jsonl")
    write(path, "b", follows="")
    assert verify_file(path).intact
    assert (len(journal_parts(path)) > 1) == (size not in {"1MB", "never"})


@pytest.mark.parametrize("size", ["", "0", "many", "-1MB", "1.5GB"])
def test_a_size_that_is_none_is_refused(size, tmp_path, monkeypatch):
    monkeypatch.setenv("KNIME_MCP_AUDIT_PART", size)
    with pytest.raises(JournalError, match="write a size such as 200MB, or never"):
        Journal(tmp_path / "r.jsonl", run="a")
    assert not (tmp_path / "r.jsonl").exists()


def exchanged(one, other):
    def tamper(path):
        first, second = part_file(path, one), part_file(path, other)
        first.rename(path.with_suffix(".x"))
        second.rename(first)
        path.with_suffix(".x").rename(second)

    return tamper


def edited(number, change):
    def tamper(path):
        part = part_file(path, number)
        lines = part.read_bytes().splitlines(keepends=True)
        part.write_bytes(b"".join(change(lines)))

    return tamper


TAMPERED = {
    "a file in the middle removed": (lambda path: part_file(path, 3).unlink(), "r.jsonl.3, which r.jsonl.4"),
    "two files removed": (
        lambda path: [part_file(path, number).unlink() for number in (2, 3)],
        "r.jsonl.2, r.jsonl.3, which r.jsonl.4 goes on from, is missing",
    ),
    "a file emptied": (lambda path: part_file(path, 2).write_bytes(b""), "r.jsonl.2, which r.jsonl.3"),
    "files exchanged": (exchanged(2, 3), "r.jsonl.2 is file 3 of a journal"),
    "the first file exchanged": (exchanged(1, 2), "r.jsonl.2 is not what followed r.jsonl."),
    "a file there twice": (
        lambda path: part_file(path, 3).write_bytes(part_file(path, 2).read_bytes()),
        "r.jsonl.3 is file 2 of a journal",
    ),
    "a file renamed behind the last": (
        lambda path: part_file(path, 2).rename(part_file(path, 99)),
        "r.jsonl.99 goes on from",
    ),
    "a strange file behind the last": (
        lambda path: part_file(path, len(journal_parts(path)) + 1).write_bytes(b'{"kind":"part"}\n'),
        "is not what followed",
    ),
    "first line of a file removed": (edited(2, lambda lines: lines[1:]), "r.jsonl.2 is not what followed"),
    "last line of a file removed": (edited(2, lambda lines: lines[:-1]), "r.jsonl.3 is not what followed"),
    "last call of a file removed": (
        edited(2, lambda lines: [*lines[:-2], lines[-1]]),
        "changed, or not what",
    ),
    "first call of a file removed": (edited(2, lambda lines: [lines[0], *lines[2:]]), "changed, or not what"),
    "number of a file edited": (
        edited(2, lambda lines: [lines[0].replace(b'"number":2', b'"number":3'), *lines[1:]]),
        "r.jsonl.2 is file 3",
    ),
    "a result in a later file": (
        edited(3, lambda lines: [re.sub(rb'"attempts":1', b'"attempts":2', line) for line in lines]),
        "not what was written",
    ),
    "lines moved to the next file": (
        lambda path: (
            part_file(path, 3).write_bytes(part_file(path, 2).read_bytes() + part_file(path, 3).read_bytes()),
            part_file(path, 2).unlink(),
        ),
        "r.jsonl.2, which r.jsonl.3",
    ),
    "half of a line at the end of a file": (
        edited(2, lambda lines: [*lines[:-1], lines[-1][:30]]),
        "incomplete",
    ),
}


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", TAMPERED)
def test_what_is_done_to_a_file_is_named(name, signed, tmp_path):
    if signed:
        new_key(tmp_path / "keys" / "keys.json")
    path = write(tmp_path / "r.jsonl")
    tamper, why = TAMPERED[name]
    tamper(path)
    found = verify_file(path)
    assert found.verdict is Verdict.ALTERED
    assert why in " ".join(finding.text for finding in found.findings)


def test_a_last_file_that_is_missing_is_named_also_if_it_had_whole_runs(tmp_path, monkeypatch):
    path = write(tmp_path / "r.jsonl", calls=2)
    before = len(journal_parts(path))
    monkeypatch.setenv("KNIME_MCP_AUDIT_PART", "1")
    write(path, "b", 1)
    for number in range(before + 1, len(journal_parts(path)) + 1):
        part_file(path, number).unlink()
    found = verify_file(path)
    assert found.verdict is Verdict.TRUNCATED
    assert f"goes on in r.jsonl.{before + 1}, which is missing" in " ".join(f.text for f in found.findings)


def killed_at(path, cut):
    """The journal as a process leaves it that is killed while it goes on in another file."""
    last = len(journal_parts(path))
    journal = Journal(path, run="k", append=True)
    journal._most = 1
    journal._begin_part()
    new = part_file(path, last + 1)
    line = b'{"kind":"part","number":%d,"chain":"%b"}\n' % (last + 1, b"0" * 64)
    match cut:
        case "before the new file":
            lines = part_file(path, last).read_bytes().splitlines(keepends=True)
            part_file(path, last).write_bytes(b"".join(lines[:-1]))
            new.unlink()
        case "before the old file says so":
            lines = part_file(path, last).read_bytes().splitlines(keepends=True)
            part_file(path, last).write_bytes(b"".join(lines[:-1]))
        case "while the old file says so":
            part_file(path, last).write_bytes(part_file(path, last).read_bytes()[:-30])
        case "before the first line":
            pass
        case "in the first line":
            new.write_bytes(line[:25])
        case "the new file lost":
            new.unlink()
    journal._close_files()


CUTS = [
    "before the new file",
    "before the old file says so",
    "while the old file says so",
    "before the first line",
    "in the first line",
    "the new file lost",
]


@pytest.mark.parametrize("cut", CUTS)
def test_killed_in_the_middle_of_going_on_loses_nothing(cut, tmp_path):
    path = write(tmp_path / "r.jsonl", calls=3)
    killed_at(path, cut)
    found = verify_file(path)
    assert found.verdict is Verdict.TRUNCATED, found.findings
    content = read_journal(path)
    assert (content.run, content.outcome, len(content.records)) == ("k", None, 3)
    write(path, "next", 5, after=content.chain)
    content = read_journal(path)
    assert [call.run for call in content.records] == ["a"] * 3 + ["next"] * 5
    found = verify_file(path)
    assert found.verdict is Verdict.TRUNCATED
    assert {finding.run for finding in found.findings if finding.run} == {"k"}
    assert list(journal_parts(path)) == list(range(1, len(journal_parts(path)) + 1))


def test_killed_at_any_moment_every_line_that_was_written_is_read(tmp_path):
    """A process that goes on in another file with each line is killed, again and again, at one journal."""
    path = tmp_path / "r.jsonl"
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from knime_mcp.audit.journal import Journal, new_run_id\n"
        "journal = Journal(Path(sys.argv[1]), run=new_run_id(), append=True)\n"
        "for number in range(100_000):\n"
        "    journal.note('prompt', {'row': f'Row{number}', 'text': 'x' * 50, 'history': None})\n"
        "    print(number, flush=True)\n"
    )
    told = 0
    for turn in range(5):
        command = [sys.executable, "-c", program, str(path)]
        environment = os.environ | {"KNIME_MCP_AUDIT_PART": "300"}
        with commands.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            for _ in range(20 + 13 * turn):
                assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            told += 20 + 13 * turn
    kinds = [json.loads(line.data)["kind"] for line in journal_lines(path) if not line.torn]
    assert kinds.count("prompt") >= told
    assert kinds.count("start") == 5
    found = verify_file(path)
    assert found.verdict is Verdict.TRUNCATED, found.findings
    assert read_journal(path).outcome is None


def test_one_lock_for_all_files(tmp_path):
    path = tmp_path / "r.jsonl"
    journal = Journal(path, run="a")
    for number in range(1, 9):
        journal.append(record(number, run="a"))
    assert len(journal_parts(path)) > 2
    with pytest.raises(JournalError, match="being written by another run"):
        Journal(path, run="b", append=True, after=read_journal(path).chain)
    journal.close()
    assert verify_file(path).consistent


def test_no_call_is_lost_where_no_other_file_can_be_begun(tmp_path, caplog):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="a") as journal:
        part_file(path, 2).mkdir()
        for number in range(1, 9):
            journal.append(record(number, run="a"))
    part_file(path, 2).rmdir()
    assert "r.jsonl goes on in one file" in caplog.text
    assert verify_file(path).consistent
    assert len(read_journal(path).records) == 8


def test_files_of_an_earlier_journal_are_not_gone_on_with(tmp_path):
    path = write(tmp_path / "r.jsonl")
    path.unlink()
    with pytest.raises(FileExistsError, match="belongs to an earlier journal"):
        Journal(path, run="b")


def test_a_later_file_alone_is_not_taken_for_a_journal(tmp_path):
    path = write(tmp_path / "r.jsonl")
    with pytest.raises(JournalError, match=r"r\.jsonl\.2 is a part of the journal r\.jsonl: name that file"):
        is_journal(part_file(path, 2))


def test_a_file_that_is_deleted_ends_the_run(tmp_path):
    path = tmp_path / "r.jsonl"
    for number in (1, 2):
        journal = Journal(path, run="a", append=path.exists())
        for call in range(1, 5):
            journal.append(record(call))
        part_file(path, number).unlink()
        with pytest.raises(OSError, match="deleted or renamed while it was written"):
            journal.append(record(5))
        journal._close_files()
        for part in tmp_path.glob("r.jsonl*"):
            part.unlink()
