"""The settings of a node: parameters, which are descriptors, and their documents: values, schema, layout.

A node stores its values in one dictionary, ``__parameters__``. A parameter is declared once, on the class,
and reads and writes the entry with its own name. What comes after the default value is given by name here.
"""

import functools
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from knime.api.schema import Column, Schema

if TYPE_CHECKING:
    from .contexts import DialogCreationContext

# This module is one implementation, and KNIME's private names are part of it: nodes override some.
# pyright: reportPrivateUsage=false

T = TypeVar("T")
N = TypeVar("N", int, float)
G = TypeVar("G")
FindScope = Callable[[Any], str]


class Version(NamedTuple):
    """A version ``major.minor.patch`` of an extension."""

    major: int
    minor: int
    patch: int

    def __repr__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    __str__ = __repr__

    @classmethod
    def parse_version(cls, version_string: "str | Version | None") -> "Version":
        """The version in a text. ``None`` stands for 0.0.0, and a version is returned unchanged."""
        if version_string is None:
            return cls(0, 0, 0)
        if isinstance(version_string, cls):
            return version_string
        parts = cast("str", version_string).split(".")
        try:
            found = [int(part) for part in parts]
        except ValueError:
            found = [-1]
        if len(found) != 3 or min(found) < 0:
            raise ValueError(f"{version_string!r} is not a version: write three whole numbers, as in '1.0.0'")
        return cls(*found)


_extension_version: Version | None = None


def set_extension_version(version: str | None) -> None:
    """Sets the version of the loaded extension for parameters. KNIME does this *after* importing it."""
    global _extension_version
    _extension_version = None if version is None else Version.parse_version(version)


class Condition(ABC):
    """A condition that is evaluated while a dialog is open."""

    @abstractmethod
    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        """The condition in JSON Forms' format; ``find_scope`` returns the path of a setting."""


class And(Condition):
    """A condition that holds if all of its conditions hold."""

    def __init__(self, *conditions: Condition) -> None:
        if not conditions:
            raise ValueError("And needs at least one condition")
        self._conditions = conditions

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        inner = [condition.to_dict(find_scope, ctx) for condition in self._conditions]
        return {"type": "AND", "conditions": inner}


class OneOf(Condition):
    """A condition that holds if the value of ``subject`` equals one of ``values``."""

    def __init__(self, subject: Any, values: Sequence[Any]) -> None:
        self._subject = subject
        self._values = values

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        choices = [{"const": value} for value in self._values]
        return {"scope": find_scope(self._subject), "schema": {"oneOf": choices}}


class DialogContextCondition(Condition):
    """A condition that holds if ``ctx_predicate`` is true for the context when the dialog opens."""

    def __init__(self, ctx_predicate: "Callable[[DialogCreationContext], bool]") -> None:
        self._predicate = ctx_predicate

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        """See `Condition`. The schema "object" is always true, as the whole document is an object."""
        return {"scope": "#", "schema": {"type": ["object" if self._predicate(ctx) else "null"]}}


class Effect(Enum):
    """The effect on a control while a condition holds."""

    SHOW = "SHOW"
    HIDE = "HIDE"


def _values_of(obj: object) -> dict[str, Any]:
    return cast("dict[str, Any]", obj.__dict__.setdefault("__parameters__", {}))


_ITS_OWN: Any = object()  # in place of a default, that of the kind of parameter


class _More(TypedDict, total=False):
    since_version: Version | str | None
    is_advanced: bool


