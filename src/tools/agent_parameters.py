"""An MCP tool's parameters as KNIME's own agents can give them, and what they gave as the tool's arguments.

An agent of KNIME gives a workflow tool all of its parameters, each to a Configuration node: a text, a number
or a boolean, under a name of letters and digits. So what may be missing is an empty text, and what is nested
is JSON in a text. Variables are numbered in the order of the schema; both directions are made of the schema
alone, so that a segment needs no table of names.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ..client.protocol.messages import as_list, as_object
from ..client.validation.argument_schemas import (
    kinds,
    listed_parameters,
    parts_of,
    resolve,
    type_of,
)
from ..types.errors import ArgumentsInvalid, MCPError
from ..types.texts import compact_json, numbered, pointer_step, shortened, without_surrogates
from .calling_hints import example_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..types.tool import MCPTool

MORE: Final = "more_arguments"
"""The parameter for members that the schema allows without naming them."""
_NOT_IN_NAMES: Final = re.compile("[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64  # of a tool, for OpenAI's API: KNIME's agents do not shorten names
_LONGEST_SCHEMA: Final = 4000  # characters of a schema in a description
_LONGEST_EXAMPLE: Final = 200
#: Keywords that the models' vendors take beside the type; with others the schema goes into the description.
_PLAIN: Final = frozenset(
    (
        *("type", "title", "description", "default", "examples", "enum", "const", "format", "deprecated"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern"),
    )
)
_ABOUT: Final = frozenset({"type", "title", "description", "default", "examples", "enum", "deprecated"})
_PICTURES: Final = re.compile(r"image|picture|screenshot|photo|chart|plot|diagram|audio|sound", re.IGNORECASE)

Form = Literal["boolean", "text", "number", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParameter:
    """A parameter of a tool, as an agent of KNIME gives it."""

    name: str | None  # the tool's own; None for what the schema allows without a name
    knime_name: str
    form: Form  # of what the agent gives
    kinds: frozenset[str]  # the JSON types that the tool takes
    optional: bool
    shown: Mapping[str, Any]  # the schema that the model sees

    @property
    def empty_counts(self) -> bool:
        """Whether an empty text stands for nothing: left out, or null where it must be there."""
        return self.optional or "null" in self.kinds


def agent_parameters(tool: MCPTool) -> tuple[AgentParameter, ...]:
    """The parameters of a tool in its order; none of a schema that cannot be read."""
    try:
        schema = tool.parameter_schema
    except MCPError:
        return ()
    return _parameters(compact_json(schema))


@lru_cache(maxsize=1024)
def _parameters(schema_json: str) -> tuple[AgentParameter, ...]:
    schema = json.loads(schema_json)
    properties, required = listed_parameters(schema)
    # Some schemas require what they do not declare.
    names = [*properties, *sorted(required - properties.keys())]
    known = knime_names([*names, *([MORE] if _is_open(schema) else [])])
    parameters = [
        _parameter(name, known[name], properties.get(name, {}), schema, optional=name not in required)
        for name in names
    ]
    if _is_open(schema):
        about = (
            "Further arguments of the tool, as a JSON object in a text, such as "
            r'"{\"limit\":5}". Optional: an empty text for none.'
        )
        text = {"type": "string", "description": about}
        more = frozenset({"object"})
        parameters.append(
            AgentParameter(
                name=None, knime_name=known[MORE], form="json", kinds=more, optional=True, shown=text
            )
        )
    return tuple(parameters)


def _is_open(schema: dict[str, Any]) -> bool:
    """Whether the schema says that there may be members which it does not name."""
    whole = resolve(schema, schema)
    others = whole.get("additionalProperties")
    return others is True or bool(as_object(others)) or bool(as_object(whole.get("patternProperties")))


def knime_names(names: Sequence[str]) -> dict[str, str]:
    """A name for each parameter that KNIME allows; what is allowed keeps its name."""
    from ..knwf.configuration_nodes import PARAMETER_NAME

    ordered = sorted(names, key=lambda name: PARAMETER_NAME.fullmatch(name) is None)
    plain = (name if PARAMETER_NAME.fullmatch(name) else _plain(name) for name in ordered)
    # KNIME allows no digit at the end of a name.
    return dict(zip(ordered, numbered([*plain], "_{}v"), strict=True))


def _plain(name: str) -> str:
    plain = "_".join(re.findall("[A-Za-z0-9]+", name))
    plain = plain if plain[:1].isalpha() else f"p_{plain}".rstrip("_")
    return f"{plain}_v" if plain[-1].isdigit() else plain


def cell_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of tools that a model's API takes and that differ: of equal ones KNIME offers only one."""
    plain = [_NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "tool" for name in names]
    return numbered(plain, "_{}", longest=_LONGEST_NAME)


