"""A dossier: what belongs to a run in one archive, with a signed list of what is in it.

It is a zip file with the journal, the saved files, and what was made of them. ``dossier.json`` lists the
SHA-256 of each member in the form that others read: an in-toto statement (https://in-toto.io/Statement/v1) in
a DSSE envelope (https://github.com/secure-systems-lab/dsse), signed with the key that signs journals.

An archive comes from somebody else. So nothing is unpacked before names, kinds and sizes of all members are
looked at, and only what the list names is used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

from ..system import replace_file
from ..types.texts import canonical_json
from .journal import keys_file, who
from .record import utc_text
from .signatures import SigningKey, own_keys, own_public_keys
from .verdicts import Anchors, Finding, Verdict, Verification, listed
from .verify_journal import verify_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import TracebackType

LIST: Final = "dossier.json"
JOURNAL: Final = "journal.jsonl"
WORKFLOW: Final = "audit.knwf"
FILES: Final = "files"
_PAYLOAD: Final = "application/vnd.in-toto+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "urn:knime-mcp:dossier:1"
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")  # a file everywhere
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_MOST_MEMBERS: Final = 100_000
_LARGEST_LIST: Final = 64 << 20
_HARMLESS_BYTES: Final = 1 << 30
_MOST_PACKED: Final = 250  # times smaller: journals are about 20 times smaller, bombs 1,000 times
_LOCAL_HEADER: Final = 30
_LAST_HEADER: Final = 22
_LONGEST_DESCRIPTOR: Final = 24  # behind a member, where other programs wrote the archive
_CHUNK: Final = 1 << 20


class DossierError(ValueError):
    """An archive is no dossier, or one that nobody should unpack; the message names it and the reason."""

    error_code = "KMCP-DOSSIER"


def member_name(name: str) -> str:
    """A part of a member's name, made of any text."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80].strip("-.")
    return f"{safe or 'unnamed'}_" if _DEVICE.fullmatch(safe) else safe or "unnamed"


class DossierWriter:
    """Packs a dossier; the list of members is added, and the file put in place, on leaving without an error.

    Attributes:
        about: What the list says beside the members, see `Dossier.about`.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._part = file.with_name(f"{file.name}.part")
        self._zip = zipfile.ZipFile(self._part, "w", zipfile.ZIP_DEFLATED)
        self._digests: dict[str, str] = {}
        self.about: dict[str, Any] = {"made": utc_text(datetime.now(UTC)), "by": who()}
        own = own_keys(keys_file())
        self.key: SigningKey | None = own[-1] if own else None

    def add(self, name: str, content: Path | bytes) -> None:
        digest = hashlib.sha256()
        is_large = isinstance(content, Path) and content.stat().st_size >= _HARMLESS_BYTES
        with self._zip.open(_entry(name), "w", force_zip64=is_large) as member:
            if isinstance(content, bytes):
                member.write(content)
                digest.update(content)
            else:
                with content.open("rb") as source:
                    while data := source.read(_CHUNK):
                        member.write(data)
                        digest.update(data)
        self._digests[name] = digest.hexdigest()

    def __contains__(self, name: str) -> bool:
        return name in self._digests

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with self._zip:
                if kind is None:
                    self._zip.writestr(_entry(LIST), self._signed_list())
            if kind is None:
                # Only when it is whole: a file with the name of a dossier is one.
                replace_file(self._part, self._file)
        finally:
            self._part.unlink(missing_ok=True)

    def _signed_list(self) -> str:
        subject = [{"name": name, "digest": {"sha256": self._digests[name]}} for name in self._digests]
        payload = canonical_json(
            {"_type": _STATEMENT, "subject": subject, "predicateType": _PREDICATE, "predicate": self.about}
        ).encode()
        signatures: list[dict[str, str]] = []
        if self.key is not None:
            signature = base64.b64encode(self.key.signature(_authenticated(payload))).decode()
            signatures.append({"keyid": self.key.public.label, "sig": signature})
        text = base64.b64encode(payload).decode()
        return json.dumps({"payloadType": _PAYLOAD, "payload": text, "signatures": signatures}, indent=1)


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=_NO_TIME)  # what the list does not cover says nothing
    # The same on each system: two dossiers of the same content have the same bytes.
    info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
    return info


def _authenticated(payload: bytes) -> bytes:
    """What is signed: DSSE's encoding of the payload and its type."""
    kind = _PAYLOAD.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True, slots=True)
