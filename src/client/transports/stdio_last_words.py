"""Finds the reason why a process ended in its standard error."""

import re
from collections.abc import Callable
from typing import Final

_LINES, _LONGEST_END = 5, 300
_TERMINAL_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")
_ERROR: Final = re.compile(r"((uncaught|unhandled) )?[\w.]*(error|exception)\b|panic:", re.IGNORECASE)
# Lines that Node writes after an error, often more than are shown: the stack and lone brackets.
_SKIPPED: Final = re.compile(r"at |Node\.js v\d|\W+$")


def last_words(written: bytes, without_secrets: Callable[[str], str]) -> str:
    """The last lines, or all lines from the last error on, in one line; a long text loses its middle.

    Args:
        written: The end of the process's output.
        without_secrets: Blacks out secrets in a text.
    """
    text = _TERMINAL_CODES.sub("", written.decode("utf-8", "replace").replace("\r", "\n"))
    lines = [" ".join(line.split()) for line in without_secrets(text).splitlines()]
    lines = [line for line in lines if line and not _SKIPPED.match(line)]
    errors = [number for number, line in enumerate(lines) if _ERROR.match(line)]
    first = min([*errors[-1:], max(0, len(lines) - _LINES)])
    words = " / ".join(lines[first:])
    if len(words) <= 2 * _LONGEST_END:
        return words
    return f"{words[:_LONGEST_END]} … {words[-_LONGEST_END:]}"
