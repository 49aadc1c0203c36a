"""Connects to an existing Dask cluster, and checks that its workers can make calls."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..runs.worker_side import installed_version
from ..version import VERSION
from .command_errors import CommandError, needs

if TYPE_CHECKING:
    from collections.abc import Generator

    from distributed import Client

_CONNECT_SECONDS = 10


@contextmanager
def dask_client(address: str, *, tls: bool = False) -> Generator[Client]:
    """Connects to the scheduler of a cluster.

    Args:
        address: Host and port.
        tls: Whether the cluster uses TLS; the certificates come from Dask's configuration.

    Yields:
        The client, whose cluster has workers with this version of knime-mcp.

    Raises:
        CommandError: There is no such cluster, or its workers cannot make calls.
    """
    with needs("A Dask cluster needs", "dask", "distributed"):
        from distributed import Client
    try:
        scheme = "tls" if tls else "tcp"
        client = Client(
            f"{scheme}://{address}", timeout=_CONNECT_SECONDS, set_as_default=False, name="knime-mcp"
        )
    except (OSError, TimeoutError, TypeError) as error:  # TypeError: TLS without certificates
        raise CommandError(
            f"No Dask scheduler answers at {address} ({type(error).__name__}). Check the address: it is the"
            " one that workers connect to."
        ) from None
    with client:
        _check(client, address)
        yield client


def _check(client: Client, address: str) -> None:
    versions = client.run(installed_version, on_error="return")
    if not versions:
        raise CommandError(f"The Dask cluster at {address} has no workers. Start some.")
    for worker, version in versions.items():
        if version != VERSION:
            has = version if isinstance(version, str) else f"none that can be loaded ({_named(version)})"
            raise CommandError(
                f"The Dask worker {worker} has knime-mcp {has}, but this is {VERSION}. Install the same one"
                " there."
            )


def _named(error: object) -> str:
    return f"no module {error.name}" if isinstance(error, ImportError) else type(error).__name__
