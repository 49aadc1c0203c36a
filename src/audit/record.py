r"""The record of one call, a frozen value that tables, journals and views are made from; its hash.

A record holds text only (JSON as canonical JSON text, times as UTC with microseconds), so that the same
call gives the same record wherever it is read, and so that a record can be hashed.

Every run has its own hash chain, in the order in which its calls finished. A record's hash is::

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

import dataclasses
import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, cast, get_type_hints

from ..client.protocol.tools import AudioContent, EmbeddedResource, ImageContent, TextContent
from ..types.errors import ArgumentsInvalid, Canceled, ToolNotFound
from ..types.texts import canonical_json, without_surrogates

try:
    import orjson as _orjson
except ImportError:  # optional: orjson comes with LangChain, on platforms that have it
    _orjson = None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..client.protocol.tools import ContentBlock
    from ..types.columns import ColumnKind


class CallStatus(StrEnum):
    """The end of a call; the text of the *Status* column."""

    OK = "ok"
    TOOL_ERROR = "tool error"
    """The tool ran and reported that it failed (MCP: ``isError``)."""
    INVALID_ARGUMENTS = "invalid arguments"
    """The arguments violate the tool's schema; nothing was sent."""
    NOT_FOUND = "not found"
    """Neither the run's tools nor the server's contain the tool."""
    DENIED = "denied"
    """A policy or a person did not allow the call; nothing was sent."""
    FAILED = "failed"
    """Connection, protocol, time limit, size limit, or a definition that changed."""
    UNKNOWN = "outcome unknown"
    """The call was sent to a tool that may change something, and nobody knows whether it was carried out."""
    CANCELED = "canceled"
    """The run was stopped before the call finished, or before it began."""


def status_of(error: BaseException) -> CallStatus:
    """The status of a call that ended with an error.

    Never `CallStatus.OK` or `CallStatus.TOOL_ERROR`: a failure reported by the tool is a result.
    """
    match error:
        case ArgumentsInvalid():
            return CallStatus.INVALID_ARGUMENTS
        case ToolNotFound():
            return CallStatus.NOT_FOUND
        case Canceled():
            return CallStatus.CANCELED
        case _:
            return CallStatus.FAILED


def utc_text(moment: datetime) -> str:
    """The text of a moment in records: ISO 8601 in UTC, always with microseconds.

    For example ``2026-01-31T12:00:00.000000Z``.
    """
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def moment_of(text: str | None) -> datetime | None:
    """The moment, in UTC, of a text that `utc_text` wrote; an edited file may have a text without a zone."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


FieldKind = Literal["text", "json", "tool", "status", "moment", "count", "seconds", "paths", "hash"]
"""What values a field has. All but counts, seconds and paths are texts."""

_COLUMN_KINDS: Final[dict[FieldKind, ColumnKind]] = {
    "moment": "moment",
    "count": "int32",
    "seconds": "double",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is known of a field of the record, beside its name and type."""

    meaning: str  # one sentence, for people and for the documentation
    column: str | None = None  # in tables *Tool calls*; None without one
    kind: FieldKind = "text"
    shared: bool = False
    """Whether many records of a file have the same value, of which one is kept."""
    later: bool = False
    """Whether tables of earlier versions have no such column."""
    name: str = ""
    optional: bool = True  # whether the value may be None

    @property
    def is_hashed(self) -> bool:
        """The hash covers what is in the table, so that tables can be verified. Files move: no paths."""
        return self.column is not None and self.kind != "hash"

    @property
    def column_kind(self) -> ColumnKind:
        return _COLUMN_KINDS.get(self.kind, "string")


