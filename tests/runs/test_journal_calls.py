"""Calls of a journal, read one by one for a replay."""

import tracemalloc

import pytest

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.journal_reading import JournalError
from knime_mcp.runs.replaying import read_recording
from tests.audit.calls import record, write_run

pytestmark = pytest.mark.quick


def test_calls_come_in_recorded_order_with_their_place_in_the_file(tmp_path):
    file = tmp_path / "run.jsonl"
    for run, numbers in (("r2", (1, 3)), ("r1", (2, 4))):
        with Journal(file, run=run, append=True) as journal:
            for number in numbers:
                journal.append(record(number, run=run))
    calls = read_recording(file).calls
    assert [(call.record.input_row, call.place) for call in calls] == [
        *(("Row2", 3), ("Row4", 4)),
        *(("Row1", 1), ("Row3", 2)),
    ]
    assert len(calls) == len(list(calls)) == 4, "they can be gone through again"
    assert next(iter(calls)) in calls


def test_what_is_in_memory_does_not_grow_with_what_tools_gave(tmp_path):
    def peak(size):
        file = tmp_path / "run.jsonl"
        file.unlink(missing_ok=True)
        with Journal(file, run="r1") as journal:
            for number in range(200):
                journal.append(record(1, result=f"{number} {'x' * size}"))
        tracemalloc.start()
        try:
            assert sum(len(call.record.result) for call in read_recording(file).calls) > 200 * size
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)  # what is loaded once
    assert peak(50_000) - peak(1) < 20 * 50_000


def test_a_journal_that_is_changed_meanwhile(tmp_path):
    file = tmp_path / "run.jsonl"
    write_run(file)
    calls = iter(read_recording(file).calls)
    next(calls)
    file.write_text("something else\n" * 1000, encoding="utf-8")
    with pytest.raises(JournalError, match=r"run\.jsonl was changed while it was read"):
        list(calls)
