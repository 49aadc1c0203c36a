"""The journal: written line by line, tolerates a torn last line, finds the run to resume."""

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.audit.calls_table import TableError, read_calls
from knime_mcp.audit.journal import Journal, JournalWriteError, SentCall, new_run_id
from knime_mcp.audit.journal_lines import JournalError
from knime_mcp.audit.journal_reading import latest, read_journal
from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file
from tests.support.files import json_lines


def record(row="Row0", run="r", **more):
    return CallRecord(run=run, input_row=row, status=more.pop("status", CallStatus.OK), **more)


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "deep" / "r.jsonl"
    with Journal(path, run="r", about="x", calls=2) as journal:
        written = [journal.append(record("a", result="ü\nzeile")), journal.append(record("b"))]
    content = read_journal(path)
    assert content.records == tuple(written)
    assert [found.call for found in content.records] == [1, 2]
    assert (content.run, content.about, content.outcome, content.torn) == ("r", "x", "complete", False)
    assert json_lines(path)[-1]["calls"] == 2


def test_arguments_that_read_like_a_line_are_no_call(tmp_path):
    path = tmp_path / "r.jsonl"
    like_a_call = {"calls": [{"name": "x", "arguments": {"kind": "call", "hash": "00"}}]}
    with Journal(path, run="r") as journal:
        called = journal.append(record("a"))
        journal.note("turn", like_a_call)
    with Journal(path, run="s", append=True) as journal:
        assert journal.head == called.hash
        journal.note("turn", like_a_call)
    assert verify_file(path).verdict is Verdict.UNANCHORED


def test_the_name_of_the_file_may_be_a_text(tmp_path):
    with Journal(str(tmp_path / "r.jsonl"), run="r") as journal:
        journal.append(record("a"))
    assert read_journal(tmp_path / "r.jsonl").records[0].input_row == "a"


def test_every_finished_call_is_in_the_file_at_once(tmp_path):
    path = tmp_path / "r.jsonl"
    journal = Journal(path, run="r")
    for number in range(5):
        journal.append(record(str(number)))
        assert len(read_journal(path).records) == number + 1
    assert read_journal(path).outcome is None
    journal.close("canceled")
    journal.close("complete")
    assert read_journal(path).outcome == "canceled"


@given(st.integers(1, 400))
def test_a_torn_last_line_is_ignored(cut):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        journal = Journal(path, run="r")
        for number in range(4):
            journal.append(record(str(number), result="ü" * 20))
        whole = path.read_bytes()
        journal.close()
        path.write_bytes(whole[: max(len(whole) - cut, whole.index(b"\n") + 1)])
        content = read_journal(path)
        rows = [found.input_row for found in content.records]
        assert rows == [str(number) for number in range(len(rows))]
        assert content.run == "r"


def test_a_broken_line_in_the_middle_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="r") as journal:
        journal.append(record())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{broken\n" + b"".join(lines[1:]))
    with pytest.raises(JournalError, match=r"r\.jsonl, line 2"):
        read_journal(path)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"run":"r"}'.encode("utf-16"), "not UTF-8"),
        (b'{"run":"r"}', "its kind is None"),
        (b'{"kind":"start","about":""}', "it has no 'run'"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path, line, why):
    path = tmp_path / "r.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(JournalError, match=f"line 1 is not a line of a journal: {why}"):
        read_journal(path)


def test_a_journal_that_an_editor_gave_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="r") as journal:
        journal.append(record())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_journal(path).records) == 1


@pytest.mark.parametrize("torn", [b'{"kind":"call","ru', b'{"kind":"call","tool":"{\\"a\\":{}'])
def test_a_run_after_a_torn_line_begins_a_line_of_its_own(tmp_path, torn):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="r") as journal:
        journal.append(record("a"))
    before = path.read_bytes() + torn
    path.write_bytes(before)
    with Journal(path, run="two", append=True) as journal:
        journal.append(record("b", run="two"))
    assert path.read_bytes().startswith(before)
    content = read_journal(path)
    assert [found.input_row for found in content.records] == ["a", "b"]
    assert (content.run, content.outcome) == ("two", "complete")
    found = verify_file(path)
    assert [finding.text for finding in found.findings] == ["Line 4: incomplete, and not read."]
    assert found.verdict is Verdict.TRUNCATED


def test_what_was_sent_and_did_not_end_is_named(tmp_path):
    path = tmp_path / "r.jsonl"
    first, second = (
        SentCall(key=f"k{n}", plan=f"p{n}", tool_name="pay", input_row=f"Row{n}") for n in (1, 2)
    )
    with Journal(path, run="r") as journal:
        journal.sent(first)
        journal.sent(second)
        journal.append(record("a", key="k1"))
    assert read_journal(path).unanswered == (second,)


def test_a_last_line_without_its_line_break_stays_in_the_chain(tmp_path):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="r") as journal:
        journal.append(record("a"))
    lines = path.read_bytes().splitlines(keepends=True)[:2]  # killed before the end
    path.write_bytes(b"".join(lines)[:-1])
    with Journal(path, run="two", append=True) as other:
        other.append(record("b", run="two"))
    assert [found.input_row for found in read_journal(path).records] == ["a", "b"]
    assert not [finding for finding in verify_file(path).findings if finding.verdict is Verdict.ALTERED]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_a_device_is_no_file(tmp_path, name, ending):
    path = tmp_path / f"r.{ending}"
    if name == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(name)
    for read in (read_calls, verify_file):
        with pytest.raises((JournalError, TableError), match=rf"r\.{ending} is a device or a pipe"):
            read(path)


