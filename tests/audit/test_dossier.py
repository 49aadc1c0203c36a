"""Dossiers: whatever is done to one is found, and what could do harm is not unpacked."""

import base64
import hashlib
import io
import json
import stat
import zipfile

import pytest

from knime_mcp.audit.dossier import JOURNAL, LIST, DossierError, DossierWriter, opened
from knime_mcp.audit.verdicts import Anchors, Verdict
from knime_mcp.audit.verify import verify_file
from tests.audit.signing import new_key, write_journal

MEMBERS = ("tools/search.json", "report.html", "audit.knwf", "rules/rules.json", "files/picture.png")


@pytest.fixture
def keys(tmp_path, monkeypatch):
    file = tmp_path / "keys" / "keys.json"
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(file))
    return file


def packed(folder, name="r"):
    """A dossier of a journal whose saved files are nowhere else."""
    journal = write_journal(folder / f"{name}.jsonl", ("a",))
    with DossierWriter(folder / f"{name}.zip") as dossier:
        dossier.add(JOURNAL, journal)
        files = dossier.about["files"] = {}
        for saved in sorted(folder.glob("a?.png")):
            files[saved.name] = f"files/{saved.name}"
            dossier.add(files[saved.name], saved)
            saved.unlink()
        for member in MEMBERS:
            dossier.add(member, f"what {member} says".encode())
        dossier.about["rules"] = "rules/rules.json"
    journal.unlink()
    return folder / f"{name}.zip"


def contents(file):
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def put(file, members):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, data)


def rewritten(change):
    def tamper(file):
        members = contents(file)
        put(file, change(members) or members)

    return tamper


