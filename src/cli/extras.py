"""Checks that a command's extra is installed; the error says how to install it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from .exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Generator

_CLONE: Final = Path(__file__).resolve().parents[2]


def how_to_install(extras: str) -> str:
    """The sentence that says how to install extras, as ``pip`` takes them; no package index has this one."""
    if (_CLONE / "pyproject.toml").is_file():
        return f"Install it with: pip install -e '{_CLONE}[{extras}]'"
    return (
        f"Install it with: pip install 'PATH[{extras}]', where PATH is the clone or the wheel that knime-mcp"
        " was installed from"
    )


def missing_extra(what: str, extras: str, package: str) -> CommandError:
    """The error of a command that needs a package that is not there.

    Args:
        what: What cannot be run without it, such as ``Graphs need``.
        extras: The extras that bring it, as ``pip`` takes them.
        package: The package.
    """
    several = "s" if "," in extras else ""
    return CommandError(
        f"{what} the extra{several} '{extras}' ({package} is missing). {how_to_install(f'cli,{extras}')}"
    )


@contextmanager
def needs(what: str, extras: str, *packages: str) -> Generator[None]:
    """Fails with what to install when a package that an extra brings is missing.

    Args:
        what: See `missing_extra`.
        extras: See `missing_extra`.
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
        raise missing_extra(what, extras, missing) from None


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
