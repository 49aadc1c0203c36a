"""The tools of one run of an agent, by all the names that a model, a person and a server have for them."""

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
    """A tool as a model knows it.

    Attributes:
        tool: The tool.
        name: The name that the model uses.
        shown_name: The name that people see.
        definition: What the model is told. Do not change it.
    """

    tool: Tool
    name: str
    shown_name: str
    definition: dict[str, Any]


class Toolset:
    """Tools of both types, named for a model.

    Args:
        tools: The tools; one that is there twice counts once.

    Raises:
        ToolFormatError: A cell holds malformed JSON; names the row.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        own = list(dict.fromkeys(tools))
        self.bound: tuple[BoundTool, ...] = tuple(
            BoundTool(tool=tool, name=name, shown_name=shown, definition=function_definition(tool, name))
            for tool, name, shown in zip(own, bound_names(own), shown_names(own), strict=True)
        )
        self._by_name = {bound.name: bound for bound in self.bound}
        self._by_tool = {bound.tool: bound for bound in self.bound}
        self._by_shown = {bound.shown_name: bound for bound in self.bound}

    def __len__(self) -> int:
        return len(self.bound)

    @cached_property
    def has_data(self) -> bool:
        """Whether a tool takes or gives tables."""
        return any(_has_data(bound.tool) for bound in self.bound)

    @cached_property
    def tokens(self) -> int:
        """Estimated tokens of all functions."""
        return token_estimate(bound.definition for bound in self.bound)

    @cached_property
    def index(self) -> ToolIndex:
        """Finds tools by what they are for; positions are those in `bound`."""
        return ToolIndex([bound.definition for bound in self.bound])

    def free_name(self, wanted: str) -> str:
        """Names a tool of the agent itself: the name, numbered where a real tool has it."""
        return numbered([*self._by_name, wanted], "_{}")[-1]

    def find(self, name: str) -> BoundTool | None:
        """Finds a tool by the name that a model uses."""
        return self._by_name.get(name)

    def of(self, tool: Tool) -> BoundTool:
        """Returns a tool as a model knows it, or would know it."""
        bound = self._by_tool.get(tool)
        return Toolset([tool]).bound[0] if bound is None else bound

    def shown_name(self, name: str) -> str:
        """Returns the name that people see for a bound name; the same text if it is not known."""
        bound = self._by_name.get(name)
        return name if bound is None else bound.shown_name

    def bound_name(self, shown: str) -> str:
        """Returns the name that a model uses for a shown name; the same text if there is no such tool."""
        bound = self._by_shown.get(shown)
        return shown if bound is None else bound.name

    def marked(
        self, name: str, arguments: Mapping[str, Any] | None, secrets: SecretMarker
    ) -> dict[str, Any] | None:
        """Marks the secrets in the arguments of a call, as they may be on record.

        Args:
            name: The name that a model wrote. If no tool has it, what any of them calls a secret is one.
            arguments: The arguments, None if they could not be read.
            secrets: Marks them.
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
        """Returns whether a tool, by its bound name, calls some argument secret."""
        return name in self._secret_schemas

    @cached_property
    def _secret_schemas(self) -> dict[str, str]:
        schemas = {bound.name: compact_json(_written_schema(bound.tool)) for bound in self.bound}
        return {name: schema for name, schema in schemas.items() if calls_something_secret(schema)}

    def similar(self, name: str) -> tuple[str, ...]:
        """Finds the names that a model may have meant, the most likely first.

        Upper and lower case do not matter, nor what some models put around a name, as in
        ``functions.search``.
        """
        folded: dict[str, str] = {}
        for bound in self.bound:
            for spelling in (bound.name, bound.shown_name, bound.tool.name):
                folded.setdefault(spelling.casefold(), bound.name)
        written = name.casefold()[:200]
        found = [part for part in re.findall(r"[\w-]+", written) if part in folded]
        found += difflib.get_close_matches(written, folded, n=2 * _SUGGESTIONS, cutoff=0.6)
        return tuple(dict.fromkeys(folded[spelling] for spelling in found))[:_SUGGESTIONS]


def _has_data(tool: Tool) -> bool:
    return isinstance(tool, WorkflowTool) and bool(tool.input_ports or tool.output_ports)


def _written_schema(tool: Tool) -> dict[str, Any]:  # @ToolTypeDispatch
    """Describes arguments wherever a model may have written them."""
    schema = arguments_schema(tool)
    match tool:
        case MCPTool():
            return schema
        case WorkflowTool():  # models forget what is around the parameters
            return {"properties": {**tool.parameter_schema, **schema["properties"]}}
        case _:
            assert_never(tool)


def _extract_tools_from_table(table: knext.Table, column: str | None = AUTO) -> list[Tool]:
    """Reads the tools of a table, workflows and MCP tools in one column or in several.

    Args:
        table: The *Tools* table.
        column: The tool column; `AUTO` for all of them, where each row's first cell that is there counts.

    Returns:
        The tools in the order of the rows; rows without a tool are passed over.

    Raises:
        SettingInvalid: There is no such column, or no tool column at all.
        ToolFormatError: A cell cannot be read; the message names row and field.
    """
    return [tool for tool in read_tools(table, column) if tool is not None]


extract_tools = _extract_tools_from_table
"""The same for other modules."""
