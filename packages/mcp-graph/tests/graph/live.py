"""Graph servers as processes of their own, and clients of them."""

import asyncio
import json
import os
import re
import signal
import subprocess
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from knime_mcp.client.mcp_client import MCPClient, StdioServer
from tests.graph.forked_program import started
from tests.graph.graphs import ENTRY, EXIT, FIXTURE, SERVER, call, tool, yaml
from tests.support import commands
from tests.support.peers import OWN_CODE

PROGRAM = commands.words_of("mcpgraph")
SERVE = [*PROGRAM, "serve"]
DEADLINE = 100
ERAS = ["legacy", "2026-07-28"]
REVISIONS = ["2025-11-25", "2026-07-28"]


def environment():
    """Ours, without what sends spans elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}


def run(coroutine):
    """Runs a test's coroutine, within the deadline."""
    return asyncio.run(asyncio.wait_for(coroutine, DEADLINE))


def graph_file(folder, *nodes, more="", servers=SERVER, **options):
    """A document with one tool, called t, whose first node is called x."""
    file = folder / "graph.yaml"
    file.write_text(yaml(tool(ENTRY, *nodes, EXIT, **options), more=more, servers=servers))
    return file


def waiting_file(folder, **options):
    """A document whose tool waits for a file; gives it, a file that says so, and the one it waits for."""
    begun, let_go = folder / "begun", folder / "let go"
    arguments = f"{{begun: {str(begun)!r}, until: {str(let_go)!r}}}"
    nodes = (call("count", following="y"), call("hold", arguments, node="y"))
    return graph_file(folder, *nodes, **options), begun, let_go


@asynccontextmanager
async def client_of(argv, *, mode="legacy", **options):
    """The official client, on a server that it starts itself."""
    command, *arguments = commands.relayed(argv)
    parameters = StdioServerParameters(command=command, args=arguments, env=environment())
    with Path(os.devnull).open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=mode, **options) as client:
            yield client


@asynccontextmanager
async def streams(lines, out):
    """The streams of the official client, over two pipes."""
    to_client, reader = anyio.create_memory_object_stream(0)
    writer, from_client = anyio.create_memory_object_stream(0)

    async def read():
        async with to_client:
            while line := await anyio.to_thread.run_sync(lines.readline):
                await to_client.send(
                    SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                )
        lines.close()

    async def write():
        with out:
            async for item in from_client:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await anyio.to_thread.run_sync(out.write, f"{text}\n".encode())

    async with reader, from_client, anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        async with writer:
            yield reader, writer


@asynccontextmanager
async def client_of_fork(arguments, log):
    """The official client, on a forked ``mcpgraph``, which ends well."""
    with started(arguments, log) as (process, out, into):
        lines = os.fdopen(os.dup(into.fileno()), "rb"), os.fdopen(os.dup(out.fileno()), "wb", buffering=0)
        into.close()
        out.close()
        async with Client(streams(*lines), mode="legacy") as client:
            yield client
        await asyncio.to_thread(process.join, DEADLINE)
        assert process.exitcode == 0, log.read_text()


def command(*arguments, timeout=DEADLINE, program=PROGRAM):
    """Runs a command of mcpgraph, or of another program, to its end."""
    return commands.run(
        [*program, *map(str, arguments)],
        env=environment(), capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


class Served:
    """A server's process, with all that it printed on standard error."""

    def __init__(self, argv, folder=None, **variables):
        self.process = commands.Popen(
            [*map(str, argv)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment() | variables,
        )
        self.said = []
        self._ended = False
        self._heard = threading.Condition()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self):
        for line in self.process.stderr:
            with self._heard:
                self.said.append(line)
                self._heard.notify_all()
        with self._heard:
            self._ended = True
            self._heard.notify_all()

    def line(self, pattern):
        """Waits for a line on standard error."""

        def found():
            return next((match for match in map(re.compile(pattern).search, self.said) if match), None)

        with self._heard:
            self._heard.wait_for(lambda: found() or self._ended, DEADLINE)
        match = found()
        assert match is not None, "".join(self.said)
        return match

    @property
    def url(self):
        """Where it serves over HTTP."""
        return self.line(r"Serving at (http\S+)")[1]

    def greet(self):
        """The handshake, over standard input and output."""
        client = {"name": "t", "version": "1"}
        return self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)

    def ask(self, method, number=1, **params):
        """Sends a request over standard input, and gives the next line that is answered."""
        self.send(method, number, **params)
        return json.loads(self.process.stdout.readline())

    def send(self, method, number=1, **params):
        """Sends a request over standard input."""
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def end(self, how="stdin"):
        """Ends it: a signal's name, or ``stdin``. Gives its exit code."""
        if how == "stdin":
            self.process.stdin.close()
        else:
            self.process.send_signal(getattr(signal, how))
        return self.process.wait(40)

    def close(self):
        """Whatever happened: it is gone afterwards."""
        self.process.kill()
        self.process.wait()
        self._listener.join(DEADLINE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(BrokenPipeError):
                pipe.close()


@contextmanager
def served(*argv, folder=None, **variables):
    """A server with these environment variables, in a folder, for the duration of the block."""
    server = Served(argv, folder, **variables)
    watchdog = threading.Timer(DEADLINE, server.process.kill)
    watchdog.start()
    try:
        yield server
    finally:
        watchdog.cancel()
        server.close()


@asynccontextmanager
async def official_client(file, transport, mode):
    """The official client, on a server that is started for it."""
    if transport == "stdio":
        async with client_of([*SERVE, file], mode=mode) as client:
            yield client
    else:
        with served(*SERVE, file, "--http", "0") as server:
            async with Client(server.url, mode=mode) as client:
                yield client


@contextmanager
def connected(file, transport, revision):
    """The project's own client, on a server that is started for it."""
    if transport == "stdio":
        server = StdioServer(name="graph", command=commands.relayed([*SERVE, file]), env=OWN_CODE)
        with MCPClient(stdio=server, protocol_version=revision) as client:
            yield client
    else:
        with (
            served(*SERVE, file, "--http", "0") as server,
            MCPClient(server.url, protocol_version=revision) as client,
        ):
            yield client


def is_alive(pid):
    """Whether a process exists; one that is only not waited for does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid):
    """The fixture's processes that a process has started, directly."""
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            arguments = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if str(FIXTURE).encode() in arguments:
                found.append(int(child))
    return found
