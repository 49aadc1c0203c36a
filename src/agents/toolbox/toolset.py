"""The tools of an agent's run: their names for models, people and servers, and their functions for models."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from ...audit.secrets import calls_something_secret
from ...types.columns import AUTO, read_tools
from ...types.routing import server_labels
from ...types.texts import compact_json, hidden_characters, numbered, only_visible, parse_object, visible
from ...types.tool import MCPTool, WorkflowTool
from ..model.strict_schema import DATA_WORDS, SCHEMAS_BY_NAME, repeats
from .tool_search import ToolIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import knime.extension as knext

    from ...audit.secrets import SecretMarker
    from ...tools.provider.findings import SecurityFinding
    from ...types.tool import Tool, ToolPort

_SUGGESTIONS: Final = 3
CONFIGURATION: Final = "configuration"
DATA_INPUTS: Final = "data_inputs"
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]|\A(?=[0-9-])")  # some endpoints require a letter or _ first
_LONGEST: Final = 64
_DIGITS: Final = 8
_SHOWN: Final = 3
_OF_ARGUMENTS: Final = ("", "Arguments", "Args", "Input", "Params", "Parameters")
_FOR_PEOPLE: Final = frozenset({"description", "title", "$comment"})
_NOT_OF_THE_TEXT: Final = frozenset({"contradiction", "unusable schema"})
_LOOK: Final = (
    "Look at them in the Provider's Security findings, or with knime-mcp list, before you trust the server"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTool:
    """A tool with its names and its definition for a model, which may be shared: do not change it."""

    tool: Tool
    name: str
    shown_name: str
    definition: dict[str, Any]


class Toolset:
    """Tools of both types, with names for a model; duplicates count once. `by_name` has the models' names.

    `notes` are remarks for the user about suspicious tools, see `admitted`.
    Raises `ToolFormatError`, which names the row, if a cell holds malformed JSON.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        distinct, self.notes = admitted(list(dict.fromkeys(tools)))
        self.bound: tuple[BoundTool, ...] = tuple(
            BoundTool(
                tool=tool, name=name, shown_name=shown, definition=function_definition(tool, name, shown)
            )
            for tool, name, shown in zip(distinct, bound_names(distinct), shown_names(distinct), strict=True)
        )
        self.by_name = {bound.name: bound for bound in self.bound}
        self._by_tool = {bound.tool: bound for bound in self.bound}
        self._by_shown = {bound.shown_name: bound for bound in self.bound}

    def __len__(self) -> int:
        return len(self.bound)

    @cached_property
    def has_data(self) -> bool:
        """True if a tool takes or gives tables."""
        return any(_has_data(bound.tool) for bound in self.bound)

    @cached_property
    def takes_data(self) -> bool:
        """True if a tool takes tables, by their ids."""
        return any(isinstance(bound.tool, WorkflowTool) and bound.tool.input_ports for bound in self.bound)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Short names of the servers by their addresses; empty if all results have one origin."""
        servers = list(dict.fromkeys(b.tool.route.url for b in self.bound if isinstance(b.tool, MCPTool)))
        has_others = any(isinstance(bound.tool, WorkflowTool) for bound in self.bound)
        return (
            dict(zip(servers, server_labels(servers), strict=True)) if len(servers) + has_others > 1 else {}
        )

    @cached_property
    def tokens(self) -> int:
        return token_estimate(bound.definition for bound in self.bound)

    @cached_property
    def index(self) -> ToolIndex:
        """The search index of the tools; positions are those in `bound`."""
        return ToolIndex([bound.definition for bound in self.bound])

    def free_name(self, wanted: str) -> str:
        """Returns a name for a built-in tool: the wanted name, with a number if a real tool has it."""
        return numbered([*self.by_name, wanted], "_{}")[-1]

    def of(self, tool: Tool) -> BoundTool:
        """Returns a tool with its names; a tool outside this toolset gets names here."""
        bound = self._by_tool.get(tool)
        return Toolset([tool]).bound[0] if bound is None else bound

    def shown_name(self, name: str) -> str:
        """The name that people see for a bound name; an unknown name is returned unchanged."""
        bound = self.by_name.get(name)
        return name if bound is None else bound.shown_name

    def bound_name(self, shown: str) -> str:
        """The name that a model uses for a shown name; an unknown name is returned unchanged."""
        bound = self._by_shown.get(shown)
        return shown if bound is None else bound.name

    def marked(
        self, name: str, arguments: Mapping[str, Any] | None, secrets: SecretMarker
    ) -> dict[str, Any] | None:
        """Marks the secrets in the arguments of a call, so that they may be recorded.

        If no tool has the name that a model wrote, secret arguments of all tools are marked.
        """
        if arguments is None:
            return None
        return secrets.mark(arguments, *self.schemas_for(name))

    def schemas_for(self, name: str) -> tuple[str, ...]:
        """The schemas that may say which arguments of a call are secret: for an unknown name those of all."""
        # Tools without secrets have no entry there, and no schema to look into.
        if self.by_name.get(name) is not None:
            return (self._secret_schemas.get(name, ""),)
        return tuple(self._secret_schemas.values())

    def has_secrets(self, name: str, written: str, secrets: SecretMarker) -> bool:
        """Returns whether arguments for a tool, by its bound name, that cannot be read may hold a secret."""
        return name in self._secret_schemas or secrets.may_name_one(written)

    @cached_property
    def _secret_schemas(self) -> dict[str, str]:
        schemas = {bound.name: compact_json(_written_schema(bound.tool)) for bound in self.bound}
        return {name: schema for name, schema in schemas.items() if calls_something_secret(schema)}

    def similar(self, name: str) -> tuple[str, ...]:
        """Finds the names that a model may have meant, the most likely first.

        Upper and lower case do not matter, nor prefixes that some models add, as in ``functions.search``.
        """
        folded: dict[str, str] = {}
        for bound in self.bound:
            for spelling in (bound.name, bound.shown_name, bound.tool.name):
                folded.setdefault(spelling.casefold(), bound.name)
        # Cut, as difflib's time grows with the square of the length.
        written = name.casefold()[:200]
        # Models put a prefix of their training before names, such as `functions.search`.
        spellings = [part for part in re.findall(r"[\w-]+", written) if part in folded]
        spellings += difflib.get_close_matches(written, folded, n=2 * _SUGGESTIONS, cutoff=0.6)
        return tuple(dict.fromkeys(folded[spelling] for spelling in spellings))[:_SUGGESTIONS]


def _has_data(tool: Tool) -> bool:
    return isinstance(tool, WorkflowTool) and bool(tool.input_ports or tool.output_ports)


def _written_schema(tool: Tool) -> dict[str, Any]:  # @ToolTypeDispatch
    """The schema of arguments in all places where a model may write them."""
    schema = arguments_schema(tool)
    match tool:
        case MCPTool():
            return schema
        case WorkflowTool():  # models may leave out the outer `configuration`
            return {"properties": {**tool.parameter_schema, **schema["properties"]}}
        case _:
            assert_never(tool)


def _extract_tools_from_table(table: knext.Table, column: str | None = AUTO) -> list[Tool]:
    """Reads the tools of a table in the order of its rows, both types in one column or in several.

    Args:
        table: The *Tools* table.
        column: The tool column; `AUTO` for all tool columns, of which each row's first cell that is not
            missing counts.

    Raises:
        SettingInvalid: The column does not exist, or the table has no tool column.
        ToolFormatError: A cell cannot be read; the message names row and field.
    """
    return [tool for tool in read_tools(table, column) if tool is not None]


extract_tools = _extract_tools_from_table
"""The public name of `_extract_tools_from_table`, whose own name is KNIME's."""


