"""Fits a document's values to the format: every misfit in words, with its place."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic import ValidationError

from ..nodes import Position, key_path
from .problems import Problem, Severity
from .schema import Raw
from .shapes import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import ErrorDetails

    from .yaml_source import Path, Source

M = TypeVar("M", bound=Raw)
_WANTED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
    "none_required": "nothing",
    "finite_number": "a finite number",
}
# What pydantic adds to the place of a misfit when several forms are allowed: not keys of the document.
_FORMS: Final = frozenset(
    {
        "str",
        "int",
        "float",
        "bool",
        "constrained-int",
        "constrained-float",
        "RetryYaml",
        "CacheYaml",
        "ExprYaml",
    }
)


class Findings:
    """Collects what is wrong with one file.

    Args:
        source: The file's values and places.
        file: Name to show for its problems, if it is not the document itself.
    """

    def __init__(self, source: Source, file: str | None = None) -> None:
        self.source = source
        self.file = file
        self.problems: list[Problem] = [replace(problem, file=file) for problem in source.problems]

    def error(self, message: str, path: Path, fix: str | None = None) -> None:
        """Notes something that keeps the document from being served."""
        self._add(message, self.source.at(path), Severity.ERROR, fix)

    def warn(self, message: str, path: Path, fix: str | None = None) -> None:
        """Notes something that is probably not meant."""
        self._add(message, self.source.at(path), Severity.WARNING, fix)

    def fit(self, model: type[M], value: Any, path: Path) -> M | None:
        """Checks a value against a model.

        Args:
            model: What is wanted.
            value: What is there.
            path: Where it is.

        Returns:
            The value as model, or None after its misfits were noted.
        """
        if not isinstance(value, dict):
            name = f"'{key_path(path)}'" if path else "the document"
            self.error(f"{name} must be a mapping (key: value), not {kind_of(value)}", path)
            return None
        try:
            fitted = model.model_validate(value)
        except ValidationError as error:
            self._misfits(error.errors(include_url=False), path)
            unknown = [key for key in cast("dict[str, Any]", value) if key not in _keys(model)]
            self._name_unknown(unknown, model, path)
            return None
        self._unknown_keys(fitted, path)
        return fitted

    def _misfits(self, errors: Iterable[ErrorDetails], path: Path) -> None:
        by_place: dict[Path, list[ErrorDetails]] = {}
        for error in errors:
            place = (*path, *(step for step in error["loc"] if step not in _FORMS))
            by_place.setdefault(place, []).append(error)
        for place, misfits in by_place.items():
            if any(place == other[: len(place)] != other for other in by_place):
                continue  # of several allowed forms, one fits but for something inside
            missing = misfits[0]["type"] == "missing"
            self.error(_words(misfits, place), place[:-1] if missing else place, _advice(misfits))

    def _unknown_keys(self, fitted: Raw, path: Path) -> None:
        self._name_unknown(fitted.model_extra or {}, type(fitted), path)
        for name, info in type(fitted).model_fields.items():
            value, place = getattr(fitted, name), (*path, info.alias or name)
            if isinstance(value, Raw):
                self._unknown_keys(value, place)
            elif isinstance(value, list):
                for index, entry in enumerate(cast("list[Any]", value)):
                    if isinstance(entry, Raw):
                        self._unknown_keys(entry, (*place, index))

    def _name_unknown(self, unknown: Iterable[str], model: type[Raw], path: Path) -> None:
        for key in unknown:
            if not key.startswith("x-"):
                fix = did_you_mean(key, _keys(model))
                self.warn(f"the key '{key}' means nothing here and is ignored", (*path, key), fix)

    def _add(self, message: str, position: Position, severity: Severity, fix: str | None) -> None:
        self.problems.append(
            Problem(message=message, position=position, severity=severity, fix=fix, file=self.file)
        )


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The most similar of the known names as a question, or None."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean '{close[0]}'?" if close else None


def _keys(model: type[Raw]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def _words(misfits: list[ErrorDetails], place: Path) -> str:
    # Of several allowed forms, the one whose type the value has says what is wrong.
    first = next((misfit for misfit in misfits if misfit["type"] not in _WANTED), misfits[0])
    name = f"'{place[-1]}'" if isinstance(place[-1], str) else f"'{key_path(place)}'"
    if first["type"] == "missing":
        return f"{name} is missing"
    context = first.get("ctx", {})
    match first["type"]:
        case "greater_than" | "greater_than_equal":
            limit = context.get("gt", context.get("ge"))
            relation = "greater than" if first["type"] == "greater_than" else "at least"
            return f"{name} must be {relation} {limit:g}, not {first['input']}"
        case "literal_error":
            return f"{name} must be {context['expected']}, not {kind_of(first['input'])}"
        case "too_short":
            return f"{name} must have at least one entry"
        case _:
            wanted = dict.fromkeys(_WANTED.get(misfit["type"], misfit["msg"]) for misfit in misfits)
            return f"{name} must be {' or '.join(wanted)}, not {kind_of(first['input'])}"


def _advice(misfits: list[ErrorDetails]) -> str | None:
    value = misfits[0]["input"]
    if all(misfit["type"] == "string_type" for misfit in misfits) and isinstance(value, bool | int | float):
        return "Put it in quotes"
    return None
