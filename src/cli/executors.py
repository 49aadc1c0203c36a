"""``--executor``: who makes the calls of a batch or a replay."""

from __future__ import annotations

import dataclasses
import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..types.errors import SettingInvalid
from .exits import UsageError
from .interrupt import Interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Executor

    from ..audit.call import Call, CallOutcome, Dispatcher
    from ..types.routing import ServerRoute
    from .options import ConnectionOptions

ExecutorOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="threads|processes:N|dask://HOST:PORT",
        help="Who makes the calls: threads of this process, N other processes, or the workers of a Dask"
        " cluster. Workers look credentials up where they run: in the same environment variables, or in their"
        " keyring.",
        rich_help_panel="Where calls run",
    ),
]
Concurrency: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        help="How many calls may run at the same time: 4 by default, with --executor as many as the workers"
        " have room for.",
        show_default=False,
    ),
]

_THREADS = 4
_MOST_AT_ONCE = 256
_PROCESSES = re.compile(r"processes:(\d{1,3})", re.ASCII)
_DASK = re.compile(r"dask(\+tls)?://([^/@\s]+:\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkerConnect:
    """Connects a worker to servers as the command line would have; travels to workers.

    Attributes:
        options: How to reach servers. Names of credentials and variables, no values of them.
    """

    options: ConnectionOptions

    def __hash__(self) -> int:
        return hash(type(self))  # the options hold lists

    def __call__(self, route: ServerRoute) -> Dispatcher:
        """Makes what runs calls at a server, and knows its credential."""
        from .sessions import Sessions

        try:
            return Sessions(self.options, Interrupt()).dispatcher([route])
        except UsageError as error:  # such as a variable that is not set there
            raise SettingInvalid(f"The worker cannot connect: {error}", setting="executor") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExecutor:
    """Who makes the calls.

    Attributes:
        make: Makes a call and records it. Is called from as many threads as calls may be in flight.
        concurrency: How many that may be.
    """

    make: Callable[[Call], CallOutcome]
    concurrency: int


def check_executor(text: str, connection: ConnectionOptions) -> None:
    """Refuses an ``--executor`` that cannot work, before anything is contacted.

    Raises:
        UsageError: See the texts.
    """
    if text == "threads":
        return
    if not _PROCESSES.fullmatch(text) and not _DASK.fullmatch(text):
        raise UsageError(
            f"--executor is '{text}'. Write threads, processes:N with the number of processes, or"
            " dask://HOST:PORT with the address of a Dask scheduler."
        )
    if connection.bearer_prompt:
        raise UsageError(
            "A token that is typed in stays in this process. With --executor use --credential NAME or"
            " --bearer-env VARIABLE, which every worker looks up where it runs."
        )
    if (found := _PROCESSES.fullmatch(text)) and not 1 <= int(found[1]) <= _MOST_AT_ONCE:
        raise UsageError(f"--executor {text}: the number of processes has to be 1 to {_MOST_AT_ONCE}.")


@contextmanager
def call_executor(
    text: str, asked: int | None, connection: ConnectionOptions, dispatcher: Dispatcher
) -> Generator[CallExecutor]:
    """Opens who makes the calls.

    Args:
        text: The option, checked.
        asked: The option ``--concurrency``.
        connection: How to reach servers.
        dispatcher: What the calls share in this process.

    Yields:
        The executor, for as long as the block lasts.

    Raises:
        CommandError: The Dask cluster cannot be reached, or its workers cannot make calls.
    """
    connect = WorkerConnect(dataclasses.replace(connection))  # without what it read from the environment
    if text == "threads":
        from ..audit.dispatch import recorded_call

        make = partial(recorded_call, dispatcher=dispatcher)
        yield CallExecutor(make=make, concurrency=asked or _THREADS)
    elif found := _PROCESSES.fullmatch(text):
        from ..audit.workers.process_workers import ProcessWorkers

        count = min(int(found[1]), asked or _MOST_AT_ONCE)
        with ProcessWorkers(count) as executor:
            yield CallExecutor(make=_on(executor, connect, dispatcher), concurrency=count)
    elif found := _DASK.fullmatch(text):
        from .dask_cluster import dask_client

        with dask_client(found[2], tls=found[1] is not None) as client:
            # More calls than threads would wait at the scheduler, where nobody can tell whether they run.
            room = min(sum(client.nthreads().values()), asked or _MOST_AT_ONCE, _MOST_AT_ONCE)
            executor = client.get_executor(pure=False, retries=0)
            yield CallExecutor(make=_on(executor, connect, dispatcher), concurrency=room)


def _on(executor: Executor, connect: WorkerConnect, dispatcher: Dispatcher) -> Callable[[Call], CallOutcome]:
    from ..audit.workers.workers import Workers

    return Workers(executor=executor, connect=connect, dispatcher=dispatcher).recorded_call
