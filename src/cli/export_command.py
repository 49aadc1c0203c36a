"""``knime-mcp audit export``: records of calls as a KNIME workflow."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer evaluates annotations
from typing import Annotated

import typer

from .audit_files import read
from .exits import ExitCode, UsageError, reports_errors
from .files import check_output, writing
from .terminal import complain, note


@reports_errors
def export(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A journal (.jsonl), or a table Tool calls as .parquet, .csv or .tsv file."
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT.knwf", help="The workflow to write.")],
    question: Annotated[
        str, typer.Option(metavar="TEXT", help="What the agent was asked, to show above the calls.")
    ] = "",
    answer: Annotated[
        str, typer.Option(metavar="TEXT", help="What the agent answered, to show below the calls.")
    ] = "",
) -> ExitCode:
    """Export calls as a KNIME workflow.

    One configured MCP Tool Caller per call of an MCP tool, in recorded order. Credentials are in it by name;
    secret arguments are placeholders. Open it in KNIME, or run it with: knime-mcp run OUT.knwf

    Example: knime-mcp audit export run.jsonl run.knwf
    """
    if out.suffix.lower() != ".knwf":
        raise UsageError(f"{out} should end in .knwf: it gets a KNIME workflow.")
    check_output(out)
    from ..audit.table import read_calls
    from ..audit.verify import Verdict, verify_file
    from ..headless import use_standin

    use_standin()
    from ..tools.audit_workflow import save_audit_workflow

    records = read(lambda: read_calls(file))
    verified = read(lambda: verify_file(file))
    with writing(out):
        exported = save_audit_workflow(records, out, question=question, answer=answer)
    note(f"Wrote {out}: {exported.text()}")
    if verified.verdict is Verdict.ALTERED:
        for finding in verified.findings:
            complain(f"{finding.verdict.value}: {finding.text}")
        return ExitCode.FAILED
    return ExitCode.OK
