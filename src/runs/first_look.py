"""A look at a table before the first call: which columns are sent, as what, and what is doubtful about them.

The node *MCP Tool Caller* and ``knime-mcp batch`` say the same of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ..types.texts import listed
from .argument_sources import THOUSANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..audit.secrets import SecretMarker
    from .argument_sources import PlannedCalls
    from .parameter_rows import ParameterRows

_SHOWN: Final = 3
_LOOKED_AT: Final = 50
_NUMBERS: Final = frozenset({"number", "integer"})
_POINTS: Final = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
"""May be a thousand, where the point separates thousands."""
_POINT: Final = re.compile(r"[+-]?(?:\d*\.(?:\d{1,2}|\d{4,})|\d{4,}\.\d{3}|0\d*\.\d+)")
"""Can only be a number with a decimal point."""
_COMMA: Final = re.compile(
    r"[+-]?(?:\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3}){2,}"
    rf"|\d{{1,3}}(?:{THOUSANDS}\d{{3}})+,\d+)"
)
"""Can only be a number with a decimal comma: 1,234 may be a thousand."""


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What the calls of a plan send.

    `columns` are parameter and column, `values` the first values of each parameter as they are sent, with
    secrets marked. `unfit` says why no row has an argument; `comma` that numbers have a decimal comma, and
    `mixed` that one column has numbers of both kinds, some of which would be read as others.
    """

    columns: dict[str, str]
    values: dict[str, list[Any]]
    not_sent: tuple[str, ...]
    notes: tuple[str, ...] = ()
    unfit: str = ""
    comma: str = ""
    mixed: str = ""


def first_look(plan: PlannedCalls, secrets: SecretMarker) -> FirstLook | None:
    """Looks at a table whose calls all go to one tool; None without one, or if no call can be made."""
    if plan.parameters is None or plan.tool is None or plan.problem is not None:
        return None
    values: dict[str, list[Any]] = {}
    for call in islice(plan.calls(), _LOOKED_AT):
        sent = secrets.shown(call.arguments or {}, plan.tool.schema_json or "{}")
        for name in call.arguments or {}:
            value = sent[name]
            if len(values.setdefault(name, [])) < _SHOWN:
                values[name].append(value)
    columns = plan.columns_of(plan.tool)
    if columns is None:
        return FirstLook({}, values, ())
    parameters, arguments = columns
    values = {name: values[name] for name in (*parameters, *values) if name in values}
    not_sent = plan.unmatched
    if parameters and not arguments:
        there = listed(f"'{name}'" for name in plan.parameters.columns)
        return FirstLook(
            {},
            values,
            not_sent,
            unfit=f"None of the columns {there} is called like a parameter of the tool {plan.tool.name}:"
            f" {listed(parameters)}",
        )
    notes: list[str] = []
    comma = mixed = ""
    for name, column in arguments.items():
        kinds = parameters[name].kinds
        if not kinds & _NUMBERS or "string" in kinds:
            continue
        points, thousands, commas = _notations(plan.parameters, column)
        others = [*commas, *(thousands if plan.decimal_comma else ())]
        if points and others:
            mixed = mixed or (
                f"The column '{column}' has numbers with a decimal point, such as {points[0]}, and others"
                f" with a comma, or with points between thousands, such as {others[0]}"
            )
        elif commas and not plan.decimal_comma:
            comma = comma or f"The column '{column}' has numbers with a decimal comma, such as {commas[0]}"
        if thousands and not plan.decimal_comma:
            notes.append(
                f"Numbers of the column '{column}' are read with a decimal point, though it may separate"
                f" thousands: {listed(thousands)}"
            )
    return FirstLook(arguments, values, not_sent, tuple(notes), comma=comma, mixed=mixed)


def _notations(parameters: ParameterRows, column: str) -> tuple[list[str], list[str], list[str]]:
    """The texts of a column that are numbers with a point, with either, and with a comma; with their rows."""
    found: dict[re.Pattern[str], list[str]] = {_POINT: [], _POINTS: [], _COMMA: []}
    for row, text in _texts(parameters, column):
        for pattern, texts in found.items():
            if pattern.fullmatch(text):
                texts.append(f"{text} in row {row}")
    return found[_POINT], found[_POINTS], found[_COMMA]


def _texts(parameters: ParameterRows, column: str) -> Iterator[tuple[str, str]]:
    """The texts of a column, with their rows."""
    import pyarrow as pa

    cells = parameters.table.column(parameters.table.column_names.index(column, 1))
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return
    objects = parameters.objects
    values = cells.to_pylist() if objects is None else [row.get(column) for row in objects]
    for row, value in zip(parameters.table.column(0).to_pylist(), values, strict=True):
        if isinstance(value, str):
            yield row, value.strip()
