"""Verifies records in files: journals, and tables, with the rows in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..types.texts import listed
from .calls_table import (
    COLUMNS,
    is_journal,
    laid_out_anew,
    links_of,
    lost_columns,
    strange_columns,
    strange_values,
)
from .record import FIELDS, chain_hash
from .table_formats import TableError, read_table_file
from .verdicts import (
    NEWER,
    WHOLE,
    Anchors,
    Calls,
    Finding,
    Verdict,
    Verification,
    VerifiedRun,
    has_hash,
    has_newer_hash,
    run_text,
)
from .verify_journal import verify_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from ..types.tool import Tool


def verify_file(
    file: Path,
    *,
    head: str | Anchors | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Verification:
    """Verifies a journal, or a table in one of `table_formats.FORMATS`.

    ``head`` is what was kept elsewhere: a head of a run, or all of `Anchors`. ``on_progress`` is
    called with the bytes of a journal that were read. Raises `JournalError`, `TableError` or `OSError`
    if the file cannot be read at all.
    """
    if is_journal(file):
        return verify_journal(file, Anchors.of(head), on_progress=on_progress)
    read = read_table_file(file)
    found = verify_table(read.table, head=head)
    if not read.disguised:
        return found
    cells = listed(cell for _, cell in read.disguised)
    text = f"Cells show another text than they hold, by their format: {cells}."
    return replace(found, findings=(*found.findings, Finding(Verdict.ALTERED, text)))


def verify_table(
    table: pa.Table, tools: Sequence[Tool | None] | None = None, *, head: str | Anchors | None = None
) -> Verification:
    """Verifies a table *Tool calls*, its rows in any order; see `verify_file`. `TableError` without calls.

    ``tools`` are those of the rows, if the caller has read them already.
    """
    if len(lost_columns(table)) == len(COLUMNS) + 1:
        raise TableError("The table has none of the columns of Tool calls: it holds no calls")
    lost = [name for name in lost_columns(table) if tools is None or name != "Tool"]
    calls = Calls(Anchors.of(head))
    wrong = is_newer = False
    for link, others in zip(links_of(table, tools), strange_values(table), strict=True):
        has_its_hash = has_hash(link) or any(
            chain_hash(link.previous, texts) == link.hash for texts in laid_out_anew(link.texts)
        )
        if not has_its_hash and has_newer_hash(link, others):
            has_its_hash = is_newer = True
        wrong = wrong or not has_its_hash
        calls.take(link, has_its_hash=has_its_hash)
    findings: list[Finding] = []
    # A missing column does no harm if all hashes are right: it was empty. One of a later version is missing
    # in older tables, where a wrong hash means what it says.
    lost = [name for name in lost if name not in _LATER]
    if lost and (wrong or not calls.runs):
        text = f"Hashes cannot be computed without columns that are missing: {', '.join(lost)}."
        findings.append(Finding(Verdict.UNVERIFIABLE, text))
    if is_newer:
        findings.append(Finding(Verdict.UNVERIFIABLE, f"The table was written {NEWER}."))
    notes = ["There are no calls in this table."] if not calls.runs and not findings else []
    runs: list[VerifiedRun] = []
    for run, state in sorted(calls.runs.items()):
        linked = {"Hash", "Previous hash"}.isdisjoint(lost)
        findings += state.findings(contents=not lost, order={"Run", "Call"}.isdisjoint(lost), linked=linked)
        notes += calls.origin_note(run)
        runs.append(VerifiedRun(run, state.count, state.last))
    missing = calls.missing_heads()
    findings += missing
    uncovered = calls.uncovered()
    if runs and uncovered:
        notes.append(
            f"Nothing that was kept elsewhere covers {listed(map(run_text, uncovered))}: a table does not"
            " show whether calls are missing at its end, or whether all was written anew. Compare it with the"
            " head of the run (flow variable mcp_audit_head), with --head."
        )
    others = strange_columns(table)
    if runs and others:
        named = listed(f"'{name[:40]}'" for name in others)
        notes.append(f"Columns that are not those of the records, and that nothing covers: {named}.")
    unvouched = "its other columns" if others else ""
    if uncovered or not runs:
        unvouched = WHOLE if len(uncovered) == len(runs) else listed(map(run_text, uncovered))
    has_heads = all(finding.verdict is not Verdict.TRUNCATED for finding in missing)
    return Verification(tuple(runs), tuple(findings), tuple(notes), unvouched, has_heads)


_LATER: Final = frozenset(field.column for field in FIELDS.values() if field.later)
