"""Checks the agent's settings against its inputs: the columns to use, and errors.

``node`` is a node with the parameters of `settings`; ``history``, ``tools`` and ``data`` are schemas of its
inputs, None where nothing is connected or known yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...tools.node_settings.tool_settings import chosen_column
from ...types.columns import AUTO
from ...types.errors import SettingInvalid
from .settings import ErrorHandling, text_columns

if TYPE_CHECKING:
    from .conversation import ConversationLayout


def prompt_column_of(node: Any) -> str | None:
    """Reads the setting ``prompt_column``; None for a single prompt."""
    return chosen_column(node.prompt_column)


def layout_of(node: Any, history: Any | None) -> ConversationLayout:
    """Decides on the columns of *Conversation*.

    Raises:
        SettingInvalid: There is no column for the conversation, or two columns would have one name.
    """
    from .conversation import ConversationLayout, choose_message_form

    per_row = prompt_column_of(node) is not None
    column = history_column(node, history) or node.conversation_column_name.strip()
    if not column:
        raise SettingInvalid(
            "The conversation column has no name",
            setting="conversation_column_name",
            fix="Enter one under 'Conversation column name'",
        )
    error_column = None
    if per_row or node.errors.error_handling == ErrorHandling.COLUMN.name:
        error_column = (
            history_error_column(node, history) or node.errors.error_column_name.strip() or "Errors"
        )
    return ConversationLayout(
        form=choose_message_form(node.conversation_form),
        column=column,
        error_column=error_column,
        per_row=per_row,
    )


def history_column(node: Any, history: Any | None) -> str | None:
    """Finds the column of the history with the messages, None without a history.

    Raises:
        SettingInvalid: The history has no such column.
    """
    from .history import conversation_columns, default_column

    if history is None:
        return None
    setting = node.conversation_column
    is_auto = setting in (None, "", AUTO)
    column = default_column(history) if is_auto else setting
    if column in conversation_columns(history):
        return column
    what = "has no conversation column" if is_auto else f"has no messages in '{setting}'"
    raise SettingInvalid(
        f"The Conversation history {what}",
        setting="conversation_column",
        fix="Connect the Conversation of an agent, or a table with columns of roles ('Role') and texts",
    )


def history_error_column(node: Any, history: Any | None) -> str | None:
    """Finds the column of the history with errors; None without a history, or if the settings use none.

    Raises:
        SettingInvalid: The history has no such column.
    """
    errors = node.errors
    if history is None or not errors.use_existing_error_column:
        return None
    if errors.error_handling != ErrorHandling.COLUMN.name:
        return None
    names = text_columns(history)
    if errors.error_column in names:
        return errors.error_column
    raise SettingInvalid(
        "The Conversation history has no such error column",
        setting="error_column",
        fix=f"Choose one of {', '.join(names)}" if names else "Switch 'Continue existing error column' off",
    )


def check(node: Any, tools: Any | None, history: Any | None, data: list[Any]) -> None:
    """Checks the settings against the connected inputs; makes no connection.

    Raises:
        SettingInvalid: A setting cannot work; the error says what to do.
    """
    from ...types.columns import tool_column_names
    from ..toolbox.approval import ApprovalPolicy

    if tools is not None and not tool_column_names(tools, node.tool_column):
        raise SettingInvalid(
            "The Tools table has no tool column",
            setting="tool_column",
            fix="Connect the Tools output of an MCP Tool Provider, a Workflow to Tool node, or both through"
            " Concatenate",
        )
    column = prompt_column_of(node)
    if column is not None:
        _check_prompt_column(column, data)
    elif not node.user_message.strip() and history is None:
        raise SettingInvalid(
            "There is no prompt",
            setting="user_message",
            fix="Enter a question or task under 'User message', or choose a prompt column",
        )
    ApprovalPolicy.parse(node.approval, node.trusted_servers)


def _check_prompt_column(column: str, data: list[Any]) -> None:
    if not data:
        raise SettingInvalid(
            f"The prompt column '{column}' is chosen, but there is no table of prompts",
            setting="prompt_column",
            fix="Add a 'Data inputs' port and connect the table, or choose <none>",
        )
    if data[0] is not None and column not in text_columns(data[0]):
        raise SettingInvalid(
            f"The first table of the Data inputs has no text column '{column}'",
            setting="prompt_column",
            fix="Open the dialog and choose a column",
        )
