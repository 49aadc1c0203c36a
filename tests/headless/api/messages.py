"""Messages to and from chat models, between KNIME and LangChain."""

from tests.headless.api.tools import raises


def message(kind, *parts, **more):
    """KNIME's message; a part is its type and its data."""
    from knime.types import message as km

    content = [km.MessageContentPart(km.MessageContentPartType(name), data) for name, data in parts]
    return km.MessageValue(km.MessageType(kind), content, **more)


def to(*given, calls=(), **more):
    """What LangChain gets of a message: its class, its content and the rest."""

    def case(knext, _):
        from knime.types import message as km

        own = [km.ToolCall(*call) for call in calls] if calls else None
        made = km.to_langchain_message(message(*given, tool_calls=own, **more))
        rest = [getattr(made, name, None) for name in ("name", "id", "tool_call_id", "tool_calls")]
        return [type(made).__name__, made.content, *rest]

    return case


def back(kind, content, **more):
    """What KNIME gets of one of LangChain's messages."""

    def case(knext, _):
        from knime.types import message as km
        from langchain_core import messages

        made = km.from_langchain_message(getattr(messages, kind)(content=content, **more))
        calls = made.tool_calls and [[call.tool_name, call.id, call.arguments] for call in made.tool_calls]
        parts = [[part.type.value, part.data.decode()] for part in made.content]
        return [made.message_type.value, parts, calls, made.tool_call_id, made.name]

    return case


CALL = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
MESSAGES = {
    "of a person": (
        to("USER", ("text", b"hi"), name="me"),
        ["HumanMessage", [{"type": "text", "text": "hi"}], "me", None, None, None],
    ),
    "of nobody": (to("USER"), ["HumanMessage", "", None, None, None, None]),
    "with an image": (
        to("USER", ("text", "für".encode()), ("png", b"x")),
        [
            "HumanMessage",
            [
                {"type": "text", "text": "für"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
            ],
            None,
            None,
            None,
            None,
        ],
    ),
    "of a model": (
        to("AI", calls=[("add", "c1", {"a": 1})], tool_call_id="m1"),
        ["AIMessage", "", None, "m1", None, [CALL]],
    ),
    "of a tool": (
        to("TOOL", ("text", b"3"), tool_call_id="c1"),
        ["ToolMessage", [{"type": "text", "text": "3"}], None, None, "c1", None],
    ),
    "back from a person": (
        back("HumanMessage", "hi", name="me"),
        ["USER", [["text", "hi"]], None, None, "me"],
    ),
    "back from a model": (
        back("AIMessage", [{"type": "text", "text": "so"}, "on"], tool_calls=[CALL], id="m1"),
        ["AI", [["text", "so"], ["text", "on"]], [["add", "c1", {"a": 1}]], "m1", None],
    ),
    "back from a tool": (
        back("ToolMessage", "3", tool_call_id="c1"),
        ["TOOL", [["text", "3"]], None, "c1", None],
    ),
    "back with an image": (
        back("HumanMessage", [{"type": "image_url", "image_url": {"url": "data:x"}}]),
        ["USER", [["png", "data:x"]], None, None, None],
    ),
    "back with a sound": (back("HumanMessage", [{"type": "audio"}]), raises(ValueError)),
    "back from the system": (back("SystemMessage", "be kind"), raises(ValueError)),
}