def envelope(change):
    """Edits what the list of members says; ``change`` gets envelope and statement."""

    def tamper(members):
        sealed = json.loads(members[LIST])
        statement = json.loads(base64.b64decode(sealed["payload"]))
        change(sealed, statement)
        sealed["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
        members[LIST] = json.dumps(sealed).encode()

    return rewritten(tamper)


def with_list_made_anew(name):
    """A member and its digest on the list, as somebody does who has no key."""

    def tamper(members):
        members[name] += b" and more"
        sealed = json.loads(members[LIST])
        statement = json.loads(base64.b64decode(sealed["payload"]))
        for entry in statement["subject"]:
            entry["digest"]["sha256"] = hashlib.sha256(members[entry["name"]]).hexdigest()
        sealed["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
        members[LIST] = json.dumps(sealed).encode()

    return rewritten(tamper)


ALTERED = {
    **{
        f"{name} edited": rewritten(lambda m, name=name: m.update({name: m[name] + b"x"}))
        for name in (*MEMBERS, JOURNAL, "files/a2.png")
    },
    **{
        f"{name} removed": rewritten(lambda m, name=name: m.pop(name) and None)
        for name in (*MEMBERS, "files/a2.png")
    },
    **{f"{name} and the list": with_list_made_anew(name) for name in (*MEMBERS, "files/a2.png")},
    "member added": rewritten(lambda m: m.update({"notes.txt": b"checked"})),
    "two members swapped": rewritten(
        lambda m: m.update({MEMBERS[0]: m[MEMBERS[1]], MEMBERS[1]: m[MEMBERS[0]]})
    ),
    "pictures swapped": rewritten(
        lambda m: m.update({"files/a1.png": m["files/a2.png"], "files/a2.png": m["files/a1.png"]})
    ),
    "list: time": envelope(lambda _, said: said["predicate"].update(made="2020-01-01T00:00:00Z")),
    "list: who": envelope(lambda _, said: said["predicate"].update(by={"user": "somebody"})),
    "list: files": envelope(lambda _, said: said["predicate"]["files"].update({"a1.png": "files/a2.png"})),
    "list: rules": envelope(lambda _, said: said["predicate"].update(rules="report.html")),
    "list: entry removed": envelope(lambda _, said: said["subject"].pop()),
    "signature": envelope(lambda sealed, _: sealed["signatures"][0].update(sig="AAAA")),
}


@pytest.mark.parametrize("name", ALTERED)
def test_what_is_done_to_a_dossier_is_found(name, keys, tmp_path):
    new_key(keys)
    file = packed(tmp_path)
    assert verify_file(file).intact
    ALTERED[name](file)
    assert verify_file(file).verdict is Verdict.ALTERED
    with opened(file) as dossier:
        assert dossier.problems()


@pytest.mark.parametrize("name", MEMBERS)
def test_what_anybody_can_make_anew_is_never_intact_without_a_signature(name, keys, tmp_path):
    file = packed(tmp_path)
    with_list_made_anew(name)(file)
    found = verify_file(file)
    head = found.runs[0].anchor
    assert (found.verdict, verify_file(file, head=head).verdict) == (Verdict.UNANCHORED,) * 2
    assert "No signature that counts covers the list of members" in " ".join(
        verify_file(file, head=head).notes
    )


def test_signatures_removed_or_of_others_do_not_count(keys, tmp_path):
    public = new_key(keys)
    file = packed(tmp_path)
    assert verify_file(file, head=Anchors(keys=(public,))).intact
    found = verify_file(file, head=Anchors(keys=()))
    assert found.verdict is Verdict.UNANCHORED
    assert f"only one of {public.label}" in " ".join(found.notes)
    envelope(lambda sealed, _: sealed["signatures"].clear())(file)
    assert verify_file(file).verdict is Verdict.UNANCHORED


def test_a_signature_covers_every_line_of_a_journal_that_was_not_signed(keys, tmp_path):
    journal = write_journal(tmp_path / "j.jsonl", ("a",))
    public = new_key(keys)
    with DossierWriter(tmp_path / "j.zip") as dossier:
        dossier.about["files"] = {}
        dossier.add(JOURNAL, journal)
    found = verify_file(tmp_path / "j.zip")
    assert found.intact
    (cover,) = found.coverage
    assert cover.lines == "1 to 13"
    assert f"signature of the dossier by {public.label}" in cover.by


def test_saved_files_are_those_in_the_dossier(keys, tmp_path):
    """Not those that happen to be where the run saved its own."""
    new_key(keys)
    file = packed(tmp_path)
    (tmp_path / "a1.png").write_bytes(b"another picture")
    assert verify_file(file).intact
    with opened(file) as dossier:
        assert dossier.saved("a1.png").parent == dossier.folder / "files"
        assert dossier.saved("a9.png") is None
    assert not dossier.folder.exists()


def test_a_list_that_names_files_outside_opens_none(keys, tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("mine", "utf-8")
    file = packed(tmp_path)
    envelope(lambda _, said: said["predicate"]["files"].update({"a1.png": str(outside)}))(file)
    with opened(file) as dossier:
        assert dossier.saved("a1.png") is None
        assert dossier.member("../outside.txt") is None


def entry(name, mode=0o100644, **more):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    for key, value in more.items():
        setattr(info, key, value)
    return info


def with_entry(*entries):
    return rewritten(lambda members: [*members.items(), *((one, b"x") for one in entries)])


def raw(change):
    return lambda file: file.write_bytes(change(file.read_bytes()))


def bomb(file):
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("zeros", "w") as member:
        for _ in range(1100):
            member.write(bytes(1 << 20))


def overlapping(file):
    """Two names for the same bytes: the way in which small archives become huge ones."""
    with zipfile.ZipFile(file, "a") as archive:
        first = archive.infolist()[0]
        again = entry("again.txt")
        for name in ("header_offset", "CRC", "compress_size", "file_size", "compress_type"):
            setattr(again, name, getattr(first, name))
        archive.filelist.append(again)
        archive.NameToInfo["again.txt"] = again
        archive._didModify = True


def commented(file):
    """What archive managers show beside a member."""
    with zipfile.ZipFile(file, "a") as archive:
        archive.getinfo("report.html").comment = b"checked by the auditor"
        archive._didModify = True


def twice_in_list(name):
    """A second value under one name, which other programs may read instead."""

    def change(members):
        members[LIST] = members[LIST].replace(b"{", b'{"%b": "", ' % name.encode(), 1)

    return rewritten(change)


def named_in_no_text(find, header):
    """The name of a member, which the header before it calls UTF-8, is none."""

    def change(data):
        place = find(data, b"report.html")
        flags = place - header + (6 if data[place - header :].startswith(b"PK\3\4") else 8)
        flagged = data[:flags] + b"\0\x08" + data[flags + 2 :]
        return flagged[:place] + b"\xff" + flagged[place + 1 :]

    return raw(change)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (with_entry("../up.txt"), "may not be a file in its folder"),
        (with_entry("/etc/passwd"), "may not be a file in its folder"),
        (with_entry("C:/x.txt"), "may not be a file in its folder"),
        (with_entry(entry("a\\..\\b.txt")), "may not be a file in its folder"),
        (with_entry("files/./x"), "may not be a file in its folder"),
        (with_entry("nul.txt"), "may not be a file in its folder"),
        (with_entry("files/a2.png."), "may not be a file in its folder"),
        (with_entry("folder/"), "may not be a file in its folder"),
        (with_entry("ｆ.txt"), "may not be a file in its folder"),
        (with_entry(JOURNAL), "two members called"),
        (with_entry("Journal.jsonl"), "differ in case only"),
        (with_entry("report.html/inner"), "a file and a folder"),
        (with_entry(entry("link", stat.S_IFLNK | 0o777)), "a link or a device"),
        (with_entry(entry("pipe", stat.S_IFIFO | 0o644)), "a link or a device"),
        (with_entry(entry("packed", compress_type=zipfile.ZIP_LZMA)), "packed in another way"),
        (raw(lambda data: b"#!/bin/sh\n" + data), "in no member"),
        (raw(lambda data: data + b"more"), "bytes behind its last member"),
        (raw(lambda data: data[:-2] + b"\x04\x00read"), "a comment"),
        (overlapping, "in no member, or in two"),
        (commented, "a comment at 'report.html'"),
        (twice_in_list("payload"), "'payload' is there twice"),
        (twice_in_list("signatures"), "'signatures' is there twice"),
        (bomb, "times its size"),
        (rewritten(lambda members: members.pop(LIST) and None), f"it has no {LIST}"),
        (rewritten(lambda members: members.pop(JOURNAL) and None), f"it has no {JOURNAL}"),
        (rewritten(lambda members: members.update({LIST: b"[]"})), "cannot be read"),
        (envelope(lambda _, said: said.update(predicateType="https://other")), "another kind"),
        (envelope(lambda _, said: said["predicate"].pop("files")), "cannot be read"),
        (envelope(lambda sealed, _: sealed.update(payloadType="text/plain")), "another envelope"),
        (raw(lambda data: data[: len(data) // 2]), "no dossier, or damaged"),
        (raw(lambda _: b"not a zip"), "no dossier, or damaged"),
        (named_in_no_text(bytes.find, 30), "no dossier, or damaged"),
        (named_in_no_text(bytes.rfind, 46), "no dossier, or damaged"),
    ],
)
def test_traps_are_not_unpacked(tamper, why, keys, tmp_path):
    file = packed(tmp_path)
    tamper(file)
    with pytest.raises(DossierError, match=why) as raised, opened(file):
        pytest.fail("was unpacked")
    assert str(raised.value).startswith("r.zip ")
    with pytest.raises(DossierError):
        verify_file(file)


def test_another_program_may_pack_the_same_members_again(keys, tmp_path):
    new_key(keys)
    file = packed(tmp_path)
    rewritten(dict)(file)

    class Stream(io.BytesIO):
        def seekable(self):
            return False  # so that sizes stand behind each member

        def tell(self):
            raise OSError

    stream = Stream()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in contents(file).items():
            archive.writestr(zipfile.ZipInfo(name), data)
    (tmp_path / "streamed.zip").write_bytes(stream.getvalue())
    assert verify_file(file).intact
    assert verify_file(tmp_path / "streamed.zip").intact


def test_a_dossier_that_could_not_be_packed_leaves_the_one_before(keys, tmp_path):
    file = packed(tmp_path)
    before = file.read_bytes()
    with pytest.raises(FileNotFoundError), DossierWriter(file) as dossier:
        dossier.add("missing", tmp_path / "nowhere")
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_others_can_check_the_signature(keys, tmp_path):
    """With DSSE's own words: https://github.com/secure-systems-lab/dsse/blob/master/protocol.md."""
    public = new_key(keys)
    sealed = json.loads(contents(packed(tmp_path))[LIST])
    payload = base64.b64decode(sealed["payload"])
    kind = sealed["payloadType"]
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    assert public.has_signed(signed, base64.b64decode(sealed["signatures"][0]["sig"]))
    assert json.loads(payload)["_type"] == "https://in-toto.io/Statement/v1"
