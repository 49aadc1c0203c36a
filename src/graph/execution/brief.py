"""Runs that are over in a moment, in the thread that asks: for an event loop, a thread would cost more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ..nodes import EntryNode, ExitNode, SwitchNode, TransformNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import ToolDefinition
    from .executor import GraphExecutor, RunResult

_MILLISECONDS: Final = 5
"""A moment: as long as Python lets one thread go on before it looks at the others."""

_CALLS_PER_MOMENT: Final = 16
"""Calls that a tool is left alone for each moment it took: the next arguments may ask for less."""


class BriefRuns:
    """Runs tools that only compute, as long as they are quick. For one thread.

    What is given up has had no effect, and may be run anew.

    Args:
        executor: Runs the tools. One that is observed is left alone: what is given up would be seen.
    """

    def __init__(self, executor: GraphExecutor) -> None:
        self._executor = executor
        tools = executor.document.tools if executor.spans is None else ()
        self._pauses = {tool.name: 0 for tool in tools if _only_computes(tool)}

    def run(self, tool: str, arguments: Mapping[str, Any] | None) -> RunResult | None:
        """Runs a tool, if that is a matter of moments.

        Args:
            tool: Name of the tool.
            arguments: Its arguments, JSON.

        Returns:
            The result; None if the tool has to be run in the usual way, also to say why it fails.
        """
        pause = self._pauses.get(tool)
        if pause != 0:
            if pause is not None:
                self._pauses[tool] = pause - 1
            return None
        before = time.monotonic()
        try:
            return self._executor.run(tool, arguments, most_milliseconds=_MILLISECONDS)
        except Exception:  # nothing is swallowed: the run in the usual way meets it again, and says why
            return None
        finally:
            moments = (time.monotonic() - before) * 1000 / _MILLISECONDS
            if moments > 0.5:
                self._pauses[tool] = round(_CALLS_PER_MOMENT * moments)


def _only_computes(tool: ToolDefinition) -> bool:
    return all(isinstance(node, EntryNode | ExitNode | SwitchNode | TransformNode) for node in tool.nodes)
