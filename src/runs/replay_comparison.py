"""Compares the recorded result of a call with the new one.

Both become documents with the members ``status``, ``result``, ``structured_result`` and ``error``. Text that
is a JSON object or list is compared as JSON, so that its layout does not matter; marks of secrets are equal
regardless of their digests, because every run has its own key. The difference is a JSON patch (RFC 6902) that
turns the recorded document into the new one. Pictures, sounds and other files are compared by their SHA-256,
and by type and size in records of versions that did not keep it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from ..audit.record import CallStatus
from ..audit.secrets import HiddenSecrets
from ..types.texts import canonical_json
from .replay_rules import ReplayRule, ReplayRules, RuleKind, differences, learned

if TYPE_CHECKING:
    from ..audit.record import CallRecord


#: Beyond this length of both texts together (characters) a patch replaces whole members: the time to find the
#: smallest patch grows with the square of a list's length.
_LONGEST_IN_DETAIL: Final = 100_000
_MOST_OPERATIONS: Final = 5_000
_HARMLESS: Final = (RuleKind.UNORDERED, RuleKind.TOLERANCE)
_TEXTS: Final = frozenset({"text", "resource"})  # without a size: compared as part of the result


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
    if any(rule.kind not in _HARMLESS for rule in harmless):
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
        return _whole_numbers(json.loads(text, parse_constant=_refuse, parse_float=_finite))
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON that can be compared")


def _finite(text: str) -> float:
    """A number; one beyond all floats, such as 1e999, is left in its text."""
    value = float(text)
    return value if isfinite(value) else _refuse(text)


def _whole_numbers(value: Any) -> Any:
    match value:
        # RFC 8259 §6 knows one kind of number: 1 and 1.0 are written by libraries as they like.
        case float() if value.is_integer():
            return int(value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: _whole_numbers(inner) for name, inner in members.items()}
        case list():
            return [_whole_numbers(inner) for inner in cast("list[Any]", value)]
        case _:
            return value
