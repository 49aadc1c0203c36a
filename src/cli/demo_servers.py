"""The demo's MCP servers as child processes, which end with the process that started them."""

import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Self

from ..system import in_own_group
from .command_errors import CommandError

START_SECONDS = 120.0  # a cold start of the SDK on a busy machine takes half a minute
STOP_SECONDS = 5.0


class ServerProcess:
    """Runs a server while the block lasts: a module of this package that prints a line of JSON with its URL.

    The server's standard input is a pipe from this process, which closes when this process ends in any way;
    then the server ends too. The server has its own process group, so that Ctrl-C reaches only this process.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._module = module
        self._arguments = arguments
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
            [sys.executable, "-P", "-m", f"{__package__}.{self._module}", *self._arguments],
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


class DemoServer(ServerProcess):
    """The server whose tools read files."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__("demo_files_server", str(folder), str(port))


class NodesServer(ServerProcess):
    """The server of node knowledge, see `serve_nodes`."""

    def __init__(self) -> None:
        super().__init__("demo_servers")


def when_stdin_closes(end: Callable[[], None]) -> None:
    """Ends a server, from another thread, together with the process that started it."""

    def wait() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        end()

    # A daemon thread, as it may still wait when the server ends for another reason.
    threading.Thread(target=wait, daemon=True).start()


def serve_nodes() -> None:
    """Serves node knowledge, like ``knime-mcp nodes serve --http 0`` without a built catalogue.

    Runs as a process of its own, ``python -m knime_mcp.cli.demo_servers``. Like the other server it prints
    one line with its URL as soon as it listens, and ends when its standard input closes.
    """
    import anyio

    from ..knowledge.catalogue_reader import Catalogue
    from ..knowledge.mcp_server import ServedTools, serve_http
    from ..knowledge.node_service import NodeKnowledgeMCPService
    from .nodes.node_catalogue import catalogue_that_comes_along

    when_stdin_closes(lambda: signal.raise_signal(signal.SIGINT))
    with Catalogue(catalogue_that_comes_along()) as catalogue, suppress(KeyboardInterrupt):
        tools = ServedTools(NodeKnowledgeMCPService(catalogue))
        anyio.run(
            lambda: serve_http(tools, 0, on_ready=lambda url: print(json.dumps({"url": url}), flush=True))
        )


if __name__ == "__main__":
    serve_nodes()
