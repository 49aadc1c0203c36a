"""Checks a node's settings against what is known about them.

Only what is certainly wrong is a problem: a false alarm costs more than a missed mistake, because whoever
believes it breaks a configuration that worked. So nothing is said about nodes whose settings are not known by
their keys, about values that are filled in later (flow variables, templates, expressions), about KNIME's own
entries beside the settings, or about a pattern or type that this program does not understand.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import jsonschema_rs

from ..model import SourceKind
from ..schema import folded
from .details import BOOLEANS, INTEGERS, LISTS, MAPPINGS, NUMBERS

if TYPE_CHECKING:
    from ..model import NodeSpec, Parameter

_FILLED_IN_LATER: Final = re.compile(r"\$\{|\{\{|\$\$|\$[A-Za-z_{(]|^=|<%|%[A-Za-z_]+%")
"""Variables and expressions of KNIME, n8n, Jinja, JSONata, shells and spreadsheets."""

_KNIMES_OWN: Final = re.compile(r".*_Internals\Z|variables\Z|__.*|@.*|#.*|_.*")
"""Entries that KNIME writes beside a node's settings, and notes and ids of workflow engines."""

_LONGEST_MATCHED: Final = 2_000
_MOST_UNKNOWN: Final = 50
"""So many keys that do not exist are named."""

_Wrong = tuple[str, str]
"""What is wrong with a setting, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is certainly wrong.

    Attributes:
        setting: The key.
        problem: What is wrong.
        fix: What to do.
    """

    setting: str
    problem: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationCheck:
    """What came of a check.

    Attributes:
        valid: Whether nothing is wrong; None if that cannot be said.
        problems: What is certainly wrong, in the order of the node's settings, then of the given ones.
        notes: What may help: values that are filled in later, why nothing can be said.
        defaults: Settings that were not given, and what they are then.
    """

    valid: bool | None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    defaults: Mapping[str, Any] | None = None


def check_configuration(spec: NodeSpec, settings: Mapping[str, Any]) -> ConfigurationCheck:
    """Checks settings.

    Args:
        spec: The node.
        settings: Values by key; nested ones may be written as KNIME nests them or with dots.

    Returns:
        What is wrong.
    """
    if not spec.settings_known:
        note = (
            "The keys of this node's settings are not known (its description names only what the dialog"
            " shows), so nothing can be said about them."
        )
        return ConfigurationCheck(valid=None, notes=(note,))
    known = {entry.name: entry for entry in spec.configurations}
    given = _flattened(settings, set(known))
    controlled = _controlled(settings)
    problems: list[Problem] = []
    notes: list[str] = []
    for name, parameter in known.items():
        value = given.get(name)
        wrong: _Wrong | None = None
        if name not in given and name not in controlled:
            wrong = _missing(parameter, given)
        elif name in controlled or _filled_in_later(value):
            notes.append(f"'{name}' is filled in later and was not judged.")
        else:
            wrong = _judged(parameter, value, exact_types=spec.origin.kind is SourceKind.SPEC_PACK)
        if wrong is not None:
            problems.append(Problem(setting=name, problem=wrong[0], fix=wrong[1]))
    unknown = [name for name in given if name not in known and not _own_entry(name)]
    problems += [_unknown(name, known) for name in unknown[:_MOST_UNKNOWN]]
    if further := unknown[_MOST_UNKNOWN:]:
        what = f"and {len(further) - 1} further keys are not settings of this node"
        problems.append(Problem(setting=further[0], problem=what, fix="Mend those named first."))
    defaults = {
        name: entry.default_value
        for name, entry in known.items()
        if name not in given and name not in controlled and entry.has_default
    }
    return ConfigurationCheck(
        valid=not problems, problems=tuple(problems), notes=tuple(notes), defaults=defaults
    )


