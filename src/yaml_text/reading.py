"""Reads YAML 1.2 as values; refuses duplicate keys, unknown tags and too much depth or repetition.

A text becomes nodes with their places, from the parser's events, and the nodes become values. libyaml's
parser is used if PyYAML has it, as in PyYAML's wheels: PyYAML's own parser refuses valid YAML, such as
``{text: why?}`` and tabs between values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import yaml

from .fields import Path, Position, Problem, Severity, YamlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
TRUE: Final = frozenset({"true", "True", "TRUE"})
FALSE: Final = frozenset({"false", "False", "FALSE"})
_INT: Final = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
#: The digits of the largest float; Python is slow with, or refuses, texts that are much longer.
_MOST_DIGITS: Final = 309


def core_scalar(text: str) -> str | int | float | bool | None:
    """Resolves an unquoted scalar: https://yaml.org/spec/1.2.2/#103-core-schema.

    PyYAML follows YAML 1.1, in which ``yes`` is a truth value, ``010`` is eight and ``12:30`` is a number.
    JSON has no infinite numbers: ``.inf``, ``.nan`` and numbers beyond the largest float stay texts.
    """
    if text in NULL:
        return None
    if text in TRUE or text in FALSE:
        return text in TRUE
    if _INT.fullmatch(text):
        base = {"0x": 16, "0o": 8}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base) if len(text) <= _MOST_DIGITS else text
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


Place = tuple[int, int]
"""Line and column, from 1."""

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = "<<"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules and limits for reading a text."""

    merge_keys: bool  # whether `<<` adds the keys of another mapping; otherwise it is a mistake
    most_values: int  # that aliases may repeat
    deepest: int  # number of levels
    scalar: Callable[[str], Any] = core_scalar  # resolves an unquoted scalar to its value
    key: Callable[[str], str] = str  # resolves an unquoted key to its text
    changed: Callable[[str], tuple[str, str] | None] = lambda _: None
    """Says of an unquoted scalar that its value is another one than what is written, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yaml:
    data: Any = None  # dict, list, str, int, float, bool, None
    keys: dict[Path, Place] = field(default_factory=lambda: {(): (1, 1)})
    """Line and column of each key path: of keys of mappings, of entries of sequences."""
    values: dict[Path, Place] = field(default_factory=dict[Path, Place])
    """Line and column where the value of each key path begins."""
    problems: tuple[Problem, ...] = ()  # mistakes that did not keep the rest from being read
    text: str = field(default="", repr=False)

    def at(self, path: Path) -> Position:
        """The place of a key path; if there is no such key, the place of its nearest parent."""
        known = next((path[:n] for n in range(len(path), -1, -1) if path[:n] in self.keys), None)
        line, column = (1, 1) if known is None else self.keys[known]
        return Position(line=line, column=column, path=path)

    def value_at(self, path: Path) -> Position:
        """The place where the value of a key path begins; like `at` if there is no such key."""
        if path not in self.values:
            return self.at(path)
        line, column = self.values[path]
        return Position(line=line, column=column, path=path)

    def inside(self, path: Path, value: str, offset: int) -> Position:
        """The place of a character of a text; that of the text if it is written in another way."""
        position, lines = self.value_at(path), self.text.splitlines()
        number = value.count("\n", 0, offset)
        wanted, start = value.split("\n")[number], value.rfind("\n", 0, offset) + 1
        # In a block, a text begins below its | sign.
        for line in (position.line + number, position.line + number + 1):
            written = lines[line - 1] if line <= len(lines) else ""
            for quoted in (str, _in_single_quotes, _in_double_quotes):
                found = written.find(quoted(wanted), position.column - 1 if line == position.line else 0)
                if wanted and found >= 0:
                    column = found + len(quoted(wanted[: offset - start])) + 1
                    return Position(line=line, column=column, path=path)
        return position


def _in_single_quotes(text: str) -> str:
    return text.replace("'", "''")


def _in_double_quotes(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def read(text: str, rules: Rules) -> Yaml:
    """Reads a text with one document; `YamlError` if it is not YAML, or exceeds the limits.

    Duplicate keys, unknown tags and similar mistakes are in `Yaml.problems`.
    """
    node = _compose(text, rules)
    if node is None:
        return Yaml()
    reading = _Reading(rules)
    data = reading.value(node, ())
    return Yaml(
        data=data, keys=reading.keys, values=reading.values, problems=tuple(reading.problems), text=text
    )


class _Reading:
    def __init__(self, rules: Rules) -> None:
        self.keys: dict[Path, Place] = {(): (1, 1)}
        self.values: dict[Path, Place] = {}
        self.problems: list[Problem] = []
        self._rules = rules
        self._open: set[int] = set()
        self._seen: set[int] = set()
        self._repeated = 0

    def value(self, node: YamlNode, path: Path) -> Any:
        self._repeated += id(node) in self._seen
        self._seen.add(id(node))
        if self._repeated > self._rules.most_values:
            what = f"aliases repeat more than {self._rules.most_values} values"
            raise self._ended(what, node, path, "Look for aliases (*name) that repeat each other")
        if len(path) > self._rules.deepest:
            raise self._ended(f"nested more than {self._rules.deepest} levels deep", node, path)
        self.values[path] = (node.line, node.column)
        if isinstance(node, Scalar):
            return self._scalar(node, path)
        if id(node) in self._open:
            raise self._ended("this alias refers to a value that contains the alias itself", node, path)
        self._open.add(id(node))
        try:
            if isinstance(node, Sequence):
                return self._sequence(node, path)
            assert isinstance(node, Mapping)
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _sequence(self, node: Sequence, path: Path) -> list[Any]:
        self._check_tag(node, "seq", path)
        entries: list[Any] = []
        for index, entry in enumerate(node.entries):
            self.keys[*path, index] = (entry.line, entry.column)
            entries.append(self.value(entry, (*path, index)))
        return entries

    def _mapping(self, node: Mapping, path: Path) -> dict[str, Any]:
        self._check_tag(node, "map", path)
        members: dict[str, Any] = {}
        merged: set[str] = set()
        for key_node, value_node in node.pairs:
            key = self._key(key_node, path)
            if key is None:
                continue
            if key == _MERGE and isinstance(key_node, Scalar) and key_node.plain and key_node.tag is None:
                if self._rules.merge_keys:
                    merged |= self._merge(value_node, members, path)
                else:
                    self._wrong("merge keys (<<) are not supported", key_node, path, "Repeat the keys")
            elif key in members and key not in merged:
                first, _ = self.keys[*path, key]
                what = f"the key '{key}' is given twice; the other one is on line {first}"
                self._wrong(what, key_node, (*path, key), "Keep one of them")
            else:
                merged.discard(key)
                self.keys[*path, key] = (key_node.line, key_node.column)
                members[key] = self.value(value_node, (*path, key))
        return members

    def _merge(self, node: YamlNode, members: dict[str, Any], path: Path) -> set[str]:
        """Adds the missing keys from ``<<: *a`` or ``<<: [*a, *b]``, and returns the added keys."""
        if isinstance(node, Sequence):
            return {key for entry in node.entries for key in self._merge(entry, members, path)}
        if not isinstance(node, Mapping) or id(node) in self._open:
            self._wrong("'<<' takes a mapping or a list of mappings", node, path)
            return set()
        outer_keys, outer_values = self.keys, self.values
        self.keys, self.values = {}, {}
        extra = self.value(node, path)
        inner_keys, inner_values = self.keys, self.values
        self.keys, self.values = outer_keys, outer_values
        added = {key: value for key, value in extra.items() if key not in members}
        for known, place in inner_keys.items():
            if known[len(path)] in added:
                self.keys[known] = place
                self.values[known] = inner_values[known]
        members.update(added)
        return set(added)

    def _key(self, node: YamlNode, path: Path) -> str | None:
        if not isinstance(node, Scalar):
            self._wrong("a key must be text, not a list or mapping", node, path)
            return None
        if not node.plain or node.tag is not None:
            return node.text
        self._tell_of_change(node, path)
        return self._rules.key(node.text)

    def _scalar(self, node: Scalar, path: Path) -> Any:
        if node.tag is None and node.plain:
            self._tell_of_change(node, path)
            return self._rules.scalar(node.text)
        name = "str" if node.tag is None else node.tag.removeprefix(_TAG)
        match name:
            case "!" | "str":
                return node.text
            case "int" | "float":
                self._tell_of_change(node, path)
                value = self._rules.scalar(node.text)
                fits = isinstance(value, (int, float)) and not isinstance(value, bool)
            case "bool":
                value, fits = node.text in TRUE, node.text in TRUE | FALSE
            case "null":
                value, fits = None, node.text in NULL
            case _:
                self._unknown_tag(node, path)
                return node.text
        if fits:
            return value
        self._wrong(
            f"'{node.text}' does not fit its tag !!{name}", node, path, "Correct the value or the tag"
        )
        return None

    def _tell_of_change(self, node: Scalar, path: Path) -> None:
        if said := self._rules.changed(node.text):
            self._wrong(said[0], node, path, said[1], severity=Severity.WARNING)

    def _check_tag(self, node: YamlNode, kind: str, path: Path) -> None:
        if node.tag not in (None, "!", f"{_TAG}{kind}"):
            self._unknown_tag(node, path)

    def _unknown_tag(self, node: YamlNode, path: Path) -> None:
        shown = str(node.tag).replace(_TAG, "!!")
        self._wrong(f"the tag '{shown}' is not supported", node, path, "Remove it")

    def _wrong(
        self,
        what: str,
        node: YamlNode,
        path: Path,
        fix: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> None:
        position = Position(line=node.line, column=node.column, path=path)
        self.problems.append(Problem(message=what, position=position, fix=fix, severity=severity))

    def _ended(self, what: str, node: YamlNode, path: Path, fix: str | None = None) -> YamlError:
        self._wrong(what, node, path, fix)
        return YamlError(self.problems)


# Characters with a meaning in YAML 1.1, which libyaml reads, that are plain text in 1.2: ends of lines, and
# leading question marks; and the backslashes of JSON's two escapes for a character
# (https://www.rfc-editor.org/rfc/rfc8259#section-7). Code points that are no characters take their place.
_BREAKS: Final = "\x85\u2028\u2029"
_AS_TEXT: Final = str.maketrans(_BREAKS, "\ufdd0\ufdd1\ufdd2")
_AS_WRITTEN: Final = str.maketrans("\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4", _BREAKS + "?\\")
_QUESTION: Final = re.compile(r"(?<=[\s\[{,:])\?(?=[^\s,\[\]{}])")
_PAIR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\(ud[89ab][0-9a-f]{2})\\(ud[c-f][0-9a-f]{2})", re.IGNORECASE)
_MARKED_PAIR: Final = re.compile("\ufdd4u(.{4})\ufdd4u(.{4})")
_parse: Final[Any] = partial(cast("Any", yaml).parse, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@dataclass(slots=True, kw_only=True)
class YamlNode:
    """A value and where it begins, from 1."""

    line: int
    column: int
    tag: str | None


@dataclass(slots=True, kw_only=True)
class Scalar(YamlNode):
    """A text, without its quotes and escapes; it is plain if it had no quotes."""

    text: str
    plain: bool


@dataclass(slots=True, kw_only=True)
class Sequence(YamlNode):
    entries: list[YamlNode] = field(default_factory=list[YamlNode])


@dataclass(slots=True, kw_only=True)
class Mapping(YamlNode):
    pairs: list[tuple[YamlNode, YamlNode]] = field(default_factory=list[tuple[YamlNode, YamlNode]])


N = TypeVar("N", bound=YamlNode)


def events_of(text: str) -> Iterator[Any]:
    """The parser's events, for those who only need places in the text."""
    return _parse(_prepared(text))


