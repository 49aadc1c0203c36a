"""The agent's tool for reading resources to which results of tools have linked (``resources/read``).

It reads only what was linked, from the server that linked it. Reading is a call like those of tools: rules
and limits hold, it is on record, and what was read is a result of that server.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...client.protocol.offers import contents_of
from ...client.protocol.tools import CallToolResult, EmbeddedResource, ResourceLink
from ...runs.call_values import PlannedCall
from ...runs.checked_calls import answer_of, make_here
from ...runs.server_questions import READING
from ...types.errors import ArgumentsInvalid
from ...types.tool import MCPTool
from .toolset import BoundTool, built_in_definition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...client.protocol.tools import ContentBlock
    from ...runs.call_values import ToolAnswer
    from ...runs.engine import CallInProgress, Run
    from ...types.routing import ServerRoute
    from .replies import ToolRequest

_TEXT: Final = "Reads a resource to which the result of a tool has linked."
_URI: Final = {"uri": {"type": "string", "description": "The URI, as it stands in the link"}}
_HINTS: Final = {"readOnlyHint": True}  # which counts for servers that are trusted, as for tools
_MOST_LINKS: Final = 10_000
_SHOWN: Final = 20
_PICTURES: Final = "image/"

Links: TypeAlias = "dict[str, ServerRoute]"
"""The servers of resources to which results of a conversation have linked, by their URIs."""


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
