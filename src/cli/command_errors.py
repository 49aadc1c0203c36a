"""How a command ends: exit codes, errors as messages on standard error, missing extras, and Ctrl-C."""

from __future__ import annotations

import errno
import functools
import os
import re
import signal
import sys
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, Self, cast

from ..system import ENDING
from ..types.errors import AuthError, Canceled, MCPError, SettingInvalid, Unexpected, coded
from .terminal import complain, is_embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType


P = ParamSpec("P")

CREDENTIAL_HINT = (
    "On the command line: --credential NAME or --bearer-env VARIABLE, and --send-credentials-as."
)


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    """A failure, which was reported on standard error."""
    USAGE = 2
    """The command line is invalid."""
    CANCELED = 3
    NOBODY_VOUCHES = 4
    """Records are complete in themselves, and nothing that was kept elsewhere proves them."""


class UsageError(Exception):
    """The command is not written as it has to be."""

    error_code = "KMCP-USAGE"


class CommandError(Exception):
    """The command cannot do its work; the text says why and what is next."""

    CODE: ClassVar[str] = "KMCP-COMMAND"

    @property
    def error_code(self) -> str:
        # Also after `from None`, which only hides the error that this one tells in other words.
        cause = self.__context__
        return getattr(cause, "error_code", "KMCP-FILE" if isinstance(cause, OSError) else self.CODE)


def reports_errors(command: Callable[P, ExitCode]) -> Callable[P, None]:
    """Decorates a command: its return value or exception becomes the exit code of the process."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        import typer  # not needed by every user of this module

        raise typer.Exit(exit_code(functools.partial(command, *args, **kwargs)))

    return run


def exit_code(command: Callable[[], ExitCode]) -> ExitCode:
    """Runs a command, and reports its exception; returns the exit code."""
    try:
        code = command()
        sys.stdout.flush()
        return code
    except (Canceled, KeyboardInterrupt):
        complain("Canceled.")
        return ExitCode.CANCELED
    except (SettingInvalid, UsageError) as error:
        _complain_of(error)
        return ExitCode.USAGE
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). Python flushes again at its end, which must not fail:
        # https://docs.python.org/3/library/signal.html#note-on-sigpipe
        with suppress(AttributeError, OSError):  # a stream of the program around this one
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except (MCPError, CommandError) as error:
        _complain_of(error)
        return ExitCode.FAILED
    except OSError as error:
        complain(_system_error(error))
        return ExitCode.FAILED
    except Exception as error:
        # Only the traceback's places: the text of an unexpected error may contain secrets.
        complain(f"Unexpected {type(error).__name__}. Please report this: [{Unexpected.CODE}]")
        complain("".join(traceback.format_tb(error.__traceback__)))
        return ExitCode.FAILED


def _complain_of(error: MCPError | UsageError | CommandError) -> None:
    complain(coded(at_terminal(error), error.error_code))


def why_not(error: OSError) -> str:
    """The operating system's message, for use within a sentence."""
    # Arrow puts its own sentence around the message.
    message = (error.strerror or str(error)).lower()
    return re.sub(r".*\[errno \d+\] ", "", message).rstrip(".")


def _system_error(error: OSError) -> str:
    """Nothing can listen at this address, or a file cannot be used."""
    why = why_not(error)
    is_taken = error.errno == errno.EADDRINUSE
    if is_taken or error.errno == errno.EADDRNOTAVAIL:
        host, _, port = str(error.filename or "").rpartition(":")
        where = f"{host}, port {port}" if host else "this address"
        fix = "another port, or 0 for any that is free" if is_taken else "an address of this machine"
        return coded(f"Nothing can listen at {where}: {why}. Choose {fix}.", "KMCP-ADDRESS")
    code = getattr(error, "error_code", "KMCP-FILE")
    return coded(f"{error.filename or 'Standard output'}: {why}.", code)  # errors of files have names