# Without slots, so that a record can be copied as a dict.
@dataclass(frozen=True, kw_only=True)
class CallRecord:
    """The record of one call. This is the one place where its fields stand, in the order of the columns.

    `FIELDS`, the columns of tables, the texts that are hashed, what is checked on reading, and the list in
    ``docs/audit.md`` are made from it. A field with the default None is left out where it is None, so that
    records of earlier versions keep their hashes.
    """

    tool: Annotated[
        str | None,
        Recorded("The tool in portable form (JSON text).", "Tool", "tool", shared=True),
    ] = None
    tool_name: Annotated[str | None, Recorded("The name shown to people.", "Tool name", shared=True)] = None
    tool_type: Annotated[str | None, Recorded("`workflow` or `mcp`.", "Tool type")] = None
    server: Annotated[str | None, Recorded("The server's URL without secrets.", "Server", shared=True)] = None
    digest: Annotated[
        str | None,
        Recorded(
            "Digest of the definition that was called; for a workflow, of its file.",
            "Digest",
            shared=True,
        ),
    ] = None
    run: Annotated[str, Recorded("Id of the run that the call belongs to.", "Run", shared=True)]
    call: Annotated[
        int,
        Recorded(
            "Completion number in the run, from 1; 0 until a journal has taken the record.",
            "Call",
            "count",
        ),
    ] = 0
    iteration: Annotated[int | None, Recorded("The agent's turn.", "Iteration", "count")] = None
    decision: Annotated[
        str | None,
        Recorded(
            "What was decided about the call before it was made, and by whom; what was converted.",
            "Decision",
        ),
    ] = None
    asked: Annotated[
        float | None,
        Recorded(
            "Seconds that the question stood before a person decided about the call.",
            "Asked (s)",
            "seconds",
            later=True,
        ),
    ] = None
    input_row: Annotated[str | None, Recorded("RowID of the row of parameters.", "Input row")] = None
    arguments: Annotated[
        str | None,
        Recorded("The arguments as sent, canonical JSON, secrets marked.", "Arguments", "json"),
    ] = None
    status: Annotated[CallStatus, Recorded("The end of the call.", "Status", "status")]
    result: Annotated[str | None, Recorded("The result as text for people.", "Result")] = None
    structured_result: Annotated[
        str | None,
        Recorded("The structured result, as JSON in its own order.", "Structured result", "json"),
    ] = None
    content: Annotated[
        str | None,
        Recorded(
            "The blocks of the result, canonical JSON: kind, SHA-256, and for pictures and other blobs media"
            " type and size; the files are these blobs, in this order.",
            "Content",
            "json",
            later=True,
        ),
    ] = None
    error: Annotated[str | None, Recorded("The error with the next step, as one text.", "Error")] = None
    files: Annotated[
        tuple[str, ...], Recorded("Paths of the result's blobs, saved as files.", kind="paths")
    ] = ()
    image: Annotated[str | None, Recorded("Path of the first PNG image among the files.")] = None
    started_at: Annotated[
        str | None,
        Recorded(
            "The beginning of the call, in UTC with microseconds; none if it never began.",
            "Started at",
            "moment",
        ),
    ] = None
    duration: Annotated[
        float | None,
        Recorded(
            "Seconds from the beginning to the end of the call, retries included.", "Duration (s)", "seconds"
        ),
    ] = None
    attempts: Annotated[
        int, Recorded("How many times the call was sent; 0 if it never was.", "Attempts", "count")
    ] = 0
    server_version: Annotated[
        str | None, Recorded("The server's name and version, as the server reports them.", "Server version")
    ] = None
    protocol: Annotated[str | None, Recorded("The protocol revision that was used.", "Protocol")] = None
    secrets: Annotated[
        str | None,
        Recorded(
            "What was hidden, canonical JSON: the salt of the marks, their digests in the arguments by JSON"
            " pointer, and how often each stands in the answer.",
            "Secrets",
            "json",
            later=True,
        ),
    ] = None
    resumed_from: Annotated[
        str | None, Recorded("Id of the earlier run in whose journal the call was found.")
    ] = None
    key: Annotated[
        str | None,
        Recorded("The idempotency key of a call that must not be made twice, as in its line *sent*."),
    ] = None
    previous_hash: Annotated[
        str | None,
        Recorded("Hash of the record before; none for the first record.", "Previous hash", "hash"),
    ] = None
    hash: Annotated[str | None, Recorded("Hash of this record.", "Hash", "hash")] = None

    @property
    def ok(self) -> bool:
        return self.status is CallStatus.OK

    @property
    def moment(self) -> datetime | None:
        return moment_of(self.started_at)

    @property
    def named(self) -> str:
        """Its tool and row, for people."""
        return f"{self.tool_name}{'' if self.input_row is None else f' (row {self.input_row})'}"

    def but(self, **values: Any) -> Self:
        """A copy with other values, like `dataclasses.replace` but ten times faster."""
        copy = object.__new__(type(self))
        object.__setattr__(copy, "__dict__", vars(self) | values)
        return copy

    def to_json(self) -> dict[str, Any]:
        """A JSON object with one key per attribute; absent attributes are left out."""
        members = vars(self) | {"status": self.status.value, "files": list(self.files)}
        return {name: value for name, value in members.items() if value is not None and value != []}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Reads the result of `to_json`; keys of later versions of the record are ignored.

        Raises `ValueError` if a key is missing, a value has another type, or the status is unknown.
        """
        values = {name: _checked(FIELDS[name], value) for name, value in data.items() if name in FIELDS}
        try:
            values["status"] = CallStatus(values["status"])
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a record of a call: {error}") from error


def _fields() -> dict[str, Recorded]:
    notes = get_type_hints(CallRecord, include_extras=True)
    return {
        field.name: dataclasses.replace(
            notes[field.name].__metadata__[0], name=field.name, optional=field.default is None
        )
        for field in dataclasses.fields(CallRecord)
    }


FIELDS: Final = _fields()
"""The fields of a record by their names, in the order of the columns."""

_LONGEST: Final = 1e12
"""Seconds; a duration in a file must be below this, and so cannot be infinite."""


@lru_cache(maxsize=64)
def _one(text: str) -> str:
    """The same text object for all records with an equal text: the tool is the largest part of a record."""
    return text


def _checked(field: Recorded, value: Any) -> Any:
    """Checks that a value fits its field: a file may hold anything, and tables need these types."""
    match value:
        # Before the numbers, as a bool is an int in Python, and no field is one.
        case bool():
            pass
        case None if field.optional:
            return None
        case str() if field.kind not in ("count", "seconds", "paths"):
            if field.kind == "moment":
                datetime.fromisoformat(value)
            text = without_surrogates(value)
            return _one(text) if field.shared else text
        case int() if field.kind == "count" and 0 <= value < 1 << 31:
            return value
        case int() | float() if field.kind == "seconds" and abs(value) < _LONGEST:
            return float(value)
        case list() if field.kind == "paths" and all(
            isinstance(path, str) for path in cast("list[Any]", value)
        ):
            return tuple(map(without_surrogates, cast("list[str]", value)))
        case _:
            pass
    raise ValueError(f"not a record of a call: {field.name!r} cannot be {str(value)[:80]!r}")


HASHED: Final = tuple(name for name, field in FIELDS.items() if field.is_hashed)
"""Names of the fields that a record's hash covers."""
_HASHED: Final = frozenset(HASHED)
_SECONDS: Final = tuple(name for name, field in FIELDS.items() if field.kind == "seconds")
_MOST_SECONDS: Final = 1e300  # more, in an altered file, could not be written with six decimals
_NO_FILE_STORE: Final = '"workflow_filestore":null'


