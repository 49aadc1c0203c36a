"""Writes the texts for a model about failed calls: the error and the next step."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, cast

from ...audit.record import CallStatus
from ...tools.provider.example_arguments import example_arguments
from ...types.errors import (
    ArgumentsInvalid,
    AuthError,
    ConnectError,
    ResultInvalid,
    SessionLost,
    TimedOut,
    ToolChanged,
    ToolNotFound,
)
from ...types.tool import parse_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...runs.one_call import CallOutcome
    from .toolset import BoundTool

_OPEN_KEYWORDS: Final = frozenset(
    ("additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
)
_LONGEST_EXAMPLE: Final = 2000
_NAMES_SHOWN: Final = 20


def failure_text(outcome: CallOutcome, bound: BoundTool | None) -> str:
    """Writes why a call failed and what the model can do next, with secrets marked."""
    record = outcome.record
    error = record.error or record.status.value
    match record.status:
        case CallStatus.TOOL_ERROR:
            return f"Error: the tool failed: {error}{_unknown_arguments(bound, record.arguments)}"
        case CallStatus.INVALID_ARGUMENTS:
            return f"Error: {error}{_unknown_arguments(bound, record.arguments)}{_example(bound)}"
        case _:
            return f"Error: {error}{_advice(outcome)}"


def unknown_tool(name: str, similar: Sequence[str], known: Sequence[str], finder: str | None) -> ToolNotFound:
    """Makes the error for a name that no tool has.

    Args:
        name: The name that the model wrote.
        similar: Names that the model may have meant.
        known: All names.
        finder: Name of the tool that finds tools, None if all tools are bound.
    """
    if similar:
        fix = f"Did you mean {' or '.join(similar)}?"
    elif finder is not None:
        fix = f"Find the tools that there are with {finder}"
    elif known:
        more = f" and {len(known) - _NAMES_SHOWN} others" if len(known) > _NAMES_SHOWN else ""
        fix = f"The tools are {', '.join(known[:_NAMES_SHOWN])}{more}"
    else:
        fix = "There are no tools: answer without"
    return ToolNotFound(f"There is no tool {name[:200]!r}", suggestions=tuple(similar), fix=fix)


def unreadable_arguments(reason: str | None, written: str = "") -> ArgumentsInvalid:
    """Makes the error for arguments that are no JSON object.

    Args:
        reason: The reason why they could not be read.
        written: The model's text, empty if it may hold secrets. The history does not keep it.
    """
    return ArgumentsInvalid(
        "The arguments could not be read"
        + (f": {reason}" if reason else "")
        + (f". They were: {written}" if written else ""),
        fix="Write the arguments as one complete JSON object; nothing was sent",
    )


def _unknown_arguments(bound: BoundTool | None, arguments_json: str | None) -> str:
    """A hint about arguments that the schema allows but does not declare: usually misspelled."""
    if bound is None or arguments_json is None:
        return ""
    schema = bound.definition["function"]["parameters"]
    known = schema.get("properties")
    if not isinstance(known, dict) or schema.keys() & _OPEN_KEYWORDS:
        return ""
    names = list(cast("dict[str, Any]", known))
    folded = {name.casefold(): name for name in names}
    hints: list[str] = []
    for unknown in sorted(parse_object(arguments_json).keys() - set(names))[:_NAMES_SHOWN]:
        similar = difflib.get_close_matches(unknown[:100].casefold(), folded, n=1)
        hints.append(f"{unknown!r} (did you mean {folded[similar[0]]!r}?)" if similar else repr(unknown))
    return f" The tool knows no argument {', '.join(hints)}." if hints else ""


def _example(bound: BoundTool | None) -> str:
    if bound is None:
        return ""
    example = example_arguments(bound.definition["function"]["parameters"])
    if len(example) > _LONGEST_EXAMPLE:
        return ""
    return f" Arguments of the expected form are, for example: {example}"


def _advice(outcome: CallOutcome) -> str:
    match outcome.error:
        case AuthError():
            return " No call to this server can work now: go on without it, and say so in your answer."
        case TimedOut() | ConnectError() | SessionLost():
            return " Try again at most once; then go on without it, and say so in your answer."
        case ToolChanged():
            return " The tool cannot be used now: go on without it, and say so in your answer."
        case ResultInvalid():
            return " The call was made; do not rely on the result."
        case _:
            return ""
