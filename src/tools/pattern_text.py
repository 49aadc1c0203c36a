"""A text that matches a pattern of a JSON schema (ECMA-262), for examples of arguments."""

from __future__ import annotations

import re
from typing import Final

_LONGEST_PATTERN: Final = 1000
_LONGEST_MATCH: Final = 200
_MANY: Final = 1_000_000
_BRACES: Final = re.compile(r"\{(\d{1,6})(?:(,)(\d{1,6})?)?\}", re.ASCII)
_GROUP: Final = re.compile(r"\((?:\?:|\?<\w+>|(?!\?))", re.ASCII)
_LAST: Final = "\U0010ffff"
_SETS: Final = {
    "d": [("0", "9")],
    "D": [("\0", "/"), (":", _LAST)],
    "w": [("a", "z"), ("A", "Z"), ("0", "9"), ("_", "_")],
    "W": [("\0", "/"), (":", "@"), ("[", "^"), ("`", "`"), ("{", _LAST)],
    "s": [(" ", " "), ("\t", "\r")],
    "S": [("!", _LAST)],
}
_FAVOURITES: Final = "a0A-_ .:/"


class _UnknownError(ValueError):
    """The pattern has a part that is not supported: look-around, back-references, Unicode classes."""


def text_for_pattern(pattern: str, *, shortest: int = 0, longest: int = _LONGEST_MATCH) -> str | None:
    """Makes a text of an allowed length that matches an ECMA-262 pattern; None if that did not succeed."""
    if len(pattern) > _LONGEST_PATTERN:
        return None
    # Once reads best; otherwise so often that the text is long enough.
    for times in dict.fromkeys((1, shortest)):
        try:
            text = _PatternReader(pattern, times).whole()
        except (_UnknownError, RecursionError):
            return None
        if shortest <= len(text) <= longest:
            return text
    return None


class _PatternReader:
    """Reads a pattern and writes its text."""

    def __init__(self, pattern: str, times: int) -> None:
        self._pattern = pattern
        self._times = times  # how often parts are repeated that may be repeated any number of times
        self._at = 0

    def whole(self) -> str:
        text = self._choice()
        if self._peek():
            raise _UnknownError
        return text

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise _UnknownError
        self._at += 1
        return character

    def _takes(self, character: str) -> bool:
        is_next = self._peek() == character
        self._at += is_next
        return is_next

    def _choice(self) -> str:
        text = self._sequence()
        while self._takes("|"):
            self._sequence()
        return text

    def _sequence(self) -> str:
        text = ""
        while self._peek() not in {"", "|", ")"}:
            part = self._part()
            count = self._count()
            # `(((a{1000}){1000}){1000})` is short and its text is not.
            if len(text) + len(part) * count > _LONGEST_MATCH:
                raise _UnknownError
            text += part * count
        return text

    def _part(self) -> str:
        if group := _GROUP.match(self._pattern, self._at):
            self._at = group.end()
            text = self._choice()
            if not self._takes(")"):
                raise _UnknownError
            return text
        match self._next():
            case "^" | "$":
                return ""
            case ".":
                return "a"
            case "[":
                return self._set()
            case "\\":
                return _one_of(self._escaped())
            case "(" | "*" | "+" | "?":
                raise _UnknownError
            case character:
                return character

    def _count(self) -> int:
        least, most = 1, 1
        if self._takes("*"):
            least, most = 0, _MANY
        elif self._takes("+"):
            most = _MANY
        elif self._takes("?"):
            least = most = 0
        elif braces := _BRACES.match(self._pattern, self._at):
            self._at = braces.end()
            least = int(braces[1])
            most = int(braces[3] or _MANY) if braces[2] else least
        self._takes("?")  # a lazy quantifier gives the same text
        return max(least, min(most, self._times))

    def _escaped(self) -> list[tuple[str, str]]:
        character = self._next()
        if character in _SETS:
            return _SETS[character]
        # Other letters stand for something (`\b`, `\p`); guessing would give a text that does not match.
        if character.isalnum():
            raise _UnknownError
        return [(character, character)]

    def _set(self) -> str:
        """A character that is in a set, or for a negated set, not in it."""
        is_excluded = self._takes("^")
        ranges: list[tuple[str, str]] = []
        while not self._takes("]"):
            ranges += self._range()
        return _one_of(ranges, is_excluded=is_excluded)

    def _range(self) -> list[tuple[str, str]]:
        character = self._next()
        characters = self._escaped() if character == "\\" else [(character, character)]
        low, high = characters[0]
        if low != high or self._peek() != "-" or self._pattern[self._at + 1 : self._at + 2] == "]":
            return characters
        self._next()
        high = self._next()
        return [(low, _one_of(self._escaped()) if high == "\\" else high)]


def _one_of(ranges: list[tuple[str, str]], *, is_excluded: bool = False) -> str:
    """A character in one of the ranges, or with `is_excluded`, in none of them."""
    fits = [c for c in _FAVOURITES if any(low <= c <= high for low, high in ranges) is not is_excluded]
    if not fits and not is_excluded:
        fits = [low for low, _ in ranges]
    if not fits:
        raise _UnknownError
    return fits[0]
