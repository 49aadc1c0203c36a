"""Rewrites valid YAML that libyaml refuses into YAML that libyaml reads.

- Tabs after dashes, before comments and in empty lines: https://yaml.org/spec/1.2.2/#66-comments.
- Two surrogate escapes for one character, as in JSON: https://www.rfc-editor.org/rfc/rfc8259#section-7.
- Anchors with characters that are not letters or digits: https://yaml.org/spec/1.2.2/#692-node-anchors.
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
    """Rewrites a text. Matches inside scalars may be data, which only the parser knows; see `leave_out_data`.

    Args:
        text: The text.

    Attributes:
        text: The rewritten text. Line numbers stay the same; columns after two escapes do not.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._written = text
        self._mends = list(_REFUSED.finditer(text))
        self._places: list[int] = []
        self.text = self._mended()

    def leave_out_data(self, scalars: Sequence[Any]) -> bool:
        """Undoes the changes to data.

        Args:
            scalars: The parser's events of the scalars in the rewritten text.

        Returns:
            Whether changes were undone, so that `text` is different.
        """
        starts = [scalar.start_mark.index for scalar in scalars]

        def is_data(mend: re.Match[str], at: int) -> bool:
            number = bisect_right(starts, at) - 1
            return (
                number >= 0 and at < scalars[number].end_mark.index and self._is_data(mend, scalars[number])
            )

        matches = zip(self._mends, self._places, strict=True)
        kept = [mend for mend, at in matches if not is_data(mend, at)]
        if len(kept) == len(self._mends):
            return False
        self._mends = kept
        self.text = self._mended()
        return True

    def _is_data(self, mend: re.Match[str], scalar: Any) -> bool:
        """Returns whether a match inside a scalar is data."""
        if mend["high"]:
            return scalar.style != '"'
        if mend["name"]:
            return scalar.anchor != _renamed(mend)  # a scalar's event includes its anchor
        if scalar.style not in ("|", ">"):
            return "-" in mend["tabs"]
        # In a block scalar, white space after the indent is data; the first line with text sets the indent.
        lines = self._lines[scalar.start_mark.line + 1 : scalar.end_mark.line]
        first = next((line for line in lines if line.strip()), None)
        return first is not None and _blanks(mend["tabs"]) >= _blanks(first)

    def _mended(self) -> str:
        """Applies the changes; stores their places in the rewritten text."""
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
    """The original name of an anchor that may have been renamed."""
    if anchor.startswith(_RENAMED):
        with suppress(ValueError):  # a name in the text may begin like this
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
