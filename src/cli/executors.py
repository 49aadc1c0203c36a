"""``--executor``: threads or Dask workers that make the calls of a batch or a replay."""

from __future__ import annotations

import dataclasses
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..types.errors import SettingInvalid
from ..version import VERSION
from .command_errors import CommandError, Interrupt, UsageError, needs

if TYPE_CHECKING:
    from collections.abc import Generator

    from distributed import Client

    from ..runs.engine import Run
    from ..types.routing import ServerRoute
    from .connection_options import ConnectionOptions

ExecutorOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="threads|dask://HOST:PORT",
        help="Who makes the calls: threads of this process, or the workers of a Dask cluster. Workers look"
        " credentials up where they run: in the same environment variables, or in their keyring.",
        rich_help_panel="Where calls run",
    ),
]
Concurrency: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        help="How many calls may run at the same time: 4 by default, with Dask as many as the workers have"
        " room for.",
        show_default=False,
    ),
]

_THREADS = 4
_MOST_AT_ONCE = 256
_CONNECT_SECONDS = 10
_DASK = re.compile(r"dask(\+tls)?://([^/@\s]+:\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkerConnect:
    """Connects a worker to servers with the options of the command line; it is sent to workers.

    The options have names of credentials and variables, without values.
    """

    options: ConnectionOptions
    named: tuple[str, ...] = ()  # servers of `knime-mcp config`, which each worker looks up where it runs

    def __hash__(self) -> int:
        return hash(type(self))  # the options hold lists

    def __call__(self, route: ServerRoute) -> Run:
        """Makes a run for a server, with its credential."""
        from .sessions import CommandSessions

        try:
            for name in self.named:
                self.options.by_name(name)
            return CommandSessions(self.options, Interrupt()).run_for([route])
        except UsageError as error:  # such as a variable that is not set on the worker's machine
            raise SettingInvalid(f"The worker cannot connect: {error}", setting="executor") from None


def check_executor(text: str) -> None:
    """Refuses an invalid ``--executor``, before any server is contacted."""
    if text == "threads":
        return
    if not _DASK.fullmatch(text):
        raise UsageError(
            f"--executor is '{text}'. Write threads, or dask://HOST:PORT with the address of a Dask"
            " scheduler."
        )


@contextmanager
def call_executor(text: str, asked: int | None, connection: ConnectionOptions, run: Run) -> Generator[int]:
    """Opens the cluster of the option, on which the run makes its calls until the end of the block.

    ``asked`` is the option ``--concurrency``. Yields the maximum number of calls in flight. Raises
    `CommandError` if the Dask cluster cannot be reached, or its workers cannot make calls.
    """
    match = _DASK.fullmatch(text)
    if match is None:
        yield asked or _THREADS
        return
    with _dask_client(match[2], tls=match[1] is not None) as client:
        from ..runs.dask_calls import DaskCalls

        names = tuple(config.name for config in connection.named.values())
        # Copied, without cached values of the environment.
        connect = WorkerConnect(dataclasses.replace(connection), names)
        run.make = DaskCalls(client=client, connect=connect).make
        # More calls than threads would wait at the scheduler, which does not report whether they run.
        yield min(sum(client.nthreads().values()), asked or _MOST_AT_ONCE, _MOST_AT_ONCE)


@contextmanager
def _dask_client(address: str, *, tls: bool) -> Generator[Client]:
    """Connects to the scheduler of a cluster whose workers can make calls.

    With TLS, the certificates come from Dask's configuration.
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
        _check_workers(client, address)
        yield client


def _check_workers(client: Client, address: str) -> None:
    from ..runs.dask_calls import installed_version

    versions = client.run(installed_version, on_error="return")
    if not versions:
        raise CommandError(f"The Dask cluster at {address} has no workers. Start some.")
    for worker, version in versions.items():
        # Calls are sent as objects of this version's classes.
        if version != VERSION:
            has = version if isinstance(version, str) else f"none that can be loaded ({_named(version)})"
            raise CommandError(
                f"The Dask worker {worker} has knime-mcp {has}, but this is {VERSION}. Install the same one"
                " there."
            )


def _named(error: object) -> str:
    return f"no module {error.name}" if isinstance(error, ImportError) else type(error).__name__
