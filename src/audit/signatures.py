"""Signed checkpoints of journals, and the keys that make them.

A checkpoint says how many lines a journal had, and the ``chain`` of the last of them, in the form of a C2SP
signed note (https://c2sp.org/signed-note, Ed25519), which other programs read as well. A time-stamp of the
note (RFC 3161) says when it was there at the latest, and needs a server that the user names. The cryptography
is that of the libraries ``cryptography`` and ``rfc3161-client``, in the extra ``audit``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from ..system import others_may_read, whole_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

_Entry = TypeVar("_Entry")
ORIGIN: Final = "knime-mcp/journal/2"
_KEYRING: Final = "knime-mcp-audit"
_ED25519: Final = b"\x01"
_SEED: Final = 32  # bytes of a private key
_NOTE: Final = re.compile(
    rf"({re.escape(ORIGIN)}\n(0|[1-9][0-9]{{0,17}})\n([A-Za-z0-9+/]{{43}}=)\n([^\n]+)\n)\n"
    r"(?:— (\S+) ([A-Za-z0-9+/]+={0,2})\n)?"
)
_STAMP_SECONDS: Final = 20.0


class SignatureError(ValueError):
    """A key cannot be used, or a server gave no time-stamp; the text says what to do."""

    error_code = "KMCP-SIGNATURE"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signatures are checked with; its text has the form of Go's ``note`` package."""

    name: str
    raw: bytes

    @property
    def id(self) -> bytes:
        # https://c2sp.org/signed-note: the key id is four bytes over the name, a line feed, the type of
        # signature and the key.
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.raw).digest()[:4]

    @property
    def label(self) -> str:
        """Its name and id, by which a signature says whose it is."""
        return f"{self.name}+{self.id.hex()}"

    def __str__(self) -> str:
        return f"{self.label}+{_text(_ED25519 + self.raw)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the text of a key, or raises `SignatureError`."""
        name, _, rest = text.strip().partition("+")
        number, _, data = rest.partition("+")
        try:
            raw = base64.b64decode(data, validate=True)
        except ValueError:  # also of letters that are not ASCII
            raw = b""
        key = cls(name, raw[1:])
        if not name or raw[:1] != _ED25519 or len(raw) != 33 or key.id.hex() != number:
            raise SignatureError(f"{text.strip()[:80]!r} is not a public key as audit key show prints it")
        return key

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        needs_libraries("cryptography")
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, data)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a note says, whoever signed it. It has one signature, or none and a time-stamp beside it."""

    lines: int
    chain: str  # hexadecimal, as in the journal
    at: str
    text: str  # what is signed
    signer: str = ""  # name of the key; "" without a signature
    key: bytes = b""  # its id
    signature: bytes = b""

    @property
    def label(self) -> str:
        """The name and id of the key, by which it says whose it is; "" without a signature."""
        return f"{self.signer}+{self.key.hex()}" if self.signer else ""

    @classmethod
    def parse(cls, note: object) -> Self | None:
        """Reads a note; None if it is not one of a journal, or is written in another way than ours are."""
        match = _NOTE.fullmatch(note) if isinstance(note, str) else None
        if match is None:
            return None
        chain, signed = _decoded(match[3]), _decoded(match[6] or "")
        if chain is None or signed is None:
            return None
        return cls(int(match[2]), chain.hex(), match[4], match[1], match[5] or "", signed[:4], signed[4:])

    def key_of(self, keys: Iterable[PublicKey]) -> PublicKey | None:
        """The one of the keys that it says to be signed with."""
        return next((key for key in keys if (key.name, key.id) == (self.signer, self.key)), None)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key of our own; `private` is None where the system's keyring holds it."""

    public: PublicKey
    made: str
    private: bytes | None

    def sign(self, text: str) -> str:
        """The line of a note with the signature of its text."""
        needs_libraries("cryptography")
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(self.private or _from_keyring(self.public))
        return f"— {self.public.name} {_text(self.public.id + key.sign(text.encode()))}\n"


@dataclass(frozen=True, slots=True)
class Sealer:
    """Makes checkpoints for a journal: signed, time-stamped, or both."""

    key: SigningKey | None
    time_stamps: str | None

    @classmethod
    def of(cls, keys: Path, time_stamps: str | None) -> Self:
        """With the newest of the keys, which is read once. Raises `SignatureError`."""
        own = own_keys(keys)
        if own:
            needs_libraries("cryptography")
        newest = own[-1] if own else None
        if newest is not None and newest.private is not None and others_may_read(keys):
            raise SignatureError(
                f"The keys in {keys} may be read by others, who could sign as you: chmod 600 {keys}, and make"
                " another key with audit key rotate if somebody did"
            )
        # Once, as each reading of a keyring may ask the person.
        if newest is not None and newest.private is None:
            newest = replace(newest, private=_from_keyring(newest.public))
        return cls(newest, time_stamps)

    def note(self, lines: int, chain: str, at: str, *, signed: bool = True) -> str:
        text = f"{ORIGIN}\n{lines}\n{_text(bytes.fromhex(chain))}\n{at}\n"
        return f"{text}\n{self.key.sign(text) if signed and self.key is not None else ''}"

    def time_stamp(self, note: str) -> str | None:
        """A time-stamp of a note, in base64; None if no server was named. Raises `SignatureError`."""
        if self.time_stamps is None:
            return None
        needs_libraries("cryptography", "rfc3161_client")
        import httpx
        from rfc3161_client import TimestampRequestBuilder, decode_timestamp_response

        request = TimestampRequestBuilder().data(note.encode()).build()
        headers = {"Content-Type": "application/timestamp-query"}
        try:
            answer = httpx.post(
                self.time_stamps, content=request.as_bytes(), headers=headers, timeout=_STAMP_SECONDS
            )
            answer.raise_for_status()
            # Only to see whether it is one, before it goes into the journal.
            decode_timestamp_response(answer.content)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise SignatureError(f"{self.time_stamps} gave no time-stamp: {error}") from None
        return _text(answer.content)


