"""The kinds of tools as words and icons, for all places that show calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from ...tools.views.html import Html
from ...types.tool import MCPTool, WorkflowTool

if TYPE_CHECKING:
    from ...types.tool import Tool


@dataclass(frozen=True, slots=True)
class ToolKind:
    """A kind of tool, as shown to people.

    Attributes:
        word: The name, as not all people can tell colours and icons apart.
        glyph: One character for terminals.
        icon: A small image in the colour of the text around it.
    """

    word: str
    glyph: str
    icon: Html


def _icon(drawing: str) -> Html:
    return Html(
        '<svg viewBox="0 0 16 16" width="15" height="15" aria-hidden="true" fill="none" stroke="currentColor"'
        f' stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">{drawing}</svg>'
    )


WORKFLOW: Final = ToolKind(
    "workflow",
    "⧉",
    _icon(
        '<rect x="1" y="2" width="5" height="4" rx="1"/><rect x="1" y="10" width="5" height="4" rx="1"/>'
        '<rect x="10" y="6" width="5" height="4" rx="1"/><path d="M6 4h2v4h2M6 12h2V8"/>'
    ),
)
MCP: Final = ToolKind(
    "MCP",
    "⚡",
    _icon('<path d="M5 1v4M11 1v4M3 5h10v2a5 5 0 0 1-10 0zM8 12v3"/>'),
)
BUILT_IN: Final = ToolKind(
    "agent",
    "◦",
    _icon('<rect x="2" y="5" width="12" height="8" rx="2"/><path d="M8 5V2M5.5 9h.01M10.5 9h.01"/>'),
)
UNKNOWN: Final = ToolKind(
    "no tool",
    "?",
    _icon('<circle cx="8" cy="8" r="6.5"/><path d="M6 6.5a2 2 0 1 1 2 2V9.5M8 12h.01"/>'),
)
UNFINISHED: Final = ToolKind(
    "tool",
    "…",
    _icon('<circle cx="8" cy="8" r="6.5"/><path d="M5 8h.01M8 8h.01M11 8h.01"/>'),
)


def kind_of(
    tool: Tool | None, *, recorded: bool = True, unfinished: bool = False
) -> ToolKind:  # @ToolTypeDispatch
    """Returns the kind of the tool that was called.

    Args:
        tool: The tool, None for a built-in or unknown tool.
        recorded: Whether the call has a record; calls of built-in tools have none.
        unfinished: Whether the run ended before the call did.
    """
    match tool:
        case None if unfinished:
            return UNFINISHED
        case None:
            return UNKNOWN if recorded else BUILT_IN
        case MCPTool():
            return MCP
        case WorkflowTool():
            return WORKFLOW
        case _:
            assert_never(tool)
