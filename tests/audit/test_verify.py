"""Verifying journals after everything that can happen to them."""

import dataclasses
import random
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from itertools import chain

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knime_mcp.audit.journal import Journal, SentCall, held
from knime_mcp.audit.journal_lines import JournalError
from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.audit.record import CallRecord, CallStatus, chained, line_chain
from knime_mcp.audit.verdicts import Finding, Verdict
from knime_mcp.audit.verify import verify_file
from knime_mcp.types.texts import canonical_json
from tests.audit.calls import record, write_run
from tests.support import commands
from tests.support.files import json_lines


def numbers(finding):
    return list(chain.from_iterable(finding.calls))


def put(path, lines):
    """Writes the lines with a chain that holds, so that only what stands in them can be wrong."""
    chain, written = "", []
    for line in lines:
        text = canonical_json({name: value for name, value in line.items() if name != "chain"}).encode()[:-1]
        chain = line_chain(chain, text)
        written.append(b'%b,"chain":"%b"}\n' % (text, chain.encode()))
    path.write_bytes(b"".join(written))


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "r1.jsonl"
    write_run(path)
    return path


def test_an_intact_journal(journal):
    found = verify_file(journal)
    assert (found.verdict, found.consistent, found.findings) == (Verdict.UNANCHORED, True, ())
    (run,) = found.runs
    assert (run.run, run.count, run.outcome) == ("r1", 8, "complete")
    assert run.head == read_journal(journal).head == json_lines(journal)[-1]["head"]
    assert verify_file(journal, head=run.head).consistent
    assert verify_file(journal, head=run.head.removeprefix("sha256:").upper()).consistent


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("arguments", '{"a":9}'),
        ("result", "better"),
        ("error", "none"),
        ("status", "ok"),
        ("status", "splendid"),
        ("started_at", "2026-01-31T12:00:03.000001Z"),
        ("duration", 0.5),
        ("attempts", 3),
        ("server", "https://other.example/mcp"),
        ("tool_name", "other"),
        ("tool", "{}"),
        ("digest", None),
        ("input_row", "Row9"),
        ("iteration", 1),
        ("hash", "sha256:00"),
        ("previous_hash", "sha256:00"),
        ("run", "r2"),
        ("call", None),
        ("call", "three"),
        ("call", 900_000_000),
    ],
)
def test_a_tampered_line_is_named(journal, key, value):
    lines = json_lines(journal)
    lines[3][key] = value
    put(journal, lines)
    found = verify_file(journal)
    assert found.verdict is Verdict.ALTERED
    assert any("line 4" in finding.text.lower() for finding in found.findings)


def test_an_altered_record_with_a_new_hash_still_breaks_the_chain(journal):
    written = list(read_journal(journal).records)
    lines = json_lines(journal)
    forged = chained(record(3, status=CallStatus.OK), written[1].hash, call=3)
    lines[3] = {"kind": "call", **forged.to_json()}
    put(journal, lines)
    found = verify_file(journal)
    assert found.verdict is Verdict.ALTERED
    assert [numbers(finding) for finding in found.findings] == [[4]]


def test_a_last_record_with_a_new_hash_is_not_the_one_in_the_closing_record(journal):
    written = list(read_journal(journal).records)
    lines = json_lines(journal)
    forged = chained(record(8, result="forged"), written[6].hash, call=8)
    lines[8] = {"kind": "call", **forged.to_json()}
    put(journal, lines)
    assert [numbers(finding) for finding in verify_file(journal).findings] == [[8]]


def test_a_chain_made_anew_shows_only_against_a_head_kept_elsewhere(journal, tmp_path):
    head = read_journal(journal).head
    forged = tmp_path / "forged.jsonl"
    with Journal(forged, run="r1") as made:
        for number in range(1, 9):
            made.append(record(number, result="forged"))
    assert verify_file(forged).consistent
    assert verify_file(forged, head=head).verdict is Verdict.TRUNCATED


def test_the_order_of_lines_does_not_matter(journal):
    lines = json_lines(journal)
    random.Random(1).shuffle(lines)
    put(journal, lines)
    assert verify_file(journal).consistent


