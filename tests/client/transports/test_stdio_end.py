"""How the process of a server ends: by itself, by closing, by the end of its parent."""

import os
import signal
import subprocess
import sys

import pytest

from knime_mcp.client.transports import stdio
from knime_mcp.types.errors import (
    Canceled,
    ConnectError,
    SessionLost,
    TimedOut,
)
from tests.client.child_servers import CHILD, connected, in_background, pid_of
from tests.support.processes import gone
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def test_a_server_that_stops_reading_cannot_hold_a_call_or_the_end():
    with connected() as client:
        pid = pid_of(client)
        client.call_tool("deaf")
        with pytest.raises(TimedOut):
            client.call_tool("echo", {"text": "q" * 1_000_000}, timeout=0.5)
        with pytest.raises(Canceled):
            client.call_tool("echo", {"text": "q"}, is_canceled=lambda: True)
    assert gone(pid)


@pytest.mark.parametrize(("arguments", "words"), [({"code": 9}, "exit code 9"), ({}, "signal SIGKILL")])
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_server_that_dies_fails_all_calls_and_is_started_for_the_next(era, arguments, words):
    with connected(era) as client:
        first = pid_of(client)
        waiting = [in_background(lambda: client.call_tool("hang")) for _ in range(3)]
        until(lambda: client.call_tool("events").text.count("hanging") == 3, "all calls wait")
        with pytest.raises(ConnectError, match=words) as caught:
            client.call_tool("die", arguments)
        for thread, box in waiting:
            thread.join(30)
            assert isinstance(box[0], ConnectError), box
            assert words in str(box[0])
        assert "out of luck" in str(caught.value)
        assert (caught.value.server, caught.value.tool) == ("stdio:child", "die")
        second = pid_of(client)
        assert second != first
        assert gone(first)
    assert gone(second)


def test_a_listing_is_repeated_in_a_new_process(tmp_path):
    with connected("dies once", cwd=str(tmp_path)) as client:
        assert client.list_tools()


def test_a_caller_who_needs_the_state_of_the_process_is_told():
    with connected(reopen_sessions=False) as client:
        with pytest.raises(ConnectError):
            client.call_tool("die", {"code": 1})
        with pytest.raises(SessionLost):
            client.call_tool("echo", {"text": "x"})
        assert client.call_tool("echo", {"text": "x"}).text == "x"


def test_a_server_that_closes_its_output_is_ended():
    with connected() as client:
        pid = pid_of(client)
        with pytest.raises(ConnectError, match="closed its standard output"):
            client.call_tool("close_stdout")
        assert client.call_tool("echo", {"text": "new"}).text == "new"
        assert gone(pid)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_server_that_hangs_is_replaced_after_a_call_has_timed_out(era, monkeypatch):
    monkeypatch.setattr(stdio, "_SIGN_OF_LIFE_SECONDS", 0.5)
    with connected(era) as client:
        first = pid_of(client)
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(TimedOut):
            client.call_tool("echo", {"text": "x"}, timeout=0.3)
        second = pid_of(client)
        assert second != first
        assert gone(first)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_server_that_was_only_slow_is_kept(era):
    with connected(era) as client:
        first = pid_of(client)
        for tool, arguments in (("hang", {}), ("sleep", {"seconds": 0.8})):
            with pytest.raises(TimedOut):
                client.call_tool(tool, arguments, timeout=0.3)
            assert pid_of(client) == first


def test_a_server_that_ignores_everything_is_killed():
    with connected("stubborn", "grandchild at start") as client:
        pid = pid_of(client)
    assert gone(pid)


def test_a_server_may_finish_talking_when_its_input_is_closed(tmp_path):
    with connected("talks at the end", cwd=str(tmp_path)) as client:
        client.connect()
    assert (tmp_path / "said goodbye").exists()


def test_grandchildren_do_not_outlive_the_server():
    with connected("grandchild at start") as client:
        pid = pid_of(client)
        client.call_tool("grandchild")
        with pytest.raises(ConnectError, match="exit code 9"):  # although its children hold its output open
            client.call_tool("die", {"code": 9})
        assert gone(pid)


def test_a_grandchild_that_left_the_group_holds_nobody_and_ends_with_the_server():
    with connected() as client:
        escaped = int(client.call_tool("grandchild", {"escapes": True}).text)
        with pytest.raises(ConnectError, match="exit code 9"):
            client.call_tool("die", {"code": 9})
        until(lambda: gone(escaped), "it is ended")
        escaped = int(client.call_tool("grandchild", {"escapes": True}).text)
    assert gone(escaped)


def test_closing_twice_and_connecting_again():
    client = connected()
    first = pid_of(client)
    client.close()
    client.close()
    assert gone(first)
    second = pid_of(client)
    assert second != first
    client.close()
    assert gone(second)


def test_closing_ends_calls_under_way():
    client = connected()
    client.connect()
    thread, box = in_background(lambda: client.call_tool("hang"))
    until(lambda: "hanging" in client.call_tool("events").text, "the call waits")
    client.close()
    thread.join(30)
    assert "client was closed" in str(box[0])


def run_python(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


FORGETFUL = """
import sys
from knime_mcp.tools import MCPClient, StdioServer
client = MCPClient(stdio=StdioServer("child", [sys.executable, *sys.argv[1:]]))
print(client.call_tool("pid").text, flush=True)
"""


def test_the_end_of_the_interpreter_ends_the_process():
    with run_python(FORGETFUL, CHILD, "stubborn", "grandchild at start") as parent:
        pid = int(parent.stdout.readline())
        assert parent.wait(60) == 0
    assert gone(pid)


def test_not_even_a_killed_parent_leaves_a_process():
    with run_python(
        FORGETFUL + "import time; time.sleep(600)", CHILD, "stubborn", "grandchild at start"
    ) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait(30)
    assert gone(pid)
