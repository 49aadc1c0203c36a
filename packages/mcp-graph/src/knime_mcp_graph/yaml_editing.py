"""Writes changed values into a text of YAML, and leaves every other character of it as it is.

The text is cut where the parser says that values begin and end, and nothing is written anew but what differs:
comments, order, quotes, indents and the way in which a collection is written stay. The result is read again:
`EditError` if it is not exactly what was wanted, as where a change would also change an alias of the value.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

from knime_mcp.yaml_text import YamlError, as_list, as_mapping, events_of, read

from .yaml_values import Style, block_text, flow_text, in_block_style, scalar_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from knime_mcp.yaml_text import Rules


class EditError(Exception):
    """A change cannot be written into this text."""


def edited(text: str, data: Any, rules: Rules) -> str:
    """The text with as few changes as it takes to hold `data`: dicts, lists, texts, numbers, truths, None.

    Raises:
        EditError: The text cannot be read, or the change cannot be written without changing something else.
    """
    try:
        before = read(text, rules)
        if same(before.data, data):
            return text
        root = _spans_of(text)
    except (YamlError, yaml.YAMLError):
        raise EditError("The text cannot be read; correct it first") from None
    if root is None:
        return _checked(f"{text}{_with_end(text)}{block_text(data, 0, rules)}\n", data, rules)
    found = _Difference(text, rules).of(root, before.data, data, _Place(indent=0, flow=root.flow))
    # Stable: at one place, what is added within an entry (found first) stands before what is added behind it.
    cuts = sorted(found, key=lambda cut: (cut.start, cut.end))
    for cut in reversed(cuts):
        text = f"{text[: cut.start]}{cut.text}{text[cut.end :]}"
    return _checked(text, data, rules)


def _with_end(text: str) -> str:
    return "" if not text or text.endswith("\n") else "\n"


def _checked(text: str, data: Any, rules: Rules) -> str:
    why = "The change cannot be written into the text: it would change another part, too, such as an alias"
    try:
        written = read(text, rules)
    except YamlError:
        raise EditError(why) from None
    if not same(written.data, data):
        raise EditError(why)
    return text


def same(one: Any, other: Any) -> bool:
    """Whether two values are written alike; 1 and true are equal in Python."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        members = cast("dict[str, Any]", one)
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in members.items())
    if isinstance(one, list):
        entries = cast("list[Any]", one)
        return len(entries) == len(other) and all(map(same, entries, other))
    return one == other or one != one


