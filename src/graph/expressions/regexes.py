"""Regular expressions of JSONata, bounded: one that backtracks for ever must not stop the whole process.

The engine is ``regex``, which looks at a deadline while it matches and lets other threads run; the standard
library's does neither.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import regex

from .bounds import TooLong
from .engine import JException, Jsonata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .bounds import Watch

_DEFAULT_SECONDS: Final = 30.0
_GROUP: Final = regex.compile(r"\\g<(\d+)>")
_OTHER_BACKSLASH: Final = regex.compile(r"\\(?!g<\d+>)")


_CLASSES: Final = {"d": "0-9", "w": "A-Za-z0-9_"}
_TOKEN: Final = regex.compile(r"\\.|\[\^?|\]", regex.DOTALL)


def _as_javascript(pattern: str) -> str:
    r"""The pattern with ``\d`` and ``\w`` for ASCII alone, as in JavaScript."""
    inside = False

    def put(found: Any) -> str:
        nonlocal inside
        token: str = found[0]
        opening, closing = "[]"
        if token[0] == opening:
            nested, inside = inside, True
            return "\\" + token if nested else token
        if token == closing:
            inside = False
        chosen = _CLASSES.get(token[1:].lower()) if token[0] == "\\" else None
        if chosen is None:
            return token
        if token[1].islower():
            return chosen if inside else f"[{chosen}]"
        return token if inside else f"[^{chosen}]"

    return _TOKEN.sub(put, pattern)


class Matching(threading.local):
    """Which evaluation matches in this thread.

    Attributes:
        watch: The watch of the evaluation, or None.
    """

    watch: Watch | None = None


matching: Final = Matching()


class BoundedPattern(Jsonata.JLambda):
    """A compiled pattern as `jsonata` uses one, also as a function of a text that gives its first match.

    Args:
        pattern: The pattern's text.
        flags: The engine's flags.
    """

    def __init__(self, pattern: str, flags: int) -> None:
        Jsonata.JLambda.__init__(self, self._first)
        self._pattern: Any = regex.compile(_as_javascript(pattern), flags | regex.VERSION0)

    def _first(self, text: Any = None, *_others: Any) -> dict[str, Any] | None:
        return _described(self.finditer(text)) if isinstance(text, str) else None

    def search(self, text: str) -> Any:
        """The first match, or None."""
        return self._within(self._pattern.search, text)

    def finditer(self, text: str) -> Iterator[Any]:
        """All matches, in order; each is given when the next one is known.

        Raises:
            JException: After the first match there is an empty one: there is no way on from it.
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
        r"""What `jsonata` made of a replacement, in which every other backslash stands for itself.

        It writes ``\\g<2>`` for the group ``$2``, and shortens the number when it is told that there is none.
        """
        for group in _GROUP.finditer(replacement):
            if int(group[1]) > self._pattern.groups:
                raise ValueError(f"invalid group reference {group[1]} at position {group.start()}")
        return _OTHER_BACKSLASH.sub(r"\\\\", replacement)

    def _within(self, method: Callable[..., Any], *args: Any) -> Any:
        watch = matching.watch
        try:
            return method(*args, timeout=watch.left if watch is not None else _DEFAULT_SECONDS)
        except TimeoutError:
            raise TooLong from None


def _described(matches: Iterator[Any]) -> dict[str, Any] | None:
    """The next of the matches, as an expression sees it."""
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
