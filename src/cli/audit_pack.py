"""``knime-mcp audit pack``: everything about a run in one signed archive."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..audit.verdicts import Verdict
from ..types.texts import counted
from .command_errors import CommandError, ExitCode, UsageError, reports_errors
from .files import Records, check_output, is_same, read_text, reading_records, writing
from .terminal import complain, note

if TYPE_CHECKING:
    from ..audit.dossier import DossierWriter
    from ..audit.verdicts import Verification


@reports_errors
def pack(
    file: Annotated[Path, typer.Argument(metavar="RUN.jsonl", help="The journal.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.zip", help="The dossier to write.")],
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What may differ in a replay, a file of replay --write-rules."),
    ] = None,
    workflow: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.knwf",
            help="A workflow that was called as a tool, for replay --call; may be repeated.",
        ),
    ] = None,
) -> ExitCode:
    """Pack a run into one signed archive.

    It has the journal, the saved files, the definitions of the tools, a report, and a KNIME workflow with the
    calls. audit verify, audit show, audit export, replay and run take it as it is. Your newest key signs it.

    Example: knime-mcp audit pack run.jsonl run.zip
    """
    from ..audit.calls_table import is_dossier, is_journal
    from ..audit.dossier import DossierWriter
    from ..audit.signatures import SignatureError

    if not is_dossier(out):
        raise UsageError(f"{out} should end in .zip, as it is an archive.")
    if not file.exists() or is_dossier(file) or not is_journal(file) or is_same(file, out):
        raise UsageError(f"{file} is no journal (.jsonl). A table does not say enough to be packed.")
    check_output(out)
    for added in (*([rules] if rules else ()), *(workflow or ())):
        if not added.is_file():
            raise CommandError(f"There is no file {added}.")
    records = Records(file)
    try:
        with reading_records():
            verified = records.verified()
            if verified.verdict is Verdict.ALTERED:
                raise CommandError(f"{file} is altered, so it is not packed: {verified.findings[0].text}")
            with writing(out), DossierWriter(out) as dossier:
                left_out = _fill(dossier, records, verified, rules, workflow or [])
    except SignatureError as error:
        raise CommandError(f"{error}.") from None
    by = "nobody: audit key new makes a key" if dossier.key is None else dossier.key.public.name
    calls = counted(sum(run.count for run in verified.runs), "call")
    note(f"Wrote {out}: {calls}, {verified.verdict.value}; signed by {by}")
    if left_out:
        complain(f"{counted(left_out, 'saved file')} not packed: not there, or not what is on record.")
    return ExitCode.OK


def _fill(
    dossier: DossierWriter,
    records: Records,
    verified: Verification,
    rules: Path | None,
    workflows: list[Path],
) -> int:
    """Adds all members; returns how many saved files are not among them."""
    from ..audit.calls_table import ordered_calls
    from ..audit.dossier import JOURNAL, WORKFLOW, member_name
    from ..audit.journal_lines import journal_parts, part_file
    from ..headless import use_standin
    from ..knwf import KnwfError, read_workflow, write_workflow
    from ..runs.replay_rules import ReplayRules

    use_standin()
    from ..tools.audit_workflow import audit_workflows
    from .audit_page import audit_pages

    for path in workflows:
        try:
            read_workflow(path)
        except KnwfError as error:
            raise CommandError(f"{path} cannot be read as a workflow: {error}.") from None
    for number, path in journal_parts(records.file).items():
        dossier.add(part_file(Path(JOURNAL), number).name, path)
    left_out = _add_results(dossier, records)
    report = Path("report.html")
    for page_file, page in audit_pages(
        report, records.file.name, ordered_calls(records.file), verified, records.saved
    ):
        dossier.add(page_file.name, page.encode())
    with tempfile.TemporaryDirectory() as folder:
        for path, made in audit_workflows(ordered_calls(records.file), Path(folder) / WORKFLOW):
            write_workflow(made.workflow, path)
            dossier.add(path.name, path)
            path.unlink()
    if rules is not None:
        ReplayRules.of_json(read_text(rules), str(rules))  # only what can be used
        dossier.about["rules"] = f"rules/{member_name(rules.name)}"
        dossier.add(dossier.about["rules"], rules)
    dossier.about["workflows"] = [
        f"workflows/{number}-{member_name(path.name)}" for number, path in enumerate(workflows, start=1)
    ]
    for member, path in zip(dossier.about["workflows"], workflows, strict=True):
        dossier.add(member, path)
    return left_out


def _add_results(dossier: DossierWriter, records: Records) -> int:
    """Adds definitions of tools and saved files, each once; a file only if it is the one on record."""
    import hashlib

    from ..audit.calls_table import journal_calls
    from ..audit.dossier import FILES, member_name
    from ..audit.record import blobs_of
    from ..audit.verify_journal import is_as_saved

    files: dict[str, str] = {}
    dossier.about["files"] = files
    left_out: set[str] = set()
    tools: set[str] = set()
    for record in journal_calls(records.file):
        if record.tool is not None and record.tool not in tools:
            tools.add(record.tool)
            digest = hashlib.sha256(record.tool.encode()).hexdigest()[:12]
            dossier.add(f"tools/{member_name(record.tool_name or '')}-{digest}.json", record.tool.encode())
        blobs = blobs_of(record.content) if record.files else []
        for name, blob in zip(record.files, blobs or [None] * len(record.files), strict=False):
            found = records.saved(name)
            # A journal of somebody else may name any file of this machine: its content must be known.
            if blob is None or found is None or not is_as_saved(found, blob["sha256"], blob["size"]):
                left_out.add(name)
                continue
            files[name] = f"{FILES}/{member_name(blob['sha256'] + found.suffix)}"
            # Several calls may have given the same.
            if files[name] not in dossier:
                dossier.add(files[name], found)
    return len(left_out)
