"""The node *MCP Tool Caller* under KNIME's own Python sources, over many rows: time and memory.

``KNIME_PYTHON_ROOT=… .venv-knime/bin/python benchmarks/knime_caller_rows.py URL ROWS IN_FLIGHT`` calls a tool
once per row, in a process of its own, and prints a line of JSON. KNIME's sources write tables to disk in
batches, as in KNIME; what stays in memory is the node's.
"""

import json
import logging
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import pyarrow as pa  # noqa: E402

from tests.support.host import get_host  # noqa: E402

EVERY = 0.25


def megabytes(key: str) -> float:
    """A figure of the process's memory: VmRSS, RssAnon (without mapped files), VmHWM (the highest VmRSS)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def main() -> None:
    """One run of the node."""
    url, rows, in_flight = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    host = get_host()
    # The tests' rig keeps a list of what is logged and of each progress, and reads the tables afterwards.
    logging.disable(logging.INFO)
    host.rig.JavaContext.set_progress = lambda *_: None
    from knime_mcp.runs.result_records import RecordsCollector  # after the extension, as KNIME loads it first

    table = host.table(pa.table({"query": [f"row {row}" for row in range(rows)]}))
    settings = {
        "server_url": url,
        "tool_name": "tool_00001",
        "connection_options": f"concurrency = {in_flight}",
    }
    anonymous, is_over = [megabytes("RssAnon")], threading.Event()

    def watch() -> None:
        while not is_over.wait(EVERY):
            anonymous.append(megabytes("RssAnon"))

    ended = RecordsCollector.__exit__

    def end(*arguments: object) -> None:
        anonymous.append(megabytes("RssAnon"))
        highest.append(megabytes("VmHWM"))
        is_over.set()
        ended(*arguments)

    RecordsCollector.__exit__ = end
    highest: list[float] = []
    watcher = threading.Thread(target=watch)
    watcher.start()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        result = host.run("mcp_tool_caller", [None, table, None], settings, workflow_dir=folder)
        seconds = time.perf_counter() - start
        is_over.set()
        watcher.join()
        assert result.ok, result.failure
        found = {
            "seconds": seconds,
            "before": anonymous[0],
            "early": max(anonymous[: len(anonymous) // 4]),
            "peak": max(anonymous),
            "rss": highest[0],
            "results": result.outputs[0].arrow.num_rows,
            "records": result.outputs[1].arrow.num_rows,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
