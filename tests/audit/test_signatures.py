"""Signed and time-stamped journals, with keys in files and a real server for time-stamps."""

import base64
import stat

import pytest

from knime_mcp.audit import journal as journal_module
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.journal_lines import JournalError
from knime_mcp.audit.signatures import Checkpoint, PublicKey, SignatureError, add_key, own_keys
from knime_mcp.audit.verdicts import Anchors, Verdict
from knime_mcp.audit.verify import verify_file
from tests.audit.calls import record
from tests.audit.outside import outside_verdict
from tests.audit.signing import new_key, remade_last, time_stamps, write_journal
from tests.support.files import json_lines


@pytest.fixture
def keys(tmp_path, monkeypatch):
    file = tmp_path / "keys" / "audit-keys.json"
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(file))
    return file


@pytest.fixture(scope="module")
def stamps(tmp_path_factory):
    with time_stamps(tmp_path_factory.mktemp("tsa")) as running:
        yield running


def test_a_signed_journal_is_intact_for_who_has_the_key(keys, tmp_path, monkeypatch):
    public = new_key(keys)
    path = write_journal(tmp_path / "r.jsonl")
    found = verify_file(path)
    assert (found.verdict, found.findings) == (Verdict.INTACT, ())
    assert [cover.lines for cover in found.coverage] == ["1 to 14", "15 to 28"]
    assert all("the signature with auditor's key" in cover.by for cover in found.coverage)
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(tmp_path / "none"))
    assert verify_file(path).verdict is Verdict.UNANCHORED
    assert "Signed by auditor+" in " ".join(verify_file(path).notes)
    assert verify_file(path, head=Anchors(keys=(PublicKey.parse(str(public)),))).intact


def test_an_older_key_still_counts_and_the_newest_signs(keys, tmp_path):
    new_key(keys, "old")
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    new_key(keys, "new")
    write_journal(path, ("b",))
    found = verify_file(path)
    assert found.intact
    assert ["with old's" in cover.by for cover in found.coverage] == [True, False]
    assert [key.public.name for key in own_keys(keys)] == ["old", "new"]


def test_nobody_else_may_read_the_keys(keys):
    new_key(keys)
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600


def test_long_runs_are_signed_on_the_way(keys, tmp_path, monkeypatch):
    new_key(keys)
    monkeypatch.setattr(journal_module, "_CALLS_PER_CHECKPOINT", 2)
    path = write_journal(tmp_path / "r.jsonl", ("a",), calls=5)
    kinds = [line["kind"] for line in json_lines(path)]
    assert kinds.count("checkpoint") == 3
    lines = path.read_bytes().splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[: kinds.index("checkpoint") + 3]))
    found = verify_file(cut)
    assert found.verdict is Verdict.TRUNCATED
    assert [bool(cover.by) for cover in found.coverage] == [True, False]


