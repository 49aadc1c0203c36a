"""The tools of node knowledge in MCP's form, for every transport: the list, and the results of calls."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from ...stdio.session import INVALID_PARAMS, Asked, Info, Refused, Report
from ...types.errors import MCPError, ToolNotFound
from ...version import VERSION
from ..answers.tool_definitions import INSTRUCTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..answers.tool_calls import NodeKnowledgeMCPService
    from ..answers.tool_definitions import ToolDefinition

_log = logging.getLogger(__name__)

META_PREFIX: Final = "org.knime-mcp/"
"""The prefix of keys in ``_meta``: https://modelcontextprotocol.io/specification/2025-11-25/basic#_meta."""

_READ_ONLY: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


class ServedTools:
    """The tools for MCP servers.

    Args:
        service: The service that answers the calls.
    """

    def __init__(self, service: NodeKnowledgeMCPService) -> None:
        self.is_brief = service.is_brief
        self._service = service
        self._listed = [_described(tool) for tool in service.get_available_tools()]

    @property
    def info(self) -> Info:
        """The name, title, version and instructions of the server."""
        return Info(
            name="knime-mcp-nodes", title="Node knowledge", version=VERSION, instructions=INSTRUCTIONS
        )

    def tools(self, *, any_json: bool = False) -> list[dict[str, Any]]:
        """The tools in MCP's form. All results are objects, so `any_json` has no effect."""
        del any_json
        return self._listed

    async def call(self, asked: Asked, report: Report | None = None) -> dict[str, Any]:
        """Runs a tool on the event loop: over pipes there is only one client, so no other request waits."""
        del report
        return self.answer(asked.tool, asked.arguments)

    def answer(self, name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """Runs a tool.

        Args:
            name: The tool.
            arguments: The arguments in the request.

        Returns:
            The result of the call in MCP's form; for a failed call, with the reason.

        Raises:
            Refused: There is no such tool.
        """
        try:
            found = self._service.invoke_tool(name, arguments)
        except ToolNotFound as error:
            raise Refused(INVALID_PARAMS, str(error)) from None
        except MCPError as error:
            return _failed(str(error))
        except Exception as error:
            # The client gets only the type, as the message could contain anything; the log has the rest.
            _log.exception("the tool %s failed unexpectedly", name)
            return _failed(f"Unexpected {type(error).__name__}. The server's log says more.")
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        return {"content": [{"type": "text", "text": text}], "structuredContent": found}


def _described(tool: ToolDefinition) -> dict[str, Any]:
    """A tool in MCP's form, with the fields that MCP does not have in ``_meta``."""
    extras = {
        "category": tool.category,
        "tags": list(tool.tags),
        "version": tool.version,
        "workflow_guidance": tool.workflow_guidance,
        "usage_examples": [dict(example) for example in tool.usage_examples],
    }
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": dict(tool.parameters),
        "outputSchema": dict(tool.output_schema),
        "annotations": _READ_ONLY,
        "_meta": {f"{META_PREFIX}{key}": value for key, value in extras.items()},
    }


def _failed(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}
