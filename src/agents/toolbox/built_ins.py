"""The agent's built-in tools: one finds tools, one reads on in long results.

Calls of built-in tools are not recorded, as they reach no server or workflow. If a real tool has the same
name, the built-in tool gets a number behind its name.
"""

from __future__ import annotations

import base64
import itertools
import re
import threading
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...client.protocol.offers import contents_of
from ...client.protocol.tools import CallToolResult, EmbeddedResource, ResourceLink
from ...runs.call_values import PlannedCall
from ...runs.checked_calls import answer_of, make_here
from ...runs.server_questions import READING
from ...types.errors import ArgumentsInvalid
from ...types.texts import compact_json
from ...types.tool import MCPTool
from .replies import AGENT_ORIGIN, ToolReply, origin_of, unreadable_arguments
from .toolset import BoundTool, built_in_definition, token_estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...client.protocol.tools import ContentBlock
    from ...runs.call_values import ToolAnswer
    from ...runs.engine import CallInProgress, Run
    from ...types.routing import ServerRoute
    from .replies import LargeResults, ToolRequest
    from .toolset import Toolset

_MOST_FOUND: Final = 10
_MOST_FUNCTIONS: Final = 128  # OpenAI's service takes no more
_SHOWN_TEXT: Final = 300
_SHOWN_SERVERS: Final = 20
_LONGEST_NAMES: Final = 16_000  # characters of names, some 4,000 tokens
_QUERY: Final = (
    "What the tool should do: verb and object, in English, such as 'cancel order'; or the names of tools"
)
_PLACE: Final = {
    "id": {"type": "string", "description": "Id of the result, such as r1"},
    "offset": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "Position of the first character",
    },
}
_NAME: Final = re.compile(r"[\w-]+")
_READER_TEXT: Final = "Reads on in a result of a tool that was too long to be shown as a whole."
_TEXT: Final = "Reads a resource to which the result of a tool has linked."
_URI: Final = {"uri": {"type": "string", "description": "The URI, as it stands in the link"}}
_HINTS: Final = {"readOnlyHint": True}  # which counts for servers that are trusted, as for tools
_MOST_LINKS: Final = 10_000
_SHOWN: Final = 20
_PICTURES: Final = "image/"

Links: TypeAlias = "dict[str, ServerRoute]"
"""The servers of resources to which results of a conversation have linked, by their URIs."""


