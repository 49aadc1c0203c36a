"""Compares the recorded result of a call with the new one, by rules on what may differ.

Both become documents with the members ``status``, ``result``, ``structured_result`` and ``error``. Text that
is a JSON object or list is compared as JSON, so that its layout does not matter; marks of secrets are equal
regardless of their digests, because every run has its own key. The difference is a JSON patch (RFC 6902) that
turns the recorded document into the new one. Pictures, sounds and other files are compared by their SHA-256,
and by type and size in records of versions that did not keep it.

A rule is about all tools or about those that it names. Nothing is left out silently: a comparison says
without which rules it would have found a difference.
"""

from __future__ import annotations

import fnmatch
import json
import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from ..audit.record import CallStatus
from ..audit.secrets import HiddenSecrets
from ..client.protocol.messages import as_object
from ..types.errors import SettingInvalid
from ..types.texts import canonical_json, pointer_step, pointer_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..audit.record import CallRecord

#: Beyond this length of both texts together (characters) a patch replaces whole members: the time to find the
#: smallest patch grows with the square of a list's length.
_LONGEST_IN_DETAIL: Final = 100_000
_MOST_OPERATIONS: Final = 5_000
_TEXTS: Final = frozenset({"text", "resource"})  # without a size: compared as part of the result
IGNORED: Final = "⟨ignored⟩"
MEMBERS: Final = ("status", "result", "structured_result", "error", "files")
"""The members of the document that is compared."""
ROUNDING: Final = "1e-09"
"""The tolerance that is suggested, and learned, for numbers that differ by less."""
_ANY: Final = "*"
_GONE: Final = object()
_REGEX: Final = "re:"
_VERSION: Final = "replay_rules"
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_LONGEST_NUMBER: Final = 400  # characters; Python refuses to read integers of thousands of digits
_RUNS: Final = re.compile(r"\d+|[^\W\d]+|.", re.DOTALL)
_SORTED_DIGITS: Final = 9


class RuleKind(StrEnum):
    """What a rule allows; the order in which rules are applied."""

    VOLATILE = "volatile"  # whatever is at a JSON pointer
    PATTERN = "pattern"  # what a regular expression matches in texts
    UNORDERED = "unordered"  # another order of the list at a pointer, or of the lines of a text
    TOLERANCE = "tolerance"  # numbers whose difference is at most so large a part of the larger one


