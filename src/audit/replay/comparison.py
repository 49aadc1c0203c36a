"""Compares the recorded result of a call with the new one.

Both become documents with the members ``status``, ``result``, ``structured_result`` and ``error``. Text that
is a JSON object or list is compared as JSON, so that its layout does not matter; marks of secrets are equal
regardless of their digests, because every run has its own key. The difference is a JSON patch (RFC 6902) that
turns the recorded document into the new one. Pictures, sounds and other files are compared by their type and
size, which stand in the text of a result.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.canonical import canonical_json
from ..record import CallStatus
from ..secrets import without_digests

if TYPE_CHECKING:
    from ..record import CallRecord
    from .ignore import IgnoreRules

#: Beyond this length of both texts together (characters) a patch replaces whole members: the time to find the
#: smallest patch grows with the square of a list's length.
_LONGEST_IN_DETAIL: Final = 100_000
_MOST_OPERATIONS: Final = 5_000


def compare(recorded: CallRecord, new: CallRecord, rules: IgnoreRules) -> str | None:
    """Compares two calls of the same tool with the same arguments.

    Args:
        recorded: The call on record.
        new: The call that was made now.
        rules: The parts to ignore.

    Returns:
        JSON text of the patch from the recorded document to the new one; None if all differences are ignored.
    """
    if recorded.status is new.status and _texts(recorded) == _texts(new):
        return None  # in most cases; no JSON has to be parsed
    before, now = document_of(recorded, rules), document_of(new, rules)
    if canonical_json(before) == canonical_json(now):
        return None
    return canonical_json(patch_between(before, now))


def document_of(record: CallRecord, rules: IgnoreRules) -> dict[str, Any]:
    """Makes the document of a call for the comparison.

    Args:
        record: The call.
        rules: The parts to leave out.

    Returns:
        A JSON object. Whole numbers are integers, as ``1`` and ``1.0`` are the same in JSON.
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


def patch_between(before: dict[str, Any], now: dict[str, Any]) -> list[dict[str, Any]]:
    """Finds the patch between two documents.

    Args:
        before: The recorded document, a JSON object.
        now: The new document, a JSON object.

    Returns:
        The operations (RFC 6902) that turn the first document into the second; they were applied as a test.
    """
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
    result, structured, error = (
        without_digests(text or "") for text in (record.result, record.structured_result, error)
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
