"""Warm calls: clients that stay connected, beside bare httpx."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import processes
from processes import HTTPX, ClientKind, fast_server, there, warm_client
from timing import Table, Way

from tests.support import peers

KINDS = (
    HTTPX,
    processes.HTTPX_ASYNC,
    processes.OURS,
    processes.INVOKE,
    processes.AINVOKE,
    *processes.PEERS,
)
SMOKE = (*KINDS[:5], processes.SDK2, processes.SDK1, processes.ADAPTER_SESSION)  # `cold` starts the others
TURNS = 5
"""Times as many rounds of small calls, a fifth as long: the machine's speed changes from second to second."""
SLOW = (processes.ADAPTER,)  # opens a connection for every call
ECHO = {"BENCH_TOOL": "echo", "BENCH_ARGUMENTS": json.dumps({"text": "knime"})}


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """All kinds of replies from the fast server, and one from a server on the official SDK."""
    for sse in (False, True):
        for size in (0, 1_000_000):
            title = f"call, {'SSE' if sse else 'JSON'}, {'1 MB' if size else 'small'}"
            calls, turns = (3, 1) if smoke else (20, 1) if size else (60, TURNS)
            with fast_server(50, sse=sse, size=size) as url:
                # Starting clients is what takes time: when smoke is looked for, each is started once.
                few = smoke and (sse or size > 0)
                kinds = (HTTPX, processes.OURS) if few else SMOKE if smoke else KINDS
                _compare(table, title, url, kinds, calls, rounds * turns)
    if processes.SDK2.is_there:
        with sdk_server() as url:
            kinds = (HTTPX, processes.OURS) if smoke else KINDS
            _compare(table, "call, server on the SDK 2.x", url, kinds, 3 if smoke else 100, rounds, ECHO)
    table.notes.append("Ratios are against bare httpx.")


@contextmanager
def sdk_server() -> Iterator[str]:
    """The URL of a server on the official SDK, which replies in JSON and keeps no sessions."""
    with peers.running(peers.mcp2()) as server:
        yield server.url("/stateless-json")


def _compare(
    table: Table,
    title: str,
    url: str,
    kinds: tuple[ClientKind, ...],
    calls: int,
    rounds: int,
    call: dict[str, str] | None = None,
) -> None:
    with ExitStack() as stack:
        ways = [_way(kind, stack, url, calls, call) for kind in there(kinds)]
        table.compare(title, ways, rounds)


def _way(kind: ClientKind, stack: ExitStack, url: str, calls: int, call: dict[str, str] | None) -> Way:
    client = stack.enter_context(warm_client(kind, url, call=call))
    times = max(calls // 10, 1) if kind in SLOW else calls
    return Way(kind.name, lambda: client.seconds(times))
