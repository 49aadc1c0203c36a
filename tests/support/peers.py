"""Starts the servers that tests talk to: child processes on loopback ports, ended with their process group.

What a server prints is kept; when it does not come up, the failure ends with it. The servers of `.peers/`
come from `make peers`.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from tests.peers import build_peers
from tests.support import commands

SERVERS = Path(__file__).resolve().parent / "servers"
#: For servers over stdio that run this project's code: they inherit next to nothing, also not where it is.
OWN_CODE = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
START_DEADLINE = 30.0  # seconds; a cold start on a busy machine
END_DEADLINE = 30.0


@dataclass
class Server:
    """A running child process that listens on `port`."""

    name: str
    command: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict)
    scheme: str = "http"
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _output: IO[bytes] | None = None

    def url(self, path: str) -> str:
        """The address of a path at this server."""
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    def start(self) -> None:
        """Starts the process and waits until it listens, on the same port as before if it ran before."""
        if self._output is None:
            self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the server is done with
        begin = self._output.seek(0, os.SEEK_END)
        # Few variables: server-everything has a tool that shows them, and results must not vary.
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
        self._process = commands.Popen(
            [str(part).replace("{port}", str(self.port)) for part in self.command],
            env=kept | {name: value.replace("{port}", str(self.port)) for name, value in self.env.items()},
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_DEADLINE
        while (found := re.search(r"listening on 127\.0\.0\.1:(\d+)", self.output(begin))) is None:
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.kill()
                why = "ended" if ended else f"did not listen within {START_DEADLINE:.0f} s"
                pytest.fail(f"the server {self.name} {why}. It said:\n{self.output(begin)}", pytrace=False)
            time.sleep(0.01)
        self.port = int(found[1])

    def kill(self) -> None:
        """Ends the process group at once, as a crash would."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(END_DEADLINE)
        if self._process.stdin:
            self._process.stdin.close()
        self._process = None

    def restart(self) -> None:
        """Kills the server and starts it on the same port."""
        self.kill()
        self.start()

    def close(self) -> None:
        """Ends the server for good."""
        self.kill()
        if self._output is not None:
            self._output.close()
            self._output = None

    def output(self, begin: int = 0) -> str:
        """What the server has printed since byte `begin`."""
        if self._output is None:
            return ""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size - begin, begin).decode("utf-8", "replace")


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """The server, up and listening for the duration of the block."""
    try:
        server.start()
        yield server
    finally:
        server.close()


def needs(environment: str) -> None:
    """Fails where an environment of `.peers/` is missing."""
    if not build_peers.is_fresh(environment):
        pytest.fail(
            f"the peer environment {environment!r} is missing or outdated: run `make peers`", pytrace=False
        )


def _script(name: str, environment: str | None, *options: str) -> Server:
    if environment is None:
        interpreter = Path(sys.executable)
    else:
        needs(environment)
        interpreter = build_peers.python(environment)
    # Unbuffered, so that the output is whole when the process is killed.
    command = [interpreter, "-u", SERVERS / f"{name}.py", "--port", "{port}", *options]
    return Server(f"{name} ({environment or 'standard library'})", command)


def _certified(server: Server, certificate: Path | None) -> Server:
    if certificate is not None:
        server.command = [*server.command, "--certificate", certificate]
        server.scheme = "https"
    return server


def everything(mode: str) -> Server:
    """`@modelcontextprotocol/server-everything`; mode `streamableHttp` (path /mcp) or `sse` (path /sse)."""
    needs("node")
    program = build_peers.node_package("@modelcontextprotocol/server-everything") / "dist" / "index.js"
    command = [build_peers.node(), "--require", SERVERS / "loopback.cjs", program, mode]
    return Server(
        f"server-everything {mode}", command, env={"PORT": "{port}", "GREETING": "hello from the test"}
    )


def _bridged(name: str, *command: str | Path) -> Server:
    script = [sys.executable, "-u", SERVERS / "stdio_bridge.py", "--port", "{port}", "--"]
    return Server(name, [*script, *command])


def filesystem(folder: Path) -> Server:
    """`@modelcontextprotocol/server-filesystem` for a folder, behind a bridge to HTTP (path /mcp)."""
    needs("node")
    program = build_peers.node_package("@modelcontextprotocol/server-filesystem") / "dist" / "index.js"
    return _bridged("server-filesystem", build_peers.node(), program, folder)


def memory(file: Path) -> Server:
    """`@modelcontextprotocol/server-memory`, its memory in a file, behind a bridge to HTTP (path /mcp)."""
    needs("node")
    program = build_peers.node_package("@modelcontextprotocol/server-memory") / "dist" / "index.js"
    server = _bridged("server-memory", build_peers.node(), program)
    server.env = {"MEMORY_FILE_PATH": str(file)}
    return server


def sqlite(file: Path) -> Server:
    """`mcp-server-sqlite` for a database, behind a bridge to HTTP (path /mcp), as `agent-eval` builds it."""
    needs("sql")
    program = build_peers.python("sql").with_name("mcp-server-sqlite")
    return _bridged("mcp-server-sqlite", program, "--db-path", file)


def clock() -> Server:
    """`mcp-server-time`, behind a bridge to HTTP (path /mcp)."""
    needs("mcp2")
    return _bridged("mcp-server-time", build_peers.python("mcp2").with_name("mcp-server-time"))


def mcp2(certificate: Path | None = None) -> Server:
    """A server on the official SDK 2.x; paths /stateful, /stateless, /json, /stateless-json and /sse."""
    return _certified(_script("mcp2_server", "mcp2"), certificate)


def mcp1() -> Server:
    """A server on the official SDK 1.x; paths as `mcp2`."""
    return _script("mcp1_server", "mcp1")


def fastmcp4() -> Server:
    """A server on fastmcp 4; paths /stateful, /stateless and /sse."""
    return _script("fastmcp_server", "mcp2")


def fastmcp3() -> Server:
    """A server on fastmcp 3; paths as `fastmcp4`."""
    return _script("fastmcp_server", "mcp1")


def guarded(environment: str) -> Server:
    """A server on fastmcp, in the environment `mcp1` or `mcp2`, that wants a login; path /mcp."""
    return _script("guarded_server", environment)


def counting(name: str = "counting server") -> Server:
    """A server that counts its calls; paths /one, /two and /old (HTTP+SSE); needs no `.peers/`."""
    return Server(name, [sys.executable, "-u", SERVERS / "counting_server.py", "--port", "{port}"])


def asking() -> Server:
    """A server that asks back, at /mcp; needs no `.peers/`."""
    return Server("asking server", [sys.executable, "-u", SERVERS / "asking_server.py", "--port", "{port}"])


def shapes(certificate: Path | None = None) -> Server:
    """Odd but legal servers, see `shapes_server` for their paths; needs no `.peers/`."""
    return _certified(_script("shapes_server", None), certificate)
