"""Records of a version that has one thing more: not verifiable here, and not altered unless somebody did."""

import json

import pyarrow as pa
import pytest

from knime_mcp.audit.calls_table import COLUMNS, calls_table, journal_calls, strange_values
from knime_mcp.audit.record import chain_hash, link_of
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file, verify_table
from knime_mcp.runs.replaying import read_recording
from knime_mcp.runs.resuming import JournalAltered, to_resume
from tests.audit.signing import new_key, rechained, write_journal
from tests.support.files import json_lines


def written_newer(path, more, *, hashed):
    """The journal as a version writes it whose calls have more fields, some of which are hashed."""
    entries, head = [], ""
    for entry in json_lines(path):
        if entry["kind"] == "call":
            before = {"previous_hash": head} if head else {}
            link = link_of(entry | before, "")
            head = chain_hash(head, {**link.texts, **{name: str(more[name]) for name in hashed}})
            entry |= {**more, **before, "hash": head}
        if entry["kind"] == "end":
            entry["head"] = head
        entries.append(entry)
    path.write_bytes(b"".join(rechained(entries)))
    return entries


@pytest.mark.parametrize("hashed", [("mood",), ("mood", "score"), ("score",)])
def test_a_field_more_is_of_a_newer_version(hashed, tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    entries = written_newer(path, {"mood": "good", "score": 3}, hashed=hashed)
    found = verify_file(path)
    assert found.verdict is Verdict.UNVERIFIABLE
    assert "by a newer version, and not verifiable here" in found.findings[0].text
    assert "'mood'" in " ".join(found.notes)
    assert len(list(read_recording(path).calls)) == 3
    with pytest.raises(JournalAltered, match="newer version"):
        to_resume(path)
    # Whoever edits it, and makes the chain of the lines anew, is found.
    edits = {"result": "paid 9", "mood": "bad", "score": 4, "status": "denied", "tongue": "x", "error": "e"}
    for name, value in edits.items():
        changed = [e | {name: value} if e.get("call") == 2 else e for e in entries]
        path.write_bytes(b"".join(rechained(changed)))
        is_hashed = name in hashed or name not in ("mood", "score", "tongue")
        wanted = Verdict.ALTERED if is_hashed else Verdict.UNVERIFIABLE
        assert verify_file(path).verdict is wanted, name


def test_a_field_more_that_no_hash_covers_is_named(tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    written_newer(path, {"mood": "good"}, hashed=())
    assert verify_file(path).verdict is Verdict.UNANCHORED
    assert "Fields that this version does not know: 'mood'" in " ".join(verify_file(path).notes)


@pytest.mark.parametrize("change", ["a kind", "a format"])
def test_another_kind_of_line_and_another_format_are_of_a_newer_version(change, tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    first, *others = json_lines(path)
    if change == "a kind":
        newer = [first, {"kind": "mood", "run": "a", "text": "good"}, *others]
    else:
        newer = [first | {"format": 3}, *others]
    path.write_bytes(b"".join(rechained(newer)))
    found = verify_file(path)
    assert (found.verdict, len(found.findings)) == (Verdict.UNVERIFIABLE, 1)
    assert len(list(read_recording(path).calls)) == 3
    with pytest.raises(JournalAltered, match="newer version"):
        to_resume(path)
    # Put between others, or changed, it is none of theirs.
    lines = path.read_bytes().splitlines(keepends=True)
    for changed in ([*lines[:1], *lines[2:]], [*lines[:2], lines[1], *lines[2:]]):
        path.write_bytes(b"".join(changed))
        assert verify_file(path).verdict is Verdict.ALTERED


def test_a_newer_journal_that_is_signed_is_still_not_verifiable_here(tmp_path, monkeypatch):
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(tmp_path / "keys.json"))
    new_key(tmp_path / "keys.json")
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    written_newer(path, {"mood": "good"}, hashed=("mood",))
    # The signature is of other lines: nobody takes it for a newer version's.
    assert verify_file(path).verdict is Verdict.ALTERED


def test_a_column_more_is_of_a_newer_version(tmp_path):
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    written_newer(path, {"mood_of_all": "good"}, hashed=("mood_of_all",))
    table = calls_table(journal_calls(path))
    table = table.append_column("Mood of all", pa.array(["good"] * 3))
    table = table.append_column("Checked by", pa.array(["me"] * 3))  # a person's
    assert verify_table(table).verdict is Verdict.UNVERIFIABLE
    edited = table.set_column(table.num_columns - 2, "Mood of all", pa.array(["good", "bad", "good"]))
    assert verify_table(edited).verdict is Verdict.ALTERED
    assert verify_table(table.drop_columns(["Mood of all"])).verdict is Verdict.ALTERED


def test_names_of_columns_say_those_of_fields():
    strange = pa.table({f"{column} ": pa.array([json.dumps(column)]) for column, *_ in COLUMNS})
    (row,) = strange_values(strange)
    assert list(row) == [name for _, name, _ in COLUMNS]
