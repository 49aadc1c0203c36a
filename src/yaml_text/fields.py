"""What is wrong with a file, and where; reads its mappings key by key, and reports each invalid value."""

from __future__ import annotations

import difflib
import json
import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .reading import Yaml


Path = tuple[str | int, ...]
"""Keys and indices from the top of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in a file: line and column from 1, and the keys and indices that lead to it."""

    line: int
    column: int
    path: Path = ()

    @property
    def key_path(self) -> str:
        return key_path(self.path)


def key_path(path: Path) -> str:
    """Writes keys and indices as a path for people: ``tools[0].nodes[2].next``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"  # the file can be used, but is probably not what its author meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    message: str
    position: Position | None
    severity: Severity = Severity.ERROR
    fix: str | None = None  # the next step
    file: str | None = None  # its name if it is not the one that everybody speaks of
    of_use: bool = False  # the file can be used all the same, and what is wrong fails when it is used

    @property
    def refuses(self) -> bool:
        """Whether the file cannot be used because of it."""
        return self.severity is Severity.ERROR and not self.of_use

    def text(self, file: str) -> str:
        position = self.position
        where = self.file or file
        if position is not None:
            where = f"{where}:{position.line}:{position.column}"
        path = f" (at {position.key_path})" if position is not None and position.path else ""
        fix = f". {self.fix.removesuffix('.')}" if self.fix else ""
        end = "." if fix and not fix.endswith("?") else ""
        return f"{where}: {self.severity.value}: {self.message}{path}{fix}{end}"

    def to_json(self) -> dict[str, Any]:
        position = self.position
        return {
            "severity": self.severity.value,
            "message": self.message,
            "fix": self.fix,
            "file": self.file,
            "line": position.line if position else None,
            "column": position.column if position else None,
            "path": position.key_path if position else None,
        }


def sorted_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems in the order of the file, each once."""
    return tuple(
        sorted(
            # Several checks find the same.
            dict.fromkeys(problems),
            key=lambda problem: (
                problem.file or "",
                (problem.position.line, problem.position.column) if problem.position else (0, 0),
            ),
        )
    )


class YamlError(Exception):
    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)  # all that were found; the last one ended the reading
        places = [str(problem.position.line) if problem.position else "?" for problem in self.problems]
        messages = zip(places, self.problems, strict=True)
        super().__init__("; ".join(f"line {line}: {problem.message}" for line, problem in messages))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: its name in messages, and whether a value is of it."""

    words: str
    fits: Callable[[Any], bool]


TEXT: Final = Kind("text", lambda value: isinstance(value, str))
TRUTH: Final = Kind("true or false", lambda value: isinstance(value, bool))
WHOLE: Final = Kind("a whole number", lambda value: _is_number(value) and value == int(value))
NUMBER: Final = Kind("a number", lambda value: _is_number(value))
MAPPING: Final = Kind("a mapping", lambda value: isinstance(value, dict))
LIST: Final = Kind("a list", lambda value: isinstance(value, list))

REQUIRED: Final[Any] = object()
"""Given instead of a default for a key that may not be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What a format tells people who write it wrongly."""

    forms: Mapping[str, str] = field(default_factory=dict[str, str])  # how the value of a key is written
    quoted: frozenset[str] = frozenset()
    """Keys whose texts look like YAML's mappings and lists without quotes."""
    unknown: Severity = Severity.WARNING  # of a key that the format does not have


class Findings:
    """Collects the problems of one file, those of its source first.

    ``file`` is its name in messages, if it is not the one that everybody speaks of.
    """

    def __init__(self, source: Yaml, file: str | None = None, hints: Hints | None = None) -> None:
        self.source = source
        self.file = file
        self.hints = hints or Hints()
        self.problems: list[Problem] = [replace(problem, file=file) for problem in source.problems]

    def error(self, message: str, path: Path, fix: str | None = None) -> None:
        self.add(message, path, fix, Severity.ERROR)

    def warn(self, message: str, path: Path, fix: str | None = None) -> None:
        self.add(message, path, fix, Severity.WARNING)

    def fails(self, message: str, path: Path, fix: str | None = None) -> None:
        """What is surely an error as soon as this part of the file is used; the others can be used."""
        self.add(message, path, fix, Severity.ERROR)
        self.problems[-1] = replace(self.problems[-1], of_use=True)

    def warn_at(self, message: str, position: Position, fix: str | None = None) -> None:
        problem = Problem(
            message=message, position=position, severity=Severity.WARNING, fix=fix, file=self.file
        )
        self.problems.append(problem)

    def add(self, message: str, path: Path, fix: str | None, severity: Severity) -> None:
        position = self.source.at(path)
        self.problems.append(
            Problem(message=message, position=position, severity=severity, fix=fix, file=self.file)
        )

    def fields(self, value: Any, path: Path) -> Fields | None:
        """The keys of a mapping; None, after reporting an error, for any other value."""
        if isinstance(value, dict):
            return Fields(self, cast("dict[str, Any]", value), path)
        name = f"'{key_path(path)}'" if path else "the document"
        self.error(f"{name} must be a mapping (key: value), not {kind_of(value)}", path)
        return None


