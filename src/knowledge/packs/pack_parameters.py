"""Reads the parameters in a spec pack, and checks them for contradictions."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final

from ..model import Option, Parameter
from .pack_checks import Fields, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        (
            *("string", "text", "enum", "url", "email", "file", "cron", "date", "datetime", "password"),
            *("credential", "expression", "template"),
        ),
        lambda value: isinstance(value, str),
    ),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    **dict.fromkeys(
        ("float", "number"), lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)
    ),
    "boolean": lambda value: isinstance(value, bool),
    **dict.fromkeys(("array", "list"), lambda value: isinstance(value, list)),
    **dict.fromkeys(("object", "dict", "map"), lambda value: isinstance(value, dict)),
    **dict.fromkeys(("json", "any"), lambda _: True),
}
"""The types of parameters, with functions that tell whether a value has the type."""

_COMMON: Final = (
    *("type", "required", "description", "label", "enum_values", "options", "min", "max"),
    *("validation_pattern", "advanced", "secret", "tab"),
)
LEGACY_KEYS: Final = ("name", "default_value", *_COMMON)
MODERN_KEYS: Final = ("default", *_COMMON)
_NUMERIC: Final = frozenset({"integer", "float", "number"})


def read_parameter(fields: Fields, *, name: str | None = None) -> Parameter:
    """Reads a parameter of a legacy spec, or a field of a modern one.

    Args:
        fields: The parameter's mapping in the file.
        name: The key of the mapping in a modern spec; None for a legacy spec, which has the name inside.
    """
    fields.allow(*(LEGACY_KEYS if name is None else MODERN_KEYS))
    default = "default_value" if name is None else "default"
    kind = fields.text("type", required=True)
    if kind and kind not in TYPES:
        near = difflib.get_close_matches(kind.lower(), TYPES, n=1)
        meant = f" did you mean '{near[0]}'?" if near else ""
        fields.wrong("type", f"'{kind}' is not a type;{meant} types: {', '.join(TYPES)}")
    options = _options(fields, "options") or _options(fields, "enum_values")
    parameter = Parameter(
        name=fields.text("name", required=True) if name is None else name,
        type=kind or None,
        required=fields.flag("required"),
        default_value=fields.any(default),
        has_default=default in fields,
        description=fields.text("description", required=True),
        options=options,
        min=fields.number("min"),
        max=fields.number("max"),
        validation_pattern=fields.text("validation_pattern") or None,
        label=fields.text("label"),
        advanced=fields.flag("advanced"),
        secret=fields.flag("secret") or kind == "password",
        tab=fields.text("tab"),
    )
    _check(parameter, fields, default)
    return parameter


def _options(fields: Fields, key: str) -> tuple[Option, ...]:
    found: list[Option] = []
    for index, value in enumerate(fields.entries(key)):
        if isinstance(value, dict):
            inner = fields.each(key)[index]
            inner.allow("value", "label", "description")
            if "value" not in inner:
                inner.wrong("", "the key 'value' is missing")
            found.append(
                Option(
                    value=inner.any("value"),
                    label=inner.text("label"),
                    description=inner.text("description"),
                )
            )
        else:
            found.append(Option(value=value))
    if key in fields and not found:
        fields.wrong(key, "must name at least one value")
    return tuple(found)


def _check(parameter: Parameter, fields: Fields, default: str) -> None:
    """Reports contradictions, such as a default that is not allowed, or a range for texts."""
    _check_options(parameter, fields)
    _check_range(parameter, fields)
    pattern = _pattern(parameter, fields)
    if parameter.default_value is not None:
        wrong = _default_mistake(parameter, pattern)
        if wrong is not None:
            fields.wrong(default, wrong)


def _check_options(parameter: Parameter, fields: Fields) -> None:
    for key in ("options", "enum_values"):
        for value in parameter.enum_values if key in fields else ():
            if not _fits(parameter, value):
                fields.wrong(key, f"has {kind_of(value)}, but the type is {parameter.type}")
    if parameter.type == "enum" and not parameter.options:
        fields.wrong("", "an enum needs 'options'")


def _check_range(parameter: Parameter, fields: Fields) -> None:
    low, high = parameter.min, parameter.max
    for key, bound in (("min", low), ("max", high)):
        if bound is not None and parameter.type not in _NUMERIC:
            fields.wrong(key, f"only numbers have a range, and this is a {parameter.type}")
    if low is not None and high is not None and low > high:
        fields.wrong("min", f"{low} is more than max, {high}")


def _default_mistake(parameter: Parameter, pattern: re.Pattern[str] | None) -> str | None:
    value = parameter.default_value
    if not _fits(parameter, value):
        return f"is {kind_of(value)}, but the type is {parameter.type}"
    if parameter.enum_values and value not in parameter.enum_values:
        return f"{_shown(value)} is none of the options"
    if isinstance(value, (int, float)) and not _in_range(value, parameter.min, parameter.max):
        return f"{value} is outside of the range"
    if pattern is not None and isinstance(value, str) and value and not pattern.search(value):
        return f"{_shown(value)} does not match the validation_pattern"
    return None


def _fits(parameter: Parameter, value: Any) -> bool:
    return TYPES.get(parameter.type or "any", TYPES["any"])(value)


def _pattern(parameter: Parameter, fields: Fields) -> re.Pattern[str] | None:
    if parameter.validation_pattern is None:
        return None
    try:
        return re.compile(parameter.validation_pattern)
    except re.error as error:
        fields.wrong("validation_pattern", f"is no regular expression: {error}")
        return None


def _in_range(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _shown(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
