"""The tools of an agent's run, found by the names for models, people and servers."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, assert_never

from ...audit.secrets import calls_something_secret
from ...types.canonical import compact_json
from ...types.columns import AUTO, read_tools
from ...types.tool import MCPTool, WorkflowTool
from .functions import arguments_schema, function_definition, token_estimate
from .names import bound_names, numbered, shown_names
from .tool_search import ToolIndex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import knime.extension as knext

    from ...audit.secrets import SecretMarker
    from ...types.tool import Tool

_SUGGESTIONS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTool:
    """A tool with its names and its definition for a model.

    Attributes:
        tool: The tool.
        name: The name that the model uses.
        shown_name: The name that people see.
        definition: The function for the model. Do not change it.
    """

    tool: Tool
    name: str
    shown_name: str
    definition: dict[str, Any]


class Toolset:
    """Tools of both types, with names for a model.

    Args:
        tools: The tools; duplicates count once.

    Raises:
        ToolFormatError: A cell holds malformed JSON; the error names the row.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        distinct = list(dict.fromkeys(tools))
        self.bound: tuple[BoundTool, ...] = tuple(
            BoundTool(tool=tool, name=name, shown_name=shown, definition=function_definition(tool, name))
            for tool, name, shown in zip(distinct, bound_names(distinct), shown_names(distinct), strict=True)
        )
        self._by_name = {bound.name: bound for bound in self.bound}
        self._by_tool = {bound.tool: bound for bound in self.bound}
        self._by_shown = {bound.shown_name: bound for bound in self.bound}

    def __len__(self) -> int:
        return len(self.bound)

    @cached_property
    def has_data(self) -> bool:
        """True if a tool takes or gives tables."""
        return any(_has_data(bound.tool) for bound in self.bound)

    @cached_property
    def tokens(self) -> int:
        """Estimated tokens of all functions."""
        return token_estimate(bound.definition for bound in self.bound)

    @cached_property
    def index(self) -> ToolIndex:
        """The search index of the tools; positions are those in `bound`."""
        return ToolIndex([bound.definition for bound in self.bound])

    def free_name(self, wanted: str) -> str:
        """Returns a name for a built-in tool: the wanted name, with a number if a real tool has it."""
        return numbered([*self._by_name, wanted], "_{}")[-1]

    def find(self, name: str) -> BoundTool | None:
        """Finds a tool by the name that a model uses."""
        return self._by_name.get(name)

    def of(self, tool: Tool) -> BoundTool:
        """Returns a tool with its names; a tool outside this toolset gets names here."""
        bound = self._by_tool.get(tool)
        return Toolset([tool]).bound[0] if bound is None else bound

    def shown_name(self, name: str) -> str:
        """Returns the name that people see for a bound name; an unknown name is returned unchanged."""
        bound = self._by_name.get(name)
        return name if bound is None else bound.shown_name

    def bound_name(self, shown: str) -> str:
        """Returns the name that a model uses for a shown name; an unknown name is returned unchanged."""
        bound = self._by_shown.get(shown)
        return shown if bound is None else bound.name

    def marked(
        self, name: str, arguments: Mapping[str, Any] | None, secrets: SecretMarker
    ) -> dict[str, Any] | None:
        """Marks the secrets in the arguments of a call, so that they may be recorded.

        Args:
            name: The name that a model wrote. If no tool has it, secret arguments of all tools are marked.
            arguments: The arguments, None if they could not be read.
            secrets: The marker.
        """
        if arguments is None:
            return None
        bound = self.find(name)
        if bound is not None:
            return secrets.mark(arguments, self._secret_schemas.get(name, ""))
        marked = secrets.mark(arguments)
        for schema in self._secret_schemas.values():
            marked = secrets.mark(marked, schema)
        return marked

    def has_secrets(self, name: str) -> bool:
        """Returns whether the schema of a tool, by its bound name, has a secret argument."""
        return name in self._secret_schemas

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
        written = name.casefold()[:200]
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
    """Reads the tools of a table, workflows and MCP tools in one column or in several.

    Args:
        table: The *Tools* table.
        column: The tool column; `AUTO` for all tool columns, of which each row's first cell that is not
            missing counts.

    Returns:
        The tools in the order of the rows; rows without a tool are skipped.

    Raises:
        SettingInvalid: The column does not exist, or the table has no tool column.
        ToolFormatError: A cell cannot be read; the message names row and field.
    """
    return [tool for tool in read_tools(table, column) if tool is not None]


extract_tools = _extract_tools_from_table
"""The public name of `_extract_tools_from_table`, whose own name is KNIME's."""
