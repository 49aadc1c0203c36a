"""What somebody may do to a journal or a table, and what is said of it: never that it is intact.

Each way of tampering is tried on a journal without anything that was kept elsewhere, on one whose head was
kept, and on a signed one; and by the verifier in docs/audit.md, which needs nothing of ours. `FOUND` has to
be found by anybody; `FORGED`, which makes all hashes anew, only by who has a head or a key.
"""

import gzip
import hashlib
import json
import re
import shutil
from contextlib import suppress

import pyarrow as pa
import pytest

from knime_mcp.audit.calls_table import calls_table, read_calls, write_calls
from knime_mcp.audit.journal_reading import JournalError
from knime_mcp.audit.record import CallRecord, chained
from knime_mcp.audit.table_formats import read_table_file
from knime_mcp.audit.verdicts import Anchors, Verdict
from knime_mcp.audit.verify import verify_file, verify_table
from knime_mcp.runs.resuming import JournalAltered, to_resume
from tests.audit.outside import outside_verdict
from tests.audit.signing import new_key, rechained, remade_last, write_journal


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def put(path, lines):
    path.write_bytes(b"".join(lines))


def place(lines, kind, which=0):
    return [n for n, line in enumerate(lines) if f'"kind":"{kind}"'.encode() in line][which]


def swap(kind, old, new, which=0):
    """Replaces text in one line of a kind, and leaves everything else as it is."""

    def tamper(path):
        lines = lines_of(path)
        number = place(lines, kind, which)
        changed = re.sub(old, new, lines[number], count=1)
        assert changed != lines[number]
        lines[number] = changed
        put(path, lines)

    return tamper


def drop(kind, which=0):
    def tamper(path):
        lines = lines_of(path)
        del lines[place(lines, kind, which)]
        put(path, lines)

    return tamper


def order(change):
    """Rearranges lines; ``change`` gets them as a list and gives another one."""
    return lambda path: put(path, change(lines_of(path)))


def runs_of(lines):
    starts = [n for n, line in enumerate(lines) if b'"kind":"start"' in line]
    return [lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]


def joined(runs):
    return [line for run in runs for line in run]


def moved(kind, which, to):
    def change(lines):
        line = lines.pop(place(lines, kind, which))
        return [*lines[:to], line, *lines[to:]]

    return order(change)


def added(field, kind="call"):
    return swap(kind, rb"^\{", b"{" + field + b",")


def spoiled(name):
    """Changes a file beside the journal."""

    def tamper(path):
        file = path.parent / name
        file.write_bytes(file.read_bytes()[:-1] + b"9")

    return tamper


def other_file(path):
    (path.parent / "b1.png").replace(path.parent / "b2.png")


def longer_file(path):
    with (path.parent / "a2.png").open("ab") as file:
        file.write(b"more")


def from_elsewhere(which):
    """A line of another journal of the same kind, in place of ours."""

    def tamper(path):
        other = path.parent / "other"
        other.mkdir()
        strange = lines_of(write_journal(other / "o.jsonl", ("a", "b")))
        lines = lines_of(path)
        number = place(lines, which, -1)
        lines[number] = strange[place(strange, which, -1)]
        put(path, lines)

    return tamper


