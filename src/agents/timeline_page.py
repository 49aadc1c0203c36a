"""The view of an agent's run: prompt, turns of the model, tool calls and answer, as one timeline.

Made from the events of the run, so that the node and the command line show the same page. The texts come from
models and servers that are not trusted: see `tools.views.html`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..tools.views.html import (
    Html,
    badge,
    data_image,
    details,
    element,
    heading,
    join,
    json_block,
    note,
    page,
    paragraph,
    properties,
)
from ..types.texts import counted
from .agent_events import (
    Ending,
    ModelAnswered,
    ModelRetried,
    PromptGiven,
    RunEnded,
    TokenUsage,
    ToolFinished,
    ToolStarted,
)
from .message_content import image_of, shown_text
from .timeline import arguments_line, duration_text, kind_of, one_line, status_of_call, tokens_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ..tools.views.html import BadgeKind
    from .timeline import PromptTimeline

_LONGEST_TEXT: Final = 12_000
_LARGEST_IMAGE: Final = 2_000_000
_MOST_PROMPTS: Final = 100
_ENDINGS: Final[dict[Ending, tuple[str, BadgeKind]]] = {
    Ending.ANSWER: ("answered", "good"),
    Ending.CUT_OFF: ("cut off at the token limit", "warning"),
    Ending.LIMIT: ("iteration limit reached", "warning"),
    Ending.REFUSED: ("refused", "warning"),
}
_STYLE: Final = """
.line { position: relative; margin: 0; padding: 0 0 14px 22px; border-left: 2px solid var(--line); }
.line:last-child { border-color: transparent; }
.line::before { content: ""; position: absolute; left: -6px; top: 6px; width: 10px; height: 10px;
  border-radius: 50%; background: var(--soft); }
.line.model::before { background: var(--link); } .line.answer::before { background: var(--good); }
.line.trouble::before { background: var(--bad); }
.what { display: flex; flex-wrap: wrap; gap: 2px 10px; align-items: baseline; }
.what b { font-weight: 600; } .what .soft { font-size: 12.5px; }
.said { background: var(--tint); border-radius: 4px; padding: 8px 12px; margin: 4px 0 8px; }
.answer .said { background: var(--good-tint); }
details.call { border: 1px solid var(--line); border-radius: 4px; padding: 4px 10px; margin: 6px 0; }
details.call > summary { cursor: pointer; }
.row { display: inline-flex; flex-wrap: wrap; gap: 0 8px; align-items: center; width: calc(100% - 24px);
  vertical-align: top; }
