"""What the record of a call costs: ``python benchmarks/audit_cost.py [--smoke]``.

The same tool is called bare through the client, with its arguments checked, recorded, and recorded into a
journal on disk, in turns with bare httpx, round after round: against the benchmark's own server, which
answers at once, and against one on the official SDK. Printed are medians per call over the rounds, the bytes
of a record on disk, and how long it takes to check the chain of the whole journal. What the record costs is
what recording and the journal add to a call whose arguments are checked, and of which nothing is recorded,
not even while its server is busy. The tool declares nothing, so that each of its calls has a line *sent*; the
same calls of a tool that only reads have none.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import processes
import warm
from batch import run_of
from budgets import READS, SIGNED
from processes import HTTPX, fast_server, warm_client
from timing import Row, Table, Way, repeated

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.journal_reading import SentCall
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.audit.signatures import Sealer, add_key
from knime_mcp.audit.verify import verify_file
from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import check_call, send_to_tool
from knime_mcp.runs.engine import CallInProgress, Run, RunRecords
from knime_mcp.tools import MCPClient
from knime_mcp.types.routing import ServerRoute
from knime_mcp.types.tool import MCPTool

TOOL = "tool_00001"
ARGUMENTS = {"query": "how much does a record cost"}
CREDENTIAL = "tok-4f9d2c71ab83e6"
"""Looked for, in all its spellings, in arguments and answer."""
CALLS = 20
MANY = 30
"""Rounds of few calls each: a record costs less than calls differ from second to second."""


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Adds the ways of calling, the size of a record and the check of a journal."""
    calls, rounds = (20, rounds) if smoke else (CALLS, rounds * MANY)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with fast_server(50) as url:
            _calls(table, "audit: warm call", url, TOOL, ARGUMENTS, folder / "fast.jsonl", calls, rounds)
        if processes.SDK2.is_there:
            with warm.sdk_server() as url:
                title = "audit: call, server on the SDK 2.x"
                arguments = {"text": ARGUMENTS["query"]}
                _calls(table, title, url, "echo", arguments, folder / "sdk.jsonl", calls, rounds // 2 or 1)
        table.notes.append("Bare httpx runs in a process of its own, and records nothing.")
        _journal(table, folder / "fast.jsonl")


def _calls(
    table: Table,
    title: str,
    url: str,
    name: str,
    arguments: dict[str, str],
    path: Path,
    calls: int,
    rounds: int,
) -> None:
    environment = {"BENCH_TOOL": name, "BENCH_ARGUMENTS": json.dumps(arguments)}
    with SessionPool(lambda _: MCPClient(url)) as pool, warm_client(HTTPX, url, call=environment) as bare:
        client = pool.client(ServerRoute(url))
        own = next(tool for tool in client.list_tools() if tool.name == name)
        tool = MCPTool(own.name, own.description or "", own.input_schema, url, own.name)
        shared = run_of(pool)
        call = PlannedCall(tool=tool, arguments=arguments)
        reads = PlannedCall(tool=replace(tool, annotations={"readOnlyHint": True}), arguments=arguments)
        keys = path.with_suffix(".keys")
        add_key(keys, "benchmark", "", keyring=False)
        with _journals(path, keys) as (journal, signed_journal):
            kept = replace(shared, records=RunRecords(journal))
            sealed = replace(shared, records=RunRecords(signed_journal))
            hiding = replace(shared, secrets=SecretMarker([CREDENTIAL]))
            ways = {
                "client alone": lambda: client.call_tool(name, arguments),
                "arguments checked": lambda: checked_and_sent(call, shared),
                "recorded": lambda: shared.call(call),
                "recorded, with a credential": lambda: hiding.call(call),
                READS: lambda: kept.call(reads),
                "recorded, kept in a journal": lambda: kept.call(call),
                SIGNED: lambda: sealed.call(call),
            }
            own_ways = [Way(way, repeated(work, calls)) for way, work in ways.items()]
            table.compare(title, [*own_ways, Way(HTTPX.name, lambda: bare.seconds(calls))], rounds)
            record = shared.call(call).record
            appended = Way("journal.append alone", repeated(lambda: journal.append(record), calls))
            line = SentCall(key="0" * 32, plan="0" * 64, tool_name=name)
            sent = Way("journal.sent alone", repeated(lambda: journal.sent(line), calls))
            sealer = Sealer.of(keys, None)
            signed = Way("a signature, of 1,000 calls", repeated(lambda: sealer.note(9, "0" * 64, ""), calls))
            table.compare(f"{title}: per row", [appended, sent, signed], rounds, unit="us")


@contextmanager
def _journals(path: Path, keys: Path) -> Iterator[tuple[Journal, Journal]]:
    """A journal, and one that is signed; neither is forced to the disk."""
    os.environ.update({"KNIME_MCP_AUDIT_KEYS": str(keys), "KNIME_MCP_AUDIT_FSYNC": "never"})
    with Journal(path.with_suffix(".signed.jsonl"), run="benchmark") as signed:
        os.environ["KNIME_MCP_AUDIT_KEYS"] = str(path.with_suffix(".no-keys"))
        with Journal(path, run="benchmark") as journal:
            yield journal, signed


class UnrecordedCall(CallInProgress):
    """A call of which nothing is recorded."""

    __slots__ = ()

    def prepare(self) -> None: ...


def checked_and_sent(plan: PlannedCall, run: Run) -> None:
    call = UnrecordedCall(plan, run)
    check_call(call)
    send_to_tool(call)


def _journal(table: Table, path: Path) -> None:
    start = time.perf_counter()
    (run,) = verify_file(path).runs
    seconds = time.perf_counter() - start
    records = sum(1 for line in path.open(encoding="utf-8") if line.strip())
    assert run is not None
    table.add(Row("audit: check of the chain, per row", "verify", "us", (1e6 * seconds / records,)))
    table.add(Row("audit: a record on disk", "journal", "bytes", (path.stat().st_size / records,)))


if __name__ == "__main__":
    measure(Table("Audit"), smoke="--smoke" in sys.argv, rounds=1 if "--smoke" in sys.argv else 9)
