"""The meaning of statuses for people, the same in all views."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ...audit.record import CallStatus
from .html import badge

if TYPE_CHECKING:
    from .html import BadgeKind, Html


def meaning_of(status: CallStatus) -> BadgeKind:
    """The meaning of a status: good, bad, or intended although there is no result."""
    match status:
        case CallStatus.OK:
            return "good"
        case CallStatus.DENIED | CallStatus.CANCELED:
            return "warning"
        case CallStatus.TOOL_ERROR | CallStatus.INVALID_ARGUMENTS | CallStatus.NOT_FOUND | CallStatus.FAILED:
            return "bad"
        case _:
            assert_never(status)


def status_badge(status: CallStatus) -> Html:
    """The status as a label."""
    return badge(status.value, meaning_of(status))
