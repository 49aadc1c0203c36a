"""The record of one call: a frozen value that tables, journals and views are made from.

A record holds text only (JSON as canonical JSON text, times as UTC with microseconds), so that the same
call gives the same record wherever it is read, and so that a record can be hashed.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, cast, get_type_hints

from ..types.errors import ArgumentsInvalid, Canceled, ToolNotFound
from ..types.texts import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


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
    """What is known of a field of the record, beside its name and type.

    Attributes:
        meaning: One sentence, for people and for the documentation.
        column: The field's column in tables *Tool calls*, None without one.
        kind: See `FieldKind`.
        known: When the value is known: before the call is answered, with the answer, or when a journal takes
            the record.
        shared: Whether many records of a file have the same value, of which one is kept.
        name: The field's name.
        optional: Whether the value may be None.
    """

    meaning: str
    column: str | None = None
    kind: FieldKind = "text"
    known: Literal["early", "late", "chained"] = "late"
    shared: bool = False
    name: str = ""
    optional: bool = True

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
        Recorded("The tool in portable form (JSON text).", "Tool", "tool", "early", shared=True),
    ] = None
    tool_name: Annotated[
        str | None, Recorded("The name shown to people.", "Tool name", known="early", shared=True)
    ] = None
    tool_type: Annotated[str | None, Recorded("`workflow` or `mcp`.", "Tool type", known="early")] = None
    server: Annotated[
        str | None, Recorded("The server's URL without secrets.", "Server", known="early", shared=True)
    ] = None
    digest: Annotated[
        str | None,
        Recorded(
            "Digest of the definition that was called; for a workflow, of its file.",
            "Digest",
            known="early",
            shared=True,
        ),
    ] = None
    run: Annotated[
        str, Recorded("Id of the run that the call belongs to.", "Run", known="early", shared=True)
    ]
    call: Annotated[
        int,
        Recorded(
            "Completion number in the run, from 1; 0 until a journal has taken the record.",
            "Call",
            "count",
            "chained",
        ),
    ] = 0
    iteration: Annotated[int | None, Recorded("The agent's turn.", "Iteration", "count", "early")] = None
    input_row: Annotated[
        str | None, Recorded("RowID of the row of parameters.", "Input row", known="early")
    ] = None
    arguments: Annotated[
        str | None,
        Recorded("The arguments as sent, canonical JSON, secrets marked.", "Arguments", "json", "early"),
    ] = None
    status: Annotated[CallStatus, Recorded("The end of the call.", "Status", "status")]
    result: Annotated[str | None, Recorded("The result as text for people.", "Result")] = None
    structured_result: Annotated[
        str | None, Recorded("The structured result, canonical JSON.", "Structured result", "json")
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
            "early",
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
    resumed_from: Annotated[
        str | None, Recorded("Id of the earlier run in whose journal the call was found.")
    ] = None
    previous_hash: Annotated[
        str | None,
        Recorded("Hash of the record before; none for the first record.", "Previous hash", "hash", "chained"),
    ] = None
    hash: Annotated[str | None, Recorded("Hash of this record, see `chain`.", "Hash", "hash", "chained")] = (
        None
    )

    @property
    def ok(self) -> bool:
        """True if the call returned a result."""
        return self.status is CallStatus.OK

    @property
    def moment(self) -> datetime | None:
        return moment_of(self.started_at)

    def but(self, **values: Any) -> Self:
        """A copy with other values, like `dataclasses.replace` but ten times faster."""
        copy = object.__new__(type(self))
        object.__setattr__(copy, "__dict__", vars(self) | values)
        return copy

    def to_json(self) -> dict[str, Any]:
        """Turns the record into a JSON object with one key per attribute; absent attributes are left out."""
        members = vars(self) | {"status": self.status.value, "files": list(self.files)}
        return {name: value for name, value in members.items() if value is not None and value != []}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Reads the result of `to_json`; keys of later versions of the record are ignored.

        Raises:
            ValueError: A key is missing, a value has another type, or the status is unknown.
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