def _flattened(settings: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """Settings by the node's own keys: a group's settings may be nested, the node's keys then have dots."""
    found: dict[str, Any] = {}

    def add(prefix: str, entries: Mapping[str, Any]) -> None:
        for key, value in entries.items():
            path = f"{prefix}{key}"
            if (
                path not in known
                and isinstance(value, Mapping)
                and any(k.startswith(f"{path}.") for k in known)
            ):
                add(f"{path}.", cast("Mapping[str, Any]", value))
            else:
                found[path] = value

    saved = _saved_model(settings, known)
    add("", settings if saved is None else saved)
    return found


def _saved_model(settings: Mapping[str, Any], known: set[str]) -> Mapping[str, Any] | None:
    """What KNIME saves a node's settings under; None where that key is a setting of the node itself."""
    model = settings.get("model")
    if not isinstance(model, Mapping):
        return None
    inside = cast("Mapping[str, Any]", model)
    saved = "model" not in known or "variables" in settings or not known.isdisjoint(inside)
    return inside if saved else None


def _controlled(settings: Mapping[str, Any]) -> set[str]:
    """The keys that flow variables overwrite when the node runs, as KNIME saves it beside the settings."""
    found: set[str] = set()

    def add(prefix: str, entries: Mapping[str, Any]) -> None:
        for key, value in entries.items():
            if isinstance(value, Mapping):
                entry = cast("Mapping[str, Any]", value)
                if "used_variable" not in entry:
                    add(f"{prefix}{key}.", entry)
                elif entry["used_variable"]:
                    found.add(f"{prefix}{key}")

    variables = settings.get("variables")
    if isinstance(variables, Mapping):
        tree = cast("Mapping[str, Any]", variables).get("tree")
        if isinstance(tree, Mapping):
            add("", cast("Mapping[str, Any]", tree))
    return found


def _missing(parameter: Parameter, given: Mapping[str, Any]) -> _Wrong | None:
    if not parameter.required or parameter.has_default:
        return None
    if any(key.startswith(f"{parameter.name}.") or folded(key) == folded(parameter.name) for key in given):
        return None  # said about the key that is there
    allowed = f" Allowed: {_listed(parameter.enum_values)}." if parameter.enum_values else ""
    kind = f" of type {parameter.type}" if parameter.type else ""
    return "is required and has no default", f"Give it a value{kind}.{allowed}"


def _unknown(name: str, known: Mapping[str, Parameter]) -> Problem:
    by_key = {folded(key).replace(" ", ""): key for key in known}
    near = difflib.get_close_matches(folded(name).replace(" ", ""), by_key, n=1, cutoff=0.7)
    meant = f"Did you mean '{by_key[near[0]]}'? " if near else ""
    return Problem(
        setting=name,
        problem="is not a setting of this node",
        fix=f"{meant}Settings: {_listed(tuple(known))}.",
    )


def _judged(parameter: Parameter, value: Any, *, exact_types: bool) -> _Wrong | None:
    kind = (parameter.type or "").lower()
    if value is None:
        needed = parameter.required and not parameter.has_default
        return ("is required and is null", "Give it a value.") if needed else None
    if parameter.enum_values:
        allowed = f"Allowed: {_listed(parameter.enum_values)}."
        return None if _is_option(parameter, value) else (f"{_shown(value)} is not allowed", allowed)
    if kind in NUMBERS or kind in INTEGERS:
        number = _number(value)
        if number is None:
            return f"{_shown(value)} is no number", f"Give a number, type {parameter.type}."
        if kind in INTEGERS and number != int(number):
            return f"{_shown(value)} is no whole number", "Give a whole number."
        return _out_of_range(parameter, number)
    if kind in BOOLEANS and not _is_boolean(value):
        return f"{_shown(value)} is neither true nor false", "Give true or false."
    if exact_types and (wrong := _wrong_container(kind, value)):
        return wrong
    if parameter.validation_pattern and isinstance(value, str) and not _matches(parameter, value):
        wanted = f"It has to match {parameter.validation_pattern}"
        return f"{_shown(value)} has not the form that is wanted", wanted
    return None


def _wrong_container(kind: str, value: Any) -> _Wrong | None:
    """What is wrong with the form of a value; KNIME saves choices and credentials as small groups instead."""
    if kind in LISTS and isinstance(value, Mapping):
        return "is a mapping where a list belongs", "Give a list."
    if kind in MAPPINGS and (isinstance(value, (bool, int, float)) or _is_list(value)):
        return f"{_shown(value)} is no mapping", "Give a mapping of keys to values."
    if kind == "string" and isinstance(value, Mapping):
        return "is a mapping where a text belongs", "Give a text."
    return None


def _out_of_range(parameter: Parameter, number: float | int) -> _Wrong | None:
    low, high = parameter.min, parameter.max
    below = low is not None and (number < low or (parameter.min_exclusive and number == low))
    above = high is not None and (number > high or (parameter.max_exclusive and number == high))
    if not below and not above:
        return None
    return f"{_shown(number)} is out of range", f"It must be {' and '.join(parameter.range)}."


def _is_option(parameter: Parameter, value: Any) -> bool:
    if isinstance(value, Mapping):
        return True  # KNIME writes some choices as small groups; what is in them is not known
    values = cast("list[Any]", value) if _is_list(value) else [value]
    allowed = [*parameter.enum_values, *(option.label for option in parameter.options if option.label)]
    texts = {str(entry).casefold() for entry in allowed}
    return all(entry in allowed or str(entry).casefold() in texts for entry in values)


def _matches(parameter: Parameter, value: str) -> bool:
    pattern = parameter.validation_pattern or ""
    if not value or len(value) > _LONGEST_MATCHED:
        return True
    try:
        # Its engine takes time in proportion to the text, whatever the pattern; Python's may take for ever.
        wanted = jsonschema_rs.validator_for(
            {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()
        )
        return wanted.is_valid(value) or wanted.is_valid(value.removesuffix("\n"))
    except ValueError:
        return True


def _number(value: Any) -> float | int | None:
    """A number; a whole one as it is, because a float rounds what has more than 53 bits."""
    if isinstance(value, str):
        with suppress(ValueError):
            return int(value)
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    return value if isinstance(value, float) and math.isfinite(value) else None


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or str(value).strip().casefold() in {"true", "false", "0", "1"}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _filled_in_later(value: Any) -> bool:
    return isinstance(value, str) and _FILLED_IN_LATER.search(value) is not None


def _own_entry(name: str) -> bool:
    return any(_KNIMES_OWN.match(part) for part in name.split("."))


def _listed(values: Sequence[Any], most: int = 20) -> str:
    shown = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in values[:most])
    return f"{shown} and {len(values) - most} more" if len(values) > most else shown or "none"


def _shown(value: Any) -> str:
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
