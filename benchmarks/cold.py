"""Fresh processes, because KNIME starts one for every execution of a node; and listings of many tools."""

import sys
from contextlib import ExitStack

import processes
from processes import (
    HERE,
    HTTPX,
    OURS,
    PEERS,
    child,
    fast_server,
    line_from,
    there,
    warm_client,
    whole_process,
)
from timing import Table, Way, repeated

from tests.peers import build_peers

IMPORTS = {
    "import httpx": (None, "import httpx"),
    "import of our client": (None, "from knime_mcp.tools import MCPClient"),
    "bare Python": (None, "pass"),
    "import of the agent with its model": (
        None,
        "import knime_mcp.agents.prompter.prompter, knime_mcp.agents.model.openai_model",
    ),
    "import of the official SDK 2.x": ("mcp2", "from mcp.client import Client"),
    "import of the official SDK 1.x": ("mcp1", "import mcp.client.streamable_http"),
    "import of fastmcp 4": ("mcp2", "from fastmcp import Client"),
    "import of LangChain's adapter": ("adapter", "import langchain_mcp_adapters.client"),
}
NODES = {"mcp_tool_caller": "MCP Tool Caller, one call", "mcp_tool_provider": "MCP Tool Provider, 50 tools"}
COMMANDS = {"knime-mcp --version": ["--version"], "knime-mcp --help": ["--help"]}


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Whole processes, imports, and warm listings."""
    kinds = [kind for kind in there((HTTPX, OURS, *PEERS)) if kind is not processes.ADAPTER_SESSION]
    if smoke:  # `warm` starts the others
        kinds = [kind for kind in kinds if kind not in {processes.SDK1, processes.SDK2}]
    for count in (2000,) if smoke else (50, 2000):
        with fast_server(count) as url:
            ways = [
                Way(kind.name, repeated(lambda kind=kind: whole_process(kind.command(url, "cold"))))
                for kind in kinds
            ]
            table.compare(f"process: connect, list {count:,}, call", ways, rounds)
    with fast_server(2000) as url, ExitStack() as stack:
        ways = []
        for kind in kinds[:2] if smoke else kinds:
            client = stack.enter_context(warm_client(kind, url, mode="list"))
            ways.append(Way(kind.name, lambda client=client: client.seconds(1 if smoke else 3)))
        table.compare("list 2,000 tools, connected", ways, rounds)
    imports = [name for name in IMPORTS if _is_there(name)][: 3 if smoke else None]
    table.compare("process: import", [_import(name) for name in imports], rounds)
    program = [sys.executable, "-m", "knime_mcp.cli.app"]
    with fast_server(50) as url:
        commands = {**COMMANDS, "knime-mcp list": ["list", url]}
        ways = [Way("import httpx", _import("import httpx").work)]
        ways += [
            Way(name, repeated(lambda rest=rest: whole_process([*program, *rest])))
            for name, rest in commands.items()
        ]
        table.compare("process: command", ways, rounds)
        nodes = [Way(name, lambda node=node: _first_execute(node, url)) for node, name in NODES.items()]
        table.compare("first execution of a node, CPU", nodes, rounds)


def _first_execute(node: str, url: str) -> float:
    with child([sys.executable, str(HERE / "first_execute.py"), node, url]) as process:
        return float(line_from(process))


def _is_there(name: str) -> bool:
    environment = IMPORTS[name][0]
    return environment is None or build_peers.is_fresh(environment)


def _import(name: str) -> Way:
    environment, code = IMPORTS[name]
    python = sys.executable if environment is None else str(build_peers.python(environment))
    return Way(name, repeated(lambda: whole_process([python, "-c", code])))
