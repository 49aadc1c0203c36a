"""Parameters of every node that takes tools: which column holds them, and what a changed tool does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import knime.extension as knext

from ..types.columns import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

_IN_TOOLS: Final = (
    f"Which column of the *Tools* table holds the tools. `{AUTO}` takes all tool columns: in each row the"
    " first cell that is not missing."
)


class PinningChoice(knext.EnumParameterOptions):
    """What a changed tool does to its calls."""

    warn = ("Warn", "Call the tool as it is now, and say on the node what changed.")
    fail = ("Do not call", "Calls of a changed tool become errors; nothing is sent.")
    ignore = ("Do not compare", "Saves asking each server for its tools once.")


def tool_column(port: int, description: str = _IN_TOOLS) -> Any:
    """Makes the parameter ``tool_column``.

    Args:
        port: Position of the input with the tools.
        description: What an analyst must know.
    """
    return knext.StringParameter(
        "Tool column",
        description,
        default_value=AUTO,
        choices=_tool_columns(port),
        is_advanced=True,
    )


def pinning() -> Any:
    """Makes the parameter ``pinning``."""
    return knext.EnumParameter(
        "If a tool has changed",
        "A tool cell remembers the definition that you saw in the *MCP Tool Provider*. Before the first call"
        " the server is asked whether it still is the same.",
        default_value=PinningChoice.warn.name,
        enum=PinningChoice,
        is_advanced=True,
    )


def _tool_columns(port: int) -> Callable[[Any], list[str]]:
    def offered(context: Any) -> list[str]:
        """Offers the tool columns of the input. Never raises: the dialog would not open."""
        from ..types.columns import tool_column_names

        try:
            schema = context.get_input_specs()[port]
            names = [] if schema is None else tool_column_names(schema)
        except Exception as error:
            _log.debug("No columns in the dialog: %s", type(error).__name__)
            names = []
        return [AUTO, *(name for name in names if name != AUTO)]

    return offered
