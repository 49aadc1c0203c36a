"""Rules of a dialog: conditions on other settings (or on the dialog's context) and their effects."""

# Signatures are KNIME's, so not every argument is used.
# ruff: noqa: ARG002

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contexts import DialogCreationContext

FindScope = Callable[[Any], str]


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
        """See `Condition`."""
        choices = [{"const": value} for value in self._values]
        return {"scope": find_scope(self._subject), "schema": {"oneOf": choices}}


class Contains(Condition):
    """A condition that holds if the value of ``subject``, a list, contains ``value``."""

    def __init__(self, subject: Any, value: Any) -> None:
        self._subject = subject
        self._value = value

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        """See `Condition`."""
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
    """A condition and its effect."""

    condition: Condition
    effect: Effect
