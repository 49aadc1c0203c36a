"""Texts cut to a length, and numbers with their nouns, as messages and pages show them."""

from typing import Final

CUT: Final = "…"
"""The end of a text that was cut off."""


def in_one_line(text: str, longest: int) -> str:
    """An untrusted text as one line of printable characters, cut off if it is too long."""
    start = text[: 10 * longest]  # avoids work on megabytes of text
    line = " ".join("".join(c if c.isprintable() else " " for c in start).split())
    return line if len(line) <= longest and start == text else line[:longest] + CUT


def shortened(text: str, longest: int) -> str:
    """A text, or as much of it as fits, with an ellipsis at its end."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 1].rstrip()}{CUT}" if longest else ""


def beginning(text: str, longest: int) -> str:
    """A text, or its beginning with its total length."""
    return text if len(text) <= longest else f"{text[:longest]}{CUT} ({len(text):,} characters in all)"


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural ends in s: ``1 tool``, ``2,000 tools``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
