"""Reads the table *Conversation*: finds its column, and reads the messages of each prompt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ...types.columns import java_factory
from ...types.errors import InputInvalid
from ..message_content import ORIGIN
from ..model.written_calls import mappings, read_arguments
from .conversation_table import (
    BLOCKS,
    CALL_ID,
    CALLS,
    ERRORS,
    INPUT_ROW,
    NAME,
    ORIGIN_COLUMN,
    ROLE,
    ConversationRow,
    ai_message,
    content_of,
    from_cell,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.messages import BaseMessage

MESSAGE_FACTORY: Final = "org.knime.ai.core.data.message.MessageValueFactory"
_PARTS: Final = (ROLE, CALLS, CALL_ID, NAME, BLOCKS, ORIGIN_COLUMN)
_ROLES: Final = {
    "user": "user",
    "human": "user",
    "ai": "ai",
    "assistant": "ai",
    "tool": "tool",
    "system": "system",
    "developer": "system",
}


def conversation_columns(schema: Any) -> list[str]:
    """Lists the columns of Message cells; if there are none but a column *Role*, the text columns."""
    import knime.api.schema as ks

    cells = [column.name for column in schema if is_message_column(column)]
    names = [column.name for column in schema]
    if cells or ROLE not in names:
        return cells
    special = {*_PARTS, INPUT_ROW, ERRORS}
    return [column.name for column in schema if column.ktype == ks.string() and column.name not in special]


def default_column(schema: Any) -> str | None:
    """Chooses the column with the conversation; None if no column can hold one.

    That is the last column of Message cells, as in KNIME's agents; without one the text column after *Role*.
    """
    names = conversation_columns(schema)
    if not names:
        return None
    if any(is_message_column(column) for column in schema):
        return names[-1]
    order = [column.name for column in schema]
    # Our own table has the text behind the role; columns of the user stand before it.
    return next((name for name in names if order.index(name) > order.index(ROLE)), names[0])


def is_message_column(column: Any) -> bool:
    return java_factory(column.ktype) == MESSAGE_FACTORY


def read_conversation(table: Any, column: str) -> list[ConversationRow]:
    """Reads the rows of a conversation, with the RowID of their prompt if there are several.

    ``column`` has the messages, or their text. With a column of errors a row has either a message or an
    error, without one rows without a message are left out. The error about a row that cannot be read names
    it.
    """
    from ...tools.node_settings.shared_parameters import text_columns

    names = [entry.name for entry in table.schema]
    error_column = ERRORS if ERRORS in text_columns(table.schema) and column != ERRORS else None
    candidates = dict.fromkeys((column, error_column, INPUT_ROW, *_PARTS))
    wanted = [name for name in candidates if name is not None and name in names]
    data = table[wanted].to_pyarrow()
    cells = {name: _storage(data.column(name)) for name in wanted}
    row_ids = _storage(data.column(0))
    entries: list[ConversationRow] = []
    for position, row_id in enumerate(row_ids):
        row = {name: values[position] for name, values in cells.items()}
        message = _message(row, column, row_id)
        error = row[error_column] if error_column is not None else None
        # As KNIME's own agents refuse it.
        if error_column is not None and (message is None) == (error is None):
            state = "both a message and an error" if message is not None else "neither message nor error"
            raise InputInvalid(
                f"The row holds {state}", row=row_id, fix="Remove it from the table Conversation history"
            )
        if message is not None or error is not None:
            entries.append(ConversationRow(message=message, error=error, input_row=row.get(INPUT_ROW)))
    return entries


def _storage(column: Any) -> list[Any]:
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    # The stored parts: KNIME's value factory of messages would need its AI extension in this Python.
    return [cell for chunk in chunks for cell in getattr(chunk, "storage", chunk).to_pylist()]


def _message(row: Mapping[str, Any], column: str, row_id: str) -> BaseMessage | None:
    cell = row[column]
    try:
        if not isinstance(cell, dict):
            return message_of(row, cell)
        return _with_origin(from_cell(cell), row)  # pyright: ignore[reportUnknownArgumentType]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputInvalid(
            f"The message cannot be read: {error}",
            row=row_id,
            fix="Connect a table Conversation as an agent made it, or remove the row",
        ) from None


def message_of(row: Mapping[str, Any], text: Any) -> BaseMessage | None:
    """Reads a message from a row with a column for each part; None for a row without a role.

    Raises `ValueError` if the role is unknown, a cell holds no list of JSON objects, or a call has no name.
    """
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

    role = row.get(ROLE)
    if role is None:
        return None
    known = _ROLES.get(str(role).strip().lower())
    if known is None:
        raise ValueError(f"its role is '{role}', and not user, ai or tool")
    blocks = _objects(row, BLOCKS)
    content = content_of(blocks) if blocks else str(text or "")
    name = row.get(NAME)
    match known:
        case "user":
            return HumanMessage(content=content, name=name)
        case "system":
            return SystemMessage(content=content)
        case "ai":
            return ai_message(content, list(map(_call, _objects(row, CALLS))), name=name)
        case _:
            answer = ToolMessage(content=content, tool_call_id=str(row.get(CALL_ID) or ""), name=name)
            return _with_origin(answer, row)


def _with_origin(message: BaseMessage, row: Mapping[str, Any]) -> BaseMessage:
    """The message with who wrote it: what its own column says, and no text of a server can."""
    if origin := row.get(ORIGIN_COLUMN):
        message.additional_kwargs[ORIGIN] = str(origin)
    return message


def _objects(row: Mapping[str, Any], column: str) -> list[dict[str, Any]]:
    entries: Any = json.loads(row.get(column) or "[]") or []
    objects = mappings(entries)
    if objects != entries:
        raise ValueError(f"the cell '{column}' holds no list of JSON objects")
    return objects


def _call(call: dict[str, Any]) -> dict[str, Any]:
    """Reads a call as this table has it, or as OpenAI (``function``) or LangChain (``args``) write it."""
    function: dict[str, Any] = call["function"] if isinstance(call.get("function"), dict) else call
    if not function.get("name"):
        raise ValueError("a tool call has no name")
    arguments = function.get("arguments", function.get("args"))
    parsed, error = read_arguments(arguments)
    return {
        "id": str(call.get("id") or ""),
        "name": str(function["name"]),
        "arguments": parsed if error is None else arguments,
    }


def of_row(entries: Sequence[ConversationRow], row: str | None) -> list[ConversationRow]:
    """The history entries of one prompt's row (None: the only prompt), and entries without a row.

    Raises `InputInvalid` if there is one prompt, but the history holds the conversations of several.
    """
    input_rows = {entry.input_row for entry in entries if entry.input_row is not None}
    if row is None and len(input_rows) > 1:
        raise InputInvalid(
            f"The history holds the conversations of {len(input_rows)} prompts",
            fix=f"Keep one of them with a Row Filter on '{INPUT_ROW}', or choose a prompt column",
        )
    return [entry for entry in entries if row is None or entry.input_row in {None, row}]


def renamed(message: BaseMessage, name_of: Callable[[str], str]) -> BaseMessage:
    """Changes the names of tools in a message; returns a copy if the message names any."""
    from langchain_core.messages import AIMessage, ToolMessage

    match message:
        case AIMessage() if message.tool_calls or message.invalid_tool_calls:
            changed = {
                "tool_calls": [{**call, "name": name_of(call["name"])} for call in message.tool_calls],
                "invalid_tool_calls": [
                    {**call, "name": name_of(call["name"] or "")} for call in message.invalid_tool_calls
                ],
            }
            return message.model_copy(update=changed)
        case ToolMessage() if message.name:
            return message.model_copy(update={"name": name_of(message.name)})
        case _:
            return message
