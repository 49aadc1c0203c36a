"""The form that an agent's final answer must have: a JSON schema, and the columns that it becomes in a table.

The model is told the schema with the system message, so that it finds out what the answer needs. An answer
that does not fit is asked for again, with the reason: in the endpoint's own mode for JSON, else by a tool,
else in words (see `model_calls`). The mode is not asked for beside the tools of the run, as servers that
force the form of an answer (vLLM, llama.cpp, Ollama) then keep the model from calling any tool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from ..client.validation.argument_schemas import properties_in, required_names
from ..runs.checked_calls import ArgumentValidator
from ..runs.result_records import declared_kind, typed_column
from ..types.errors import MCPError, SettingInvalid
from ..types.texts import compact_json, parse_json, shortened
from .message_content import calls_of
from .model.model_errors import AnswerUnfit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from langchain_core.messages import AIMessage

    from ..types.columns import ColumnKind

_TOOL: Final = "give_answer"
_SETTING: Final = "answer_schema"
_FENCE: Final = re.compile(r"```\w*\n(.*?)\n?```", re.DOTALL)
_KINDS: Final[dict[str, dict[str, Any]]] = {
    "text": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "moment": {"type": "string", "format": "date-time"},
    "list": {"type": "array", "items": {"type": "string"}},
}
_COLUMN_KINDS: Final[dict[str, ColumnKind]] = {
    "bool": "boolean",
    "int": "int64",
    "float": "double",
    "date": "date",
    "moment": "moment",
}


@dataclass(frozen=True)
class AnswerSchema:
    """A JSON schema of an object, made with `parse`."""

    schema: dict[str, Any]

    @classmethod
    def parse(cls, text: str) -> AnswerSchema | None:
        """Reads a JSON schema, or lines ``name: kind, description``; None for an empty text.

        A kind is one of text, number, integer, boolean, date, moment, list, or choices as in ``low | high``.
        Raises `SettingInvalid` if the text is neither.
        """
        text = text.strip()
        if not text:
            return None
        schema = _json_schema(text) if text.startswith("{") else _from_lines(text)
        if not properties_in(schema, schema):
            raise SettingInvalid(
                "The schema of the answer declares no properties",
                setting=_SETTING,
                fix='Write an object with properties, such as {"type": "object", "properties": {"price":'
                ' {"type": "number"}}}',
            )
        try:
            fault = ArgumentValidator.for_schema(compact_json(schema)).fault
        except MCPError as error:
            fault = error.what.removeprefix("The tool's schema cannot be used: ")
        if fault is not None:
            raise SettingInvalid(
                f"The schema of the answer cannot be used: {fault}",
                setting=_SETTING,
                fix="Correct it, or write lines such as 'price: number'",
            )
        return cls(schema)

    @cached_property
    def _kinds(self) -> dict[str, str]:
        properties = properties_in(self.schema, self.schema)
        return {name: declared_kind(inner, self.schema) or "text" for name, inner in properties.items()}

    @property
    def columns(self) -> list[tuple[str, ColumnKind]]:
        """Name and kind of each property's column; lists and objects are JSON."""
        return [(name, _COLUMN_KINDS.get(kind, "string")) for name, kind in self._kinds.items()]

    def cells(self, answers: Sequence[Mapping[str, Any]]) -> list[pa.Array]:
        """The columns of some answers; what an answer does not have is a missing cell."""
        return [
            typed_column([answer.get(name) for answer in answers], kind) for name, kind in self._kinds.items()
        ]

    def read(self, text: str) -> dict[str, Any]:
        """The answer in a model's text. Raises `AnswerUnfit` with the reason if there is none that fits."""
        value = _object_in(text)
        try:
            answer, _ = ArgumentValidator.for_schema(compact_json(self.schema)).check(value)
        except MCPError as error:
            raise AnswerUnfit.because(error.what) from None
        for name, kind in self._kinds.items():
            try:
                # Tried here, where the model can still be asked again:
                # later a column of all answers would fail.
                (cell,) = typed_column([answer.get(name)], kind)
            except (ValueError, TypeError, OverflowError, AttributeError):
                cell = None
            # A `date-time` has an offset (https://www.rfc-editor.org/rfc/rfc3339#section-5.6): without one
            # it names no moment.
            has_no_offset = kind == "moment" and cell is not None and not _has_offset(answer[name])
            if has_no_offset or (answer.get(name) is not None and not (cell is not None and cell.is_valid)):
                raise AnswerUnfit.because(f"/{name}: this is no {_named(kind)}: {compact_json(answer[name])}")
        return answer

    def instructions(self) -> str:
        """What the model is told before it begins."""
        return (
            "Your final answer, after all tool calls, is one JSON object that fits this JSON schema, with"
            f" nothing before or after it: {compact_json(self.schema)}"
        )

    def again(self, problem: AnswerUnfit) -> str:
        """What the model is told of an answer that does not fit."""
        return f"This answer cannot be used. {problem.what}. Give it again. {self.instructions()}"

    def response_format(self) -> dict[str, Any]:
        """For the endpoint's own mode; strict where the schema is one that OpenAI's strict mode takes."""
        strict = all(map(_is_closed, _objects_in(self.schema)))
        return {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": self.schema, "strict": strict},
        }

    def tool(self) -> dict[str, Any]:
        """A function whose arguments are the answer."""
        return {
            "type": "function",
            "function": {
                "name": _TOOL,
                "description": "Gives the final answer.",
                "parameters": self.schema,
            },
        }

    def tool_choice(self) -> dict[str, Any]:
        return {"type": "function", "function": {"name": _TOOL}}

    def without_tool(self, message: AIMessage) -> AIMessage:
        """A message in which a call of `tool` has become text."""
        answered = [call["arguments"] for call in calls_of(message) if call["name"] == _TOOL]
        if not answered:
            return message
        # Arguments that could not be read are text still, and `read` says what is wrong with them.
        text = answered[0] if isinstance(answered[0], str) else compact_json(answered[0])
        kept: dict[str, Any] = {"content": text, "tool_calls": [], "invalid_tool_calls": []}
        return message.model_copy(update=kept)


