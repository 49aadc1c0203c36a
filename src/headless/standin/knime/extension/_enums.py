"""Parameters whose values are names of an enumeration's members: one of them, or several."""

# Signatures are KNIME's, so not every argument is used.
# ruff: noqa: ARG002

import functools
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from ._base import Parameter, with_list
from .version import Version

if TYPE_CHECKING:
    from .contexts import DialogCreationContext

LOGGER = logging.getLogger("Python backend")


class EnumParameterOptions(Enum):
    """Base of an enumeration of options: ``NAME = (label, description)``; the name is what is stored."""

    label: str
    description: str

    def __init__(self, label: str, description: str) -> None:
        self.label = label
        self.description = description

    @classmethod
    def get_all_options(cls) -> list[str]:
        """The names of all members."""
        return [member.name for member in cls]


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
        """How the choice looks in the dialog."""

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
        elif isinstance(default_value, EnumParameterOptions):
            default_value = default_value.name
        self._style = style
        self._hidden = functools.lru_cache(maxsize=2)(hidden_choices) if hidden_choices else None
        super().__init__(label, description, default_value, None, since_version, is_advanced)

    def _check(self, value: Any) -> None:
        if value not in self._enum.get_all_options():
            options = ", ".join(self._enum.get_all_options())
            raise ValueError(f"{value!r} is no option of {self._label!r}; options: {options}")

    def validator(self, func: Callable[[str], object]) -> None:
        """Decorator: an additional check; the name must be an option's in any case."""

        def both(value: str) -> None:
            self._check(value)
            func(value)

        self._validator = both

    def _visible(self, ctx: "DialogCreationContext | None") -> list[EnumParameterOptions]:
        everything = list(self._enum)
        if self._hidden is None:
            return everything
        try:
            hidden = self._hidden(ctx)
        except Exception as error:
            LOGGER.warning("hidden_choices of %s failed (%s): all options are shown", self._label, error)
            return everything
        if not isinstance(cast("Any", hidden), (list, tuple)):
            LOGGER.warning("hidden_choices of %s gave no list: all options are shown", self._label)
            return everything
        strangers = [member for member in hidden if member not in everything]
        if strangers:
            LOGGER.warning("hidden_choices of %s gave unknown members %s", self._label, strangers)
        visible = [member for member in everything if member not in hidden]
        if not visible:
            LOGGER.warning("hidden_choices of %s hides all options", self._label)
        return visible

    def _schema(self, version: Version, ctx: "DialogCreationContext | None") -> dict[str, Any]:
        visible = self._visible(ctx)
        if visible and self._default_value not in [m.name for m in visible]:
            LOGGER.warning("the default %s of %s is hidden", self._default_value, self._label)
        one_of = [{"const": member.name, "title": member.label} for member in visible]
        return {"title": self._label, "description": _listed(self.__doc__ or "", visible), "oneOf": one_of}

    def _describe(self, level: int) -> Any:
        return {"name": self._label, "description": _listed(self.__doc__ or "", self._visible(None))}

    def _options(self, ctx: "DialogCreationContext") -> dict[str, Any]:
        if self._style is not None:
            return {"format": self._style.value}
        return {"format": "string" if len(self._enum) > 4 else "radio"}


class EnumSetParameter(Parameter[list[str]]):
    """The names of any number of members of ``enum``."""

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
            self.validator(validator)

    def _check(self, value: Any) -> None:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} of {self._label!r} is no list")
        unknown = sorted(set(cast("list[str]", value)) - set(self._enum.get_all_options()))
        if unknown:
            options = ", ".join(self._enum.get_all_options())
            raise ValueError(f"{unknown} are no options of {self._label!r}; options: {options}")

    def validator(self, func: Callable[[list[str]], object]) -> None:
        """Decorator: an additional check; all names must be options' in any case."""

        def both(value: list[str]) -> None:
            self._check(value)
            func(value)

        self._validator = both

    def _description(self, ctx: "DialogCreationContext | None") -> str:
        return _listed(self.__doc__ or "", list(self._enum))

    def _schema(self, version: Version, ctx: "DialogCreationContext | None") -> dict[str, Any]:
        return {**super()._schema(version, ctx), "type": "array", "items": {"type": "string"}}

    def _options(self, ctx: "DialogCreationContext") -> dict[str, Any]:
        values = [{"id": member.name, "text": member.label} for member in self._enum]
        return {"format": "twinList", "possibleValues": values}