FOUND = {
    # what a call says
    **{
        f"call: {name}": swap("call", old, new, 1)
        for name, old, new in [
            ("result", rb"paid 2", b"paid 9"),
            ("arguments", rb'\\"a\\":2', rb'\\\\"a\\\\":3'),
            ("number written otherwise", rb"1e-07", b"1E-07"),
            ("attempts", rb'"attempts":1', b'"attempts":2'),
            ("status", rb'"status":"ok"', b'"status":"denied"'),
            ("tool name", rb'"tool_name":"search"', b'"tool_name":"find"'),
            ("tool definition", rb"Finds things", b"Finds thongs"),
            ("server", rb'"server":"https://host', b'"server":"https://hest'),
            ("row", rb"Row2", b"Row7"),
            ("time", rb"12:00:02", b"12:00:03"),
            ("duration", rb'"duration":[0-9.e-]+', b'"duration":7.5'),
            ("protocol", rb"2025-11-25", b"2025-06-18"),
            ("server version", rb'"server_version":"1.0"', b'"server_version":"1.1"'),
            ("run", rb'"run":"a"', b'"run":"b"'),
            ("number", rb'"call":2', b'"call":1'),
            ("hash", rb'"hash":"sha256:.', b'"hash":"sha256:z'),
            ("previous hash", rb'"previous_hash":"sha256:.', b'"previous_hash":"sha256:z'),
            ("chain", rb'"chain":"....', b'"chain":"0000'),
            ("key", rb'"key":"a2"', b'"key":"a3"'),
            ("file names", rb'"files":\["a2', b'"files":["a3'),
            ("picture", rb'"image":"a2', b'"image":"a3'),
            ("digest of its content", rb'sha256\\":\\".', rb'sha256\\\\":\\\\"z'),
            ("kind", rb'"kind":"call"', b'"kind":"note"'),
            ("kind, as if it was only sent", rb'"kind":"call"', b'"kind":"sent"'),
        ]
    },
    "call: unknown field added": added(b'"mood":"good"'),
    "call: a field twice": added(b'"status":"ok"'),
    "call: resumed from": added(b'"resumed_from":"r0"'),
    "call: iteration": added(b'"iteration":4'),
    "call: error": added(b'"error":"none"'),
    "call: space": swap("call", rb'","', b'", "'),
    "call: escaped letter": swap("call", rb"paid", rb"\\u0070aid"),
    "call: without chain": swap("call", rb',"chain":"\w+"', b""),
    # what other lines say
    "start: about": swap("start", rb'"about":""', b'"about":"x"'),
    "start: calls": swap("start", rb'"calls":null', b'"calls":3'),
    "start: user": swap("start", rb'"user":"', b'"user":"x'),
    "start: machine": swap("start", rb'"machine":"', b'"machine":"x'),
    "start: product": swap("start", rb"knime-mcp ", b"knime-mcp 9"),
    "start: model": swap("start", rb'"model":"m"', b'"model":"n"'),
    "start: time": swap("start", rb'"at":"2', b'"at":"1'),
    "start: run": swap("start", rb'"run":"a"', b'"run":"c"'),
    "no chain": lambda path: put(
        path,
        [
            re.sub(rb',"chain":"\w+"|"format":2,', b"", line).replace(b"complete", b"canceled")
            for line in lines_of(path)
            if b'"kind":"checkpoint"' not in line
        ],
    ),
    "start: older format": swap("start", rb'"format":2', b'"format":1'),
    "start: unknown field": added(b'"also":1', "start"),
    "second start": swap("start", rb'"model":"m"', b'"model":"n"', 1),
    "prompt: question": swap("prompt", rb"how many", b"how much"),
    "turn: text": swap("turn", rb"look", b"stop", 1),
    "turn: iteration": swap("turn", rb'"iteration":2', b'"iteration":9', 1),
    "sent: plan": swap("sent", rb"p2", b"p3", 1),
    "sent: key": swap("sent", rb'"key":"a2"', b'"key":"a9"', 1),
    "sent: tool": swap("sent", rb'"tool":"pay"', b'"tool":"get"'),
    "answer: text": swap("answer", rb"three", b"seven"),
    "answer: ending": swap("answer", rb'"ending":"answer"', b'"ending":"stopped"'),
    "end: outcome": swap("end", rb"complete", b"canceled"),
    "end: outcome of the last run": swap("end", rb"complete", b"failed", -1),
    "end: calls": swap("end", rb'"calls":3', b'"calls":2', -1),
    "end: head": swap("end", rb'"head":"sha256:.', b'"head":"sha256:z'),
    "end: time": swap("end", rb'"at":"2', b'"at":"1', -1),
    # lines
    "no start": drop("start"),
    "no second start": drop("start", 1),
    "no prompt": drop("prompt"),
    "no turn": drop("turn", 1),
    "not sent": drop("sent", 1),
    "no first call": drop("call"),
    "no call in the middle": drop("call", 1),
    "no last call": drop("call", -1),
    "no answer": drop("answer"),
    "no end in the middle": drop("end"),
    "no end": drop("end", -1),
    "calls swapped": moved("call", 1, 3),
    "turn moved": moved("turn", 0, 6),
    "sent behind its call": moved("sent", 1, 9),
    "a line twice": order(lambda lines: [*lines[:6], lines[5], *lines[6:]]),
    "a line again at the end": order(lambda lines: [*lines, lines[4]]),
    "everything twice": order(lambda lines: lines * 2),
    "runs swapped": order(lambda lines: joined(reversed(runs_of(lines)))),
    "no first run": order(lambda lines: joined(runs_of(lines)[1:])),
    "first run twice": order(lambda lines: joined([runs_of(lines)[0], *runs_of(lines)])),
    "a run within a run": order(lambda lines: [*lines[:5], *runs_of(lines)[1], *lines[5:]]),
    "reversed": order(lambda lines: lines[::-1]),
    "nothing left": order(lambda lines: []),
    "half of the last line": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "half of a line in the middle": order(lambda lines: [*lines[:4], lines[4][:50] + b"\n", *lines[5:]]),
    "no line break": order(lambda lines: [*lines[:4], lines[4].rstrip(), *lines[5:]]),
    "a line that is no JSON": order(lambda lines: [*lines[:4], b"hello\n", *lines[4:]]),
    "a comment": order(lambda lines: [b"# checked\n", *lines]),
    "start of another journal": from_elsewhere("start"),
    "call of another journal": from_elsewhere("call"),
    "end of another journal": from_elsewhere("end"),
    # files
    "a saved file": spoiled("a2.png"),
    "a saved file of the last run": spoiled("b3.png"),
    "a longer file": longer_file,
    "another picture of the same size": other_file,
}


