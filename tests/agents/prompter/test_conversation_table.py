"""Messages as cells of tables and back: KNIME's Message cells, and plain columns."""

import base64
import io
import json

import pyarrow as pa
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from PIL import Image

from knime_mcp.agents.prompter.conversation_table import (
    ConversationLayout,
    ConversationRow,
    MessageForm,
    conversation_columns,
    default_column,
    message_form,
    of_row,
    read_conversation,
    renamed,
)
from knime_mcp.types.errors import MCPError, SettingInvalid

pytestmark = pytest.mark.quick


FORMS = [MessageForm.MESSAGE, MessageForm.PLAIN]


def image(kind):
    data = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(data, kind)
    return data.getvalue()


def image_block(data, mime_type):
    url = f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.fixture
def there_and_back(host):
    """Writes entries as a node's output and reads them as another node's input."""

    def convert(entries, layout):
        table = layout.table(entries)
        rows = pa.array([f"Row{i}" for i in range(table.num_rows)])
        given = host.table(
            pa.table({"<RowID>": rows, **dict(zip(table.column_names, table.columns, strict=True))}), "keep"
        )
        return read_conversation(given, layout.column)

    return convert


def essence(message):
    calls = [(c["id"], c["name"], c["args"]) for c in getattr(message, "tool_calls", [])]
    return type(message), message.content, message.name, calls, getattr(message, "tool_call_id", None)


@pytest.mark.requirement("T30")
@pytest.mark.parametrize("form", FORMS)
def test_a_conversation_survives_its_table(there_and_back, form):
    call = {"id": "c1", "name": "Mein Werkzeug ü", "args": {"a": [1, {"b": None}], "config": "x"}}
    said = [
        HumanMessage("Grüße, 你好 🎈"),
        HumanMessage("by name", name="Ada"),
        AIMessage("", tool_calls=[call, {"id": "c2", "name": "b", "args": {}}], id="m1"),
        ToolMessage("ok\nline two", tool_call_id="c1", name="Mein Werkzeug ü"),
        ToolMessage("", tool_call_id="c2", name="b"),
        AIMessage("done"),
    ]
    entries = there_and_back(
        [ConversationRow(message=message) for message in said], ConversationLayout(form=form)
    )
    assert [essence(entry.message) for entry in entries] == [essence(message) for message in said]


@pytest.mark.parametrize("form", FORMS)
def test_images_stay_images(there_and_back, form):
    png = image("PNG")
    content = [{"type": "text", "text": "a chart"}, image_block(png, "image/png")]
    standard = {"type": "image", "base64": base64.b64encode(png).decode(), "mime_type": "image/png"}
    said = [ToolMessage(content=content, tool_call_id="c"), ToolMessage(content=[standard], tool_call_id="d")]
    first, second = there_and_back([ConversationRow(message=m) for m in said], ConversationLayout(form=form))
    assert first.message.content == content
    kept = [image_block(png, "image/png")] if form is MessageForm.MESSAGE else [standard]
    assert second.message.content == kept


def test_a_message_cell_holds_other_images_as_png(there_and_back):
    said = HumanMessage(content=[image_block(image("JPEG"), "image/jpeg")])
    (entry,) = there_and_back([ConversationRow(message=said)], ConversationLayout(form=MessageForm.MESSAGE))
    (block,) = entry.message.content
    assert block["image_url"]["url"].startswith("data:image/png;base64,iVBOR")


@pytest.mark.parametrize("data", [b"no image at all", b""])
def test_what_is_no_image_is_named_in_a_message_cell(there_and_back, data):
    said = HumanMessage(content=[image_block(data, "image/webp")])
    (entry,) = there_and_back([ConversationRow(message=said)], ConversationLayout(form=MessageForm.MESSAGE))
    assert entry.message.content == f"[image/webp, {len(data)} bytes]"


@pytest.mark.parametrize("form", FORMS)
def test_unreadable_arguments_stay_what_they_are(there_and_back, form):
    bad = {"id": "c", "name": "t", "args": '{"a": ', "error": None, "type": "invalid_tool_call"}
    (entry,) = there_and_back(
        [ConversationRow(message=AIMessage("", invalid_tool_calls=[bad]))], ConversationLayout(form=form)
    )
    assert entry.message.invalid_tool_calls == [bad]
    assert entry.message.tool_calls == []


@pytest.mark.parametrize("form", FORMS)
def test_half_a_character_does_not_lose_the_table(there_and_back, form):
    call = {"id": "c", "name": "t", "args": {"a": "\ud83d"}}
    entries = there_and_back(
        [ConversationRow(message=AIMessage("x\udc00", tool_calls=[call]))], ConversationLayout(form=form)
    )
    assert entries[0].message.content == "x�"
    assert entries[0].message.tool_calls[0]["args"] == {"a": "�"}