def _parameter(
    name: str, knime_name: str, part: Any, root: dict[str, Any], *, optional: bool
) -> AgentParameter:
    whole, parts = resolve(root, part), parts_of(part, root)
    values = [value for each in parts for value in as_list(each.get("enum"))]
    values += [each["const"] for each in parts if "const" in each]
    types = kinds(part, root) or frozenset(map(type_of, values))
    if any(each.get("nullable") is True for each in parts):  # OpenAPI's word for it
        types |= {"null"}
    form = _form(types - {"null"})
    optional = optional or "default" in whole  # servers that require it fill it in all the same
    empty = optional or "null" in types
    shown = _shown(form, types, values, whole, empty=empty)
    about = [whole.get("description") or whole.get("title") or ""]
    others = whole.keys() - shown.keys() - _ABOUT
    if form == "json" or others:
        lead = f"JSON in a text{_for_example(part, root, types)}" if form == "json" else "It has to fit"
        about.append(_in_words(whole, root, lead))
    if form == "number" and empty:
        about.append(f"{'A number' if 'number' in types else 'An integer'}, as text.")
    if empty:
        default = f", for {compact_json(whole['default'])}" if "default" in whole and optional else ""
        about.append(f'Optional: "" leaves it out{default}.' if optional else '"" stands for null.')
    description = without_surrogates(" ".join(str(text) for text in about if text))
    return AgentParameter(
        name=name,
        knime_name=knime_name,
        form=form,
        kinds=types,
        optional=optional,
        shown={**shown, "description": description},
    )


def _shown(
    form: Form, types: frozenset[str], values: list[Any], whole: dict[str, Any], *, empty: bool
) -> dict[str, Any]:
    """The schema for the model, as the server has it where a model's vendor and KNIME can take it so."""
    if form != "json" and not empty and whole.keys() <= _PLAIN and isinstance(whole.get("type"), str):
        return dict(whole)
    match form:
        case "boolean" if empty:
            return {"type": "string", "enum": ["true", "false", ""]}
        case "number" if not empty:
            return {"type": "integer" if types == frozenset({"integer"}) else "number"}
        case "text" if values:
            texts = [value for value in values if isinstance(value, str)]
            return {"type": "string", "enum": [*dict.fromkeys([*texts, *([""] if empty else [])])]}
        case "boolean":
            return {"type": "boolean"}
        case _:
            return {"type": "string"}


def _form(types: frozenset[str]) -> Form:
    match sorted(types):
        case ["boolean"]:
            return "boolean"
        case ["string"]:
            return "text"
        case ["integer"] | ["number"] | ["integer", "number"]:
            return "number"
        case _:
            return "json"


def _for_example(part: Any, root: dict[str, Any], types: frozenset[str]) -> str:
    """How a value is written: KNIME refuses lists, objects and null before the tool's node gets them."""
    if types and types.isdisjoint(("array", "object", "null")):
        return ""
    made = example_of(part, root)
    text = compact_json(made)
    if not isinstance(made, list | dict) or len(text) > _LONGEST_EXAMPLE:
        return ", and never a list, an object or null itself"
    return f", such as {compact_json(text)}, and never {text} itself"


