"""Saves the audit workflow of a run where a node's parameter *Save audit workflow to* says.

Agent, Caller and Replayer offer the parameter, which `save_to` makes; `target_of` reads it, and
`save_audit_workflow` writes the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...types.canonical import without_surrogates
from .workflow import Exported, audit_workflow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...audit.record import CallRecord


def save_to() -> Any:
    """Makes the parameter ``save_audit_workflow_to``."""
    import knime.extension as knext

    return knext.StringParameter(
        "Save audit workflow to",
        "Saves the calls as a KNIME workflow (`.knwf`) to import: one configured *MCP Tool Caller* per call."
        " Enter a folder, for a file per run, or a file name ending in `.knwf`, which each run replaces."
        " What is not a full path is in the workflow's data area, such as `mcp-audit`. Empty saves nothing.",
        default_value="",
        is_advanced=True,
    )


def target_of(setting: str, data_area: Path, run: str) -> Path | None:
    """The file that the setting names for a run; a relative path is in the data area. None: no file."""
    text = setting.strip()
    if not text:
        return None
    path = data_area / Path(text).expanduser()
    return path if path.suffix.lower() == ".knwf" else path / f"{run}.knwf"


def save_audit_workflow(
    records: Iterable[CallRecord], file: Path, *, question: str = "", answer: str = ""
) -> Exported:
    """Writes the audit workflow of some calls. Its name is that of the file.

    Args:
        records: The calls, as in a journal; also those of an agent.
        file: A ``.knwf`` file; its folder is created, and the file replaced as a whole.
        question: The prompt of an agent, shown above the calls.
        answer: The agent's answer, shown below.

    Returns:
        The numbers of calls in the file.

    Raises:
        OSError: The file cannot be written.
    """
    from ...knwf import write_workflow

    exported = audit_workflow(records, name=file.stem, question=question, answer=answer)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_workflow(exported.workflow, file)
    return exported


def save_after_run(
    records: Iterable[CallRecord],
    setting: str,
    data_area: Path,
    run: str,
    *,
    question: str = "",
    answer: str = "",
) -> str | None:
    """Saves the audit workflow where ``save_audit_workflow_to`` says; a failure does not fail the node.

    Args:
        records: The calls of the run.
        setting: The parameter's value.
        data_area: The workflow's data area.
        run: Id of the run.
        question: The prompt of an agent.
        answer: The agent's answer.

    Returns:
        A warning, or None.
    """
    try:
        file = target_of(setting, data_area, run)
        if file is None:
            return None
        exported = save_audit_workflow(records, file, question=question, answer=answer)
    # An impossible file name raises ValueError, an unknown ~user RuntimeError.
    except (OSError, ValueError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        where = setting.strip()
        return without_surrogates(f"The audit workflow cannot be written to {where}: {why or error}.")
    if exported.placeholders or exported.left_out:
        return f"The audit workflow {file} has {exported.text()}."
    return None


def save_journal(setting: str, data_area: Path, run: str) -> str | None:
    """Saves the audit workflow of the calls in a run's journal; see `save_after_run`."""
    from ...audit.journal import SUFFIX, read_journal
    from ..caller.sessions import JOURNALS

    if not setting.strip():
        return None
    records = read_journal(data_area / JOURNALS / f"{run}{SUFFIX}").records
    return save_after_run(records, setting, data_area, run)