class Dossier:
    """A dossier that was looked at and unpacked.

    Attributes:
        folder: Where its members are, as long as it is open.
        about: When and by whom it was packed (``made``, ``by``), which member each saved file of the journal
            is (``files``), and the members with the rules and workflows that a replay takes (``rules``,
            ``workflows``).
    """

    file: Path
    folder: Path
    about: Mapping[str, Any]
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]
    members: frozenset[str]  # that are in the folder
    findings: tuple[Finding, ...]

    @property
    def journal(self) -> Path:
        return self.folder / JOURNAL

    def member(self, name: str) -> Path | None:
        return self.folder / name if name in self.members else None  # not every name is one of a member

    @property
    def rules(self) -> Path | None:
        """The file of rules for a replay."""
        return self.member(str(self.about.get("rules")))

    @property
    def workflows(self) -> list[Path]:
        """The workflows that were called as tools."""
        return [found for name in self.about["workflows"] if (found := self.member(name)) is not None]

    def saved(self, name: str) -> Path | None:
        """The member that a saved file on record is."""
        found = self.about["files"].get(name)
        return None if found is None else self.member(found)

    def verified(
        self,
        anchors: Anchors,
        on_progress: Callable[[int], None] | None = None,
    ) -> Verification:
        """What `verify_journal` says of the journal, and what is to be said of the other members."""
        signers, others, findings = self._signers(anchors)
        by = f"the signature of the dossier by {listed(signers)} of {self.about['made']}" if signers else ""
        found = verify_journal(
            self.journal,
            anchors,
            on_progress=on_progress,
            saved=self.saved,
            sealed=by if not findings else "",
        )
        notes = list(found.notes)
        if not signers and not findings:
            notes.append(
                f"No signature that counts covers the list of members{_by(others)}: who can write the dossier"
                " could have written report, workflow and tool definitions anew."
            )
        every = (*self.findings, *findings, *found.findings)
        return replace(found, findings=every, notes=tuple(notes), anchored=found.anchored and bool(signers))

    def problems(self) -> tuple[Finding, ...]:
        """What is altered beside the content of the journal."""
        return (*self.findings, *self._signers(Anchors())[2])

    def _signers(self, anchors: Anchors) -> tuple[list[str], list[str], list[Finding]]:
        """Whose signatures count, whose others there are, and what is forged."""
        keys = anchors.keys if anchors.keys is not None else own_public_keys(keys_file())
        known = {key.label: key for key in keys}
        signers, others, forged = list[str](), list[str](), list[str]()
        for label, signature in self.signatures:
            if label not in known:
                others.append(label)
            elif known[label].has_signed(_authenticated(self.payload), signature):
                signers.append(label)
            else:
                forged.append(label)
        text = f"{LIST}: the signature with the name {listed(forged)} was not made with that key."
        return signers, others, [Finding(Verdict.ALTERED, text)] if forged else []


def _by(others: list[str]) -> str:
    return f", only one of {listed(others)}, whose key you have not named" if others else ""


