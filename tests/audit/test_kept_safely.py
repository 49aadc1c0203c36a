"""Disks that are full, and when lines are forced to the disk."""

import os
import resource

import pyarrow.parquet as pq
import pytest

from knime_mcp.audit.calls_table import journal_calls, read_calls, write_calls
from knime_mcp.audit.journal import Journal, JournalWriteError
from knime_mcp.audit.journal_reading import JournalError
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file
from tests.audit.calls import record, write_run

pytestmark = pytest.mark.quick


def test_calls_that_could_not_be_written_are_named_and_the_run_has_no_end(tmp_path):
    path = tmp_path / "r.jsonl"
    journal = Journal(path, run="r1")
    journal.append(record(1))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 500, hard))
    try:
        for number in (2, 3):
            with pytest.raises(JournalWriteError):
                journal.append(record(number))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    with pytest.raises(
        JournalWriteError,
        match=r"too large; calls that ended are in no record.*search \(row Row2\), search \(row Row3\)",
    ):
        journal.close()
    assert verify_file(path).verdict is Verdict.TRUNCATED


@pytest.mark.parametrize(("choice", "least", "most"), [("never", 0, 0), ("second", 2, 6), ("call", 6, 6)])
def test_lines_are_forced_to_the_disk_as_chosen(choice, least, most, tmp_path, monkeypatch):
    forced = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: forced.append(number) or sync(number))
    monkeypatch.setenv("KNIME_MCP_AUDIT_FSYNC", choice)
    write_run(tmp_path / "r.jsonl", 4)
    assert least <= len(forced) <= most  # a second may pass between two lines on a busy machine


def test_a_wrong_choice_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("KNIME_MCP_AUDIT_FSYNC", "often")
    with pytest.raises(JournalError, match="is 'often'; it can be never, second, call"):
        Journal(tmp_path / "r.jsonl", run="r")


@pytest.mark.parametrize("count", [0, 5])
def test_a_table_in_pieces_is_the_same_table(count, tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    write_run(path, count)
    write_calls(read_calls(path), tmp_path / "whole.parquet")
    monkeypatch.setattr("knime_mcp.audit.calls_table._PIECE", 2)
    assert write_calls(journal_calls(path), tmp_path / "pieces.parquet") == count
    assert pq.read_table(tmp_path / "pieces.parquet") == pq.read_table(tmp_path / "whole.parquet")