def test_swapping_two_calls_by_their_numbers(journal):
    lines = json_lines(journal)
    lines[3]["call"], lines[4]["call"] = 4, 3
    put(journal, lines)
    found = verify_file(journal)
    assert found.verdict is Verdict.ALTERED
    assert numbers(found.findings[0]) == [3, 4]


@pytest.mark.parametrize(("gone", "missing"), [([3], [3]), ([1, 2, 5], [1, 2, 5])])
def test_filtered_lines_are_named(journal, gone, missing):
    lines = [line for line in json_lines(journal) if line.get("call") not in gone]
    put(journal, lines)
    found = verify_file(journal)
    assert found.verdict is Verdict.ROWS_MISSING
    assert numbers(found.findings[0]) == missing


@pytest.mark.parametrize("cut", [1, 2, 5, 8, 9])
def test_a_journal_whose_end_was_cut_off(journal, cut):
    lines = json_lines(journal)
    put(journal, lines[:-cut])
    found = verify_file(journal)
    assert found.verdict is Verdict.TRUNCATED
    assert "no closing record" in found.findings[0].text


def test_a_journal_that_lost_its_last_calls_but_not_its_closing_record(journal):
    lines = json_lines(journal)
    put(journal, [*lines[:-3], lines[-1]])
    found = verify_file(journal)
    assert found.verdict is Verdict.TRUNCATED
    assert numbers(found.findings[0]) == [7, 8]


def test_a_line_too_many(journal):
    lines = json_lines(journal)
    put(journal, [*lines, lines[4]])
    found = verify_file(journal)
    assert found.verdict is Verdict.ALTERED
    assert "more than once" in found.findings[0].text
    assert "line 11" in found.findings[0].text
    extra = chained(record(9), lines[8]["hash"], call=9).to_json()
    put(journal, [*lines, {"kind": "call", **extra}])
    assert "line 11" in verify_file(journal).findings[0].text


def test_a_closing_record_that_was_tampered_with(journal):
    lines = json_lines(journal)
    for change in ({"calls": 10**15}, {"calls": 3}, {"calls": "x"}, {"head": "sha256:1"}):
        put(journal, [*lines[:-1], {**lines[-1], **change}])
        assert not verify_file(journal).consistent


def told(path):
    """What the records say: an empty text and none are the same, because CSV cannot tell them apart."""
    records = [dataclasses.asdict(record) for record in read_journal(path).records]
    return [{key: value for key, value in record.items() if value not in ("", None)} for record in records]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_changed_byte_stays_hidden(journal, tmp_path, data):
    """Whatever byte of a call's line is replaced: the records say the same, or it is found."""
    whole = journal.read_bytes()
    start, end = whole.index(b"\n") + 1, whole.rindex(b'{"at"')
    position = data.draw(st.integers(start, end - 1))
    byte = data.draw(st.integers(0, 255))
    path = tmp_path / "changed.jsonl"
    path.write_bytes(whole[:position] + bytes([byte]) + whole[position + 1 :])
    if verify_file(path).consistent:
        assert told(path) == told(journal)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(2, 3000))  # the last line break alone is no loss
def test_a_journal_cut_anywhere_is_truncated(journal, tmp_path, cut):
    path = tmp_path / "cut.jsonl"
    path.write_bytes(journal.read_bytes()[:-cut])
    assert verify_file(path).verdict is Verdict.TRUNCATED


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        *((text, Verdict.NO_JOURNAL) for text in (b"hello", b"hello\n", b"[]\n", b'{"a": 1}', b'{"a": 1}\n')),
        *((text, Verdict.NO_JOURNAL) for text in (b'{"kind":"call"}\n', b"\xff\n", b"a\n" * 1000)),
        *((text, Verdict.TRUNCATED) for text in (b"", b"\n", b'{"about"', b'{"about":{"x":1}')),
    ],
)
def test_what_is_no_journal_is_said_to_be_none(tmp_path, content, verdict):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    assert verify_file(path).verdict is verdict


