"""The page of a replay, for node and command line: the verdicts, and every difference side by side."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...runs.recorded_calls import ReplayVerdict
from ...runs.replay_comparison import documents
from ...runs.replay_rules import MEMBERS, ReplayRules
from ...types.texts import beginning
from .html import (
    Html,
    badge,
    details,
    element,
    heading,
    join,
    json_block,
    note,
    page,
    paragraph,
    properties,
    table,
    verdict_note,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...runs.recorded_calls import ReplayedCall
    from ...runs.replaying import ReplaySummary
    from .html import BadgeKind

_MOST_SHOWN: Final = 200
_MOST_OTHERS: Final = 50
_OPENED: Final = 5
_LONGEST: Final = 60_000
_LONGEST_JSON: Final = 4_000
_MOST_LINES: Final = 1_500
_CONTEXT: Final = 3
_BEFORE: Final = 200
_KINDS: Final[dict[ReplayVerdict, BadgeKind]] = {
    ReplayVerdict.SAME: "good",
    ReplayVerdict.DIFFERENT: "bad",
    ReplayVerdict.TOOL_CHANGED: "warning",
    ReplayVerdict.TOOL_MISSING: "bad",
    ReplayVerdict.SKIPPED: "neutral",
    ReplayVerdict.FAILED: "bad",
}
_NAMES: Final = {
    "status": "Status",
    "result": "Result",
    "structured_result": "Structured result",
    "error": "Error",
    "files": "Files",
}


@dataclass(slots=True)
class ShownCalls:
    """The calls that a page shows: the first with a bad verdict, and a few of the others."""

    notable: list[ReplayedCall] = field(default_factory=list["ReplayedCall"])
    others: list[ReplayedCall] = field(default_factory=list["ReplayedCall"])
    left_out: int = 0  # the number of further calls

    def add(self, call: ReplayedCall) -> None:
        calls, room = (self.others, _MOST_OTHERS) if call.verdict.is_good else (self.notable, _MOST_SHOWN)
        if len(calls) < room:
            calls.append(call)
        else:
            self.left_out += 1


def replay_page(title: str, summary: ReplaySummary, shown: ShownCalls) -> str:
    counts = [(verdict, summary.counts[verdict]) for verdict in ReplayVerdict if summary.counts[verdict]]
    called = f"{summary.called} of {summary.counts.total()} calls were made again"
    return page(
        title,
        heading(1, title),
        paragraph(
            join((badge(f"{count} {verdict.value}", _KINDS[verdict]) for verdict, count in counts), " ")
        ),
        paragraph(called, soft=True),
        verdict_note(summary.verification),
        _rules(summary.rule_texts()),
        heading(2, "To look into") if shown.notable else None,
        join(_call(call, opened=place < _OPENED) for place, call in enumerate(shown.notable)),
        heading(2, "Other calls") if shown.others else None,
        join(_call(call, opened=False) for call in shown.others),
        paragraph(f"… and {shown.left_out} more calls, in the table", soft=True) if shown.left_out else None,
    )


def _rules(texts: Sequence[str]) -> Html | None:
    return note("\n".join(("What may differ, by rules:", *texts)), kind="neutral") if texts else None


def _call(call: ReplayedCall, *, opened: bool) -> Html:
    record = call.recorded.record
    summary = join(
        (
            str(record.call or call.recorded.place),
            record.tool_name or "no tool",
            badge(call.verdict.value, _KINDS[call.verdict]),
            f"row {record.input_row}" if record.input_row is not None else None,
            beginning(record.arguments or "", 100),
        ),
        " ",
    )
    return details(
        summary,
        paragraph(call.reason) if call.reason else None,
        _differences(call),
        _json("Arguments", record.arguments),
        _json("Patch (RFC 6902)", call.patch),
        properties(
            (
                ("Server", record.server),
                ("New server", call.new.server if call.new and call.new.server != record.server else None),
                ("Recorded at", record.started_at),
                ("Now at", call.new.started_at if call.new else None),
                ("Took", _took(call)),
                ("Definition on record", record.digest if call.changes else None),
                ("Definition now", call.digest if call.changes else None),
                ("Run", record.run),
            )
        ),
        opened=opened,
    )


def _json(title: str, text: str | None) -> Html | None:
    return details(title, json_block(beginning(text, _LONGEST_JSON))) if text else None


def _took(call: ReplayedCall) -> str | None:
    seconds = [record.duration for record in (call.recorded.record, call.new) if record is not None]
    durations = ["–" if value is None else f"{value:.3f} s" for value in seconds]
    return None if call.new is None else f"{durations[0]} on record, {durations[1]} now"


def _differences(call: ReplayedCall) -> Html | None:
    if call.new is None or call.patch is None:
        return None
    before, now, _ = documents(call.recorded.record, call.new, ReplayRules(call.rules))
    parts: list[Html] = []
    doubled = all(doc.get("result") == doc.get("structured_result") for doc in (before, now))
    for name in MEMBERS:
        if doubled and name == "result":
            continue  # servers repeat structured results as text
        old, new = _pretty(before.get(name)), _pretty(now.get(name))
        if old != new:
            parts += [heading(3, _NAMES[name]), _side_by_side(old, new)]
    return join(parts)


def _side_by_side(before: str, now: str) -> Html:
    """The differing lines, marked, with a few lines around them; limited for very long texts."""
    old, new = (text.splitlines() for text in _window(before, now))
    rows = list(_rows(old, new))
    grid = table(("On record", "Now"), rows[:_MOST_LINES])
    more = len(rows) - _MOST_LINES
    return join((grid, paragraph(f"… and {more} more lines", soft=True) if more > 0 else None))


def _rows(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Html, Html]]:
    for number, group in enumerate(difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT)):
        if number:
            yield _cell("⋯", None), _cell("⋯", None)
        for kind, old_start, old_end, new_start, new_end in group:
            left, right = old[old_start:old_end], new[new_start:new_end]
            for place in range(max(len(left), len(right))):
                one = left[place] if place < len(left) else None
                other = right[place] if place < len(right) else None
                if kind == "equal":
                    yield _cell(one, None), _cell(other, None)
                else:
                    yield _cell(one, "bad"), _cell(other, "good")


def _cell(line: str | None, kind: str | None) -> Html:
    if line is None:
        return Html()
    return element("code", line or " ", class_=kind)


def _window(before: str, now: str) -> tuple[str, str]:
    """The texts, or for long texts the part from shortly before the first difference."""
    if max(len(before), len(now)) <= _LONGEST:
        return before, now
    pairs = enumerate(zip(before, now, strict=False))
    differs = next((i for i, (one, other) in pairs if one != other), min(len(before), len(now)))
    # Comparing lines takes quadratic time in the worst case, so it has to see few of them.
    start = max(0, differs - _BEFORE)
    return _part(before, start), _part(now, start)


def _part(text: str, start: int) -> str:
    if len(text) <= _LONGEST:
        return text
    part = text[start : start + _LONGEST]
    return f"(from character {start + 1:,} of {len(text):,})\n{part}"


def _pretty(value: Any) -> str:
    if value is None:
        return ""
    return (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
    )