def test_a_note_is_what_others_read_as_well(keys, tmp_path):
    """https://c2sp.org/signed-note: text, an empty line, and lines of name, key id and signature."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = new_key(keys)
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    note = json_lines(path)[-1]["note"]
    text, _, signature = note.rpartition("\n\n")
    name, data = signature.removeprefix("— ").split()
    key = base64.b64decode(str(public).split("+", 2)[2])[1:]
    Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(data)[4:], f"{text}\n".encode())
    assert name == "auditor"
    origin, size, root, _ = text.split("\n")
    assert (origin, int(size)) == ("knime-mcp/journal/2", 13)
    assert base64.b64decode(root).hex() == json_lines(path)[-2]["chain"]
    assert Checkpoint.parse(note).lines == 13


@pytest.mark.parametrize(
    "text", ["", "x", "a+b+c", "auditor+00000000+AQ==", "a+" + "0" * 8 + "+" + "A" * 44, "a+0+ä"]
)
def test_what_is_no_key_is_said(text):
    with pytest.raises(SignatureError, match="is not a public key"):
        PublicKey.parse(text)


def test_keys_that_cannot_be_read_stop_the_run_before_its_first_call(keys, tmp_path):
    new_key(keys)
    keys.write_text("{}")
    with pytest.raises(JournalError, match="cannot be signed: The keys in"):
        Journal(tmp_path / "r.jsonl", run="r")


def test_a_key_in_the_keyring(keys, tmp_path, monkeypatch):
    import keyring
    from keyring.backend import KeyringBackend

    class Memory(KeyringBackend):
        priority = 1
        kept = {}  # noqa: RUF012

        def get_password(self, service, username):
            return self.kept.get((service, username))

        def set_password(self, service, username, password):
            self.kept[service, username] = password

    before = keyring.get_keyring()
    keyring.set_keyring(Memory())
    try:
        add_key(keys, "kept", "2026-01-31T12:00:00Z", keyring=True)
        assert "private" not in keys.read_text()
        assert verify_file(write_journal(tmp_path / "r.jsonl", ("a",))).intact
        Memory.kept.clear()
        with pytest.raises(JournalError, match="has no key kept"):
            Journal(tmp_path / "s.jsonl", run="s")
    finally:
        keyring.set_keyring(before)


def test_a_time_stamp_covers_what_was_there_then(stamps, tmp_path, monkeypatch):
    url, root = stamps
    monkeypatch.setenv("KNIME_MCP_AUDIT_TSA", url)
    path = write_journal(tmp_path / "r.jsonl", ("a",))
    assert json_lines(path)[-1].keys() == {"kind", "note", "time_stamp", "chain"}
    assert verify_file(path).verdict is Verdict.UNANCHORED
    assert "a server for time-stamps" in " ".join(verify_file(path).notes)
    found = verify_file(path, head=Anchors(roots=(root,)))
    assert found.intact
    assert "the time-stamp of 20" in found.coverage[0].by


def test_a_time_stamp_of_something_else_is_altered(stamps, keys, tmp_path, monkeypatch):
    url, root = stamps
    monkeypatch.setenv("KNIME_MCP_AUDIT_TSA", url)
    path, other = (write_journal(tmp_path / name, ("a",)) for name in ("1.jsonl", "2.jsonl"))
    entries = json_lines(path)
    entries[-1]["time_stamp"] = json_lines(other)[-1]["time_stamp"]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]) + remade_last(entries))
    found = verify_file(path, head=Anchors(roots=(root,)))
    assert found.verdict is Verdict.ALTERED
    assert "the time-stamp is not one of this checkpoint" in " ".join(f.text for f in found.findings)


def test_a_signature_covers_the_time_stamp_before_it(stamps, keys, tmp_path, monkeypatch):
    """With a spelling of its own, which the time-stamp's server did not sign; whether we know that or not."""
    url, root = stamps
    monkeypatch.setenv("KNIME_MCP_AUDIT_TSA", url)
    public = new_key(keys)
    path = write_journal(tmp_path / "r.jsonl", ("a",), calls=1)
    *before, stamped, _ = path.read_bytes().splitlines(keepends=True)
    assert [sorted(line) for line in json_lines(path)[-2:]] == [
        ["chain", "kind", "note", "time_stamp"],
        ["chain", "kind", "note"],
    ]
    both = Anchors(keys=(public,), roots=(root,))
    assert [cover.by[:13] for cover in verify_file(path, head=both).coverage] == [
        "the time-stam",
        "the signature",
    ]
    assert verify_file(path).intact
    assert outside_verdict(path, str(public)) == "unchanged"
    data = path.read_bytes()
    start = len(b"".join(before))
    for at in range(start, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert not verify_file(path).intact, at
        assert outside_verdict(path, str(public)) != "unchanged", at
    entries = json_lines(path) if path.write_bytes(data) else []
    moved = {**entries[-1], "time_stamp": entries[-2]["time_stamp"]}
    path.write_bytes(b"".join([*before, stamped, remade_last([*entries[:-1], moved])]))
    assert verify_file(path, head=both).verdict is Verdict.ALTERED
    path.write_bytes(b"".join([*before, stamped]))
    assert verify_file(path).verdict is Verdict.UNANCHORED


def test_a_server_that_gives_no_time_stamp_loses_no_record(keys, tmp_path, monkeypatch, caplog):
    new_key(keys)
    monkeypatch.setenv("KNIME_MCP_AUDIT_TSA", "http://127.0.0.1:9/")
    path = tmp_path / "r.jsonl"
    with Journal(path, run="r") as journal:
        journal.append(record(1, run="r"))
    assert verify_file(path).intact
    assert "gave no time-stamp" in caplog.text
