"""The table *Conversation*: its columns, messages as its rows, and back.

Where KNIME has Message cells, the table has one column of them, as KNIME's own agents write it, so that
agents of both kinds can continue each other's conversations. Elsewhere the parts of a message have their
own columns. In both forms a column of its own says who wrote the result of a tool. A row holds a message or
an error, never both.

The storage of a Message cell is a struct of five fields: the role, the parts of the content (text, PNG),
the tool calls, the id of the answered call (of a model's message: its own id), and a name. The storage is
written and read directly, as KNIME's own conversion guesses the encoding of text, and writes an image's URL
in place of the image.
"""

from __future__ import annotations

import base64
import io
import json
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.columns import ROW_ID, arrow_type, java_factory, knime_columns
from ...types.errors import InputInvalid, SettingInvalid
from ...types.texts import numbered, without_surrogates
from ..message_content import (
    ORIGIN,
    blocks_of,
    calls_of,
    image_of,
    mappings,
    origin_of,
    read_arguments,
    shown_block,
    shown_text,
)
from ..model.model_errors import AnswerUnfit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from langchain_core.messages import AIMessage, BaseMessage

    from ...types.columns import ColumnKind
    from ..agent_events import TokenUsage
    from ..answer_schema import AnswerSchema

INPUT_ROW: Final = "Input row"
ROLE: Final = "Role"
CALLS: Final = "Tool calls"
CALL_ID: Final = "Tool call ID"
NAME: Final = "Tool name"
BLOCKS: Final = "Content (JSON)"
ERRORS: Final = "Errors"
"""The column of errors, by the name that KNIME's agents give it."""
ORIGIN_COLUMN: Final = "Origin"

UNREADABLE: Final = "unreadable arguments"
"""Key under which a cell keeps arguments that are no JSON object, as a cell can hold objects only."""
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
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_BEFORE: Final[tuple[tuple[str, ColumnKind], ...]] = (("Outcome", "string"), ("Answer", "string"))
_AFTER: Final[tuple[tuple[str, ColumnKind], ...]] = (
    ("Error", "string"),
    ("Iterations", "int64"),
    ("Input tokens", "int64"),
    ("Output tokens", "int64"),
    ("Duration (s)", "double"),
)


class MessageForm(StrEnum):
    MESSAGE = "message"
    """One column of KNIME's Message cells."""
    PLAIN = "plain"
    """A column for each part of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one prompt's run, which its last row has: a row of *Answers*.

    `ending` is one of `agent_events.Ending`, or ``error``; `usage` is None if tokens were not counted.
    """

    ending: str
    answer: str | None = None
    iterations: int = 0
    usage: TokenUsage | None = None
    duration: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """A row of the conversation of a prompt (`input_row`): a message, or an error in its place.

    The last row of a prompt knows the outcome of its run.
    """

    message: BaseMessage | None = None
    error: str | None = None
    input_row: str | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLayout:
    """The columns of *Conversation*; `column` has the messages, or their text. The error column may be None.

    With `per_row` the table holds the conversations of several prompts. The kind of a column of Message cells
    does not count.
    """

    form: MessageForm
    column: str = "Conversation"
    error_column: str | None = None
    per_row: bool = False
    columns: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        names: list[str] = []
        if self.per_row:
            names.append(INPUT_ROW)
        if self.form is MessageForm.PLAIN:
            names.append(ROLE)
        names.append(self.column)
        if self.form is MessageForm.PLAIN:
            names += (CALLS, CALL_ID, NAME, BLOCKS)
        names.append(ORIGIN_COLUMN)
        if self.error_column is not None:
            names.append(self.error_column)
        seen_names: set[str] = set()
        for name in names:
            if name in seen_names:
                raise SettingInvalid(
                    f"The table Conversation would have two columns '{name}'",
                    setting="user_message",
                    fix="Rename the column of messages in the Conversation history",
                )
            seen_names.add(name)
        # The class is frozen.
        object.__setattr__(self, "columns", tuple(names))

    def schema(self) -> Any:
        """Makes the spec that ``configure`` returns, a `knext.Schema`."""
        import knime.extension as knext

        return knext.Schema.from_columns(
            [
                knext.Column(self._message_type() if self._is_message(name) else knext.string(), name)
                for name in self.columns
            ]
        )

    def table(self, entries: Iterable[ConversationRow]) -> pa.Table:
        """Makes an Arrow table with KNIME's types, without RowIDs."""
        import pyarrow as pa

        rows = [self.cells(entry) for entry in entries]
        columns: dict[str, Any] = {}
        for name in self.columns:
            cells = [row.get(name) for row in rows]
            if self._is_message(name):
                message_cells = self._message_type().to_pyarrow()
                storage = pa.array(cells, message_cells.storage_type)
                columns[name] = pa.ExtensionArray.from_storage(message_cells, storage)
            else:
                columns[name] = pa.array(cells, pa.string())
        return pa.table(columns)

    def cells(self, entry: ConversationRow) -> dict[str, Any]:
        """The cells of a row, by column name; a missing cell is None or absent."""
        cells: dict[str, Any] = {}
        if entry.message is not None:
            is_cell = self.form is MessageForm.MESSAGE
            cells |= {self.column: to_cell(entry.message)} if is_cell else self._parts(entry.message)
            cells[ORIGIN_COLUMN] = origin_of(entry.message) or None
        if self.error_column is not None and entry.error is not None:
            cells[self.error_column] = without_surrogates(entry.error)
        if self.per_row:
            cells[INPUT_ROW] = entry.input_row
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
        assert logical_type is not None  # see `message_form`
        return logical_type