def test_a_run_without_calls(tmp_path):
    path = tmp_path / "r.jsonl"
    _, head = write_run(path, count=0)
    found = verify_file(path)
    assert (found.verdict, head) == (Verdict.UNANCHORED, "")


def test_killed_in_the_middle_every_finished_call_verifies(tmp_path):
    path = tmp_path / "r1.jsonl"
    script = (
        "import sys\nfrom concurrent.futures import ThreadPoolExecutor\nfrom pathlib import Path\n"
        "from knime_mcp.audit.journal import Journal\n"
        "from tests.audit.calls import record\n"
        "journal = Journal(Path(sys.argv[1]), run='r1')\n"
        "def work(n):\n"
        "    print(journal.append(record(n, result='x' * 3000)).call, flush=True)\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    list(pool.map(work, range(1, 1_000_000)))\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    with commands.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(60, process.kill)
        timer.start()
        try:
            told = 0
            for told, _line in enumerate(process.stdout, start=1):
                if told == 200:
                    process.send_signal(signal.SIGKILL)
            process.wait(30)
        finally:
            timer.cancel()
            process.kill()
    content = read_journal(path)
    assert len(content.records) >= told >= 200
    found = verify_file(path)
    assert found.verdict is Verdict.TRUNCATED
    assert {finding.verdict for finding in found.findings} == {Verdict.TRUNCATED}
    assert found.runs[0].count == len(content.records)

    with Journal(path, run="r2", append=True) as journal:
        first = journal.append(record(1, run="r2"))
    assert first.previous_hash == content.head
    after = verify_file(path)
    assert {finding.run for finding in after.findings} <= {"r1", ""}
    assert not [note for note in after.notes if "earlier run" in note]


def test_many_processes_write_into_one_file_one_after_the_other(tmp_path):
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from knime_mcp.audit.journal import Journal, new_run_id\n"
        "from tests.audit.calls import record\n"
        "run = new_run_id()\n"
        "with Journal(Path(sys.argv[1]), run=run, append=True) as journal:\n"
        "    for n in range(1, 101):\n"
        "        journal.append(record(n, run=run))\n"
    )
    path = tmp_path / "all.jsonl"
    command = [sys.executable, "-c", script, str(path)]
    with ExitStack() as stack:
        processes = [stack.enter_context(commands.Popen(command)) for _ in range(4)]
        assert [process.wait(60) for process in processes] == [0] * 4
    found = verify_file(path)
    assert found.verdict is Verdict.UNANCHORED
    assert [(run.count, run.outcome) for run in found.runs] == [(100, "complete")] * 4


def test_two_runs_cannot_go_on_from_the_same_one(tmp_path):
    path = tmp_path / "r.jsonl"
    write_run(path, 3)
    read = read_journal(path)
    busy = "is being written by another run: wait for its end, or stop it"
    with (
        Journal(path, run="r2", append=True, follows=read.head, after=read.chain),
        pytest.raises(JournalError, match=busy),
    ):
        Journal(path, run="r3", append=True, follows=read.head, after=read.chain)
    with pytest.raises(JournalError, match="was written by another run meanwhile; resume again"):
        Journal(path, run="r4", append=True, follows=read.head, after=read.chain)
    assert verify_file(path).consistent


def test_who_only_looks_whether_a_run_goes_on_keeps_nobody_from_resuming_it(tmp_path):
    path = tmp_path / "r.jsonl"
    write_run(path, 3)
    for resumed in (
        lambda: held(path),
        lambda: Journal(path, run="r2", append=True, after=read_journal(path).chain),
    ):
        with ExitStack() as look:
            look.enter_context(held(path))
            threading.Timer(0.1, look.close).start()
            with resumed():
                pass


def test_the_lock_ends_with_its_process(tmp_path):
    path = tmp_path / "r.jsonl"
    script = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from knime_mcp.audit.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]), run='killed')\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    with commands.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(JournalError, match="being written"):
            Journal(path, run="r2", append=True, after=read_journal(path).chain)
        process.kill()
    with Journal(path, run="r2", append=True, after=read_journal(path).chain) as journal:
        journal.append(record(1, run="r2"))
    assert [run.count for run in verify_file(path).runs] == [0, 1]


