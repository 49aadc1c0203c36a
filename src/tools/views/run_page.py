"""The page of a run, whatever made it: what it was about, and its steps, which `run_page.js` lists.

A step is a dictionary, see `RunStep`: the page has it as JSON, and the script makes text of it, never HTML.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypedDict, assert_never, cast

from ...audit.calls_table import tool_of
from ...types.errors import ToolFormatError
from ...types.texts import beginning, shortened, visible, without_surrogates
from ...types.tool import MCPTool, WorkflowTool
from .html import Html, element, heading, join, meaning_of, page, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ...audit.record import CallRecord
    from ...types.tool import Tool
    from .html import BadgeKind, Content

_MOST: Final = 10_000  # steps of a page, and as many bad ones
_MOST_BYTES: Final = 8 << 20
_LONGEST: Final = 20_000
_FIRST: Final = 200  # steps, and characters of each of their texts
_SHORT: Final = 240
_LONGEST_PICTURE: Final = 1 << 20  # as a data URL, as a page is read at once
_COLUMNS: Final = ("Row", "Step", "Status", "Arguments", "Result", "Took", "When")
_ICONS: Final = {"mcp": "⚡", "workflow": "⧉"}


class RunStep(TypedDict, total=False):
    """What a page shows of a step; all but its kind may be missing."""

    kind: str  # "call", or what somebody said
    icon: str
    number: str
    row: str | None
    name: str
    status: str
    mood: BadgeKind
    sent: str | None
    came: str | None
    structured: str | None
    error: str | None
    reason: str | None
    altered: str | None  # why it is not as it was written
    start: float | None  # milliseconds
    took: float | None  # seconds
    pictures: list[tuple[str, str]]  # data URLs and descriptions
    differences: list[tuple[str, str, str]]  # name, on record, and now
    facts: list[tuple[str, str]]
    tool: str | None  # the definition on record


class Steps:
    """The steps of a page, as many as a browser opens at once, unless they are unbounded.

    Bad ones have room of their own.

    Attributes:
        left_out: The number of steps that had no room.
        first: What the first steps say in short, for who runs no scripts.
    """

    def __init__(self, *, bounded: bool = True) -> None:
        self._bounded = bounded
        self.left_out = 0
        self.first: list[list[str]] = []
        self._texts: list[str] = []
        self._counts, self._sizes = [0, 0], [0, 0]
        self._tools: dict[str, str] = {}  # numbers by definition

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, step: RunStep) -> bool:
        """Adds a step, unless there is no room."""
        is_bad = step.get("mood") == "bad" or bool(step.get("altered"))
        if self._bounded and (self._counts[is_bad] >= _MOST or self._sizes[is_bad] >= _MOST_BYTES):
            self.left_out += 1
            return False
        tool = step.get("tool")
        shown = _shown({**step, "tool": None})
        if tool:
            shown["tool"] = self._tools.setdefault(tool, str(len(self._tools)))
        text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        self._texts.append(text)
        if len(self.first) < _FIRST:
            came = step.get("altered") or step.get("error") or step.get("came") or step.get("structured")
            cells = (step.get("row") or step.get("number"), *map(step.get, ("name", "status", "sent")), came)
            self.first.append([shortened(str(cell or ""), _SHORT) for cell in cells])
        self._counts[is_bad] += 1
        self._sizes[is_bad] += len(text)
        return True

    def as_json(self) -> str:
        """The steps and their tools, as the script reads them."""
        tools = {number: shown for text, number in self._tools.items() if (shown := _tool(text))}
        text = f'{{"tools":{json.dumps(tools, ensure_ascii=False)},"steps":[{",".join(self._texts)}]}}'
        return without_surrogates(text)

    def data(self) -> Html:
        # Nothing in a text may end the element: https://html.spec.whatwg.org/#restrictions-for-contents-of-script-elements
        safe = self.as_json().replace("<", "\\u003c")
        return Html(f'<script type="application/json" id="steps-data">{safe}</script>')


def run_page(
    title: str, steps: Steps, *top: Content, more: str | None = None, cursor: str | None = None
) -> str:
    """Writes the page; `top` stands above the steps, `more` says where those are that have no room.

    `cursor` is for a page that is served: what it asks its server for news with; "" if it has none.
    """
    choices = (("tool", "Tool"), ("status", "Status"))
    left_out = f"… and {steps.left_out:,} more{f', {more}' if more else ''}" if steps.left_out else None
    return page(
        title,
        element(
            "main",
            heading(1, title),
            element("div", *top, id="top"),
            element(
                "div",
                element("input", type="search", id="search", placeholder="Search  /", aria_label="Search"),
                *(
                    element("select", element("option", f"{name}: all", value=""), id=id_, aria_label=name)
                    for id_, name in choices
                ),
                element("label", element("input", type="checkbox", id="order"), " errors first"),
                element("span", id="shown", class_="soft", role="status"),
                class_="bar",
            ),
            element("div", *(element("span", name) for name in _COLUMNS), class_="heads"),
            element("div", id="steps", data_cursor=cursor),
            element("div", id="end"),
            element(
                "noscript",
                paragraph(f"Without scripts, the first {len(steps.first):,} steps are shown:", soft=True),
                table(_COLUMNS[:5], steps.first),
            ),
            paragraph(left_out, soft=True) if left_out else None,
        ),
        steps.data(),
        scripts=("steps.js", "run_page.js"),
        is_served=cursor is not None,
    )


def call_step(record: CallRecord) -> RunStep:
    """The step of a call on record."""
    facts = (
        ("Call", str(record.call or "")),
        ("Server", record.server),
        ("Server version", record.server_version),
        ("Protocol", record.protocol),
        ("Started at", record.started_at),
        ("Attempts", str(record.attempts) if record.attempts > 1 else None),
        ("Taken over from run", record.resumed_from),
        ("Files", "\n".join(record.files)),
        ("Definition", record.digest),
        ("Hash", record.hash),
    )
    return RunStep(
        kind="call",
        icon=_ICONS.get(record.tool_type or "", "?"),
        number=str(record.call or ""),
        row=record.input_row,
        name=record.tool_name or "no tool",
        status=f"{record.status.value}{', resumed' if record.resumed_from else ''}",
        mood=meaning_of(record.status),
        sent=record.arguments,
        came=record.result,
        structured=None
        if is_same_json(record.structured_result, record.result)
        else record.structured_result,
        error=record.error,
        start=milliseconds(record.moment),
        took=record.duration,
        facts=[(name, value) for name, value in facts if value],
        tool=record.tool,
    )


def picture_of(source: str | None, description: str) -> list[tuple[str, str]]:
    """A picture for a step, unless it is too large for a page."""
    return [(source, description)] if source is not None and len(source) <= _LONGEST_PICTURE else []


def milliseconds(moment: datetime | None) -> float | None:
    return None if moment is None else round(moment.timestamp() * 1000, 3)


def is_same_json(structured: str | None, text: str | None) -> bool:
    """Whether a structured result only repeats the text of the result, as most servers' do."""
    if not structured or not text or max(len(structured), len(text)) > _LONGEST:
        return False
    with suppress(ValueError, RecursionError):
        return bool(json.loads(structured) == json.loads(text))
    return False