def _in_words(whole: dict[str, Any], root: dict[str, Any], lead: str) -> str:
    """The schema as text, with the definitions to which it refers."""
    described = {key: value for key, value in whole.items() if key not in ("description", "title")}
    if not described:
        return f"{lead}."
    for section in ("$defs", "definitions"):
        named = as_object(root.get(section))
        used = _used(compact_json(described), named, section)
        described |= {section: {name: named[name] for name in used}} if used else {}
    return f"{lead}, of the schema {shortened(compact_json(described), _LONGEST_SCHEMA)}."


def _used(text: str, named: Mapping[str, Any], section: str) -> list[str]:
    found: dict[str, None] = {}
    waiting = [text]
    while waiting:
        text = waiting.pop()
        for name in named:
            # A search in the text, as references may stand at any depth.
            if name not in found and f'"#/{section}/{pointer_step(name)[1:]}"' in text:
                found[name] = None
                waiting.append(compact_json(named[name]))
    return sorted(found)


def arguments_given(parameters: Sequence[AgentParameter], variables: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call from the flow variables of a segment; the tool's schema decides what fits.

    `ArgumentsInvalid`: further arguments are no JSON object.
    """
    arguments: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        given = variables.get(variable(number))
        if given is None or (given == "" and parameter.optional):
            continue
        if given == "" and "null" in parameter.kinds:
            value = None
        else:
            value = _value(parameter, given) if isinstance(given, str) else given
        if parameter.name is not None:
            arguments[parameter.name] = value
        elif isinstance(value, dict):
            more = cast("dict[str, Any]", value)
        else:
            raise ArgumentsInvalid(
                f"{parameter.knime_name} is no JSON object",
                pointer=pointer_step(parameter.knime_name),
                fix='Write an object, such as {"city": "Konstanz"}, or an empty text',
            )
    # What has a parameter of its own wins.
    return more | arguments


def variable(number: int) -> str:
    """The flow variable in a segment of the parameter with that number."""
    return f"mcp_{number}"


def _value(parameter: AgentParameter, text: str) -> Any:
    types = parameter.kinds
    if parameter.form == "text":
        return text
    if parameter.form == "boolean":
        return {"true": True, "false": False}.get(text.strip().lower(), text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text  # the check against the schema gives a better error
    # Java writes a number that came as 3.0 in the same way, and 1E+3 for 1000.
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        return int(value)
    return value


def notes_of(tool: MCPTool, cell_name: str, *, refused: str = "") -> str | None:
    """What differs for KNIME's own agents, in a sentence each; None if nothing does."""
    parameters = agent_parameters(tool)
    renamed = renamed_parameters(parameters)
    nested = [own.name or own.knime_name for own in parameters if own.form == "json"]
    emptied = [own.name or own.knime_name for own in parameters if own.form == "text" and own.empty_counts]
    notes = [f"KNIME's agents cannot run it: {refused}"] if refused else []
    notes += [f"KNIME's agents call it {cell_name}"] if cell_name != tool.name else []
    notes += [f"parameters have other names there: {renamed}"] if renamed else []
    notes += [f"JSON in a text: {', '.join(nested)}"] if nested else []
    notes += [f"cannot be an empty text: {', '.join(emptied)}"] if emptied else []
    if _PICTURES.search(f"{tool.name} {tool.title or ''} {tool.description}"):
        notes.append("pictures and sounds become files, the model reads where they are")
    if tool.route.credential:
        where = "in the agent's workflow, or in this computer's keyring"
        notes.append(f"needs the credential '{tool.route.credential}' {where}")
    return without_surrogates("; ".join(notes)) or None


def renamed_parameters(parameters: Sequence[AgentParameter]) -> str:
    pairs = [(own.knime_name, own.name) for own in parameters if own.name is not None]
    return ", ".join(
        f"{knime_name} for {name or repr('')}" for knime_name, name in pairs if knime_name != name
    )