def stamped_at(token: str, note: str, roots: Sequence[bytes]) -> tuple[datetime, bool] | None:
    """When a time-stamp was made, and whether one of the certificates (PEM) vouches for it.

    None if it is not one of this note.
    """
    needs_libraries("cryptography", "rfc3161_client")
    import rfc3161_client as rfc3161
    from cryptography.x509 import load_pem_x509_certificates

    data = _decoded(token)
    if data is None:
        return None
    try:
        response = rfc3161.decode_timestamp_response(data)
        info = response.tst_info
        # RFC 5754, section 2, has these numbers.
        algorithm = {"2.16.840.1.101.3.4.2.1": "sha256", "2.16.840.1.101.3.4.2.3": "sha512"}
        name = algorithm.get(info.message_imprint.hash_algorithm.dotted_string)
        if name is None or hashlib.new(name, note.encode()).digest() != info.message_imprint.message:
            return None
    except ValueError:
        return None
    # Without certificates to trust, a time is a claim.
    if not roots:
        return info.gen_time, False
    builder = rfc3161.VerifierBuilder()
    for pem in roots:
        for certificate in load_pem_x509_certificates(pem):
            builder = builder.add_root_certificate(certificate)
    try:
        return info.gen_time, builder.build().verify_message(response, note.encode())
    except rfc3161.VerificationError:
        return info.gen_time, False


def own_keys(file: Path) -> list[SigningKey]:
    """Our keys, the newest last; none without the file. Raises `SignatureError`."""
    return _entries_of(file, _own_key, "make another key with audit key new")


def known_keys(file: Path) -> dict[PublicKey, str]:
    """Other people's public keys, and whose they are; none without the file. Raises `SignatureError`."""
    return dict(_entries_of(file, _known_key, "name the keys anew with audit trust"))


def _entries_of(file: Path, read: Callable[[Any], _Entry], otherwise: str) -> list[_Entry]:
    data = b""
    try:
        data = file.read_bytes()
        entries = [read(entry) for entry in json.loads(data)["keys"]]
        why = "it holds no key"
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        entries, why = [], (error.strerror or str(error)).lower()
    except (ValueError, KeyError, TypeError, RecursionError):
        entries, why = [], "it is not as it was written" if data.strip() else "it is empty"
    if not entries:
        raise SignatureError(
            f"The keys in {file} cannot be read: {why}. Restore the file, or put it elsewhere and {otherwise}"
        )
    return entries


def _known_key(entry: Any) -> tuple[PublicKey, str]:
    return PublicKey.parse(entry["public"]), str(entry["name"])


def _own_key(entry: Any) -> SigningKey:
    private = base64.b64decode(entry["private"], validate=True) if entry.get("private") else None
    if private is not None and len(private) != _SEED:
        raise ValueError("a private key that is cut")
    return SigningKey(PublicKey.parse(entry["public"]), str(entry["made"]), private)


def add_key(file: Path, name: str, made: str, *, keyring: bool) -> PublicKey:
    """Makes a key, which signs from now on; the others stay, so that what they signed can be checked."""
    needs_libraries("cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    made_key = Ed25519PrivateKey.generate()
    private, public = made_key.private_bytes_raw(), PublicKey(name, made_key.public_key().public_bytes_raw())
    own = own_keys(file)
    if keyring:
        _into_keyring(public, private)
    new = SigningKey(public, made, None if keyring else private)
    entries = [
        {"public": str(key.public), "made": key.made}
        | ({"private": _text(key.private)} if key.private is not None else {})
        for key in [*own, new]
    ]
    _write(file, entries, "No key was made")
    return public


def trust_key(file: Path, key: PublicKey, name: str) -> None:
    """Remembers whose key it is, so that its signatures count. Raises `SignatureError`."""
    known = known_keys(file) | {key: name}
    entries = [{"name": whose, "public": str(each)} for each, whose in known.items()]
    _write(file, entries, "The key is not remembered")


def _write(file: Path, entries: list[dict[str, str]], otherwise: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A crash leaves the old file or the new one.
        with whole_file(file, private=True) as part:
            part.write_text(json.dumps({"keys": entries}, indent=1), encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SignatureError(f"{otherwise}, as {file} cannot be written: {why}") from None


def needs_libraries(*libraries: str) -> None:
    """Raises `SignatureError` where the libraries for signatures are not installed."""
    if not all(map(find_spec, libraries)):
        raise SignatureError("Signatures need two libraries more: pip install 'knime-mcp[audit]'")


def _into_keyring(key: PublicKey, private: bytes) -> None:
    import keyring
    from keyring.errors import KeyringError

    try:
        keyring.set_password(_KEYRING, str(key), _text(private))
    except KeyringError as error:
        raise SignatureError(f"The system's keyring does not take the key: {error}") from None


def _from_keyring(key: PublicKey) -> bytes:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise SignatureError("The key is in the system's keyring, which needs: pip install keyring") from None
    try:
        found = keyring.get_password(_KEYRING, str(key))
    except KeyringError as error:
        raise SignatureError(f"The system's keyring gives no key: {error}") from None
    if found is None:
        raise SignatureError(f"The system's keyring has no key {key.name}; audit key rotate makes another")
    return base64.b64decode(found)


def _decoded(text: str) -> bytes | None:
    """Reads base64; None if it is none, or is written otherwise than `_text` does: bits may be left over."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return data if _text(data) == text else None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
