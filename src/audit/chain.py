r"""The hash chain of records: the hashed text, and the order of records.

Every run has its own chain, in the order in which its calls finished. A record's hash is::

    "sha256:" + hex(SHA-256(UTF-8(previous hash + "\n" + canonical JSON of the record's texts)))

The texts are those of `HASHED`, which are all columns of the table *Tool calls* except the two hashes, so
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

from ..types.texts import canonical_json, without_surrogates
from .record import FIELDS, CallRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .record import FieldKind, Recorded

HASHED: Final = tuple(name for name, field in FIELDS.items() if field.is_hashed)
"""Names of the fields that a record's hash covers."""

_LONGEST_KEPT: Final = 4_096  # characters; arguments up to this length are cached
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
    texts = {name: text for name in HASHED if (text := text_of(FIELDS[name], values.get(name)))}
    previous, record_hash = (text_of(FIELDS[name], values.get(name)) for name in ("previous_hash", "hash"))
    return Link(texts, previous, record_hash, place)


def text_of(field: Recorded, value: Any) -> str:
    """The text of a field's value that is hashed, "" for None. In altered files a value may have any type."""
    match value:
        case None:
            return ""
        case str() if field.kind == "tool" and _NO_FILE_STORE not in value:
            return _without_file_store(value)
        case str():
            return value
        case float() | int() if field.kind == "seconds":
            return f"{value:.6f}"
        case _:
            return str(value)


def chain_hash(previous: str, texts: Mapping[str, str]) -> str:
    """The hash of a record, ``sha256:`` and 64 hexadecimal digits.

    Args:
        previous: Hash of the record before, "" for the first record.
        texts: Text by field name; only those of `HASHED` that are not empty.
    """
    return _hash(previous, canonical_json(texts))


def chained(record: CallRecord, previous: str, *, call: int) -> CallRecord:
    return chained_with_text(record, previous, call=call)[0]


def chained_with_text(record: CallRecord, previous: str, *, call: int) -> tuple[CallRecord, str]:
    """Adds a record to a chain, and makes its line for the journal.

    Returns:
        The record with its completion number and both hashes; the canonical JSON of its `CallRecord.to_json`,
        with the member ``"kind":"call"``.
    """
    # The hashed text and the line are nearly the same: each value is written once for both.
    values = vars(record)
    early, late = _early_members(values), _made_members(_LATE_KEYS, _late_values(values))
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


_early_values: Final = itemgetter(*(name for name, field in FIELDS.items() if field.known == "early"))
_late_values: Final = itemgetter(*(name for name, field in FIELDS.items() if field.known == "late"))


def _keys_of(known: str) -> tuple[tuple[str, FieldKind, bool], ...]:
    """For each field: its key in JSON, its kind, and whether the hash covers it."""
    fields = [field for field in FIELDS.values() if field.known == known]
    return tuple((f'"{field.name}":', field.kind, field.is_hashed) for field in fields)


_EARLY_KEYS, _LATE_KEYS = _keys_of("early"), _keys_of("late")


def _early_members(values: dict[str, Any]) -> _Members:
    """Members that are known before the call is answered."""
    kept = len(values["arguments"] or "") <= _LONGEST_KEPT
    return (_kept_early_members if kept else _made_early_members)(_early_values(values))


def _made_early_members(values: tuple[Any, ...]) -> _Members:
    return _made_members(_EARLY_KEYS, values)


_kept_early_members = lru_cache(maxsize=128)(_made_early_members)


def _made_members(keys: Sequence[tuple[str, FieldKind, bool]], values: tuple[Any, ...]) -> _Members:
    written: list[str] = []
    hashed: list[str] = []
    for (key, kind, is_hashed), value in zip(keys, values, strict=True):
        if value is None or value == ():
            continue
        if kind == "count" or kind == "seconds":
            written.append(key + (str(value) if isfinite(value) else canonical_json(value)))
            text = str(value) if kind == "count" else f"{value:.6f}"
            in_hash = f'{key}"{text}"'
        elif kind == "paths":
            written.append(key + canonical_json(value))
            in_hash = ""
        else:
            member, in_hash = (
                _tool_members(value) if kind == "tool" else (key + encode_basestring(value),) * 2
            )
            written.append(member)
        if is_hashed and value != "":
            hashed.append(in_hash)
    return _Members(written, hashed)


@lru_cache(maxsize=256)
def _tool_members(tool: str) -> tuple[str, str]:
    """The tool's member as written and as hashed; cached, as it is the same for all calls of the tool."""
    hashed = text_of(FIELDS["tool"], tool)
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
