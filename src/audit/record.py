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
from typing import TYPE_CHECKING, Any, Final, Self, cast

from ..types.canonical import without_surrogates
from ..types.errors import ArgumentsInvalid, Canceled, ToolNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping


_COUNTS: Final = frozenset({"call", "iteration", "attempts"})
_NUMBERS: Final = _COUNTS | {"duration"}
_REPEATED: Final = frozenset({"run", "tool", "tool_name", "server", "digest"})
_LONGEST: Final = 1e12
"""Seconds; a duration in a file must be below this, and so cannot be infinite."""


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


# Without slots, so that a record can be copied as a dict.
@dataclass(frozen=True, kw_only=True)
class CallRecord:
    """The record of one call.

    Attributes:
        run: Id of the run that the call belongs to.
        call: Completion number in the run, from 1; 0 until a journal has taken the record.
        iteration: The agent's turn, or None outside an agent.
        input_row: RowID of the row of parameters, or None for a single call.
        tool: The tool in portable form (JSON text), or None if it is not known.
        tool_name: The name shown to people.
        tool_type: ``workflow`` or ``mcp``; None if the tool is not known.
        server: The server's URL without secrets, or None.
        digest: Digest of the definition that was called, for a workflow the digest of its file; or None.
        arguments: The arguments as sent, canonical JSON, secrets marked; None if they could not be read.
        status: The end of the call.
        result: Text for people, or None.
        structured_result: Canonical JSON, or None if the server sent no structured result.
        error: The error with the next step, as one text, or None.
        files: Paths of the result's blobs, saved as files.
        image: Path of the first PNG image among the files, or None.
        started_at: The beginning of the call, see `utc_text`; None if the call never began.
        duration: Seconds from the beginning to the end of the call, retries included.
        attempts: The number of times that the call was sent; 0 if it was never sent.
        server_version: The server's name and version, as the server reports them, or None.
        protocol: The protocol revision that was used, or None.
        resumed_from: Id of the earlier run in whose journal the call was found, or None.
        previous_hash: Hash of the record before in the chain, None for the first record; see `chain`.
        hash: Hash of this record, None until a journal has taken it.
    """

    run: str
    call: int = 0
    iteration: int | None = None
    input_row: str | None = None
    tool: str | None = None
    tool_name: str | None = None
    tool_type: str | None = None
    server: str | None = None
    digest: str | None = None
    arguments: str | None = None
    status: CallStatus
    result: str | None = None
    structured_result: str | None = None
    error: str | None = None
    files: tuple[str, ...] = ()
    image: str | None = None
    started_at: str | None = None
    duration: float | None = None
    attempts: int = 0
    server_version: str | None = None
    protocol: str | None = None
    resumed_from: str | None = None
    previous_hash: str | None = None
    hash: str | None = None

    @property
    def ok(self) -> bool:
        """True if the call returned a result."""
        return self.status is CallStatus.OK

    @property
    def moment(self) -> datetime | None:
        """`started_at` as a moment in UTC; an edited file may have a text without a zone."""
        if self.started_at is None:
            return None
        moment = datetime.fromisoformat(self.started_at)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

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
        known = {field.name for field in dataclasses.fields(cls)}
        values = {name: _checked(name, value) for name, value in data.items() if name in known}
        try:
            values["status"] = CallStatus(values["status"])
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a record of a call: {error}") from error


@lru_cache(maxsize=64)
def _one(text: str) -> str:
    """The same text object for all records with an equal text: the tool is the largest part of a record."""
    return text


def _checked(name: str, value: Any) -> Any:
    """Checks that a value fits its attribute: a file may hold anything, and tables need these types."""
    match value:
        case bool():
            pass
        case str() if name not in _NUMBERS and name != "files":
            if name == "started_at":
                datetime.fromisoformat(value)
            text = without_surrogates(value)
            return _one(text) if name in _REPEATED else text
        case int() if name in _COUNTS and 0 <= value < 1 << 31:
            return value
        case int() | float() if name == "duration" and abs(value) < _LONGEST:
            return float(value)
        case list() if name == "files" and all(isinstance(path, str) for path in cast("list[Any]", value)):
            return tuple(map(without_surrogates, cast("list[str]", value)))
        case None if name not in ("run", "call", "attempts", "files", "status"):
            return None
        case _:
            pass
    raise ValueError(f"not a record of a call: {name!r} cannot be {str(value)[:80]!r}")