class Parameter(Generic[T]):
    """A setting with a value of type ``T``, declared as a class attribute of a node or group."""

    #: The JSON schema of the type; `_format` names the control in the dialog.
    _type: ClassVar[dict[str, Any]] = {}
    _format: ClassVar[str] = ""
    _own_default: ClassVar[Any] = None
    _name: str

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: Any = _ITS_OWN,
        *,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
    ) -> None:
        self._label = cast("str", label)  # None until __set_name__ knows the attribute's name
        self._default_value: Any = self._own_default if default_value is _ITS_OWN else default_value
        self.__doc__ = description if description is not None else ""
        self._since_version = Version.parse_version(since_version)
        self._is_advanced = is_advanced
        self._rule: tuple[Condition, Effect] | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        if cast("str | None", self._label) is None:
            self._label = name

    @overload
    def __get__(self, obj: None, objtype: type | None = None) -> Self: ...
    @overload
    def __get__(self, obj: object, objtype: type | None = None) -> T: ...
    def __get__(self, obj: object | None, objtype: type | None = None) -> "Self | T":
        return self if obj is None else cast("T", self._get_value(obj))

    def __set__(self, obj: object, value: T) -> None:
        self._validate(value)
        _values_of(obj)[self._name] = value

    def rule(self, condition: Condition, effect: Effect) -> Self:
        """Shows, hides, enables or disables the control while ``condition`` holds; returns the parameter."""
        self._rule = condition, effect
        return self

    def _validate(self, value: Any) -> None:
        """Raises TypeError or ValueError for a value that the parameter does not take."""

    def _validate_specs(self, specs: list[Any]) -> None:
        """Checks that the input port to which the parameter refers exists."""

    def _get_default(self, version: Version | None = None) -> Any:
        if not callable(self._default_value):
            return self._default_value
        known = version or _extension_version
        if known is None:
            raise RuntimeError("the extension's version is not known yet: KNIME sets it after the import")
        return self._default_value(known)

    def _get_value(self, obj: object) -> Any:
        values = _values_of(obj)
        if self._name not in values:
            values[self._name] = self._get_default()
        return values[self._name]

    def _to_dict(self, value: Any) -> Any:
        return value

    def _from_dict(self, value: Any) -> Any:
        return value

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        return {"title": self._label, "description": self._description(), **self._type}

    def _description(self) -> str:
        return self.__doc__ or ""

    def _help(self) -> str:
        """The description of the setting in that of the node."""
        return self._description()

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        return {"format": self._format}

    def _extract_ui_schema(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        options = self._get_options(dialog_creation_context)
        if self._is_advanced:
            options["isAdvanced"] = True
        return {"type": "Control", "label": self._label, "options": options}


def _with_list(text: str, heading: str, lines: list[str]) -> str:
    """A description with a bullet list below, indented like the description's lines."""
    margins = [len(line) - len(line.lstrip()) for line in text.expandtabs().splitlines()[1:] if line.strip()]
    indent = " " * min(margins, default=0)
    body = "".join(f"{indent}- {line}\n" for line in lines)
    return f"{text.expandtabs()}\n\n{indent}**{heading}:**\n\n{body}"


class _NumericParameter(Parameter[N]):
    _kind: ClassVar[type]

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: N | Callable[[Version], N] = _ITS_OWN,
        *,
        min_value: N | None = None,
        max_value: N | None = None,
        **more: Unpack[_More],
    ) -> None:
        self.min_value = min_value
        self.max_value = max_value
        super().__init__(label, description, default_value, **more)

    def _validate(self, value: Any) -> None:
        if not isinstance(value, self._kind):
            raise TypeError(f"{value!r} is of type {type(value).__name__}, not {self._type['type']}")
        number: Any = value
        if self.min_value is not None and number < self.min_value:
            raise ValueError(f"{value} is below the smallest allowed value {self.min_value}")
        if self.max_value is not None and number > self.max_value:
            raise ValueError(f"{value} is above the largest allowed value {self.max_value}")

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        limits: dict[str, Any] = {}
        for key, bound, word in (("min", self.min_value, "least"), ("max", self.max_value, "most")):
            if bound is not None:
                limits[key] = {
                    "parameters": {key: bound, "isExclusive": False},
                    "errorMessage": f"The value must be at {word} {bound}.",
                }
        return {"format": self._format, **({"validation": limits} if limits else {})}


class IntParameter(_NumericParameter[int]):
    """A whole number of 32 bits. As in KNIME, ``True`` counts as one."""

    _kind = int
    _type: ClassVar[dict[str, Any]] = {"type": "integer", "format": "int32"}
    _format = "integer"
    _own_default = 0


class DoubleParameter(_NumericParameter[float]):
    """A number. As in KNIME, whole numbers and booleans pass."""

    _kind = numbers.Number
    _type: ClassVar[dict[str, Any]] = {"type": "number", "format": "double"}
    _format = "number"
    _own_default = 0.0


class BoolParameter(Parameter[bool]):
    _type: ClassVar[dict[str, Any]] = {"type": "boolean"}
    _format = "boolean"
    _own_default = False

    def _validate(self, value: Any) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"{value!r} is not a boolean")


class _TextParameter(Parameter[str]):
    _own_default = ""

    def _validate(self, value: Any) -> None:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is of type {type(value).__name__}, not string")


@dataclass(frozen=True)
class Choice:
    """An entry of a choice: the stored id, the shown label, and a description."""

    __qualname__ = "StringParameter.Choice"

    id: str
    label: str
    description: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("the id of a choice must not be empty")
        if not all(isinstance(cast("Any", part), str) for part in (self.id, self.label, self.description)):
            raise TypeError("id, label and description of a choice must be texts")


