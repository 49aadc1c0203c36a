"""Calls of a prompt that was not finished: when it is asked again, the model may make them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...audit.record import CallStatus
from ...tools.audit_step import is_read_only
from ...types.portable import from_json_text
from ...types.tool import MCPTool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...audit.record import CallRecord

_NOT_SENT: Final = frozenset({CallStatus.INVALID_ARGUMENTS, CallStatus.NOT_FOUND, CallStatus.DENIED})
_SHOWN: Final = 5


def repeated_calls(records: Iterable[CallRecord]) -> str:
    """Names the calls that matter if they are made again.

    Args:
        records: Calls of prompts that were not finished.

    Returns:
        Tools and rows of those that may have changed something; empty if there is none.
    """
    found = (record for record in records if _may_change(record))
    named = list(dict.fromkeys(_name(record) for record in found))
    more = [f"{len(named) - _SHOWN} others"] if len(named) > _SHOWN else []
    return ", ".join([*named[:_SHOWN], *more])


def _name(record: CallRecord) -> str:
    row = f" (row {record.input_row})" if record.input_row is not None else ""
    return f"{record.tool_name}{row}"


def _may_change(record: CallRecord) -> bool:
    if record.tool is None or record.started_at is None or record.status in _NOT_SENT:
        return False
    if record.duration is not None and not record.attempts:  # it ended before it was sent
        return False
    tool = from_json_text(record.tool)
    if not isinstance(tool, MCPTool):
        return True
    return not is_read_only(tool) and (tool.annotations or {}).get("idempotentHint") is not True
