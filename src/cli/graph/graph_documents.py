"""Reads and serves graph documents, for `knime-mcp graph` and for `mcpgraph`.

Without typer, whose imports would take a third of the time until a server on standard input answers.
"""

from __future__ import annotations

import gc
import logging
from contextlib import ExitStack
from enum import StrEnum
from typing import TYPE_CHECKING

from ..command_errors import CommandError, ExitCode
from ..files import check_journal, open_journal
from ..serving import LogLevel, announce, end_now, log_to_stderr

if TYPE_CHECKING:
    from pathlib import Path

    from ...graph.document_loading import CheckedDocument
    from ...graph.graph_model import GraphDocument
    from ...yaml_text import Problem


class DialectChoice(StrEnum):
    """The values of ``--dialect``."""

    AUTO = "auto"
    TARGET = "target"
    NEXT = "next"


def read_document(
    file: Path, *, dialect: DialectChoice, mcp_file: Path | None, fill_in: bool = True
) -> CheckedDocument:
    """Reads a document for a command; `fill_in`: a missing ``${NAME}`` of the environment is an error."""
    import os

    from ...graph.document_loading import check_document

    return check_document(
        file,
        dialect=None if dialect is DialectChoice.AUTO else dialect.value,
        mcp_file=mcp_file,
        environ=os.environ if fill_in else None,
    )


def usable(file: Path, checked: CheckedDocument) -> GraphDocument:
    """Returns the document if it has no errors.

    Raises:
        CommandError: The document has errors; the text contains all of them.
    """
    if checked.document is None:
        raise CommandError("\n".join(error_lines(file, checked.problems)))
    return checked.document


def error_lines(file: Path, problems: tuple[Problem, ...]) -> list[str]:
    """The errors among problems, one line each."""
    from ...yaml_text import Severity

    return [problem.text(str(file)) for problem in problems if problem.severity is Severity.ERROR]


def serve_document(
    file: Path,
    *,
    http: int | None = None,
    host: str = "127.0.0.1",
    mcp: Path | None = None,
    dialect: DialectChoice = DialectChoice.AUTO,
    audit: Path | None = None,
    reload: bool = True,
    validate: bool = True,
    log_level: LogLevel = LogLevel.INFO,
) -> ExitCode:
    """Serves a document until the client leaves or a signal comes.

    The port `http` is 0 for any; without one, the client is at standard input and output.

    Raises:
        CommandError: The document has errors.
        UsageError: The journal cannot be written.
    """
    check_journal(audit)
    gc.disable()  # collections during the imports would take a tenth of the start
    import anyio

    from ...graph.api import McpGraphApi
    from ...graph.graph_service import GraphService, Reload
    from ...graph.graph_serving import serve_http, serve_stdio
    from ...graph.graph_spans import spans_from_environment

    log_to_stderr(log_level, "[%(levelname)s] %(message)s")
    for noisy in ("httpx", "httpcore", "mcp", "uvicorn", "opentelemetry"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with ExitStack() as stack:
        stack.callback(gc.enable)
        journal = stack.enter_context(open_journal(audit, about=f"knime-mcp graph serve {file.name}"))
        spans = spans_from_environment()
        if spans is not None:
            stack.callback(spans.close)

        def load() -> McpGraphApi:
            checked = read_document(file, dialect=dialect, mcp_file=mcp)
            if checked.document is None:
                raise CommandError(
                    "\n".join(f"[ERROR] {line}" for line in error_lines(file, checked.problems))
                )
            return McpGraphApi(checked.document, journal=journal, spans=spans, check_schemas=validate)

        # Made before the document is loaded, so that no change is missed.
        watch = Reload([file, *([mcp] if mcp else [])], load) if reload else None
        # With the old dialect, tools are listed without output schemas, like the programs of that dialect.
        service = GraphService(load(), output_schemas=dialect is not DialectChoice.TARGET)
        gc.enable()
        gc.freeze()  # long-lived objects; collecting them would delay calls
        signaled = False
        if http is None:
            signaled = anyio.run(serve_stdio, service, watch)
        else:
            anyio.run(lambda: serve_http(service, http, host=host, reload=watch, on_ready=announce))
    if signaled:
        end_now()
    return ExitCode.OK
