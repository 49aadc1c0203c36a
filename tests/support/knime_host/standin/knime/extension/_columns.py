"""Parameters that select columns of an input table by name or by a filter, and the choices in dialogs."""

# Signatures are KNIME's, so not every argument is used.
# pyright: reportPrivateUsage=false

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

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
