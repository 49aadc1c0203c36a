"""Where a run took place, when, and with what."""

import datetime
import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from processes import PEERS, build_peers

PACKAGES = ("httpx", "pyarrow", "langchain-core", "orjson")
PEER_PACKAGES = ("mcp", "fastmcp-slim", "langchain-mcp-adapters")


def about() -> list[str]:
    """Lines of the page, as things are before the run."""
    model = platform.processor() or platform.machine()
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        names = [
            line.partition(":")[2].strip() for line in cpu.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    now = datetime.datetime.now(datetime.UTC)
    lines = [
        f"- Date: {now:%Y-%m-%d %H:%M} UTC",
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
