"""Merges the flow variables of several inputs, and converts variables. Without side effects.

The rules are those of KNIME's ``FlowObjectStack``: the first connected input has priority over all others
(this is the flow variable port, if it is connected), and later inputs have priority over earlier ones.
Variables that a node makes have priority over those that arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ...knwf.workflow_model import VariableType
from .errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...knwf import WorkflowVariable

VariableKind = VariableType | Literal["CREDENTIALS"]
#: The type of an array, by the type of its elements.
ARRAYS: Final[Mapping[VariableType, VariableType]] = {
    "STRING": "STRINGARRAY",
    "INTEGER": "INTARRAY",
    "LONG": "LONGARRAY",
    "DOUBLE": "DOUBLEARRAY",
    "BOOLEAN": "BOOLEANARRAY",
}
#: The type of the elements, by the type of an array.
ELEMENTS: Final[Mapping[str, VariableType]] = {array: element for element, array in ARRAYS.items()}
_INT_RANGE: Final = range(-(1 << 31), 1 << 31)
_LONG_RANGE: Final = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class CredentialValue:
    """A user name and password, the value of a flow variable for credentials."""

    login: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FlowVariable:
    """A flow variable. The value of an array is a tuple."""

    name: str
    kind: VariableKind
    value: Any


#: Variables from bottom to top. If two have the same name, the upper one counts.
Stack = tuple[FlowVariable, ...]


def merged(stacks: Sequence[Stack]) -> Stack:
    """Merges the stacks of a node's connected inputs, of which the flow variable port is the first."""
    found: dict[FlowVariable, None] = {}
    for stack in (*stacks[1:], *stacks[:1]):
        for variable in stack:
            found.pop(variable, None)  # so that it moves to the top
            found[variable] = None
    return tuple(found)


def available(stack: Stack) -> dict[str, FlowVariable]:
    """The variables of a stack by name, the topmost first."""
    found: dict[str, FlowVariable] = {}
    for variable in reversed(stack):
        found.setdefault(variable.name, variable)
    return found


def workflow_stack(variables: Iterable[WorkflowVariable]) -> Stack:
    """The stack of a workflow's own variables, which nodes without inputs get."""
    return tuple(FlowVariable(own.name, own.type, own.value) for own in variables)


def python_values(stack: Stack) -> dict[str, Any]:
    """The variables for a Python node, without credentials, and with arrays as lists."""
    return {
        name: list(cast("tuple[Any, ...]", own.value)) if own.kind in ELEMENTS else own.value
        for name, own in available(stack).items()
        if own.kind != "CREDENTIALS"
    }


def credentials(stack: Stack) -> dict[str, CredentialValue]:
    """The credentials among the variables, by name."""
    return {name: own.value for name, own in available(stack).items() if own.kind == "CREDENTIALS"}


def pushed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Stack:
    """The variables that a Python node made or changed.

    Args:
        before: The node's variables before the run, from `python_values`.
        after: The node's variables after the run.

    Raises:
        RunError: a number is out of KNIME's range.
    """
    return tuple(
        FlowVariable(name, kind_of(name, value), tuple(value) if isinstance(value, list) else value)  # pyright: ignore[reportUnknownArgumentType]
        for name, value in after.items()
        if name not in before or type(before[name]) is not type(value) or before[name] != value
    )


def kind_of(name: str, value: Any) -> VariableType:
    """KNIME's type of a Python value, or of the values of a list.

    Raises:
        RunError: a number is out of KNIME's range, or the value cannot be a flow variable.
    """
    is_array = isinstance(value, list | tuple)
    elements = cast("list[Any]", value) if is_array else [value]
    kind: VariableType
    if all(isinstance(element, bool) for element in elements):
        kind = "BOOLEAN"
    elif all(isinstance(element, int) and not isinstance(element, bool) for element in elements):
        if not all(element in _LONG_RANGE for element in elements):
            raise RunError(f"The flow variable '{name}' is a number that is too large for KNIME")
        kind = "INTEGER" if all(element in _INT_RANGE for element in elements) else "LONG"
    elif all(isinstance(element, float) for element in elements):
        kind = "DOUBLE"
    elif all(isinstance(element, str) for element in elements):
        kind = "STRING"
    else:
        raise RunError(f"KNIME has no flow variables like '{name}', of type {type(elements[0]).__name__}")
    return ARRAYS[kind] if is_array else kind


def parsed(name: str, kind: VariableKind, text: str) -> Any:
    """The value of a variable from a text on the command line.

    Args:
        name: The name of the variable, for messages.
        kind: The type of the variable. Lists are written with commas.
        text: The text.

    Raises:
        RunError: the text is not a value of this type.
    """
    if kind in ELEMENTS:
        scalar = ELEMENTS[kind]
        return tuple(parsed(name, scalar, part) for part in text.split(",")) if text else ()
    try:
        match kind:
            case "BOOLEAN":
                return {"true": True, "false": False}[text.strip().lower()]
            case "INTEGER" | "LONG":
                number = int(text)
                if number not in (_INT_RANGE if kind == "INTEGER" else _LONG_RANGE):
                    raise ValueError
                return number
            case "DOUBLE":
                return float(text)
            case _:
                return text
    except (ValueError, KeyError):
        wanted = {"BOOLEAN": "true or false", "DOUBLE": "a number"}.get(kind, "a whole number")
        raise RunError(f"'{name}' is '{text}', but it has to be {wanted}") from None