def _prepared(text: str) -> str:
    return _QUESTION.sub("\ufdd3", _PAIR.sub("\\1\ufdd4\\2\ufdd4\\3", text.translate(_AS_TEXT)))


def _as_written(event: Any) -> str:
    """The text of a scalar, without its quotes and escapes."""
    text = event.value
    if event.style == '"':
        text = _MARKED_PAIR.sub(lambda pair: bytes.fromhex(pair[1] + pair[2]).decode("utf-16-be"), text)
    return text.translate(_AS_WRITTEN)


def _compose(text: str, rules: Rules) -> YamlNode | None:
    """The outermost node of a text with one document, None if it has none; an alias is what it refers to.

    Bounded in depth, as the parsers' time grows with its square.
    """
    text = _prepared(text)
    try:
        return _Composing(text, rules).document()
    except yaml.MarkedYAMLError as error:
        raise YamlError([_syntax(text, error, rules.deepest)]) from None
    except yaml.reader.ReaderError as error:
        raise YamlError([_unreadable(text, error.position)]) from None
    except UnicodeEncodeError as error:  # half a character
        raise YamlError([_unreadable(text, error.start)]) from None


class _Composing:
    def __init__(self, text: str, rules: Rules) -> None:
        self._events: Iterator[Any] = _parse(text)
        self._deepest = rules.deepest
        self._anchors: dict[str, YamlNode] = {}

    def document(self) -> YamlNode | None:
        next(self._events)  # the stream's start
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        node = self._node(next(self._events), 0)
        next(self._events)  # the document's end
        following = next(self._events)
        if not isinstance(following, yaml.StreamEndEvent):
            raise _refused("a file must hold one document, but another one begins here", following)
        return node

    def _node(self, event: Any, depth: int) -> YamlNode:
        if depth > self._deepest:
            raise _refused(f"nested more than {self._deepest} levels deep", event)
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event)
        mark = event.start_mark
        place: dict[str, Any] = {"line": mark.line + 1, "column": mark.column + 1, "tag": event.tag}
        if isinstance(event, yaml.ScalarEvent):
            return self._known(event, Scalar(**place, text=_as_written(event), plain=not event.style))
        if isinstance(event, yaml.SequenceStartEvent):
            sequence = self._known(event, Sequence(**place))
            while not isinstance(entry := next(self._events), yaml.SequenceEndEvent):
                sequence.entries.append(self._node(entry, depth + 1))
            return sequence
        mapping = self._known(event, Mapping(**place))
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            name = self._node(key, depth + 1)
            mapping.pairs.append((name, self._node(next(self._events), depth + 1)))
        return mapping

    def _known(self, event: Any, node: N) -> N:
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _aliased(self, event: Any) -> YamlNode:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise _refused(f"there is no anchor '&{event.anchor}' above this alias", event)
        return node


def _refused(what: str, event: Any) -> YamlError:
    mark = event.start_mark
    return YamlError([_problem(what, mark.line + 1, mark.column + 1)])


def _syntax(text: str, error: yaml.MarkedYAMLError, deepest: int) -> Problem:
    said = ", ".join(part for part in (error.context, error.problem) if part)
    message = f"this is not valid YAML: {said}"
    fix = "Look at quotes, indents and colons here and in the line before"
    # Since libyaml 0.2.6 the scanner has a bound too, which it meets up to 1,024 characters before we are
    # told of the first level: a key may end as late as that.
    if "nesting depth" in said:
        message, fix = f"nested more than {deepest} levels deep", None
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
