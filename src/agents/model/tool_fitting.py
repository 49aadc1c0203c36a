"""Adapts tool definitions to an endpoint that refused some, changing only what it objects to.

=========================================== ==================================================================
what is seen                                what is done
=========================================== ==================================================================
no refusal                                  a tool goes to the model as its server describes it
a description is too long                   it is cut, and the rest stands with the parameters
a refusal that names tools                  those have the strict schema (see `strict_schema`)
one that names none, or a second one, or    all have it: what one endpoint refuses in one tool, it refuses in
one that says nothing                       the next one, and thirty tools must not take thirty requests
tools are refused even so, or any tool is,  they stand in words, and each answer has a form in which it calls
or the endpoint read fewer tokens than the  one of them or is the answer, see `in_words`
tools have words
an endpoint that does not hold to the form  the run fails with the refusal
=========================================== ==================================================================

What is learned of an endpoint is kept. The arguments of calls go back into the server's names and forms, and
are checked against the server's own schema in any case.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from ...tools.calling_hints import example_arguments
from ...types.texts import compact_json, parse_json
from ..message_content import text_of
from .model_errors import TAKES_NO_TOOLS
from .strict_schema import own_arguments, strict_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.messages import BaseMessage

_TOO_LONG: Final = re.compile(
    r"description.{0,120}?(?:too long|max(?:imum)?[ _]length|at most|exceed|longer than)", re.I | re.S
)
_LENGTH: Final = re.compile(
    r"(?:max(?:imum)?[ _]length(?: of)?|at most|longer than|limit of)\D{0,3}(\d{2,6})", re.I
)
_USUAL_LENGTH: Final = 1024
_SHORTEST: Final = 100
_NO_TOOLS: Final = re.compile(TAKES_NO_TOOLS, re.IGNORECASE)
_ABOUT_TOOLS: Final = re.compile(
    r"schema|property (?:key|name)|properties|grammar|samplers|function[_ ]?declarations"
    r"|tool[_ ]?(?:spec|config|param)"
    r"|\btools?(?:['\"`]?[.\[]|\W{1,3}\d|\s['\"`])|function\W{1,4}(?:parameters|description|name)",
    re.I,
)
# Google counts the position within one tool that holds all functions.
_POSITIONS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"function_?declarations[\[.](\d+)",
        r"tools[\[.](\d+)",
        r"\"path\":\s*\[\s*(?:\"tools\",\s*)?(\d+),\s*\"function\"",
        r"tools?['\"`]?\W{1,3}(?:at |number |#)?(\d+)",
    )
)
_QUOTED: Final = re.compile(r"['\"`]([a-zA-Z0-9_-]{1,64})['\"`]")
_OF_TEMPLATES: Final = re.compile(r"[^\w.:/-]|^(?:functions?|default_api|tools?(?:_calls?)?)[.:/]|:\d*$")
_WORD: Final = re.compile(r"[a-zA-Z0-9_-]+")
_EXAMPLES: Final = 3
_NO_ARGUMENTS: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_BEGUN: Final = re.compile(r'\s*\{\s*"answer"\s*:\s*("(?:[^"\\]|\\(?:u[0-9a-fA-F]{4}|[^u]))*)', re.DOTALL)
_HOW: Final = (
    'Reply with one JSON object: to call a tool {"tool": name, "arguments": {…}}, whose result you are then'
    ' told; once you know the answer {"answer": text}.'
)


class ToolFitting:
    """Adapts tool definitions to what an endpoint refused so far. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._longest: int | None = None
        self._strict: set[str] = set()
        self._all_strict = False
        self.in_form = False  # True once tools are called in the form of an answer
        self.reads_tools: bool | None = None  # what the tokens say that it read
        self.context: int | None = None  # tokens, once a refusal has said so
        self.most_tools: int | None = None  # once more were refused
        self.refused_ways: set[str] = set()  # to ask for an answer in a form

    def fit(self, definitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        with self._lock:
            return [self._fitted(dict(definition)) for definition in definitions]

    def learn(
        self, said: str, definitions: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Learns from all that an endpoint said which definitions to change from now on.

        ``definitions`` are the functions before `fit`, ``sent`` those that the endpoint refused. Gives the
        change in words for a person; None if nothing was said about tools, or nothing is left to change.
        """
        with self._lock:
            if _TOO_LONG.search(said):
                return self._shorten(said, sent)
            if not sent or self.in_form:
                return None
            if _NO_TOOLS.search(said):
                return self._call_in_form("takes no tools")
            if not _ABOUT_TOOLS.search(said):
                return None
            named = _named_tools(said, [_name(definition) for definition in sent])
            if not named or self._strict - named:
                self._all_strict = True
            self._strict |= named
            if not self._differs(definitions, sent):
                self._all_strict = True
            if self._differs(definitions, sent):
                return self._told(named)
            return self._call_in_form("refuses the tools")

    def guess(
        self, definitions: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """What to change after a refusal that does not say what it is about; None if nothing is left."""
        with self._lock:
            self._all_strict = self._all_strict or not self.in_form
            if not self._differs(definitions, sent):
                return None
            return "The endpoint does not say what it refuses, so the schemas of tools were said in words"

    def drop(self) -> str:
        """Learns that an endpoint takes tools and does not tell the model of them."""
        with self._lock:
            return self._call_in_form("read fewer tokens than the tools have words")

    def called(self, message: AIMessage, definitions: Sequence[Mapping[str, Any]]) -> AIMessage:
        """The message with its calls as the server of each tool knows them."""
        schemas = {_name(tool): tool["function"]["parameters"] for tool in definitions}
        with self._lock:
            strict = set(schemas) if self._all_strict or self.in_form else set(self._strict)
        calls: list[Any] = []
        for call in message.tool_calls:
            name = meant_name(call["name"], schemas)
            given = call["args"]
            if name in strict and name in schemas:
                given = own_arguments(given, schemas[name], schemas[name])
            calls.append({**call, "name": name, "args": given})
        unread = [
            {**call, "name": meant_name(call["name"] or "", schemas)} for call in message.invalid_tool_calls
        ]
        return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": unread})

    def _differs(self, definitions: Iterable[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]) -> bool:
        """Whether another request would be another one, also by what another prompt learned meanwhile."""
        return [self._fitted(dict(definition)) for definition in definitions] != list(sent)

    def _call_in_form(self, why: str) -> str:
        self.in_form = True
        return f"The endpoint {why}, so they were described in words, and calls were asked for as JSON"

    def _told(self, named: set[str]) -> str:
        if self._all_strict:
            return (
                "The endpoint refuses what the schemas of some tools say, so the model was told it in words"
            )
        tools = ", ".join(f"'{name}'" for name in sorted(named))
        return f"The endpoint refuses what the schema of {tools} says, so the model was told it in words"

    def _shorten(self, said: str, sent: Sequence[Mapping[str, Any]]) -> str | None:
        length = _LENGTH.search(said)
        limit = max(_SHORTEST, int(length[1]) if length else _USUAL_LENGTH)
        if not any(len(definition["function"]["description"]) > limit for definition in sent):
            return None
        self._longest = min(limit, self._longest or limit)
        return (
            f"The endpoint takes only {self._longest:,} characters of a tool's description: longer ones were"
            " cut, and the rest was sent with the parameters"
        )

    def _fitted(self, definition: dict[str, Any]) -> dict[str, Any]:
        function: dict[str, Any] = definition["function"]
        if self._all_strict or function["name"] in self._strict:
            parameters, told = strict_schema(function["parameters"])
            text = " ".join(filter(None, (function.get("description"), told)))
            # Some endpoints refuse an empty description, some an object without properties.
            function = {
                "name": function["name"],
                "description": text or f"The tool {function['name']}.",
                **({} if parameters is None else {"parameters": parameters}),
            }
        text = str(function.get("description") or "")
        if self._longest is not None and len(text) > self._longest:
            rest = f"The tool's description goes on: {text[self._longest - 1 :]}"
            empty: dict[str, Any] = {"type": "object", "properties": {}}
            parameters = cast("dict[str, Any]", function.get("parameters") or empty)
            # Nothing that the server says is lost: schemas may be longer than descriptions.
            whole = {**parameters, "description": f"{rest}\n{parameters.get('description', '')}".strip()}
            function = {**function, "description": f"{text[: self._longest - 1]}…", "parameters": whole}
        return {**definition, "function": function}


def meant_name(written: str, names: Iterable[str]) -> str:
    """The tool that is meant by a name with pieces of the model's template, which servers leave in it.

    Other names stay as they are: the model is told which tools there are.
    """
    known = set(names)
    if written in known or not _OF_TEMPLATES.search(written):
        return written
    meant = known & set(_WORD.findall(written))
    return meant.pop() if len(meant) == 1 else written


def _name(definition: Mapping[str, Any]) -> str:
    return str(definition["function"]["name"])


def _named_tools(said: str, sent: Sequence[str]) -> set[str]:
    """The tools that an endpoint's refusal is about, by name or position."""
    named = set(_QUOTED.findall(said)) & set(sent)
    none: list[str] = []
    found = next(filter(None, (pattern.findall(said) for pattern in _POSITIONS)), none)
    return named or {sent[int(position)] for position in found if int(position) < len(sent)}


def in_words(messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
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


def reply_format(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The form of the next answer: a call of one of the tools, or the answer."""
    calls = [
        _object({"tool": {"const": tool["function"]["name"]}, "arguments": _parameters(tool)})
        for tool in tools
    ]
    schema = {"anyOf": [*calls, _object({"answer": {"type": "string"}})]}
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


def read_reply(message: AIMessage) -> AIMessage | None:
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


def begun_reply(message: AIMessage) -> AIMessage:
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
