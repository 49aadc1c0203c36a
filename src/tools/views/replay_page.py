"""The page of a replay, for node and command line: the verdicts, and every difference side by side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ...runs.replay_comparison import MEMBERS, ReplayRules, documents
from ...runs.replaying import ReplayVerdict
from .html import note, paragraph, verdict_note
from .run_page import RunStep, Steps, call_step, run_page, status_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...runs.replaying import ReplayedCall, ReplaySummary
    from .html import BadgeKind

_LONGEST: Final = 20_000
_BEFORE: Final = 200
_KINDS: Final[dict[ReplayVerdict, BadgeKind]] = {
    ReplayVerdict.SAME: "good",
    ReplayVerdict.DIFFERENT: "bad",
    ReplayVerdict.TOOL_CHANGED: "bad",
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


def replay_page(title: str, summary: ReplaySummary, shown: Steps) -> str:
    rules = summary.rule_texts()
    return run_page(
        title,
        shown,
        status_counts(
            (verdict.value, count, _KINDS[verdict])
            for verdict in ReplayVerdict
            if (count := summary.counts[verdict])
        ),
        paragraph(f"{summary.called} of {summary.counts.total()} calls were made again", soft=True),
        verdict_note(summary.verification),
        note("\n".join(("What may differ, by rules:", *rules))) if rules else None,
        more="in the table",
    )


def replay_step(call: ReplayedCall) -> RunStep:
    record = call.recorded.record
    step = call_step(record)
    facts = (
        ("New server", call.new.server if call.new and call.new.server != record.server else None),
        ("Recorded at", record.started_at),
        ("Now at", call.new.started_at if call.new else None),
        ("Took", _took(call)),
        ("Definition now", call.digest if call.changes else None),
        ("Patch (RFC 6902)", call.patch),
        ("Run", record.run),
    )
    differences = list(_differences(call))
    # The journal's clock says when it was recorded, which is another time than that of the replay.
    return step | RunStep(
        number=str(record.call or call.recorded.place),
        status=call.verdict.value,
        mood=_KINDS[call.verdict],
        reason=call.reason,
        start=None,
        differences=differences,
        facts=[*step.get("facts", ()), *((name, value) for name, value in facts if value)],
    )


def _took(call: ReplayedCall) -> str | None:
    seconds = [record.duration for record in (call.recorded.record, call.new) if record is not None]
    durations = ["–" if value is None else f"{value:.3f} s" for value in seconds]
    return None if call.new is None else f"{durations[0]} on record, {durations[1]} now"


def _differences(call: ReplayedCall) -> Iterator[tuple[str, str, str]]:
    """The parts of a call that differ: their names, and their texts on record and now."""
    if call.new is None or call.patch is None:
        return
    before, now, _ = documents(call.recorded.record, call.new, ReplayRules(call.rules))
    doubled = all(doc.get("result") == doc.get("structured_result") for doc in (before, now))
    for name in MEMBERS:
        if doubled and name == "result":
            continue  # servers repeat structured results as text
        old, new = _pretty(before.get(name)), _pretty(now.get(name))
        if old != new:
            yield _NAMES[name], *_window(old, new)


def _window(before: str, now: str) -> tuple[str, str]:
    """The texts, or for long texts the part from shortly before the first difference."""
    if max(len(before), len(now)) <= _LONGEST:
        return before, now
    pairs = enumerate(zip(before, now, strict=False))
    differs = next((i for i, (one, other) in pairs if one != other), min(len(before), len(now)))
    start = max(0, differs - _BEFORE)
    return _part(before, start), _part(now, start)


def _part(text: str, start: int) -> str:
    if len(text) <= _LONGEST:
        return text
    head = f"(from character {start + 1:,} of {len(text):,})\n"
    return head + text[start : start + _LONGEST - len(head)]


def _pretty(value: Any) -> str:
    if value is None:
        return ""
    return (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
    )
