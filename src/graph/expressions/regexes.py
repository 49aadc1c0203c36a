"""Regular expressions of JSONata with a time limit: endless backtracking must not stop the whole process.

The engine is ``regex``, which checks a deadline while it matches and lets other threads run; Python's ``re``
does neither.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import regex

from .bounds import DEFAULT_SECONDS, TooLong
from .coercion import to_string
from .engine import JException, Jsonata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .bounds import Watch

_GROUP: Final = regex.compile(r"\\g<(\d+)>")
_OTHER_BACKSLASH: Final = regex.compile(r"\\(?!g<\d+>)")
_SPACES: Final = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_CLASSES: Final = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACES}
_LETTERS: Final = frozenset("bBDWSfnrtvxu")
"""Letters with a meaning after a backslash; every other letter stands for itself."""

_MEANINGS: Final = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", "{": r"\{", "[]": "(?!)", "[^]": "(?s:.)"}
_SIGN: Final = regex.compile(r"\\(?:k<\w+>|c[A-Za-z]|.)|\[\^?\]?|[\].$]|\{(?!\d+(?:,\d*)?\})", regex.DOTALL)


def _as_javascript(pattern: str, *, multiline: bool) -> str:
    r"""Translates JavaScript's pattern: ``\d`` is ASCII, ``$`` is the very end, ``\z`` is the letter z."""
    inside = False

    def put(match: Any) -> str:
        nonlocal inside
        sign: str = match[0]
        if sign[0] == "\\":
            return _escaped(sign[1:], inside=inside)
        if inside:
            inside = not sign.endswith("]")
            return "\\" + sign if sign[0] == "[" else sign
        inside = sign in ("[", "[^")
        return sign if multiline and sign == "$" else _MEANINGS.get(sign, sign)

    return _SIGN.sub(put, pattern)


def _escaped(escape: str, *, inside: bool) -> str:
    """Translates one escape, given without its backslash."""
    if escape[0] == "k" and len(escape) > 1:
        return f"(?P={escape[2:-1]})"
    if escape[0] == "c" and len(escape) > 1:
        return f"\\x{ord(escape[1]) % 32:02x}"
    chosen = _CLASSES.get(escape.lower())
    if chosen is not None and escape.islower():
        return chosen if inside else f"[{chosen}]"
    if chosen is not None and not inside:
        return f"[^{chosen}]"
    is_letter = escape.isascii() and escape.isalpha() and escape not in _LETTERS
    return escape if is_letter else "\\" + escape


class Matching(threading.local):
    """The evaluation that runs in this thread.

    Attributes:
        watch: The watch of the evaluation, or None.
    """

    watch: Watch | None = None


matching: Final = Matching()


class BoundedPattern(Jsonata.JLambda):
    """A compiled pattern in the form that `jsonata` expects; called with a text, it returns the first match.

    Args:
        pattern: The pattern's text.
        flags: The engine's flags.
    """

    def __init__(self, pattern: str, flags: int) -> None:
        Jsonata.JLambda.__init__(self, self._first)
        self._pattern: Any = regex.compile(
            _as_javascript(pattern, multiline=bool(flags & regex.MULTILINE)), flags | regex.VERSION0
        )

    def _first(self, value: Any = None, *_others: Any) -> dict[str, Any] | None:
        is_text = isinstance(value, str | int | float)  # numbers become texts, as JavaScript writes them
        return _described(self.finditer(to_string(value))) if is_text else None

    def search(self, text: str) -> Any:
        """The first match, or None."""
        return self._within(self._pattern.search, text)

    def finditer(self, text: str) -> Iterator[Any]:
        """All matches, in order; each match is yielded when the next one is known.

        Raises:
            JException: A match before the end of the text is empty, which would repeat for ever.
        """
        matches = self._within(self._pattern.finditer, text)
        match = self._next(matches)
        while match is not None:
            following = self._next(matches) if match.end() < len(text) else None
            if match.end() < len(text) and (not match[0] or (following is not None and not following[0])):
                raise JException("D1004", -1)
            yield match
            match = following

    @staticmethod
    def _next(matches: Iterator[Any]) -> Any:
        try:
            return next(matches, None)
        except TimeoutError:
            raise TooLong from None

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        """The text between matches."""
        parts: list[str] = []
        start = 0
        for number, match in enumerate(self.finditer(text), 1):
            parts.append(text[start : match.start()])
            start = match.end()
            if number == maxsplit:
                break
        return [*parts, text[start:]]

    def sub(self, replacement: Any, text: str, count: int = 0) -> str:
        """The text with matches replaced."""
        call: Any = replacement
        if isinstance(replacement, str):
            call = partial(_expanded, self._template(replacement))
        parts: list[str] = []
        start = 0
        for number, match in enumerate(self.finditer(text), 1):
            parts += [text[start : match.start()], call(match)]
            start = match.end()
            if number == count:
                break
        return "".join([*parts, text[start:]])

    def _template(self, replacement: str) -> str:
        r"""The template for ``expand``, from the replacement that `jsonata` prepared.

        `jsonata` writes ``\\g<2>`` for ``$2``, and shortens the number on a ValueError, which says that the
        pattern has no such group. Every other backslash stands for itself.
        """
        for group in _GROUP.finditer(replacement):
            if int(group[1]) > self._pattern.groups:
                raise ValueError(f"invalid group reference {group[1]} at position {group.start()}")
        return _OTHER_BACKSLASH.sub(r"\\\\", replacement)

    def _within(self, method: Callable[..., Any], *args: Any) -> Any:
        watch = matching.watch
        try:
            return method(*args, timeout=watch.left if watch is not None else DEFAULT_SECONDS)
        except TimeoutError:
            raise TooLong from None


def _described(matches: Iterator[Any]) -> dict[str, Any] | None:
    """The next match, as the object that expressions see."""
    match = next(matches, None)
    if match is None:
        return None
    return {
        "match": match[0],
        "start": match.start(),
        "end": match.end(),
        "groups": list(match.groups("")),
        "next": Jsonata.JLambda(partial(_described, matches)),
    }


def _expanded(template: str, match: Any) -> str:
    return match.expand(template)


def bounded_engine(pattern: str, flags: Any) -> BoundedPattern:
    """Compiles a pattern for `jsonata`.

    Args:
        pattern: The pattern's text.
        flags: `jsonata`'s own flags.
    """
    chosen = regex.IGNORECASE if flags.case_insensitive else 0
    return BoundedPattern(pattern, chosen | (regex.MULTILINE if flags.multiline else 0))
