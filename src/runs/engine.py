"""A run: what is one for all calls that belong together, and the way of each of them, from gate to record."""

from __future__ import annotations

import itertools
import mimetypes
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..audit.journal import Journal, new_run_id
from ..types.errors import MCPError
from .definitions import Pinning
from .one_call import failed_call, recorded_call

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..audit.secrets import SecretMarker
    from ..client.mcp_client import Progress, SessionPool
    from ..types.tool import WorkflowTool
    from .definitions import Definitions
    from .one_call import CallOutcome, PlannedCall

FILES: Final = "mcp-files"
_UNFIT_FOR_FILES: Final = re.compile(r"[^\w.-]+")
_LONGEST_NAME: Final = 40  # file systems take 255 bytes
_ENDINGS: Final = {"audio/wav": ".wav", "audio/wave": ".wav", "audio/mp3": ".mp3", "audio/webm": ".weba"}
"""File endings for media types that Python's `mimetypes` does not know."""

WorkflowRunner: TypeAlias = (
    "Callable[[WorkflowTool, dict[str, Any], tuple[Any, ...]], tuple[str, tuple[Any, ...]]]"
)
"""Runs a workflow tool with its parameters and a table per input port; returns message and output tables."""


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may be made."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call must not be made; the reason is its error."""

    reason: MCPError


GateAnswer: TypeAlias = Allow | Deny
"""What a gate says of a call. Asking a person, and changing the call, will be further answers."""


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """What the calls of one run share, and their way. Its calls may be made in several threads.

    Attributes:
        id: Id of the run.
        pool: The sessions.
        definitions: The servers' current definitions of tools.
        secrets: Marks secrets in records.
        pinning: The action for a tool that changed since it was chosen.
        gate: Decides about each call before anything is checked; None allows all calls.
        run_workflow: Runs a workflow tool with arguments and input tables, and returns its message and output
            tables; None if the host cannot run workflows.
        workflow_digest: Computes the digest of a tool's workflow; None if the host cannot. Called in the same
            thread as ``run_workflow``.
        save_blob: Saves a blob of a call's result and returns the path; None: blobs are not saved.
        is_canceled: Ends waiting.
        on_progress: Called with the progress that tools report, in the thread of the call or of a reader.
        make: Makes a call elsewhere, such as on a worker, and returns its outcome; None: here.
        journal: The journal that the records are added to, None for none; see `open_journal`.
    """

    pool: SessionPool
    definitions: Definitions
    secrets: SecretMarker
    id: str = field(default_factory=new_run_id)
    pinning: Pinning = Pinning.WARN
    gate: Callable[[PlannedCall], GateAnswer] | None = None
    run_workflow: WorkflowRunner | None = None
    workflow_digest: Callable[[WorkflowTool], str | None] | None = None
    save_blob: Callable[[PlannedCall, int, bytes, str], str] | None = None
    is_canceled: Callable[[], bool] | None = None
    on_progress: Callable[[Progress], None] | None = None
    make: Callable[[PlannedCall], CallOutcome] | None = None
    journal: Journal | None = None

    def open_journal(
        self,
        file: Path,
        *,
        about: str,
        calls: int | None = None,
        append: bool = False,
        follows: str = "",
    ) -> Journal:
        """Opens the journal of the run; from now on, every call is written there before it is handed on.

        Args:
            file: The file; its folder is created.
            about: The tool and settings of the run, without secrets.
            calls: The number of calls, if known.
            append: Whether the file may hold other runs.
            follows: Hash of the last record of the run that this one resumes, "" for none.

        Raises:
            JournalError: The file to append to is not a journal.
            OSError: The file cannot be written, or is not empty although ``append`` is False.
        """
        self.journal = Journal(file, run=self.id, about=about, calls=calls, append=append, follows=follows)
        return self.journal

    def call(self, plan: PlannedCall) -> CallOutcome:
        """Makes a call: gate, check, send, record, journal. Errors are part of the outcome.

        Raises:
            JournalWriteError: The call was made, and cannot be written. No further calls should be made.
        """
        plan = self.gated(plan)
        return self.kept(recorded_call(plan, self) if self.make is None else self.make(plan))

    def not_made(self, plan: PlannedCall, error: Exception) -> CallOutcome:
        """The outcome of a call that was not made, with the error as the reason; it is written, too."""
        return self.kept(failed_call(plan, error, self))

    def gated(self, plan: PlannedCall) -> PlannedCall:
        """The call with the gate's reason not to make it, if there is one. Asking twice changes nothing."""
        if self.gate is None or plan.error is not None:
            return plan
        match self.gate(plan):
            case Deny(reason=reason):
                return replace(plan, error=reason, denied=True)
            case Allow():
                return plan

    def kept(self, outcome: CallOutcome) -> CallOutcome:
        """The outcome, with its record as the journal has it."""
        if self.journal is None:
            return outcome
        return replace(outcome, record=self.journal.append(outcome.record))


class BlobStore:
    """Saves the blobs of results as files.

    Args:
        folder: The workflow's data area.
        run: Id of the run, whose files get a separate folder.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder / FILES / run
        self._numbers = itertools.count(1)

    def save(self, call: PlannedCall, index: int, data: bytes, mime_type: str) -> str:
        """Saves one blob of the call's result and returns its path. Safe to use from several threads.

        Raises:
            MCPError: The file cannot be written.
        """
        row = _UNFIT_FOR_FILES.sub("_", call.input_row or "call")[:_LONGEST_NAME]
        name = f"{next(self._numbers):06d}-{row}-{index + 1}"
        return save_blob(self._folder, name, data, mime_type, fix="Make room, or save the workflow elsewhere")


def save_blob(folder: Path, name: str, data: bytes, mime_type: str, *, fix: str) -> str:
    """Saves one blob.

    Args:
        folder: The folder; created if it is missing.
        name: The file's name without its ending. Names given by a server are not used as paths.
        data: The bytes.
        mime_type: The media type that the server declares.
        fix: The advice in the error if the file cannot be written.

    Returns:
        The path of the file.

    Raises:
        MCPError: The file cannot be written.
    """
    kind = mime_type.partition(";")[0].strip().lower()
    file = folder / f"{name}{_ENDINGS.get(kind) or mimetypes.guess_extension(kind, strict=False) or '.bin'}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise MCPError(f"The tool has answered, but {file} could not be written: {why}", fix=fix) from None
    return str(file)
