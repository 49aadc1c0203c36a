"""A tool as a workflow of its own: a Configuration node per parameter, and a Caller that they set.

Select all and choose *Create component* to have it as one node with these settings in its dialog; as it is,
*Call Workflow*, *Workflow to Tool* and ``knime-mcp run`` take it. It holds the name of the tool's credential
only.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ..client.validation.argument_schemas import as_list, listed_parameters, parameters_of, resolve
from ..types.errors import MCPError
from ..types.texts import numbered, shortened, without_surrogates
from .calling_hints import type_in_words
from .recorded_steps import caller_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..client.validation.argument_schemas import Parameter
    from ..knwf import Configuration, Position, Workflow
    from ..types.tool import MCPTool

_LONGEST_NOTE: Final = 2000
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9]+")
_NOT_IN_FILES: Final = re.compile(r"[^\w.-]+")
_NUMBER_AT_END: Final = re.compile(r"\d$")
_WHOLE: Final = r"(-?\d+)?"
_NUMBER: Final = r"(-?\d+(\.\d+)?([eE][+-]?\d+)?)?"
_TRUTH: Final = "(true|false)?"
_BY_FORMAT: Final = {"date": r"(\d{4}-\d\d-\d\d)?", "date-time": r"(\d{4}-\d\d-\d\dT\d\d:\d\d.*)?"}
_LARGEST: Final = 2**31 - 1  # of KNIME's integers


def tool_workflow(tool: MCPTool) -> Workflow:
    """Makes the workflow. Its parameters are called like the tool's, as far as KNIME allows such names."""
    from ..knwf import (
        VARIABLE_PORT,
        Annotation,
        Configuration,
        Connection,
        VariableControl,
        Workflow,
        configuration_node,
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
    caller = caller_of(
        len(nodes) + 1,
        tool,
        {
            "arguments": [{"name": name, "value": _typed(each)} for name, each in widgets.items()],
            "omit_empty": True,
            "on_error": "fail",
        },
        position=_place(len(nodes)),
        annotation=without_surrogates(tool.title or tool.name),
        variables=[
            VariableControl(("arguments", str(place), "value"), used=each.variable)
            for place, each in enumerate(widgets.values())
        ],
    )
    heading = tool.title or tool.name
    text = f"{heading}\n\n{shortened(tool.description, _LONGEST_NOTE)}\n\n{tool.route.url}"
    chain = [*nodes, caller]
    return Workflow(
        file_stem(tool),
        tuple(chain),
        tuple(Connection(left.id, 1, right.id, VARIABLE_PORT) for left, right in pairwise(chain)),
        annotations=(Annotation(without_surrogates(text), x=60, y=40, width=900, height=200),),
        description=without_surrogates(heading),
    )


def file_stem(tool: MCPTool) -> str:
    """The name of the workflow and of its file, without ending."""
    return without_surrogates(_NOT_IN_FILES.sub("-", tool.name)).strip("-.") or "tool"


def save_components(tools: Sequence[MCPTool], folder: Path) -> str | None:
    """Writes a workflow per tool into a folder, for the Provider; says in a sentence what went wrong."""
    from ..knwf import KnwfError, write_workflow

    stems = numbered([file_stem(tool) for tool in tools], "-{}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for tool, stem in zip(tools, stems, strict=True):
            write_workflow(tool_workflow(tool), folder / f"{stem}.knwf")
    except (OSError, ValueError, KnwfError, MCPError) as error:
        return f"The tools cannot be saved as workflows in {folder}: {error}."
    return None


def _place(number: int) -> Position:
    from ..knwf import Position

    return Position(x=60 + number % 6 * 190, y=300 + number // 6 * 190)


def _widgets(tool: MCPTool) -> dict[str, Configuration]:
    """The settings of the Configuration nodes, by the names of the tool's parameters."""
    root = tool.parameter_schema
    schemas, needed = listed_parameters(root)
    known = parameters_of(tool)
    names = sorted(known, key=lambda name: name not in needed)
    variables = numbered([_variable(name) for name in names], "-{}-x")
    return {
        name: _widget(name, variable, resolve(root, schemas.get(name, {})), known[name], root, name in needed)
        for name, variable in zip(names, variables, strict=True)
    }


def _variable(name: str) -> str:
    """KNIME wants letters, digits and single dashes, with letters at both ends."""
    words = _NOT_IN_NAMES.sub("-", name).strip("-") or "value"
    words = words if words[0].isalpha() else f"p-{words}"
    return f"{words}-x" if _NUMBER_AT_END.search(words) else words


def _widget(
    name: str,
    variable: str,
    schema: dict[str, Any],
    parameter: Parameter,
    root: dict[str, Any],
    needed: bool,
) -> Configuration:
    from ..knwf import Configuration

    default, kinds = schema.get("default"), set(parameter.kinds - {"null"})
    about = str(schema.get("description") or schema.get("title") or "")
    words = type_in_words(root, schema) + ("" if needed else ", optional: empty leaves it out")
    common: dict[str, Any] = {
        "variable": variable,
        "parameter": variable,
        "label": without_surrogates(name),
        "description": without_surrogates(f"{about} ({words})".strip()),
    }
    is_given = needed or default is not None
    if kinds == {"boolean"} and is_given:
        return Configuration(kind="boolean", value=default is True, **common)
    low, high = schema.get("minimum"), schema.get("maximum")
    fits = all(value is None or _is_int(value) for value in (default, low, high))
    if kinds == {"integer"} and is_given and fits:
        value = default if default is not None else low or 0
        return Configuration(kind="integer", value=value, minimum=low, maximum=high, **common)
    numbers = all(value is None or isinstance(value, int | float) for value in (default, low, high))
    if kinds in ({"number"}, {"number", "integer"}) and is_given and numbers:
        value = float(default if default is not None else low or 0)
        return Configuration(kind="double", value=value, minimum=low, maximum=high, **common)
    choices = as_list(schema.get("enum"))
    text = "" if default is None else default if isinstance(default, str) else json.dumps(default)
    if choices:
        allowed = [choice if isinstance(choice, str) else json.dumps(choice) for choice in choices]
        pattern = f"({'|'.join(map(re.escape, allowed))}){'' if needed else '?'}"
        text = text or (allowed[0] if needed else "")
        common["description"] += f" One of: {', '.join(allowed)}"
    else:
        pattern = _pattern(kinds, schema)
    message = f"'?' is no value for {name}: {words}" if pattern else ""
    value = without_surrogates(text)
    return Configuration(kind="string", value=value, pattern=pattern, message=message, **common)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _pattern(kinds: set[str], schema: dict[str, Any]) -> str:
    if kinds == {"integer"}:
        return _WHOLE
    if kinds and kinds <= {"integer", "number"}:
        return _NUMBER
    if kinds == {"boolean"}:
        return _TRUTH
    return _BY_FORMAT.get(str(schema.get("format")), "")


def _typed(settings: Configuration) -> str:
    return settings.value if isinstance(settings.value, str) else json.dumps(settings.value)