@contextmanager
def opened(file: Path) -> Generator[Dossier]:
    """Unpacks a dossier into a folder that is removed at the end; `DossierError` if nobody should do that.

    What does not agree with the list of members is found, see `Dossier.findings`, and is not in the folder.
    """
    with tempfile.TemporaryDirectory(prefix="knime-mcp-dossier-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        try:
            with zipfile.ZipFile(file) as archive:
                members = _looked_at(archive, file)
                envelope = _bytes_of(archive, members.pop(LIST))
                payload, signatures = _envelope(envelope)
                listed_digests, about = _statement(payload)
                unpacked, findings = _unpack(archive, members, listed_digests, folder)
        except DossierError as error:
            raise DossierError(f"{file.name} {error}") from None
        # ValueError: zipfile decodes the names of members, which may be no text
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
            raise DossierError(f"{file.name} is no dossier, or damaged: {error}") from None
        yield Dossier(file, folder, about, payload, signatures, unpacked, findings)


def _looked_at(archive: zipfile.ZipFile, file: Path) -> dict[str, zipfile.ZipInfo]:
    """The members by name; `DossierError` for anything that could do harm, or hide something."""
    entries = archive.infolist()
    if len(entries) > _MOST_MEMBERS:
        raise DossierError(f"has {len(entries)} members; {_MOST_MEMBERS} are allowed")
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name = entry.filename
        if not all(_NAME.fullmatch(part) and not _DEVICE.fullmatch(part) for part in name.split("/")):
            raise DossierError(f"has a member called {name[:200]!r}, which may not be a file in its folder")
        if entry.orig_filename != name or name.lower() in found:
            raise DossierError(f"has two members called {name[:200]!r}, or names that differ in case only")
        if entry.comment:
            raise DossierError(f"has a comment at {name[:200]!r}, which no signature covers")
        if stat.S_IFMT(entry.external_attr >> 16) not in {0, stat.S_IFREG}:
            raise DossierError(f"has a member {name[:200]!r} that is a link or a device, and no file")
        if entry.flag_bits & 0x1 or entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise DossierError(f"has a member {name[:200]!r} that is encrypted, or packed in another way")
        # Windows and macOS would unpack `A` over `a`.
        found[name.lower()] = entry
    for name in found:
        if any(other.startswith(f"{name}/") for other in found):
            raise DossierError(f"has a member {name!r} that is a file and a folder")
    _check_places(archive, entries)
    size, packed = sum(entry.file_size for entry in entries), file.stat().st_size
    if size > _HARMLESS_BYTES and size > _MOST_PACKED * packed:
        raise DossierError(f"would be {size:,} bytes, which is {size // packed:,} times its size")
    if size > shutil.disk_usage(tempfile.gettempdir()).free:
        raise DossierError(f"needs {size:,} bytes in {tempfile.gettempdir()}, which has less")
    by_name = {entry.filename: entry for entry in entries}
    if LIST not in by_name or JOURNAL not in by_name:
        raise DossierError(f"is no dossier: it has no {LIST if LIST not in by_name else JOURNAL}")
    return by_name


def _check_places(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> None:
    """Every byte belongs to one member: none before, between, in two of them, or behind the last."""
    stream = cast("Any", archive.fp)
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        # Before the first member there is nothing: a program could stand there, or another archive.
        if not 0 <= entry.header_offset - end <= _LONGEST_DESCRIPTOR * bool(end):
            raise DossierError(f"has bytes before {entry.filename!r} that are in no member, or in two")
        stream.seek(entry.header_offset)
        header = stream.read(_LOCAL_HEADER)
        if header[:4] != b"PK\3\4" or len(header) < _LOCAL_HEADER:
            raise DossierError(f"has no member where {entry.filename!r} should be")
        names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        end = entry.header_offset + _LOCAL_HEADER + names + entry.compress_size
    stream.seek(-_LAST_HEADER, 2)
    is_last = stream.read(4) == b"PK\5\6"
    if archive.comment or not is_last or not 0 <= archive.start_dir - end <= _LONGEST_DESCRIPTOR:
        raise DossierError("has a comment, or bytes behind its last member, which no signature covers")


def _bytes_of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    if entry.file_size > _LARGEST_LIST:
        raise DossierError(f"has a list of members of {entry.file_size:,} bytes")
    return archive.read(entry)


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Others may read the first of two members of one name."""
    found: dict[str, Any] = {}
    for name, value in members:
        if name in found:
            raise ValueError(f"{name[:40]!r} is there twice")
        found[name] = value
    return found


def _envelope(data: bytes) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    try:
        envelope = json.loads(data, object_pairs_hook=_each_once)
        if envelope.keys() - {"payloadType", "payload", "signatures"} or envelope["payloadType"] != _PAYLOAD:
            raise ValueError("it is another envelope")
        signed = tuple(
            (str(entry["keyid"]), base64.b64decode(entry["sig"], validate=True))
            for entry in envelope["signatures"]
        )
        return base64.b64decode(envelope["payload"], validate=True), signed
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise DossierError(f"has a list of members that cannot be read: {error}") from None


def _statement(payload: bytes) -> tuple[dict[str, str], dict[str, Any]]:
    try:
        statement = json.loads(payload)
        if (statement["_type"], statement["predicateType"]) != (_STATEMENT, _PREDICATE):
            raise ValueError("it is a statement of another kind")
        digests = {str(entry["name"]): str(entry["digest"]["sha256"]) for entry in statement["subject"]}
        about = statement["predicate"]
        files = {str(name): str(member) for name, member in about["files"].items()}
        workflows = [str(name) for name in about.get("workflows", [])]
        about = {**about, "files": files, "workflows": workflows, "made": str(about["made"])}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DossierError(f"has a list of members that cannot be read: {error}") from None
    if JOURNAL not in digests:
        raise DossierError(f"is no dossier: its list of members has no {JOURNAL}")
    return digests, about


def _unpack(
    archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], digests: Mapping[str, str], folder: Path
) -> tuple[frozenset[str], tuple[Finding, ...]]:
    """Unpacks what is on the list and has the digest there, but for the journal, which says more itself."""
    wrong, unpacked = list[str](), set[str]()
    for name in digests.keys() - members.keys():
        wrong.append(f"{name} is missing in the dossier.")
    for name, entry in members.items():
        if name not in digests:
            wrong.append(f"{name} was put into the dossier later: it is not on its list of members.")
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            digest = hashlib.sha256()
            with archive.open(entry) as member, target.open("wb") as out:
                while data := member.read(_CHUNK):
                    digest.update(data)
                    out.write(data)
            is_right = digest.hexdigest() == digests[name]
        except (zipfile.BadZipFile, zlib.error, EOFError):
            is_right = False
        if not is_right:
            wrong.append(f"{name} is not what was put into the dossier.")
        if is_right or name.startswith(JOURNAL):
            unpacked.add(name)
        else:
            target.unlink(missing_ok=True)
    return frozenset(unpacked), tuple(Finding(Verdict.ALTERED, text) for text in sorted(wrong))
