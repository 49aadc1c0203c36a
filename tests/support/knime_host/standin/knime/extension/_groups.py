"""Groups of settings, and arrays of groups.

A group is declared once and instantiated as a class attribute. Reading the attribute returns a light copy
that is bound to the node's dictionary of values, so that two nodes never share values.
"""

# Signatures are KNIME's, so not every argument is used; groups use private methods of settings.
# pyright: reportPrivateUsage=false

import copy
import inspect
import logging
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from ._base import Condition, Effect, Parameter, Rule, Setting, settings_of, values_of, with_list
from .version import Version

if TYPE_CHECKING:
    from .contexts import DialogCreationContext

LOGGER = logging.getLogger("Python backend")
G = TypeVar("G")

_RESERVED = {"since_version", "is_advanced", "validator"}


class LayoutDirection(Enum):
    """The layout of the settings in a group or array."""

    VERTICAL = "VerticalLayout"
    HORIZONTAL = "HorizontalLayout"


def inject(obj: object, values: dict[str, Any], version: Version, exclude_validations: bool = False) -> None:
    """Loads saved values. Settings that are newer than ``version`` get their default for that version."""
    # KNIME's hook for documents of earlier versions: it sees them before any setting does.
    modify = getattr(obj, "_modify_parameters", None)
    if modify is not None:
        values = modify(values)
    for name, setting in settings_of(obj).items():
        if name in values:
            setting._inject(obj, values[name], name, version, exclude_validations)
        # A setting that the saved version should have had is missing, which `validate` reports.
        elif setting._since_version > version:
            setting._set_default_for_version(obj, name, version, exclude_validations)


def validate(obj: object, values: dict[str, Any], version: Version) -> None:
    """Checks saved values, before `inject` may change them."""
    for name, setting in settings_of(obj).items():
        if setting._since_version <= version:
            if name not in values:
                raise ValueError(f'Parameter missing for key "{name}".')
            setting._validate(values[name], version)


class ParameterGroup(Setting):
    """The base class that `parameter_group` adds to a class.

    As in KNIME, a group that another group makes in its __init__ has one set of values for all nodes of a
    class.
    """

    _validator: Callable[[dict[str, Any]], object] | None
    _own_validate: bool
    _layout_direction: str
    _name: str

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __str__(self) -> str:
        return f"\tGroup name: {getattr(self, '_name', self._label)}\n\tGroup label: {self._label}"

    def __get__(self, obj: object, objtype: type | None = None) -> Self:
        assert hasattr(self, "_name"), "a parameter group belongs into the body of a class"
        if obj is None:
            raise AttributeError("a parameter group is only there on an instance")
        return self._get_param_holder(obj)

    def __set__(self, obj: object, value: Any) -> None:
        error = AttributeError if isinstance(obj, ParameterGroup) else RuntimeError
        raise error("a parameter group cannot be replaced; set its parameters")

    # Parameters that a group makes in its __init__ are not descriptors, but behave like them.
    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if isinstance(found, Parameter):
            return found._get_value(self, name, False)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__.get(name)
        if isinstance(own, Parameter):
            own._set_value(self, value, name)
        else:
            super().__setattr__(name, value)

    def _get_param_holder(self, obj: object) -> Self:
        if not hasattr(self, "_name"):  # made in an __init__, so it has its own values
            return self
        values = values_of(obj).setdefault(self._name, copy.deepcopy(values_of(self)))
        # As the memo of the copy, so that the settings themselves are shared and only the values are new.
        shared = {id(own): own for own in self.__dict__.values() if isinstance(own, (Setting, Rule))}
        bound = copy.deepcopy(self, shared)
        bound.__dict__["__parameters__"] = values
        return bound

    def validator(self, override: Any = None) -> Any:
        """Decorator for a function that checks the values, instead of or after the ``validate`` method."""
        if not isinstance(override, bool):
            self._validator = override
            self._own_validate = False
            return None

        def decorate(func: Callable[[dict[str, Any]], object]) -> None:
            self._validator = func
            self._own_validate = not override

        return decorate

    def _extract_value(self, obj: object, name: str, for_dialog: bool = False) -> Any:
        bound = self._get_param_holder(obj)
        return {
            key: setting._extract_value(bound, key, for_dialog) for key, setting in settings_of(bound).items()
        }

    def _inject(
        self, obj: object, value: Any, name: str, version: Version, exclude_validations: bool = False
    ) -> None:
        inject(self._get_param_holder(obj), value, version, exclude_validations)

    def _set_default_for_version(
        self, obj: object, name: str, version: Version, exclude_validations: bool = False
    ) -> None:
        bound = self._get_param_holder(obj)
        for key, setting in settings_of(bound).items():
            setting._set_default_for_version(bound, key, version, exclude_validations)

    def _validate(self, value: Any, version: Version | None = None) -> None:
        validate(self, value, version or Version(0, 0, 0))
        own = getattr(self, "validate", None)
        if own is not None and self._own_validate:
            own(value)
        if self._validator is not None:
            self._validator(value)

    def _validate_specs(self, specs: list[Any]) -> None:
        for setting in settings_of(self).values():
            setting._validate_specs(specs)

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        known = {n: s for n, s in settings_of(self).items() if s._since_version <= extension_version}
        return {
            "type": "object",
            "properties": {
                n: s._extract_schema(extension_version, dialog_creation_context) for n, s in known.items()
            },
        }

    def _extract_description(self, name: str, parent_scope: int) -> Any:
        options: list[Any] = []
        for key, setting in settings_of(self).items():
            found = setting._extract_description(key, parent_scope + 1)
            options.extend(cast("list[Any]", found) if isinstance(found, list) else [found])
        return (
            {"name": self._label, "description": self.__doc__, "options": options}
            if parent_scope == 0
            else options
        )


