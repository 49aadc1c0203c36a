"""Calls that share one stream: what finds whom."""

import pytest

from knime_mcp.client.clock import Wait
from knime_mcp.client.conversation import CallInbox
from knime_mcp.client.limits import Timeouts
from knime_mcp.client.protocol.negotiation import ServerRequests
from knime_mcp.client.transports.base import Pending, PendingCalls
from knime_mcp.types.errors import SessionLost

pytestmark = pytest.mark.quick


PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}


def calls():
    inbox = CallInbox(ServerRequests())
    answered = []
    return PendingCalls(inbox, answered.append), inbox, answered


@pytest.mark.parametrize(("version", "answers"), [("2025-11-25", 1), ("2026-07-28", 0)])
def test_a_modern_server_asks_nothing_and_is_not_answered(version, answers):
    pending, _, answered = calls()
    pending.adopt(version)
    pending.dispatch(PING, "")
    assert len(answered) == answers


@pytest.mark.parametrize("reply_id", [7, 7.0, "7"])
def test_a_reply_finds_its_call_in_any_form_of_its_id(reply_id):
    pending, inbox, _ = calls()
    mine, other = (Pending(Wait(Timeouts()), inbox) for _ in range(2))
    pending.add(7, mine)
    pending.add(8, other)
    pending.dispatch({"id": reply_id, "result": {}, "method": None}, '{"id": 7}')
    assert mine.done.is_set()
    assert mine.body == '{"id": 7}'
    assert not other.done.is_set()


@pytest.mark.parametrize("reply_id", [9, "7.0", None, [7], {"a": 7}])
def test_a_late_or_foreign_reply_finds_nobody(reply_id):
    pending, inbox, answered = calls()
    waiting = [Pending(Wait(Timeouts()), inbox) for _ in range(2)]
    for number, entry in enumerate(waiting, 7):
        pending.add(number, entry)
    pending.dispatch({"id": reply_id, "result": {}}, "")
    assert not any(entry.done.is_set() for entry in waiting)
    assert not answered


@pytest.mark.parametrize(
    "answer", [{"result": None}, {"result": {}}, {"error": {"code": -32601, "message": "Method not found"}}]
)
@pytest.mark.parametrize("without", [{}, {"id": None}])
def test_an_answer_to_a_notification_is_no_reply_to_the_call_behind_it(answer, without):
    pending, inbox, _ = calls()
    pending.adopt("2024-11-05")
    listing = Pending(Wait(Timeouts()), inbox)
    pending.add(2, listing)
    pending.dispatch({"jsonrpc": "2.0", **without, **answer}, b"")
    assert not listing.done.is_set()
    pending.dispatch({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "parse"}}, b"")
    assert listing.done.is_set()


def test_what_is_there_already_is_still_handed_out_when_nobody_can_join_any_more():
    pending, inbox, _ = calls()
    mine, other = (Pending(Wait(Timeouts()), inbox) for _ in range(2))
    pending.add(7, mine)
    pending.refuse(SessionLost("The process has ended"))
    with pytest.raises(SessionLost):
        pending.add(8, other)
    pending.dispatch({"id": 7, "result": {}}, "")
    assert mine.message == {"id": 7, "result": {}}
    pending.end(SessionLost("It ended later"), SessionLost("It ended later"))
    assert pending.ended.what == "The process has ended"
