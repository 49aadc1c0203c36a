"""The tools of the node knowledge, as the gateway calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .tools import GatewayTool, ToolSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..service import NodeKnowledgeMCPService


class KnowledgeTools(ToolSource):
    """The node knowledge as a source of tools.

    Args:
        service: Answers.
    """

    def __init__(self, service: NodeKnowledgeMCPService) -> None:
        self._service = service

    def tools(self) -> Iterable[GatewayTool]:
        """The tools, always in the same order."""
        for tool in self._service.get_available_tools():
            yield GatewayTool(
                name=tool.name,
                description=tool.description,
                parameters=tool.parameters,
                category=tool.category,
                tags=tool.tags,
                guidance=tool.workflow_guidance,
                examples=tool.usage_examples,
                version=tool.version,
            )

    def invoke(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Runs a tool."""
        return self._service.invoke_tool(name, arguments)

    def is_brief(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call takes a few milliseconds."""
        return self._service.is_brief(arguments)

    def problem(self) -> str | None:
        """Why the catalogue cannot be read; None if it can."""
        return self._service.health()["error"]
