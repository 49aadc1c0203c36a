"""Says which extra is missing when a command cannot be run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from .exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def needs(what: str, extras: str, *packages: str) -> Generator[None]:
    """Fails with what to install when a package that an extra brings is missing.

    Args:
        what: What cannot be run without it, such as ``Graphs need``.
        extras: The extras, as ``pip`` takes them.
        *packages: What they bring.

    Raises:
        CommandError: One of the packages is missing.
    """
    try:
        yield
    except Exception as error:
        missing = _module_in(error)
        if missing is None or missing.split(".")[0] not in packages:
            raise
        several = "s" if "," in extras else ""
        raise CommandError(
            f"{what} the extra{several} '{extras}' ({missing} is missing)."
            f" Install it with: pip install 'knime-mcp[cli,{extras}]'"
        ) from None


def _module_in(error: Exception) -> str | None:
    """The module that is missing; a server loads some while it serves, in a group of tasks."""
    if isinstance(error, ExceptionGroup):
        return _module_in(cast("ExceptionGroup[Exception]", error).exceptions[0])
    return error.name if isinstance(error, ModuleNotFoundError) else None


_SERVER = ("mcp", "mcp_types", "anyio", "starlette", "uvicorn")
# Decorators of commands.
needs_server = needs("The server needs", "server", *_SERVER)
needs_graph = needs("Graphs need", "server,graph", "jsonata", "regex", "opentelemetry", *_SERVER)
needs_gateway = needs(
    "The gateway needs", "gateway", "fastapi", "jinja2", "prometheus_client", "opentelemetry", *_SERVER
)