def _shown(value: Any) -> Any:
    """A step without what is missing, with long texts cut and hidden characters as visible escapes."""
    match value:
        case str() if value.startswith("data:image/"):
            return value
        case str():
            # Most texts; looking at each of their characters takes a third of the time of a page.
            if value.isascii() and value.isprintable() and len(value) <= _LONGEST:
                return value
            return visible(beginning(value, _LONGEST))
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: _shown(each) for name, each in members.items() if each not in (None, "", [])}
        case list() | tuple():
            return [_shown(each) for each in cast("list[Any]", value)]
        case _:
            return value


def _tool(text: str) -> dict[str, Any] | None:  # @ToolTypeDispatch
    try:
        tool: Tool = tool_of(text)
    except ToolFormatError:
        return None
    match tool:
        case MCPTool():
            kind, output = "MCP tool", tool.declared_json
        case WorkflowTool():
            kind, output = "KNIME workflow", None
        case _:
            assert_never(tool)
    schema = tool.schema_json or "{}"
    description = tool.description or "(no description)"
    return _shown({"kind": kind, "description": description, "schema": schema, "output": output})


def said(title: str, text: str | None) -> Html | None:
    """A question or an answer, above the steps."""
    if not text:
        return None
    body = element("div", beginning(text, _LONGEST), class_="said-text note", tabindex="0")
    return join((heading(2, title), body))


def status_counts(counts: Iterable[tuple[str, int, BadgeKind]]) -> Html:
    from .html import badge

    return element(
        "p", join((badge(f"{count:,} {word}", kind) for word, count, kind in counts if count), " ")
    )
