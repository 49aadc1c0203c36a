"""The demo's MCP servers as child processes that cannot outlive the one that started them."""

import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from .exits import CommandError
from .extras import missing_extra

START_SECONDS = 30.0  # a cold start of the SDK on a busy machine takes a few
STOP_SECONDS = 5.0


class ServerProcess:
    """Runs a server while the block lasts.

    Its standard input is a pipe from this process: when that closes, in whatever way this process ends, the
    server ends too. It runs in a process group of its own, so that Ctrl-C reaches this process only.

    Args:
        module: The server's module beside this one; it prints a line of JSON with its URL.
        arguments: Its arguments.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._module = module
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()

    @property
    def pid(self) -> int:
        """Process id; 0 if it does not run."""
        return self._process.pid if self._process else 0

    def __enter__(self) -> Self:
        """Starts the server; `url` waits until it listens.

        Raises:
            CommandError: The extra `server` is missing.
        """
        if missing := [name for name in ("mcp", "uvicorn") if importlib.util.find_spec(name) is None]:
            raise missing_extra("The demo needs", "server", missing[0])
        self._process = subprocess.Popen(  # noqa: S603
            # -P: the current folder is not on its path, whatever modules lie there.
            [sys.executable, "-P", "-m", f"{__package__}.{self._module}", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            start_new_session=os.name == "posix",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # Windows'
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @cached_property
    def url(self) -> str:
        """Where it listens.

        Raises:
            CommandError: It does not start.
        """
        assert self._process is not None
        stream = self._process.stdout
        assert stream is not None
        lines: queue.Queue[bytes] = queue.Queue()
        # A thread, because a pipe cannot be read with a deadline on every system.
        threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
        try:
            return str(json.loads(lines.get(timeout=START_SECONDS))["url"])
        except (queue.Empty, ValueError, KeyError):
            self._complaints.seek(0)
            said = self._complaints.read().decode(errors="replace").strip().splitlines()
            raise CommandError(
                f"The demo's server did not start. It said: {said[-1] if said else 'nothing'}"
                f"{'. Choose another --port, or 0 for any that is free.' if 'in use' in str(said) else ''}"
            ) from None

    def wait(self, seconds: float) -> bool:
        """Waits for the server to end by itself. Returns whether it has."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Ends the server, if it runs, and waits until it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._complaints.close()


class DemoServer(ServerProcess):
    """The server whose tools read files.

    Args:
        folder: What its tools may read.
        port: Port on loopback, 0 for a free one.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__("demo_server", str(folder), str(port))


def when_stdin_closes(end: Callable[[], None]) -> None:
    """Ends a server together with the process that started it.

    Args:
        end: Ends the server; called from another thread.
    """

    def wait() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        end()

    # A daemon: it may still wait when the server ends for another reason.
    threading.Thread(target=wait, daemon=True).start()
