"""The program of docs/audit.md, which needs nothing of ours, run in this process."""

import contextlib
import io
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "docs" / "check_journal.py"
COMPILED = compile(PROGRAM.read_text("utf-8"), PROGRAM.name, "exec")


def says(path, *anchors):
    """The lines that it prints."""
    kept, printed = sys.argv, io.StringIO()
    sys.argv = [PROGRAM.name, str(path), *anchors]
    try:
        with contextlib.redirect_stdout(printed):
            exec(COMPILED, {"__name__": "__main__"})
    finally:
        sys.argv = kept
    return printed.getvalue().splitlines()


def outside_verdict(path, *anchors):
    return says(path, *anchors)[-1]
