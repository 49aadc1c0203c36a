"""The base classes of parameters, which are descriptors with values in the node, and rules of dialogs.

A node stores its values in one nested dictionary, ``__parameters__``. A parameter is declared once, on the
class, and reads and writes the entry with its own name. Groups have nested dictionaries.
"""

# Signatures are KNIME's, so not every argument is used.

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast, overload

from .version import Version

if TYPE_CHECKING:
    from .contexts import DialogCreationContext

T = TypeVar("T")
FindScope = Callable[[Any], str]

_extension_version: Version | None = None


def set_extension_version(version: str | None) -> None:
    """Sets the version of the loaded extension for parameters. KNIME does this *after* importing it."""
    global _extension_version
    _extension_version = None if version is None else Version.parse_version(version)


def extension_version() -> Version:
    if _extension_version is None:
        raise RuntimeError("the extension's version is not known yet: KNIME sets it after the import")
    return _extension_version


def values_of(obj: object) -> dict[str, Any]:
    """The dictionary in which a node or a group keeps the values of its parameters."""
    return cast("dict[str, Any]", obj.__dict__.setdefault("__parameters__", {}))


class Setting:
    """A named part of a node's settings: a parameter, a group or an array."""

    _label: str
    _since_version: Version
    _is_advanced: bool
    _rule: "Rule | None"

    _extract_value: Callable[..., Any]
    _inject: Callable[..., None]
    _set_default_for_version: Callable[..., None]
    _validate: Callable[..., None]
    _extract_schema: Callable[..., dict[str, Any]]
    _extract_description: Callable[[str, int], Any]

    def _validate_specs(self, specs: list[Any]) -> None:
        """Checks that the input ports to which the setting refers exist."""


class Condition(ABC):
    """A condition that is evaluated while a dialog is open."""

    @abstractmethod
    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        """The condition in JSON Forms' format; ``find_scope`` returns the path of a setting."""


class _Combined(Condition):
    kind = ""

    def __init__(self, *conditions: Condition) -> None:
        if not conditions:
            raise ValueError(f"{type(self).__name__} needs at least one condition")
        self._conditions = conditions

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        inner = [condition.to_dict(find_scope, ctx) for condition in self._conditions]
        return {"type": self.kind, "conditions": inner}


class And(_Combined):
    """A condition that holds if all of its conditions hold."""

    kind = "AND"


class Or(_Combined):
    """A condition that holds if one of its conditions holds."""

    kind = "OR"


class OneOf(Condition):
    """A condition that holds if the value of ``subject`` equals one of ``values``."""

    def __init__(self, subject: Any, values: Sequence[Any]) -> None:
        self._subject = subject
        self._values = values

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        choices = [{"const": value} for value in self._values]
        return {"scope": find_scope(self._subject), "schema": {"oneOf": choices}}


class Contains(Condition):
    """A condition that holds if the value of ``subject``, a list, contains ``value``."""

    def __init__(self, subject: Any, value: Any) -> None:
        self._subject = subject
        self._value = value

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        return {"scope": find_scope(self._subject), "schema": {"contains": {"const": self._value}}}


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
    ENABLE = "ENABLE"
    DISABLE = "DISABLE"


@dataclass(frozen=True, slots=True)
class Rule:
    condition: Condition
    effect: Effect


ITS_OWN: Any = object()  # in place of a default, that of the kind of parameter
#: The JSON schema of the type of a list of texts.
TEXTS = {"type": "array", "items": {"type": "string"}}