.row > * { flex: none; } .row > :last-child { flex: 1 1 10em; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.kind { display: inline-flex; gap: 5px; align-items: center; font-size: 12.5px; color: var(--soft);
  min-width: 6.2em; }
.clock { height: 3px; margin: 3px 0 2px; background: var(--tint); }
.clock > div { height: 3px; background: currentColor; min-width: 2px; }
img { max-width: 100%; max-height: 420px; }
"""


def timeline_page(
    prompts: Sequence[PromptTimeline],
    *,
    title: str = "MCP Agent Prompter",
    warning: str | None = None,
    facts: Iterable[tuple[str, str | None]] = (),
) -> str:
    """Writes a self-contained HTML page of the runs, one per prompt.

    ``facts`` are names and values to show above the timeline: the model, the journal.
    """
    shown = prompts[:_MOST_PROMPTS]
    several = len(prompts) > 1 or any(prompt.row is not None for prompt in prompts)
    body = [_folded(prompt) for prompt in shown] if several else [_timeline(prompt) for prompt in shown]
    return page(
        title,
        Html(f"<style>{_STYLE}</style>"),
        heading(1, title),
        element("p", _summary(prompts)),
        note(warning, kind="warning") if warning else None,
        properties(facts),
        join(body),
        paragraph(f"… and {len(prompts) - len(shown):,} more prompts, in the tables", soft=True)
        if len(prompts) > len(shown)
        else None,
    )


def _summary(prompts: Sequence[PromptTimeline]) -> Html:
    calls = [call for prompt in prompts for call in prompt.calls]
    kinds = [_kind(call).word for call in calls]
    failed = sum(1 for call in calls if call.reply.failed)
    turns = sum(len(prompt.turns) for prompt in prompts)
    by_kind = ", ".join(f"{kinds.count(word)} {word}" for word in dict.fromkeys(kinds))
    usage = sum((prompt.usage for prompt in prompts), TokenUsage())
    errors = sum(1 for prompt in prompts if prompt.error is not None)
    call_count = counted(len(calls), "tool call")
    parts = [
        *([badge(f"{len(prompts):,} prompts")] if len(prompts) > 1 else []),
        *([badge(counted(errors, "prompt") + " failed", "bad")] if errors and len(prompts) > 1 else []),
        *([_ending(prompts[0])] if len(prompts) == 1 else []),
        badge(counted(turns, "turn") + " of the model"),
        badge(f"{call_count}: {by_kind}" if by_kind else call_count),
        *([badge(f"{counted(failed, 'call')} failed", "bad")] if failed else []),
        *([badge(text)] if (text := tokens_text(usage)) else []),
        badge(duration_text(sum(prompt.seconds for prompt in prompts))),
    ]
    return join(parts, " ")


def _ending(prompt: PromptTimeline) -> Html:
    if prompt.ended is not None:
        return badge(*_ENDINGS[prompt.ended.ending])
    return badge("failed" if prompt.error else "not finished", "bad" if prompt.error else "warning")


def _folded(prompt: PromptTimeline) -> Html:
    question = element("span", one_line(prompt.question))
    summary = element("span", element("b", prompt.row), _ending(prompt), question, class_="row")
    return details(summary, _timeline(prompt))


def _timeline(prompt: PromptTimeline) -> Html:
    clock = _Clock(prompt.start, prompt.seconds)
    started = {event.request.id: event for event in prompt.events if isinstance(event, ToolStarted)}
    finished = {call.reply.request.id for call in prompt.calls}
    lines: list[Html] = []
    calls: list[Html] = []

    def flush() -> None:
        if calls:
            lines.append(_line("tools", element("b", counted(len(calls), "tool call")), body=join(calls)))
            calls.clear()

    for event in prompt.events:
        match event:
            case ToolFinished():
                calls.append(_call(event, started.get(event.reply.request.id), clock))
                continue
            case ToolStarted():
                if event.request.id not in finished:
                    calls.append(_unfinished(event))
                continue
            case _:
                flush()
        match event:
            case PromptGiven():
                lines.append(_line("prompt", element("b", "Prompt"), body=_text_box(event.text)))
            case ModelAnswered():
                lines.append(_turn(event, clock))
            case ModelRetried():
                text = f"Turn {event.iteration}: sent again after {duration_text(event.wait)}. {event.reason}"
                lines.append(_line("trouble", element("span", text, class_="soft")))
            case RunEnded():
                lines.append(_end(event))
            case _:  # pieces of text; the turn has the whole text
                pass
    flush()
    if prompt.error is not None:
        lines.append(_line("trouble", element("b", "Failed"), body=note(prompt.error, kind="bad")))
    return join(lines)


def _line(kind: str, *head: Html | str | None, body: Html | None = None) -> Html:
    line = join((part for part in head if part), " ")
    return element("div", element("div", line, class_="what"), body, class_=f"line {kind}")


def _turn(turn: ModelAnswered, clock: _Clock) -> Html:
    call_count = len(turn.message.tool_calls)
    text = shown_text(turn.message)
    remarks = [
        duration_text(turn.duration),
        tokens_text(turn.usage),
        f"asks for {counted(call_count, 'tool call')}" if call_count else None,
        f"sent {turn.attempts} times" if turn.attempts > 1 else None,
    ]
    return _line(
        "model",
        element("b", f"Turn {turn.iteration}"),
        badge("model"),
        element("span", " · ".join(part for part in remarks if part), class_="soft"),
        body=join(
            (
                clock.bar(turn.at, turn.duration),
                # The text of the last turn is shown below, as the answer.
                _text_box(text) if text and call_count else None,
            )
        ),
    )


def _call(call: ToolFinished, started: ToolStarted | None, clock: _Clock) -> Html:
    reply, record = call.reply, call.reply.record
    kind = _kind(call)
    status, meaning = status_of_call(call)
    summary = element(
        "span",
        element("span", kind.icon, kind.word, class_="kind"),
        element("b", call.shown_name or reply.request.name or "(no name)"),
        badge(status, meaning),
        element("span", duration_text(call.duration), class_="soft"),
        element("span", arguments_line(call), class_="soft"),
        class_="row",
    )
    return _folded_call(
        join((summary, clock.bar(started.at, call.duration) if started else None)),
        heading(3, "Arguments"),
        _arguments(call),
        note(_cut(record.error), kind="bad") if record is not None and record.error else None,
        heading(3, "Told to the model"),
        _content(reply.content),
        *_structured_result(call),
        properties(
            (
                ("Server", record.server if record else None),
                ("Started at", record.started_at if record else None),
                ("Attempts", str(record.attempts) if record and record.attempts > 1 else None),
                ("Files", "\n".join(record.files) if record else None),
                ("Call", str(record.call) if record and record.call else None),
            )
        ),
    )


def _folded_call(summary: Html, *body: Html | None) -> Html:
    return element("details", element("summary", summary), *body, class_="call")


def _unfinished(event: ToolStarted) -> Html:
    summary = element(
        "span",
        element("b", event.shown_name),
        badge("not finished", "warning"),
        class_="row",
    )
    return _folded_call(summary)


def _arguments(call: ToolFinished) -> Html:
    record, request = call.reply.record, call.reply.request
    if record is not None and record.arguments is not None:
        return _block(record.arguments)
    if call.reply.unfinished:
        return note("Not shown: nobody marked the secrets in them before the run ended.")
    if request.error is not None:
        return note(_cut(request.error), kind="bad")
    return _block(json.dumps(dict(request.arguments or {}), ensure_ascii=False, default=str))


def _structured_result(call: ToolFinished) -> list[Html]:
    record = call.reply.record
    structured = record.structured_result if record is not None else None
    if structured is None:
        return []
    return [details("Structured result", _block(structured))]


def _content(content: str | list[dict[str, Any]]) -> Html:
    if isinstance(content, str):
        return _block(content) if content else paragraph("(nothing)", soft=True)
    parts: list[Html] = []
    for block in content:
        image = image_of(block)
        if image is None:
            parts.append(_block(str(block.get("text") or f"[{block.get('type')}]")))
        elif len(image[0]) > _LARGEST_IMAGE:
            parts.append(paragraph(f"{image[1]}, {len(image[0]):,} bytes", soft=True))
        else:
            parts.append(data_image(*image, description="Image that the tool gave"))
    return join(parts)


def _end(event: RunEnded) -> Html:
    text, kind = _ENDINGS[event.ending]
    remarks = [duration_text(event.duration), tokens_text(event.usage)]
    good = event.ending in {Ending.ANSWER, Ending.CUT_OFF, Ending.LIMIT}
    return _line(
        "answer" if good else "trouble",
        element("b", "Answer" if good else "End"),
        badge(text, kind) if event.ending is not Ending.ANSWER else None,
        element("span", " · ".join(part for part in remarks if part), class_="soft"),
        body=_text_box(event.text or "(The model said nothing.)"),
    )


@dataclass(frozen=True, slots=True)
class _Clock:
    """Draws the position and length of a step within the run."""

    start: datetime | None
    total: float

    def bar(self, at: datetime, seconds: float) -> Html | None:
        if self.start is None or self.total <= 0:
            return None
        left = min(max(100 * (at - self.start).total_seconds() / self.total, 0.0), 99.5)
        # So wide at least that the eye finds it.
        width = min(max(100 * seconds / self.total, 0.4), 100 - left)
        inner = element("div", style=f"margin-left:{left:.2f}%;width:{width:.2f}%")
        return element(
            "div", inner, class_="clock", title=f"{left:.0f} % into the run, {duration_text(seconds)}"
        )


def _kind(call: ToolFinished) -> Any:
    return kind_of(call.reply.tool, recorded=call.reply.record is not None, unfinished=call.reply.unfinished)


def _text_box(text: str) -> Html:
    return element("div", paragraph(_cut(text)), class_="said")


def _block(text: str) -> Html:
    return json_block(_cut(text))


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT]}\n… ({len(text):,} characters in all; the tables have the whole of it)"