def remade(entries):
    """Lines with all hashes made anew, as somebody does who knows how."""
    lines, chain, head = [], "", ""
    for entry in entries:
        entry = {name: value for name, value in entry.items() if name != "chain"}
        if entry["kind"] == "call":
            made = chained(CallRecord.from_json(entry), head, call=entry["call"])
            head = made.hash
            extra = {name: entry[name] for name in entry if name in ("kind", "mood")}
            entry = made.to_json() | extra
        if entry["kind"] == "end":
            entry["head"] = head
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)[:-1]
        chain = hashlib.sha256(f"{chain}\n{text}".encode()).hexdigest()
        lines.append(f'{text},"chain":"{chain}"}}\n'.encode())
    return lines


def forged(change, *, keeps_signatures=False):
    """Changes the lines, given as objects, and makes all hashes anew."""

    def tamper(path):
        entries = [json.loads(line) for line in lines_of(path)]
        if not keeps_signatures:
            entries = [entry for entry in entries if entry["kind"] != "checkpoint"]
        put(path, remade(change(entries)))

    return tamper


def edited(kind, which, **values):
    def change(entries):
        number = [n for n, entry in enumerate(entries) if entry["kind"] == kind][which]
        entries[number] |= values
        return entries

    return change


def cut_calls(entries):
    """Without the last calls, and with an end that counts the others."""
    end = entries[-1]
    kept = [entry for entry in entries[:-1] if not (entry["run"] == "b" and entry.get("call", 0) > 1)]
    return [*kept, end | {"calls": 1}]


def without_run(run):
    return lambda entries: [entry for entry in entries if entry.get("run", run) != run]


def with_fake_run(entries):
    fake = [entry | {"run": "c"} for entry in entries if entry.get("run") == "b"]
    return entries + fake