Choices = Sequence["str | Choice"]


def _as_choices(entries: Any) -> list[Choice]:
    if not isinstance(entries, (list, tuple)):
        raise TypeError(f"choices must be a list or tuple, not {type(entries).__name__}")
    found: dict[str, Choice] = {}
    for entry in cast("Sequence[Any]", entries):
        choice = Choice(entry, entry) if isinstance(entry, str) else entry
        if not isinstance(choice, Choice):
            raise TypeError(f"a choice must be a string or a Choice, not {type(entry).__name__}")
        if choice.id in found:
            raise ValueError(f"two choices have the id {choice.id!r}")
        found[choice.id] = choice
    return list(found.values())


class StringParameter(_TextParameter):
    """A text; with ``choices``, an entry of a list that a dialog makes, against which nothing checks it."""

    Choice = Choice

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: str | Callable[[Version], str] = "",
        *,
        choices: "Callable[[DialogCreationContext], Choices] | None" = None,
        **more: Unpack[_More],
    ) -> None:
        # As in KNIME: asked for once when a dialog opens, whose documents need them several times.
        self._choices = None if choices is None else functools.lru_cache(maxsize=1)(choices)
        super().__init__(label, description, default_value, **more)

    def _known_choices(self, dialog_creation_context: "DialogCreationContext | None") -> list[Choice] | None:
        if self._choices is None or dialog_creation_context is None:
            return None
        found = _as_choices(self._choices(dialog_creation_context))
        if found and not self._default_value:
            # As in KNIME, opening one dialog changes the default of the whole class.
            self._default_value = found[0].id
        return found

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        schema = super()._extract_schema(extension_version, dialog_creation_context)
        choices = self._known_choices(dialog_creation_context)
        if not choices:
            return {**schema, "type": "string"}
        described = {choice.label: choice.description.strip() for choice in choices}
        if any(described.values()):
            lines = [f"{label}: {text}" if text else label for label, text in described.items()]
            schema["description"] = _with_list(self._description(), "Available options", lines)
        return {**schema, "oneOf": [{"const": choice.id, "title": choice.label} for choice in choices]}

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        if self._known_choices(dialog_creation_context) == []:
            return {"format": "dropDown", "placeholder": "No values present"}
        return {"format": "string"}


class MultilineStringParameter(_TextParameter):
    _type: ClassVar[dict[str, Any]] = {"type": "string"}

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: str | Callable[[Version], str] = "",
        *,
        number_of_lines: int = 3,
        **more: Unpack[_More],
    ) -> None:
        self._number_of_lines = number_of_lines
        super().__init__(label, description, default_value, **more)

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        return {"format": "textArea", "rows": self._number_of_lines}


class EnumParameterOptions(Enum):
    """The base of enumerations of options: ``NAME = (label, description)``. The name is stored."""

    label: str
    description: str

    def __init__(self, label: str, description: str) -> None:
        self.label = label
        self.description = description

    @classmethod
    def get_all_options(cls) -> list[str]:
        return cls._member_names_


class EnumParameter(Parameter[str]):
    """The name of one member of ``enum``."""

    class Style(Enum):
        RADIO = "radio"
        VALUE_SWITCH = "valueSwitch"
        DROPDOWN = "string"

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: str | None = None,
        enum: type[EnumParameterOptions] = EnumParameterOptions,
        *,
        style: "EnumParameter.Style | None" = None,
        hidden_choices: None = None,  # none of our nodes hides any, but one asks if this KNIME could
        **more: Unpack[_More],
    ) -> None:
        if default_value is None:
            raise AttributeError("KNIME's EnumParameter breaks without default_value; give a member's name")
        self._enum = enum
        self._style = style
        super().__init__(label, description, default_value, **more)

    def _validate(self, value: Any) -> None:
        if value not in self._enum.get_all_options():
            options = ", ".join(self._enum.get_all_options())
            raise ValueError(f"{value!r} is not an option of {self._label!r}; options: {options}")

    def _description(self) -> str:
        lines = [f"{member.label}: {member.description}" for member in self._enum]
        return _with_list(super()._description(), "Available options", lines)

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        schema = super()._extract_schema(extension_version, dialog_creation_context)
        return {**schema, "oneOf": [{"const": member.name, "title": member.label} for member in self._enum]}

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        if self._style is not None:
            return {"format": self._style.value}
        return {"format": "string" if len(self._enum) > 4 else "radio"}


