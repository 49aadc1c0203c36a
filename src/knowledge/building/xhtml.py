"""Converts the XHTML of node descriptions to plain text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...types.canonical import without_surrogates
from .safe_xml import local_name, parse_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_BLOCKS: Final = frozenset({"p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "table", "intro", "blockquote"})
_LISTS: Final = frozenset({"ul", "ol", "dl"})
_SPACE: Final = re.compile(r"[ \t\r\f\v\xa0]*\n[ \t\r\f\v\xa0]*|[ \t\r\f\v\xa0]+")
_GAPS: Final = re.compile(r"\n{3,}")


def text_of(element: Element, *, leave_out: frozenset[str] = frozenset()) -> str:
    """The text of an element, with empty lines between paragraphs and dashes before list entries.

    Direct children whose name is in `leave_out` are skipped.
    """
    writer = _Writer()
    writer.inside(element, leave_out)
    return writer.text()


def text_inside(xhtml: str) -> str:
    """The plain text of an XHTML fragment, that is, of an element's content.

    Raises:
        XmlRefusedError: The fragment is not well-formed.
    """
    return text_of(parse_xml(without_surrogates(f"<text>{xhtml}</text>").encode()))


def line_of(element: Element) -> str:
    """The text of an element in one line."""
    return " ".join(text_of(element).split())


class _Writer:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._indent = 0

    def text(self) -> str:
        lines = [line.rstrip() for line in "".join(self._parts).split("\n")]
        return _GAPS.sub("\n\n", "\n".join(lines)).strip()

    def inside(self, element: Element, leave_out: frozenset[str] = frozenset()) -> None:
        self._words(element.text)
        for child in element:
            name = local_name(child)
            if name not in leave_out:
                self._element(name, child)
            self._words(child.tail)

    def _element(self, name: str, element: Element) -> None:
        if name in _BLOCKS:
            self._break("\n\n")
            self.inside(element)
            self._break("\n\n")
        elif name in _LISTS:
            self._break("\n")
            self._indent += 1
            self.inside(element)
            self._indent -= 1
            self._break("\n" if self._indent else "\n\n")
        elif name in ("li", "dt"):
            self._break("\n")
            self._parts.append("  " * max(self._indent - 1, 0) + "- ")
            self.inside(element)
        elif name == "dd":
            self._words(": ")
            self.inside(element)
        elif name in ("br", "tr"):
            self._break("\n")
            self.inside(element)
        elif name in ("td", "th"):
            self.inside(element)
            self._words(" | ")
        elif name == "pre":
            self._break("\n")
            self._parts.append("".join(element.itertext()))
            self._break("\n")
        elif name == "a":
            self._link(element)
        else:
            self.inside(element)

    def _link(self, element: Element) -> None:
        self.inside(element)
        target = element.get("href", "").strip()
        shown = "".join(element.itertext()).strip()
        if target.startswith(("http://", "https://")) and target != shown:
            self._words(f" ({target})")

    def _words(self, text: str | None) -> None:
        if not text:
            return
        clean = _SPACE.sub(" ", text)
        if not self._parts or self._parts[-1].endswith(("\n", " ")):
            clean = clean.lstrip(" ")
        if clean:
            self._parts.append(clean)

    def _break(self, gap: str) -> None:
        """Adds a gap, unless the text ends with it already; `text` shortens longer gaps."""
        if self._parts and not "".join(self._parts[-2:]).endswith(gap):
            self._parts.append(gap)
