"""Flow variables: merges those of several inputs, converts them, and sets settings with them. Pure.

The rules are those of KNIME's ``FlowObjectStack``: the first connected input has priority over all others
(this is the flow variable port, if it is connected), and later inputs have priority over earlier ones.
Variables that a node makes have priority over those that arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ...knwf import Config, KnwfError, SettingsEntry
from ...knwf.json_parameters import ENTRY_TYPES
from ...knwf.settings_xml import array, array_values
from ...knwf.workflow_model import ARRAYS, VARIABLE_ENTRIES, VariableType
from ..node_results import CredentialValue
from .node_kind import WorkflowError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...knwf import VariableControl, WorkflowVariable
    from ...knwf.settings_xml import EntryType


VariableKind = VariableType | Literal["CREDENTIALS"]
#: The type of the elements, by the type of an array.
ELEMENTS: Final[Mapping[str, VariableType]] = {array: element for element, array in ARRAYS.items()}
_INT_RANGE: Final = range(-(1 << 31), 1 << 31)
_LONG_RANGE: Final = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class FlowVariable:
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
    return {name: own.value for name, own in available(stack).items() if own.kind == "CREDENTIALS"}


def pushed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Stack:
    """The variables that a Python node made or changed; both arguments are `python_values`."""
    return tuple(
        FlowVariable(name, kind_of(name, value), tuple(value) if isinstance(value, list) else value)  # pyright: ignore[reportUnknownArgumentType]
        for name, value in after.items()
        if name not in before or type(before[name]) is not type(value) or before[name] != value
    )


def kind_of(name: str, value: Any) -> VariableType:
    """KNIME's type of a Python value, or of the values of a list; WorkflowError if KNIME has none."""
    is_array = isinstance(value, list | tuple)
    elements = cast("list[Any]", value) if is_array else [value]
    kind: VariableType
    # Before the numbers, as `bool` is an `int` for Python.
    if all(isinstance(element, bool) for element in elements):
        kind = "BOOLEAN"
    elif all(isinstance(element, int) and not isinstance(element, bool) for element in elements):
        if not all(element in _LONG_RANGE for element in elements):
            raise WorkflowError(f"The flow variable '{name}' is a number that is too large for KNIME")
        kind = "INTEGER" if all(element in _INT_RANGE for element in elements) else "LONG"
    elif all(isinstance(element, float) for element in elements):
        kind = "DOUBLE"
    elif all(isinstance(element, str) for element in elements):
        kind = "STRING"
    else:
        raise WorkflowError(
            f"KNIME has no flow variables like '{name}', of type {type(elements[0]).__name__}"
        )
    return ARRAYS[kind] if is_array else kind


def parsed(name: str, kind: VariableKind, text: str) -> Any:
    """A variable's value from a text of the command line, lists with commas; else `WorkflowError`."""
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
        raise WorkflowError(f"'{name}' is '{text}', but it has to be {wanted}") from None


# Settings that flow variables replace. KNIME's ``VariableType`` defines which variables can replace which
# settings: a text replaces texts and, if it is "true" or "false", booleans; a whole number replaces numbers
# and texts; and so on. A setting keeps its type.
_TEXTS: Final = ("xstring", "xtransientstring")
_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "STRING": ("xboolean", "xchar", *_TEXTS),
    "BOOLEAN": ("xboolean", *_TEXTS),
    "INTEGER": ("xbyte", "xshort", "xint", "xlong", "xfloat", "xdouble", *_TEXTS),
    "LONG": ("xlong", "xfloat", "xdouble", *_TEXTS),
    "DOUBLE": ("xfloat", "xdouble", *_TEXTS),
}
#: Types of settings, by KNIME's kinds of parameters that are arrays.
_ARRAY_TYPES: Final[Mapping[str, EntryType]] = {f"{kind}_ARRAY": entry for kind, entry in ENTRY_TYPES.items()}
_EXPOSED: Final[Mapping[str, VariableType]] = {
    **{entry: kind for kind, entry in VARIABLE_ENTRIES.items()},
    "xbyte": "INTEGER",
    "xshort": "INTEGER",
    "xfloat": "DOUBLE",
    "xchar": "STRING",
    "xtransientstring": "STRING",
}


