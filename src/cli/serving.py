"""What the commands that serve have in common: their options, what they say, and how they end."""

from __future__ import annotations

import logging
import os
import sys
from enum import StrEnum
from typing import Annotated, NoReturn

import typer

from .exits import ExitCode


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


HttpOption = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve over HTTP on this port (0: any) instead of stdin and stdout.",
    ),
]
HostOption = Annotated[str, typer.Option(help="Address to listen on with --http.")]
LogLevelOption = Annotated[
    LogLevel, typer.Option(case_sensitive=False, help="How much to log; to standard error.")
]


def log_to_stderr(level: LogLevel, form: str) -> None:
    """Sends the process's log to standard error: standard output may be the protocol's.

    Args:
        level: How much.
        form: How a line is written, as `logging.Formatter` takes it.
    """
    logging.basicConfig(stream=sys.stderr, level=level.value.upper(), format=form)


def announce(url: str) -> None:
    """Says where a server listens, now that it does."""
    print(f"Serving at {url}", file=sys.stderr, flush=True)


def end_now() -> NoReturn:
    """Ends the process although a thread still waits for a line on standard input."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(ExitCode.OK)
