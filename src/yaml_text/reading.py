"""Reads YAML 1.2 as values; refuses duplicate keys, unknown tags and too much depth or repetition."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .composing import Mapping, Node, Scalar, Sequence, compose
from .fields import Path, Position, Problem, YamlError

if TYPE_CHECKING:
    from collections.abc import Callable


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Yaml:
    """A text as values."""

    data: Any = None  # dict, list, str, int, float, bool, None
    keys: dict[Path, Place] = field(default_factory=lambda: {(): (1, 1)})
    """Line and column of each key path: of keys of mappings, of entries of sequences."""
    values: dict[Path, Place] = field(default_factory=dict[Path, Place])
    """Line and column where the value of each key path begins."""
    problems: tuple[Problem, ...] = ()  # mistakes that did not keep the rest from being read

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


def read(text: str, rules: Rules) -> Yaml:
    """Reads a text with one document; `YamlError` if it is not YAML, or exceeds the limits.

    Duplicate keys, unknown tags and similar mistakes are in `Yaml.problems`.
    """
    node = compose(text, deepest=rules.deepest)
    if node is None:
        return Yaml()
    reading = _Reading(rules)
    data = reading.value(node, ())
    return Yaml(data=data, keys=reading.keys, values=reading.values, problems=tuple(reading.problems))


class _Reading:
    def __init__(self, rules: Rules) -> None:
        self.keys: dict[Path, Place] = {(): (1, 1)}
        self.values: dict[Path, Place] = {}
        self.problems: list[Problem] = []
        self._rules = rules
        self._open: set[int] = set()
        self._seen: set[int] = set()
        self._repeated = 0

    def value(self, node: Node, path: Path) -> Any:
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

    def _merge(self, node: Node, members: dict[str, Any], path: Path) -> set[str]:
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

    def _key(self, node: Node, path: Path) -> str | None:
        if not isinstance(node, Scalar):
            self._wrong("a key must be text, not a list or mapping", node, path)
            return None
        return self._rules.key(node.text) if node.plain and node.tag is None else node.text

    def _scalar(self, node: Scalar, path: Path) -> Any:
        if node.tag is None and node.plain:
            return self._rules.scalar(node.text)
        name = "str" if node.tag is None else node.tag.removeprefix(_TAG)
        match name:
            case "!" | "str":
                return node.text
            case "int" | "float":
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

    def _check_tag(self, node: Node, kind: str, path: Path) -> None:
        if node.tag not in (None, "!", f"{_TAG}{kind}"):
            self._unknown_tag(node, path)

    def _unknown_tag(self, node: Node, path: Path) -> None:
        shown = str(node.tag).replace(_TAG, "!!")
        self._wrong(f"the tag '{shown}' is not supported", node, path, "Remove it")

    def _wrong(self, what: str, node: Node, path: Path, fix: str | None = None) -> None:
        position = Position(line=node.line, column=node.column, path=path)
        self.problems.append(Problem(message=what, position=position, fix=fix))

    def _ended(self, what: str, node: Node, path: Path, fix: str | None = None) -> YamlError:
        self._wrong(what, node, path, fix)
        return YamlError(self.problems)