def _rule(self: G, condition: Condition, effect: Effect) -> G:
    """Shows, hides, enables or disables the group while ``condition`` holds; returns the group."""
    cast("ParameterGroup", self)._rule = Rule(condition, effect)
    return self


def parameter_group(
    label: str,
    since_version: Version | str | None = None,
    is_advanced: bool = False,
    layout_direction: LayoutDirection = LayoutDirection.VERTICAL,
) -> Callable[[type[G]], type[G]]:
    """Decorator that makes a class a group of settings, to be instantiated in the body of a node's class."""

    def decorate(cls: type[G]) -> type[G]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            # The decorator takes these away from the arguments, so the class would never get them.
            if _RESERVED & set(inspect.signature(cls.__init__).parameters):
                raise SyntaxError(
                    f"the __init__ of a parameter group must not use the names {sorted(_RESERVED)}"
                )
            self._since_version = Version.parse_version(kwargs.pop("since_version", since_version))
            self._is_advanced = kwargs.pop("is_advanced", is_advanced)
            self._validator = kwargs.pop("validator", None)
            self._own_validate = True
            self._rule = None
            self._label = label
            self._layout_direction = layout_direction.value
            self.__dict__["__parameters__"] = {}
            self.__doc__ = cls.__doc__
            cls.__init__(self, *args, **kwargs)

        body: dict[str, Any] = {
            "__init__": __init__,
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
        }
        if hasattr(cls, "rule"):
            LOGGER.warning("the group %s has something called rule, so it can have no rule", cls.__name__)
        else:
            body["rule"] = _rule
        return cast("type[G]", type(cls.__name__, (ParameterGroup, cls), body))

    return decorate


def _is_nested(setting: Setting) -> bool:
    return isinstance(setting, (ParameterGroup, ParameterArray))


class ParameterArray(Parameter[list[G]]):
    """A list of items, each with the settings of one group, which must not contain groups or arrays."""

    def __init__(
        self,
        parameters: G,
        label: str | None = None,
        description: str | None = None,
        validator: Callable[[list[dict[str, Any]]], object] | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
        allow_reorder: bool = True,
        layout_direction: LayoutDirection = LayoutDirection.VERTICAL,
        button_text: str | None = None,
        array_title: str | None = None,
    ) -> None:
        self._parameters: Any = parameters
        self._allow_reorder = allow_reorder
        self._layout_direction = layout_direction
        self._button_text = button_text
        self._array_title = array_title or "Group"
        super().__init__(label, description, None, None, since_version, is_advanced)
        if validator is not None:
            self._add_validator(validator)

    validator = Parameter[Any]._add_validator

    def _default_validator(self, value: Any) -> None:
        if any(map(_is_nested, self._members().values())):
            raise ValueError("the items of a ParameterArray cannot hold groups or arrays")

    def _members(self) -> dict[str, Any]:
        return settings_of(self._parameters._get_param_holder(self._parameters))

    def __get__(self, obj: Any, objtype: type | None = None) -> Any:
        if obj is None:
            return self
        return [self._item(value) for value in self._get_value(obj, self._name, False)]

    def _item(self, value: dict[str, Any]) -> Any:
        item = type(self._parameters)()
        for name, entry in value.items():
            setattr(item, name, entry)
        return item

    def _get_value(self, obj: object, name: str, for_dialog: bool = False) -> Any:
        value = super()._get_value(obj, name, for_dialog)
        return [] if value is None else value

    def _to_dict(self, value: Any) -> Any:
        members = self._members()
        return [{n: p._to_dict(item[n]) for n, p in members.items() if n in item} for item in value]

    def _from_dict(self, value: Any) -> Any:
        for name, parameter in self._members().items():
            for item in value:
                if name in item:
                    item[name] = parameter._from_dict(item[name])
        return value

    def _inject(
        self, obj: object, value: Any, name: str, version: Version, exclude_validations: bool = False
    ) -> None:
        if value is None:
            value = [{n: p._to_dict(p._get_default()) for n, p in self._members().items()}]
        super()._inject(obj, value, name, version, exclude_validations)

    def _extract_description(self, name: str, parent_scope: int) -> Any:
        inner = [own._extract_description(key, parent_scope) for key, own in self._members().items()]
        lines = [f"{entry['name']} : {entry['description']}" for entry in inner]
        return {"name": self._label, "description": with_list(self.__doc__ or "", self._array_title, lines)}

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        members = {n: p for n, p in self._members().items() if not _is_nested(p)}
        inner = {
            n: {
                **p._extract_schema(extension_version, dialog_creation_context),
                "default": p._to_dict(p._get_default()),
            }
            for n, p in members.items()
        }
        return {
            **super()._extract_schema(extension_version, dialog_creation_context),
            "type": "array",
            "items": {"type": "object", "properties": inner},
        }

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        elements = [
            {"scope": f"#/properties/{n}", **p._extract_ui_schema(dialog_creation_context)}
            for n, p in self._members().items()
        ]
        options: dict[str, Any] = {
            "addButtonText": self._button_text,
            "detail": {"layout": {"type": self._layout_direction.value, "elements": elements}},
            "arrayElementTitle": self._array_title,
        }
        if self._allow_reorder:
            options["showSortButtons"] = True
        return options
