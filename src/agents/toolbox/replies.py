"""Makes the content of replies to the model: text within the limit, images, and ids of data."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, assert_never

from ...client.protocol.results import (
    ABSENT,
    AudioContent,
    EmbeddedResource,
    ImageContent,
    TextContent,
    format_size,
)
from ...tools.hidden_text import hidden_characters
from ...types.canonical import compact_json
from ...types.tool import MCPTool, WorkflowTool
from .record_tables import find_records, records_table

if TYPE_CHECKING:
    from ...runs.one_call import Answer
    from ...types.tool import Tool
    from .data_registry import DataItem, DataRegistry
    from .large_results import LargeResults
    from .toolset import BoundTool

_SHOWN_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_LARGEST_IMAGE: Final = 5_000_000  # bytes; endpoints take no larger ones
_DATA_HEADING: Final = "## Data repository update"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyMaker:
    """Makes the content of replies from tools' answers.

    Attributes:
        registry: The store for the data of answers; None keeps none.
        large: Cuts and keeps texts that are too long.
        notes: Remarks for the user, added here.
    """

    registry: DataRegistry | None
    large: LargeResults
    notes: dict[str, None] = field(default_factory=dict[str, None])

    def content(self, bound: BoundTool, answer: Answer, *, reads_on: bool) -> str | list[dict[str, Any]]:
        """Makes the content for a result: text, or a text block and image blocks.

        Args:
            bound: The tool.
            answer: The tool's answer.
            reads_on: Whether the model can read on in a long result.
        """
        data_list = "" if self.registry is None else _register_data(self.registry, bound, answer)
        whole = self._without_hidden(bound, _whole_text(answer))
        text = self.large.cut(whole, origin=origin_of(bound.tool), reads_on=reads_on)
        if data_list:
            text = f"{text}\n\n{_DATA_HEADING}\n{data_list}" if text else f"{_DATA_HEADING}\n{data_list}"
        images = [block for block in answer.blocks if isinstance(block, ImageContent) and _is_shown(block)]
        if not images:
            return text or "(The tool gave no result.)"
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        return blocks + [_image_block(image) for image in images]

    def failure(self, bound: BoundTool | None, text: str, answer: Answer | None, *, reads_on: bool) -> str:
        """Makes the content for a failure.

        Args:
            bound: The tool, None if it was not called, so that its server wrote no part of the text.
            text: The error.
            answer: The tool's answer, None without one.
            reads_on: Whether the model can read on in a long text.

        Returns:
            The text within the limit; with the result, if the result violates the tool's output schema.
        """
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
                hidden = {position for position, _ in hidden_characters(text)}
                if not hidden:
                    return text
                self.notes[
                    f"Results of '{bound.shown_name}' hold hidden characters, which the model was not shown;"
                    " look at them under Tool calls before you trust the server"
                ] = None
                return "".join(character for i, character in enumerate(text) if i not in hidden)
            case WorkflowTool():
                return text
            case _:
                assert_never(bound.tool)


def _register_data(registry: DataRegistry, bound: BoundTool, answer: Answer) -> str:  # @ToolTypeDispatch
    """Registers the data of an answer; lists for the model the data that tools can take."""
    match bound.tool:
        case MCPTool():
            _register_blobs(registry, bound, answer)  # not listed: no tool takes them
            items = _register_records(registry, bound, answer)
        case WorkflowTool(output_ports=ports):
            items: list[DataItem] = []
            for number, table in enumerate(answer.outputs):
                port = ports[number] if number < len(ports) else None
                name = port.name if port else f"output {number + 1}"
                description = (port.description if port else "") or f"Output of {bound.shown_name}"
                items.append(registry.add(table, name=name, description=description))
        case _:
            assert_never(bound.tool)
    return registry.describe(items)


def _register_records(registry: DataRegistry, bound: BoundTool, answer: Answer) -> list[DataItem]:
    if answer.structured is ABSENT or answer.is_error or answer.error is not None:
        return []
    items: list[DataItem] = []
    for member, records in find_records(answer.structured):
        table = records_table(records)
        if table is not None:
            name = f"{bound.shown_name} {member}".strip()
            items.append(registry.add(table, name=name, description=f"Result of {bound.shown_name}"))
    return items


def _register_blobs(registry: DataRegistry, bound: BoundTool, answer: Answer) -> None:
    for block in answer.blocks:
        match block:
            case ImageContent(data=data) | AudioContent(data=data) | EmbeddedResource(blob=bytes(data)):
                kind = block.mime_type or "application/octet-stream"
                text = f"{kind}, {format_size(len(data))}, of {bound.shown_name}"
                registry.add(data, name=bound.shown_name, description=text, type=kind)
            case _:
                continue


def origin_of(tool: Tool) -> str:  # @ToolTypeDispatch
    """The server that wrote the result (its text is not trusted); empty for a workflow."""
    match tool:
        case MCPTool():
            return tool.route.display
        case WorkflowTool():
            return ""
        case _:
            assert_never(tool)


def _whole_text(answer: Answer) -> str:
    """The text, and the structured value if the text does not hold it already."""
    if answer.structured is ABSENT or not answer.blocks or _repeats_structured(answer):
        return answer.text
    structured = compact_json(answer.structured)
    return f"{answer.text}\n{structured}" if answer.text else structured


def _repeats_structured(answer: Answer) -> bool:
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
            candidates += [result, str(result)]
        case _:
            pass
    texts = [block.text for block in answer.blocks if isinstance(block, TextContent)]
    return any(value in candidates for value in [*parsed, parsed, *texts, texts])


def _is_shown(image: ImageContent) -> bool:
    return image.mime_type in _SHOWN_IMAGES and len(image.data) <= _LARGEST_IMAGE


def _image_block(image: ImageContent) -> dict[str, Any]:
    """An image as LangChain's standard content block."""
    return {"type": "image", "base64": base64.b64encode(image.data).decode(), "mime_type": image.mime_type}
