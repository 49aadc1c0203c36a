"""What a model is shown of the definitions of strangers: one look at them, before any model, for every user.

A model reads descriptions as if the person had written them. Hidden characters in them are taken out: people
could not see what the model reads. Where they are in a name or a value that a call must repeat, the tool is
left out. Other suspicious texts are shown to people.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from ...types.texts import compact_json, hidden_characters, only_visible, parse_object, visible
from ...types.tool import MCPTool, WorkflowTool
from ..model.plain_schema import DATA_WORDS, SCHEMAS_BY_NAME
from ..model.strict_schema import repeats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...tools.provider.findings import SecurityFinding
    from ...types.tool import Tool

_SHOWN: Final = 3
_OF_ARGUMENTS: Final = ("", "Arguments", "Args", "Input", "Params", "Parameters")
_FOR_PEOPLE: Final = frozenset({"description", "title", "$comment"})
_NOT_OF_THE_TEXT: Final = frozenset({"contradiction", "unusable schema"})
_LOOK: Final = (
    "Look at them in the Provider's Security findings, or with knime-mcp list, before you trust the server"
)


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
