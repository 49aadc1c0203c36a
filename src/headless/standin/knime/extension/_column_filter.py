"""The parameter for a filter of columns: by hand, by a pattern, or by type."""

# Signatures are KNIME's, so not every argument is used.
# pyright: reportPrivateUsage=false

import logging
import re
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from knime.api.schema import Column, Schema

from ._base import TEXTS
from ._columns import PortIndex, _ColumnsParameter
from .version import Version

if TYPE_CHECKING:
    from .contexts import DialogCreationContext

LOGGER = logging.getLogger("Python backend")


class ColumnFilterMode(Enum):
    """The modes of a column filter."""

    MANUAL = "Manual"
    REGEX = "Regex"
    WILDCARD = "Wildcard"
    TYPE = "Type"


class _FilterConfig:
    """The settings of one mode."""

    #: Attributes with their keys and types in documents, in the order of the constructor's arguments.
    _keys: ClassVar[dict[str, tuple[str, dict[str, Any]]]]

    @classmethod
    def _from_dict(cls, value: dict[str, Any]) -> Self:
        return cls(*(value[key] for key, _ in cls._keys.values()))

    def _to_dict(self) -> dict[str, Any]:
        return {key: getattr(self, name) for name, (key, _) in self._keys.items()}

    def _extract_schema(self) -> dict[str, Any]:
        properties = {k: {**kind, "default": getattr(self, name)} for name, (k, kind) in self._keys.items()}
        return {"type": "object", "properties": properties}


_TEXT, _BOOLEAN = {"type": "string"}, {"type": "boolean"}


class PatternFilterConfig(_FilterConfig):
    """A regular expression, or a pattern with ``*`` and ``?``, which may match anywhere in a name."""

    _keys: ClassVar[dict[str, Any]] = {
        "pattern": ("pattern", _TEXT),
        "case_senstive": ("isCaseSensitive", _BOOLEAN),
        "inverted": ("isInverted", _BOOLEAN),
    }

    def __init__(self, pattern: str = "", case_sensitive: bool = True, inverted: bool = False) -> None:
        self.case_senstive = case_sensitive  # KNIME's spelling
        self.inverted = inverted
        self.pattern = pattern

    def _apply(self, schema: Schema, regex: bool) -> list[str]:
        text = self.pattern
        if not regex:
            text = re.escape(text).replace("\\*", ".*").replace("\\?", ".")
        pattern = re.compile(text, 0 if self.case_senstive else re.IGNORECASE)
        return [name for name in schema.column_names if bool(pattern.search(name)) != self.inverted]


class TypeFilterConfig(_FilterConfig):
    """Types by value class, as in the metadata that KNIME adds to input columns."""

    _keys: ClassVar[dict[str, Any]] = {
        "_selected_types": ("selectedTypes", TEXTS),
        "_type_displays": (
            "typeDisplays",
            {"type": "array", "items": {"type": "object", "properties": {"id": _TEXT, "text": _TEXT}}},
        ),
    }

    def __init__(
        self, selected_types: list[str] | None = None, type_displays: list[dict[str, str]] | None = None
    ) -> None:
        self._selected_types = selected_types if selected_types is not None else []
        self._type_displays = type_displays if type_displays is not None else []

    def _apply(self, schema: Schema) -> list[str]:
        names: list[str] = []
        for column in schema:
            if column.metadata is None or "preferred_value_type" not in column.metadata:
                LOGGER.warning("the column %r has no preferred_value_type: it is left out", column.name)
            elif column.metadata["preferred_value_type"] in self._selected_types:
                names.append(column.name)
        return names


class ManualFilterConfig(_FilterConfig):
    """Lists of included and excluded names, and whether other columns are included."""

    _keys: ClassVar[dict[str, Any]] = {
        "included": ("manuallySelected", TEXTS),
        "excluded": ("manuallyDeselected", TEXTS),
        "include_unknown_columns": ("includeUnknownColumns", _BOOLEAN),
    }

    def __init__(
        self,
        included: list[str] | None = None,
        excluded: list[str] | None = None,
        include_unknown_columns: bool = True,
    ) -> None:
        self.include_unknown_columns = include_unknown_columns
        self.included = included if included is not None else []
        self.excluded = excluded if excluded is not None else []

    def _apply(self, schema: Schema) -> list[str]:
        def is_in(name: str) -> bool:
            return name in self.included or (name not in self.excluded and self.include_unknown_columns)

        return [name for name in schema.column_names if is_in(name)]