class ColumnParameter(Parameter[str | None]):
    """The name of a column; None without a choice, and ``ColumnParameter.NONE`` for the choice *None*."""

    NONE = "<none>"
    _type: ClassVar[dict[str, Any]] = {"type": "string"}

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        *,
        port_index: int = 0,
        column_filter: Callable[[Column], bool] = lambda _: True,
        include_none_column: bool = False,
        default_value: str | None = None,
        **more: Unpack[_More],
    ) -> None:
        super().__init__(label, description, default_value, **more)
        self._port_index = port_index
        self._column_filter = column_filter
        self._include_none_column = include_none_column

    def _validate_specs(self, specs: list[Any]) -> None:
        if self._port_index >= len(specs):
            raise ValueError(
                f"the column selection {self._name!r} needs a table at input port {self._port_index}"
            )
        self._schema_at_port(specs)

    def _schema_at_port(self, specs: list[Any]) -> Schema:
        """The schema at the port; an unconnected port counts as a table without columns."""
        spec = specs[self._port_index]
        if spec is None:
            return Schema.from_columns([])
        if not isinstance(spec, Schema):
            raise TypeError(f"port {self._port_index} is not a table port")
        return spec

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        entries: list[dict[str, Any]] = []
        for column in self._schema_at_port(dialog_creation_context.get_input_specs()):
            if self._column_filter(column):
                # KNIME adds these two entries to the metadata of every input column.
                metadata = cast("dict[str, Any]", column.metadata)
                value_type, shown = metadata["preferred_value_type"], metadata["displayed_column_type"]
                kind = {"type": {"id": value_type, "text": shown}, "compatibleTypes": [value_type]}
                entries.append({"id": column.name, "text": column.name, **kind})
        return {
            "format": "dropDown",
            "showRowKeys": False,
            "showNoneColumn": self._include_none_column,
            "possibleValues": entries
            + ([{"id": self.NONE, "text": "None"}] if self._include_none_column else []),
        }

    def _to_dict(self, value: Any) -> Any:
        return "" if value is None else value

    def _from_dict(self, value: Any) -> Any:
        return None if value == "" else value


class LayoutDirection(Enum):
    """The layout of the settings in an array."""

    VERTICAL = "VerticalLayout"
    HORIZONTAL = "HorizontalLayout"


class ParameterGroup:
    """The base class that `parameter_group` adds to a class: the settings of an item of an array."""

    def __set_name__(self, owner: type, name: str) -> None:
        raise NotImplementedError("a group of settings that is not in an array is not part of the stand-in")


def parameter_group(label: str) -> Callable[[type[G]], type[G]]:
    """Decorator that makes a class a group of settings, for the items of a `ParameterArray`."""

    def decorate(cls: type[G]) -> type[G]:
        body = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        return cast("type[G]", type(cls.__name__, (ParameterGroup, cls), body))

    return decorate


class ParameterArray(Parameter[list[G]]):
    """A list of items, each with the settings of one group, which must not contain arrays."""

    def __init__(
        self,
        parameters: G,
        label: str | None = None,
        description: str | None = None,
        *,
        layout_direction: LayoutDirection = LayoutDirection.VERTICAL,
        button_text: str | None = None,
        array_title: str | None = None,
        **more: Unpack[_More],
    ) -> None:
        self._item_type: Any = type(parameters)
        self._members = settings_of(parameters)
        self._layout_direction = layout_direction
        self._button_text = button_text
        self._array_title = array_title or "Group"
        super().__init__(label, description, None, **more)

    def _validate(self, value: Any) -> None:
        # As in KNIME, the values of items are checked where they are read.
        if any(isinstance(member, ParameterArray) for member in self._members.values()):
            raise ValueError("the items of a ParameterArray cannot hold groups or arrays")

    def __get__(self, obj: Any, objtype: type | None = None) -> Any:
        return self if obj is None else [self._item(value) for value in self._get_value(obj)]

    def _item(self, value: dict[str, Any]) -> Any:
        item = self._item_type()
        for name, entry in value.items():
            setattr(item, name, entry)
        return item

    def _get_value(self, obj: object) -> Any:
        value = super()._get_value(obj)
        return [] if value is None else value

    def _to_dict(self, value: Any) -> Any:
        return [{name: item[name] for name in self._members if name in item} for item in value]

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        inner = {
            name: {
                **member._extract_schema(extension_version, dialog_creation_context),
                "default": member._get_default(),
            }
            for name, member in self._members.items()
        }
        schema = Parameter._extract_schema(self, extension_version, dialog_creation_context)
        return {**schema, "type": "array", "items": {"type": "object", "properties": inner}}

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        elements = [
            {"scope": f"#/properties/{name}", **member._extract_ui_schema(dialog_creation_context)}
            for name, member in self._members.items()
        ]
        return {
            "addButtonText": self._button_text,
            "detail": {"layout": {"type": self._layout_direction.value, "elements": elements}},
            "arrayElementTitle": self._array_title,
            "showSortButtons": True,
        }

    def _help(self) -> str:
        lines = [f"{member._label} : {member._description()}" for member in self._members.values()]
        return _with_list(self._description(), self._array_title, lines)


