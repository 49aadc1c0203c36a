"""A tool as a KNIME component: a typed setting for each of its parameters, and a Caller that they set.

Its outputs are the records in the tool's answer, and the result of the call. It holds the name of the tool's
credential only, as a login that the component asks for.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ..client.protocol.messages import as_list
from ..client.validation.argument_schemas import listed_parameters, parameters_of, parts_of
from ..types.errors import MCPError
from ..types.texts import numbered, shortened, without_surrogates
from .agent_parameters import knime_names
from .calling_hints import type_in_words
from .recorded_steps import caller_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..client.validation.argument_schemas import Parameter
    from ..knwf import CanvasPosition, Component, ComponentFace, Configuration
    from ..types.tool import MCPTool

_LONGEST_NOTE: Final = 2000
_NOT_IN_FILES: Final = re.compile(r"[^\w.-]+")
_WHOLE: Final = r"(-?\d+)?"
_NUMBER: Final = r"(-?\d+(\.\d+)?([eE][+-]?\d+)?)?"
_TRUTH: Final = "(true|false)?"
_BY_FORMAT: Final = {"date": r"(\d{4}-\d\d-\d\d)?", "date-time": r"(\d{4}-\d\d-\d\dT\d\d:\d\d.*)?"}
_LARGEST: Final = 2**31 - 1  # of KNIME's integers


_DATES: Final[dict[str, Literal["LOCAL_DATE", "ZONED_DATE_TIME"]]] = {
    "date": "LOCAL_DATE",
    "date-time": "ZONED_DATE_TIME",
}
_BYTES: Final = ("base64", "data URL")
_AS_TEXT: Final = "As {}, or the address of a file (file:/…), whose content is sent."
_SOME_MOMENT: Final = "2026-01-01T00:00:00Z"
_OUTPUTS: Final = (
    ("Records", "A row for each record in the tool's answer, such as an item of a list."),
    ("Result", "One row: what came of the call, with the answer as text, and files and pictures."),
)


def tool_component(tool: MCPTool) -> tuple[Component, ComponentFace]:
    """Makes the component. Its parameters are called like the tool's, as far as KNIME allows such names."""
    from ..knwf import (
        VARIABLE_PORT,
        Component,
        ComponentFace,
        Configuration,
        Connection,
        VariableControl,
        Workflow,
        configuration_node,
        edge_node,
    )

    widgets = _widgets(tool)
    settings = list(widgets.values())
    if credential := tool.route.credential:
        about = f"Login for {tool.route.url}; a token or key goes into the password"
        login = Configuration(
            kind="credentials",
            variable=credential,
            parameter="credential",
            value="",
            label="Credential",
            description=about,
        )
        settings.append(login)
    nodes = [
        configuration_node(number, each, position=_place(number - 1), annotation=each.label)
        for number, each in enumerate(settings, 1)
    ]
    heading = without_surrogates(tool.title or tool.name)
    caller = caller_of(
        len(nodes) + 1,
        tool,
        {
            "arguments": [{"name": name, "value": _typed(each)} for name, each in widgets.items()],
            "on_error": "fail",
            "all_columns": True,  # among them the pictures and files of *Result*
        },
        position=_place(len(nodes)),
        annotation=heading,
        variables=[
            VariableControl(("arguments", str(place), "value"), used=_value_of(each))
            for place, each in enumerate(widgets.values())
        ],
    )
    chain = [*nodes, caller]
    entry = edge_node(caller.id + 1, "input", (), position=_place(-1))
    leaving = edge_node(caller.id + 2, "output", _OUTPUTS, position=_place(len(chain)))
    workflow = Workflow(
        heading,
        (*chain, entry, leaving),
        (
            # One behind the other, so that the flow variables of all settings reach the Caller.
            *(Connection(left.id, 1, right.id, VARIABLE_PORT) for left, right in pairwise(chain)),
            Connection(caller.id, caller.output_port("Records"), leaving.id, 1),
            Connection(caller.id, caller.output_port("Results"), leaving.id, 2),
        ),
    )
    about = f"{heading}\n\n{shortened(tool.description, _LONGEST_NOTE)}\n\nThe tool '{tool.tool_name}' of"
    face = ComponentFace(
        description=without_surrogates(f"{about} {tool.route.url}"),
        kind="Source",
        icon=_icon(),
        outputs=_OUTPUTS,
    )
    return Component(workflow, entry.id, leaving.id), face


def save_component(tool: MCPTool, file: Path) -> int:
    """Writes the component of a tool; returns how many settings it has. A file that says it is unchanged."""
    from ..knwf import write_component

    component, face = tool_component(tool)
    write_component(component, face, file, changed=datetime.now(UTC))
    # Beside the settings there are the Caller and the component's two ends.
    return len(component.workflow.nodes) - 3


def _icon() -> bytes:
    """The Caller's; beside the sources in an extension, in the package elsewhere."""
    places = (Path(__file__).parents[above] / "icons" / "caller.png" for above in (2, 1))
    return next((place.read_bytes() for place in places if place.is_file()), b"")


def _value_of(settings: Configuration) -> str:
    """The flow variable with the value; of a file, the one that is an address, which says that it is one."""
    return f"{settings.variable} (URL)" if settings.kind == "file" else settings.variable


def file_stem(tool: MCPTool) -> str:
    """The name of the workflow and of its file, without ending."""
    return without_surrogates(_NOT_IN_FILES.sub("-", tool.name)).strip("-.") or "tool"


