"""Graphs: declarative flows of tool calls, read from a YAML document and published as MCP tools.

For programs: `McpGraphApi` loads a document and runs its tools; `Graph` is the graph of one tool;
`GraphExecutor` runs a document with calls that the caller makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .api import Graph, GraphRun, McpGraphApi
    from .document_loading import DocumentError
    from .executor import GraphExecutor, RunResult
    from .run_control import Controller, Hooks, RunError, RunStatus
    from .run_state import NodeRecord

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
    "Controller": "run_control",
    "DocumentError": "document_loading",
    "Graph": "api",
    "GraphExecutor": "executor",
    "GraphRun": "api",
    "Hooks": "run_control",
    "McpGraphApi": "api",
    "NodeRecord": "run_state",
    "RunError": "run_control",
    "RunResult": "executor",
    "RunStatus": "run_control",
}


def __getattr__(name: str) -> object:
    # Imported on first use, as checking a document does not need the modules that run it.
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
