"""What the record of a call costs: ``python benchmarks/audit_cost.py [--smoke]``.

The same tool is called bare through the client, with its arguments checked, recorded, and recorded into a
journal on disk, in turns, round after round, against the benchmark's own server, which answers at once.
Printed are medians per call over the rounds, the bytes of a record on disk, and how long it takes to check
the chain of the whole journal. What a way adds to the client alone holds the checks, which are no record.
"""

import sys
import tempfile
import time
from pathlib import Path

from batch import dispatcher
from processes import fast_server
from timing import Row, Table, Way, repeated

from knime_mcp.audit.dispatch import Call, Trace, recorded_call, run_call
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.verify import verify_file
from knime_mcp.tools import MCPClient
from knime_mcp.tools.session_pool import SessionPool
from knime_mcp.types.routing import ServerRoute
from knime_mcp.types.tool import MCPTool

ARGUMENTS = {"query": "how much does a record cost"}


def listed(url: str) -> MCPTool:
    """The tool, as a server lists it."""
    with MCPClient(url) as client:
        own = next(tool for tool in client.list_tools() if tool.name == "tool_00001")
    return MCPTool(own.name, own.description or "", own.input_schema, url, own.name)


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Adds the ways of calling, the size of a record and the check of a journal."""
    calls = 20 if smoke else 500
    with (
        tempfile.TemporaryDirectory() as folder,
        fast_server(50) as url,
        SessionPool(lambda route: MCPClient(route.url)) as pool,
    ):
        tool = listed(url)
        client = pool.client(ServerRoute(url))
        shared = dispatcher(pool)
        call = Call(tool=tool, arguments=ARGUMENTS)
        path = Path(folder, "journal.jsonl")
        with Journal(path, run="benchmark") as journal:
            ways = {
                "client alone": lambda: client.call_tool(tool.tool_name, ARGUMENTS),
                "arguments checked": lambda: run_call(Trace(tool=tool, arguments=ARGUMENTS), shared),
                "recorded": lambda: recorded_call(call, shared),
                "recorded, kept in a journal": lambda: journal.append(recorded_call(call, shared).record),
            }
            found = [Way(name, repeated(work, calls)) for name, work in ways.items()]
            table.compare("audit: warm call", found, rounds)
            outcome = recorded_call(call, shared)
            appended = Way("journal.append alone", repeated(lambda: journal.append(outcome.record), calls))
            table.compare("audit: per row", [appended], rounds, unit="us")
        start = time.perf_counter()
        (run,) = verify_file(path).runs
        seconds = time.perf_counter() - start
        records = sum(1 for line in path.open(encoding="utf-8") if line.strip())
        assert run is not None
        table.add(Row("audit: check of the chain, per row", "verify", "us", (1e6 * seconds / records,)))
        table.add(Row("audit: a record on disk", "journal", "bytes", (path.stat().st_size / records,)))


if __name__ == "__main__":
    measure(Table("Audit"), smoke="--smoke" in sys.argv, rounds=1 if "--smoke" in sys.argv else 9)