@pytest.mark.parametrize("form", FORMS)
def test_errors_stand_in_rows_of_their_own(there_and_back, form):
    layout = ConversationLayout(form=form, error_column="Errors")
    entries = [ConversationRow(message=HumanMessage("hi")), ConversationRow(error="The model is busy.")]
    back = there_and_back(entries, layout)
    assert [(entry.message and entry.message.content, entry.error) for entry in back] == [
        ("hi", None),
        (None, "The model is busy."),
    ]


@pytest.mark.parametrize("form", FORMS)
def test_conversations_of_several_prompts(there_and_back, form):
    layout = ConversationLayout(form=form, error_column="Errors", per_row=True)
    table = layout.table(
        [
            ConversationRow(message=HumanMessage("2+2"), input_row="Row7"),
            ConversationRow(message=AIMessage("4"), input_row="Row7"),
            ConversationRow(error="no", input_row="Row8"),
        ]
    )
    rows = table.drop_columns(["Conversation"]).to_pylist()
    assert [(row["Input row"], row["Errors"]) for row in rows] == [
        ("Row7", None),
        ("Row7", None),
        ("Row8", "no"),
    ]
    back = there_and_back([ConversationRow(message=HumanMessage("2+2"), input_row="Row7")], layout)
    assert back[0].input_row == "Row7"


def test_what_belongs_to_a_prompt():
    entries = [
        ConversationRow(error="a", input_row="1"),
        ConversationRow(error="b"),
        ConversationRow(error="c", input_row="2"),
    ]
    assert [entry.error for entry in of_row(entries, "2")] == ["b", "c"]
    assert [entry.error for entry in of_row(entries[:2], None)] == ["a", "b"]
    with pytest.raises(MCPError, match=r"conversations of 2 prompts.*Row Filter on 'Input row'"):
        of_row(entries, None)


def message_cells(host, values):
    from knime.types.message import MessageValue

    return host.table(
        pa.table({"m": host.column_of(values, MessageValue), "Errors": pa.array([None, "bad"])})
    )


@pytest.fixture
def knime_messages():
    import knime.types.message

    return knime.types.message


def test_rows_of_knimes_own_agent(host, knime_messages):
    km = knime_messages
    text = km.MessageContentPartType.TEXT
    user = km.MessageValue(km.MessageType.USER, [km.MessageContentPart(text, "für".encode())])
    entries = read_conversation(message_cells(host, [user, None]), "m")
    assert [(entry.message and entry.message.content, entry.error) for entry in entries] == [
        ("für", None),
        (None, "bad"),
    ]


@pytest.mark.parametrize(("position", "state"), [(0, "neither"), (1, "both")])
def test_a_row_with_both_or_neither_is_named(host, knime_messages, position, state):
    km = knime_messages
    user = km.MessageValue(km.MessageType.USER, [])
    values = [None, None] if position == 0 else [user, user]
    with pytest.raises(MCPError, match=rf"{state}.*row Row{position}"):
        read_conversation(message_cells(host, values), "m")


def test_knime_writes_the_address_of_an_image_instead_of_the_image(host, knime_messages):
    km = knime_messages
    address = image_block(image("PNG"), "image/png")["image_url"]["url"]
    part = km.MessageContentPart(km.MessageContentPartType.PNG, address.encode())
    value = km.MessageValue(km.MessageType.USER, [part])
    (entry, _) = read_conversation(message_cells(host, [value, None]), "m")
    assert entry.message.content[0]["image_url"]["url"] == address


def test_knimes_value_factory_reads_our_cells(host, knime_messages):
    from knime.types.message import MessageValue

    km = knime_messages
    call = {"id": "c1", "name": "search it", "args": {"q": "ü"}}
    layout = ConversationLayout(form=MessageForm.MESSAGE)
    table = layout.table(
        [
            ConversationRow(message=AIMessage("text", tool_calls=[call], id="m1")),
            ConversationRow(
                message=ToolMessage(content=[image_block(image("PNG"), "image/png")], tool_call_id="c1")
            ),
        ]
    )
    ai, tool = table.column("Conversation").to_pylist()
    assert isinstance(ai, MessageValue)
    assert ai.message_type is km.MessageType.AI
    assert [(c.id, c.tool_name, c.arguments) for c in ai.tool_calls] == [("c1", "search it", {"q": "ü"})]
    assert ai.tool_call_id == "m1"
    assert tool.message_type is km.MessageType.TOOL
    assert tool.content[0].data.startswith(b"\x89PNG")


def test_a_table_that_somebody_typed(host):
    table = host.table(
        pa.table({"Role": ["System", "human", "assistant", None], "Said": ["be kind", "hi", "hello", None]})
    )
    messages = [entry.message for entry in read_conversation(table, "Said")]
    assert messages == [SystemMessage("be kind"), HumanMessage("hi"), AIMessage("hello")]
    assert conversation_columns(table.schema) == ["Said"]
    assert default_column(table.schema) == "Said"


