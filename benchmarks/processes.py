"""Servers and clients in processes of their own: what is measured, and what it is measured beside."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from tests.peers import build_peers  # noqa: E402 - the environments are described once, for tests and here

CALL = {"BENCH_TOOL": "tool_00001", "BENCH_ARGUMENTS": json.dumps({"query": "knime"})}
TIMEOUT = 600
# Modules are compiled once, as an installation does, and not in every process.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class ClientKind:
    """A client: its name in the table, its function in `clients.py`, its environment (None for ours)."""

    name: str
    way: str
    environment: str | None = None

    @property
    def python(self) -> Path:
        """The interpreter."""
        return Path(sys.executable) if self.environment is None else build_peers.python(self.environment)

    @property
    def is_there(self) -> bool:
        """Whether its environment was built."""
        return self.environment is None or build_peers.is_fresh(self.environment)

    def command(self, url: str, mode: str) -> list[str]:
        """What starts it."""
        return [str(self.python), "-P", str(HERE / "clients.py"), self.way, url, mode]


HTTPX = ClientKind("bare httpx", "bare_httpx")
HTTPX_ASYNC = ClientKind("bare httpx, awaited", "bare_httpx_async")
OURS = ClientKind("ours: MCPClient", "ours")
INVOKE = ClientKind("ours: StructuredTool.invoke", "ours_invoke")
AINVOKE = ClientKind("ours: StructuredTool.ainvoke", "ours_ainvoke")
SDK2 = ClientKind("official SDK 2.x", "sdk2", "mcp2")
SDK1 = ClientKind("official SDK 1.x", "sdk1", "mcp1")
FASTMCP4 = ClientKind("fastmcp 4 client", "fastmcp", "mcp2")
FASTMCP3 = ClientKind("fastmcp 3 client", "fastmcp", "mcp1")
ADAPTER_SESSION = ClientKind("LangChain adapter, one session", "adapter_session", "adapter")
ADAPTER = ClientKind("LangChain adapter, default", "adapter", "adapter")
PEERS = (SDK2, SDK1, FASTMCP4, FASTMCP3, ADAPTER_SESSION, ADAPTER)


def there(kinds: tuple[ClientKind, ...]) -> list[ClientKind]:
    """Those whose environment was built; the others are named."""
    for kind in kinds:
        if not kind.is_there:
            print(f"{kind.name}: not built, left out (`make bench` builds it)")
    return [kind for kind in kinds if kind.is_there]


@contextmanager
def child(command: list[str], env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process that ends when its standard input closes."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT | (env or {}),
    ) as process:
        assert process.stdin
        try:
            yield process
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def line_from(process: subprocess.Popen[str]) -> str:
    """The next line of its output."""
    assert process.stdout
    line = process.stdout.readline().strip()
    if not line:
        raise SystemExit(f"{process.args} ended with {process.wait(timeout=10)}")
    return line


@contextmanager
def fast_server(
    tools: int, latency: float = 0.0, *, sse: bool = False, size: int = 0, text: str = ""
) -> Iterator[str]:
    """The URL of a fast server in a process of its own."""
    options = [str(tools), str(latency), *(["--sse"] if sse else []), "--size", str(size)]
    options += ["--text", text] if text else []
    with child([sys.executable, str(HERE / "fast_server.py"), *options]) as process:
        yield line_from(process)


class WarmClient:
    """A client that stays connected and makes calls when told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def seconds(self, times: int, *, at_once: int = 1) -> float:
        """Makes so many calls, so many of them at once; seconds of all, divided by their number."""
        assert self._process.stdin
        self._process.stdin.write(f"{times} {at_once}\n")
        self._process.stdin.flush()
        return float(line_from(self._process)) / times


@contextmanager
def warm_client(
    kind: ClientKind, url: str, *, mode: str = "warm", call: dict[str, str] | None = None
) -> Iterator[WarmClient]:
    """Starts a client and waits until it is connected and has made one call."""
    with child(kind.command(url, mode), call or CALL) as process:
        if line_from(process) != "ready":
            raise SystemExit(f"{kind.name} did not start")
        yield WarmClient(process)


def whole_process(command: list[str]) -> None:
    """Runs a process to its end, as KNIME runs every execution of a node."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=ROOT, env=ENVIRONMENT | CALL
    ) as process:
        # Waiting with a timeout would look only every 50 ms whether the process has ended.
        ending = threading.Timer(TIMEOUT, process.kill)
        ending.start()
        try:
            code = process.wait()
        finally:
            ending.cancel()
    if code:
        raise SystemExit(f"{command} ended with {code}")