FORGED = {
    "result": forged(edited("call", 1, result="paid 9")),
    "result of the last call": forged(edited("call", -1, result="paid 9")),
    "status": forged(edited("call", 0, status="denied")),
    "file names": forged(edited("call", 1, image="a1.png")),
    "unknown field": forged(edited("call", 1, mood="good")),
    "about": forged(edited("start", 0, about="x")),
    "who": forged(edited("start", 1, who={"user": "somebody"})),
    "question": forged(edited("prompt", 0, text="how much?")),
    "turn": forged(edited("turn", -1, text="pay")),
    "what was sent": forged(edited("sent", 0, tool="get")),
    "answer": forged(edited("answer", -1, text="nothing")),
    "outcome": forged(edited("end", 0, outcome="failed")),
    "outcome of the last run": forged(edited("end", -1, outcome="failed")),
    "last calls cut": forged(cut_calls),
    "first run removed": forged(without_run("a")),
    "last run removed": forged(without_run("b")),
    "fake run appended": forged(with_fake_run),
    "result, with the old signatures": forged(edited("call", 1, result="paid 9"), keeps_signatures=True),
}


@pytest.fixture
def keys(tmp_path, monkeypatch):
    file = tmp_path / "keys" / "keys.json"
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(file))
    return file


@pytest.fixture
def untouched(tmp_path):
    folder = tmp_path / "untouched"
    folder.mkdir()
    return folder / "r.jsonl"


def copied(journal, folder):
    """A journal in another folder, with the files beside it."""
    shutil.copytree(journal.parent, folder)
    return folder / journal.name


def test_what_anybody_finds(subtests, untouched, tmp_path):
    write_journal(untouched)
    head = verify_file(untouched).runs[-1].anchor
    assert verify_file(untouched, head=head).intact
    assert outside_verdict(untouched, head) == "unchanged"
    for number, name in enumerate(FOUND):
        with subtests.test(name=name):
            path = copied(untouched, tmp_path / str(number))
            FOUND[name](path)
            assert not verify_file(path).consistent
            assert not verify_file(path, head=head).consistent
            assert outside_verdict(path) not in {
                "unchanged",
                "complete in itself, but nobody vouches for it",
            }


def test_a_signature_does_not_make_it_intact(subtests, untouched, keys, tmp_path):
    public = new_key(keys)
    write_journal(untouched)
    assert verify_file(untouched).intact
    for number, name in enumerate(FOUND):
        with subtests.test(name=name):
            path = copied(untouched, tmp_path / str(number))
            FOUND[name](path)
            assert not verify_file(path).consistent
            assert outside_verdict(path, str(public)) not in {
                "unchanged",
                "complete in itself, but nobody vouches for it",
            }


@pytest.mark.parametrize("name", FORGED)
def test_what_is_made_anew_is_never_intact(name, keys, tmp_path, monkeypatch):
    path = write_journal(tmp_path / "r.jsonl")
    head = verify_file(path).runs[-1].anchor
    FORGED[name](path)
    found = verify_file(path)
    assert found.verdict in {Verdict.UNANCHORED, Verdict.ALTERED}
    assert found.notes
    with_head = verify_file(path, head=head)
    behind = name == "fake run appended"  # which a head of before says nothing of
    assert with_head.verdict in ({Verdict.UNANCHORED} if behind else {Verdict.TRUNCATED, Verdict.ALTERED})
    assert not behind or [bool(cover.by) for cover in with_head.coverage] == [True, False]
    assert outside_verdict(path) != "unchanged"
    assert outside_verdict(path, head) != "unchanged"
    assert behind or outside_verdict(path, head) != "complete in itself, but nobody vouches for it"


@pytest.mark.parametrize("name", FORGED)
def test_what_is_made_anew_has_no_signature(name, keys, tmp_path):
    public = new_key(keys)
    path = write_journal(tmp_path / "r.jsonl")
    FORGED[name](path)
    found = verify_file(path)
    assert not found.intact
    assert found.verdict is Verdict.ALTERED or not found.coverage[-1].by
    assert outside_verdict(path, str(public)) != "unchanged"


def test_a_run_behind_what_was_kept_is_named(tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    head = verify_file(path).runs[-1].anchor
    write_journal(path, ("b",))
    found = verify_file(path, head=head)
    assert found.verdict is Verdict.UNANCHORED
    assert [(cover.lines, bool(cover.by)) for cover in found.coverage] == [
        ("1 to 13", True),
        ("14 to 26", False),
    ]
    assert "covers lines 14 to 26" in " ".join(found.notes)


def test_the_signature_of_another_key_does_not_count(keys, tmp_path, monkeypatch):
    ours = new_key(keys)
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(tmp_path / "other.json"))
    new_key(tmp_path / "other.json", "auditor")  # with the same name
    path = write_journal(tmp_path / "r.jsonl")
    found = verify_file(path, head=Anchors(keys=(ours,)))
    assert found.verdict is Verdict.UNANCHORED
    assert outside_verdict(path, str(ours)) != "unchanged"


