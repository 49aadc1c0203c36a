"""Checks that a command's extra is installed; the error says how to install it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from .errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Generator

_CLONE: Final = Path(__file__).resolve().parents[2]


def how_to_install(extras: str) -> str:
    """The sentence that explains how to install extras with ``pip``; this package is not in an index."""
    if (_CLONE / "pyproject.toml").is_file():
        return f"Install it with: pip install -e '{_CLONE}[{extras}]'"
    return (
        f"Install it with: pip install 'PATH[{extras}]', where PATH is the clone or the wheel that knime-mcp"
        " was installed from"
    )


def missing_extra(what: str, extras: str, package: str) -> CommandError:
    """The error of a command that needs a missing package.

    Args:
        what: Beginning of the message, such as ``Graphs need``.
        extras: The extras that contain the package, in ``pip``'s syntax.
        package: The package.
    """
    several = "s" if "," in extras else ""
    return CommandError(
        f"{what} the extra{several} '{extras}' ({package} is missing). {how_to_install(f'cli,{extras}')}"
    )


@contextmanager
def needs(what: str, extras: str, *packages: str) -> Generator[None]:
    """Turns the ImportError for an extra's package into an error that explains how to install it.

    Args:
        what: See `missing_extra`.
        extras: See `missing_extra`.
        *packages: The packages of the extras.

    Raises:
        CommandError: One of the packages is missing.
    """
    try:
        yield
    except Exception as error:
        missing = _module_in(error)
        if missing is None or missing.split(".")[0] not in packages:
            raise
        raise missing_extra(what, extras, missing) from None


def _module_in(error: Exception) -> str | None:
    """The missing module; servers import some modules late, so the error may be in a group of tasks."""
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
