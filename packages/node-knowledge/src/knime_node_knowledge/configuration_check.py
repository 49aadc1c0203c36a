"""Checks a node's settings against the node's specification.

Only certain errors are reported: a false alarm costs more than a missed mistake, as a person who believes the
alarm breaks a configuration that worked. So some things are not judged: nodes whose settings keys are
unknown, values that are filled in later (flow variables, templates, expressions), KNIME's own entries beside
the settings, and patterns or types that this program does not understand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import jsonschema_rs

from knime_mcp.types.texts import shortened

from .node_details import BOOLEANS, INTEGERS, LISTS, MAPPINGS, NUMBERS
from .node_model import SourceKind
from .query_words import folded, near_keys

if TYPE_CHECKING:
    from .node_model import NodeParameter, NodeSpec

_FILLED_IN_LATER: Final = re.compile(r"\$\{|\{\{|\$\$|\$[A-Za-z_{(]|^=|<%|%[A-Za-z_]+%")
"""Matches variables and expressions of KNIME, n8n, Jinja, JSONata, shells and spreadsheets."""

_KNIMES_OWN: Final = re.compile(r".*_Internals\Z|variables\Z|__.*|@.*|#.*|_.*")
"""Matches entries that KNIME writes beside a node's settings, and notes and ids of workflow engines."""

_LONGEST_MATCHED: Final = 2_000
_MOST_UNKNOWN: Final = 50
"""The largest number of unknown keys that are named."""

_LONGEST_SHOWN: Final = 80
_MISSPELT: Final = 0.82  # so similar is what is misspelt, and no other key
_WRAPPED_IN: Final = ("model", "configurations", "default_configurations", "parameters", "settings")
"""Keys under which KNIME (``model``), workflow engines and our own answers have the settings of a node."""
_OF_THE_NODE: Final = frozenset({"node", "node_type", "subtype", "id", "name", "type", "factory", "version"})
"""Keys that say which node a whole node is."""

_Wrong = tuple[str, str]
"""The problem of a setting, and its fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationProblem:
    setting: str
    problem: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationCheck:
    #: In the order of the node's settings; unknown keys follow as given.
    problems: tuple[ConfigurationProblem, ...] = ()
    notes: tuple[str, ...] = ()  # what was not judged, and why
    defaults: Mapping[str, Any] | None = None

    @property
    def valid(self) -> bool | None:
        """False with a problem; None without one if not everything was judged."""
        return False if self.problems else None if self.notes else True


def check_configuration(spec: NodeSpec, settings: Mapping[str, Any]) -> ConfigurationCheck:
    """Checks values by key. Settings of groups may be nested as in KNIME, or have keys with dots."""
    if not spec.settings_known:
        note = (
            "The keys of this node's settings are not known (its description names only what the dialog"
            " shows), so nothing can be said about them."
        )
        return ConfigurationCheck(notes=(note,))
    known = {entry.name: entry for entry in spec.configurations}
    given = _flattened(settings, set(known))
    controlled = _controlled(settings)
    problems: list[ConfigurationProblem] = []
    notes: list[str] = []
    for name, parameter in known.items():
        value = given.get(name)
        wrong: _Wrong | None = None
        if name not in given and name not in controlled:
            wrong = _missing_problem(parameter, given)
        elif name in controlled or (isinstance(value, str) and _FILLED_IN_LATER.search(value)):
            notes.append(f"'{name}' is filled in later and was not judged.")
        else:
            wrong = _value_problem(parameter, value, exact_types=spec.origin.kind is SourceKind.SPEC_PACK)
        if wrong is not None:
            problems.append(ConfigurationProblem(setting=name, problem=wrong[0], fix=wrong[1]))
    further = [name for name in given if name not in known and not _own_entry(name)]
    unknown = [name for name in further if not _may_be_right(name, spec, known)]
    notes += [f"'{name}' may be a setting, and was not judged." for name in further if name not in unknown]
    run_time = {entry.name for entry in spec.input_params}
    problems += [_unknown(name, known, run_time) for name in unknown[:_MOST_UNKNOWN]]
    if further := unknown[_MOST_UNKNOWN:]:
        what = f"and {len(further) - 1} further keys are not settings of this node"
        problems.append(ConfigurationProblem(setting=further[0], problem=what, fix="Mend those named first."))
    defaults = {
        name: entry.default_value
        for name, entry in known.items()
        if name not in given and name not in controlled and entry.has_default
    }
    return ConfigurationCheck(problems=tuple(problems), notes=tuple(notes), defaults=defaults)


def _may_be_right(name: str, spec: NodeSpec, known: Collection[str]) -> bool:
    """Whether a key may be one of the node's although it is not known."""
    if any(name.startswith(group) or f"{name}." == group for group in spec.open_settings):
        return True
    # Facts are of the newest source: workflows have keys of earlier versions, too, which KNIME passes over.
    return spec.origin.kind is SourceKind.FACTS and not near_keys(name, known, cutoff=_MISSPELT)