def function_definition(tool: Tool, name: str, shown_name: str | None = None) -> dict[str, Any]:
    """Describes a tool to a model, with its place if that is a part of the name that people see.

    The parameters may be shared: do not change them.
    """
    description = description_for_model(tool)
    if shown_name is not None and shown_name != tool.name:  # other tools have the same name
        description = f"{description} (This is {shown_name}.)".lstrip()
    return _function(name, description, arguments_schema(tool))


def built_in_definition(name: str, description: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Describes a built-in tool to a model; arguments without a default are required."""
    return _function(name, description, _object(dict(properties)))


def arguments_schema(tool: Tool) -> dict[str, Any]:  # @ToolTypeDispatch
    """The schema of the arguments. Do not change it.

    An MCP tool's goes to the model as the server wrote it, with recursion and ``$defs``, but without hidden
    characters in its descriptions, and without titles that say nothing. A workflow has only parameters, so
    its schema is made here, in the form of KNIME's agents: ``configuration`` for the parameters and
    ``data_inputs`` for ids of tables. Raises `ToolFormatError` for malformed JSON.
    """
    match tool:
        case MCPTool():
            _ = tool.parameter_schema  # malformed JSON is an error that names the row
            return shown_schema(tool.schema_json, tool.tool_name)
        case WorkflowTool():
            return _workflow_schema(tool)
        case _:
            assert_never(tool)


def description_for_model(tool: Tool) -> str:  # @ToolTypeDispatch
    """Returns the description, or the title without one; for a workflow with its outputs."""
    match tool:
        case MCPTool():
            title = tool.title  # read even if not needed: malformed JSON is an error that names the row
            return only_visible(tool.description or title or "")
        case WorkflowTool():
            if not tool.output_ports:  # the message's port is not one of them
                return tool.description
            outputs = "; ".join(_port_text(port) for port in tool.output_ports)
            return f"{tool.description}\n\nData outputs, each of which gets an id: {outputs}".lstrip()
        case _:
            assert_never(tool)


def port_names(ports: Sequence[ToolPort]) -> tuple[str, ...]:
    """Unique names for ports, which may share a name or have none: ``Table``, ``Table (2)``."""
    return numbered([port.name.strip() or f"port {position}" for position, port in enumerate(ports, 1)])


def token_estimate(definitions: Iterable[Mapping[str, Any]]) -> int:
    """Estimates the tokens of functions, like the column *Context tokens*: a quarter of their bytes."""
    return sum(-(-len(compact_json(definition).encode()) // 4) for definition in definitions)


def _function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _workflow_schema(tool: WorkflowTool) -> dict[str, Any]:
    _ = tool.parameter_schema  # malformed JSON is an error that names the row
    return _made_schema(tool.schema_json, tool.input_ports)


@lru_cache(maxsize=1024)
def _made_schema(parameters_json: str, ports: tuple[ToolPort, ...]) -> dict[str, Any]:
    parameters = parse_object(parameters_json)
    properties: dict[str, Any] = {}
    if parameters:
        properties[CONFIGURATION] = {
            "description": "Parameters of the workflow; one that is left out keeps its default",
            **_object(parameters),
        }
    if ports:
        inputs = {
            name: {"type": "string", "description": f"Id of the data for: {_port_text(port)}"}
            for name, port in zip(port_names(ports), ports, strict=True)
        }
        properties[DATA_INPUTS] = {"description": "Ids of data, one per input", **_object(inputs)}
    schema = _object(properties)
    # With a default for each parameter, a model may leave out all of them at once.
    schema["required"] = [name for name, part in properties.items() if part.get("required")]
    return schema


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, part in properties.items() if not _has_default(part)],
        "additionalProperties": False,
    }


def _port_text(port: ToolPort) -> str:
    kind = f" ({port.type})" if port.type else ""
    return f"{port.name}{kind}: {port.description}" if port.description else f"{port.name}{kind}"


def _has_default(part: Any) -> bool:
    return isinstance(part, dict) and "default" in part


def bound_names(tools: Sequence[Tool]) -> tuple[str, ...]:
    """Makes names that endpoints accept, unique, the same in every run, and independent of the tools' order.

    Endpoints accept ``[a-zA-Z0-9_-]{1,64}`` only. Tools of both types share the names, so a workflow and a
    server's tool of the same name must not collide. A valid and unique name stays unchanged. Otherwise
    invalid characters become ``_``, and a name that is too long or not unique gets a digest of the tool's
    identity at its end. The tools must be distinct.
    """
    plain = [_UNFIT.sub("_", tool.name) or "tool" for tool in tools]
    name_counts = Counter(tool.name for tool in tools)
    fitted_counts = Counter(name[:_LONGEST] for name in plain)
    names: list[str] = []
    for tool, name in zip(tools, plain, strict=True):
        is_unchanged = name == tool.name and name_counts[name] == 1
        is_unique = fitted_counts[name[:_LONGEST]] == 1
        # A tool whose own name fits keeps it, whatever others become: prompts and rules name it.
        is_valid = len(name) <= _LONGEST and (is_unchanged or is_unique)
        names.append(name if is_valid else _with_digest(name, tool))
    # Equal names remain for tools with equal identities, and for names that look like another tool's digest.
    return numbered(names, "_{}", longest=_LONGEST)


def shown_names(tools: Sequence[Tool]) -> tuple[str, ...]:  # @ToolTypeDispatch
    """Makes names for people: ``name``, or if not unique ``name @ host`` and ``name @ workflow``."""
    servers = [tool.route.url for tool in tools if isinstance(tool, MCPTool)]
    labels = dict(zip(servers, server_labels(servers), strict=True))
    times = Counter(tool.name for tool in tools)
    shown: list[str] = []
    for tool in tools:
        if times[tool.name] == 1:
            shown.append(tool.name)
            continue
        match tool:
            case MCPTool():
                shown.append(f"{tool.name} @ {labels[tool.route.url]}")
            case WorkflowTool():
                shown.append(f"{tool.name} @ workflow")
            case _:
                assert_never(tool)
    return tuple(shown)


def _with_digest(name: str, tool: Tool) -> str:  # @ToolTypeDispatch
    match tool:
        case MCPTool():
            server = replace(tool.route, tool=None, digest=None).uri  # a new definition is no new tool
            identity = ("mcp", tool.name, server, tool.tool_name)
        case WorkflowTool():
            identity = ("workflow", tool.name, tool.schema_json)  # file store keys differ from run to run
        case _:
            assert_never(tool)
    digest = hashlib.sha256("\0".join(identity).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{name[: _LONGEST - _DIGITS - 1]}_{digest}"


def admitted(tools: Sequence[Tool]) -> tuple[list[Tool], tuple[str, ...]]:
    """The tools that a model may be offered, and remarks for the user about the others and the suspicious."""
    foreign = _foreign_names(tools)
    found = {tool: _found(tool, foreign) for tool in tools}
    suspicious = [tool for tool in tools if found[tool]]
    hidden = [tool for tool in tools if _cannot_be_shown(tool)]
    notes: list[str] = []
    if suspicious:
        said = "; ".join(f"'{visible(tool.name)}': {found[tool][0].what}" for tool in suspicious[:_SHOWN])
        more = f"; and {len(suspicious) - _SHOWN} others" if len(suspicious) > _SHOWN else ""
        notes.append(f"Descriptions by servers hold suspicious texts: {said}{more}. {_LOOK}")
    if hidden:
        names = ", ".join(f"'{visible(tool.name)}'" for tool in hidden[:_SHOWN])
        notes.append(
            f"Names or values in the schemas of {names} hold hidden characters, so they were left out"
        )
    return [tool for tool in tools if tool not in hidden], tuple(notes)


@lru_cache(maxsize=2048)
def shown_schema(schema_json: str, name: str = "") -> dict[str, Any]:
    """The schema of the tool of this name as a model may read it: do not change it.

    It has no titles that only repeat a name, as generated schemas have for each argument.
    """
    schema = parse_object(schema_json) if _is_plain(schema_json) else _cleaned(parse_object(schema_json))
    if "title" not in schema_json:
        return schema
    made = cast("dict[str, Any]", _untitled(schema, name))
    if any(repeats(made.get("title"), f"{name}{end}") for end in _OF_ARGUMENTS):
        del made["title"]
    return made


def _untitled(value: Any, name: str) -> Any:
    """A schema, or a list of some, that stands under this name."""
    if isinstance(value, list):
        return [_untitled(inner, name) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for word, inner in cast("dict[str, Any]", value).items():
        if word in SCHEMAS_BY_NAME and isinstance(inner, dict):
            parts = cast("dict[str, Any]", inner)
            made[word] = {key: _untitled(part, key) for key, part in parts.items()}
        elif word != "title" or not repeats(inner, name):
            made[word] = inner if word in DATA_WORDS else _untitled(inner, name)
    return made


def _is_plain(schema_json: str) -> bool:
    # Compact JSON has hidden characters as they are, and control characters as escapes.
    return "\\u00" not in schema_json and next(hidden_characters(schema_json), None) is None


def _cleaned(value: Any) -> Any:
    if isinstance(value, list):
        return [_cleaned(inner) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    return {
        key: only_visible(inner) if key in _FOR_PEOPLE and isinstance(inner, str) else _cleaned(inner)
        for key, inner in cast("dict[str, Any]", value).items()
    }


def _cannot_be_shown(tool: Tool) -> bool:  # @ToolTypeDispatch
    match tool:
        case MCPTool():
            return not _is_plain(tool.schema_json) and not _is_plain(
                compact_json(shown_schema(tool.schema_json))
            )
        case WorkflowTool():  # the user's own
            return False
        case _:
            assert_never(tool)


def _found(  # @ToolTypeDispatch
    tool: Tool, foreign: Mapping[str, Mapping[str, str]]
) -> tuple[SecurityFinding, ...]:
    match tool:
        case MCPTool():
            _ = tool.parameter_schema  # malformed JSON is an error that names the row
            names = tuple(sorted(foreign.get(tool.route.url, {}).items()))
            return _findings(tool.tool_name, tool.title, tool.description, tool.schema_json, names)
        case WorkflowTool():
            return ()
        case _:
            assert_never(tool)


@lru_cache(maxsize=2048)
def _findings(
    name: str, title: str | None, description: str, schema_json: str, foreign: tuple[tuple[str, str], ...]
) -> tuple[SecurityFinding, ...]:
    from ...tools.provider.findings import scan

    definition = {"name": name, "description": description, "inputSchema": parse_object(schema_json)}
    found = scan(definition | ({"title": title} if title else {}), foreign_names=dict(foreign))
    return tuple(finding for finding in found if finding.kind not in _NOT_OF_THE_TEXT)


def _foreign_names(tools: Sequence[Tool]) -> dict[str, dict[str, str]]:
    """For each server the names of other servers' tools, which its texts should not mention."""
    names: dict[str, list[str]] = {}
    for tool in tools:
        if isinstance(tool, MCPTool):
            names.setdefault(tool.route.url, []).append(tool.tool_name)
    if len(names) < 2:
        return {}
    from ...tools.provider.findings import foreign_identifiers

    return foreign_identifiers(names)
