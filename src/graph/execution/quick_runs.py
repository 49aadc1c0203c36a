"""Runs short tools in the calling thread: handing them to another thread costs an event loop more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ..nodes import EntryNode, ExitNode, SwitchNode, TransformNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import ToolDefinition
    from .executor import GraphExecutor, RunResult

_MOST_MILLISECONDS: Final = 5
"""Longest time of such a run: Python itself lets a thread go on for so long before it switches."""

_PAUSE: Final = 16
"""Calls for which a tool is not tried again, for each `_MOST_MILLISECONDS` that it took."""


class QuickRuns:
    """Tries tools that only compute, and gives up those that take long. For one thread.

    A run that is given up has had no effect, so it can be repeated in another thread.

    Args:
        executor: Runs the tools. With spans nothing is tried: they would show runs that are given up.
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
            The result. None if there is none yet: the tool was not tried, took too long, or failed.
        """
        pause = self._pauses.get(tool)
        if pause != 0:
            if pause is not None:
                self._pauses[tool] = pause - 1
            return None
        before = time.monotonic()
        try:
            return self._executor.run(tool, arguments, most_milliseconds=_MOST_MILLISECONDS)
        except Exception:  # the run in another thread fails as well, and says why
            return None
        finally:
            share = (time.monotonic() - before) * 1000 / _MOST_MILLISECONDS
            if share > 0.5:
                self._pauses[tool] = round(_PAUSE * share)


def _only_computes(tool: ToolDefinition) -> bool:
    return all(isinstance(node, EntryNode | ExitNode | SwitchNode | TransformNode) for node in tool.nodes)
