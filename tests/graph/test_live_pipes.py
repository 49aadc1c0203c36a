"""Standard input and output of the server, with what pipes do to lines."""

import contextlib
import json
import subprocess
import sys
import threading
import time

import pytest

from .live import DEADLINE, environment

# Answers each message with its size and a text as long as asked for; as a process, since it takes its pipes.
SERVER = """
import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from knime_mcp.stdio.pipes import stdio_lines
from knime_mcp.graph.sdk_server import sdk_streams

async def main():
    async with stdio_lines() as lines, sdk_streams(lines) as (reader, writer):
        print("this is no message")
        async with writer:
            async for found in reader:
                if isinstance(found, Exception):
                    result = {"wrong": type(found).__name__}
                else:
                    params = found.message.params or {}
                    result = {"sent": params.get("text"), "filled": "y" * params.get("fill", 0)}
                    if params.get("text") and len(params["text"]) > 1000:
                        result["sent"] = len(params["text"])
                answer = JSONRPCResponse(jsonrpc="2.0", id=getattr(
                    getattr(found, "message", None), "id", 0), result=result)
                await writer.send(SessionMessage(answer))

anyio.run(main)
print("back again")
"""


class Peer:
    """The server's process."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        assert line.endswith(b"\n")
        return json.loads(line)

    def end(self):
        """Closes its input; gives what it still says, and what it said on standard error."""
        out, err = self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0, err
        return out.decode().splitlines(), err.decode()


@pytest.fixture
def peer():
    found = Peer()
    watchdog = threading.Timer(DEADLINE, found.process.kill)
    watchdog.start()
    yield found
    watchdog.cancel()
    found.process.kill()
    found.process.communicate()


def message(number, ending=b"\n", **params):
    text = json.dumps({"jsonrpc": "2.0", "id": number, "method": "m", "params": params}, ensure_ascii=False)
    return text.encode() + ending


def test_lines_of_five_megabytes_both_ways(peer):
    size = 5_000_000
    peer.write(message(1, text="x" * size, fill=size))
    found = peer.answer()["result"]
    assert found["sent"] == size
    assert found["filled"] == "y" * size
    peer.write(message(2, text="short"))
    assert peer.answer()["result"]["sent"] == "short"


def test_a_message_in_pieces_and_several_in_one_piece(peer):
    whole = message(1, text="grüße 🎉")
    for start in range(0, len(whole), 7):  # also in the middle of characters
        peer.write(whole[start : start + 7])
        time.sleep(0.002)
    assert peer.answer() == {"jsonrpc": "2.0", "id": 1, "result": {"sent": "grüße 🎉", "filled": ""}}
    peer.write(b"".join(message(number, text=str(number)) for number in range(2, 500)))
    assert [peer.answer()["id"] for _ in range(2, 500)] == list(range(2, 500))


@pytest.mark.parametrize("ending", [b"\r\n", b"\n\n", b" \t\n", b"\n \r\n"])
def test_other_ends_of_lines(peer, ending):
    peer.write(message(1, ending, text="a") + message(2, ending, text="b"))
    assert [peer.answer()["result"]["sent"] for _ in range(2)] == ["a", "b"]


@pytest.mark.parametrize("line", [b'{"\xff\xfe": 1}', b"no json", b"[1, 2", b"\x00\x01"])
def test_a_line_that_is_no_message_is_told_and_the_next_one_is_read(peer, line):
    peer.write(line + b"\n" + message(2, text="next"))
    found = peer.answer()
    while "wrong" in found["result"]:
        found = peer.answer()
    assert (found["id"], found["result"]["sent"]) == (2, "next")


def test_bytes_that_are_no_text_are_replaced(peer):
    peer.write(message(1, text="a?b").replace(b"?", b"\xff"))
    assert peer.answer()["result"]["sent"] == "a\ufffdb"


def test_the_input_ends_after_a_line_without_an_end(peer):
    peer.write(message(1, text="a"))
    assert peer.answer()["id"] == 1
    peer.write(message(2, b"", text="last"))
    said, err = peer.end()
    assert json.loads(said[0])["result"]["sent"] == "last"
    assert said[1:] == ["back again"]
    assert err == "this is no message\n"


def test_the_input_ends_in_the_middle_of_a_message(peer):
    peer.write(message(1, text="a") + message(2, text="b" * 300_000)[:200_000])
    said, err = peer.end()
    assert json.loads(said[0])["result"]["sent"] == "a"
    assert all("wrong" in json.loads(line)["result"] for line in said[1:-1])
    assert said[-1] == "back again"
    assert "Traceback" not in err


def test_a_client_that_reads_slowly_gets_everything(peer):
    count = 60
    writing = threading.Thread(
        target=lambda: [peer.write(message(n, text=str(n), fill=100_000)) for n in range(count)]
    )
    writing.start()
    for number in range(count):
        if number % 10 == 0:
            time.sleep(0.2)
        found = peer.answer()
        assert (found["id"], found["result"]["filled"]) == (number, "y" * 100_000)
    writing.join(DEADLINE)


def test_a_client_that_reads_nothing_is_not_answered_out_of_memory(peer):
    peer.write(message(0, fill=1))
    assert peer.answer()["id"] == 0
    before = resident(peer.process.pid)
    stop = threading.Event()

    def write():
        number = 0
        try:
            while not stop.is_set():
                number += 1
                peer.write(message(number, fill=1_000_000))
        except OSError:
            pass

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    time.sleep(2)
    assert resident(peer.process.pid) - before < 100_000_000
    stop.set()
    peer.process.kill()
    writing.join(DEADLINE)


def resident(pid):
    """Bytes of memory."""
    with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096


def test_a_client_that_is_gone_ends_it(peer):
    peer.write(message(1, text="a"))
    assert peer.answer()["id"] == 1
    peer.process.stdout.close()
    peer.process.stdout = None
    with contextlib.suppress(BrokenPipeError):
        for number in range(2, 40):
            peer.write(message(number, fill=100_000))
            time.sleep(0.02)
    with contextlib.suppress(BrokenPipeError):  # what could not be written is still in the buffer
        peer.process.stdin.close()
    peer.process.stdin = None
    assert peer.process.wait(DEADLINE) is not None
