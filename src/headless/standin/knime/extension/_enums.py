"""Parameters whose value is the name of an enumeration's member, or a list of such names."""

# Signatures are KNIME's, so not every argument is used.
# ruff: noqa: ARG002

import functools
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from ._base import TEXTS, Parameter, with_list
from .version import Version

if TYPE_CHECKING:
    from .contexts import DialogCreationContext

LOGGER = logging.getLogger("Python backend")


class EnumParameterOptions(Enum):
    """The base of enumerations of options: ``NAME = (label, description)``. The name is stored."""

    label: str
    description: str

    def __init__(self, label: str, description: str) -> None:
        self.label = label
        self.description = description

    @classmethod
    def get_all_options(cls) -> list[str]:
        """The names of all members."""
        return cls._member_names_


class _OnlyOption(EnumParameterOptions):
    DEFAULT_OPTION = ("Default", "There are no other options.")


def _listed(text: str, members: Sequence[EnumParameterOptions]) -> str:
    return with_list(text, "Available options", [f"{m.label}: {m.description}" for m in members])


def _options_of(enum: type[EnumParameterOptions] | None) -> type[EnumParameterOptions]:
    return enum if enum is not None and enum.get_all_options() else _OnlyOption


HiddenChoices = Callable[["DialogCreationContext | None"], Sequence[EnumParameterOptions]]


class EnumParameter(Parameter[str]):
    """The name of one member of ``enum``."""

    class Style(Enum):
        """The control for the choice in the dialog."""

        RADIO = "radio"
        VALUE_SWITCH = "valueSwitch"
        DROPDOWN = "string"

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: "str | EnumParameterOptions | Callable[[Version], str] | None" = None,
        enum: type[EnumParameterOptions] | None = None,
        validator: Callable[[str], object] | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
        style: "EnumParameter.Style | None" = None,
        hidden_choices: "HiddenChoices | None" = None,
    ) -> None:
        if validator is not None:
            raise AttributeError("KNIME's EnumParameter breaks on validator=; use @<parameter>.validator")
        self._enum = _options_of(enum)
        if self._enum is _OnlyOption:
            default_value = _OnlyOption.DEFAULT_OPTION.name
        elif default_value is None:
            raise AttributeError("KNIME's EnumParameter breaks without default_value; give a member's name")
        default_value = getattr(default_value, "name", default_value)
        self._style = style
        self._hidden = functools.lru_cache(maxsize=2)(hidden_choices) if hidden_choices else None
        super().__init__(label, description, default_value, None, since_version, is_advanced)

    def _default_validator(self, value: Any) -> None:
        if value not in self._enum.get_all_options():
            options = ", ".join(self._enum.get_all_options())
            raise ValueError(f"{value!r} is not an option of {self._label!r}; options: {options}")

    validator = Parameter[str]._add_validator

    def _visible(self, dialog_creation_context: "DialogCreationContext | None") -> list[EnumParameterOptions]:
        everything = list(self._enum)
        if self._hidden is None:
            return everything
        try:
            hidden = self._hidden(dialog_creation_context)
        except Exception as error:
            LOGGER.warning("hidden_choices of %s failed (%s): all options are shown", self._label, error)
            return everything
        if not isinstance(cast("Any", hidden), (list, tuple)):
            LOGGER.warning("hidden_choices of %s gave no list: all options are shown", self._label)
            return everything
        names = self._enum.get_all_options()
        known = [member for member in hidden if getattr(member, "name", None) in names]
        if len(known) < len(hidden):
            LOGGER.warning("hidden_choices of %s gave others than its options %s", self._label, names)
        if len(known) >= len(everything):  # as in KNIME, a duplicate counts twice
            LOGGER.warning("hidden_choices of %s hides all options", self._label)
            return []
        return [member for member in everything if member.name not in [own.name for own in known]]

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        visible = self._visible(dialog_creation_context)
        if visible and self._default_value and self._default_value not in [m.name for m in visible]:
            LOGGER.warning("the default %s of %s is hidden", self._default_value, self._label)
        one_of = [{"const": member.name, "title": member.label} for member in visible]
        return {"title": self._label, "description": _listed(self.__doc__ or "", visible), "oneOf": one_of}

    def _extract_description(self, name: str, parent_scope: int) -> Any:
        return {"name": self._label, "description": _listed(self.__doc__ or "", self._visible(None))}

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        if self._style is not None:
            return {"format": self._style.value}
        return {"format": "string" if len(self._enum) > 4 else "radio"}


class EnumSetParameter(Parameter[list[str]]):
    """The names of any number of members of ``enum``."""

    _type = TEXTS

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: list[str] | Callable[[Version], list[str]] | None = None,
        enum: type[EnumParameterOptions] | None = None,
        validator: Callable[[list[str]], object] | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
    ) -> None:
        self._enum = _options_of(enum)
        if default_value is None or self._enum is _OnlyOption:
            default_value = self._enum.get_all_options()
        super().__init__(label, description, default_value, None, since_version, is_advanced)
        if validator is not None:
            self._add_validator(validator)

    def _default_validator(self, value: Any) -> None:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} of {self._label!r} is not a list")
        unknown = set(cast("list[Any]", value)) - set(self._enum.get_all_options())
        if unknown:
            options = ", ".join(self._enum.get_all_options())
            raise ValueError(
                f"{sorted(map(str, unknown))} are not options of {self._label!r}; options: {options}"
            )

    validator = Parameter[list[str]]._add_validator

    def _description(self) -> str:
        return _listed(self.__doc__ or "", list(self._enum))

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        values = [{"id": member.name, "text": member.label} for member in self._enum]
        return {"format": "twinList", "possibleValues": values}
