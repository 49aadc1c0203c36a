r"""The hash chain of records: the hashed text, and the order of records.

Every run has its own chain, in the order in which its calls finished. A record's hash is::

    "sha256:" + hex(SHA-256(UTF-8(previous hash + "\n" + canonical JSON of the record's texts)))

The texts are those of `FIELDS`, which are all columns of the table *Tool calls* except the two hashes, so
that the table can be verified as well as the journal. Numbers are written in digits, the duration with six
decimals, the time as `utc_text` writes it, the tool in portable form, without the keys of its file stores:
KNIME changes these keys when a workflow is exported or copied. Missing and empty values are left out, as
files such as CSV cannot distinguish them.

The first record of a run follows the empty text or, in a run that resumes an interrupted one, the last record
of the interrupted run. A chain reveals every change to its records, but a person who can write the whole file
can also make a new chain: only a head hash that is kept elsewhere proves that this did not happen.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..types.canonical import canonical_json, without_surrogates
from .record import CallRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIELDS: Final = (
    "tool",
    "tool_name",
    "tool_type",
    "server",
    "digest",
    "run",
    "call",
    "iteration",
    "input_row",
    "arguments",
    "status",
    "result",
    "structured_result",
    "error",
    "started_at",
    "duration",
    "attempts",
    "server_version",
    "protocol",
)
"""Attributes of a record that its hash covers. Paths of saved files are not among them: files move."""

# Texts of a record that are known before its call is answered, and texts that are known only afterwards.
_EARLY_TEXTS: Final = (
    "run",
    "input_row",
    "tool_name",
    "tool_type",
    "server",
    "digest",
    "arguments",
    "started_at",
)
_LATE_TEXTS: Final = ("status", "result", "structured_result", "error", "server_version", "protocol")
_UNHASHED_TEXTS: Final = ("image", "resumed_from")
_early_values: Final = itemgetter("tool", "iteration", *_EARLY_TEXTS)
_late_values: Final = itemgetter("attempts", "duration", "files", *_LATE_TEXTS)
_LONGEST_KEPT: Final = 4_096  # characters; arguments up to this length are cached
_KEYS: Final = {name: f'"{name}":' for name in CallRecord.__dataclass_fields__}
_PREFIX: Final = "sha256:"
_NO_FILE_STORE: Final = '"workflow_filestore":null'


@dataclass(frozen=True, slots=True)
class Link:
    """The part of a record that the chain covers, as texts, which may have been tampered with.

    Attributes:
        texts: Text by field name; missing and empty texts are left out.
        previous: The hash of the record before, as the record states it; "" for none.
        hash: The record's own hash, as the record states it; "" for none.
        place: The record's place in the file or table, for people: ``line 7``, ``row 3``.
    """

    texts: Mapping[str, str]
    previous: str
    hash: str
    place: str

    @property
    def run(self) -> str:
        """Id of the run, "" if it is missing."""
        return self.texts.get("run", "")

    @property
    def call(self) -> int | None:
        """Completion number, or None if the text is not a number."""
        text = self.texts.get("call", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def link_of(values: Mapping[str, Any], place: str) -> Link:
    """The link of a record, from its values by attribute name as `CallRecord.to_json` gives them."""
    texts = {name: text for name in FIELDS if (text := text_of(name, values.get(name)))}
    previous, record_hash = (text_of(name, values.get(name)) for name in ("previous_hash", "hash"))
    return Link(texts, previous, record_hash, place)


def text_of(name: str, value: Any) -> str:
    """The text of a field's value that is hashed, "" for None. In altered files a value may have any type."""
    match value:
        case None:
            return ""
        case str() if name == "tool" and _NO_FILE_STORE not in value:
            return _without_file_store(value)
        case str():
            return value
        case float() | int() if name == "duration":
            return f"{value:.6f}"
        case _:
            return str(value)


def chain_hash(previous: str, texts: Mapping[str, str]) -> str:
    """Computes the hash of a record.

    Args:
        previous: Hash of the record before, "" for the first record.
        texts: Text by field name; only fields of `FIELDS` that are not empty.

    Returns:
        ``sha256:`` and 64 hexadecimal digits.
    """
    return _hash(previous, canonical_json(texts))


def chained(record: CallRecord, previous: str, *, call: int) -> CallRecord:
    """Like `chained_with_text`, but returns only the record."""
    return chained_with_text(record, previous, call=call)[0]


