"""The page of an agent's run: prompts, turns of the model, tool calls and answers, as the steps of a run.

Made from the events of the run, so that the node and the command line show the same page.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ..tools.views.html import data_url, note, paragraph, properties
from ..tools.views.run_page import (
    RunStep,
    Steps,
    call_step,
    milliseconds,
    picture_of,
    run_page,
    said,
    status_counts,
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
from .timeline import duration_text, kind_of, status_of_call, tokens_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..tools.views.html import BadgeKind
    from .agent_events import AgentEvent
    from .timeline import PromptTimeline, ToolKind

_ENDINGS: Final[dict[Ending, tuple[str, BadgeKind]]] = {
    Ending.ANSWER: ("answered", "good"),
    Ending.CUT_OFF: ("cut off at the token limit", "warning"),
    Ending.LIMIT: ("iteration limit reached", "warning"),
    Ending.REFUSED: ("refused", "warning"),
}
_SILENT: Final = "(The model said nothing.)"
_UNMARKED: Final = "Not shown: nobody marked the secrets in them before the run ended."


def timeline_page(
    prompts: Sequence[PromptTimeline],
    *,
    title: str = "MCP Agent Prompter",
    warning: str | None = None,
    facts: Iterable[tuple[str, str | None]] = (),
) -> str:
    """Writes a self-contained HTML page of the runs, one per prompt.

    ``facts`` are names and values to show above the steps: the model, the journal.
    """
    steps = Steps()
    for prompt in prompts:
        for step in _steps(prompt):
            steps.add(step)
    only = prompts[0] if len(prompts) == 1 else None
    return run_page(
        title,
        steps,
        status_counts(_summary(prompts)),
        paragraph(_effort(prompts), soft=True),
        note(warning, kind="warning") if warning else None,
        said("Question", only.question) if only else None,
        said("Answer", only.ended.text or _SILENT) if only and only.ended else None,
        note(only.error, kind="bad") if only and only.error else None,
        properties(facts),
        more="in the tables",
    )


def _summary(prompts: Sequence[PromptTimeline]) -> Iterator[tuple[str, int, BadgeKind]]:
    """What came of the prompts, and how many calls failed."""
    endings = [_ending(prompt) for prompt in prompts]
    for word, kind in dict.fromkeys(endings):
        yield word, endings.count((word, kind)), kind
    failed = sum(call.reply.failed for prompt in prompts for call in prompt.calls)
    if failed:
        yield "failed call" if failed == 1 else "failed calls", failed, "bad"


def _ending(prompt: PromptTimeline) -> tuple[str, BadgeKind]:
    if prompt.ended is not None:
        return _ENDINGS[prompt.ended.ending]
    return ("failed", "bad") if prompt.error else ("not finished", "warning")


def _effort(prompts: Sequence[PromptTimeline]) -> str:
    kinds = [_kind_of(call).word for prompt in prompts for call in prompt.calls]
    by_kind = ", ".join(f"{kinds.count(word)} {word}" for word in dict.fromkeys(kinds))
    turns = sum(len(prompt.turns) for prompt in prompts)
    parts = (
        counted(turns, "turn") + " of the model",
        counted(len(kinds), "tool call") + (f": {by_kind}" if by_kind else ""),
        tokens_text(sum((prompt.usage for prompt in prompts), TokenUsage())),
        duration_text(sum(prompt.seconds for prompt in prompts)),
    )
    return " · ".join(part for part in parts if part)


def _steps(prompt: PromptTimeline) -> Iterator[RunStep]:
    started = {event.request.id: event for event in prompt.events if isinstance(event, ToolStarted)}
    finished = {call.reply.request.id for call in prompt.calls}
    for event in prompt.events:
        step = _step(event, started, finished)
        if step is not None:
            yield step | RunStep(row=prompt.row)
    if prompt.error is not None:
        yield RunStep(
            kind="answer", row=prompt.row, name="End", status="failed", mood="bad", error=prompt.error
        )


def _step(event: AgentEvent, started: dict[str, ToolStarted], finished: set[str]) -> RunStep | None:
    match event:
        case PromptGiven():
            return RunStep(kind="prompt", name="Question", sent=event.text, start=milliseconds(event.at))
        case ModelAnswered():
            return _turn(event)
        case ModelRetried():
            text = f"Sent again after {duration_text(event.wait)}. {event.reason}"
            name = f"Turn {event.iteration}"
            return RunStep(kind="retry", name=name, status="sent again", mood="warning", sent=text)
        case ToolStarted() if event.request.id not in finished:
            return RunStep(kind="call", name=event.shown_name, status="not finished", mood="warning")
        case ToolFinished():
            return _call(event, started.get(event.reply.request.id))
        case RunEnded():
            word, kind = _ENDINGS[event.ending]
            return RunStep(kind="answer", name="Answer", status=word, mood=kind, sent=event.text or _SILENT)
        case _:  # pieces of text; the turn has the whole text
            return None


def _turn(turn: ModelAnswered) -> RunStep:
    calls = len(turn.message.tool_calls)
    facts = [
        ("Tokens", tokens_text(turn.usage) or ""),
        ("Sent", f"{turn.attempts} times" if turn.attempts > 1 else ""),
    ]
    return RunStep(
        kind="turn",
        name=f"Turn {turn.iteration}",
        status=f"asks for {counted(calls, 'tool call')}" if calls else "",
        # The text of the last turn is the answer.
        sent=shown_text(turn.message) if calls else None,
        start=milliseconds(turn.at),
        took=turn.duration,
        facts=[(name, text) for name, text in facts if text],
    )


def _call(call: ToolFinished, started: ToolStarted | None) -> RunStep:
    reply, record = call.reply, call.reply.record
    status, mood = status_of_call(call)
    text, pictures = _content(reply.content)
    recorded = call_step(record) if record is not None else RunStep()
    return recorded | RunStep(
        kind="call",
        icon=_kind_of(call).glyph,
        name=call.shown_name or reply.request.name or "(no name)",
        status=status,
        mood=mood,
        sent=_arguments(call),
        came=text,
        pictures=pictures,
        start=milliseconds(started.at) if started else None,
        took=call.duration,
    )


def _arguments(call: ToolFinished) -> str:
    record, request = call.reply.record, call.reply.request
    # The arguments of a record have marks in place of secrets; those of the request have not.
    if record is not None and record.arguments is not None:
        return record.arguments
    if call.reply.unfinished:
        return _UNMARKED
    if request.error is not None:
        return request.error
    return json.dumps(dict(request.arguments or {}), ensure_ascii=False, default=str)


def _content(content: str | list[dict[str, object]]) -> tuple[str, list[tuple[str, str]]]:
    """What was told to the model: the texts, and the pictures that a page can show."""
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    pictures: list[tuple[str, str]] = []
    for block in content:
        image = image_of(block)
        shown = [] if image is None else picture_of(data_url(*image), "Image that the tool gave")
        pictures += shown
        if image is None:
            texts.append(str(block.get("text") or f"[{block.get('type')}]"))
        elif not shown:
            texts.append(f"[{image[1]}, {len(image[0]):,} bytes]")
    return "\n".join(texts), pictures


def _kind_of(call: ToolFinished) -> ToolKind:
    return kind_of(call.reply.tool, recorded=call.reply.record is not None, unfinished=call.reply.unfinished)
