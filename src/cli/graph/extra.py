"""Says which extra is missing when a graph command cannot be run."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, ParamSpec

from ..exits import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")

_EXTRA: Final = "graph,server"
_BROUGHT: Final = frozenset(
    {"jsonata", "regex", "opentelemetry", "mcp", "mcp_types", "anyio", "starlette", "uvicorn"}
)


def needs_graph(command: Callable[P, ExitCode]) -> Callable[P, ExitCode]:
    """Lets a command fail with what to install when a package of the extra is missing.

    Args:
        command: The command.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> ExitCode:
        try:
            return command(*args, **kwargs)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] not in _BROUGHT:
                raise
            raise CommandError(
                f"Graphs need the extra '{_EXTRA}' ({error.name} is missing)."
                f" Install it with: pip install 'knime-mcp[{_EXTRA}]'"
            ) from None

    return run
