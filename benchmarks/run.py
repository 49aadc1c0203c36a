"""What things cost, beside the same thing done without us and by others, in one run: `make bench`.

Each group adds its lines to a table; all together become `RESULTS.md`. Nothing is asserted about time.
`--smoke` only shows that everything runs, leaves out peers that were not built, and writes nothing.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import agent_loop
import agent_tools
import audit_cost
import batch
import cold
import columns
import node_search
import replay_rate
import warm
from processes import HERE, PEERS, build_peers
from timing import Row, Table, Way

import graph
from knime_mcp.knowledge.building.build import build_catalogue
from knime_mcp.knowledge.catalogue import Catalogue
from knime_mcp.knowledge.service import NodeKnowledgeMCPService

PACKAGES = ("httpx", "pyarrow", "langchain-core", "orjson")
PEER_PACKAGES = ("mcp", "fastmcp-slim", "langchain-mcp-adapters")


def graphs(table: Table, *, smoke: bool, rounds: int) -> None:
    """Small calls and loops, beside npm's mcpgraph."""
    commands = {"ours": [sys.executable, "-m", "knime_mcp.cli.mcpgraph"]}
    if build_peers.is_fresh("graph-node"):
        program = build_peers.node_package("mcpgraph", "graph-node") / "dist" / "main.js"
        commands["npm mcpgraph"] = [str(build_peers.node()), str(program)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "graph.yaml")
        file.write_text(graph.DOCUMENT, encoding="utf-8")
        for _ in range(min(rounds, 3)):
            for name, command in commands.items():
                calls, loops = (5, (50,)) if smoke else (300, graph.LOOPS)
                whole = [*command, "-g", str(file)]
                found[name].append(asyncio.run(graph.measure(whole, calls, loops)))
    for what in found["ours"][0]:
        reference = [one[what] for one in found["ours"]]
        for name, rows in found.items():
            values = tuple(one[what] for one in rows)
            ratio = sorted(own / ours for own, ours in zip(values, reference, strict=True))[len(values) // 2]
            table.add(Row(f"graph: {what}", name, "ms", values, ratio))


def nodes(table: Table, *, smoke: bool, rounds: int) -> None:
    """Node knowledge, in process."""
    count, calls = (200, 5) if smoke else (5_000, 200)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "nodes.sqlite")
        report = build_catalogue(file, extensions=node_search.made_up(count))
        table.add(Row(f"{count:,} nodes", "build of the catalogue", "s", (report.seconds,)))
        with Catalogue(file) as catalogue:
            service = NodeKnowledgeMCPService(catalogue)
            with catalogue.reading() as reader:
                ids = [entry.id for entry in reader.summaries()]
            for title, listed in node_search.workload(ids, calls).items():
                each = Way(title, partial(_workload, service, listed))
                table.compare(f"{count:,} nodes", [each], min(rounds, 3))


def _workload(service: NodeKnowledgeMCPService, listed: list[tuple[str, dict]]) -> float:
    start = time.perf_counter()
    for call in listed:
        service.invoke_tool(*call)
    return (time.perf_counter() - start) / len(listed)


GROUPS: dict[str, tuple[str, Callable[..., None]]] = {
    "warm": ("Warm calls", warm.measure),
    "cold": ("Fresh processes and listings", cold.measure),
    "batch": ("Batches", batch.measure),
    "columns": ("Tool columns", columns.measure),
    "agent-tools": ("Agent: tools", agent_tools.measure),
    "agent-loop": ("Agent: loop", agent_loop.measure),
    "audit": ("Audit", audit_cost.measure),
    "replay": ("Replay", replay_rate.measure),
    "graph": ("Graphs", graphs),
    "nodes": ("Node knowledge", nodes),
}


def machine() -> list[str]:
    """Where and with what."""
    model = platform.processor() or platform.machine()
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        names = [
            line.partition(":")[2].strip() for line in cpu.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    lines = [
        f"- Machine: {os.cpu_count()} processors ({model}), {platform.system()} {platform.release()},"
        f" load {load} at the start; Python {platform.python_version()}",
        "- Ours: " + ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    ]
    code = (
        "import importlib.metadata as m, json;"
        "print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))"
    )
    for environment in dict.fromkeys(kind.environment for kind in PEERS if kind.is_there):
        python = build_peers.python(str(environment))
        found = json.loads(subprocess.run([python, "-c", code], capture_output=True, check=True).stdout)
        names = [f"{name} {found[name]}" for name in PEER_PACKAGES if name in found]
        lines.append(f"- Peers, {environment}: " + ", ".join(names))
    if build_peers.is_fresh("graph-node"):
        package = build_peers.node_package("mcpgraph", "graph-node") / "package.json"
        lines.append(f"- Peers, npm: mcpgraph {json.loads(package.read_text('utf-8'))['version']}")
    return lines


def main() -> None:
    """Measures what is chosen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="small counts: shows only that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this one; may be repeated")
    parser.add_argument("--out", type=Path, help=f"default: {HERE.name}/RESULTS.md for a full run")
    options = parser.parse_args()
    about = machine()
    tables: list[Table] = []
    for name in options.group or GROUPS:
        title, measure = GROUPS[name]
        print(f"\n{title}", flush=True)
        table, start = Table(title), time.perf_counter()
        measure(table, smoke=options.smoke, rounds=1 if options.smoke else options.rounds)
        print(f"{time.perf_counter() - start:.0f} s")
        tables.append(table)
    full = not options.smoke and not options.group
    out = options.out or (HERE / "RESULTS.md" if full else None)
    if out is not None:
        head = [
            "# What things cost",
            "",
            "Written by `make bench`. Medians over rounds in which all ways take",
        ]
        head += ["turns; a ratio is the median of the ratios within the rounds.", "", *about, ""]
        out.write_text("\n".join([*head, *(table.markdown() for table in tables)]), encoding="utf-8")
        print(f"written to {out}")


if __name__ == "__main__":
    main()