@dataclass(slots=True, kw_only=True)
class _Span:
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
    entries: list[_Span] = field(default_factory=list["_Span"])
    pairs: list[tuple[_Span, _Span]] = field(default_factory=list[tuple["_Span", "_Span"]])

    @property
    def is_mapping(self) -> bool:
        return self.style == "{"

    @property
    def is_list(self) -> bool:
        return self.style == "["

    @property
    def is_collection(self) -> bool:
        return self.is_mapping or self.is_list


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a value stands: the column of the entries around it, or inside of brackets."""

    indent: int
    flow: bool
    colon: int | None = None  # the offset after the colon of its key


@dataclass(slots=True)
class _Entry:
    """An entry of a list or mapping: where it begins, with its key or dash, and its value."""

    start: int
    value: _Span
    colon: int | None
    name: Any

    @property
    def end(self) -> int:
        return max(self.value.end, self.start)


@dataclass(slots=True)
class _Plan:
    """What becomes of the entries of a collection: of those that are there, and what comes after each."""

    kept: dict[int, Any] = field(default_factory=dict[int, Any])
    added: dict[int, list[tuple[str | None, Any]]] = field(
        default_factory=dict[int, list[tuple["str | None", Any]]]
    )
    """Key and value of new entries, by the kept entry before them; -1 for the beginning."""

    def add(self, after: int, key: str | None, value: Any) -> None:
        self.added.setdefault(after, []).append((key, value))


class _Difference:
    """Finds the cuts that make one text hold other values."""

    def __init__(self, text: str, rules: Rules) -> None:
        self._text = text
        self._rules = rules
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._starts = [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", text))]

    def of(self, span: _Span, old: Any, new: Any, place: _Place) -> Iterator[_Cut]:
        if same(old, new):
            return
        alike = (span.is_mapping and isinstance(new, dict)) or (span.is_list and isinstance(new, list))
        if alike and span.entries:
            entries = self._entries(span)
            plan = self._planned(span, entries, old, new)
            if plan.kept:
                yield from self._inside(entries, old, plan, place, flow=span.flow)
                return
        yield self._replaced(span, new, place)

    # What stays, and what is new

    def _entries(self, span: _Span) -> list[_Entry]:
        if span.is_mapping:
            return [
                _Entry(key.start, value, self._text.find(":", key.end) + 1 or None, self._key(key))
                for key, value in span.pairs
            ]
        return [
            _Entry(value.start if span.flow else self._dash(span, value), value, None, index)
            for index, value in enumerate(span.entries)
        ]

    def _key(self, key: _Span) -> str:
        return self._rules.key(key.value) if key.style == "" else key.value

    def _dash(self, span: _Span, value: _Span) -> int:
        at = self._text.rfind("-", 0, value.start)
        while at > span.start and self._column(at) != self._column(span.start):
            at = self._text.rfind("-", 0, at)
        return at

    def _planned(self, span: _Span, entries: Sequence[_Entry], old: Any, new: Any) -> _Plan:
        plan = _Plan()
        if span.is_mapping:
            places = {entry.name: index for index, entry in enumerate(entries)}
            after = -1
            for key, value in cast("dict[str, Any]", new).items():
                if key in places:
                    after = places[key]
                    plan.kept[after] = value
                elif key not in old or not same(old[key], value):  # otherwise it is there by a merge key
                    plan.add(after, key, value)
            if "<<" in places:
                plan.kept.setdefault(places["<<"], _UNTOUCHED)
            return plan
        for old_index, value in _paired(as_list(old), as_list(new)):
            if old_index is None:
                plan.add(max(plan.kept, default=-1), None, value)
            else:
                plan.kept[old_index] = value
        return plan

    def _inside(
        self, entries: list[_Entry], old: Any, plan: _Plan, place: _Place, *, flow: bool
    ) -> Iterator[_Cut]:
        column = place.indent if flow else self._column(entries[0].start)
        for index, value in plan.kept.items():
            if value is not _UNTOUCHED:
                entry = entries[index]
                inner = _Place(indent=column, flow=flow, colon=entry.colon)
                yield from self.of(entry.value, old[entry.name], value, inner)
        removed = [index for index in range(len(entries)) if index not in plan.kept]
        for first, last in _runs(removed):
            remove = self._removed_in_flow if flow else self._removed_lines
            yield from remove(entries, first, last)
        for after, members in plan.added.items():
            add = self._added_in_flow if flow else self._added_lines
            is_behind = after >= 0
            beside = entries[after if is_behind else min(plan.kept)]
            yield add(members, beside, is_behind=is_behind)

    # Removing

    def _removed_in_flow(self, entries: list[_Entry], first: int, last: int) -> Iterator[_Cut]:
        if last + 1 < len(entries):
            start, end = entries[first].start, entries[last + 1].start
        else:
            start, end = entries[first - 1].end, entries[last].end
        gaps = [
            self._text[max(one.end, start) : min(other.start, end)]
            for one, other in pairwise(entries[max(first - 1, 0) : last + 2])
        ]
        kept = [comment for gap in gaps for comment in re.findall(r"#[^\r\n]*", gap)]
        indent = " " * self._column(start)
        text = "".join(f" {comment}{self._newline}{indent}" for comment in kept)
        yield _Cut(start=start, end=end, text=text)

    def _removed_lines(self, entries: list[_Entry], first: int, last: int) -> Iterator[_Cut]:
        """Whole lines; where the first entry follows a dash on its line, the next one takes its place."""
        start, end = entries[first].start, self._below(entries[last])
        if not self._text[self._line_start(start) : start].strip():
            for entry in entries[first : last + 1]:
                yield _Cut(start=self._line_start(entry.start), end=self._below(entry), text="")
            return
        gap = self._text[end : entries[last + 1].start]
        if not gap.strip() and first == last:
            yield _Cut(start=start, end=entries[last + 1].start, text="")
            return
        for entry in entries[first : last + 1]:
            yield _Cut(start=entry.start, end=entry.end, text="")

    # Adding

    def _added_in_flow(
        self, members: Sequence[tuple[str | None, Any]], beside: _Entry, *, is_behind: bool
    ) -> _Cut:
        texts = [flow_text(value, self._rules, key=key) for key, value in members]
        start, end = beside.start, beside.end
        if not is_behind:
            return _Cut(start=start, end=start, text="".join(f"{text}, " for text in texts))
        own_line = not self._text[self._line_start(start) : start].strip()
        between = f",{self._newline}{' ' * self._column(start)}" if own_line else ", "
        return _Cut(start=end, end=end, text="".join(f"{between}{text}" for text in texts))

    def _added_lines(
        self, members: Sequence[tuple[str | None, Any]], beside: _Entry, *, is_behind: bool
    ) -> _Cut:
        start = beside.start
        column = self._column(start)
        style = Style.FLOW if beside.value.flow else Style.BLOCK
        indent = " " * column
        lines = [
            block_text({key: value}, column, self._rules)
            if key is not None
            else f"{indent}- {self._in_list(value, column, style)}"
            for key, value in members
        ]
        text = self._newline.join(line.replace("\n", self._newline) for line in lines)
        if not is_behind:
            return _Cut(start=start, end=start, text=f"{text.removeprefix(indent)}{self._newline}{indent}")
        at = self._below(beside)
        if self._text[at - 1 : at] in ("\n", "\r"):
            return _Cut(start=at, end=at, text=f"{text}{self._newline}")
        return _Cut(start=at, end=at, text=f"{self._newline}{text}")

    def _in_list(self, value: Any, column: int, style: Style) -> str:
        inner = column + 2
        if style is Style.FLOW or not in_block_style(value, self._rules, is_entry=True):
            return scalar_text(value, self._rules, indent=inner, flow=False)
        return block_text(value, inner, self._rules).removeprefix(" " * inner)

    # Replacing

    def _replaced(self, span: _Span, new: Any, place: _Place) -> _Cut:
        if place.flow or not in_block_style(new, self._rules):
            return self._replaced_in_line(span, new, place)
        # A comment after the old value is now one after the key, or before the block.
        line_end = self._line_end(span.end)
        comment = self._text[span.end : line_end].rstrip()
        end = line_end if comment else span.end
        inner = place.indent + 2
        text = block_text(new, inner, self._rules).replace("\n", self._newline)
        if place.colon is None:
            first = f"{comment.lstrip()}{self._newline}" if comment else ""
            return _Cut(start=span.start, end=end, text=f"{first}{text if first else text[inner:]}")
        gap = self._text[place.colon : span.start].rstrip()
        return _Cut(start=place.colon, end=end, text=f"{gap}{comment}{self._newline}{text}")

    def _replaced_in_line(self, span: _Span, new: Any, place: _Place) -> _Cut:
        text, end = self._in_line(span, new, place), span.end
        if "\n" in text and (comment := self._text[end : self._line_end(end)].rstrip()):
            head, *lines = text.split("\n")
            text, end = "\n".join([f"{head}{comment}", *lines]), self._line_end(end)
        text = text.replace("\n", self._newline)
        if span.start == span.end and self._text[span.start - 1 : span.start] in (":", "-"):
            text = f" {text}"
        if span.flow or not span.is_collection or place.colon is None:
            return _Cut(start=span.start, end=end, text=text)
        comments = self._text[place.colon : span.start].rstrip()  # between a key and its block
        if "\n" in text and "\n" in comments:
            # Behind the mark of a block of text, a comment on a line of its own would be a line of that text.
            head = f"{comments}{self._newline}{' ' * (place.indent + 2)}"
            return _Cut(start=place.colon, end=end, text=f"{head}{text}")
        if "\n" in text:
            text = text.replace(self._newline, f"{comments}{self._newline}", 1) if comments else text
            comments = ""
        return _Cut(start=place.colon, end=end, text=f" {text}{comments}")

    def _in_line(self, span: _Span, new: Any, place: _Place) -> str:
        """A value in the place of another one, with the quotes that this had."""
        header = self._text[span.start : self._line_end(span.start)] if span.style in ("|", ">") else ""
        comment = re.sub(r"^[|>][-+0-9]*", "", header)
        lines = self._text[span.start : span.end].splitlines()[1:]
        own = next((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), place.indent + 2)
        return scalar_text(new, self._rules, indent=own, flow=place.flow, style=span.style, comment=comment)

    # Places

    def _column(self, at: int) -> int:
        return at - self._line_start(at)

    def _line_start(self, at: int) -> int:
        return self._starts[bisect_right(self._starts, at) - 1]

    def _line_end(self, at: int) -> int:
        match = re.compile(r"\r?\n|\r|\Z").search(self._text, at)
        return match.start() if match else len(self._text)

    def _below(self, entry: _Entry) -> int:
        """Where the line after an entry begins; the end of the text if its last line has no end."""
        if entry.value.keeps_end:
            return entry.value.end
        match = re.compile(r"\r\n|\n|\r|\Z").search(self._text, entry.end)
        return match.end() if match else len(self._text)


_UNTOUCHED: Final = object()


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of each row of consecutive numbers."""
    first = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield numbers[first], numbers[index - 1]
            first = index


