"""Texts cut to a length, and numbers with their nouns, as messages and pages show them."""

from typing import Final

CUT: Final = "…"
"""Stands at the end of a text that was cut off."""


def in_one_line(text: str, longest: int) -> str:
    """A stranger's text as one line of what can be printed, cut off where it is too long."""
    start = text[: 10 * longest]  # of megabytes nobody reads more
    line = " ".join("".join(c if c.isprintable() else " " for c in start).split())
    return line if len(line) <= longest and start == text else line[:longest] + CUT


def shortened(text: str, longest: int) -> str:
    """A text, or as much of it as there is room for, with an ellipsis at its end."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 1].rstrip()}{CUT}" if longest else ""


def beginning(text: str, longest: int) -> str:
    """A text, or its beginning and how long it is in all."""
    return text if len(text) <= longest else f"{text[:longest]}{CUT} ({len(text):,} characters in all)"


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural ends in s: ``1 tool``, ``2,000 tools``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