class ColumnFilterConfig:
    """The value of a `ColumnFilterParameter`: a mode, and the settings of all modes.

    ``included_column_names`` is short for a manual filter with these names as the mode.
    """

    def __init__(
        self,
        mode: ColumnFilterMode = ColumnFilterMode.MANUAL,
        pattern_filter: PatternFilterConfig | None = None,
        type_filter: TypeFilterConfig | None = None,
        manual_filter: ManualFilterConfig | None = None,
        included_column_names: list[str] | None = None,
        pre_filter: Callable[[Column], bool] | None = None,
    ) -> None:
        self.mode = mode
        self.pattern_filter = pattern_filter if pattern_filter is not None else PatternFilterConfig()
        self.type_filter = type_filter if type_filter is not None else TypeFilterConfig()
        self.manual_filter = manual_filter if manual_filter is not None else ManualFilterConfig()
        if included_column_names is not None:
            self.mode = ColumnFilterMode.MANUAL
            self.manual_filter = ManualFilterConfig(included_column_names)
        self._pre_filter = pre_filter

    def apply(self, columnar: Any) -> Any:
        """A view of a schema or table with the columns that pass the filter."""
        schema: Any = columnar.schema if hasattr(columnar, "schema") else columnar
        if self._pre_filter is not None:
            schema = schema[[column.name for column in schema if self._pre_filter(column)]]
        return columnar[self._names(schema)]

    def _names(self, schema: Schema) -> list[str]:
        match self.mode:
            case ColumnFilterMode.MANUAL:
                return self.manual_filter._apply(schema)
            case ColumnFilterMode.TYPE:
                return self.type_filter._apply(schema)
            case ColumnFilterMode.REGEX | ColumnFilterMode.WILDCARD:
                is_regex = self.mode is ColumnFilterMode.REGEX
                return self.pattern_filter._apply(schema, is_regex)
            case _:
                raise ValueError(f"{self.mode!r} is not a ColumnFilterMode")

    def __eq__(self, other: Any) -> bool:
        return self._to_dict() == other._to_dict()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def _from_dict(cls, value: dict[str, Any], pre_filter: Callable[[Column], bool]) -> "ColumnFilterConfig":
        return cls(
            ColumnFilterMode[value["mode"]],
            PatternFilterConfig._from_dict(value["patternFilter"]),
            TypeFilterConfig._from_dict(value["typeFilter"]),
            ManualFilterConfig._from_dict(value["manualFilter"]),
            pre_filter=pre_filter,
        )

    def _to_dict(self) -> dict[str, Any]:
        return {
            "mode": self.mode.name,
            "patternFilter": self.pattern_filter._to_dict(),
            "typeFilter": self.type_filter._to_dict(),
            "manualFilter": self.manual_filter._to_dict(),
        }

    def _extract_schema(self) -> dict[str, Any]:
        internal = {"configKeys": ["selected_Internals"]}
        return {
            "patternFilter": self.pattern_filter._extract_schema(),
            "typeFilter": self.type_filter._extract_schema(),
            "manualFilter": self.manual_filter._extract_schema(),
            "mode": {"oneOf": [{"const": mode.name, "title": mode.value} for mode in ColumnFilterMode]},
            "selected": {"type": "array", "items": {"type": "string", **internal}, **internal},
        }


class ColumnFilterParameter(_ColumnsParameter[ColumnFilterConfig]):
    """A filter of columns, whose value is a `ColumnFilterConfig`."""

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        port_index: PortIndex = 0,
        default_value: ColumnFilterConfig | Callable[[Version], ColumnFilterConfig] | None = None,
        column_filter: Callable[[Column], bool] | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
        schema_provider: "Callable[[DialogCreationContext], Schema] | None" = None,
    ) -> None:
        super().__init__(
            label,
            description,
            port_index,
            column_filter,
            default_value or ColumnFilterConfig(),
            since_version,
            is_advanced,
            schema_provider,
        )

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        default = cast("ColumnFilterConfig", self._get_default(extension_version))
        properties = default._extract_schema()
        return {
            **super()._extract_schema(extension_version, dialog_creation_context),
            "type": "object",
            "properties": properties,
        }

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        return {
            "format": "typedStringFilter",
            "unknownValuesText": "Any unknown column",
            "emptyStateLabel": "No columns in this list.",
            "possibleValues": self._possible(dialog_creation_context),
        }

    def _to_dict(self, value: Any) -> Any:
        return value._to_dict()

    def _from_dict(self, value: Any) -> Any:
        return ColumnFilterConfig._from_dict(value, self._column_filter)
