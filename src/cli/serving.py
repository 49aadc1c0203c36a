"""What the commands that serve share: their log, whom they let in, and their end."""

from __future__ import annotations

import logging
import os
import sys
from enum import StrEnum
from typing import NoReturn

from .command_errors import ExitCode, UsageError
from .terminal import complain


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


def check_exposure(host: str, what: str, instead: str, *, unprotected: bool) -> None:
    """Refuses to serve everybody beyond this machine unless told to.

    `what` completes "Everybody who reaches … can"; `instead` says what asks who comes.
    """
    from ..web.tool_server import LOOPBACK

    if host in LOOPBACK:
        return
    if not unprotected:
        raise UsageError(
            f"Everybody who reaches {host} could {what}: nothing is encrypted, and nobody is asked for a key."
            f" {instead}; --unprotected is for a proxy that guards it."
        )
    complain(f"Everybody who reaches {host} can {what}, and nothing is encrypted.")