class BuiltIns:
    """The built-in tools of one run. Safe to use from several threads.

    ``search_above`` are the estimated tokens of all functions above which the model has to search for tools,
    and the most tokens for the tools that it found. With more functions than endpoints accept, the model
    always searches; with None never. `finder` is None if all tools are bound from the beginning. `reader` is
    the function that reads on.
    """

    def __init__(self, toolset: Toolset, large: LargeResults, *, search_above: int | None) -> None:
        self._toolset = toolset
        self._large = large
        self._lock = threading.Lock()
        self._last_uses: dict[str, int] = {}  # number of the last use, by name of each tool that was found
        self._uses = itertools.count()
        self._budget = search_above or 0
        self._all = [bound.definition for bound in toolset.bound]
        self._most_found, self._most_bound = _MOST_FOUND, _MOST_FUNCTIONS - 2  # the finder and the reader
        self.finder: str | None = None
        self._find: dict[str, Any] | None = None
        self.reader = built_in_definition(large.reader, _READER_TEXT, _PLACE)
        if search_above is not None and (toolset.tokens > search_above or len(toolset) >= _MOST_FUNCTIONS):
            self._search()

    def _search(self) -> None:
        self.finder = self._toolset.free_name("find_tools")
        self._find = built_in_definition(self.finder, _finder_text(self._toolset), _query(self._toolset))

    def search_within(self, context: int | None) -> bool:
        """Has the model search for tools if they take more than a quarter of its context.

        Each further time, fewer tools are found at once. Returns False if that changes nothing.
        """
        room = (self._toolset.tokens if context is None else context) // 4
        if self._toolset.tokens <= room or len(self._toolset) < 2 or self._most_found == 1:
            return False
        with self._lock:
            self._budget = min(self._budget, room) or room
            self._most_found = max(1, self._most_found // 3)
            for name in list(self._last_uses)[: -self._most_found]:
                del self._last_uses[name]
        if self._find is None:
            self._search()
        return True

    def search_among(self, most: int) -> bool:
        """Has the model search for tools, and binds no more than so many; False if that changes nothing."""
        bound = most - 2
        if not 0 < bound < self._most_bound or len(self._toolset) < most:
            return False
        with self._lock:
            self._most_bound, self._most_found = bound, min(bound, self._most_found)
            self._budget = self._budget or self._toolset.tokens
            for name in list(self._last_uses)[:-bound]:
                del self._last_uses[name]
        if self._find is None:
            self._search()
        return True

    def definitions(self) -> list[dict[str, Any]]:
        """The functions to bind in the next turn: all tools, or the finder and the tools that it found."""
        with self._lock:
            names = list(self._last_uses)
        definitions = list(self._all) if self._find is None else [self._find]
        if self._find is not None:
            definitions += [bound.definition for name in names if (bound := self._toolset.by_name.get(name))]
        return [*definitions, self.reader] if self._large.any else definitions

    def run(self, request: ToolRequest) -> ToolReply | None:
        """Runs a call of a built-in tool; returns None for a real tool, which is bound from now on."""
        if request.name == self._large.reader and self._large.any:
            return self.read_on(request)
        if self._find is None:
            return None
        if request.name == self.finder:
            return self._answer(request, self._find)
        # A tool that a model calls without having found it is one that it knows from the conversation.
        if request.name in self._toolset.by_name:
            self._bind(request.name)
        return None

    def read_on(self, request: ToolRequest) -> ToolReply:
        return self._answer(request, self.reader)

    def _answer(self, request: ToolRequest, definition: Mapping[str, Any]) -> ToolReply:
        from ...runs.checked_calls import ArgumentValidator

        try:
            if request.arguments is None or request.error is not None:
                raise unreadable_arguments(request.error, request.written)
            schema = compact_json(definition["function"]["parameters"])
            arguments, _ = ArgumentValidator.for_schema(schema).check(request.arguments)
            origin = AGENT_ORIGIN
            if request.name == self._large.reader:
                origin = self._large.origin_of(arguments["id"])
                text = self._large.read(arguments["id"], arguments.get("offset", 0))
            else:
                text = self._find_tools(arguments["query"])
        except ArgumentsInvalid as error:
            return ToolReply(request=request, content=f"Error: {error}", failed=True)
        label = self._toolset.labels.get(origin, "")
        return ToolReply(request=request, content=text, origin=origin, label=label)

    def _find_tools(self, query: str) -> str:
        named = [
            self._toolset.by_name[name] for name in _NAME.findall(query) if name in self._toolset.by_name
        ]
        found = [self._toolset.bound[position] for position in self._toolset.index.find(query, _MOST_FOUND)]
        tools = list({bound.name: bound for bound in (*named, *found)}.values())[: self._most_found]
        if not tools:
            return "No tool fits. Try other words: verb and object, in English."
        self._bind(*(bound.name for bound in tools))
        lines = [
            compact_json(
                {"name": bound.name, "description": bound.definition["function"]["description"][:_SHOWN_TEXT]}
            )
            for bound in tools
        ]
        return "\n".join(["You can call these tools now, the most fitting first:", *lines])

    def _bind(self, *names: str) -> None:
        """Binds tools from now on; the least recently used tools make room for them."""
        with self._lock:
            # Only then may tools have to go.
            is_new = not self._last_uses.keys() >= set(names)
            self._last_uses.update((name, next(self._uses)) for name in names)
            room = self._budget
            uses = self._last_uses
            last_used = sorted(uses, key=uses.__getitem__, reverse=True) if is_new else []
            for place, bound in enumerate(self._toolset.by_name[name] for name in last_used):
                room -= token_estimate([bound.definition])
                # What one search gives always stays, however large it is.
                if place >= self._most_found and (room < 0 or place >= self._most_bound):
                    del self._last_uses[bound.name]


def _finder_text(toolset: Toolset) -> str:
    places = Counter(origin_of(bound.tool) for bound in toolset.bound)
    shown = [f"{place} ({count})" for place, count in places.most_common(_SHOWN_SERVERS)]
    more = f" and {len(places) - len(shown)} other servers" if len(places) > len(shown) else ""
    return (
        f"Finds tools. There are {len(toolset)} of them, of {', '.join(shown)}{more}. Only those that were"
        " found can be called, so call this before you say that something cannot be done."
    )


def _query(toolset: Toolset) -> dict[str, Any]:
    """The finder's argument, with the names of the tools as far as they fit.

    They stand here, as some endpoints take only 1,024 characters of a function's own description.
    """
    names: list[str] = []
    room = _LONGEST_NAMES
    for bound in toolset.bound:
        room -= len(bound.name) + 2
        if room < 0:
            names.append("…")
            break
        names.append(bound.name)
    text = f"{_QUERY}. The tools are: {', '.join(names)}"
    return {"query": {"type": "string", "minLength": 1, "description": text}}


def remember(links: Links, tool: MCPTool, blocks: Iterable[ContentBlock]) -> None:
    """Remembers what a result has linked; the oldest links are forgotten."""
    for block in blocks:
        if isinstance(block, ResourceLink) and block.uri:
            # So that it becomes the newest one.
            links.pop(block.uri, None)
            # Only that server is asked: a link of one server must not make the agent read at another.
            links[block.uri] = replace(tool.route, tool=None, digest=None)
            if len(links) > _MOST_LINKS:
                del links[next(iter(links))]


def reader_definition(name: str) -> dict[str, Any]:
    """The function for the model."""
    return built_in_definition(name, _TEXT, _URI)


def planned_reading(links: Links, request: ToolRequest) -> tuple[BoundTool, PlannedCall]:
    """The call that a request means, of the server that has linked the resource.

    Raises `ArgumentsInvalid` if nothing has.
    """
    uri = (request.arguments or {}).get("uri")
    route = links.get(uri) if isinstance(uri, str) else None
    if route is None:
        raise ArgumentsInvalid(
            f"No result has linked to {uri!r}"[:500],
            pointer="/uri",
            fix=f"Use one of {', '.join([*links][-_SHOWN:])}",
        )
    definition = reader_definition(request.name)
    schema = definition["function"]["parameters"]
    tool = MCPTool(READING, _TEXT, schema, route.uri, READING, annotations=_HINTS)
    bound = BoundTool(tool=tool, name=request.name, shown_name=request.name, definition=definition)
    return bound, PlannedCall(tool=tool, arguments={"uri": uri}, iteration=request.iteration)


def reads_resources(run: Run) -> Run:
    """A part of a run whose calls read resources."""
    return replace(run, make=partial(make_here, send=_read))


def _read(call: CallInProgress) -> ToolAnswer:
    assert isinstance(call.tool, MCPTool)
    client = call.run.pool.client(call.tool.route)
    # From here on the outcome is unknown if nothing comes back.
    call.sent()
    raw = client.read_resource(call.arguments["uri"], is_canceled=call.is_canceled)
    # A token may have been renewed since.
    call.run.secrets.learn(client.secrets())
    call.server_version, call.protocol = client.server.version, client.server.protocol_version
    return answer_of(CallToolResult.from_raw({"content": [_block(block) for block in contents_of(raw)]}))


def _block(block: ContentBlock) -> Mapping[str, Any]:
    """A content of a resource as a block of a result; a picture as one that models can see."""
    match block:
        case EmbeddedResource(mime_type=str(kind), blob=bytes(data)) if kind.startswith(_PICTURES):
            return {"type": "image", "mimeType": kind, "data": base64.b64encode(data).decode()}
        case _:
            return block.raw