def test_a_signature_with_a_borrowed_key_id_is_altered(keys, tmp_path):
    ours = new_key(keys)
    path = write_journal(tmp_path / "r.jsonl")
    lines = [json.loads(line) for line in lines_of(path)]
    first, last = (entry for entry in lines if entry["kind"] == "checkpoint")
    last["note"] = last["note"].rpartition("—")[0] + "—" + first["note"].rpartition("—")[2]
    put(path, remade(lines))
    assert verify_file(path, head=Anchors(keys=(ours,))).verdict is Verdict.ALTERED


def test_a_checkpoint_copied_from_another_journal_is_altered(keys, tmp_path):
    new_key(keys)
    path, other = (write_journal(tmp_path / name, ("a",)) for name in ("r.jsonl", "o.jsonl"))
    put(path, [*lines_of(path)[:-1], lines_of(other)[-1]])
    assert verify_file(path).verdict is Verdict.ALTERED
    entries = [json.loads(line) for line in (*lines_of(path)[:-1], lines_of(other)[-1])]
    put(path, remade(entries))
    assert verify_file(path).verdict is Verdict.ALTERED


def test_a_field_beside_a_signature_is_altered(keys, tmp_path):
    new_key(keys)
    path = write_journal(tmp_path / "r.jsonl")
    entries = [json.loads(line) for line in lines_of(path)]
    entries[-1]["said"] = "checked"
    put(path, [*lines_of(path)[:-1], remade_last(entries)])
    assert verify_file(path).verdict is Verdict.ALTERED


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\n\n", 3),
        lambda data: data.replace(b"\n", b" \n", 1),
        lambda data: data[:-1],
        lambda data: data + b"\n",
        lambda data: data + b" ",
        lambda data: data + b"\t\n \n",
    ],
)
def test_other_line_breaks_are_named(change, signed, keys, tmp_path):
    if signed:
        new_key(keys)
    path = write_journal(tmp_path / "r.jsonl")
    path.write_bytes(change(path.read_bytes()))
    found = verify_file(path)
    assert found.verdict is Verdict.UNANCHORED
    assert "Line breaks or spaces are not those that were written" in " ".join(found.notes)


def test_a_file_of_empty_lines_behind_the_last_is_named(keys, tmp_path):
    new_key(keys)
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    (tmp_path / "r.jsonl.2").write_bytes(b"\n \n")
    assert not verify_file(path).intact


def test_no_byte_can_be_changed_added_or_removed(keys, tmp_path):
    public = new_key(keys)
    path = write_journal(tmp_path / "r.jsonl", ("a",), calls=2)
    data, anchors = path.read_bytes(), Anchors(keys=(public,))
    assert verify_file(path, head=anchors).intact
    for at in range(0, len(data), 101):
        before, byte, behind = data[:at], data[at], data[at + 1 :]
        others = (b"", bytes([byte ^ 1]), bytes([byte ^ 32]), bytes([byte]) * 2, b" " + data[at : at + 1])
        for other in others:
            path.write_bytes(before + other + behind)
            assert not verify_file(path, head=anchors).intact, (at, other)
        path.write_bytes(before)
        assert not verify_file(path, head=anchors).intact, at


ODD = (None, 10**400, "\ud800", [[]])


def test_values_of_any_kind_in_lines_made_anew_do_no_harm(tmp_path):
    """Whoever reads or resumes it is told that it is no journal, or gets an answer."""
    path = write_journal(tmp_path / "r.jsonl", ("a",), calls=1)
    entries = [json.loads(line) for line in lines_of(path)]
    others = [n for n, entry in enumerate(entries) if entry["kind"] in {"start", "sent", "call", "end"}]
    for number in others:
        entry = entries[number]
        for name in (*entry, "note", "time_stamp", "number", "part", "secrets"):
            for value in ODD:
                put(path, rechained([*entries[:number], entry | {name: value}, *entries[number + 1 :]]))
                assert not verify_file(path).intact
                with suppress(JournalError, JournalAltered):
                    to_resume(path)


