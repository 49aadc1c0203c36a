"""Calls as answers in the form of a JSON schema, for endpoints that refuse tools or drop them.

The tools stand in words in the system message, with worked examples. Each answer is an object that calls one
of them or says the answer, and what was called before is told in the same words. It needs no more than an
endpoint that holds to a JSON schema, as all local servers do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from ..tools.calling_hints import example_arguments
from ..types.texts import compact_json, parse_json
from .message_content import text_of
from .model.strict_schema import strict_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EXAMPLES: Final = 3
_NO_ARGUMENTS: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_BEGUN: Final = re.compile(r'\s*\{\s*"answer"\s*:\s*("(?:[^"\\]|\\(?:u[0-9a-fA-F]{4}|[^u]))*)', re.DOTALL)
_HOW: Final = (
    'Reply with one JSON object: to call a tool {"tool": name, "arguments": {…}}, whose result you are then'
    ' told; once you know the answer {"answer": text}.'
)


def told(messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """The conversation with the tools in words, and with calls and results as texts."""
    called: dict[str, str] = {}
    sent: list[BaseMessage] = []
    for message in messages:
        match message:
            case AIMessage() if message.tool_calls:
                called |= {
                    str(call["id"]): compact_json({"tool": call["name"], "arguments": call["args"]})
                    for call in message.tool_calls
                }
            case ToolMessage():
                sent.append(AIMessage(called.get(message.tool_call_id, "")))
                sent.append(HumanMessage(f"Result:\n{text_of(message)}"))
            case _:
                sent.append(message)
    system = text_of(sent.pop(0)) if sent and isinstance(sent[0], SystemMessage) else ""
    return [SystemMessage("\n\n".join(filter(None, (system, _words(tools))))), *sent]


def response_format(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The form of the next answer: a call of one of the tools, or the answer."""
    calls = [
        _object({"tool": {"const": tool["function"]["name"]}, "arguments": _parameters(tool)})
        for tool in tools
    ]
    schema = {"anyOf": [*calls, _object({"answer": {"type": "string"}})]}
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


def read(message: AIMessage) -> AIMessage | None:
    """The answer with its call or its text in the usual place; None if it does not have the form."""
    try:
        reply: Any = parse_json(text_of(message))
    except ValueError:
        return None
    fields = cast("dict[str, Any]", reply) if isinstance(reply, dict) else {}
    name, arguments, answer = (fields.get(field) for field in ("tool", "arguments", "answer"))
    if isinstance(name, str) and isinstance(arguments, dict):
        given = cast("dict[str, Any]", arguments)
        call: dict[str, Any] = {"type": "tool_call", "id": "call", "name": name, "args": given}
        return message.model_copy(update={"content": "", "tool_calls": [call]})
    return message.model_copy(update={"content": answer}) if isinstance(answer, str) else None


def begun(message: AIMessage) -> AIMessage:
    """A reply that was cut off: what there is of its answer, and nothing of a call."""
    found = _BEGUN.match(text_of(message))
    return message.model_copy(update={"content": "" if found is None else parse_json(f'{found[1]}"')})


def _words(tools: Sequence[Mapping[str, Any]]) -> str:
    if not tools:
        return _HOW
    lines = [_HOW, "", "The tools, with the JSON schemas of their arguments:"]
    for tool in tools:
        function = tool["function"]
        arguments = compact_json(_parameters(tool))
        lines.append(f"- {function['name']}: {function.get('description', '')} {arguments}")
    lines += ["", "Examples of calls, whose arguments are made up:"]
    for tool in tools[:_EXAMPLES]:
        arguments = parse_json(example_arguments(_parameters(tool)))
        lines.append(compact_json({"tool": tool["function"]["name"], "arguments": arguments}))
    return "\n".join(lines)


def _parameters(tool: Mapping[str, Any]) -> dict[str, Any]:
    parameters, _ = strict_schema(tool["function"].get("parameters", {}))
    return parameters or _NO_ARGUMENTS


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