def message_form() -> MessageForm:
    """How a node writes conversations: as Message cells where KNIME has them."""
    return MessageForm.PLAIN if message_type() is None else MessageForm.MESSAGE


def message_type() -> Any | None:
    """Finds KNIME's logical type of Message cells; None where the AI extension is not installed."""
    import importlib

    import knime.api.schema as ks

    try:
        return ks.logical(importlib.import_module("knime.types.message").MessageValue)
    except (ImportError, AttributeError, TypeError):
        return None


def to_cell(message: BaseMessage) -> dict[str, Any]:
    """Converts a message of a user, the model or a tool to the five fields of a cell's storage.

    Raises `ValueError` for a message of another kind, such as a system message.
    """
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    cell: dict[str, Any] = {
        "1": [part for block in blocks_of(message) for part in _parts(block)],
        "2": None,
        "3": None,
        "4": None if message.name is None else without_surrogates(message.name),
    }
    match message:
        case HumanMessage():
            return {"0": "USER", **cell}
        case AIMessage():
            calls = [
                {"0": call["id"], "1": call["name"], "2": _arguments_text(call["arguments"])}
                for call in calls_of(message)
            ]
            return {"0": "AI", **cell, "2": calls or None, "3": message.id}
        case ToolMessage():
            return {"0": "TOOL", **cell, "3": message.tool_call_id}
        case _:
            raise ValueError(f"a message of type {message.type} does not go into a conversation")


def from_cell(cell: Mapping[str, Any]) -> BaseMessage:
    """Reads a message from the five fields of a cell's storage; `ValueError` if its kind is unknown."""
    from langchain_core.messages import HumanMessage, ToolMessage

    content = content_of([_block(part) for part in cell["1"] or ()])
    name = cell.get("4")
    match cell["0"]:
        case "USER":
            return HumanMessage(content=content, name=name)
        case "AI":
            calls = [
                {"id": call["0"], "name": call["1"], "arguments": _arguments(call["2"])}
                for call in cell["2"] or ()
            ]
            return ai_message(content, calls, name=name, id=cell.get("3"))
        case "TOOL":
            return ToolMessage(content=content, tool_call_id=cell.get("3") or "", name=name)
        case other:
            raise ValueError(f"a message of type {other!r} is unknown")


def ai_message(content: Any, calls: Sequence[Mapping[str, Any]], **fields: Any) -> AIMessage:
    """Makes a model's message from its content and its calls, which have the form of `calls_of`.

    Calls whose arguments are no object become invalid tool calls.
    """
    from langchain_core.messages import AIMessage

    good: list[dict[str, Any]] = [
        {"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"}
        for call in calls
        if isinstance(call["arguments"], dict)
    ]
    bad = [
        {
            "id": call["id"],
            "name": call["name"],
            "args": str(call["arguments"]),
            "error": None,
            "type": "invalid_tool_call",
        }
        for call in calls
        if not isinstance(call["arguments"], dict)
    ]
    return AIMessage(content=content, tool_calls=good, invalid_tool_calls=bad, **fields)


