"""``knime-mcp audit collect``: the calls of all journals of a workflow, such as those for KNIME's agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ..audit.table_formats import WRITABLE, either
from ..audit.verdicts import Verdict
from ..types.texts import counted
from .command_errors import CommandError, ExitCode, reports_errors
from .files import check_table, reading_records, writing
from .shared_options import RawCsvOption
from .terminal import complain, note, say

_PLACE: Final = Path("data") / "mcp-audit"


@reports_errors
def collect(
    folder: Annotated[
        Path, typer.Argument(metavar="WORKFLOW-FOLDER", help="The workflow's folder, with data/mcp-audit.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Write all calls into one {either(*WRITABLE)} file."),
    ] = None,
    raw_csv: RawCsvOption = False,
) -> ExitCode:
    """Collect the calls of all journals in a KNIME workflow's folder.

    Nodes write a journal per run; calls for KNIME's own agents are in those that end in .agent.jsonl. Each is
    verified; the exit code is 1 if one was altered. The calls are in the order in which they began.

    Example: knime-mcp audit collect ~/knime-workspace/my-workflow --out calls.csv
    """
    check_table(out)
    # Also the folder of the journals itself, copied out of a workflow.
    place = folder / _PLACE if (folder / _PLACE).is_dir() else folder
    files = sorted(place.glob("*.jsonl"))
    if not files:
        raise CommandError(f"{folder} has no journals: there is no {_PLACE}/*.jsonl in it.")
    from ..audit.calls_table import calls_as_they_began, write_calls
    from ..audit.verify import verify_file

    altered: list[str] = []
    for file in files:
        with reading_records():
            verified = verify_file(file)
        altered += [file.name] if verified.verdict is Verdict.ALTERED else []
        calls = counted(sum(run.count for run in verified.runs), "call")
        say(f"{file.name}: {calls}, {verified.verdict.value}")
    if out is not None:
        with reading_records(), writing(out):
            count = write_calls(calls_as_they_began(files), out, raw_csv=raw_csv)
        note(f"Wrote {counted(count, 'call')} of {counted(len(files), 'journal')} to {out}")
    for name in altered:
        complain(f"{name} was altered. Look at it with: knime-mcp audit verify {place / name}")
    return ExitCode.FAILED if altered else ExitCode.OK
