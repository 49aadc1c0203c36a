"""YAML 1.2 text into plain JSON values, with the line and column of every key path.

PyYAML reads YAML 1.1, in which ``yes`` is a truth value, ``010`` is eight and ``12:30`` is a number. Graph
documents are YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): only PyYAML's parser is used here;
what a scalar means is decided below, as js-yaml decides it, which is what the reference reads with.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

from ..nodes import Position
from .problems import DocumentError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

Path = tuple[str | int, ...]
_MOST_VALUES: Final = 100_000
_DEEPEST: Final = 200
_LARGEST_EXACT: Final = 2**53
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = "?"
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|[0-9][0-9_]*)(?<!_)")
_FLOAT: Final = re.compile(
    r"(?:[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9_]+(?:[eE][-+]?[0-9]+)?)(?<!_)"
)
_INFINITE: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN: Final = frozenset({".nan", ".NaN", ".NAN"})
_MERGE: Final = "<<"


@dataclass(frozen=True, slots=True)
class Source:
    """A document's text as values.

    Attributes:
        data: JSON: dict, list, str, int, float, bool, None.
        keys: Where each key path stands: keys of mappings at the key, entries of sequences at the entry.
        values: Where the value of each key path begins.
        problems: What is wrong with single places; the rest could still be read.
    """

    data: Any
    keys: dict[Path, Position]
    values: dict[Path, Position]
    problems: list[Problem] = field(default_factory=list[Problem])

    def at(self, path: Path) -> Position:
        """Where a key path stands; where its nearest parent stands if there is no such key."""
        for length in range(len(path), -1, -1):
            known = self.keys.get(path[:length])
            if known is not None:
                return Position(line=known.line, column=known.column, path=path)
        return Position(line=1, column=1, path=path)

    def value_at(self, path: Path) -> Position:
        """Where the value of a key path begins; see `at` if there is no such key."""
        known = self.values.get(path)
        return self.at(path) if known is None else known


class _Composer(yaml.SafeLoader):
    """PyYAML's parser, with no opinion on what scalars without quotes mean."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Reads one node. Stops at the bound: PyYAML's own time grows with the square of the depth."""
        self._depth += 1
        if self._depth > _DEEPEST:
            mark = cast("Any", self).peek_event().start_mark
            raise _GiveUpError(_too_deep(Position(line=mark.line + 1, column=mark.column + 1)))
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:  # noqa: ARG002
        """Gives a node without a tag its tag; a plain scalar gets `_PLAIN`."""
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else f"{_TAG}str"
        return f"{_TAG}seq" if kind is yaml.SequenceNode else f"{_TAG}map"


def read_yaml(text: str, file: str) -> Source:
    """Reads a document.

    Args:
        text: The document.
        file: What it is called, for errors.

    Returns:
        Its values and where they stand. Duplicate keys, unknown tags and the like are in `Source.problems`.

    Raises:
        DocumentError: The text is no YAML at all, or nested or repeated beyond any use.
    """
    try:
        node = _Composer(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise DocumentError(file, [_syntax_problem(error)]) from None
    except yaml.YAMLError as error:
        raise DocumentError(file, [_unreadable(text, error)]) from None
    except _GiveUpError as gave_up:
        raise DocumentError(file, [gave_up.problem]) from None
    reading = _Reading()
    if node is not None:
        try:
            reading.source = Source(reading.value(node, ()), reading.keys, reading.places, reading.problems)
        except _GiveUpError as gave_up:
            raise DocumentError(file, [*reading.problems, gave_up.problem]) from None
    return reading.source


class _GiveUpError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Reading:
    """Turns PyYAML's nodes into values; remembers where each came from."""

    def __init__(self, open_nodes: set[int] | None = None, count: int = 0) -> None:
        self.keys: dict[Path, Position] = {(): Position(line=1, column=1)}
        self.places: dict[Path, Position] = {}
        self.problems: list[Problem] = []
        self.source = Source(None, self.keys, self.places, self.problems)
        self._open = set[int]() if open_nodes is None else open_nodes
        self.count = count

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.count += 1
        if self.count > _MOST_VALUES:
            raise _GiveUpError(
                _problem(
                    f"the document has more than {_MOST_VALUES} values",
                    _place(node, path),
                    "Look for aliases (*name) that repeat each other",
                )
            )
        if len(path) > _DEEPEST:
            raise _GiveUpError(_too_deep(_place(node, path)))
        self.places[path] = _place(node, path)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            raise _GiveUpError(
                _problem("this alias stands for something that it is part of", _place(node, path))
            )
        self._open.add(id(node))
        try:
            return (
                self._sequence(node, path)
                if isinstance(node, yaml.SequenceNode)
                else self._mapping(node, path)
            )
        finally:
            self._open.discard(id(node))

    def _sequence(self, node: yaml.SequenceNode, path: Path) -> list[Any]:
        self._check_tag(node, "seq", path)
        entries: list[Any] = []
        for index, entry in enumerate(cast("list[yaml.Node]", node.value)):
            self.keys[*path, index] = _place(entry, (*path, index))
            entries.append(self.value(entry, (*path, index)))
        return entries

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        self._check_tag(node, "map", path)
        found: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if _is_merge(key_node):
                merged.append(value_node)
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in found:
                first = self.keys[*path, key]
                self.problems.append(
                    _problem(
                        f"the key '{key}' stands here twice; it is also in line {first.line}",
                        _place(key_node, (*path, key)),
                        "Keep one of them",
                    )
                )
                continue
            self.keys[*path, key] = _place(key_node, (*path, key))
            found[key] = self.value(value_node, (*path, key))
        for value_node in merged:
            self._merge(value_node, found, path)
        return found

    def _merge(self, node: yaml.Node, found: dict[str, Any], path: Path) -> None:
        """``<<: *other`` or ``<<: [*one, *two]``: adds the keys that are not there yet."""
        if isinstance(node, yaml.SequenceNode):
            for entry in cast("list[yaml.Node]", node.value):
                self._merge(entry, found, path)
            return
        if not isinstance(node, yaml.MappingNode) or id(node) in self._open:
            self.problems.append(_problem("'<<' takes a mapping or a list of mappings", _place(node, path)))
            return
        inner = _Reading(self._open, self.count)
        extra = inner.value(node, path)
        self.count = inner.count
        added = [key for key in extra if key not in found]
        for known, place in inner.keys.items():
            if len(known) > len(path) and known[len(path)] in added:
                self.keys[known] = place
                self.places[known] = inner.places[known]
        self.problems += inner.problems
        found.update({key: extra[key] for key in added})

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self.problems.append(_problem("a key must be text, not a list or mapping", _place(node, path)))
            return None
        value = self._scalar(node, path)
        # What JavaScript makes of other keys: they become text.
        match value:
            case None:
                return "null"
            case bool():
                return "true" if value else "false"
            case _:
                return str(value)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text = cast("str", node.value)
        tag = node.tag
        if tag in ("!", f"{_TAG}str"):
            return text
        if tag == _PLAIN:
            return resolve_plain(text)
        convert = _TAGGED.get(tag.removeprefix(_TAG))
        try:
            if convert is not None:
                return convert(text)
        except ValueError:
            self.problems.append(
                _problem(
                    f"'{text}' is no {tag.removeprefix(_TAG)}", _place(node, path), "Correct it or its tag"
                )
            )
            return None
        self._unknown_tag(node, tag, path)
        return text

    def _check_tag(self, node: yaml.Node, kind: str, path: Path) -> None:
        tag = node.tag
        if tag not in ("!", f"{_TAG}{kind}"):
            self._unknown_tag(node, tag, path)

    def _unknown_tag(self, node: yaml.Node, tag: str, path: Path) -> None:
        shown = tag.replace(_TAG, "!!")
        self.problems.append(
            _problem(f"the tag '{shown}' means nothing here", _place(node, path), "Remove it")
        )


