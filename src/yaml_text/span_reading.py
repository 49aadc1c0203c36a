"""Where each value of a text of YAML begins and ends, for those who change the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from .reading import events_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True, kw_only=True)
class Span:
    """A value in a text: its offsets, and how it is written.

    `style` is the quote of a scalar, ``|`` or ``>`` for blocks, an empty text for plain ones, ``*`` for an
    alias; ``{`` and ``[`` for mappings and lists.
    """

    start: int
    end: int
    style: str
    flow: bool = False
    value: str = ""
    keeps_end: bool = False  # a block scalar that has the empty lines after it, too
    entries: list[Span] = field(default_factory=list["Span"])
    pairs: list[tuple[Span, Span]] = field(default_factory=list[tuple["Span", "Span"]])

    @property
    def is_mapping(self) -> bool:
        return self.style == "{"

    @property
    def is_list(self) -> bool:
        return self.style == "["

    @property
    def is_collection(self) -> bool:
        return self.is_mapping or self.is_list


def spans_of(text: str) -> Span | None:
    """The outermost value; None if there is none. Raises `yaml.YAMLError` for what libyaml refuses."""
    events = events_of(text)
    next(events)
    if isinstance(next(events), yaml.StreamEndEvent):
        return None
    return _span(text, next(events), events)


def _span(text: str, event: Any, events: Iterator[Any]) -> Span:
    start, end = event.start_mark.index, event.end_mark.index
    if isinstance(event, yaml.AliasEvent):
        return Span(start=start, end=end, style="*")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(text, event)
    style = "[" if isinstance(event, yaml.SequenceStartEvent) else "{"
    span = Span(start=start, end=end, style=style, flow=bool(event.flow_style))
    last = event
    while not isinstance(last := next(events), yaml.SequenceEndEvent | yaml.MappingEndEvent):
        entry = _span(text, last, events)
        if span.is_mapping:
            value = _span(text, next(events), events)
            span.pairs.append((entry, value))
            entry = value if value.end >= entry.end else entry
        span.entries.append(entry)
    # The parser says that a block ends where the next thing begins, after empty lines and comments.
    span.end = last.end_mark.index if span.flow else max((entry.end for entry in span.entries), default=end)
    return span


def _scalar(text: str, event: Any) -> Span:
    start, end, style = event.start_mark.index, event.end_mark.index, event.style or ""
    keeps = False
    if style in ("|", ">"):
        header = text[start:end].split("\n", 1)[0]
        keeps = "+" in header.split("#")[0]
        if not keeps:
            end = start + len(text[start:end].rstrip(" \t\r\n"))
    return Span(start=start, end=end, style=style, value=event.value, keeps_end=keeps)
