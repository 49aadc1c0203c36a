"""Servers that are child processes: messages in both eras, and those that are none."""

import json
import time

import pytest

from knime_mcp.tools import Limits, Progress, Timeouts
from knime_mcp.types.errors import (
    Canceled,
    ConnectError,
    ResultTooLarge,
    TimedOut,
)
from tests.client.child_servers import connected, in_background, pid_of
from tests.support.processes import gone
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.mark.requirement("T31")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_lists_and_calls_in_both_eras(era):
    steps = []
    with connected(era, trace=steps.append) as client:
        assert (client.server.url, client.server.transport) == ("stdio:child", "stdio")
        assert client.server.protocol_version == ("2026-07-28" if era == "modern" else "2025-11-25")
        assert "echo" in [tool.name for tool in client.list_tools()]
        assert client.call_tool("echo", {"text": "grüß\n€ 😀"}).text == "grüß\n€ 😀"
        pid = pid_of(client)
    assert gone(pid)
    assert [step.phase for step in steps][:2] == ["process", "protocol"]
    assert str(pid) in steps[0].detail
    assert steps[-1].phase == "tools"


def test_a_server_that_asks_before_it_is_asked_gets_its_answer():
    with connected("asks first") as client:
        assert "answer 1" in json.loads(client.call_tool("events").text)


def test_lines_that_are_no_messages_are_skipped():
    with connected("greets") as client:
        assert client.call_tool("noise").text == "quiet\u2028again"


@pytest.mark.parametrize("blank", [False, True])
def test_after_a_flood_of_lines_that_goes_on_the_next_call_has_a_server_anew(blank):
    with connected(limits=Limits(events=1000)) as client:
        first = pid_of(client)
        with pytest.raises(ResultTooLarge, match="1,001 messages or lines, and no reply"):
            client.call_tool("babble", {"lines": 50_000_000, "blank": blank})
        assert gone(first)
        assert client.call_tool("echo", {"text": "here again"}).text == "here again"


def test_a_line_without_an_end_ends_the_server():
    """It kept the call until its last clock, and half a processor with it."""
    with connected(limits=Limits(event_bytes=100_000)) as client:
        first = pid_of(client)
        with pytest.raises(ResultTooLarge, match="a message of more than 100000 bytes"):
            client.call_tool("endless")
        assert gone(first)
        assert client.call_tool("echo", {"text": "here again"}).text == "here again"


def test_a_server_that_only_babbles_is_not_called_silent():
    said = r"has sent no message for 1 s.*It wrote 7 lines of something else"
    with connected(timeouts=Timeouts(idle=1)) as client, pytest.raises(TimedOut, match=said):
        client.call_tool("babble", {"lines": 7})


def test_a_line_of_too_many_values_is_refused_before_its_end():
    with connected(limits=Limits(values=100_000)) as client:
        with pytest.raises(ResultTooLarge, match=r"more than 100,000 values: 1\d\d,\d+ in \d+,"):
            client.call_tool("big", {"bytes": 0, "values": 1_000_000})
        assert client.call_tool("echo", {"text": "still here"}).text == "still here"


def test_skipped_lines_are_shown_when_the_server_dies():
    with pytest.raises(ConnectError, match="2 lines of something else, such as: Welcome to the child!"):
        connected("greets", "dies on initialize").connect()


def test_a_list_of_messages_is_read():
    with connected() as client:
        assert client.call_tool("batch").content == ()


def test_server_requests_are_answered_while_a_call_waits():
    with connected() as client:
        answers = json.loads(client.call_tool("ask").text)
    assert answers == {
        "s-ping": {},
        "s-roots/list": -32601,
        "s-sampling/createMessage": -32601,
        "s-elicitation/create": -32601,
    }


def test_a_form_is_declined_when_the_caller_says_so():
    with connected(elicitation="decline") as client:
        answers = json.loads(client.call_tool("ask").text)
    assert answers["s-elicitation/create"] == {"action": "decline"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_progress_finds_its_call(era):
    told = []
    with connected(era) as client:
        assert client.call_tool("count", on_progress=told.append).text == "counted"
    assert told == [Progress(float(step), 3.0) for step in (1, 2, 3)]


def test_many_calls_at_once_share_one_process():
    with connected() as client:
        client.connect()
        runs = [
            in_background(lambda n=n: client.call_tool("echo", {"text": str(n) * 5000}).text)
            for n in range(20)
        ]
        for thread, _ in runs:
            thread.join(30)
        assert [box for _, box in runs] == [[str(n) * 5000] for n in range(20)]


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("error", [Canceled, TimedOut])
def test_cancel_and_timeout_are_told_to_the_server(era, error):
    with connected(era) as client:
        client.connect()
        started = time.monotonic()
        options = {
            Canceled: {"is_canceled": lambda: time.monotonic() > started + 0.3},
            TimedOut: {"timeout": 0.3},
        }
        with pytest.raises(error):
            client.call_tool("hang", **options[error])
        hanging, cancelled = json.loads(client.call_tool("events").text)[-2:]
    assert hanging.split() == ["hanging", cancelled.split()[1]]
    assert cancelled.startswith("cancelled ")


def test_large_results_and_arguments_arrive_whole():
    with connected() as client:
        assert len(client.call_tool("big", {"bytes": 5_000_000}).text) == 5_000_000
        assert client.call_tool("echo", {"text": "z" * 3_000_000}).text == "z" * 3_000_000


@pytest.mark.parametrize("where", [None, "id last", "no id"])
def test_a_line_that_is_too_long_fails_its_call_only(where):
    limits = Limits(result_bytes=100_000)
    with connected(limits=limits) as client:
        pid = pid_of(client)
        arguments = {"bytes": 1_000_000} | ({where: True} if where else {})
        waiting, box = in_background(lambda: client.call_tool("hang", timeout=3))
        until(lambda: "hanging" in client.call_tool("events").text, "the other call waits")
        with pytest.raises(ResultTooLarge, match="100000 bytes") as caught:
            client.call_tool("big", arguments)
        assert caught.value.limit == 100_000
        assert client.call_tool("echo", {"text": "still"}).text == "still"
        assert pid_of(client) == pid
        waiting.join(30)
    # Without an id nobody knows whose reply was lost.
    assert isinstance(box[0], ResultTooLarge if where == "no id" else TimedOut)


def test_a_flood_on_standard_error_stops_nothing():
    with connected() as client:
        assert client.call_tool("flood", {"lines": 50_000}).text == "flooded"
