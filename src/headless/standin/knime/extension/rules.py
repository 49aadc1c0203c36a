"""Rules of a dialog: conditions on other settings (or on the dialog's context) and what they cause."""

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
    """Something that holds or not while a dialog is open."""

    @abstractmethod
    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        """The condition as JSON Forms writes it; ``find_scope`` gives the path of a setting."""


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
    """Holds when all its conditions hold."""

    kind = "AND"


class Or(_Combined):
    """Holds when one of its conditions holds."""

    kind = "OR"


class OneOf(Condition):
    """Holds when the value of ``subject`` equals one of ``values``."""

    def __init__(self, subject: Any, values: Sequence[Any]) -> None:
        self._subject = subject
        self._values = values

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        """See `Condition`."""
        choices = [{"const": value} for value in self._values]
        return {"scope": find_scope(self._subject), "schema": {"oneOf": choices}}


class Contains(Condition):
    """Holds when the list that is the value of ``subject`` contains ``value``."""

    def __init__(self, subject: Any, value: Any) -> None:
        self._subject = subject
        self._value = value

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        """See `Condition`."""
        return {"scope": find_scope(self._subject), "schema": {"contains": {"const": self._value}}}


class DialogContextCondition(Condition):
    """Holds when ``ctx_predicate`` does for the dialog's context; asked once, when the dialog opens."""

    def __init__(self, ctx_predicate: "Callable[[DialogCreationContext], bool]") -> None:
        self._predicate = ctx_predicate

    def to_dict(self, find_scope: FindScope, ctx: "DialogCreationContext") -> dict[str, Any]:
        """See `Condition`: the whole document is an object, so asking for one is always true."""
        return {"scope": "#", "schema": {"type": ["object" if self._predicate(ctx) else "null"]}}


class Effect(Enum):
    """What happens to a control while its condition holds."""

    SHOW = "SHOW"
    HIDE = "HIDE"
    ENABLE = "ENABLE"
    DISABLE = "DISABLE"


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition and its effect."""

    condition: Condition
    effect: Effect