_IN_NODE: Final = " in the node that connects the model"
_MODEL_OPTIONS: Final = {
    "token limit": "--token-limit",
    "'Timeout'": "--model-timeout",
    "a model from the list": "--model or --model-url",
    "the API key": "--api-key-env or --api-key",
}


def at_terminal(problem: Exception | str) -> str:
    """What is told of a problem, with options where its next step is worded for a node's dialog."""
    text = problem.sentence if isinstance(problem, MCPError) else str(problem)
    if _IN_NODE in text:
        options = [option for setting, option in _MODEL_OPTIONS.items() if setting in text]
        text = text.replace(_IN_NODE, f", with {' or '.join(options)}")
    in_url = isinstance(problem, SettingInvalid) and problem.setting == "server_url" and "credential" in text
    if in_url or isinstance(problem, AuthError):
        text = f"{text} {CREDENTIAL_HINT}"
    return coded(text, problem.error_code) if isinstance(problem, MCPError) else text


_CLONE: Final = Path(__file__).resolve().parents[2]


class MissingExtra(CommandError):  # noqa: N818
    """A package is not installed that an extra brings along."""

    CODE = "KMCP-EXTRA"


@contextmanager
def needs(what: str, extras: str, *packages: str, clone: Path = _CLONE) -> Generator[None]:
    """Turns the ImportError for an extra's package into an error that explains how to install it.

    `clone` is the folder of the product that has the extra, where it runs from one.
    """
    try:
        yield
    except Exception as error:
        missing = _module_in(error)
        if missing is None or missing.split(".")[0] not in packages:
            raise
        # Our packages are not in an index.
        how = (
            f"pip install -e '{clone}[{extras}]'"
            if (clone / "pyproject.toml").is_file()
            else f"pip install 'PATH[{extras}]', where PATH is the clone or the wheel that this program was"
            " installed from"
        )
        several = "s" if "," in extras else ""
        raise MissingExtra(
            f"{what} the extra{several} '{extras}' ({missing} is missing). Install it with: {how}"
        ) from None


def _module_in(error: Exception) -> str | None:
    """The missing module; servers import some modules late, so the error may be in a group of tasks."""
    if isinstance(error, ExceptionGroup):
        return _module_in(cast("ExceptionGroup[Exception]", error).exceptions[0])
    return error.name if isinstance(error, ModuleNotFoundError) else None


_SENT_TWICE_SECONDS = 0.4
_TIDYING_SECONDS = 1.0
_STOPPING = "Stopping. Ctrl-C once more stops at once.\n"
_NEW_LINE = "\r\x1b[2K"  # clears the line of a running call


class Interrupt:
    """A callable that returns whether the person wants to stop; the ``is_canceled`` of everything that waits.

    While it is active, Ctrl-C and SIGTERM are remembered instead of raised, so that a call in flight can be
    canceled by the protocol and finished rows are kept. The second signal raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self.number: int | None = None  # of the signal
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self._since is not None

    def __enter__(self) -> Self:
        for number in ENDING:
            self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._since is not None:
            if now - self._since < _SENT_TWICE_SECONDS:
                return  # sent to the process and to its group, as by `timeout`
            _end_soon()
            raise KeyboardInterrupt
        self._since, self.number = now, number
        _say_stopping()


def _end_soon() -> None:
    """The second Ctrl-C ends the process, whatever threads are busy with; for a moment it may tidy up."""
    if not is_embedded():
        timer = threading.Timer(_TIDYING_SECONDS, os._exit, (ExitCode.CANCELED,))
        timer.daemon = True
        timer.start()


def _say_stopping() -> None:
    """Writes to standard error directly, without the console.

    A signal handler may interrupt an import or a print. So it must not import anything, as a half-imported
    module could stay broken, and must not use a stream that is in use, which refuses a second writer.
    """
    with suppress(AttributeError, OSError, ValueError):  # closed, or not a file
        number = sys.stderr.fileno()
        os.write(number, ((_NEW_LINE if os.isatty(number) else "") + _STOPPING).encode())