def save_components(tools: Sequence[MCPTool], folder: Path) -> str | None:
    """Writes a component per tool into a folder, for the Provider; says in a sentence what went wrong."""
    from ..knwf import KnwfError

    stems = numbered([file_stem(tool) for tool in tools], "-{}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for tool, stem in zip(tools, stems, strict=True):
            save_component(tool, folder / f"{stem}.knwf")
    except (OSError, ValueError, KnwfError, MCPError) as error:
        return f"The tools cannot be saved as components in {folder}: {error}."
    return None


def _place(number: int) -> CanvasPosition:
    from ..knwf import CanvasPosition

    return CanvasPosition(x=60 + number % 6 * 190, y=300 + number // 6 * 190)


def _widgets(tool: MCPTool) -> dict[str, Configuration]:
    """The settings of the Configuration nodes, by the names of the tool's parameters."""
    root = tool.parameter_schema
    schemas, needed = listed_parameters(root)
    known = parameters_of(tool)
    # Required ones first; `sorted` keeps the server's order otherwise.
    names = sorted(known, key=lambda name: name not in needed)
    variables = knime_names(names)
    return {
        name: _widget(name, variables[name], _Said(schemas.get(name, {}), root), known[name], name in needed)
        for name in names
    }


class _Said:
    """What a parameter's schema says in all of its parts, of which the outermost counts."""

    def __init__(self, schema: Any, root: dict[str, Any]) -> None:
        self.words = type_in_words(root, schema)
        self._parts = parts_of(schema, root)

    def get(self, key: str) -> Any:
        return next((part[key] for part in self._parts if part.get(key) is not None), None)

    def limit(self, key: str) -> Any:
        """The smallest or largest number; None where several parts, of which one applies, say one."""
        found = [part[key] for part in self._parts if part.get(key) is not None]
        return found[0] if len(found) == 1 else None

    @property
    def choices(self) -> list[str] | None:
        """The values of which one is chosen; empty if there are others beside them, None without any."""
        values: list[Any] = []
        is_open = False
        for part in self._parts:
            listed = as_list(part.get("enum")) or ([part["const"]] if "const" in part else [])
            is_open |= not listed and part.get("type") not in (None, "null")
            values += [value for value in listed if value is not None]
        if not values:
            return None
        return [] if is_open else list(dict.fromkeys(map(_text, values)))


def _widget(name: str, variable: str, said: _Said, parameter: Parameter, needed: bool) -> Configuration:
    from ..knwf import Configuration

    words = said.words + ("" if needed else ", optional: empty leaves it out")
    about = f"{said.get('description') or said.get('title') or ''} ({words})".strip()
    common: dict[str, Any] = {"variable": variable, "parameter": variable, "label": without_surrogates(name)}
    typed = _typed_widget(said, parameter, needed)
    if typed is not None:
        more = typed.pop("description", "")
        return Configuration(**common, **typed, description=without_surrogates(f"{about} {more}".strip()))
    kinds = set(parameter.kinds - {"null"})
    pattern = _pattern(kinds, str(said.get("format")))
    hint = _AS_TEXT.format(parameter.content) if parameter.content in _BYTES else ""
    return Configuration(
        **common,
        kind="string",
        value=without_surrogates(_text(said.get("default"))),
        description=without_surrogates(f"{about} {hint}".strip()),
        pattern=pattern,
        message=f"'?' is no value for {name}: {words}" if pattern else "",
        multi_line=not kinds or not kinds.isdisjoint(("array", "object")),
    )


def _typed_widget(said: _Said, parameter: Parameter, needed: bool) -> dict[str, Any] | None:
    """What is special about a setting that is no text; None where only text can hold all values.

    A number, a boolean and a date always have a value, so these are for what is required or has a default.
    """
    default, low, high = said.get("default"), said.limit("minimum"), said.limit("maximum")
    choices = said.choices
    if choices is not None:
        if not choices:
            return None
        offered = (*(() if needed else ("",)), *map(without_surrogates, choices))
        text = _text(default)
        return {"kind": "choice", "value": text if text in offered else offered[0], "choices": offered}
    numbers = [value for value in (default, low, high) if value is not None]
    # KNIME's number and boolean widgets cannot be empty, which is how an argument is left out.
    is_given = needed or default is not None
    match sorted(parameter.kinds - {"null"}):
        case ["boolean"] if is_given:
            return {"kind": "boolean", "value": default is True}
        case ["integer"] if is_given and all(map(_is_int, numbers)):
            value = low or 0 if default is None else default
            return {"kind": "integer", "value": value, "minimum": low, "maximum": high}
        case ["number"] | ["integer", "number"] if is_given and all(map(_is_number, numbers)):
            value = float(low or 0 if default is None else default)
            return {"kind": "double", "value": value, "minimum": low, "maximum": high}
        case ["string"] if needed and (date := _DATES.get(str(said.get("format")))):
            moment = _SOME_MOMENT if default is None else _moment(default)
            more = "" if default is not None else "Unless it is set, the moment of the execution."
            found = {"kind": "date", "value": moment, "date": date, "now": bool(more), "description": more}
            return found if moment else None
        case ["string"] if needed and default is None and parameter.content in _BYTES:
            return {"kind": "file", "value": "", "description": "The content of this file is sent."}
        case _:
            return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _moment(text: Any) -> str | None:
    """A default as KNIME stores moments; None if it is none."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def _pattern(kinds: set[str], form: str) -> str:
    if kinds == {"integer"}:
        return _WHOLE
    if kinds and kinds <= {"integer", "number"}:
        return _NUMBER
    if kinds == {"boolean"}:
        return _TRUTH
    return _BY_FORMAT.get(form, "")


def _typed(settings: Configuration) -> str:
    return settings.value if isinstance(settings.value, str) else json.dumps(settings.value)
