"""Parameters with one value: numbers, booleans, texts, paths, members of an enumeration, dates."""

# Signatures are KNIME's, so not every argument is used.

import functools
import logging
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from ._base import ITS_OWN, TEXTS, Parameter, with_list
from .version import Version

if TYPE_CHECKING:
    from .contexts import DialogCreationContext

LOGGER = logging.getLogger("Python backend")
N = TypeVar("N", int, float)


class _NumericParameter(Parameter[N]):
    _kind: ClassVar[type]
    _own_default = 0

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: N | Callable[[Version], N] = ITS_OWN,
        validator: Callable[[N], object] | None = None,
        min_value: N | None = None,
        max_value: N | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
    ) -> None:
        self.min_value = min_value
        self.max_value = max_value
        super().__init__(label, description, default_value, validator, since_version, is_advanced)

    def check_type(self, value: Any) -> None:
        """Raises TypeError unless the value is a number of the right kind."""
        if not isinstance(value, self._kind):
            raise TypeError(f"{value!r} is of type {type(value).__name__}, not {self._type['type']}")

    def check_range(self, value: Any) -> None:
        """Raises ValueError unless the value is within the limits."""
        if self.min_value is not None and value < self.min_value:
            raise ValueError(f"{value} is below the smallest allowed value {self.min_value}")
        if self.max_value is not None and value > self.max_value:
            raise ValueError(f"{value} is above the largest allowed value {self.max_value}")

    def _default_validator(self, value: Any) -> None:
        self.check_type(value)
        self.check_range(value)

    def _limits(self) -> dict[str, Any]:
        limits: dict[str, Any] = {}
        for key, bound, word in (("min", self.min_value, "least"), ("max", self.max_value, "most")):
            if bound is not None:
                limits[key] = {
                    "parameters": {key: bound, "isExclusive": False},
                    "errorMessage": f"The value must be at {word} {bound}.",
                }
        return limits

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        limits = self._limits()
        return {"format": self._format, **({"validation": limits} if limits else {})}


class IntParameter(_NumericParameter[int]):
    """A whole number of 32 bits. As in KNIME, ``True`` counts as one."""

    _kind = int
    _type: ClassVar[dict[str, Any]] = {"type": "integer", "format": "int32"}
    _format = "integer"


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

    def _default_validator(self, value: Any) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"{value!r} is not a boolean")


def _check_text(value: Any) -> None:
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


class StringParameter(Parameter[str]):
    """A text; with ``enum`` or ``choices``, an entry of a list, against which loading does not check it."""

    Choice = Choice

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: str | Callable[[Version], str] = "",
        enum: list[str] | None = None,
        validator: Callable[[str], object] | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
        choices: "Callable[[DialogCreationContext], Choices] | Choices | None" = None,
    ) -> None:
        if enum is not None and not isinstance(cast("Any", enum), list):
            raise TypeError("enum must be a list")
        if enum and choices:
            raise ValueError("give either enum or choices, not both")
        self._dynamic: Callable[[Any], Choices] | None = None
        self._static: list[Choice] | None = (
            [Choice(entry, entry) for entry in enum] if enum is not None else None
        )
        if callable(choices):
            # As in KNIME: asked for once when a dialog opens, whose documents need them several times.
            self._dynamic = functools.lru_cache(maxsize=1)(choices)
        elif choices is not None:
            self._static = _as_choices(choices)
        super().__init__(label, description, default_value, validator, since_version, is_advanced)
        if self._static and not self._default_value:
            self._default_value = self._static[0].id

    def _default_validator(self, value: Any) -> None:
        _check_text(value)

    def _known_choices(self, dialog_creation_context: "DialogCreationContext | None") -> list[Choice] | None:
        if self._dynamic is None or dialog_creation_context is None:
            return self._static
        found = _as_choices(self._dynamic(dialog_creation_context))
        if found and not self._default_value:
            # As in KNIME, opening one dialog changes the default of the whole class.
            self._default_value = found[0].id
        return found

    def _described(self, choices: list[Choice] | None) -> str:
        text = self.__doc__ or ""
        if not choices or not any(choice.description.strip() for choice in choices):
            return text
        lines = [f"{c.label}: {c.description.strip()}" if c.description.strip() else c.label for c in choices]
        return with_list(text, "Available options", lines)

    def _extract_schema(
        self, extension_version: Any = None, dialog_creation_context: "DialogCreationContext | None" = None
    ) -> dict[str, Any]:
        schema = super()._extract_schema(extension_version, dialog_creation_context)
        choices = self._known_choices(dialog_creation_context)
        if not choices:
            return {**schema, "type": "string"}
        one_of = [{"const": choice.id, "title": choice.label} for choice in choices]
        return {**schema, "oneOf": one_of, "description": self._described(choices)}

    def _extract_description(self, name: str, parent_scope: int) -> Any:
        return {"name": self._label, "description": self._described(self._known_choices(None))}

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        if self._known_choices(dialog_creation_context) == []:
            return {"format": "dropDown", "placeholder": "No values present"}
        return {"format": "string"}


class LocalPathParameter(StringParameter):
    """The path of an existing file or folder, or an empty text."""

    _skip_check_in_dialog = True

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        placeholder_text: str = "",
        validator: Callable[[str], object] | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
    ) -> None:
        super().__init__(
            label, description, validator=validator, since_version=since_version, is_advanced=is_advanced
        )
        self.placeholder_text = placeholder_text

    def _default_validator(self, value: Any) -> None:
        if not value:
            return
        _check_text(value)
        if not Path(value).exists():
            raise ValueError(f"there is no file or folder {value}")

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        return {"format": "stringFileChooser", "fileSystem": "LOCAL", "placeholder": self.placeholder_text}


class MultilineStringParameter(Parameter[str]):
    _type: ClassVar[dict[str, Any]] = {"type": "string"}

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: str | Callable[[Version], str] = "",
        validator: Callable[[str], object] | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
        number_of_lines: int = 3,
    ) -> None:
        if not isinstance(cast("Any", number_of_lines), int):
            raise TypeError("number_of_lines must be a whole number")
        if number_of_lines <= 0:
            raise ValueError("number_of_lines must be positive")
        self._number_of_lines = number_of_lines
        super().__init__(label, description, default_value, validator, since_version, is_advanced)

    def _default_validator(self, value: Any) -> None:
        _check_text(value)

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
