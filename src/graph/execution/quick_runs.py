"""Runs short tools in the event loop's thread: for a few milliseconds, another thread would cost more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ..nodes import EntryNode, ExitNode, SwitchNode, TransformNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import ToolDefinition
    from .executor import GraphExecutor, RunResult

_MOST_MILLISECONDS: Final = 5
"""Maximum time of such a run: Python's own interval for switching threads."""

_PAUSE: Final = 16
"""Number of calls without another try, for each `_MOST_MILLISECONDS` that the tool took."""


class QuickRuns:
    """Tries to run tools that only compute, and gives up if they take long. For one thread.

    A run that is given up has had no effects, so that it can be repeated in another thread.

    Args:
        executor: Runs the tools. With spans no tool is tried, as they would show runs that were given up.
    """

    def __init__(self, executor: GraphExecutor) -> None:
        self._executor = executor
        tools = executor.document.tools if executor.spans is None else ()
        self._pauses = {tool.name: 0 for tool in tools if _only_computes(tool)}

    def run(self, tool: str, arguments: Mapping[str, Any] | None) -> RunResult | None:
        """Runs a tool if it is quick.

        Args:
            tool: Name of the tool.
            arguments: Its arguments, JSON.

        Returns:
            The result. None if the tool was not tried, took too long, or failed.
        """
        pause = self._pauses.get(tool)
        if pause != 0:
            if pause is not None:
                self._pauses[tool] = pause - 1
            return None
        before = time.monotonic()
        try:
            return self._executor.run(tool, arguments, most_milliseconds=_MOST_MILLISECONDS)
        except Exception:  # the run in another thread reports the error
            return None
        finally:
            share = (time.monotonic() - before) * 1000 / _MOST_MILLISECONDS
            if share > 0.5:
                self._pauses[tool] = round(_PAUSE * share)


def _only_computes(tool: ToolDefinition) -> bool:
    return all(isinstance(node, EntryNode | ExitNode | SwitchNode | TransformNode) for node in tool.nodes)
