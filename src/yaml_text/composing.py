"""Turns a text into nodes with their places, from the parser's events, bounded in depth.

libyaml's parser is used if PyYAML has it, as in PyYAML's wheels: PyYAML's own parser refuses valid YAML, such
as ``{text: why?}`` and tabs between values. What libyaml refuses as well is rewritten; see `Mending`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import yaml

from .fields import Position, Problem, YamlError

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
    """A value and where it begins, from 1."""

    line: int
    column: int
    tag: str | None


@dataclass(slots=True, kw_only=True)
class Scalar(Node):
    """A text, without its quotes and escapes; it is plain if it had no quotes."""

    text: str
    plain: bool


@dataclass(slots=True, kw_only=True)
class Sequence(Node):
    entries: list[Node] = field(default_factory=list[Node])


@dataclass(slots=True, kw_only=True)
class Mapping(Node):
    pairs: list[tuple[Node, Node]] = field(default_factory=list[tuple[Node, Node]])


N = TypeVar("N", bound=Node)


def compose(text: str, *, deepest: int) -> Node | None:
    """The outermost node of a text with one document, None if it has none; an alias is what it refers to.

    Bounded in depth, as the parsers' time grows with its square.
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
    """A single reading of a text: the outermost node, or the error that ended it, and the scalars so far."""

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
    return YamlError([_problem(what, mark.line + 1, mark.column + 1)])


def _syntax(text: str, error: yaml.MarkedYAMLError) -> Problem:
    said = ", ".join(part for part in (error.context, error.problem) if part)
    message = f"this is not valid YAML: {said}"
    fix = "Look at quotes, indents and colons here and in the line before"
    mark: Any = error.problem_mark or error.context_mark
    if mark is None:
        return _problem(message, 1, 1, fix)
    if text[mark.index : mark.index + 1] == "\t":
        fix = "Indent with spaces: YAML allows no tabs there"
    if "Unicode character escape" in said:
        fix = "Write the character itself instead of its escape"
    # At the end of a text libyaml reports the line after the last.
    if mark.index >= len(text.rstrip("\n")):
        return _problem(message, *_place(text.rstrip("\n"), mark.index), fix)
    return _problem(message, mark.line + 1, mark.column + 1, fix)


def _unreadable(text: str, index: int) -> Problem:
    fix = "Remove it, or write it as an escape in double quotes"
    return _problem("YAML does not allow this character", *_place(text, index), fix)


def _problem(message: str, line: int, column: int, fix: str | None = None) -> Problem:
    return Problem(message=message, position=Position(line=line, column=column), fix=fix)


def _place(text: str, index: int) -> tuple[int, int]:
    before = text[:index]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


_REFUSED: Final = re.compile(
    r"^(?P<tabs>(?: *-)+ *\t[ \t]*| *\t[ \t]*(?=#|\r?$))"
    r"|\\u(?P<high>d[89ab][0-9a-f]{2})\\u(?P<low>d[c-f][0-9a-f]{2})"
    r"|(?<![^\s\[\]{},])(?P<sign>[&*])(?![a-z0-9_-]+(?![^\s\[\]{},]))(?P<name>[^\s\[\]{},'\"]+)",
    re.IGNORECASE | re.MULTILINE,
)
_RENAMED: Final = "anchor-"


class Mending:
    """Rewrites valid YAML that libyaml refuses into YAML that libyaml reads.

    - Tabs after dashes, before comments and in empty lines: https://yaml.org/spec/1.2.2/#66-comments.
    - Two surrogate escapes for one character, as in JSON: https://www.rfc-editor.org/rfc/rfc8259#section-7.
    - Anchors with characters that are not letters or digits: https://yaml.org/spec/1.2.2/#692-node-anchors.

    Matches inside scalars may be data, which only the parser knows; see `leave_out_data`. In the rewritten
    text line numbers stay the same; columns after two escapes do not.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._written = text
        self._mends = list(_REFUSED.finditer(text))
        self._places: list[int] = []
        self.text = self._mended()

    def leave_out_data(self, scalars: list[Any]) -> bool:
        """Undoes changes to data, known from the events of the rewritten text's scalars; whether it did."""
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
