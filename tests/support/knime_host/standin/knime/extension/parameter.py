"""The settings of a node as documents: values, JSON schema, dialog layout, descriptions."""

# Nodes import names of other modules from here, so not every import is used.
# ruff: noqa: F401
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING, Any

from . import _base
from ._base import (
    And,
    Condition,
    Contains,
    DialogContextCondition,
    Effect,
    OneOf,
    Or,
    Parameter,
    Rule,
    Setting,
    set_extension_version,
    settings_of,
)
from ._columns import (
    ColumnParameter,
    MultiColumnParameter,
)
from ._groups import LayoutDirection, ParameterArray, ParameterGroup, inject, parameter_group, validate
from ._values import (
    BoolParameter,
    DoubleParameter,
    EnumParameter,
    EnumParameterOptions,
    EnumSetParameter,
    IntParameter,
    LocalPathParameter,
    MultilineStringParameter,
    StringParameter,
)
from .version import Version

if TYPE_CHECKING:
    from .contexts import DialogCreationContext


# pyright: reportPrivateUsage=false
# This module and the parameter classes are one implementation in several files.


def __getattr__(name: str) -> Any:
    if name == "_extension_version":  # KNIME's name; extensions read it while a node runs
        return _base._extension_version
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def extract_parameters(obj: object, for_dialog: bool = False) -> dict[str, Any]:
    """The values of all settings as the JSON document that KNIME saves."""
    settings = settings_of(obj)
    return {
        "model": {name: setting._extract_value(obj, name, for_dialog) for name, setting in settings.items()}
    }


def inject_parameters(
    obj: object,
    parameters: dict[str, Any],
    parameters_version: str | None = None,
    exclude_validations: bool = False,
) -> None:
    """Loads a saved document; ``parameters_version`` is the extension's version that saved it."""
    inject(obj, parameters["model"], Version.parse_version(parameters_version), exclude_validations)


def validate_parameters(obj: object, parameters: dict[str, Any], saved_version: str | None = None) -> None:
    validate(obj, parameters["model"], Version.parse_version(saved_version))


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
    known = {n: s for n, s in settings_of(obj).items() if s._since_version <= version}
    properties = {n: s._extract_schema(version, dialog_creation_context) for n, s in known.items()}
    return {"type": "object", "properties": {"model": {"type": "object", "properties": properties}}}


def extract_ui_schema(obj: object, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
    return _Layout(obj, dialog_creation_context).document()


def extract_parameter_descriptions(obj: object) -> tuple[list[dict[str, Any]], bool]:
    """The descriptions of all settings, and whether they are in tabs, as they are if there is a group."""
    settings = settings_of(obj)
    described = [setting._extract_description(name, 0) for name, setting in settings.items()]
    if not any(isinstance(setting, ParameterGroup) for setting in settings.values()):
        return described, False
    tabs = [entry for entry in described if "options" in entry]
    loose = [entry for entry in described if "options" not in entry]
    if loose:
        # As KNIME's dialog does: settings outside of groups get a tab of their own, which is the first.
        tabs.insert(0, {"name": "Options", "description": "", "options": loose})
    return tabs, True


_ROOT = "#/properties/model/properties"


class _Layout:
    def __init__(self, root: object, ctx: "DialogCreationContext") -> None:
        self._root = root
        self._ctx = ctx

    def document(self) -> dict[str, Any]:
        return {"type": "VerticalLayout", "elements": self._elements(self._root, _ROOT)}

    def _elements(self, owner: object, scope: str) -> list[dict[str, Any]]:
        return [self._element(setting, f"{scope}/{name}") for name, setting in settings_of(owner).items()]

    def _element(self, setting: Setting, scope: str) -> dict[str, Any]:
        if isinstance(setting, ParameterGroup):
            inner = self._elements(setting, f"{scope}/properties")
            element: dict[str, Any] = {
                "type": "Section",
                "label": setting._label,
                "options": {"isAdvanced": True} if setting._is_advanced else {},
                "elements": [{"type": setting._layout_direction, "elements": inner}],
            }
        elif isinstance(setting, ParameterArray):
            control: dict[str, Any] = {"scope": scope, **setting._extract_ui_schema(self._ctx)}
            element = {"type": "Section", "label": setting._label, "elements": [control]}
            if setting._is_advanced:
                element["options"] = {"isAdvanced": True}
        else:
            assert isinstance(setting, Parameter)
            element = {"scope": scope, **setting._extract_ui_schema(self._ctx)}
        if setting._rule is not None:
            condition = setting._rule.condition.to_dict(self._scope_of, self._ctx)
            element["rule"] = {"effect": setting._rule.effect.value, "condition": condition}
        return element

    def _scope_of(self, subject: object) -> str:
        # From the root, as a rule may be about a setting of another group.
        found = self._search(self._root, subject, _ROOT)
        if found is None:
            raise ValueError(f"the subject of a rule is not a setting of this node: {subject}")
        return found

    def _search(self, owner: object, subject: object, scope: str) -> str | None:
        for name, setting in settings_of(owner).items():
            if setting is subject:
                return f"{scope}/{name}"
            if isinstance(setting, ParameterGroup):
                found = self._search(setting, subject, f"{scope}/{name}/properties")
                if found is not None:
                    return found
        return None