def spoil(number, change):
    """Changes one line of a file and nothing else."""

    def work(path):
        lines = path.read_bytes().splitlines(keepends=True)
        lines[number] = change(lines[number])
        path.write_bytes(b"".join(lines))

    return work


def rearranged(*numbers):
    def work(path):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[number] for number in numbers))

    return work


@pytest.mark.parametrize(
    "tamper",
    [
        spoil(0, lambda line: line.replace(b'"about":""', b'"about":"x"')),
        spoil(0, lambda line: line.replace(b'"calls":null', b'"calls":9')),
        spoil(1, lambda line: line.replace(b'"kind":"sent"', b'"kind":"sent","by":"me"')),
        spoil(1, lambda line: line.replace(b'"key":"k1"', b'"key":"k2"')),
        spoil(2, lambda line: line.replace(b"{", b'{"files":["other.png"],', 1)),
        spoil(3, lambda line: line.replace(b'"complete"', b'"canceled"')),
        spoil(7, lambda line: line.replace(b'"complete"', b'"failed"')),
        rearranged(0, 2, 3, 4, 5, 6, 7),  # without what was sent
        rearranged(4, 5, 6, 7),  # without the first run
        rearranged(0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7),
        rearranged(4, 5, 6, 7, 0, 1, 2, 3),
    ],
)
def test_no_line_is_changed_removed_or_moved_unseen(tmp_path, tamper):
    path = tmp_path / "r.jsonl"
    for run in ("a", "b"):
        with Journal(path, run=run, append=True) as journal:
            journal.sent(SentCall(key="k1", plan="p1", tool_name="pay", input_row="Row1"))
            journal.append(record(1, run=run))
    assert verify_file(path).consistent
    before = path.read_bytes()
    tamper(path)
    assert path.read_bytes() != before
    assert verify_file(path).verdict is Verdict.ALTERED


def test_a_journal_that_was_appended_to_itself(tmp_path):
    path = tmp_path / "r.jsonl"
    write_run(path, 2)
    path.write_bytes(2 * path.read_bytes())
    texts = [finding.text for finding in verify_file(path).findings]
    assert "more than once" in texts[0]
    assert texts[1] == "Line 8: closes a run that was closed already."


def test_two_runs_in_one_file(tmp_path):
    path = tmp_path / "both.jsonl"
    first, _ = write_run(path, 3, run="r1", outcome="canceled")
    second, _ = write_run(path, 4, run="r2", append=True)
    assert second[0].previous_hash == first[-1].hash
    found = verify_file(path)
    assert found.consistent
    assert [(run.run, run.count, run.outcome) for run in found.runs] == [
        ("r1", 3, "canceled"),
        ("r2", 4, "complete"),
    ]
    assert not [note for note in found.notes if "goes on from an earlier run" in note]
    for run in found.runs:
        assert verify_file(path, head=run.anchor).consistent
    first, last = found.runs
    assert verify_file(path, head=last.anchor).intact
    covered = verify_file(path, head=first.anchor)
    assert covered.verdict is Verdict.UNANCHORED
    assert [(cover.lines, bool(cover.by)) for cover in covered.coverage] == [
        ("1 to 5", True),
        ("6 to 11", False),
    ]


def test_a_resumed_run_stands_alone_and_says_where_it_comes_from(tmp_path):
    _, head = write_run(tmp_path / "a.jsonl", 3, run="r1", outcome=None)
    write_run(tmp_path / "b.jsonl", 3, run="r2", follows=head)
    found = verify_file(tmp_path / "b.jsonl")
    assert found.consistent
    assert "goes on from an earlier run" in found.notes[0]


def test_a_list_of_files_that_nobody_can_read_is_found(tmp_path):
    with Journal(tmp_path / "r.jsonl", run="r") as journal:
        journal.append(CallRecord(run="r", status=CallStatus.OK, content="[" * 100_000, files=("a.png",)))
    (found,) = verify_file(tmp_path / "r.jsonl").findings
    assert found == Finding(Verdict.ALTERED, "Line 2: its list of files is not that of its result.")
