"""Shared parts of the commands that serve: logging, messages, and ending the process."""

from __future__ import annotations

import logging
import os
import sys
from enum import StrEnum
from typing import Final, NoReturn

from .command_errors import ExitCode

#: The addresses at which only programs of this machine reach a server.
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def log_to_stderr(level: LogLevel, form: str) -> None:
    """Sends the process's log to standard error, as standard output may carry the protocol."""
    logging.basicConfig(stream=sys.stderr, level=level.value.upper(), format=form)


def announce(url: str) -> None:
    print(f"Serving at {url}", file=sys.stderr, flush=True)


def end_now() -> NoReturn:
    """Ends the process although a thread still waits for a line on standard input."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(ExitCode.OK)
