"""The noting server for tests of workers, and what connects a worker to it."""

import sys
from dataclasses import replace
from pathlib import Path

from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.client.mcp_client import MCPClient, SessionPool
from knime_mcp.runs.definitions import Definitions, Pinning, pinned_tool
from knime_mcp.runs.engine import Run
from knime_mcp.runs.one_call import PlannedCall, failed_call
from knime_mcp.runs.table_run import run_batch
from knime_mcp.runs.workers import Workers
from knime_mcp.types.routing import ServerRoute
from tests.support import peers
from tests.support.waiting import until


def noting_server(notes):
    """The server, at /mcp."""
    script = Path(__file__).parent / "servers" / "noting_server.py"
    return peers.Server("noting server", [sys.executable, "-u", script, "--port", "{port}", "--notes", notes])


def connect(route):
    """Connects a worker, as code outside of the command line does it."""
    pool = SessionPool(lambda found: MCPClient(found.url))
    return Run(
        id="", pool=pool, definitions=Definitions(pool), secrets=SecretMarker(), pinning=Pinning.IGNORE
    )


class Noting:
    """A run of calls at the server."""

    def __init__(self, url, file):
        self.file = file
        self.route = ServerRoute.parse(url)
        self.dispatcher = connect(self.route)
        self.canceled = False

    def workers(self, executor):
        """What makes the calls on the executor's workers."""
        fields = {
            name: getattr(self.dispatcher, name) for name in ("pool", "definitions", "secrets", "pinning")
        }
        dispatcher = Run(id="r1", is_canceled=lambda: self.canceled, **fields)
        return Workers(executor=executor, connect=connect, dispatcher=dispatcher)

    def call(self, name="note", row=None, **arguments):
        """A call of one of the tools."""
        tool = pinned_tool(self.dispatcher.definitions.find(self.route, name), self.route, shown_name=name)
        return PlannedCall(tool=tool, arguments=arguments, input_row=row)

    @property
    def lines(self):
        return self.file.read_text("utf-8").splitlines() if self.file.exists() else []

    def said(self, line):
        """How often the server noted this."""
        return self.lines.count(line)

    def wait_for(self, line, times=1):
        """Waits until the server noted this so often, or fails."""
        self.wait(lambda: self.said(line) >= times, f"the server notes {line!r} {times} times")

    def wait(self, condition, what):
        """Waits until a condition holds, or fails."""
        until(condition, lambda: f"{what}. The server noted {self.lines}")


def run(calls, workers, concurrency=2, journal=None):
    """Makes calls as a batch does; gives their outcomes in order."""

    def kept(outcome):
        return outcome if journal is None else replace(outcome, record=journal.append(outcome.record))

    return list(
        run_batch(
            calls,
            lambda call: kept(workers.recorded_call(call)),
            failed=lambda call, error: kept(failed_call(call, error, workers.dispatcher)),
            concurrency=concurrency,
        )
    )


def local_cluster():
    """A Dask cluster of two processes on this machine."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )
