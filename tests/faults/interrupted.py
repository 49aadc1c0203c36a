"""Runs commands and interrupts them where it is told to; for `test_interrupts`.

``python -m tests.faults.interrupted`` reads a list of tasks as JSON: the ``words`` of a command, the
``folder`` to run it in, the ``stage``, the number of ``signals`` and the seconds ``after`` which to send the
first. It prints a line per task with the exit code. Each command is a fork of this process, which has
imported what commands need. A stage is a function, named as ``module:name``; the seconds count from when it
is entered. If there is to be a second signal, the function never ends.
"""

import importlib
import json
import os
import signal
import sys
import threading
import time

from knime_mcp.cli import app
from knime_mcp.cli.command_errors import _SENT_TWICE_SECONDS
from knime_mcp_graph.commands import program

STOPS_WITHIN = 60  # seconds
AT_ONCE = 6
IMPORTED = (
    *(
        "knime_mcp.cli.commands",
        "knime_mcp.cli.batch_run",
        "knime_mcp.cli.sessions",
        "knime_mcp.agents.model",
    ),
    *(
        "knime_mcp_graph.api",
        "knime_mcp.client.transports.streamable_http",
        "knime_mcp.client.validation.schemas",
    ),
    *("langchain_core.messages", "pyarrow.parquet", "jsonschema_rs"),
)


class Interrupter:
    """Watches the calls of all threads, and sends the signals."""

    def __init__(self, task):
        self._module, _, self._name = task["stage"].partition(":")
        self._signals, self._after = task["signals"], task["after"]
        self._lock = threading.Lock()

    def __call__(self, frame, event, _argument):
        if event != "call" or frame.f_code.co_qualname != self._name:
            return
        if frame.f_globals.get("__name__") != self._module or not self._lock.acquire(blocking=False):
            return
        sys.setprofile(None)
        if not self._after and self._signals == 1:
            os.kill(os.getpid(), signal.SIGINT)
            return
        threading.Thread(target=self._send, daemon=True).start()
        while self._signals > 1:  # as if this step never ended
            pass

    def _send(self):
        for _ in range(self._signals):
            time.sleep(self._after)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(2 * _SENT_TWICE_SECONDS)  # sooner it would count as the same one


def run(task):
    """In the fork: the command, with its output in files, and its end as of any process."""
    os.setsid()
    os.chdir(task["folder"])
    for number, name in enumerate(("/dev/null", "out", "err")):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    is_graph = task["words"][0] == "mcpgraph"
    sys.argv = task["words"] if is_graph else ["knime-mcp", *task["words"]]
    watch = Interrupter(task)
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        (program if is_graph else app).main()
    finally:
        sys.setprofile(None)


def main_of_forks(tasks):
    """Some commands at a time; prints a line as each has ended."""
    running = {}
    while tasks or running:
        while tasks and len(running) < AT_ONCE:
            number, task = tasks.pop()
            pid = os.fork()
            if pid == 0:
                run(task)
                return
            running[pid] = (number, time.monotonic() + STOPS_WITHIN)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            number, _ = running.pop(pid)
            print(json.dumps({"number": number, "code": os.waitstatus_to_exitcode(status)}), flush=True)
        for pid, (_, until) in running.items():
            if time.monotonic() > until:
                os.killpg(pid, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's jobs in the background ignore it
    for name in IMPORTED:
        importlib.import_module(name)
    main_of_forks(list(enumerate(json.loads(sys.stdin.read()))))