def test_files_one_behind_the_other_are_never_intact(keys, tmp_path):
    new_key(keys)
    one, other = (write_journal(tmp_path / f"{run}.jsonl", (run,)) for run in ("a", "b"))
    put(one, [*lines_of(one), *lines_of(other)])
    found = verify_file(one)
    assert found.verdict is Verdict.UNANCHORED
    assert "one behind the other, at line 15" in " ".join(found.notes)


def test_a_file_that_is_gone_is_named(tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    (tmp_path / "a2.png").unlink()
    assert "1 saved file is not there any more" in " ".join(verify_file(path).notes)


TABLES = {
    "result": ("paid 2", "paid 9"),
    "number written otherwise": ("1e-07", "1E-07"),
    "status": ('"ok"', '"denied"'),
    "row": ("Row2", "Row7"),
    "content": ("image/png", "image/jpg"),
    "hash": ("sha256:a", "sha256:b"),
}


@pytest.fixture
def table(tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    write_calls(read_calls(path), tmp_path / "t.csv")
    return tmp_path / "t.csv", verify_file(path).runs[-1].anchor


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_was_edited(name, table):
    path, head = table
    assert verify_file(path, head=head).intact
    assert verify_file(path).verdict is Verdict.UNANCHORED
    text = path.read_text("utf-8")
    changed = text.replace(*TABLES[name], 1)
    assert changed != text
    path.write_text(changed, "utf-8")
    assert verify_file(path).verdict is Verdict.ALTERED
    assert verify_file(path, head=head).verdict is Verdict.ALTERED


@pytest.mark.parametrize("name", ["Approved by", "R\u0435sult"])  # with a Cyrillic e
def test_columns_of_others_are_named_and_covered_by_nothing(name, table):
    path, head = table
    there = read_table_file(path).table
    more = there.append_column(name, pa.array(["yes"] * len(there)))
    found = verify_table(more, head=head)
    assert (found.verdict, verify_table(there, head=head).verdict) == (Verdict.UNANCHORED, Verdict.INTACT)
    assert f"nothing covers: '{name}'." in found.notes[-1]


def test_an_older_table_without_a_newer_column_is_altered_all_the_same(table):
    path, _ = table
    records = [record.but(content=None, files=(), image=None) for record in read_calls(path)]
    head, older = "", []
    for number, record in enumerate(records, start=1):
        older.append(chained(record, head, call=number))
        head = older[-1].hash
    older[1] = older[1].but(result="better")
    there = calls_table(older).drop_columns(["Content", "Secrets"])
    assert verify_table(there).verdict is Verdict.ALTERED
    assert verify_table(there.slice(0, 1)).verdict is Verdict.UNANCHORED


def test_a_table_that_lost_its_last_rows_shows_with_the_head_only(table):
    path, head = table
    lines = path.read_text("utf-8").splitlines(keepends=True)
    assert len(lines) > 3
    write_calls(read_calls(path)[:2], path)
    assert verify_file(path).verdict is Verdict.UNANCHORED
    assert verify_file(path, head=head).verdict is Verdict.TRUNCATED


def signed_by_another(name):
    """All of it anew, with the signatures of somebody else's key."""

    def tamper(path):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KNIME_MCP_AUDIT_KEYS", str(path.parent / "their-keys.json"))
            new_key(path.parent / "their-keys.json", name)
            path.unlink()
            write_journal(path)

    return tamper


def noted_otherwise(old, new):
    """Changes the last checkpoint, and makes the chain anew."""

    def tamper(path):
        entries = [json.loads(line) for line in lines_of(path)]
        entries[-1]["note"] = re.sub(old, new, entries[-1]["note"])
        put(path, rechained(entries))

    return tamper


def result_changed(path):
    """Changes what a call returned, and makes the chain of the lines anew, but no hash of a call."""
    entries = [json.loads(line) for line in lines_of(path) if b'"kind":"checkpoint"' not in line]
    put(path, rechained(edited("call", 1, result="paid 9")(entries)))


def as_bytes(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


VOUCHED = "complete in itself, but nobody vouches for"
NAMED = {
    "no signature at the end": (drop("checkpoint", -1), f"{VOUCHED} lines 15 to 27", ""),
    "no beginning": (order(lambda lines: lines[3:]), "changed at line 1", "what stood before it is missing"),
    "a line twice": (FOUND["a line twice"], "changed at line 7", "Line 7: the line before it once more."),
    "lines swapped": (
        order(lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]]),
        "changed at lines 5 to 7",
        "Lines 5 to 7: changed, or not what followed",
    ),
    "a signature twice": (order(lambda lines: [*lines, lines[-1]]), "changed at line 29", "once more"),
    "a comment at the end": (
        as_bytes(lambda data: data + b"# approved\n"),
        "changed at line 29",
        "Line 29: not a line of a journal.",
    ),
    "a result, with the chain made anew": (
        result_changed,
        "changed at line 8",
        r"Call 2 of run a \(line 8\) is not what was written",
    ),
    "a saved file": (spoiled("a2.png"), "changed at call 2", "a2.png of line 8 is not what was saved"),
    "another key of the same name": (
        signed_by_another("auditor"),
        f"{VOUCHED} it",
        r"Signed by auditor\+[0-9a-f]{8} \(and not by auditor\+[0-9a-f]{8}\), which you do not know",
    ),
    "a name that looks alike": (
        signed_by_another("\u0430uditor"),
        f"{VOUCHED} it",
        r"Signed by \\u\{0430\}uditor\+[0-9a-f]{8}, which you do not know",
    ),
    "a signature with another time": (
        noted_otherwise(r"\n\d{4}-", "\n2020-"),
        "changed at line 28",
        "the signature was not made with the key that it names",
    ),
    "lines that end as on Windows": (
        as_bytes(lambda data: data.replace(b"\n", b"\r\n")),
        f"{VOUCHED} its line breaks",
        "as in a copy by mail, or by Git on Windows: in or before lines 1 to 29.",
    ),
    "a mark before the first line": (
        as_bytes(lambda data: b"\xef\xbb\xbf" + data),
        f"{VOUCHED} its line breaks",
        "in or before line 1.",
    ),
    "UTF-16": (as_bytes(lambda data: data.decode().encode("utf-16")), "no journal", "it is UTF-16"),
    "gzip": (as_bytes(gzip.compress), "no journal", "it is compressed"),
}


def test_each_is_called_by_its_name(subtests, untouched, keys, tmp_path):
    new_key(keys)
    write_journal(untouched)
    for number, (name, (tamper, words, text)) in enumerate(NAMED.items()):
        with subtests.test(name=name):
            path = copied(untouched, tmp_path / str(number))
            tamper(path)
            found = verify_file(path)
            assert found.in_words == words
            assert re.search(text, " ".join([*(own.text for own in found.findings), *found.notes]))


def test_what_stands_before_a_change_is_still_vouched_for(keys, tmp_path):
    new_key(keys)
    path = write_journal(tmp_path / "r.jsonl")
    FOUND["end: outcome of the last run"](path)
    assert [(cover.lines, bool(cover.by)) for cover in verify_file(path).coverage] == [
        ("1 to 14", True),
        ("15 to 28", False),
    ]


def test_a_head_that_is_not_there_is_not_said_to_be_a_missing_end_alone(tmp_path):
    path = write_journal(tmp_path / "r.jsonl")
    head = verify_file(path).runs[-1].anchor
    forged(edited("call", 1, result="paid 9"))(path)
    found = verify_file(path, head=head)
    assert found.in_words == "end missing, or not what the given head is of"
    (finding,) = found.findings
    assert finding.text.endswith(
        "is not in it: it is of another journal, its end was cut off, or it was written anew."
    )


def test_there_are_ways_enough():
    assert len(FOUND) + len(FORGED) + len(TABLES) >= 80