@dataclass(frozen=True, slots=True)
class Link:
    """The part of a record that the chain covers, as texts, which may have been tampered with."""

    texts: Mapping[str, str]  # by field name; missing and empty texts are left out
    previous: str  # hash of the record before, as the record states it; "" for none
    hash: str  # the record's own hash, as the record states it; "" for none
    place: str  # in the file or table, for people: "line 7", "row 3"

    @property
    def run(self) -> str:
        return self.texts.get("run", "")

    @property
    def call(self) -> int | None:
        """Completion number, or None if the text is not a number."""
        text = self.texts.get("call", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def link_of(values: Mapping[str, Any], place: str) -> Link:
    """The link of a record, from its values by attribute name as `CallRecord.to_json` gives them."""
    previous, record_hash = (text_of(FIELDS[name], values.get(name)) for name in ("previous_hash", "hash"))
    return Link(_hashed_texts(values), previous, record_hash, place)


def _hashed_texts(values: Mapping[str, Any]) -> dict[str, str]:
    # Most values are texts, and a journal may have a million records.
    return {
        name: text
        for name, value in values.items()
        if value is not None
        and name in _HASHED
        and (text := value if type(value) is str and name != "tool" else text_of(FIELDS[name], value))
    }


def text_of(field: Recorded, value: Any) -> str:
    """The text of a field's value that is hashed, "" for None. In altered files a value may have any type."""
    match value:
        case None:
            return ""
        # A file store is a place in one workflow: the same tool in another one must have the same hash.
        case str() if field.kind == "tool" and _NO_FILE_STORE not in value:
            return _without_file_store(value)
        case str():
            return value
        case float() | int() if field.kind == "seconds" and abs(value) < _MOST_SECONDS:
            # With a fixed number of digits, as programs that read a double write it in many ways.
            return f"{value:.6f}"
        case _:
            return str(value)


def chain_hash(previous: str, texts: Mapping[str, str]) -> str:
    """The hash of a record after another, "" for none, from its texts of `HASHED` that are not empty."""
    digest = hashlib.sha256(f"{previous}\n".encode(errors="surrogatepass"))
    digest.update(simple_json(texts))  # by itself, as it may be large
    return f"sha256:{digest.hexdigest()}"


def chained(record: CallRecord, previous: str, *, call: int) -> CallRecord:
    """Adds a record to a chain."""
    texts = {**_hashed_texts(vars(record)), "call": str(call)}
    return record.but(call=call, previous_hash=previous or None, hash=chain_hash(previous, texts))


def line_of(record: CallRecord) -> bytes:
    """The line of a record in the journal: its `CallRecord.to_json` and ``"kind":"call"``, canonical JSON."""
    members = {name: value for name, value in vars(record).items() if value is not None and value != ()}
    members["kind"] = "call"
    seconds = (members.get(name) or 1.0 for name in _SECONDS)
    # orjson writes very small and very large ones in another form than Python does.
    if all(1e-4 <= number < _LONGEST for number in seconds):
        return simple_json(members)
    return canonical_json(members).encode()


def simple_json(value: Mapping[str, Any] | list[Any]) -> bytes:
    """`canonical_json` of texts, whole numbers and usual fractions: the same bytes, five times as fast."""
    if _orjson is not None:
        try:
            return _orjson.dumps(value, option=_orjson.OPT_SORT_KEYS)
        except TypeError:  # a lone surrogate
            pass
    return canonical_json(value).encode()


def line_chain(previous: str, text: bytes | memoryview) -> str:
    """The ``chain`` of a line, 64 hexadecimal digits.

    Args:
        previous: The ``chain`` of the line before; "" for the first line.
        text: The line up to the comma before its ``chain``.
    """
    digest = hashlib.sha256(b"%b\n" % previous.encode())
    digest.update(text)  # by itself, as it may be large
    return digest.hexdigest()


def content_digests(blocks: Iterable[ContentBlock], hidden: Callable[[Any], Any]) -> str:
    """The field `content` of a record; ``hidden`` marks the secrets in a text or a JSON value."""
    return simple_json([_digest_of(block, hidden) for block in blocks]).decode()


def blobs_of(content: str | None) -> list[dict[str, Any]]:
    """The blocks of a record's ``content`` that files were saved of, in their order."""
    return [block for block in json.loads(content or "[]") if "size" in block]


def _digest_of(block: ContentBlock, hidden: Callable[[Any], Any]) -> dict[str, Any]:
    match block:
        case TextContent(text=text):
            return {"type": "text", "sha256": _hash_of(cast("str", hidden(text)))}
        case ImageContent(data=data, mime_type=mime_type):
            kind = "image"
        case AudioContent(data=data, mime_type=mime_type):
            kind = "audio"
        case EmbeddedResource(blob=bytes(data), mime_type=mime_type):
            kind = "resource"
        case _:
            kind = str(block.raw.get("type", ""))
            return {"type": kind, "sha256": _hash_of(canonical_json(hidden(block.raw)))}
    sha256 = hashlib.sha256(data).hexdigest()
    return {"type": kind, "sha256": sha256, "mime_type": mime_type or "", "size": len(data)}


def _hash_of(text: str) -> str:
    digest = hashlib.sha256()
    for at in range(0, len(text), _PIECE):  # each call in flight would copy its large text
        digest.update(text[at : at + _PIECE].encode(errors="replace"))
    return digest.hexdigest()


_PIECE: Final = 1 << 20
_MARK: Final = re.compile(r"⟨secret [0-9a-f]{12}⟩")


def plan_digest(record: CallRecord) -> str:
    """The digest of a call's row, tool, server and arguments. It holds no secrets, as they are marked."""
    arguments = record.arguments
    if arguments is not None and "⟨" in arguments:
        arguments = _MARK.sub("⟨secret⟩", arguments)  # the digest in a mark is another one in each run
    parts = simple_json([record.input_row, record.tool_name, record.server, arguments])
    return hashlib.sha256(parts).hexdigest()


@lru_cache(maxsize=256)
def _without_file_store(tool: str) -> str:
    try:
        fields = json.loads(tool)
        if fields["workflow_filestore"] is None:
            return tool
        return canonical_json(fields | {"workflow_filestore": None})
    except (ValueError, TypeError, KeyError, RecursionError):
        return tool  # tampered with: hashed unchanged