def resolve_plain(text: str) -> Any:
    """What a scalar without quotes means.

    Args:
        text: The scalar.

    Returns:
        None, a truth value, a number or the text itself. Numbers with nothing behind the point are integers,
        as in JavaScript.
    """
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INT.fullmatch(text) or _FLOAT.fullmatch(text) or text in _NAN or _INFINITE.fullmatch(text):
        return _number(text)
    return text


def _number(text: str) -> int | float:
    if _INT.fullmatch(text):
        digits = text.replace("_", "")
        sign = -1 if digits.startswith("-") else 1
        digits = digits.lstrip("+-")
        base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2], 10)
        # A document's number is a JavaScript number; longer ones would also be slow to read.
        exact = int(digits[2:], base) if base != 10 else int(digits[:400])
        whole = sign * (exact if len(digits) <= 400 else 10**400)
        return whole if abs(whole) <= _LARGEST_EXACT else _integral(_as_float(whole))
    if text in _NAN:
        return math.nan
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite[1] == "-" else math.inf
    if not _FLOAT.fullmatch(text):
        raise ValueError(text)
    return _integral(float(text.replace("_", "")))


def _as_float(whole: int) -> float:
    try:
        return float(whole)
    except OverflowError:
        return math.inf if whole > 0 else -math.inf


def _integral(number: float) -> int | float:
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _truth(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(text)


def _nothing(text: str) -> None:
    if text not in _NULL:
        raise ValueError(text)


_TAGGED: Final[dict[str, Callable[[str], Any]]] = {
    "int": _number,
    "float": _number,
    "bool": _truth,
    "null": _nothing,
}


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == _MERGE and node.style is None


def _place(node: yaml.Node, path: Path) -> Position:
    return Position(line=node.start_mark.line + 1, column=node.start_mark.column + 1, path=path)


def _problem(message: str, position: Position, fix: str | None = None) -> Problem:
    return Problem(message=message, position=position, fix=fix)


def _too_deep(position: Position) -> Problem:
    return _problem(f"nested more than {_DEEPEST} levels deep", position)


def _syntax_problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    said = ", ".join(part for part in (error.context, error.problem) if part)
    position = Position(line=mark.line + 1, column=mark.column + 1) if mark else Position(line=1, column=1)
    fix = "Look at quotes, indents and colons here and in the line before"
    if "'\\t'" in said:
        fix = "Indent with spaces: YAML allows no tabs there"
    return _problem(f"this is no YAML: {said}", position, fix)


def _unreadable(text: str, error: yaml.YAMLError) -> Problem:
    index = getattr(error, "position", 0)
    before = text[: index if isinstance(index, int) else 0]
    position = Position(line=before.count("\n") + 1, column=len(before) - (before.rfind("\n") + 1) + 1)
    return _problem(
        "a character that YAML does not allow stands here",
        position,
        "Remove it, or write it as an escape in double quotes",
    )
