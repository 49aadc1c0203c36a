"""Rewrites what YAML allows and libyaml refuses into what libyaml reads.

- Tabs behind dashes, before comments and in empty lines: https://yaml.org/spec/1.2.2/#66-comments.
- Two escapes for one character, as JSON has them: https://www.rfc-editor.org/rfc/rfc8259#section-7.
- Anchors that are no words: https://yaml.org/spec/1.2.2/#692-node-anchors.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_REFUSED: Final = re.compile(
    r"^(?P<tabs>(?: *-)+ *\t[ \t]*| *\t[ \t]*(?=#|\r?$))"
    r"|\\u(?P<high>d[89ab][0-9a-f]{2})\\u(?P<low>d[c-f][0-9a-f]{2})"
    r"|(?<![^\s\[\]{},])(?P<sign>[&*])(?![a-z0-9_-]+(?![^\s\[\]{},]))(?P<name>[^\s\[\]{},'\"]+)",
    re.IGNORECASE | re.MULTILINE,
)
_RENAMED: Final = "anchor-"


class Mending:
    """Mends a text. What looks as if it had to be mended may be data: only the parser knows.

    Args:
        text: The text.

    Attributes:
        text: The text, mended. Lines stay where they are; behind two escapes, columns do not.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._written = text
        self._mends = list(_REFUSED.finditer(text))
        self._places: list[int] = []
        self.text = self._mended()

    def leave_out_data(self, scalars: Sequence[Any]) -> bool:
        """Undoes the mends of what turned out to be data.

        Args:
            scalars: The parser's events of the scalars in the text, mended.

        Returns:
            Whether there was any: then the text is another one.
        """
        starts = [scalar.start_mark.index for scalar in scalars]

        def is_data(mend: re.Match[str], at: int) -> bool:
            number = bisect_right(starts, at) - 1
            return (
                number >= 0 and at < scalars[number].end_mark.index and self._is_data(mend, scalars[number])
            )

        found = zip(self._mends, self._places, strict=True)
        kept = [mend for mend, at in found if not is_data(mend, at)]
        if len(kept) == len(self._mends):
            return False
        self._mends = kept
        self.text = self._mended()
        return True

    def _is_data(self, mend: re.Match[str], scalar: Any) -> bool:
        """Returns whether what stands in a scalar is data there."""
        if mend["high"]:
            return scalar.style != '"'
        if mend["name"]:
            return scalar.anchor != _renamed(mend)  # its own anchor belongs to a scalar, too
        if scalar.style not in ("|", ">"):
            return "-" in mend["tabs"]
        # In a block, white space is data behind the indent, which is that of the first line with text.
        lines = self._lines[scalar.start_mark.line + 1 : scalar.end_mark.line]
        first = next((line for line in lines if line.strip()), None)
        return first is not None and _blanks(mend["tabs"]) >= _blanks(first)

    def _mended(self) -> str:
        """The text as it is now; notes where in it what was mended stands."""
        parts: list[str] = []
        read = size = 0
        self._places = []
        for mend in self._mends:
            put = _put(mend)
            self._places.append(size + mend.start() - read)
            parts += [self._written[read : mend.start()], put]
            read, size = mend.end(), self._places[-1] + len(put)
        return "".join([*parts, self._written[read:]])


def anchor_as_written(anchor: str) -> str:
    """The name of an anchor that may have been mended."""
    if anchor.startswith(_RENAMED):
        with suppress(ValueError):  # somebody else's name may begin so
            return bytes.fromhex(anchor.removeprefix(_RENAMED)).decode()
    return anchor


def _put(mend: re.Match[str]) -> str:
    if mend["tabs"]:
        return mend["tabs"].replace("\t", " ")
    if mend["name"]:
        return mend["sign"] + _renamed(mend)
    character = bytes.fromhex(mend["high"] + mend["low"]).decode("utf-16-be")
    return f"\\U{ord(character):08x}"


def _renamed(mend: re.Match[str]) -> str:
    return _RENAMED + mend["name"].encode().hex()


def _blanks(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
