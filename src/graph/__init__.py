"""Graphs: declarative flows of tool calls, read from a YAML document and published as MCP tools.

What programs use: `McpGraphApi` loads a document and runs its tools; `Graph` is the graph of one of them,
`GraphExecutor` runs a document with calls that somebody else makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .api import Graph, GraphRun, McpGraphApi
    from .control import Controller, Hooks, RunStatus
    from .executor import GraphExecutor, RunResult
    from .failures import RunError
    from .history import NodeRecord
    from .problems import DocumentError

__all__ = [
    "Controller",
    "DocumentError",
    "Graph",
    "GraphExecutor",
    "GraphRun",
    "Hooks",
    "McpGraphApi",
    "NodeRecord",
    "RunError",
    "RunResult",
    "RunStatus",
]

_MODULES = {
    "Controller": "control",
    "DocumentError": "problems",
    "Graph": "api",
    "GraphExecutor": "executor",
    "GraphRun": "api",
    "Hooks": "control",
    "McpGraphApi": "api",
    "NodeRecord": "history",
    "RunError": "failures",
    "RunResult": "executor",
    "RunStatus": "control",
}


def __getattr__(name: str) -> object:
    # Checking a document needs none of what runs it.
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
