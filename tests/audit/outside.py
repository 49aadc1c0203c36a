"""The scripts of docs/audit.md, which need nothing of ours, run in this process."""

import contextlib
import io
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
LINES, CALLS = (
    compile(code, "check.py", "exec")
    for code in re.findall(r"```py\n(.*?)```", PAGE.read_text("utf-8").partition("## Checking")[2], re.DOTALL)
)


def says(script, path, *anchors):
    """The lines that a script prints."""
    kept, printed = sys.argv, io.StringIO()
    sys.argv = ["check.py", str(path), *anchors]
    try:
        with contextlib.redirect_stdout(printed):
            exec(script, {"__name__": "__main__"})
    finally:
        sys.argv = kept
    return printed.getvalue().splitlines()


def outside_verdict(path, *anchors):
    return says(LINES, path, *anchors)[-1]