class Fields:
    """Reads the keys of one mapping. Invalid values are reported, and a default is returned instead.

    An invalid value makes the mapping around it, ``outer``, invalid, too.
    """

    def __init__(
        self, findings: Findings, values: Mapping[str, Any], path: Path, outer: Fields | None = None
    ) -> None:
        self.path = path
        self.fit = True  # whether all values that were read are valid
        self.findings = findings
        self.values = values
        self._outer = outer
        self._known: list[str] = []
        self._quiet = False

    @property
    def position(self) -> Position:
        return self.findings.source.at(self.path)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str, *kinds: Kind, default: Any = REQUIRED) -> Any:
        """A value of one of the kinds, or of any; null is allowed, too, if the default is None."""
        # Also if it is missing here: from these `end` says which key was meant.
        self._known.append(key)
        value = self.values.get(key, default)
        if value is REQUIRED:
            self.misfit(f"'{key}' is missing", self.path, self.findings.hints.forms.get(key))
            return None
        # By identity: a default may be of no kind that a file can have.
        if value is default or self._fits(value, (*self.path, key), kinds):
            return value
        return None if default is REQUIRED else default

    def text(self, key: str) -> str:
        return self.get(key, TEXT) or ""

    def optional_text(self, key: str) -> str | None:
        return self.get(key, TEXT, default=None)

    def texts(self, key: str, default: Any = REQUIRED) -> list[str]:
        entries: list[Any] = self.get(key, LIST, default=default) or []
        places = [(entry, (*self.path, key, index)) for index, entry in enumerate(entries)]
        return [entry for entry, path in places if self._fits(entry, path, (TEXT,))]

    def text_mapping(self, key: str) -> dict[str, str]:
        """Texts by names; none if the key is missing."""
        members: dict[str, Any] = self.get(key, MAPPING, default=None) or {}
        places = {name: (*self.path, key, name) for name in members}
        return {name: value for name, value in members.items() if self._fits(value, places[name], (TEXT,))}

    def mapping(self, key: str, default: Any = REQUIRED) -> dict[str, Any]:
        return self.get(key, MAPPING, default=default) or {}

    def inside(self, key: str) -> Fields:
        """The keys of an inner mapping. A missing mapping is one error, not one for each of its keys."""
        values = self.get(key, MAPPING)
        inner = Fields(self.findings, values or {}, (*self.path, key), self)
        inner._quiet = values is None
        return inner

    def mappings(self, key: str, default: Any = REQUIRED) -> list[Fields]:
        entries: list[Any] = self.get(key, LIST, default=default) or []
        places = [(entry, (*self.path, key, index)) for index, entry in enumerate(entries)]
        return [
            Fields(self.findings, entry, path, self)
            for entry, path in places
            if self._fits(entry, path, (MAPPING,))
        ]

    def number(self, key: str, *kinds: Kind, default: Any, least: float = 0) -> Any:
        """A number above zero, or at least `least` if that is given; other kinds are returned unchanged."""
        value = self.get(key, *kinds, default=default)
        if _is_number(value) and value is not default:
            relation = "at least" if least else "greater than"
            if value < least or (value <= 0 and not least):
                self.misfit(f"'{key}' must be {relation} {least:g}, not {value}", (*self.path, key))
                return default
            return int(value) if WHOLE in kinds else value
        return value

    def end(self) -> bool:
        """Reports keys that were not read; returns whether everything is valid."""
        unknown = self.findings.hints.unknown
        for key in self.values:
            if key not in self._known and not key.startswith("x-"):
                ignored = " and is ignored" if unknown is Severity.WARNING else ""
                message = f"the key '{key}' is not known here{ignored}"
                fix = did_you_mean(key, self._known)
                if self.values[key] is None and " " in key:
                    fix = "A text with a comma inside { } has to be in quotes"
                self.findings.add(message, (*self.path, key), fix, unknown)
                self.fit = self.fit and unknown is Severity.WARNING
        return self.fit

    def misfit(self, message: str, path: Path, fix: str | None = None) -> None:
        """Reports an error, which makes this mapping and those around it invalid."""
        if not self._quiet:
            self.findings.error(message, path, fix)
        fields: Fields | None = self
        while fields is not None:
            fields.fit = False
            fields = fields._outer

    def _fits(self, value: Any, path: Path, kinds: tuple[Kind, ...]) -> bool:
        if not kinds or any(kind.fits(value) for kind in kinds):
            return True
        key, hints = path[-1], self.findings.hints
        name = f"'{key}'" if isinstance(key, str) else f"'{key_path(path)}'"
        words = " or ".join(kind.words for kind in kinds)
        fix = hints.forms.get(str(key))
        if kinds == (TEXT,) and (isinstance(value, bool | int | float) or (key in hints.quoted and value)):
            fix = "Put it in quotes"
        self.misfit(f"{name} must be {words}, not {kind_of(value)}", path, fix)
        return False


def kind_of(value: Any) -> str:
    """The kind of a value in words: ``text``, ``the number 3``, ``an empty value`` ..."""
    match value:
        case None:
            return "an empty value"
        case bool():
            return json.dumps(value)
        case int() | float():
            return f"the number {value}"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "a mapping"


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The most similar of the known names as a question, or None."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean '{close[0]}'?" if close else None


def one_of(name: str, known: Iterable[str]) -> str:
    """What may be meant instead: the most similar of the known names or, if none is near, all of them."""
    names = list(known)
    return did_you_mean(name, names) or f"It has: {', '.join(names) or 'none'}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def as_mapping(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, otherwise an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, otherwise an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []
