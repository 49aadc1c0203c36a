"""Thousands of calls in flight together against a server that misbehaves at random.

Run as a script it prints what it saw and fails if a row was lost, or threads, sockets or memory grew::

    python -m tests.faults.soak --calls 10000 --in-flight 16 --fault-rate 0.05
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from knime_mcp.runs.table_run import run_batch
from knime_mcp.tools import MCPClient, Timeouts
from knime_mcp.types.errors import MCPError
from tests.support.scripted_server import (
    Part,
    ScriptedServer,
    event,
    http,
    legacy,
    modern,
    notification,
    reply_event,
    rpc,
    rpc_error,
    stream,
    text,
)

TIMEOUTS = Timeouts(connect=5, idle=1.0, total=20)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
GONE = http(404, "Session not found", content_type="text/plain")
FAULTS = (
    [Part.CLOSE],
    [Part.RESET],
    [Part.HALF_CLOSE],
    [OK + b"Content-Length: 99\r\n\r\n{", Part.CLOSE],
    [b"\x00garbage\r\n\r\n", Part.CLOSE],
    http(200, "{"),
    http(200, "<html>", content_type="text/html"),
    http(202, content_type=None),
    http(503, headers={"Retry-After": "0"}),
    http(429, headers={"Retry-After": "0"}),
    http(401, headers={"WWW-Authenticate": "Bearer"}),
    http(307, headers={"Location": "http://127.0.0.2:1/"}),
    rpc_error(-32603, "oops"),
    stream(event(notification("x"))),
    stream(lambda r: reply_event(text("cut"))(r)[:-9], Part.CLOSE),
    stream(b": alive\n\n", Part.STALL),
    GONE,
)


@dataclass
class Soak:
    """A server, a client, and what came of the calls."""

    calls: int
    in_flight: int
    fault_rate: float
    era: str
    seed: int = 1
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    most_threads: int = 0
    most_sockets: int = 0
    memory: list[int] = field(default_factory=list)

    def server(self) -> ScriptedServer:
        """Answers by JSON or as a stream, by turns, and misbehaves at its rate."""
        chance = random.Random(self.seed)

        def call(request):
            if chance.random() < self.fault_rate:
                fault = chance.choice(FAULTS)
                return fault(request) if callable(fault) else fault
            result = text(str(request.params["arguments"]["row"]), resultType="complete")
            reply = rpc(result) if chance.random() < 0.5 else stream(reply_event(result))
            return reply(request)

        script = modern(tools__call=call) if self.era == "modern" else legacy(session="s", tools__call=call)
        return ForgetfulServer(script)

    def run(self, url: str) -> float:
        """Makes the calls; every row must come back once, in order, with its own result or an error of ours.

        Returns:
            Seconds.
        """
        started = time.monotonic()
        expected = 0
        with MCPClient(url, timeouts=TIMEOUTS) as client:

            def work(row):
                return row, client.call_tool("echo", {"row": row}).text

            results = run_batch(
                range(self.calls), work, failed=lambda row, error: (row, error), concurrency=self.in_flight
            )
            for row, outcome in results:
                assert row == expected, f"row {row} came where {expected} was due"
                expected += 1
                self._count(row, outcome)
        assert expected == self.calls == self.outcomes.total()
        return time.monotonic() - started

    def _count(self, row: int, outcome: str | Exception) -> None:
        if isinstance(outcome, Exception):
            assert isinstance(outcome, MCPError), repr(outcome)
            self.outcomes[type(outcome).__name__] += 1
        else:
            assert outcome == str(row), f"row {row} got the result of row {outcome}"
            self.outcomes["ok"] += 1
        if row % 100 == 0:
            self.most_threads = max(self.most_threads, threading.active_count())
            self.most_sockets = max(self.most_sockets, count_sockets())
            self.memory.append(resident_kilobytes())


class ForgetfulServer(ScriptedServer):
    """Keeps no requests and no connections that are over, as it would else be what grows."""

    def _serve(self, sock, number):
        try:
            super()._serve(sock, number)
        finally:
            with contextlib.suppress(ValueError):
                self._socks.remove(sock)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            del self.requests[:-10]


def count_sockets() -> int:
    """Open sockets of this process; 0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    count = 0
    for entry in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            count += os.readlink(entry).startswith("socket:")  # noqa: PTH115 - the target is no path
    return count


def resident_kilobytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return 0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1])


def serve(soak: Soak) -> None:
    """The server in a process of its own, until its input ends."""
    with soak.server() as server:
        print(server.url, flush=True)
        sys.stdin.read()


def soak_apart(soak: Soak) -> float:
    """Run against a server in another process, so that this one holds nothing but the client."""
    command = [sys.executable, "-m", "tests.faults.soak", "--serve", "--era", soak.era]
    command += ["--fault-rate", str(soak.fault_rate), "--seed", str(soak.seed)]
    root = Path(__file__).parents[2]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
    with process:
        try:
            assert process.stdout is not None
            return soak.run(process.stdout.readline().strip())
        finally:
            process.stdin.close()
            process.wait(30)


def growth(memory: list[int]) -> int:
    """Kilobytes by which the second half of a run is above its first half, after warming up."""
    settled = memory[len(memory) // 10 :]
    half = len(settled) // 2
    return max(settled[half:]) - max(settled[:half]) if half else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--fault-rate", type=float, default=0.05)
    parser.add_argument("--era", choices=["modern", "legacy"], action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for era in options.era or ["modern", "legacy"]:
        soak = Soak(options.calls, options.in_flight, options.fault_rate, era, options.seed)
        if options.serve:
            serve(soak)
            return
        threads, sockets = threading.active_count(), count_sockets()
        seconds = soak_apart(soak)
        print(f"{era}: {soak.calls} calls, {soak.in_flight} in flight, faults {soak.fault_rate:.0%}")
        print(f"  {seconds:.1f} s, {soak.calls / seconds:.0f} calls/s")
        print("  " + ", ".join(f"{name} {count}" for name, count in soak.outcomes.most_common()))
        print(f"  threads: most {soak.most_threads}, left {threading.active_count() - threads}")
        print(f"  sockets: most {soak.most_sockets}, left {count_sockets() - sockets}")
        print(f"  memory: {soak.memory[-1] // 1024} MB, growth {growth(soak.memory)} KB")


if __name__ == "__main__":
    main()