def test_the_latest_run_of_its_kind_is_found(tmp_path):
    assert latest(tmp_path / "missing", "x") is None
    for run, about in (("20260101", "x"), ("20260102", "x"), ("20260103", "y")):
        journal = Journal(tmp_path / f"{run}.jsonl", run=run, about=about)
        journal.append(record(run))
        journal.close("canceled")
    (tmp_path / "20260109.jsonl").write_bytes(b"\xff\xfe not a journal")
    (tmp_path / "20260108.jsonl").write_bytes(b"")
    assert read_journal(latest(tmp_path, "x")).run == "20260102"
    assert read_journal(latest(tmp_path, "y")).records[0].input_row == "20260103"
    assert latest(tmp_path, "z") is None


def test_an_exception_leaves_a_run_that_can_be_resumed(tmp_path):
    path = tmp_path / "r.jsonl"
    with pytest.raises(KeyError), Journal(path, run="r"):
        raise KeyError
    assert read_journal(path).outcome == "failed"


def test_lone_surrogates_do_not_lose_the_line(tmp_path):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="r") as journal:
        journal.append(record(result="half \ud83d"))
    assert read_journal(path).records[0].result == "half \ufffd"


def test_run_ids_sort_by_time_and_differ():
    ids = [new_run_id() for _ in range(20)]
    assert len(set(ids)) == 20
    assert [found[:16] for found in ids] == sorted(found[:16] for found in ids)


def test_a_journal_is_never_overwritten(tmp_path):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="one") as journal:
        journal.append(record("a"))
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"r\.jsonl"):
        Journal(path, run="two")
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"my diary", b"my diary\nmore\n", b"[]\n", b'{"my": "diary"}'])
def test_a_file_that_is_no_journal_is_not_appended_to(tmp_path, content):
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(JournalError, match="line 1"):
        Journal(path, run="two", append=True)
    assert path.read_bytes() == content


def test_a_full_disk_leaves_whole_lines(tmp_path):
    path = tmp_path / "r.jsonl"
    script = (
        "import resource, signal, sys\nfrom pathlib import Path\n"
        "from knime_mcp.audit.journal import Journal\n"
        "from knime_mcp.audit.record import CallRecord, CallStatus\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "journal = Journal(Path(sys.argv[1]), run='r')\n"
        "def append(size):\n"
        "    try:\n"
        "        journal.append(CallRecord(run='r', status=CallStatus.OK, result='x' * size))\n"
        "    except OSError:\n"
        "        print('full')\n"
        "for size in (9000, 9000, 9000, 10):\n"
        "    append(size)\n"
        "try:\n    journal.close()\n"
        "except OSError as error:\n    print(error.strerror)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "full\nFile too large; calls that ended are in no record: None\n"
    content = read_journal(path)
    assert [len(found.result) for found in content.records] == [9000, 9000, 10]
    assert (content.outcome, content.torn) == (None, False)
    assert verify_file(path).verdict is Verdict.TRUNCATED


def put_back(path):
    """A copy in its place: the same bytes in another file."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


TOUCHED = {
    "deleted": (Path.unlink, "was deleted or renamed"),
    "renamed": (lambda path: path.rename(path.with_suffix(".old")), "was deleted or renamed"),
    "its folder renamed": (lambda path: path.parent.rename(f"{path.parent}-2"), "was deleted or renamed"),
    "emptied": (lambda path: os.truncate(path, 0), "was cut"),
    "cut": (lambda path: os.truncate(path, path.stat().st_size - 1), "was cut"),
    "a line taken out": (lambda path: path.write_bytes(path.read_bytes().partition(b"\n")[2]), "was cut"),
    "written into": (lambda path: os.truncate(path, path.stat().st_size + 3), "Somebody else wrote"),
    "replaced": (put_back, "Another file was put"),
    "a folder in its place": (lambda path: (path.unlink(), path.mkdir()), "Another file was put"),
}


def test_what_somebody_does_to_a_journal_while_it_is_written_shows_at_the_next_line(tmp_path, monkeypatch):
    """Whatever the next line is, and whichever of its files it was."""
    silent = []
    writes = {
        "sent": lambda journal: journal.sent(SentCall(key="k", plan="p", tool_name="t")),
        "call": lambda journal: journal.append(record()),
        "note": lambda journal: journal.note("prompt", {"row": "Row0", "text": "?", "history": None}),
        "end": lambda journal: journal.close(),
    }
    for parts, (how, (touch, said)), (line, write) in itertools.product(
        (1, 2), TOUCHED.items(), writes.items()
    ):
        monkeypatch.setenv("KNIME_MCP_AUDIT_PART", "never" if parts == 1 else "1K")
        folder = tmp_path / f"{how} {line} {parts}"
        journal = Journal(folder / "r.jsonl", run="r")
        while not (folder / "r.jsonl.2").exists() and (parts == 2 or not journal.count):
            journal.append(record())
        touch(folder / "r.jsonl")
        for refused in (write, Journal.close):
            try:
                refused(journal)
                silent.append((how, line, parts))
            except JournalWriteError as error:
                if said not in str(error):
                    silent.append((how, line, parts, str(error)))
            if refused is Journal.close or line == "end":
                break
        journal._close_files()
    assert silent == []


def test_many_threads_write_whole_lines_in_the_order_of_the_chain(tmp_path):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="r") as journal, ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda n: journal.append(record(str(n), result="x" * 5000)), range(200))
        written = sorted(made, key=lambda found: found.call)
    content = read_journal(path)
    assert content.records == tuple(written)
    assert sorted(int(found.input_row) for found in written) == list(range(200))
    assert [found.call for found in written] == list(range(1, 201))
    assert [found.previous_hash for found in written] == [None, *(found.hash for found in written[:-1])]
    end = json_lines(path)[-1]
    assert (end["run"], end["calls"], end["head"]) == ("r", 200, written[-1].hash)
    assert journal.head == content.head == written[-1].hash
    assert verify_file(path).consistent
