"""Tools of the agent itself: one that finds tools, one that reads on in long results.

They are no tools of a server or workflow, so their calls are not recorded. A real tool of the same name keeps
it, and the agent's own gets a number.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, assert_never

from ...types.canonical import compact_json
from ...types.errors import ArgumentsInvalid
from ...types.tool import MCPTool, WorkflowTool
from . import large_results
from .functions import built_in_definition, token_estimate
from .tool_errors import unreadable_arguments
from .toolbox import ToolReply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...types.tool import Tool
    from .large_results import LargeResults
    from .toolbox import ToolRequest
    from .toolset import Toolset

_FOUND: Final = 10
_MOST: Final = 127  # functions beside `read_result`: OpenAI's service takes 128 in all
_SHOWN_TEXT: Final = 300
_SHOWN_SERVERS: Final = 20
_QUERY: Final = {
    "query": {
        "type": "string",
        "minLength": 1,
        "description": "What the tool should do: verb and object, in English, such as 'cancel order'",
    }
}


class BuiltIns:
    """The built-in tools of one run. Safe to use from several threads.

    Args:
        toolset: The real tools.
        large: The long results.
        search_above: Estimated tokens of all functions above which the model searches, and which those that
            it found may cost; with more functions than endpoints take it always does. None never.

    Attributes:
        finder: Name of the tool that finds tools, None if all are bound from the beginning.
    """

    def __init__(self, toolset: Toolset, large: LargeResults, *, search_above: int | None) -> None:
        self._toolset = toolset
        self._large = large
        self._lock = threading.Lock()
        self._found: dict[str, int] = {}  # the last use of each
        self._uses = itertools.count()
        self._budget = search_above or 0
        self._all = [bound.definition for bound in toolset.bound]
        searches = search_above is not None and (toolset.tokens > search_above or len(toolset) > _MOST)
        self.finder = toolset.free_name("find_tools") if searches else None
        self._read = built_in_definition(large.reader, large_results.DESCRIPTION, large_results.PROPERTIES)
        self._find = built_in_definition(self.finder, _finder_text(toolset), _QUERY) if self.finder else None

    def definitions(self) -> list[dict[str, Any]]:
        """The functions to bind in the next turn: all tools, or what finds them and what was found."""
        with self._lock:
            found = list(self._found)
        definitions = list(self._all) if self._find is None else [self._find]
        if self._find is not None:
            definitions += [bound.definition for name in found if (bound := self._toolset.find(name))]
        return [*definitions, self._read] if self._large.any else definitions

    def run(self, request: ToolRequest) -> ToolReply | None:
        """Runs a call of a built-in tool; None if it is for a real one, which is then bound from now on."""
        if request.name == self._large.reader and self._large.any:
            return self._answer(request, self._read)
        if self._find is None:
            return None
        if request.name == self.finder:
            return self._answer(request, self._find)
        if self._toolset.find(request.name) is not None:
            self._bind(request.name)
        return None

    def _answer(self, request: ToolRequest, definition: Mapping[str, Any]) -> ToolReply:
        from ...tools.arguments import ArgumentValidator

        try:
            if request.arguments is None or request.error is not None:
                raise unreadable_arguments(request.error, request.written)
            schema = compact_json(definition["function"]["parameters"])
            arguments, _ = ArgumentValidator.for_schema(schema).check(request.arguments)
            origin = ""
            if request.name == self._large.reader:
                origin = self._large.origin_of(arguments["id"])
                text = self._large.read(
                    arguments["id"], arguments.get("offset", 0), arguments.get("limit", 0)
                )
            else:
                text = self._find_tools(arguments["query"])
        except ArgumentsInvalid as error:
            return ToolReply(request=request, content=f"Error: {error}", failed=True)
        return ToolReply(request=request, content=text, origin=origin)

    def _find_tools(self, query: str) -> str:
        found = [self._toolset.bound[position] for position in self._toolset.index.find(query, _FOUND)]
        if not found:
            return "No tool fits. Try other words: verb and object, in English."
        self._bind(*(bound.name for bound in found))
        lines = [
            compact_json(
                {"name": bound.name, "description": bound.definition["function"]["description"][:_SHOWN_TEXT]}
            )
            for bound in found
        ]
        return "\n".join(["You can call these tools now, the most fitting first:", *lines])

    def _bind(self, *names: str) -> None:
        """Offers tools from now on; the least recently used ones make room for them."""
        with self._lock:
            is_new = not self._found.keys() >= set(names)
            self._found.update((name, next(self._uses)) for name in names)
            room = self._budget
            last_used = sorted(self._found, key=self._found.__getitem__, reverse=True) if is_new else []
            for place, bound in enumerate(map(self._toolset.find, last_used)):
                assert bound is not None
                room -= token_estimate([bound.definition])
                if place >= _FOUND and (room < 0 or place >= _MOST - 1):
                    del self._found[bound.name]


def _finder_text(toolset: Toolset) -> str:
    places = Counter(_place(bound.tool) for bound in toolset.bound)
    named = [f"{place} ({count})" for place, count in places.most_common(_SHOWN_SERVERS)]
    more = f" and {len(places) - len(named)} other servers" if len(places) > len(named) else ""
    return (
        f"Finds tools. There are {len(toolset)} of them, of {', '.join(named)}{more}. Only those that were"
        " found can be called, so call this before you say that something cannot be done."
    )


def _place(tool: Tool) -> str:  # @ToolTypeDispatch
    match tool:
        case MCPTool():
            return tool.route.display
        case WorkflowTool():
            return "KNIME workflows"
        case _:
            assert_never(tool)
