"""The node *MCP Tool Caller* over many rows under KNIME's own Python sources: its memory, and seconds.

A figure of memory means something in a process of its own only, so each number of rows has one
(`knime_caller_rows.py`); each call answers with three records, which are rows of *Records*. Without
``KNIME_PYTHON_ROOT`` and the environment of `make real-knime` the group is left out.
"""

import json
import os
from typing import Final

from processes import ROOT, child, fast_server, line_from
from timing import Row, Table

SIZES: Final = (25_000, 50_000, 100_000)
IN_FLIGHT: Final = 16
_RECORDS: Final = json.dumps(
    [
        {"id": 1, "name": "Desk", "price": 189.5, "sold": "2026-01-31"},
        {"id": 2, "name": "Chair", "price": 4.25, "sold": "2026-02-01"},
        {"id": 3, "name": "Lamp", "price": 12.0, "sold": None},
    ]
)


def measure(table: Table, *, smoke: bool, rounds: int) -> None:  # noqa: ARG001 - one run of each size is enough
    """Peak memory and seconds by the number of rows; ratios are against the smallest."""
    python = ROOT / ".venv-knime" / "bin" / "python"
    if not os.environ.get("KNIME_PYTHON_ROOT") or not python.exists():
        print("left out, needs KNIME_PYTHON_ROOT and the environment of `make real-knime`")
        return
    first: dict[str, float] = {}
    with fast_server(50, text=_RECORDS) as url:
        for rows in (200,) if smoke else SIZES:
            script = str(ROOT / "benchmarks" / "knime_caller_rows.py")
            with child([str(python), script, url, str(rows), str(IN_FLIGHT)]) as process:
                found = json.loads(line_from(process))
            assert (found["results"], found["records"]) == (rows, 3 * rows)
            measured = (
                ("the process at its highest", "MB", found["rss"]),
                ("without mapped files, first quarter", "MB", found["early"]),
                ("without mapped files, at its highest", "MB", found["peak"]),
                ("per row", "ms", found["seconds"] / rows * 1000),
            )
            for way, unit, value in measured:
                ratio = value / first.setdefault(way, value)
                table.add(Row(f"{rows:,} rows, {IN_FLIGHT} in flight", way, unit, (value,), ratio))
    table.notes.append(
        "KNIME's own sources write *Results* and *Records* (three rows per call) to disk in batches, and the"
        " journal is beside them. Ratios are against the smallest table. Before the first call, the process"
        " with KNIME's sources, pyarrow and the extension has 75 MB without mapped files."
    )
