"""Compares the recorded result of a call with the new one.

Both become documents with the members ``status``, ``result``, ``structured_result`` and ``error``. Text that
is a JSON object or list is compared as JSON, so that its layout does not matter; marks of secrets are equal
regardless of their digests, because every run has its own key. The difference is a JSON patch (RFC 6902) that
turns the recorded document into the new one. Pictures, sounds and other files are compared by their SHA-256,
and by type and size in records of versions that did not keep it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from ..audit.record import CallStatus
from ..audit.secrets import HiddenSecrets
from ..types.errors import SettingInvalid
from ..types.texts import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..audit.record import CallRecord


#: Beyond this length of both texts together (characters) a patch replaces whole members: the time to find the
#: smallest patch grows with the square of a list's length.
_LONGEST_IN_DETAIL: Final = 100_000
_MOST_OPERATIONS: Final = 5_000
IGNORED: Final = "⟨ignored⟩"
MEMBERS: Final = ("status", "result", "structured_result", "error", "files")
"""The members of the document that is compared."""
_ANY: Final = "*"
_REGEX: Final = "re:"


def compare(recorded: CallRecord, new: CallRecord, rules: IgnoreRules) -> str | None:
    """Compares two calls of the same tool with the same arguments.

    Gives the JSON text of the patch from the recorded document to the new one; None if all differences are
    ignored.
    """
    blobs = [_blobs(record) for record in (recorded, new)]
    same_blobs = None in blobs or blobs[0] == blobs[1]  # older records do not tell
    if recorded.status is new.status and same_blobs and _texts(recorded) == _texts(new):
        return None  # in most cases; no JSON has to be parsed
    before, now = document_of(recorded, rules), document_of(new, rules)
    if not same_blobs:
        before, now = (
            {**document, "files": found} for document, found in zip((before, now), blobs, strict=True)
        )
        before, now = rules.applied(before), rules.applied(now)
    if canonical_json(before) == canonical_json(now):
        return None
    return canonical_json(patch_between(before, now))


def document_of(record: CallRecord, rules: IgnoreRules) -> dict[str, Any]:
    """The document of a call for the comparison, without what the rules leave out.

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
    return rules.applied(document)


def _blobs(record: CallRecord) -> list[Any] | None:
    """Type and SHA-256 of each picture, sound and other file of a result; None if they are not on record."""
    if record.content is None:
        return None
    try:
        return [block for block in json.loads(record.content) if "size" in block]
    except (ValueError, AttributeError, TypeError):
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
        value = json.loads(text, parse_constant=_refuse)
        return _whole_numbers(value)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _whole_numbers(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: _whole_numbers(inner) for name, inner in members.items()}
        case list():
            return [_whole_numbers(inner) for inner in cast("list[Any]", value)]
        case _:
            return value


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of a comparison: the steps of each pointer, and regular expressions."""

    pointers: tuple[tuple[str, ...], ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def parse(cls, rules: Iterable[str]) -> IgnoreRules:
        """Reads rules and skips empty ones; `SettingInvalid` if a regular expression is invalid."""
        pointers: list[tuple[str, ...]] = []
        patterns: list[re.Pattern[str]] = []
        for rule in filter(None, (text.strip() for text in rules)):
            if rule.startswith("/"):
                steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in rule[1:].split("/"))
                whole = steps[0] in MEMBERS
                pointers += [steps] if whole else [("result", *steps), ("structured_result", *steps)]
                continue
            try:
                patterns.append(re.compile(rule.removeprefix(_REGEX)))
            except re.error as error:
                raise SettingInvalid(
                    f"The rule '{rule}' is neither a JSON pointer nor a regular expression: {error}",
                    setting="ignore",
                    fix="Write a pointer such as /structured_result/time, or correct the expression",
                ) from None
        return cls(tuple(pointers), tuple(patterns))

    def __bool__(self) -> bool:
        """Returns whether there is any rule."""
        return bool(self.pointers or self.patterns)

    def applied(self, document: dict[str, Any]) -> dict[str, Any]:
        """A copy of a document without the parts that the rules ignore.

        Members that a pointer names are removed; items that it names become `IGNORED`, so that the other
        items keep their places.
        """
        copy: Any = document
        for steps in self.pointers:
            copy = _without(copy, steps)
        if self.patterns:
            copy = self._masked(copy)
        return copy

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                for pattern in self.patterns:
                    value = pattern.sub(IGNORED, value)
                return value
            case dict():
                members = cast("dict[str, Any]", value)
                return {name: self._masked(inner) for name, inner in members.items()}
            case list():
                return [self._masked(inner) for inner in cast("list[Any]", value)]
            case _:
                return value


def _without(value: Any, steps: tuple[str, ...]) -> Any:
    step, rest = steps[0], steps[1:]
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            if not rest:
                return {name: inner for name, inner in members.items() if step not in (_ANY, name)}
            return {
                name: _without(inner, rest) if step in (_ANY, name) else inner
                for name, inner in members.items()
            }
        case list():
            items = cast("list[Any]", value)
            return [
                (_without(inner, rest) if rest else IGNORED) if step in (_ANY, str(place)) else inner
                for place, inner in enumerate(items)
            ]
        case _:
            return value