def controlled(
    model: Config, controls: Sequence[VariableControl], variables: Mapping[str, FlowVariable]
) -> tuple[Config, tuple[FlowVariable, ...]]:
    """Applies flow variables to settings; returns these, and the settings exposed as flow variables in order.

    WorkflowError if a variable does not exist, does not fit its setting, or there is no such setting.
    """
    exposed: list[FlowVariable] = []
    for control in controls:
        if control.used is not None:
            if control.used not in variables:
                known = ", ".join(f"'{name}'" for name in variables) or "none"
                raise WorkflowError(
                    f"The flow variable '{control.used}', which sets '{'.'.join(control.path)}', does not"
                    f" arrive here; those that do: {known}"
                )
            model = _replaced(model, control.path, variables[control.used], control.path)
        if control.exposed is not None:
            exposed.append(_exposed(_found(model, control.path), control.exposed))
    return model, tuple(exposed)


def _found(model: Config, path: tuple[str, ...]) -> SettingsEntry | Config:
    place: SettingsEntry | Config | None = model
    for key in path:
        place = place.get(key) if isinstance(place, Config) else None
    if place is None:
        raise WorkflowError(
            f"A flow variable meets the setting '{'.'.join(path)}', which the node does not have"
        )
    return place


def _replaced(model: Config, path: tuple[str, ...], variable: FlowVariable, whole: tuple[str, ...]) -> Config:
    key, rest = path[0], path[1:]
    child = _found(model, path[:1])
    if rest:
        if not isinstance(child, Config):
            raise WorkflowError(
                f"A flow variable meets the setting '{'.'.join(whole)}', which does not exist"
            )
        new: SettingsEntry | Config = _replaced(child, rest, variable, whole)
    elif isinstance(child, SettingsEntry):
        if child.type not in _WIDER.get(variable.kind, ()):
            raise _misfit(variable, whole)
        new = SettingsEntry(key, child.type, _converted(variable.value, variable, child.type, whole))
    else:
        new = _filled(child, variable, whole)
    return Config(model.key, tuple(new if own.key == key else own for own in model))


def _converted(value: Any, variable: FlowVariable, wanted: EntryType, path: tuple[str, ...]) -> Any:
    if wanted in _TEXTS:
        return _text(value)
    if wanted == "xboolean" and isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise WorkflowError(
                f"The flow variable '{variable.name}' is '{value}', but the setting '{'.'.join(path)}' is"
                " true or false"
            )
        return value.lower() == "true"
    if wanted in ("xfloat", "xdouble"):
        return float(value)
    return value


def _filled(child: Config, variable: FlowVariable, path: tuple[str, ...]) -> Config:
    if isinstance(variable.value, CredentialValue):
        if "isCredentials_Internals" not in child:
            raise _misfit(variable, path)
        entries = [entry for entry in child if entry.key not in ("name", "login")]
        return Config(
            child.key,
            (
                *entries,
                SettingsEntry("name", "xstring", variable.name),
                SettingsEntry("login", "xstring", variable.value.login),
            ),
        )
    kind = ELEMENTS.get(variable.kind, variable.kind)
    element = _element_type(child)
    if element is None or element not in _WIDER.get(kind, ()):
        raise _misfit(variable, path)
    value: Any = variable.value
    values = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
    return array(child.key, element, (_converted(v, variable, element, path) for v in values))


def _element_type(child: Config) -> EntryType | None:
    elements = [entry for entry in child if isinstance(entry, SettingsEntry) and entry.key.isdecimal()]
    if "array-size" not in child:
        return None
    if elements:
        first = elements[0].type
        return first if all(entry.type == first for entry in elements) else None
    return _ARRAY_TYPES.get(child.text("json-type_Internals"))


def _exposed(place: SettingsEntry | Config, name: str) -> FlowVariable:
    if isinstance(place, SettingsEntry):
        if place.type not in _EXPOSED or place.value is None:
            raise WorkflowError(f"The setting '{place.key}' cannot become the flow variable '{name}'")
        return FlowVariable(name, _EXPOSED[place.type], place.value)
    element = _element_type(place)
    if element is None or element not in _EXPOSED:
        raise WorkflowError(f"The setting '{place.key}' cannot become the flow variable '{name}'")
    try:
        values = tuple(array_values(place)) if any(own.key.isdecimal() for own in place) else ()
    except KnwfError as error:
        raise WorkflowError(str(error)) from None
    return FlowVariable(name, ARRAYS[_EXPOSED[element]], values)


def _misfit(variable: FlowVariable, path: tuple[str, ...]) -> WorkflowError:
    return WorkflowError(
        f"The flow variable '{variable.name}' ({variable.kind.lower()}) cannot replace the setting"
        f" '{'.'.join(path)}', which has another type",
        fix="Use a flow variable of the setting's type",
    )


def _text(value: Any) -> str:
    """A value as text, in Java's format."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    return str(value)


def _double_text(value: float) -> str:
    """A number as in Java's ``Double.toString``: without exponent from 0.001 up to ten million."""
    if value != value:  # NaN does not equal itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{len(text) - 1 + int(exponent)}"
