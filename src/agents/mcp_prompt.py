"""The node *MCP Prompt*: fills in a prompt that a server offers, once or once per row."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import knime.extension as knext

from ..tools import server_reading
from ..tools.node_settings import connection, shared_parameters
from ..types.errors import ArgumentsInvalid, MCPError, SettingInvalid
from .prompter.conversation_table import message_type, to_cell

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from ..client.protocol.offers import PromptDefinition, PromptMessage
    from ..client.protocol.tools import ContentBlock

_PARAMETERS: Final = 0
_TEXTS: Final = (server_reading.INPUT_ROW, "Role", "Text", "File", "Error")
_PROMPTS: Final = ("Name", "Title", "Description", "Arguments", "Required", "Digest")
_ROLES: Final = {"assistant": "ai"}


@knext.parameter_group(label="Argument")
class _Argument:
    """An argument with name and value."""

    name = knext.StringParameter("Name", "Name of the prompt's argument.", default_value="")
    value = knext.StringParameter("Value", "Its value, a text.", default_value="")


class _Message(NamedTuple):
    """A row of *Messages*."""

    row: str | None
    role: str | None = None
    text: str | None = None
    file: str | None = None
    error: str | None = None
    message: BaseMessage | None = None


@knext.node(
    name="MCP Prompt",
    node_type=knext.NodeType.SOURCE,
    icon_path="icons/prompt.png",
    category="/community/mcp",
    id="mcp_prompt",
    after="mcp_resource_reader",
    keywords=["MCP", "Model Context Protocol", "prompt", "template", "LLM", "message", "agent", "server"],
)
@knext.input_table(
    "Parameters",
    "Optional: the prompt is filled in once per row, with the columns that are named like its arguments.",
    optional=True,
)
@shared_parameters.credential_port("the server.")
@knext.output_table(
    "Messages",
    "The messages of the prompt, for the *Conversation history* of an agent: *Role*, *Text*, and a column of"
    " KNIME's Message cells where there are such. *Input row* is the RowID of the row of *Parameters*.",
)
@knext.output_table("Prompts", "The prompts that the server lists, with their arguments.")
class MCPPrompt:
    """Fills in a prompt that an MCP server offers, as messages for an agent.

    A server offers prompts: messages written by those who know it, with arguments to fill in.

    **How to use it**

    - Enter the *Server URL* and execute: *Prompts* has what there is.
    - Enter the *Prompt* and its *Arguments*. For many, connect a table to *Parameters* with columns named
      like the arguments.
    - Connect *Messages* to the *Conversation history* of an *MCP Agent Prompter*, whose *User message* may
      then be empty.

    **Security**

    A prompt is text of the server, and a model follows what it reads. *Pinned digest* keeps the prompt that
    you saw: a server that changed its description or arguments is noticed.

    **Proof of what happened**

    Each answer is a line in a journal in the workflow's data area, with its SHA-256; the last hash of the
    journal is handed on as flow variable `mcp_audit_head`.
    """

    server_url = shared_parameters.server_url()
    credentials = shared_parameters.credentials()
    connection_options = shared_parameters.connection_options()

    prompt = knext.StringParameter(
        "Prompt",
        "Name of the prompt, as *Prompts* has it. Empty only lists what there is.",
        default_value="",
    )
    pinned_digest = knext.StringParameter(
        "Pinned digest",
        "The *Digest* of the prompt that you want, from the table *Prompts*. Empty takes it as it is.",
        default_value="",
        is_advanced=True,
    )
    if_changed = server_reading.if_changed("What to do when the prompt does not have the *Pinned digest*.")
    arguments = knext.ParameterArray(
        label="Arguments",
        description="What the prompt is filled in with. With a *Parameters* table, a row's own values win.",
        parameters=_Argument(),
        layout_direction=knext.LayoutDirection.HORIZONTAL,
        button_text="Add argument",
        array_title="Argument",
    )
    on_error = shared_parameters.on_error("If one fails", "What to do when something cannot be read.")

    shared_parameters.headings(Connection=[server_url], Prompt=[prompt], Errors=[on_error])

    def configure(self, ctx: Any, parameters: Any, credential: Any) -> Any:  # noqa: ARG002
        try:
            # Whether there is such a prompt only the server knows,
            # which is asked when the node is executed.
            server_reading.check_connection(self, ctx)
        except MCPError as error:
            raise connection.as_setting_error(error) from None
        return _messages_schema(), _schema(_PROMPTS)

    def execute(self, ctx: Any, parameters: Any, credential: Any) -> tuple[Any, Any]:
        name = self.prompt.strip()
        rows: list[tuple[str | None, dict[str, str | None]]] = [(None, {})]
        if parameters is not None:
            rows = list(server_reading.texts_of_rows(parameters))
        messages: list[_Message] = []
        with server_reading.Reading(self, ctx, credential, "prompt") as reading:
            listed = reading.client.list_prompts(is_canceled=ctx.is_canceled)
            if name:
                definition = _found(name, listed)
                unfit = reading.changed(name, self.pinned_digest.strip(), definition.digest, None)
                for done, (row, cells) in enumerate(rows):
                    reading.progress(done, len(rows))
                    if unfit is not None:
                        messages.append(_Message(row, error=str(unfit)))
                    else:
                        messages += self._filled_in(reading, definition, row, cells, ctx.is_canceled)
        if not listed:
            reading.warnings.append("The server lists no prompts.")
        reading.tell(len(rows))
        return _messages_table(messages), _table(_PROMPTS, [_listed_row(each) for each in listed])

    def _filled_in(
        self,
        reading: server_reading.Reading,
        definition: PromptDefinition,
        row: str | None,
        cells: dict[str, str | None],
        is_canceled: Any,
    ) -> list[_Message]:
        from ..client.protocol.offers import messages_of_prompt

        try:
            arguments = self._arguments(definition, row, cells)
        except MCPError as error:
            reading.failed(error)
            return [_Message(row, error=str(error))]

        def get() -> dict[str, Any]:
            return reading.client.get_prompt(definition.name, arguments, is_canceled=is_canceled)

        raw, problem = reading.ask(definition.name, row, get, arguments)
        if problem is not None:
            return [_Message(row, error=str(problem))]
        return [_message(reading, row, message) for message in messages_of_prompt(raw)]

    def _arguments(
        self, definition: PromptDefinition, row: str | None, cells: dict[str, str | None]
    ) -> dict[str, str]:
        names = [argument.name for argument in definition.arguments]
        given = {pair.name.strip(): pair.value for pair in self.arguments}
        if unknown := [name for name in given if name not in names]:
            raise ArgumentsInvalid(
                f"The prompt '{definition.name}' has no argument '{unknown[0]}'",
                row=row,
                fix=f"It has {', '.join(names) or 'none'}",
            )
        # A missing cell leaves the value of the dialog, an empty text replaces it.
        given |= {name: cell for name in names if (cell := cells.get(name)) is not None}
        missing = [each.name for each in definition.arguments if each.is_required and each.name not in given]
        if missing:
            raise ArgumentsInvalid(
                f"The prompt '{definition.name}' needs {', '.join(missing)}",
                row=row,
                fix="Enter it under 'Arguments', or connect a table to Parameters with a column of that name",
            )
        return given


def _found(name: str, listed: list[PromptDefinition]) -> PromptDefinition:
    import difflib

    for definition in listed:
        if definition.name == name:
            return definition
    names = [definition.name for definition in listed]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:5]
    raise SettingInvalid(
        f"The server lists no prompt '{name}'",
        setting="prompt",
        fix=f"Choose one of {', '.join(close)}" if close else "It lists none at all",
    )


def _message(reading: server_reading.Reading, row: str | None, message: PromptMessage) -> _Message:
    from langchain_core.messages import AIMessage, HumanMessage

    text, file, block = _shown(reading, message.content)
    kind = AIMessage if message.role == "assistant" else HumanMessage
    return _Message(row, _ROLES.get(message.role, "user"), text, file, None, kind(content=[block]))


def _shown(reading: server_reading.Reading, content: ContentBlock) -> tuple[str, str | None, dict[str, Any]]:
    """Text and file of a content, and its block in LangChain's form."""
    from ..client.protocol.tools import AudioContent, EmbeddedResource, ImageContent, describe_block

    text, file = describe_block(content), None
    match content:
        case ImageContent() | AudioContent():
            file = reading.save(content.data, content.mime_type)
        case EmbeddedResource(blob=bytes(data)):
            file = reading.save(data, content.mime_type or "")
        case _:
            pass
    if isinstance(content, ImageContent):
        encoded = base64.b64encode(content.data).decode()
        # The form that KNIME's Message cells are read into as well.
        url = {"url": f"data:{content.mime_type};base64,{encoded}"}
        return text, file, {"type": "image_url", "image_url": url}
    return text, file, {"type": "text", "text": text}


