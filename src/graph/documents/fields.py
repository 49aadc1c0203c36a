"""Reads a document's mappings key by key and reports each invalid value with its place."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from ..nodes import Position, key_path
from ..raw_values import kind_of
from .problems import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .yaml_source import Path, Source


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value that a key may have.

    Attributes:
        words: Its name in messages.
        fits: Returns whether a value is of this kind.
    """

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
_FORMS: Final = {"transform": "Write it as transform: {expr: ...}"}


class Findings:
    """Collects the problems of one file.

    Args:
        source: The file's values and places.
        file: Name of the file in messages, if it is not the document itself.
    """

    def __init__(self, source: Source, file: str | None = None) -> None:
        self.source = source
        self.file = file
        self.problems: list[Problem] = [replace(problem, file=file) for problem in source.problems]

    def error(self, message: str, path: Path, fix: str | None = None) -> None:
        """Reports an error that keeps the document from being served."""
        self._add(message, self.source.at(path), Severity.ERROR, fix)

    def warn(self, message: str, path: Path, fix: str | None = None) -> None:
        """Reports a warning."""
        self._add(message, self.source.at(path), Severity.WARNING, fix)

    def fields(self, value: Any, path: Path) -> Fields | None:
        """The keys of a mapping; None, after reporting an error, for any other value."""
        if isinstance(value, dict):
            return Fields(self, cast("dict[str, Any]", value), path)
        name = f"'{key_path(path)}'" if path else "the document"
        self.error(f"{name} must be a mapping (key: value), not {kind_of(value)}", path)
        return None

    def _add(self, message: str, position: Position, severity: Severity, fix: str | None) -> None:
        self.problems.append(
            Problem(message=message, position=position, severity=severity, fix=fix, file=self.file)
        )


class Fields:
    """Reads the keys of one mapping. Invalid values are reported, and a default is returned instead.

    Args:
        findings: Collects the problems.
        values: The mapping.
        path: The mapping's key path.
        outer: The keys of the enclosing mapping; an invalid value here makes that mapping invalid, too.

    Attributes:
        path: The mapping's key path.
        fit: Whether all values that were read are valid.
    """

    def __init__(
        self, findings: Findings, values: Mapping[str, Any], path: Path, outer: Fields | None = None
    ) -> None:
        self.path = path
        self.fit = True
        self._findings = findings
        self._values = values
        self._outer = outer
        self._known: list[str] = []
        self._quiet = False

    @property
    def position(self) -> Position:
        """The place in the document."""
        return self._findings.source.at(self.path)

    def get(self, key: str, *kinds: Kind, default: Any = REQUIRED) -> Any:
        """A value.

        Args:
            key: Its key.
            kinds: Allowed kinds; without any, all values are allowed.
            default: The value if the key is missing. If the default is None, null is allowed, too.
        """
        self._known.append(key)
        value = self._values.get(key, default)
        if value is REQUIRED:
            self.misfit(f"'{key}' is missing", self.path, _FORMS.get(key))
            return None
        if value is default or self._fits(value, (*self.path, key), kinds):
            return value
        return None if default is REQUIRED else default

    def text(self, key: str) -> str:
        """A text."""
        return self.get(key, TEXT) or ""

    def optional_text(self, key: str) -> str | None:
        """A text that may be missing."""
        return self.get(key, TEXT, default=None)

    def texts(self, key: str, default: Any = REQUIRED) -> list[str]:
        """A list of texts."""
        entries: list[Any] = self.get(key, LIST, default=default) or []
        places = [(entry, (*self.path, key, index)) for index, entry in enumerate(entries)]
        return [entry for entry, path in places if self._fits(entry, path, (TEXT,))]

    def text_mapping(self, key: str) -> dict[str, str]:
        """Texts by names, which may be missing."""
        members: dict[str, Any] = self.get(key, MAPPING, default=None) or {}
        places = {name: (*self.path, key, name) for name in members}
        return {name: value for name, value in members.items() if self._fits(value, places[name], (TEXT,))}

    def mapping(self, key: str, default: Any = REQUIRED) -> dict[str, Any]:
        """A mapping of anything."""
        return self.get(key, MAPPING, default=default) or {}

    def inside(self, key: str) -> Fields:
        """The keys of an inner mapping. A missing mapping is one error, not one for each of its keys."""
        values = self.get(key, MAPPING)
        inner = Fields(self._findings, values or {}, (*self.path, key), self)
        inner._quiet = values is None
        return inner

    def mappings(self, key: str) -> list[Fields]:
        """The keys of each mapping of a list."""
        entries: list[Any] = self.get(key, LIST) or []
        places = [(entry, (*self.path, key, index)) for index, entry in enumerate(entries)]
        return [
            Fields(self._findings, entry, path, self)
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
        for key in self._values:
            if key not in self._known and not key.startswith("x-"):
                fix = did_you_mean(key, self._known)
                self._findings.warn(
                    f"the key '{key}' is not known here and is ignored", (*self.path, key), fix
                )
        return self.fit

    def _fits(self, value: Any, path: Path, kinds: tuple[Kind, ...]) -> bool:
        if not kinds or any(kind.fits(value) for kind in kinds):
            return True
        name = f"'{path[-1]}'" if isinstance(path[-1], str) else f"'{key_path(path)}'"
        words = " or ".join(kind.words for kind in kinds)
        fix = _FORMS.get(str(path[-1]))
        # JSONata's objects and lists are YAML's, too, unless they are in quotes.
        if kinds == (TEXT,) and (isinstance(value, bool | int | float) or (path[-1] == "expr" and value)):
            fix = "Put it in quotes"
        self.misfit(f"{name} must be {words}, not {kind_of(value)}", path, fix)
        return False

    def misfit(self, message: str, path: Path, fix: str | None = None) -> None:
        """Reports an error."""
        if not self._quiet:
            self._findings.error(message, path, fix)
        fields: Fields | None = self
        while fields is not None:
            fields.fit = False
            fields = fields._outer


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The most similar of the known names as a question, or None."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean '{close[0]}'?" if close else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