def settings_of(obj: object) -> dict[str, Parameter[Any]]:
    """The settings by attribute name, in the order of the dialog: those of the most derived class first."""
    found: dict[str, Parameter[Any]] = {}
    for cls in type(obj).__mro__[:-1]:
        for name, value in cls.__dict__.items():
            if isinstance(value, Parameter):
                found.setdefault(name, value)
    return found


def extract_parameters(obj: object) -> dict[str, Any]:
    """The values of all settings as the JSON document that KNIME saves."""
    settings = settings_of(obj)
    return {"model": {name: own._to_dict(own._get_value(obj)) for name, own in settings.items()}}


def inject_parameters(obj: object, parameters: dict[str, Any], parameters_version: str | None = None) -> None:
    """Loads a saved document; ``parameters_version`` is the extension's version that saved it.

    Settings that are newer than that version get their default for it.
    """
    version = Version.parse_version(parameters_version)
    values = parameters["model"]
    # KNIME's hook for documents of earlier versions: it sees them before any setting does.
    modify = getattr(obj, "_modify_parameters", None)
    if modify is not None:
        values = modify(values)
    for name, setting in settings_of(obj).items():
        if name in values:
            setting.__set__(obj, setting._from_dict(values[name]))
        # A setting that the saved version should have had is missing, which `validate_parameters` reports.
        elif setting._since_version > version:
            setting.__set__(obj, setting._get_default(version))


def validate_parameters(obj: object, parameters: dict[str, Any], saved_version: str | None = None) -> None:
    """Checks saved values, before `inject_parameters` may change them."""
    version = Version.parse_version(saved_version)
    values = parameters["model"]
    for name, setting in settings_of(obj).items():
        if setting._since_version <= version:
            if name not in values:
                raise ValueError(f'Parameter missing for key "{name}".')
            setting._validate(values[name])


def validate_specs(obj: object, specs: list[Any]) -> None:
    """Checks that the ports to which settings refer exist."""
    for setting in settings_of(obj).values():
        setting._validate_specs(specs)


def extract_schema(
    obj: object,
    extension_version: str | None = None,
    dialog_creation_context: "DialogCreationContext | None" = None,
) -> dict[str, Any]:
    """The JSON schema of the settings that exist in ``extension_version``."""
    version = Version.parse_version(extension_version)
    known = {name: own for name, own in settings_of(obj).items() if own._since_version <= version}
    properties = {name: own._extract_schema(version, dialog_creation_context) for name, own in known.items()}
    return {"type": "object", "properties": {"model": {"type": "object", "properties": properties}}}


def extract_parameter_descriptions(obj: object) -> list[dict[str, Any]]:
    return [{"name": own._label, "description": own._help()} for own in settings_of(obj).values()]


_ROOT = "#/properties/model/properties"


def extract_ui_schema(obj: object, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
    settings = settings_of(obj)

    def scope_of(subject: object) -> str:
        found = next((name for name, setting in settings.items() if setting is subject), None)
        if found is None:
            raise ValueError(f"the subject of a rule is not a setting of this node: {subject}")
        return f"{_ROOT}/{found}"

    elements: list[dict[str, Any]] = []
    for name, setting in settings.items():
        element = {"scope": f"{_ROOT}/{name}", **setting._extract_ui_schema(dialog_creation_context)}
        if isinstance(setting, ParameterArray):
            element = {"type": "Section", "label": setting._label, "elements": [element]}
            if setting._is_advanced:
                element["options"] = {"isAdvanced": True}
        if setting._rule is not None:
            condition, effect = setting._rule
            shown = condition.to_dict(scope_of, dialog_creation_context)
            element["rule"] = {"effect": effect.value, "condition": shown}
        elements.append(element)
    return {"type": "VerticalLayout", "elements": elements}