def json_text(value: object) -> str:
    """Writes a value that came from a model as JSON; numbers that JSON does not have become texts."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        # Python writes and reads NaN and Infinity, which other readers of JSON refuse.
        finite = json.loads(json.dumps(value), parse_constant=str)
        text = json.dumps(finite, ensure_ascii=False)
    return without_surrogates(text)


def content_of(blocks: Sequence[dict[str, Any]]) -> Any:
    """Makes the content of a message: plain text if all blocks are text, as all chat models accept that."""
    if all(block.get("type") == "text" for block in blocks):
        return "".join(str(block.get("text", "")) for block in blocks)
    return list(blocks)


def _parts(block: dict[str, Any]) -> list[dict[str, Any]]:
    image = image_of(block)
    if image is not None:
        png = _as_png(*image)
        if png is not None:
            return [{"0": "png", "1": png}]
    return [{"0": "text", "1": without_surrogates(shown_block(block)).encode()}]


def _as_png(data: bytes, mime_type: str) -> bytes | None:
    """The image as PNG, the only format in cells; None if the image cannot be converted."""
    # Servers mislabel images, and a cell with other bytes would be a broken one.
    if mime_type == "image/png" and data.startswith(_PNG):
        return data
    try:
        from PIL import Image  # in KNIME's environments; not needed for the images that are PNG already

        png = io.BytesIO()
        with Image.open(io.BytesIO(data)) as image:
            image.save(png, "PNG")
        return png.getvalue()
    except Exception:  # a broken image from a server must not lose the text beside it
        return None


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    data = bytes(part["1"] or b"")
    if part["0"] == "png":
        # KNIME's own conversion writes an image's URL in place of its bytes.
        url = data.decode() if data.startswith(b"data:image/") else _png_url(data)
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": data.decode(errors="replace")}


def _png_url(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _arguments_text(arguments: Any) -> str:
    value = cast("object", arguments if isinstance(arguments, dict) else {UNREADABLE: str(arguments)})
    return json_text(value)


def _arguments(text: Any) -> Any:
    """The arguments in a cell: an object, or the text if it holds no object."""
    if not isinstance(text, str):
        return text or {}
    try:
        value = cast("object", json.loads(text or "{}"))
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict):
        return text
    arguments = cast("dict[str, Any]", value)
    return arguments[UNREADABLE] if list(arguments) == [UNREADABLE] else arguments


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
    import knime.api.schema as ks

    names = [entry.name for entry in table.schema]
    texts = [entry.name for entry in table.schema if entry.ktype == ks.string()]
    error_column = ERRORS if ERRORS in texts and column != ERRORS else None
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
    if row.get(ROLE) is None:
        return None
    return _with_origin(_said(row, text), row)


def _said(row: Mapping[str, Any], text: Any) -> BaseMessage:
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

    role = row[ROLE]
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
            return ToolMessage(content=content, tool_call_id=str(row.get(CALL_ID) or ""), name=name)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersLayout:
    """The columns of *Answers*, after the `inputs`; a name that is taken gets a number."""

    inputs: tuple[str, ...] = ()
    answer: AnswerSchema | None = None

    @property
    def _own(self) -> list[tuple[str, ColumnKind]]:
        parts: list[tuple[str, ColumnKind]] = [] if self.answer is None else self.answer.columns
        named: list[tuple[str, ColumnKind]] = [
            (without_surrogates(name).strip() or "column", kind) for name, kind in parts
        ]
        columns = [*_BEFORE, *named, *_AFTER]
        names = numbered([ROW_ID, *self.inputs, *(name for name, _ in columns)])
        first = len(names) - len(columns)
        return [(name, kind) for name, (_, kind) in zip(names[first:], columns, strict=True)]

    def schema(self, inputs: Any | None) -> Any:
        """Makes the spec that ``configure`` returns from that of the prompts."""
        import knime.extension as knext

        kept = () if inputs is None else (knext.Column(column.ktype, column.name) for column in inputs)
        return knext.Schema.from_columns([*kept, *knime_columns(self._own)])

    def table(self, entries: Iterable[ConversationRow], inputs: pa.Table | None = None) -> pa.Table:
        """Makes the table of the last rows of all conversations, which are in the order of `inputs`."""
        import pyarrow as pa

        ends = [entry for entry in entries if entry.outcome is not None]
        outcomes = [(entry.outcome, entry.error) for entry in ends if entry.outcome is not None]
        answers = [outcome.answer for outcome, _ in outcomes]
        texts = [None if answer is None else without_surrogates(answer) for answer in answers]
        counted = [
            # No turn was counted: missing, as 0 would say that it cost nothing.
            outcome.usage if outcome.usage is not None and outcome.usage.turns else None
            for outcome, _ in outcomes
        ]
        cells: list[Any] = [
            [outcome.ending for outcome, _ in outcomes],
            texts,
            *([] if self.answer is None else self._parts(self.answer, answers)),
            [None if error is None else without_surrogates(error) for _, error in outcomes],
            [outcome.iterations for outcome, _ in outcomes],
            [None if usage is None else usage.input for usage in counted],
            [None if usage is None else usage.output for usage in counted],
            [round(outcome.duration, 6) for outcome, _ in outcomes],
        ]
        made = {
            name: cell if isinstance(cell, pa.Array) else pa.array(cell, arrow_type(kind))
            for (name, kind), cell in zip(self._own, cells, strict=True)
        }
        before = {} if inputs is None else dict(zip(inputs.column_names, inputs.columns, strict=True))
        return pa.table({**before, **made})

    def _parts(self, schema: AnswerSchema, answers: list[str | None]) -> list[pa.Array]:
        """The columns of the answers' parts; an answer without the form, such as a refusal, has none."""
        read: list[dict[str, Any]] = [{} for _ in answers]
        for place, answer in enumerate(answers):
            with suppress(AnswerUnfit):
                read[place] = {} if answer is None else schema.read(answer)
        return schema.cells(read)