@pytest.mark.parametrize(
    "cell",
    [
        '{"id": "a", "name": "add", "arguments": {"n": 1}}',
        '{"id": "a", "name": "add", "args": {"n": 1}, "type": "tool_call"}',
        '{"id": "a", "type": "function", "function": {"name": "add", "arguments": "{\\"n\\": 1}"}}',
    ],
    ids=["ours", "langchain", "openai"],
)
def test_calls_as_others_write_them(host, cell):
    rows = {"Role": ["ai", "ai"], "Said": ["", "no calls"], "Tool calls": [f"[{cell}]", "null"]}
    asks, last = [entry.message for entry in read_conversation(host.table(pa.table(rows)), "Said")]
    assert asks.tool_calls == [{"type": "tool_call", "id": "a", "name": "add", "args": {"n": 1}}]
    assert last.tool_calls == last.invalid_tool_calls == []


def test_which_column_holds_the_conversation(host):
    from knime.types.message import MessageValue

    def default(**columns):
        return default_column(host.table(pa.table(columns)).schema)

    cells = host.column_of([None], MessageValue)
    assert default(first=cells, Role=["x"], second=cells, text=["x"]) == "second"
    assert default(before=["x"], Role=["x"], text=["x"], Errors=["x"]) == "text"
    assert default(before=["x"], Role=["x"]) == "before"
    assert default(text=["x"]) is None


def test_cells_that_cannot_be_read_name_the_row(subtests, host):
    for column, text, said in [
        ("Role", "robot", "role is 'robot'"),
        ("Tool calls", "[1", "cannot be read"),
        ("Tool calls", '[{"id": "x"}]', "a tool call has no name"),
        ("Tool calls", '[{"function": "x"}]', "a tool call has no name"),
        ("Tool calls", '["x"]', "'Tool calls' holds no list of JSON objects"),
        ("Tool calls", '{"name": "x"}', "'Tool calls' holds no list of JSON objects"),
        ("Tool calls", "[" * 100_000, "cannot be read"),
        ("Content (JSON)", '["x"]', "holds no list of JSON objects"),
        ("Content (JSON)", "7", "holds no list of JSON objects"),
        ("Content (JSON)", "{", "cannot be read"),
    ]:
        with subtests.test(column=column, text=text, said=said):
            cells = {"Role": ["ai"], "Said": ["x"], column: [text]}
            with pytest.raises(MCPError, match=f"{said}.*row Row0"):
                read_conversation(host.table(pa.table(cells)), "Said")


def test_two_columns_of_one_name():
    with pytest.raises(SettingInvalid, match="two columns 'Errors'"):
        ConversationLayout(form=MessageForm.PLAIN, column="Errors", error_column="Errors")
    with pytest.raises(SettingInvalid, match="two columns 'Role'"):
        ConversationLayout(form=MessageForm.PLAIN, column="Role")


@pytest.mark.usefixtures("host")  # has them
def test_message_cells_are_chosen_where_knime_has_them():
    assert message_form() is MessageForm.MESSAGE


def test_the_plain_form_has_a_column_per_part(host):
    layout = ConversationLayout(form=MessageForm.PLAIN, column="Text")
    call = {"id": "c1", "name": "t", "args": {"b": 1, "a": 2}}
    (row,) = layout.table([ConversationRow(message=AIMessage("x", tool_calls=[call]))]).to_pylist()
    assert row["Role"] == "ai"
    assert row["Text"] == "x"
    assert json.loads(row["Tool calls"]) == [{"id": "c1", "name": "t", "arguments": {"b": 1, "a": 2}}]
    assert row["Tool call ID"] is None


def test_names_of_tools_change_in_calls_and_answers():
    call = {"id": "c1", "name": "my tool", "args": {}}
    ai = renamed(AIMessage("", tool_calls=[call]), str.upper)
    assert ai.tool_calls[0]["name"] == "MY TOOL"
    assert renamed(ToolMessage("x", tool_call_id="c1", name="a"), str.upper).name == "A"
    assert renamed(HumanMessage("x", name="a"), str.upper).name == "a"


@pytest.mark.parametrize("form", FORMS)
def test_numbers_that_json_does_not_have(there_and_back, form):
    call = {"id": "c", "name": "t", "args": {"a": float("nan"), "b": [float("-inf")]}}
    (entry,) = there_and_back(
        [ConversationRow(message=AIMessage("", tool_calls=[call]))], ConversationLayout(form=form)
    )
    assert entry.message.tool_calls[0]["args"] == {"a": "NaN", "b": ["-Infinity"]}
