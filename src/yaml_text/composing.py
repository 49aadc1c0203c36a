"""Turns a text into nodes with their places, from the parser's events, bounded in depth.

libyaml's parser is used if PyYAML has it, as in PyYAML's wheels: PyYAML's own parser refuses valid YAML, such
as ``{text: why?}`` and tabs between values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import yaml

from .mending import Mending, anchor_as_written
from .mistakes import Mistake, YamlError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Characters with a meaning in YAML 1.1, which libyaml reads, that are plain text in 1.2: ends of lines, and
# leading question marks. They are replaced by code points that are not characters.
_BREAKS: Final = "\x85\u2028\u2029"
_AS_TEXT: Final = str.maketrans(_BREAKS, "\ufdd0\ufdd1\ufdd2")
_AS_WRITTEN: Final = str.maketrans("\ufdd0\ufdd1\ufdd2\ufdd3", _BREAKS + "?")
_QUESTION: Final = re.compile(r"(?<=[\s\[{,:])\?(?=[^\s,\[\]{}])")
_parse: Final[Any] = partial(cast("Any", yaml).parse, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@dataclass(slots=True, kw_only=True)
class Node:
    """A value at a place of the text.

    Attributes:
        line: Line of its beginning, from 1.
        column: Column of its beginning, from 1.
        tag: Its tag, or None.
    """

    line: int
    column: int
    tag: str | None


@dataclass(slots=True, kw_only=True)
class Scalar(Node):
    """A text.

    Attributes:
        text: The text, without quotes and escapes.
        plain: Whether the text has no quotes.
    """

    text: str
    plain: bool


@dataclass(slots=True, kw_only=True)
class Sequence(Node):
    """A list."""

    entries: list[Node] = field(default_factory=list[Node])


@dataclass(slots=True, kw_only=True)
class Mapping(Node):
    """Keys and values."""

    pairs: list[tuple[Node, Node]] = field(default_factory=list[tuple[Node, Node]])


N = TypeVar("N", bound=Node)


def compose(text: str, *, deepest: int) -> Node | None:
    """Reads the nodes of a text with one document.

    Args:
        text: The text.
        deepest: Maximum number of levels: parsers' time grows with the square of the depth.

    Returns:
        The outermost node, or None if the text has none. An alias becomes the node that it refers to.

    Raises:
        YamlError: The text is not YAML, has several documents, or is nested too deeply.
    """
    text = _QUESTION.sub("\ufdd3", text.translate(_AS_TEXT))
    composing = _Composing(text, deepest)
    if composing.failure is not None:
        mending = Mending(text)
        composing = _Composing(mending.text, deepest)
        while mending.leave_out_data(composing.scalars):
            composing = _Composing(mending.text, deepest)
    if composing.failure is not None:
        raise YamlError([_syntax(composing.text, composing.failure)])
    return composing.node


class _Composing:
    """A single reading of a text.

    Attributes:
        text: The text.
        node: The outermost node, or None if there is none.
        failure: The error that ended the reading, or None.
        scalars: The events of the scalars, as far as the text could be read.
    """

    def __init__(self, text: str, deepest: int) -> None:
        self.text = text
        self.node: Node | None = None
        self.failure: yaml.MarkedYAMLError | None = None
        self.scalars: list[Any] = []
        self._events: Iterator[Any] = _parse(text)
        self._deepest = deepest
        self._anchors: dict[str, Node] = {}
        try:
            self.node = self._document()
        except yaml.MarkedYAMLError as error:
            self.failure = error
        except yaml.reader.ReaderError as error:
            raise YamlError([_unreadable(text, error.position)]) from None
        except UnicodeEncodeError as error:  # half a character
            raise YamlError([_unreadable(text, error.start)]) from None

    def _document(self) -> Node | None:
        next(self._events)  # the stream's start
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        node = self._node(next(self._events), 0)
        next(self._events)  # the document's end
        following = next(self._events)
        if not isinstance(following, yaml.StreamEndEvent):
            raise _refused("a file must hold one document, but another one begins here", following)
        return node

    def _node(self, event: Any, depth: int) -> Node:
        if depth > self._deepest:
            raise _refused(f"nested more than {self._deepest} levels deep", event)
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event)
        mark = event.start_mark
        place: dict[str, Any] = {"line": mark.line + 1, "column": mark.column + 1, "tag": event.tag}
        if isinstance(event, yaml.ScalarEvent):
            self.scalars.append(event)
            text = event.value.translate(_AS_WRITTEN)
            return self._known(event, Scalar(**place, text=text, plain=not event.style))
        if isinstance(event, yaml.SequenceStartEvent):
            sequence = self._known(event, Sequence(**place))
            while not isinstance(entry := next(self._events), yaml.SequenceEndEvent):
                sequence.entries.append(self._node(entry, depth + 1))
            return sequence
        mapping = self._known(event, Mapping(**place))
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            mapping.pairs.append((self._node(key, depth + 1), self._node(next(self._events), depth + 1)))
        return mapping

    def _known(self, event: Any, node: N) -> N:
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _aliased(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise _refused(f"there is no anchor '&{anchor_as_written(event.anchor)}' above this alias", event)
        return node


def _refused(what: str, event: Any) -> YamlError:
    mark = event.start_mark
    return YamlError([Mistake(what=what, line=mark.line + 1, column=mark.column + 1)])


def _syntax(text: str, error: yaml.MarkedYAMLError) -> Mistake:
    message = ", ".join(part for part in (error.context, error.problem) if part)
    fix = "Look at quotes, indents and colons here and in the line before"
    mark: Any = error.problem_mark or error.context_mark
    if mark is None:
        return Mistake(what=f"this is not valid YAML: {message}", line=1, column=1, fix=fix)
    if text[mark.index : mark.index + 1] == "\t":
        fix = "Indent with spaces: YAML allows no tabs there"
    if "Unicode character escape" in message:
        fix = "Write the character itself instead of its escape"
    # At the end of a text libyaml reports the line after the last.
    if mark.index >= len(text.rstrip("\n")):
        line, column = _place(text.rstrip("\n"), mark.index)
    else:
        line, column = mark.line + 1, mark.column + 1
    return Mistake(what=f"this is not valid YAML: {message}", line=line, column=column, fix=fix)


def _unreadable(text: str, index: int) -> Mistake:
    line, column = _place(text, index)
    return Mistake(
        what="YAML does not allow this character",
        line=line,
        column=column,
        fix="Remove it, or write it as an escape in double quotes",
    )


def _place(text: str, index: int) -> tuple[int, int]:
    before = text[:index]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
