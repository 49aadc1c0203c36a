"""The page of ``knime-mcp audit show --html``: a timeline with the whole record of each call."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ..audit.record import blobs_of
from ..audit.verify_journal import is_as_saved
from ..tools.views.html import (
    badge,
    data_image,
    details,
    element,
    heading,
    join,
    json_block,
    meaning_of,
    note,
    page,
    paragraph,
    properties,
    status_badge,
    verdict_note,
)
from ..types.texts import beginning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from ..audit.record import CallRecord
    from ..audit.verdicts import Verification
    from ..tools.views.html import BadgeKind, Html

_MOST_CALLS: Final = 5000
_LONGEST_TEXT: Final = 20_000
_LARGEST_PICTURE: Final = 512 << 10  # as a page is read at once
_KINDS: Final = {"mcp": "⚡ MCP", "workflow": "⧉ workflow"}


def audit_pages(
    file: Path,
    name: str,
    records: Iterable[CallRecord],
    verification: Verification,
    find: Callable[[str], Path | None],
) -> Iterator[tuple[Path, str]]:
    """The pages, self-contained, each with its file: the given one, then ``NAME-2`` and so on.

    The records are those that were verified; of them one page at a time is in memory. ``find`` says where a
    saved file is: its picture is shown if it is the one on record.
    """
    left = iter(records)
    # Known before the first page is made, which links to the others.
    count = -(-sum(run.count for run in verification.runs) // _MOST_CALLS)
    files = [
        file if not n else file.with_name(f"{file.stem}-{n + 1}{file.suffix}") for n in range(max(count, 1))
    ]
    for number in range(len(files)):
        shown = islice(left, _MOST_CALLS)
        others = [
            element("a", str(n + 1), href=quote(other.name)) if n != number else str(n + 1)
            for n, other in enumerate(files)
        ]
        yield (
            files[number],
            page(
                f"Calls in {name}",
                heading(1, f"Calls in {name}"),
                verdict_note(verification),
                element("p", "Pages ", join(others, " ")) if len(files) > 1 else None,
                join(
                    _run(run, list(calls), verification, find)
                    for run, calls in groupby(shown, key=attrgetter("run"))
                ),
            ),
        )


def _run(
    run: str, calls: Sequence[CallRecord], verification: Verification, find: Callable[[str], Path | None]
) -> Html:
    verified = next((candidate for candidate in verification.runs if candidate.run == run), None)
    start = min((moment for record in calls if (moment := record.moment) is not None), default=None)
    total = max((_seconds_after(start, record) + (record.duration or 0) for record in calls), default=0.0)
    return join(
        (
            heading(2, f"Run {run}" if run else "Calls"),
            properties(
                (
                    ("Calls", str(len(calls))),
                    ("Ended", verified.outcome if verified else None),
                    ("From", start.isoformat(" ", "milliseconds") if start else None),
                    ("Took", f"{total:.3f} s" if start else None),
                    ("Head", verified.anchor if verified else None),
                )
            ),
            join(
                _call(record, start, total, find, is_altered=verification.is_altered(record))
                for record in calls
            ),
        )
    )


def _call(
    record: CallRecord,
    start: datetime | None,
    total: float,
    find: Callable[[str], Path | None],
    *,
    is_altered: bool,
) -> Html:
    took = None if record.duration is None else f"{record.duration:.3f} s"
    summary = join(
        (
            str(record.call or ""),
            badge(_KINDS.get(record.tool_type or "", "no tool")),
            record.tool_name,
            badge("altered", "bad", title="Not as it was written") if is_altered else None,
            # What an altered record says of its end is no end of a call.
            badge(record.status.value) if is_altered else status_badge(record.status),
            badge("resumed") if record.resumed_from else None,
            f"row {record.input_row}" if record.input_row is not None else None,
            took,
        ),
        " ",
    )
    return details(
        join((summary, _bar(record, start, total, "bad" if is_altered else meaning_of(record.status)))),
        note(
            "Not as it was written, or not where: somebody else put this here.",
            kind="bad",
        )
        if is_altered
        else None,
        json_block(beginning(record.arguments, _LONGEST_TEXT)) if record.arguments is not None else None,
        note(beginning(record.error, _LONGEST_TEXT), kind="bad") if record.error else None,
        paragraph(beginning(record.result, _LONGEST_TEXT)) if record.result else None,
        json_block(beginning(record.structured_result, _LONGEST_TEXT)) if record.structured_result else None,
        join(_pictures(record, find)),
        properties(
            (
                ("Server", record.server),
                ("Server version", record.server_version),
                ("Protocol", record.protocol),
                ("Started at", record.started_at),
                ("Attempts", str(record.attempts)),
                ("Taken over from run", record.resumed_from),
                ("Files", "\n".join(record.files)),
                ("Definition", record.digest),
                ("Hash", record.hash),
                ("Previous hash", record.previous_hash),
            )
        ),
    )


def _pictures(record: CallRecord, find: Callable[[str], Path | None]) -> Iterator[Html]:
    if not record.files:
        return
    with suppress(ValueError, KeyError, TypeError):  # somebody edited the record, which the verdict says
        for name, blob in zip(record.files, blobs_of(record.content), strict=False):
            file = find(name) if blob["mime_type"].startswith("image/") else None
            if file is None or blob["size"] > _LARGEST_PICTURE:
                continue
            # A page is not to show a picture that somebody put there later.
            if is_as_saved(file, blob["sha256"], blob["size"]):
                yield data_image(file.read_bytes(), blob["mime_type"], description=file.name)


def _bar(record: CallRecord, start: datetime | None, total: float, kind: BadgeKind) -> Html | None:
    """The time of the call within its run."""
    if record.moment is None or start is None or total <= 0:
        return None
    left = 100 * _seconds_after(start, record) / total
    width = max(100 * (record.duration or 0) / total, 0.3)
    place = f"margin-left:{min(left, 99.7):.2f}%;width:{min(width, 100 - min(left, 99.7)):.2f}%"
    return element(
        "div",
        element("div", class_=kind, style=f"{place};height:4px;background:currentColor"),
        title=f"{left:.0f} % into the run",
    )


def _seconds_after(start: datetime | None, record: CallRecord) -> float:
    return 0.0 if start is None or record.moment is None else (record.moment - start).total_seconds()