def _paired(old: list[Any], new: list[Any]) -> Iterator[tuple[int | None, Any]]:
    """The entries of a list, each with the number of the old entry that it was; None for new ones."""
    least = min(len(old), len(new))
    head = next((at for at in range(least) if not same(old[at], new[at])), least)
    yield from zip(range(head), new[:head], strict=True)
    names = [[_name(value) for value in values[head:]] for values in (old, new)]
    for kind, *places in SequenceMatcher(None, *names, autojunk=False).get_opcodes():
        low, high, new_low, new_high = (place + head for place in places)
        for number, value in enumerate(new[new_low:new_high] if kind != "delete" else (), low):
            yield number if number < high else None, value


def _name(value: Any) -> str:
    """What an entry keeps when other parts of it change: its id or name, or else the whole of it."""
    members = as_mapping(value)
    name = members.get("id", members.get("name"))
    return name if isinstance(name, str) else json.dumps(value, sort_keys=True, default=str)


def _spans_of(text: str) -> _Span | None:
    """The outermost value; None if there is none. Raises `yaml.YAMLError` for what libyaml refuses."""
    events = events_of(text)
    next(events)
    if isinstance(next(events), yaml.StreamEndEvent):
        return None
    return _span_of(text, next(events), events)


def _span_of(text: str, event: Any, events: Iterator[Any]) -> _Span:
    start, end = event.start_mark.index, event.end_mark.index
    if isinstance(event, yaml.AliasEvent):
        return _Span(start=start, end=end, style="*")
    if isinstance(event, yaml.ScalarEvent):
        return _span_of_scalar(text, event)
    style = "[" if isinstance(event, yaml.SequenceStartEvent) else "{"
    span = _Span(start=start, end=end, style=style, flow=bool(event.flow_style))
    last = event
    while not isinstance(last := next(events), yaml.SequenceEndEvent | yaml.MappingEndEvent):
        entry = _span_of(text, last, events)
        if span.is_mapping:
            value = _span_of(text, next(events), events)
            span.pairs.append((entry, value))
            entry = value if value.end >= entry.end else entry
        span.entries.append(entry)
    # The parser says that a block ends where the next thing begins, after empty lines and comments.
    span.end = last.end_mark.index if span.flow else max((entry.end for entry in span.entries), default=end)
    return span


def _span_of_scalar(text: str, event: Any) -> _Span:
    start, end, style = event.start_mark.index, event.end_mark.index, event.style or ""
    keeps = False
    if style in ("|", ">"):
        header = text[start:end].split("\n", 1)[0]
        keeps = "+" in header.split("#")[0]
        if not keeps:
            end = start + len(text[start:end].rstrip(" \t\r\n"))
    return _Span(start=start, end=end, style=style, value=event.value, keeps_end=keeps)
