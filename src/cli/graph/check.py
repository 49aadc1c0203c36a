"""``knime-mcp graph check``: finds all problems of a document at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...types.short_texts import counted
from ..errors import ExitCode, reports_errors
from ..extras import needs_graph
from ..terminal import complain, note, print_json, say
from .options import DialectOption, FileArgument, McpFileOption
from .reading import DialectChoice, read_document

if TYPE_CHECKING:
    from ...yaml_text import Problem


@reports_errors
@needs_graph
def check(
    file: FileArgument,
    online: Annotated[
        bool,
        typer.Option(
            "--online", help="Also ask the servers whether they have the tools, and compare the arguments."
        ),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail as well.")] = False,
    dialect: DialectOption = DialectChoice.AUTO,
    mcp: McpFileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> ExitCode:
    """Find everything that is wrong with a graph document: syntax, expressions, ways through the graph.

    Each problem comes with line, column and key path. The exit code is 0 if the document can be served.

    Example: knime-mcp graph check tools.yaml --online
    """
    from ...yaml_text import Severity, sorted_problems

    checked = read_document(file, dialect=dialect, mcp_file=mcp)
    problems = checked.problems
    if online and checked.document is not None:
        from ...graph.documents.online_checks import check_online

        problems = sorted_problems([*problems, *check_online(checked.document)])
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    warnings = len(problems) - errors
    failed = errors > 0 or (strict and warnings > 0)
    if as_json:
        document = checked.document
        print_json(
            {
                "file": str(file),
                "ok": not failed,
                "dialect": checked.dialect.dialect.value if checked.dialect else None,
                "tools": [tool.name for tool in document.tools] if document else [],
                "problems": [_problem_json(problem) for problem in problems],
            }
        )
        return ExitCode.FAILED if failed else ExitCode.OK
    for problem in problems:
        tell = complain if problem.severity is Severity.ERROR else note
        tell(problem.text(str(file)))
    if checked.dialect is not None:
        note(f"Dialect '{checked.dialect.dialect}': {checked.dialect.reason}.")
    counts = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
    if checked.document is not None:
        counts = f"{counted(len(checked.document.tools), 'tool')}, {counts}"
    say(f"{file}: {counts}", "bold red" if failed else "bold green")
    return ExitCode.FAILED if failed else ExitCode.OK


def _problem_json(problem: Problem) -> dict[str, Any]:
    position = problem.position
    return {
        "severity": problem.severity.value,
        "message": problem.message,
        "fix": problem.fix,
        "file": problem.file,
        "line": position.line if position else None,
        "column": position.column if position else None,
        "path": position.key_path if position else None,
    }
