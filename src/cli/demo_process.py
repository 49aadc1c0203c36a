"""The demo's MCP server as a child process, which ends with the process that started it."""

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import IO, Self

from ..system import in_own_group
from .command_errors import CommandError

START_SECONDS = 120.0  # a cold start of the SDK on a busy machine takes half a minute
STOP_SECONDS = 5.0


class DemoServer:
    """Runs the server of `demo_files_server` while the block lasts; its tools read the files of a folder.

    The server's standard input is a pipe from this process, which closes when this process ends in any way;
    then the server ends too. The server has its own process group, so that Ctrl-C reaches only this process.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._arguments = (str(folder), str(port))
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()

    @property
    def pid(self) -> int:
        """Process id; 0 if the server does not run."""
        return self._process.pid if self._process else 0

    def __enter__(self) -> Self:
        """Starts the server; `url` waits until it listens."""
        self._process = subprocess.Popen(  # noqa: S603
            # -P: modules in the current folder must not be imported.
            [sys.executable, "-P", "-m", f"{__package__}.demo_files_server", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            **in_own_group(),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @cached_property
    def url(self) -> str:
        """The server's URL; waits until the server listens."""
        assert self._process is not None
        stream = self._process.stdout
        assert stream is not None
        lines: queue.Queue[bytes] = queue.Queue()
        # A thread, because not every system can read a pipe with a deadline.
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
        """Waits for the server to end by itself. Returns whether it has ended."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Ends the server, if it runs, and waits for its end."""
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


def when_stdin_closes(end: Callable[[], None]) -> None:
    """Ends a server, from another thread, together with the process that started it."""

    def wait() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        end()

    # A daemon thread, as it may still wait when the server ends for another reason.
    threading.Thread(target=wait, daemon=True).start()