def chained_with_text(record: CallRecord, previous: str, *, call: int) -> tuple[CallRecord, str]:
    """Adds a record to a chain, and makes its line for the journal.

    The hashed text and the line are nearly the same: each value is written once for both.

    Args:
        record: The record.
        previous: Hash of the record before, "" for the first record.
        call: The record's completion number.

    Returns:
        The record with its number and both hashes; the canonical JSON of its `CallRecord.to_json`, with the
        member ``"kind":"call"``.
    """
    values = vars(record)
    early, late = _early_members(values), _late_members(values)
    hashed = [f'"call":"{call}"', *early.hashed, *late.hashed]
    hashed.sort()
    record_hash = _hash(previous, without_surrogates(f"{{{','.join(hashed)}}}"))
    written = ['"kind":"call"', f'"call":{call}', f'"hash":"{record_hash}"', *early.written, *late.written]
    if previous:
        written.append(f'"previous_hash":{encode_basestring(previous)}')
    written.sort()
    placed = record.but(call=call, previous_hash=previous or None, hash=record_hash)
    return placed, without_surrogates(f"{{{','.join(written)}}}")


def prepare(record: CallRecord) -> None:
    """Writes the members that are known before the call is answered into the cache of `chained_with_text`."""
    _early_members(vars(record))


class _Members(NamedTuple):
    """Members of a record's JSON, in the form for the journal and in the form for the hash."""

    written: list[str]
    hashed: list[str]


def _early_members(values: dict[str, Any]) -> _Members:
    """Members that are known before the call is answered."""
    early = _early_values(values)
    kept = len(values["arguments"] or "") <= _LONGEST_KEPT
    return _kept_early_members(early) if kept else _made_early_members(early)


def _made_early_members(values: tuple[Any, ...]) -> _Members:
    tool, iteration, *texts = values
    members = _text_members(_EARLY_TEXTS, texts)
    if tool is not None:
        member, in_hash = _tool_members(tool)
        members.written.append(member)
        if tool:
            members.hashed.append(in_hash)
    _add_number(members, "iteration", iteration, iteration)
    return members


_kept_early_members = lru_cache(maxsize=128)(_made_early_members)


def _late_members(values: dict[str, Any]) -> _Members:
    attempts, duration, files, *texts = _late_values(values)
    members = _text_members(_LATE_TEXTS, texts)
    _add_number(members, "attempts", attempts, attempts)
    if duration is not None:
        _add_number(members, "duration", duration, f"{duration:.6f}")
    if files:
        members.written.append(_KEYS["files"] + canonical_json(files))
    for name in _UNHASHED_TEXTS:
        if values[name] is not None:
            members.written.append(_KEYS[name] + encode_basestring(values[name]))
    return members


def _text_members(names: Sequence[str], values: Sequence[str | None]) -> _Members:
    written: list[str] = []
    hashed: list[str] = []
    for name, value in zip(names, values, strict=True):
        if value is not None:
            member = _KEYS[name] + encode_basestring(value)
            written.append(member)
            if value:
                hashed.append(member)
    return _Members(written, hashed)


def _add_number(members: _Members, name: str, value: float | None, text: object) -> None:
    if value is not None:
        members.written.append(_KEYS[name] + (str(value) if isfinite(value) else canonical_json(value)))
        members.hashed.append(f'{_KEYS[name]}"{text}"')


@lru_cache(maxsize=256)
def _tool_members(tool: str) -> tuple[str, str]:
    """The tool's member as written and as hashed; cached, as it is the same for all calls of the tool."""
    hashed = text_of("tool", tool)
    return f'"tool":{encode_basestring(tool)}', f'"tool":{encode_basestring(hashed)}'


def _hash(previous: str, text: str) -> str:
    return _PREFIX + hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()


def same_hash(one: str, other: str) -> bool:
    """Returns whether two hashes are the same, with or without prefix, in upper or lower case."""
    return _bare(one) == _bare(other)


@lru_cache(maxsize=256)
def _without_file_store(tool: str) -> str:
    try:
        fields = json.loads(tool)
        if fields["workflow_filestore"] is None:
            return tool
        return canonical_json(fields | {"workflow_filestore": None})
    except (ValueError, TypeError, KeyError, RecursionError):
        return tool  # tampered with: hashed unchanged


def _bare(text: str) -> str:
    return text.strip().lower().removeprefix(_PREFIX)
