"""Graphs: declarative flows of tool calls, read from a YAML document and published as MCP tools.

For programs: `McpGraphApi` loads a document and runs its tools; `Graph` is the graph of one tool;
`GraphExecutor` runs a document with calls that the caller makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .api import Graph, GraphRun, McpGraphApi
    from .documents.yaml_source import DocumentError
    from .execution.control import Controller, Hooks, RunStatus
    from .execution.executor import GraphExecutor, RunResult
    from .execution.failures import RunError
    from .execution.history import NodeRecord

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
    "Controller": "execution.control",
    "DocumentError": "documents.yaml_source",
    "Graph": "api",
    "GraphExecutor": "execution.executor",
    "GraphRun": "api",
    "Hooks": "execution.control",
    "McpGraphApi": "api",
    "NodeRecord": "execution.history",
    "RunError": "execution.failures",
    "RunResult": "execution.executor",
    "RunStatus": "execution.control",
}


def __getattr__(name: str) -> object:
    # Imported on first use, as checking a document does not need the modules that run it.
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
