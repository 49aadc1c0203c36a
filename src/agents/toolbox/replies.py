"""What a model asks of a tool and what it is told: requests, replies, texts of errors, long results."""

from __future__ import annotations

import base64
import difflib
import json
import re
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, assert_never, cast

from ...audit.record import CallStatus
from ...client.protocol.media_types import PICTURES
from ...client.protocol.tools import (
    ABSENT,
    AudioContent,
    EmbeddedResource,
    ImageContent,
    TextContent,
    format_size,
)
from ...runs.result_records import records_of, records_table
from ...tools.calling_hints import example_arguments
from ...types.errors import (
    ArgumentsInvalid,
    AuthError,
    ConnectError,
    ResultInvalid,
    SessionLost,
    TimedOut,
    ToolChanged,
    ToolNotFound,
)
from ...types.texts import compact_json, only_visible, parse_object
from ...types.tool import MCPTool, WorkflowTool
from ..message_content import mappings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...audit.record import CallRecord
    from ...runs.call_values import CallOutcome, ToolAnswer
    from ...types.tool import Tool
    from .data_registry import DataItem, DataRegistry
    from .toolset import BoundTool

_LARGEST_IMAGE: Final = 3_750_000  # bytes; endpoints take 5 MB, and count the image as base64
_DATA_HEADING: Final = "## Data repository update"
_OPEN_KEYWORDS: Final = frozenset(
    ("additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
)
_LONGEST_EXAMPLE: Final = 2000
_NAMES_SHOWN: Final = 20
_MOST_KEPT: Final = 256 * 1024 * 1024  # characters
_SMALLEST_LIMIT: Final = 200

WORKFLOW_ORIGIN: Final = "KNIME workflow"
"""Origin of a workflow's result. No server is called so: theirs are URLs, or begin with ``stdio:``."""
AGENT_ORIGIN: Final = "agent"
"""Origin of a text of ours, such as the reason why a call was not made."""
# What would be read as something else than this text.
_QUOTED: Final = re.compile(r"""["',\n\r]|\A\s|\s\Z|\A\Z|\A[-+.\d]|\A(?:true|false|null)\Z""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A tool call that a model requests.

    Attributes:
        id: The model's id of the call; the reply has the same id.
        name: The name that the model used, as bound (not the shown name of the tool).
        arguments: The arguments, or None if they could not be read.
        iteration: The agent's turn, from 1.
        error: The reason why the arguments could not be read, for the model; None if they could.
        written: The beginning of arguments that could not be read. It may hold secrets.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    iteration: int
    error: str | None = None
    written: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """The answer to one request: content for the model, and a record for people.

    Attributes:
        request: The model's request.
        content: Text, or content blocks in LangChain's form (text and image blocks), for the model.
        origin: Who wrote the content: a server, `WORKFLOW_ORIGIN`, or `AGENT_ORIGIN`.
        label: A short name of the origin for the model, empty if there is only one.
        record: The record of the call; None for a call of a built-in tool (`read_result`, `find_tools`).
        tool: The tool that was called, None for a built-in or unknown tool.
        failed: True if the call failed; the content holds the error.
        unfinished: True if the run ended before the call; it is not known whether the tool had effects.
    """

    request: ToolRequest
    content: str | list[dict[str, Any]]
    origin: str = AGENT_ORIGIN
    label: str = ""
    record: CallRecord | None = None
    tool: Tool | None = None
    failed: bool = False
    unfinished: bool = False

    @property
    def text(self) -> str:
        """The content without its images."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(str(block["text"]) for block in self.content if block.get("type") == "text")


class Toolbox(Protocol):
    """The tools of one run. `run` is called from many threads at once."""

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The functions to bind in the next turn; the list grows when the model finds tools by searching."""
        ...

    def run(self, request: ToolRequest, *, is_canceled: Callable[[], bool]) -> ToolReply:
        """Runs one call, blocking. Errors of the tool, the server or the model become a reply.

        Raises `Canceled` if `is_canceled` returned True while the call ran.
        """
        ...

    def shown_name(self, name: str) -> str:
        """The name that people see for a bound name; an unknown name is returned unchanged."""
        ...

    def make_room(self, context: int | None) -> bool:
        """Offers and shows less, for a model whose context has so many tokens; False if that cannot be."""
        ...

    def offer_at_most(self, count: int) -> bool:
        """Offers no more than so many functions, among which the model searches; False if it cannot."""
        ...

    def shortened(self, text: str, origin: str) -> str:
        """A result as short as results are by now; the model can read on in it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyMaker:
    """Makes the content of replies from tools' answers: text within the limit, images, and ids of data.

    Data of answers are kept in the registry, if there is one. With ``takes_data`` False no tool takes
    tables, so a server's records get no ids for the model. Remarks for the user are added to `notes`.
    """

    registry: DataRegistry | None
    large: LargeResults
    takes_data: bool = True
    notes: dict[str, None] = field(default_factory=dict[str, None])

    def content(self, bound: BoundTool, answer: ToolAnswer, *, reads_on: bool) -> str | list[dict[str, Any]]:
        """Makes the content for a result: text, or a text block and image blocks."""
        data_list = (
            ""
            if self.registry is None
            else _register_data(self.registry, bound, answer, takes_data=self.takes_data)
        )
        whole = self._without_hidden(bound, _whole_text(answer))
        text = self.large.cut(whole, origin=origin_of(bound.tool), reads_on=reads_on)
        if data_list:
            text = f"{text}\n\n{_DATA_HEADING}\n{data_list}" if text else f"{_DATA_HEADING}\n{data_list}"
        all_images = [block for block in answer.blocks if isinstance(block, ImageContent)]
        images = [image for image in all_images if _is_shown(image)]
        if len(images) < len(all_images):
            self.notes[
                f"The model was not shown all images of '{bound.shown_name}': models take PNG, JPEG, GIF and"
                f" WebP of at most {format_size(_LARGEST_IMAGE)}"
            ] = None
        if not images:
            return text if text.strip() else "(The tool gave no result.)"
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        return blocks + [image_block(image) for image in images]

    def failure(
        self, bound: BoundTool | None, text: str, answer: ToolAnswer | None, *, reads_on: bool
    ) -> str:
        """Makes the content for a failure; with the result, if the result violates the tool's output schema.

        `bound` is None if the tool was not called, so that its server wrote no part of the text.
        """
        # The model may still find in it what it looked for.
        if answer is not None and answer.error is not None and answer.text:
            text = f"{text}\n\nThe result was:\n{answer.text}"
        if bound is None:
            return self.large.cut(text, reads_on=reads_on)
        text = self._without_hidden(bound, text)
        return self.large.cut(text, origin=origin_of(bound.tool), reads_on=reads_on)

    def _without_hidden(self, bound: BoundTool, text: str) -> str:  # @ToolTypeDispatch
        """The text of an MCP tool without hidden characters, which people cannot see; records keep them."""
        match bound.tool:
            case MCPTool():
                shown = only_visible(text)
                if shown == text:
                    return text
                self.notes[
                    f"Results of '{bound.shown_name}' hold hidden characters, which the model was not shown;"
                    " look at them under Tool calls before you trust the server"
                ] = None
                return shown
            case WorkflowTool():
                return text
            case _:
                assert_never(bound.tool)


def _register_data(  # @ToolTypeDispatch
    registry: DataRegistry, bound: BoundTool, answer: ToolAnswer, *, takes_data: bool
) -> str:
    """Registers the data of an answer; lists for the model the data that tools can take."""
    match bound.tool:
        case MCPTool():
            _register_blobs(registry, bound, answer)  # not listed: no tool takes them
            items = _register_records(registry, bound, answer)
            items = items if takes_data else []
        case WorkflowTool(output_ports=ports):
            items: list[DataItem] = []
            for number, table in enumerate(answer.outputs):
                port = ports[number] if number < len(ports) else None
                name = port.name if port else f"output {number + 1}"
                description = (port.description if port else "") or f"Output of {bound.shown_name}"
                if table is None:
                    lost = "Lost when the run was interrupted: call the tool again if you need it"
                    items.append(registry.add(b"", name=name, description=lost, type="lost table"))
                else:
                    items.append(registry.add(table, name=name, description=description))
        case _:
            assert_never(bound.tool)
    return registry.describe(items) if items else ""


def _register_records(registry: DataRegistry, bound: BoundTool, answer: ToolAnswer) -> list[DataItem]:
    if answer.is_error or answer.error is not None:
        return []
    items: list[DataItem] = []
    structured = None if answer.structured is ABSENT else answer.structured
    for member, records in records_of(structured, answer.text):
        table = records_table(records)
        if table is not None:
            name = f"{bound.shown_name} {member}".strip()
            items.append(registry.add(table, name=name, description=f"Result of {bound.shown_name}"))
    return items


def _register_blobs(registry: DataRegistry, bound: BoundTool, answer: ToolAnswer) -> None:
    for block in answer.blocks:
        match block:
            case ImageContent(data=data) | AudioContent(data=data) | EmbeddedResource(blob=bytes(data)):
                kind = block.mime_type or "application/octet-stream"
                text = f"{kind}, {format_size(len(data))}, of {bound.shown_name}"
                registry.add(data, name=bound.shown_name, description=text, type=kind)
            case _:
                continue


def origin_of(tool: Tool) -> str:  # @ToolTypeDispatch
    """Who wrote the result: the server, whose text is not trusted, or a workflow."""
    match tool:
        case MCPTool():
            return tool.route.url
        case WorkflowTool():
            return WORKFLOW_ORIGIN
        case _:
            assert_never(tool)


def _whole_text(answer: ToolAnswer) -> str:
    """The text, and the structured value if the text does not hold it already."""
    if answer.structured is ABSENT or not answer.blocks or _repeats_structured(answer):
        return csv_text(_only_value(answer)) or answer.text
    structured = compact_json(answer.structured)
    return f"{answer.text}\n{structured}" if answer.text else structured


def _only_value(answer: ToolAnswer) -> object:
    """The JSON value that an answer is, with nothing beside it; None if it is none."""
    if not all(isinstance(block, TextContent) for block in answer.blocks):
        return None
    if answer.structured is ABSENT:
        with suppress(ValueError, RecursionError):
            return json.loads(answer.text) if answer.text[:1] == "[" else None
        return None
    match answer.structured:
        case {"result": result, **others} if not others:  # SDKs wrap what is no object
            return result
        case value:
            return value


def _repeats_structured(answer: ToolAnswer) -> bool:
    # https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content: servers should
    # put the structured value into a text block, too; SDKs put each entry of a list into a block of its own.
    parsed: list[Any] = []
    for block in answer.blocks:
        if isinstance(block, TextContent):
            try:
                parsed.append(json.loads(block.text))
            except (ValueError, RecursionError):
                parsed.append(block.text)
    candidates: list[Any] = [answer.structured]
    match answer.structured:
        case {"result": result, **others} if not others:
            # The structured value has to be an object, so SDKs wrap any other in `result`;
            # the text is not wrapped.
            candidates += [result, str(result)]
        case _:
            pass
    texts = [block.text for block in answer.blocks if isinstance(block, TextContent)]
    return any(value in candidates for value in [*parsed, parsed, *texts, texts])


def _is_shown(image: ImageContent) -> bool:
    return image.mime_type in PICTURES and len(image.data) <= _LARGEST_IMAGE


def image_block(image: ImageContent) -> dict[str, Any]:
    """A picture in LangChain's form."""
    return {"type": "image", "base64": base64.b64encode(image.data).decode(), "mime_type": image.mime_type}


def failure_text(outcome: CallOutcome, bound: BoundTool | None) -> str:
    """Writes why a call failed and what the model can do next, with secrets marked."""
    record = outcome.record
    error = record.error or record.status.value
    match record.status:
        case CallStatus.UNKNOWN:
            return (
                f"Error: {error} The call may have been carried out; check before you repeat it, and say so"
                " in your answer."
            )
        case CallStatus.TOOL_ERROR:
            return f"Error: the tool failed: {error}{_unknown_arguments(bound, record.arguments)}"
        case CallStatus.INVALID_ARGUMENTS:
            return f"Error: {error}{_unknown_arguments(bound, record.arguments)}{_example(bound)}"
        case _:
            return f"Error: {error}{_advice(outcome)}"


def unknown_tool(name: str, similar: Sequence[str], known: Sequence[str], finder: str | None) -> ToolNotFound:
    """The error for a name that no tool has; `finder` is None if all tools are bound."""
    if similar:
        fix = f"Did you mean {' or '.join(similar)}?"
    elif finder is not None:
        fix = f"Find the tools that there are with {finder}"
    elif known:
        more = f" and {len(known) - _NAMES_SHOWN} others" if len(known) > _NAMES_SHOWN else ""
        fix = f"The tools are {', '.join(known[:_NAMES_SHOWN])}{more}"
    else:
        fix = "There are no tools: answer without"
    return ToolNotFound(f"There is no tool {name[:200]!r}", suggestions=tuple(similar), fix=fix)


def unreadable_arguments(reason: str | None, written: str = "") -> ArgumentsInvalid:
    """The error for arguments that are no JSON object; ``reason`` says why they could not be read.

    ``written`` is the model's text, empty if it may hold secrets. The history does not keep it.
    """
    return ArgumentsInvalid(
        "The arguments could not be read"
        + (f": {reason}" if reason else "")
        + (f". They were: {written}" if written else ""),
        fix="Write the arguments as one complete JSON object; nothing was sent",
    )


def _unknown_arguments(bound: BoundTool | None, arguments_json: str | None) -> str:
    """A hint about arguments that the schema allows but does not declare: usually misspelled."""
    if bound is None or arguments_json is None:
        return ""
    schema = bound.definition["function"]["parameters"]
    known = schema.get("properties")
    # Such a schema may know arguments that `properties` does not list.
    if not isinstance(known, dict) or schema.keys() & _OPEN_KEYWORDS:
        return ""
    names = list(cast("dict[str, Any]", known))
    folded = {name.casefold(): name for name in names}
    hints: list[str] = []
    for unknown in sorted(parse_object(arguments_json).keys() - set(names))[:_NAMES_SHOWN]:
        # Cut, as difflib's time grows with the square of the length.
        similar = difflib.get_close_matches(unknown[:100].casefold(), folded, n=1)
        hints.append(f"{unknown!r} (did you mean {folded[similar[0]]!r}?)" if similar else repr(unknown))
    return f" The tool knows no argument {', '.join(hints)}." if hints else ""


def _example(bound: BoundTool | None) -> str:
    if bound is None:
        return ""
    example = example_arguments(bound.definition["function"]["parameters"])
    if len(example) > _LONGEST_EXAMPLE or example == "{}":
        return ""
    return f" Arguments of the expected form are, for example: {example}"


def _advice(outcome: CallOutcome) -> str:
    match outcome.error:
        case AuthError():
            return " No call to this server can work now: go on without it, and say so in your answer."
        case TimedOut() | ConnectError() | SessionLost():
            return " Try again at most once; then go on without it, and say so in your answer."
        case ToolChanged():
            return " The tool cannot be used now: go on without it, and say so in your answer."
        case ResultInvalid():
            return " The call was made; do not rely on the result."
        case _:
            return ""


class LargeResults:
    """Cuts results of more than ``limit`` characters, and keeps them whole for reading on. Thread-safe.

    ``reader`` is the name of the built-in tool that reads on, ``first`` the number of the first result.
    """

    def __init__(self, limit: int, reader: str = "read_result", *, first: int = 1) -> None:
        self.reader = reader
        self._limit = max(limit, _SMALLEST_LIMIT)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, str]] = OrderedDict()  # origin and text by id
        self._next = first
        self._size = 0

    @property
    def any(self) -> bool:
        """True once a result was cut and kept."""
        return bool(self._kept)

    def shorten(self, context: int | None) -> bool:
        """Shows less of each result, at first a quarter of a context; False if it cannot be less."""
        limit = max(_SMALLEST_LIMIT, self._limit // 2 if context is None else min(context, self._limit // 2))
        # At four characters a token, so many characters are a quarter of the context.
        is_less, self._limit = limit < self._limit, limit
        return is_less

    def cut(self, text: str, *, origin: str = AGENT_ORIGIN, reads_on: bool = True) -> str:
        """Shortens a long result to its beginning and its end; for its origin see `origin_of`.

        If the model has the tool that reads on, the whole text is kept, and the shortened one says how to
        read on.
        """
        if len(text) <= self._limit:
            return text
        # Most of it from the beginning, where answers say what they are; the end often has a summary, or
        # where to go on.
        head = self._limit * 3 // 4
        tail = self._limit - head
        remark = f"{len(text) - head - tail:,} of {len(text):,} characters are left out here."
        if reads_on:
            name = self._keep(origin, text)
            remark += (
                f" This is result {name}: to read on, call {self.reader} with"
                f' {{"id": "{name}", "offset": {head}}}.'
            )
        return f"{text[:head]}\n\n[{remark} The end follows.]\n\n{text[-tail:]}"

    def read(self, id: str, offset: int = 0) -> str:  # noqa: A002
        """Reads on in a long result, as much as is shown of any result.

        Raises `ArgumentsInvalid` if there is no result with this id, or it is shorter.
        """
        with self._lock:
            result = self._kept.get(id)
            known = list(self._kept)
        if result is None:
            raise ArgumentsInvalid(
                f"There is no result {id!r}, or it is no longer held",
                pointer="/id",
                fix=f"Use one of {', '.join(known)}" if known else "Call the tool again",
            )
        _, text = result
        if offset >= len(text):
            raise ArgumentsInvalid(
                f"The result has only {len(text):,} characters", pointer="/offset", fix="Use a smaller offset"
            )
        end = min(offset + self._limit, len(text))
        rest = f"{len(text) - end:,} characters follow" if end < len(text) else "this is its end"
        where = f"Characters {offset:,} to {end:,} of the {len(text):,} of result {id}"
        return f"[{where}; {rest}]\n{text[offset:end]}"

    def origin_of(self, id: str) -> str:  # noqa: A002
        with self._lock:
            return self._kept.get(id, (AGENT_ORIGIN, ""))[0]

    def _keep(self, origin: str, text: str) -> str:
        with self._lock:
            name = f"r{self._next}"
            self._next += 1
            self._kept[name] = (origin, text)
            self._size += len(text)
            # The oldest goes; the last one stays however large it is, as the model was just told its id.
            while self._size > _MOST_KEPT and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1][1])
            return name


def csv_text(value: object) -> str | None:
    """The lines of at least two records that have the same plain members; None for anything else.

    Texts that could be taken for a number, and those with commas, stand in quotes; no value is empty.
    """
    records = mappings(value)
    if len(records) < 2 or not all(records) or len(records) < len(cast("list[Any]", value)):
        return None
    names = list(records[0])
    if any(
        record.keys() != records[0].keys() or any(isinstance(part, dict | list) for part in record.values())
        for record in records
    ):
        return None
    rows = [names, *([record[name] for name in names] for record in records)]
    return "\n".join(",".join(map(_cell, row)) for row in rows)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return compact_json(value)
    return '"' + value.replace('"', '""') + '"' if _QUOTED.search(value) else value