def _flattened(settings: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """The settings by the node's keys. Nested settings of a group get dotted keys."""
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

    add("", _unwrapped(settings, known))
    return found


def _unwrapped(settings: Mapping[str, Any], known: set[str]) -> Mapping[str, Any]:
    """The settings, which may be those of a whole node with its settings under a key of their own.

    What stands beside them is judged with them, but for what KNIME and our own answers write there.
    """
    for key in _WRAPPED_IN:
        inside = settings.get(key)
        if not isinstance(inside, Mapping):
            continue
        inner = cast("Mapping[str, Any]", inside)
        is_setting = key in known or any(name.startswith(f"{key}.") for name in known)
        # KNIME writes `variables` beside `model`; without it a setting may be called `model`.
        if (
            (key == "model" and ("variables" in settings or not known.isdisjoint(inner)))
            or (key == "model" and not is_setting)
            or (not is_setting and known.isdisjoint(settings))
        ):
            beside = {name: value for name, value in settings.items() if name not in {key, *_OF_THE_NODE}}
            return beside | dict(inner)
    return settings


def _controlled(settings: Mapping[str, Any]) -> set[str]:
    """The keys that flow variables overwrite when the node runs. KNIME saves them in ``variables``."""
    found: set[str] = set()

    def add(prefix: str, entries: Mapping[str, Any]) -> None:
        for key, value in entries.items():
            if isinstance(value, Mapping):
                entry = cast("Mapping[str, Any]", value)
                if "used_variable" not in entry:
                    add(f"{prefix}{key}.", entry)
                elif entry["used_variable"]:
                    found.add(f"{prefix}{key}")

    add("", _mapping(_mapping(settings.get("variables")).get("tree")))
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _missing_problem(parameter: NodeParameter, given: Mapping[str, Any]) -> _Wrong | None:
    if not parameter.required or parameter.has_default:
        return None
    if any(key.startswith(f"{parameter.name}.") or folded(key) == folded(parameter.name) for key in given):
        return None  # the problem is reported for the similar key that was given
    allowed = f" Allowed: {_listed(parameter.enum_values)}." if parameter.enum_values else ""
    kind = f" of type {parameter.type}" if parameter.type else ""
    return "is required and has no default", f"Give it a value{kind}.{allowed}"


def _unknown(
    name: str, known: Mapping[str, NodeParameter], run_time: Collection[str]
) -> ConfigurationProblem:
    meant = [f"'{key}'" for key in near_keys(name, known)]
    if name in run_time:
        hint = "The node takes it as input when it runs. "
    else:
        hint = f"Did you mean {' or '.join(meant)}? " if meant else ""
    return ConfigurationProblem(
        setting=name, problem="is not a setting of this node", fix=f"{hint}Settings: {_listed(tuple(known))}."
    )


def _value_problem(parameter: NodeParameter, value: Any, *, exact_types: bool) -> _Wrong | None:
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
    if kind in BOOLEANS and str(value).strip().casefold() not in {"true", "false", "0", "1"}:
        return f"{_shown(value)} is neither true nor false", "Give true or false."
    if exact_types and (wrong := _wrong_container(kind, value)):
        return wrong
    if parameter.validation_pattern and isinstance(value, str) and not _matches(parameter, value):
        wanted = f"It has to match {parameter.validation_pattern}"
        return f"{_shown(value)} has not the form that is wanted", wanted
    return None


def _wrong_container(kind: str, value: Any) -> _Wrong | None:
    """The problem of a value with the wrong form. Only for exact types: KNIME saves choices as mappings."""
    if kind in LISTS and isinstance(value, Mapping):
        return "is a mapping where a list belongs", "Give a list."
    if kind in MAPPINGS and (isinstance(value, (bool, int, float)) or _is_list(value)):
        return f"{_shown(value)} is no mapping", "Give a mapping of keys to values."
    if kind == "string" and isinstance(value, Mapping):
        return "is a mapping where a text belongs", "Give a text."
    return None


def _out_of_range(parameter: NodeParameter, number: float | int) -> _Wrong | None:
    low, high = parameter.min, parameter.max
    below = low is not None and (number < low or (parameter.min_exclusive and number == low))
    above = high is not None and (number > high or (parameter.max_exclusive and number == high))
    if not below and not above:
        return None
    return f"{_shown(number)} is out of range", f"It must be {' and '.join(parameter.range)}."


def _is_option(parameter: NodeParameter, value: Any) -> bool:
    if isinstance(value, Mapping):
        return True  # KNIME writes some choices as mappings whose content is not known
    values = cast("list[Any]", value) if _is_list(value) else [value]
    # Labels are what people see in the dialog, and write.
    allowed = [*parameter.enum_values, *(option.label for option in parameter.options if option.label)]
    texts = {str(entry).casefold() for entry in allowed}
    return all(entry in allowed or str(entry).casefold() in texts for entry in values)


def _matches(parameter: NodeParameter, value: str) -> bool:
    pattern = parameter.validation_pattern or ""
    if not value or len(value) > _LONGEST_MATCHED:
        return True
    try:
        # jsonschema_rs matches in time linear in the text's length; Python's `re` may take exponential time.
        wanted = jsonschema_rs.validator_for(
            {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()
        )
        # In Python's patterns `$` also fits before a line break at the end.
        return wanted.is_valid(value) or wanted.is_valid(value.removesuffix("\n"))
    except ValueError:
        return True


def _number(value: Any) -> float | int | None:
    """The value as a number. Integers are not converted to float, which would round those above 53 bits."""
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


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _own_entry(name: str) -> bool:
    return any(_KNIMES_OWN.match(part) for part in name.split("."))


def _listed(values: Sequence[Any], most: int = 20) -> str:
    shown = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in values[:most])
    return f"{shown} and {len(values) - most} more" if len(values) > most else shown or "none"


def _shown(value: Any) -> str:
    return shortened(f"'{value}'" if isinstance(value, str) else str(value), _LONGEST_SHOWN)
