"""Parameters that select columns of an input table by name or by a filter, and the choices in dialogs."""

# Signatures are KNIME's, so not every argument is used.
# pyright: reportPrivateUsage=false

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from knime.api._absent import not_here
from knime.api.schema import Column, Schema

from ._base import TEXTS, Parameter
from .version import Version

if TYPE_CHECKING:
    from .contexts import DialogCreationContext

T = TypeVar("T")
PortIndex = int | tuple[int, int]


def _numbers(port_index: PortIndex) -> tuple[int, int | None]:
    """The number of a port or port group, and the number of the port in the group."""
    group, position = port_index if isinstance(port_index, tuple) else (port_index, None)
    if not isinstance(group, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"{port_index!r} is not a port: give its number, or two numbers for a port in a group"
        )
    return group, position


def _pick_schema(specs: list[Any], port_index: PortIndex) -> Schema:
    """The schema at a port; an unconnected port counts as a table without columns."""
    group, position = _numbers(port_index)
    if group >= len(specs):
        raise IndexError(f"port {port_index} does not exist: the node has {len(specs)} input ports")
    spec = specs[group]
    if position is not None:
        if not isinstance(spec, list):
            raise TypeError(f"port {group} is not a port group; name it by one number")
        members = cast("list[Any]", spec)
        # A group may have fewer ports than the dialog asks for, as users add and remove them.
        spec = members[position] if position < len(members) else None
    if spec is None:
        return Schema.from_columns([])
    if not isinstance(spec, Schema):
        raise TypeError(f"port {port_index} is not a table port")
    return spec


def _entries(schema: Schema, column_filter: Callable[[Column], bool]) -> list[dict[str, Any]]:
    if not isinstance(schema, Schema):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("columns can only be chosen from a table")
    entries: list[dict[str, Any]] = []
    for column in schema:
        if column_filter(column):
            # KNIME adds these two entries to the metadata of every input column.
            metadata = cast("dict[str, Any]", column.metadata)
            value_type, shown = metadata["preferred_value_type"], metadata["displayed_column_type"]
            entry = {"id": column.name, "text": column.name}
            entries.append(
                {**entry, "type": {"id": value_type, "text": shown}, "compatibleTypes": [value_type]}
            )
    return entries


class _ColumnsParameter(Parameter[T]):
    def __init__(
        self,
        label: str | None,
        description: str | None,
        port_index: PortIndex,
        column_filter: Callable[[Column], bool] | None,
        default_value: Any,
        since_version: Version | str | None,
        is_advanced: bool,
        schema_provider: "Callable[[DialogCreationContext], Schema] | None",
    ) -> None:
        super().__init__(label, description, default_value, None, since_version, is_advanced)
        self._column_filter: Callable[[Column], bool] = column_filter or (lambda _: True)
        # With a provider the port says nothing, so `_validate_specs` must not look at it.
        self._port_index = port_index if schema_provider is None else None
        self._schema_provider: Callable[[DialogCreationContext], Schema] = schema_provider or (
            lambda dialog_creation_context: _pick_schema(
                dialog_creation_context.get_input_specs(), port_index
            )
        )

    def _validate_specs(self, specs: list[Any]) -> None:
        if self._port_index is None:
            return
        group, position = _numbers(self._port_index)
        if group >= len(specs) or (position is not None and len(specs[group]) < position):
            raise ValueError(f"the column selection {self._name!r} needs a table at input port {group}")
        _pick_schema(specs, self._port_index)

    def _possible(self, dialog_creation_context: "DialogCreationContext") -> list[dict[str, Any]]:
        return _entries(self._schema_provider(dialog_creation_context), self._column_filter)


class ColumnParameter(_ColumnsParameter[str | None]):
    """The name of a column; None without a choice, and ``ColumnParameter.NONE`` for the choice *None*."""

    NONE = "<none>"
    _type: ClassVar[dict[str, Any]] = {"type": "string"}

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        port_index: PortIndex = 0,
        column_filter: Callable[[Column], bool] | None = None,
        include_row_key: bool = False,
        include_none_column: bool = False,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
        schema_provider: "Callable[[DialogCreationContext], Schema] | None" = None,
        default_value: str | Callable[[Version], str] | None = None,
    ) -> None:
        super().__init__(
            label,
            description,
            port_index,
            column_filter,
            default_value,
            since_version,
            is_advanced,
            schema_provider,
        )
        self._include_row_key = include_row_key
        self._include_none_column = include_none_column

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        none = [{"id": self.NONE, "text": "None"}] if self._include_none_column else []
        return {
            "format": "dropDown",
            "showRowKeys": self._include_row_key,
            "showNoneColumn": self._include_none_column,
            "possibleValues": self._possible(dialog_creation_context) + none,
        }

    def _to_dict(self, value: Any) -> Any:
        return "" if value is None else value

    def _from_dict(self, value: Any) -> Any:
        return None if value == "" else value


class MultiColumnParameter(_ColumnsParameter[list[str]]):
    _type = TEXTS

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        port_index: PortIndex = 0,
        column_filter: Callable[[Column], bool] | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
    ) -> None:
        super().__init__(
            label, description, port_index, column_filter, None, since_version, is_advanced, None
        )

    def _get_default(self, version: Version | None = None) -> Any:
        return []

    def _get_value(self, obj: object, name: str, for_dialog: bool = False) -> Any:
        value = super()._get_value(obj, name, for_dialog)
        return [] if value is None and for_dialog else value

    def _inject(
        self, obj: object, value: Any, name: str, version: Version, exclude_validations: bool = False
    ) -> None:
        # The dialog writes an empty text if there are no columns.
        named = None if value is None else [column for column in value if column != ""]
        super()._inject(obj, named, name, version, exclude_validations)

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        return {"format": "twinList", "possibleValues": self._possible(dialog_creation_context)}


class ColumnFilterMode(Enum):
    MANUAL = "Manual"
    REGEX = "Regex"
    WILDCARD = "Wildcard"
    TYPE = "Type"


class _FilterConfig:
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

    apply = not_here("ColumnFilterConfig.apply")

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