def _json_schema(text: str) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", parse_json(text))
    except ValueError as error:
        raise SettingInvalid(
            f"The schema of the answer cannot be read: {error}",
            setting=_SETTING,
            fix="Correct it, or write lines such as 'price: number'",
        ) from None


def _from_lines(text: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, _, rest = line.partition(":")
        kind, _, description = (part.strip() for part in rest.partition(","))
        choices = [choice.strip() for choice in kind.split("|")]
        schema = {"type": "string", "enum": choices} if len(choices) > 1 else _KINDS.get(kind)
        if schema is None or not all([name.strip(), *choices]):
            raise SettingInvalid(
                f"Line {number} of the schema of the answer cannot be read: {shortened(line.strip(), 60)}",
                setting=_SETTING,
                fix=f"Write 'name: kind, description' with one of the kinds {', '.join(_KINDS)}, or choices"
                " such as 'low | high'; or a JSON schema in braces",
            )
        properties[name.strip()] = schema | ({"description": description} if description else {})
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _object_in(text: str) -> dict[str, Any]:
    """The JSON object that a text is, or that stands in it between fences or sentences."""
    fenced = _FENCE.findall(text)
    braces = text[text.find("{") : text.rfind("}") + 1]
    # The last fence, as a model thinks aloud first and answers at the end.
    for candidate in (text, *fenced[-1:], braces):
        try:
            value: Any = parse_json(candidate.strip())
        except ValueError:
            continue
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    raise AnswerUnfit.because("It is no JSON object")


def _has_offset(text: str) -> bool:
    from datetime import datetime

    return datetime.fromisoformat(text).tzinfo is not None


def _named(kind: str) -> str:
    return {
        "int": "integer of 64 bits",
        "date": "date such as 2026-01-31",
        "moment": "date and time with an offset, such as 2026-01-31T12:00:00Z",
    }.get(kind, kind)


def _objects_in(schema: Any) -> Iterator[dict[str, Any]]:
    match schema:
        case dict():
            node = cast("dict[str, Any]", schema)
            if "properties" in node:
                yield node
            for inner in node.values():
                yield from _objects_in(inner)
        case list():
            for inner in cast("list[Any]", schema):
                yield from _objects_in(inner)
        case _:
            pass


def _is_closed(schema: dict[str, Any]) -> bool:
    """Whether an object has exactly the properties that it declares, as OpenAI's strict mode wants it."""
    declared = schema["properties"]
    names = set(cast("dict[str, Any]", declared)) if isinstance(declared, dict) else set[str]()
    return schema.get("additionalProperties") is False and names == required_names(schema)
