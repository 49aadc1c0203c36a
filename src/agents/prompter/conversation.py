"""Writes the table *Conversation*: its columns, and messages as its rows. `history` reads the table.

Where KNIME has Message cells, the table has one column of them, as KNIME's own agents write it, so that
agents of both kinds can continue each other's conversations. Elsewhere the parts of a message have their own
columns. A row holds a message or an error, never both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from ...types.canonical import without_surrogates
from ...types.errors import SettingInvalid
from ..run.content import blocks_of, calls_of, shown_text
from .message_cells import json_text, message_type, to_cell

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from langchain_core.messages import BaseMessage

    from ..run.events import TokenUsage

INPUT_ROW: Final = "Input row"
ROLE: Final = "Role"
CALLS: Final = "Tool calls"
CALL_ID: Final = "Tool call ID"
NAME: Final = "Tool name"
BLOCKS: Final = "Content (JSON)"
Kind = Literal["string", "int64", "double"]
OUTCOME: Final[tuple[tuple[str, Kind], ...]] = (
    ("Outcome", "string"),
    ("Answer", "string"),
    ("Iterations", "int64"),
    ("Input tokens", "int64"),
    ("Output tokens", "int64"),
    ("Duration (s)", "double"),
)


class MessageForm(StrEnum):
    """The ways in which a table can hold messages."""

    MESSAGE = "message"
    """One column of KNIME's Message cells."""
    PLAIN = "plain"
    """A column for each part of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one prompt's run; written in the last row of its conversation.

    Attributes:
        ending: One of `events.Ending`, or ``error``.
        answer: The final answer, None without one.
        iterations: Turns of the model.
        usage: Tokens, None if they were not counted.
        duration: Seconds.
    """

    ending: str
    answer: str | None = None
    iterations: int = 0
    usage: TokenUsage | None = None
    duration: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of the conversation: a message, or an error in its place.

    Attributes:
        message: The message.
        error: The text of the error.
        input_row: RowID of the prompt that the row belongs to, None for a single prompt.
        outcome: The end of the prompt's run, in its last row.
    """

    message: BaseMessage | None = None
    error: str | None = None
    input_row: str | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLayout:
    """The columns of *Conversation*.

    Attributes:
        form: The form of messages in the table.
        column: Name of the column with the messages, or with their text.
        error_column: Name of the column with errors, None without one.
        per_row: True if the table holds the conversations of several prompts.
        columns: Names and kinds; the kind of a column of Message cells does not count.
    """

    form: MessageForm
    column: str = "Conversation"
    error_column: str | None = None
    per_row: bool = False
    columns: tuple[tuple[str, Kind], ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        names: list[tuple[str, Kind]] = []
        if self.per_row:
            names.append((INPUT_ROW, "string"))
        if self.form is MessageForm.PLAIN:
            names.append((ROLE, "string"))
        names.append((self.column, "string"))
        if self.form is MessageForm.PLAIN:
            names.extend((name, "string") for name in (CALLS, CALL_ID, NAME, BLOCKS))
        if self.error_column is not None:
            names.append((self.error_column, "string"))
        if self.per_row:
            names += OUTCOME
        seen_names: set[str] = set()
        for name, _ in names:
            if name in seen_names:
                raise SettingInvalid(
                    f"The table Conversation would have two columns '{name}'",
                    setting="conversation_column_name",
                    fix="Choose another name for the conversation column or the error column",
                )
            seen_names.add(name)
        object.__setattr__(self, "columns", tuple(names))

    def schema(self) -> Any:
        """Makes the spec that ``configure`` returns, a `knext.Schema`."""
        import knime.extension as knext

        types = {"string": knext.string(), "int64": knext.int64(), "double": knext.double()}
        return knext.Schema.from_columns(
            [
                knext.Column(self._message_type() if self._is_message(name) else types[kind], name)
                for name, kind in self.columns
            ]
        )

    def table(self, entries: Iterable[Entry]) -> pa.Table:
        """Makes an Arrow table with KNIME's types, without RowIDs."""
        import pyarrow as pa

        rows = [self.cells(entry) for entry in entries]
        types = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64()}
        columns: dict[str, Any] = {}
        for name, kind in self.columns:
            cells = [row.get(name) for row in rows]
            if self._is_message(name):
                message_cells = self._message_type().to_pyarrow()
                storage = pa.array(cells, message_cells.storage_type)
                columns[name] = pa.ExtensionArray.from_storage(message_cells, storage)
            else:
                columns[name] = pa.array(cells, types[kind])
        return pa.table(columns)

    def cells(self, entry: Entry) -> dict[str, Any]:
        """Makes the cells of a row, by column name; a missing cell is None or absent."""
        cells: dict[str, Any] = {}
        if entry.message is not None:
            is_cell = self.form is MessageForm.MESSAGE
            cells |= {self.column: to_cell(entry.message)} if is_cell else self._parts(entry.message)
        if self.error_column is not None and entry.error is not None:
            cells[self.error_column] = without_surrogates(entry.error)
        if self.per_row:
            cells[INPUT_ROW] = entry.input_row
            cells |= _outcome_cells(entry.outcome)
        return cells

    def _parts(self, message: BaseMessage) -> dict[str, Any]:
        from langchain_core.messages import AIMessage, ToolMessage

        blocks = blocks_of(message)
        calls = calls_of(message) if isinstance(message, AIMessage) else []
        is_tool = isinstance(message, ToolMessage)
        plain_text = all(block.get("type") == "text" for block in blocks)
        cells = {
            ROLE: "tool" if is_tool else "ai" if isinstance(message, AIMessage) else "user",
            self.column: shown_text(message),
            CALLS: json_text(calls) if calls else None,
            CALL_ID: message.tool_call_id if is_tool else None,
            NAME: message.name,
            BLOCKS: None if plain_text else json_text(blocks),
        }
        return {name: None if text is None else without_surrogates(text) for name, text in cells.items()}

    def _is_message(self, name: str) -> bool:
        return self.form is MessageForm.MESSAGE and name == self.column

    def _message_type(self) -> Any:
        logical_type = message_type()
        assert logical_type is not None  # checked by `choose_message_form`
        return logical_type


def choose_message_form(wanted: str) -> MessageForm:
    """Decides how a node writes conversations.

    Args:
        wanted: The setting ``conversation_form``: ``auto`` chooses Message cells where KNIME has them.

    Returns:
        The form.

    Raises:
        SettingInvalid: Message cells are wanted, but KNIME has none.
    """
    has_cells = message_type() is not None
    if wanted == "auto":
        return MessageForm.MESSAGE if has_cells else MessageForm.PLAIN
    if MessageForm(wanted) is MessageForm.MESSAGE and not has_cells:
        raise SettingInvalid(
            "This KNIME has no Message cells",
            setting="conversation_form",
            fix="Install KNIME's AI extension, or choose 'Find out'",
        )
    return MessageForm(wanted)


def _outcome_cells(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {}
    usage = outcome.usage
    is_counted = usage is not None and usage.turns > 0
    answer = outcome.answer
    return {
        "Outcome": outcome.ending,
        "Answer": None if answer is None else without_surrogates(answer),
        "Iterations": outcome.iterations,
        "Input tokens": usage.input if usage is not None and is_counted else None,
        "Output tokens": usage.output if usage is not None and is_counted else None,
        "Duration (s)": round(outcome.duration, 6),
    }
