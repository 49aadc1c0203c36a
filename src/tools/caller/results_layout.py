"""The columns of the table *Results*, planned before the first call.

``configure`` promises these columns and ``execute`` delivers exactly them: first the columns of the parameter
table, then the tool, then the outcome of the call, then the chosen structured values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ...types.column_kinds import ROW_ID, ColumnKind, knime_columns
from ...types.columns import ColumnForm, column_name, knime_type
from ...types.errors import SettingInvalid
from .pictures import image_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Kind = ColumnKind | Literal["image"]
JsonKind = Literal["string", "number", "integer", "boolean", "json"]

_OWN: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("Tool name", "tool_name", "string"),
    ("Tool type", "tool_type", "string"),
    ("Server", "server", "string"),
    ("Digest", "digest", "string"),
    ("Input row", "input_row", "string"),
    ("Arguments", "arguments", "string"),
    ("Status", "status", "string"),
    ("Result", "result", "string"),
    ("Structured result", "structured_result", "string"),
    ("Error", "error", "string"),
    ("Image", "image", "image"),
    ("Files", "files", "string"),
    ("Started at", "moment", "moment"),
    ("Duration (s)", "duration", "double"),
    ("Attempts", "attempts", "int32"),
)
_JSON_KINDS: Final[dict[str, JsonKind]] = {
    "string": "string",
    "text": "string",
    "number": "number",
    "double": "number",
    "integer": "integer",
    "boolean": "boolean",
    "json": "json",
}
_SIGNS_OF_RESULTS: Final = frozenset({"Input row", "Structured result", "Duration (s)"})
_RENAMED: Final = re.compile(r" \(input\)(?: #\d+)?$")
_ENTRY: Final = re.compile(r"[,;\n]")


@dataclass(frozen=True, slots=True)
class StructuredColumn:
    """A top-level property of the structured result that becomes a column.

    Attributes:
        key: The property's name.
        kind: The JSON type of the column's values.
        column: The column's name.
    """

    key: str
    kind: JsonKind
    column: str

    @property
    def type(self) -> ColumnKind:
        """The column's type."""
        kinds: dict[JsonKind, ColumnKind] = {"number": "double", "integer": "int64", "boolean": "boolean"}
        return kinds.get(self.kind, "string")


@dataclass(frozen=True, slots=True)
class ResultsLayout:
    """The columns of *Results*.

    Attributes:
        inputs: Columns of the parameter table, as pairs of the name there and the name in *Results*.
        form: The form in which tools are written.
        images: True if there is an *Image* column.
        structured: Columns for properties of the structured result.
    """

    inputs: tuple[tuple[str, str], ...]
    form: ColumnForm
    images: bool
    structured: tuple[StructuredColumn, ...]

    @property
    def own(self) -> tuple[tuple[str, str, Kind], ...]:
        """Name, record attribute and kind of each column about the outcome of a call."""
        return tuple(column for column in _OWN if self.images or column[2] != "image")

    def schema(self, parameters: Any | None) -> Any:
        """Makes the `knext.Schema` that ``configure`` returns, given the parameter table's schema or None."""
        import knime.extension as knext

        renamed = dict(self.inputs)
        columns = [
            knext.Column(column.ktype, renamed[column.name])
            for column in (() if parameters is None else parameters)
        ]
        columns.append(knext.Column(knime_type(self.form), column_name(self.form)))
        for name, _, kind in self.own:
            columns += (
                [knext.Column(image_type(), name)] if kind == "image" else knime_columns([(name, kind)])
            )
        columns += knime_columns((entry.column, entry.type) for entry in self.structured)
        return knext.Schema.from_columns(columns)


def plan_results(
    input_columns: Iterable[str], *, form: ColumnForm, images: bool, expand: str = ""
) -> ResultsLayout:
    """Decides on the columns.

    A column ``X`` of the parameter table whose name another column of *Results* has becomes ``X (input)``.

    Args:
        input_columns: Columns of the parameter table.
        form: The form in which tools are written.
        images: True if PNG images can be written.
        expand: The setting ``expand_structured``: property names separated by commas, semicolons or line
            breaks, with the type after a colon if it is not text: ``city, temperature: number``.

    Returns:
        The layout; all its column names are different.

    Raises:
        SettingInvalid: ``expand`` names an unknown type.
    """
    bare = ResultsLayout((), form, images, ())
    taken = {ROW_ID, column_name(form), *(name for name, *_ in bare.own)}
    names = list(input_columns)
    inputs: list[tuple[str, str]] = []
    for name in names:
        shown = name if name not in taken else _free_name(f"{name} (input)", taken | set(names))
        taken.add(shown)
        inputs.append((name, shown))
    structured: list[StructuredColumn] = []
    for key, kind in _kinds_by_property(expand).items():
        shown = key if key not in taken else _free_name(f"{key} (result)", taken)
        taken.add(shown)
        structured.append(StructuredColumn(key, kind, shown))
    return ResultsLayout(tuple(inputs), form, images, tuple(structured))


def outcome_columns(columns: Collection[str]) -> frozenset[str]:
    """Finds the columns that an earlier *Results* table has about its calls; none in other tables."""
    if _SIGNS_OF_RESULTS.isdisjoint(columns):
        return frozenset()
    own = {*(name for name, *_ in _OWN), *map(column_name, ColumnForm)}
    return frozenset(name for name in columns if _RENAMED.sub("", name) in own)


def _kinds_by_property(expand: str) -> dict[str, JsonKind]:
    kinds: dict[str, JsonKind] = {}
    for entry in _ENTRY.split(expand):
        key, colon, type_name = (part.strip() for part in entry.rpartition(":"))
        if not colon:
            key, type_name = type_name, "string"
        kind = _JSON_KINDS.get(type_name.lower())
        if kind is None:
            raise SettingInvalid(
                f"'{type_name}' is not a type of column",
                setting="expand_structured",
                fix=f"Write one of {', '.join(_JSON_KINDS)} after the colon",
            )
        if key:
            kinds[key] = kind
    return kinds


def _free_name(name: str, taken: set[str]) -> str:
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name} #{number}"
    return candidate
