"""The client under test: a program that is given tasks, measured, and ended if it does not answer."""

import json
import os
import re
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .scenario import Outcome


class ClientProcess:
    """Starts the program when it is needed, and again after it hung or ended.

    Args:
        command: The program and its arguments.
        cwd: Where it runs.
        patience: Seconds after which a task without an answer counts as hanging.
    """

    def __init__(self, command: list[str], *, cwd: Path | None, patience: float) -> None:
        self._command = command
        self._cwd = cwd
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, task: dict[str, Any]) -> Outcome:
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        before = _memory(process.pid, "VmRSS")
        _forget_peak(process.pid)
        started = time.monotonic()
        end = ""
        line = b""
        try:
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
            until = started + self._patience
            while not line.endswith(b"\n") and not end:
                if not select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                    end = "hang"
                elif more := os.read(process.stdout.fileno(), 1 << 20):
                    line += more
                else:
                    end = "crash"
        except BrokenPipeError:
            end = "crash"
        outcome = Outcome(seconds=time.monotonic() - started, end=end)
        outcome.memory = max(0, _memory(process.pid, "VmHWM") - before)
        if end:
            self.close()
            return outcome
        answer = json.loads(line)
        outcome.connect = answer["connect"]
        if not outcome.connect:
            outcome.connect = {"error": answer.get("end", "")}
        outcome.tools = answer["tools"]
        outcome.calls = answer["calls"]
        if outcome.tools is not None and "end" in answer and len(outcome.calls) < len(task["calls"]):
            outcome.calls.append({"error": answer["end"]})  # the call took the whole session with it
        return outcome

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            cwd=self._cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )


def _forget_peak(pid: int) -> None:
    peak = Path(f"/proc/{pid}/clear_refs")
    if peak.exists():
        peak.write_text("5")


def _memory(pid: int, name: str) -> int:
    """In MiB, as Linux counts; 0 elsewhere, and for a process that has ended."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(rf"{name}:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) // 1024 if found else 0
