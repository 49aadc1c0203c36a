"""The entry point of ``knime-mcp``."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from ..system import ENDING
from .terminal import is_embedded

_CANCELED = 3
_CANCELED_BY_TYPER = 130
_BETWEEN_COLLECTIONS = 50_000
"""Objects between collections of garbage: with Python's 700 these take a tenth of a short command's time, as
most objects of a command are its modules, which stay."""


def main() -> None:
    until_canceled(_run)


def until_canceled(run: Callable[[], None]) -> None:
    """Runs a command line so that Ctrl-C and SIGTERM end it in the same way at any time.

    It raises `SystemExit`; commands handle signals themselves.
    """
    before = {number: signal.getsignal(number) for number in ENDING}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not is_embedded():
        gc.set_threshold(_BETWEEN_COLLECTIONS)
    try:
        run()
    except KeyboardInterrupt:
        sys.exit(_CANCELED)
    except SystemExit as end:
        sys.exit(_CANCELED if end.code == _CANCELED_BY_TYPER else end.code)
    finally:
        if is_embedded():
            for number, handler in before.items():
                signal.signal(number, handler)
        else:
            # While Python shuts down, an exception from a signal would be shown with a traceback. Until the
            # threads have ended, a signal ends the process at once; afterwards signals are ignored.
            _handle_signals(_end_at_once)
            gc.freeze()  # otherwise Python looks once more at all modules: a fifth of a short command's time
            atexit.register(_handle_signals, signal.SIG_IGN)


def _handle_signals(handler: Any) -> None:
    for number in ENDING:
        signal.signal(number, handler)


def _end_at_once(*_: object) -> None:
    os._exit(_CANCELED)


def _run() -> None:
    prepare()
    from .commands import build_app

    build_app(sys.argv[1] if len(sys.argv) > 1 else None)(prog_name="knime-mcp")


def prepare() -> None:
    """Makes streams and modules what every command expects."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell closed it, as with `>&-`
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: PTH123, SIM115 - to the end
    # Characters that the console cannot show (cp1252 on Windows, file names that are not UTF-8) are escaped.
    out: Any = sys.stdout
    if hasattr(out, "reconfigure"):  # text in memory has no encoding
        out.reconfigure(errors="backslashreplace")
    # httpx imports its own command line, which loads pygments and more: 40 % of the time of `import httpx`.
    sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType] - as import reads it


if __name__ == "__main__":
    main()
