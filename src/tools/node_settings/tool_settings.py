"""Shared parts of several nodes' parameters: choices, the column of tools, changed tools."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import knime.extension as knext

from ...types.column_kinds import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)

NO_COLUMN: Final = "<none>"
"""The choice of no column. First and default: see `credentials.NO_CREDENTIAL`."""
_IN_TOOLS: Final = (
    f"Which column of the *Tools* table holds the tools. `{AUTO}` takes all tool columns: in each row the"
    " first cell that is not missing. A String column with tools that was renamed has to be chosen here."
)


class PinningChoice(knext.EnumParameterOptions):
    """The effects that a changed tool can have on its calls."""

    warn = ("Warn", "Call the tool as it is now, and say on the node what changed.")
    fail = ("Do not call", "Calls of a changed tool become errors; nothing is sent.")
    ignore = ("Do not compare", "Saves asking each server for its tools once.")


def tool_column(port: int, description: str = _IN_TOOLS) -> Any:
    """Makes the parameter ``tool_column``, for the input at a port."""
    return knext.StringParameter(
        "Tool column",
        description,
        default_value=AUTO,
        choices=column_choices(AUTO, lambda specs: _tool_columns(specs[port])),
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


def labelled(choices: Iterable[tuple[str, str, str]]) -> list[Any]:
    """Makes choices of value, label and description; before KNIME 5.8 choices are plain values."""
    choice = getattr(knext.StringParameter, "Choice", None)
    return [entry[0] if choice is None else choice(*entry) for entry in choices]


def column_choices(first: str, columns: Callable[[list[Any]], list[str]]) -> Callable[[Any], list[str]]:
    """Makes the function that gives KNIME the choices of a parameter that names a column.

    Args:
        first: The first choice and default, which stands for no column.
        columns: Gives the names of the columns from the specs of the node's inputs. If it raises, no columns
            are offered, so that the dialog opens.
    """

    def offered(context: Any) -> list[str]:
        try:
            names = columns(list(context.get_input_specs()))
        except Exception as error:
            _log.debug("No columns in the dialog: %s", type(error).__name__)
            names = []
        return [first, *(name for name in names if name != first)]

    return offered


def chosen_column(name: str | None) -> str | None:
    """The column that a setting names, None for none."""
    return None if name in (None, "", NO_COLUMN) else name


def _tool_columns(schema: Any) -> list[str]:
    """The tool columns; without any, every column that could hold tools as JSON."""
    from ...types.columns import may_hold_tools, tool_column_names

    if schema is None:
        return []
    return tool_column_names(schema) or [column.name for column in schema if may_hold_tools(column)]