def _listed_row(definition: PromptDefinition) -> tuple[str | None, ...]:
    arguments = definition.arguments
    described = [f"{each.name}: {each.description}" if each.description else each.name for each in arguments]
    required = ", ".join(each.name for each in arguments if each.is_required)
    names = (definition.name, definition.title, definition.description)
    return (*names, "\n".join(described) or None, required or None, definition.digest)


def _schema(names: tuple[str, ...]) -> Any:
    return knext.Schema.from_columns([knext.Column(knext.string(), name) for name in names])


def _table(names: tuple[str, ...], rows: list[tuple[str | None, ...]]) -> Any:
    import pyarrow as pa

    columns = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(names)}
    return knext.Table.from_pyarrow(pa.table(columns), row_ids="generate")


def _messages_schema() -> Any:
    columns = [knext.Column(knext.string(), name) for name in _TEXTS]
    cells: Any = message_type()
    if cells is not None:
        columns.insert(1, knext.Column(cells, "Message"))
    return knext.Schema.from_columns(columns)


def _messages_table(messages: list[_Message]) -> Any:
    import pyarrow as pa

    rows = [(each.row, each.role, each.text, each.file, each.error) for each in messages]
    columns: dict[str, Any] = {
        name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(_TEXTS)
    }
    table, cells = pa.table(columns), message_type()
    if cells is not None:
        arrow_type: Any = cells.to_pyarrow()
        storage = [None if each.message is None else to_cell(each.message) for each in messages]
        array = pa.array(storage, arrow_type.storage_type)
        table = table.add_column(1, "Message", pa.ExtensionArray.from_storage(arrow_type, array))
    return knext.Table.from_pyarrow(table, row_ids="generate")