@dataclass(frozen=True, slots=True)
class ReplayRule:
    kind: RuleKind
    value: str
    tool: str = ""  # a pattern of tools' names; "" for all
    why: str = ""  # for people

    def __str__(self) -> str:
        return f"{self.kind.value} {self.value}" + (f" of {self.tool}" if self.tool else "")

    def is_about(self, *names: str | None) -> bool:
        return not self.tool or any(
            name == self.tool or fnmatch.fnmatchcase(name, self.tool) for name in names if name
        )

    def checked(self) -> ReplayRule:
        """The rule itself; `SettingInvalid` if its value cannot be used."""
        try:
            match self.kind:
                case RuleKind.PATTERN:
                    re.compile(self.value)
                case RuleKind.TOLERANCE:
                    if not 0 <= float(self.value) < 1:
                        raise ValueError("it has to be at least 0 and less than 1")
                case RuleKind.VOLATILE | RuleKind.UNORDERED:
                    if not self.value.startswith("/"):
                        raise ValueError("a JSON pointer begins with /")
        except (re.error, ValueError) as error:
            wrong = "is neither a JSON pointer nor a regular expression"
            what = wrong if self.kind is RuleKind.PATTERN else f"cannot be used as {self.kind.value}"
            raise SettingInvalid(
                f"The rule '{self.value}' {what}: {error}",
                setting="ignore",
                fix="Write a pointer such as /structured_result/time, a tolerance such as 1e-9, or correct"
                " the expression",
            ) from None
        return self

    def applied(self, before: dict[str, Any], now: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Both documents without what may differ.

        Members that a pointer names are removed; items that it names become `IGNORED`, so that the other
        items keep their places.
        """
        match self.kind:
            case RuleKind.VOLATILE:
                for steps in _pointers(self.value):
                    before, now = (_changed_at(one, steps, lambda _: _GONE) for one in (before, now))
            case RuleKind.PATTERN:
                pattern = re.compile(self.value)
                before, now = (
                    _mapped(one, lambda text: pattern.sub(IGNORED, text) if isinstance(text, str) else text)
                    for one in (before, now)
                )
            case RuleKind.UNORDERED:
                for steps in _pointers(self.value):
                    before, now = (_changed_at(one, steps, _sorted) for one in (before, now))
            case RuleKind.TOLERANCE:
                # Only the new document changes, so that a difference that remains
                # is shown with what is on record.
                now = _rounded_to(before, now, float(self.value), texts=True)
        return before, now


@dataclass(frozen=True, slots=True)
class ReplayRules:
    rules: tuple[ReplayRule, ...] = ()

    @classmethod
    def parse(
        cls, ignore: Iterable[str] = (), unordered: Iterable[str] = (), tolerance: float = 0.0
    ) -> ReplayRules:
        """Reads what people write, and skips what is empty; `SettingInvalid` for what cannot be used.

        What is ignored is a pointer, or a regular expression (``re:`` may stand before it).
        """
        rules = [
            ReplayRule(RuleKind.VOLATILE, text)
            if text.startswith("/")
            else ReplayRule(RuleKind.PATTERN, text.removeprefix(_REGEX))
            for text in _not_empty(ignore)
        ]
        rules += [ReplayRule(RuleKind.UNORDERED, text) for text in _not_empty(unordered)]
        rules += [ReplayRule(RuleKind.TOLERANCE, f"{tolerance!r}")] if tolerance else []
        return cls().and_(rule.checked() for rule in rules)

    @classmethod
    def of_json(cls, text: str, source: str) -> ReplayRules:
        """Reads a file of rules, see `to_json`; `SettingInvalid` names ``source`` and the rule."""
        try:
            entries = json.loads(text)
            if not isinstance(entries, dict) or cast("dict[str, Any]", entries).get(_VERSION) != 1:
                raise ValueError(f'it has no "{_VERSION}": 1')
            rules = [_rule(number, entry) for number, entry in enumerate(entries["rules"], start=1)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise SettingInvalid(
                f"{source} does not hold rules of a replay: {why}",
                setting="rules",
                fix="Rules are written by: knime-mcp replay FILE --twice --write-rules RULES.json",
            ) from None
        return cls().and_(rules)

    def __bool__(self) -> bool:
        """Returns whether there is any rule."""
        return bool(self.rules)

    def to_json(self) -> str:
        """The rules for people and programs: ``{"replay_rules": 1, "rules": [{"volatile": "/time"}]}``."""
        return json.dumps({_VERSION: 1, "rules": [entry_of(rule) for rule in self.rules]}, indent=1) + "\n"

    def and_(self, others: Iterable[ReplayRule]) -> ReplayRules:
        """These rules and others, each once, in the order in which they are applied."""
        known: dict[ReplayRule, ReplayRule] = {}
        for rule in (*self.rules, *others):
            # The same rule with another reason is the same rule.
            known.setdefault(replace(rule, why=""), rule)
        order = list(RuleKind)

        def place(rule: ReplayRule) -> tuple[int, int]:
            # Of lists the inner ones first, as their order decides about that of the outer ones.
            return order.index(rule.kind), -rule.value.count("/")

        return ReplayRules(tuple(sorted(known.values(), key=place)))

    def about(self, *names: str | None) -> list[ReplayRule]:
        """The rules for a tool with these names."""
        return [rule for rule in self.rules if rule.is_about(*names)]


def entry_of(rule: ReplayRule) -> dict[str, Any]:
    """A rule as JSON: its kind with its value, its tool, and why it is there."""
    value = float(rule.value) if rule.kind is RuleKind.TOLERANCE else rule.value
    more = {"tool": rule.tool, "why": rule.why}
    return {rule.kind.value: value} | {name: text for name, text in more.items() if text}


def _rule(number: int, entry: Any) -> ReplayRule:
    members = as_object(entry)
    kinds = [kind for kind in RuleKind if kind.value in members]
    if len(kinds) != 1 or members.keys() - {kinds[0].value, "tool", "why"}:
        names = ", ".join(RuleKind)
        raise ValueError(f"rule {number} has to be an object with one of {names}, and may have tool and why")
    try:
        texts = {name: str(members.get(name, "")) for name in ("tool", "why")}
        return ReplayRule(kinds[0], str(members[kinds[0].value]), **texts).checked()
    except SettingInvalid as error:
        raise ValueError(f"rule {number}: {error.what}") from None


def _not_empty(texts: Iterable[str]) -> Iterator[str]:
    return filter(None, (text.strip() for text in texts))


def differences(before: Any, now: Any) -> int:
    """How many values are not the same; lists of different lengths are one."""
    match before, now:
        case dict(), dict():
            one, other = cast("dict[str, Any]", before), cast("dict[str, Any]", now)
            return sum(
                differences(one[name], other[name]) if name in one and name in other else 1
                for name in {**one, **other}
            )
        case list(), list() if len(before) == len(now):  # pyright: ignore[reportUnknownArgumentType]
            pairs = zip(cast("list[Any]", before), cast("list[Any]", now), strict=True)
            return sum(differences(one, other) for one, other in pairs)
        case _:
            return 0 if before is now or canonical_json(before) == canonical_json(now) else 1


def learned(before: dict[str, Any], now: dict[str, Any]) -> list[ReplayRule]:
    """The rules with which two documents are the same; none if they have not even the same status.

    The narrowest that fits: rounding, another order, the part of a text that differs, the whole value.
    """
    if before.get("status") != now.get("status"):
        return []
    found = dict.fromkeys(_learned((), before, now))
    for rule in list(found):  # servers repeat structured results as text: one rule for both
        step, _, rest = rule.value[1:].partition("/")
        twin = replace(rule, value=f"/structured_result/{rest}")
        is_short = rest and rest.partition("/")[0] not in MEMBERS
        if rule.kind in _AT_POINTERS and step == "result" and is_short and twin in found:
            del found[rule], found[twin]
            found[replace(rule, value=f"/{rest}")] = None
    return list(found)


_AT_POINTERS: Final = (RuleKind.VOLATILE, RuleKind.UNORDERED)


def _learned(steps: tuple[str, ...], before: Any, now: Any) -> Iterator[ReplayRule]:
    if canonical_json(before) == canonical_json(now):
        return
    pointer = pointer_text(steps)
    whole = ReplayRule(RuleKind.VOLATILE, pointer)
    match before, now:
        case dict(), dict():
            one, other = cast("dict[str, Any]", before), cast("dict[str, Any]", now)
            for name in {**one, **other}:
                if name in one and name in other:
                    yield from _learned((*steps, name), one[name], other[name])
                else:
                    yield replace(whole, value=pointer + pointer_step(name))
        case list(), list():
            items, others = cast("list[Any]", before), cast("list[Any]", now)
            ordered, coarse = [_in_order(items), _in_order(others)], _coarse([items, others])
            is_moved = coarse[0] != coarse[1]
            if is_moved and canonical_json(_coarse(ordered[0])) == canonical_json(_coarse(ordered[1])):
                yield ReplayRule(RuleKind.UNORDERED, pointer)
                if canonical_json(ordered[0]) != canonical_json(ordered[1]):
                    yield ReplayRule(RuleKind.TOLERANCE, ROUNDING)
            elif len(items) == len(others):
                for one, other in zip(items, others, strict=True):
                    yield from _learned((*steps, _ANY), one, other)
            else:
                yield whole
        case str(), str() if sorted(before.splitlines()) == sorted(now.splitlines()):
            yield ReplayRule(RuleKind.UNORDERED, pointer)
        case _ if _is_near(before, now, float(ROUNDING), texts=len(steps) == 1):
            yield ReplayRule(RuleKind.TOLERANCE, ROUNDING)
        case str(), str() if len(steps) == 1:  # a text for people: only what differs in it
            yield from _patterns(before, now) or [whole]
        case _:
            yield whole


def _patterns(before: str, now: str) -> list[ReplayRule]:
    """What differs in a text, with the word before it; nothing if the words do not correspond."""
    lines = [text.splitlines() for text in (before, now)]
    words = [[line.split(" ") for line in found] for found in lines]
    if [len(line) for line in words[0]] != [len(line) for line in words[1]]:
        return []
    found: dict[ReplayRule, None] = {}
    for one, other in zip(*words, strict=True):
        for place, (word, new) in enumerate(zip(one, other, strict=True)):
            if word == new:
                continue
            shapes = {_shape(word), _shape(new)}
            start = "(?m)^" if not place else re.escape(one[place - 1]) + " "
            # The word before changes as well, and cannot say where this one is.
            if place and one[place - 1] != other[place - 1]:
                start = ""
            found[ReplayRule(RuleKind.PATTERN, start + (shapes.pop() if len(shapes) == 1 else r"\S+"))] = None
    return list(found)


def _shape(word: str) -> str:
    r"""An expression for words that differ only in digits and letters: ``12:03`` becomes ``\d+:\d+``."""
    return "".join(
        r"\d+" if run.isdigit() else r"[^\W\d]+" if run.isalpha() else re.escape(run)
        for run in _RUNS.findall(word)
    )


def _pointers(rule: str) -> Iterator[tuple[str, ...]]:
    steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in rule[1:].split("/"))
    if steps[0] in MEMBERS:
        yield steps
    else:
        # People write the pointer into a result as they see it; it is there in two forms.
        yield from (("result", *steps), ("structured_result", *steps))


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy in which all that is no object and no list is changed."""
    match value:
        case dict():
            return {name: _mapped(inner, change) for name, inner in cast("dict[str, Any]", value).items()}
        case list():
            return [_mapped(inner, change) for inner in cast("list[Any]", value)]
        case _:
            return change(value)


def _changed_at(value: Any, steps: tuple[str, ...], change: Callable[[Any], Any]) -> Any:
    """A copy in which what is at a pointer is changed; a member that becomes `_GONE` is left out."""
    if not steps:
        return change(value)
    step, rest = steps[0], steps[1:]
    match value:
        case dict():
            members = {
                name: _changed_at(inner, rest, change) if step in (_ANY, name) else inner
                for name, inner in cast("dict[str, Any]", value).items()
            }
            return {name: inner for name, inner in members.items() if inner is not _GONE}
        case list():
            items = [
                _changed_at(inner, rest, change) if step in (_ANY, str(place)) else inner
                for place, inner in enumerate(cast("list[Any]", value))
            ]
            return [IGNORED if inner is _GONE else inner for inner in items]
        case _:
            return value


def _sorted(value: Any) -> Any:
    if isinstance(value, str):
        return "\n".join(sorted(value.splitlines()))
    return _in_order(cast("list[Any]", value)) if isinstance(value, list) else value


def _in_order(items: list[Any]) -> list[Any]:
    """The items in an order of their own, in which a rounding changes nothing."""
    return sorted(items, key=lambda item: canonical_json(_coarse(item)))


def _coarse(value: Any) -> Any:
    return _mapped(value, lambda one: float(f"{one:.{_SORTED_DIGITS}g}") if isinstance(one, float) else one)


def _rounded_to(before: Any, now: Any, tolerance: float, *, texts: bool = False) -> Any:
    """The new value with the numbers of the old one where they are near enough.

    With ``texts`` also a whole text that is a number; within results such a text may be a version or an id.
    """
    match before, now:
        case dict(), dict():
            one, other = cast("dict[str, Any]", before), cast("dict[str, Any]", now)
            return {
                name: _nearest(one[name], inner, tolerance, texts=texts) if name in one else inner
                for name, inner in other.items()
            }
        case list(), list():
            items = cast("list[Any]", before)
            return [
                _rounded_to(items[place], inner, tolerance) if place < len(items) else inner
                for place, inner in enumerate(cast("list[Any]", now))
            ]
        case _:
            return before if _is_near(before, now, tolerance) else now


def _nearest(before: Any, now: Any, tolerance: float, *, texts: bool) -> Any:
    return before if _is_near(before, now, tolerance, texts=texts) else _rounded_to(before, now, tolerance)


def _is_near(before: Any, now: Any, tolerance: float, *, texts: bool = False) -> bool:
    """Whether two numbers are near; of two integers each digit counts, as they may be ids."""
    if texts and all(
        isinstance(value, str) and len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value)
        for value in (before, now)
    ):
        before, now = json.loads(before), json.loads(now)
    numbers = [
        value for value in (before, now) if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if len(numbers) < 2 or all(isinstance(number, int) for number in numbers):
        return len(numbers) == 2 and numbers[0] == numbers[1]
    try:
        return math.isclose(numbers[0], numbers[1], rel_tol=tolerance, abs_tol=0.0)
    except OverflowError:  # an integer beyond all floats is near none of them
        return False


@dataclass(frozen=True, slots=True)
class Comparison:
    patch: str | None  # JSON text of the patch from the recorded to the new document; None: they are the same
    used: tuple[ReplayRule, ...] = ()  # the rules that left something out
    would_allow: tuple[
        ReplayRule, ...
    ] = ()  # the rules on order and rounding with which there is no difference


def compare(recorded: CallRecord, new: CallRecord, rules: ReplayRules) -> Comparison:
    """Compares two calls of the same tool with the same arguments."""
    if recorded.status is new.status and _texts(recorded) == _texts(new) and _blobs_are_same(recorded, new):
        return Comparison(None)  # in most cases; no JSON has to be parsed
    before, now, used = documents(recorded, new, rules)
    if canonical_json(before) == canonical_json(now):
        return Comparison(None, used)
    is_short = len(canonical_json(before)) + len(canonical_json(now)) <= _LONGEST_IN_DETAIL
    harmless = tuple(learned(before, now)) if is_short else ()
    if any(rule.kind not in (RuleKind.UNORDERED, RuleKind.TOLERANCE) for rule in harmless):
        harmless = ()
    return Comparison(canonical_json(patch_between(before, now)), used, harmless)


def documents(
    recorded: CallRecord, new: CallRecord, rules: ReplayRules
) -> tuple[dict[str, Any], dict[str, Any], tuple[ReplayRule, ...]]:
    """The documents of two calls without what the rules leave out, and the rules that left something out."""
    before, now = document_of(recorded), document_of(new)
    if not _blobs_are_same(recorded, new):
        before, now = before | {"files": _blobs(recorded)}, now | {"files": _blobs(new)}
    used: list[ReplayRule] = []
    left = differences(before, now)
    name = recorded.tool_name
    for rule in rules.about(name) if left else ():
        before, now = rule.applied(before, now)
        found = differences(before, now)
        if found < left:
            used.append(rule)
        left = found
    return before, now, tuple(used)


def document_of(record: CallRecord) -> dict[str, Any]:
    """The document of a call for the comparison.

    Whole numbers are integers, as ``1`` and ``1.0`` are the same in JSON.
    """
    result, structured, error = _texts(record)
    document: dict[str, Any] = {"status": record.status.value}
    if result:
        document["result"] = _parsed(result, containers_only=True)
    if structured:
        document["structured_result"] = _parsed(structured)
    if error:
        document["error"] = error
    return document


def learn(first: CallRecord, second: CallRecord) -> list[ReplayRule]:
    """The rules with which two calls of a tool, made one after the other, have the same outcome."""
    before, now, _ = documents(first, second, ReplayRules())
    why = "differed between two calls, a moment apart"
    return [replace(rule, tool=first.tool_name or "", why=why) for rule in learned(before, now)]


def _blobs_are_same(recorded: CallRecord, new: CallRecord) -> bool:
    blobs = [_blobs(record) for record in (recorded, new)]
    return None in blobs or blobs[0] == blobs[1]  # older records do not tell


def _blobs(record: CallRecord) -> list[Any] | None:
    """Type and SHA-256 of each block of a result that is not text; None if they are not on record."""
    if record.content is None:
        return None
    try:
        blocks = json.loads(record.content)
        return [block for block in blocks if "size" in block or block["type"] not in _TEXTS]
    except (ValueError, AttributeError, TypeError, KeyError):
        return None


def patch_between(before: dict[str, Any], now: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations (RFC 6902) that turn one document into the other; they were applied as a test."""
    if len(canonical_json(before)) + len(canonical_json(now)) <= _LONGEST_IN_DETAIL:
        import jsonpatch  # pyright: ignore[reportMissingTypeStubs] - it has none

        tools = cast("Any", jsonpatch)
        try:
            patch = tools.make_patch(before, now)
            operations = cast("list[dict[str, Any]]", patch.patch)
            if len(operations) <= _MOST_OPERATIONS:
                # Tried out: a patch that leads elsewhere is worse than a coarse one.
                applied = tools.apply_patch(before, operations)
                if canonical_json(applied) == canonical_json(now):
                    return operations
        except (tools.JsonPatchException, tools.JsonPointerException, RecursionError):
            pass  # a patch that does not turn one document into the other is not used
    return _whole_members(before, now)


def _whole_members(before: dict[str, Any], now: dict[str, Any]) -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = []
    for name in sorted(before.keys() | now.keys()):
        path = f"/{name}"
        if name not in now:
            operations.append({"op": "remove", "path": path})
        elif name not in before:
            operations.append({"op": "add", "path": path, "value": now[name]})
        elif canonical_json(before[name]) != canonical_json(now[name]):
            operations.append({"op": "replace", "path": path, "value": now[name]})
    return operations


def _texts(record: CallRecord) -> tuple[str, str, str]:
    """Result, structured result and error; missing texts are "", as some files cannot distinguish them."""
    # Errors that this package words itself name servers and rows, and are compared by the status alone.
    error = record.error if record.status is CallStatus.TOOL_ERROR else None
    hidden = HiddenSecrets.parse(record.secrets)
    result, structured, error = (
        hidden.without_digests(text or "") for text in (record.result, record.structured_result, error)
    )
    return result, structured, error


def _parsed(text: str, *, containers_only: bool = False) -> Any:
    if containers_only and text.lstrip()[:1] not in {"{", "["}:
        return text
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        # RFC 8259 §6 knows one kind of number: 1 and 1.0 are written by libraries as they like.
        return _mapped(value, lambda one: int(one) if isinstance(one, float) and one.is_integer() else one)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON that can be compared")


def _finite(text: str) -> float:
    """A number; one beyond all floats, such as 1e999, is left in its text."""
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)
