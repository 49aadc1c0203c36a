"""Faults of servers that are processes: what the row is told, and that the next one has a process again."""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from knime_mcp.client.transports import stdio_process
from knime_mcp.client.transports.stdio_process import OutgoingLine
from knime_mcp.tools import MCPClient, StdioServer, Timeouts
from knime_mcp.types.errors import ConnectError, ProtocolError, TimedOut
from tests.faults.rows import PATIENT

CHILD = Path(__file__).with_name("child.py")


def connected(*habits, timeouts=PATIENT, cwd=None):
    server = StdioServer("child", [sys.executable, str(CHILD), *habits], cwd=cwd)
    return MCPClient(stdio=server, timeouts=timeouts)


def test_the_last_line_of_a_process_may_lack_its_end():
    with connected() as client:
        assert client.call_tool("echo", {"row": 1, "fault": "no last line end"}).text == "row 1"
        assert client.call_tool("echo", {"row": 2}).text == "row 2"


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("ends, and what it started goes on writing", ConnectError, "ended with exit code 4"),
        ("deep", ProtocolError, "nested too deeply"),
    ],
)
def test_a_row_that_has_no_result_is_told_at_once(fault, kind, words):
    with connected() as client:
        with pytest.raises(kind, match=words):
            client.call_tool("echo", {"row": 1, "fault": fault})
        assert client.call_tool("echo", {"row": 2}).text == "row 2"


def test_a_process_that_reads_no_more_is_replaced():
    with connected() as client:
        assert client.call_tool("echo", {"row": 1, "fault": "reads no more"}).text == "row 1"
        assert client.call_tool("echo", {"row": 2}).text == "row 2"


def test_a_line_that_is_sent_again_does_not_reach_the_old_process(tmp_path, monkeypatch):
    monkeypatch.setattr(stdio_process, "_EXIT_SECONDS", 0.1)
    with connected(cwd=str(tmp_path)) as client:
        fault = "closes its output in the middle of the next line"
        assert client.call_tool("echo", {"row": 1, "fault": fault}).text == "row 1"
        assert client.call_tool("echo", {"row": 2, "load": "x" * 1_000_000}).text == "row 2"
    assert not list(tmp_path.iterdir())


def test_an_answer_to_one_question_takes_no_patience_from_the_next_one():
    with connected("slow") as client:
        assert client.call_tool("echo", {"row": 1}).text == "row 1"


def test_what_was_written_instead_of_messages_is_shown():
    with (
        connected(timeouts=Timeouts(idle=1.0)) as client,
        pytest.raises(TimedOut, match="12 lines of something else, such as"),
    ):
        client.call_tool("echo", {"row": 1, "fault": "over many lines"})


def test_a_line_that_nobody_wants_any_more_is_not_kept():
    """It stays in the queue for as long as the process does not read."""
    line = OutgoingLine(b"x" * 1000)
    assert line.withdraw()
    assert line.data == b""
    line = OutgoingLine(b"x")
    assert line.begin()
    assert not line.withdraw()
    assert line.data == b"x"


def test_a_write_that_fails_in_the_end_was_never_out():
    """Whoever hears first that the process has ended asks while the line is still being written."""
    reader, pipe = os.pipe()
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x" * 65536)
    os.set_blocking(pipe, True)
    line = OutgoingLine(b"x\n")
    began = threading.Event()

    def write():
        began.set()
        with suppress(BrokenPipeError):
            line.write(pipe, memoryview(line.data))

    with ThreadPoolExecutor() as threads:
        written = threads.submit(write)
        assert began.wait(30)
        time.sleep(0.1)  # it waits for room now
        asked = threads.submit(line.give_up)
        time.sleep(0.1)
        os.close(reader)
        assert asked.result(30)
        written.result(30)
    os.close(pipe)