class Parameter(Setting, Generic[T]):
    """A setting with a value of type ``T``, declared as a class attribute of a node or group."""

    #: The JSON schema of the type; `_format` names the control in the dialog.
    _type: ClassVar[dict[str, Any]] = {}
    _format: ClassVar[str] = ""
    _own_default: ClassVar[Any] = None
    _name: str  # the name of the attribute; not set for parameters that a group makes in its __init__

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: Any = ITS_OWN,
        validator: Callable[[Any], object] | None = None,
        since_version: "Version | str | None" = None,
        is_advanced: bool = False,
    ) -> None:
        self._label = cast("str", label)  # None until __set_name__ knows the attribute's name
        self._default_value: Any = self._own_default if default_value is ITS_OWN else default_value
        # As in KNIME, a given validator *replaces* the built-in check of type and range.
        self._validator: Callable[[Any], object] = self._default_validator if validator is None else validator
        self.__doc__ = description if description is not None else ""
        self._since_version = Version.parse_version(since_version)
        self._is_advanced = is_advanced
        self._rule = None

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        if cast("str | None", self._label) is None:
            self._label = name

    def __str__(self) -> str:
        return f"\n\t - name: {getattr(self, '_name', self._label)}\n\t - label: {self._label}\n\t"

    @overload
    def __get__(self, obj: None, objtype: type | None = None) -> Self: ...
    @overload
    def __get__(self, obj: object, objtype: type | None = None) -> T: ...
    def __get__(self, obj: object | None, objtype: type | None = None) -> "Self | T":
        if obj is None:
            return self
        return cast("T", self._get_value(obj, self._name, False))

    def __set__(self, obj: object, value: T) -> None:
        self._set_value(obj, value, self._name)

    def validator(self, func: Callable[[T], object]) -> None:
        """Decorator for a check in place of the built-in one. As in KNIME, it leaves None as the name."""
        self._validator = func

    def _add_validator(self, func: Callable[[Any], object]) -> None:
        """Decorator for a function that checks values after the built-in check."""

        def both(value: Any) -> None:
            self._default_validator(value)
            func(value)

        self._validator = both

    def rule(self, condition: Condition, effect: Effect) -> Self:
        """Shows, hides, enables or disables the control while ``condition`` holds; returns the parameter."""
        self._rule = Rule(condition, effect)
        return self

    def _default_validator(self, value: Any) -> None: ...

    def _get_default(self, version: Version | None = None) -> Any:
        if callable(self._default_value):
            return self._default_value(extension_version() if version is None else version)
        return self._default_value

    def _get_value(self, obj: object, name: str, for_dialog: bool = False) -> Any:
        values = values_of(obj)
        if name not in values:
            values[name] = self._get_default()
        return values[name]

    def _set_value(self, obj: object, value: Any, name: str, exclude_validations: bool = False) -> None:
        if not (exclude_validations and self._skip_check_in_dialog):
            self._validate(value)
        values_of(obj)[name] = value

    #: True if dialogs load the value without a check, as for a path that may no longer exist.
    _skip_check_in_dialog = False

    def _to_dict(self, value: Any) -> Any:
        return value

    def _from_dict(self, value: Any) -> Any:
        return value

    def _extract_value(self, obj: object, name: str, for_dialog: bool = False) -> Any:
        return self._to_dict(self._get_value(obj, name, for_dialog))

    def _inject(
        self, obj: object, value: Any, name: str, version: Version, exclude_validations: bool = False
    ) -> None:
        self._set_value(obj, self._from_dict(value), name, exclude_validations)

    def _set_default_for_version(
        self, obj: object, name: str, version: Version, exclude_validations: bool = False
    ) -> None:
        self._set_value(obj, self._get_default(version), name, exclude_validations)

    def _validate(self, value: Any, version: Version | None = None) -> None:
        self._validator(value)

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        return {"title": self._label, "description": self._description(), **self._type}

    def _description(self) -> str:
        return self.__doc__ or ""

    def _extract_description(self, name: str, parent_scope: int) -> Any:
        return {"name": self._label, "description": self._description()}

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        return {"format": self._format}

    def _extract_ui_schema(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        options = self._get_options(dialog_creation_context)
        if self._is_advanced:
            options["isAdvanced"] = True
        return {"type": "Control", "label": self._label, "options": options}


def settings_of(obj: object) -> dict[str, Setting]:
    """The settings by attribute name, in the order of the dialog: those of the most derived class first."""
    found: dict[str, Setting] = {}
    for cls in type(obj).__mro__[:-1]:
        for name, value in cls.__dict__.items():
            if isinstance(value, Setting):
                found.setdefault(name, value)
    found.update({name: v for name, v in obj.__dict__.items() if isinstance(v, Setting)})
    return found


def with_list(text: str, heading: str, lines: list[str]) -> str:
    """A description with a bullet list below, indented like the description's lines."""
    margins = [len(line) - len(line.lstrip()) for line in text.expandtabs().splitlines()[1:] if line.strip()]
    indent = " " * min(margins, default=0)
    body = "".join(f"{indent}- {line}\n" for line in lines)
    return f"{text.expandtabs()}\n\n{indent}**{heading}:**\n\n{body}"
