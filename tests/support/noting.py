"""The noting server for tests of workers, and what connects a worker to it."""

import sys
from dataclasses import replace
from pathlib import Path

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import Pinning, pinned_tool
from knime_mcp.runs.dask_calls import DaskCalls
from knime_mcp.runs.engine import CallInProgress, RunRecords, new_run
from knime_mcp.runs.table_run import run_batch
from knime_mcp.types.routing import ServerRoute
from tests.support import peers
from tests.support.waiting import until


def noting_server(notes):
    """The server, at /mcp."""
    script = Path(__file__).parent / "servers" / "noting_server.py"
    return peers.Server("noting server", [sys.executable, "-u", script, "--port", "{port}", "--notes", notes])


def connect(route):
    """Connects a worker, as code outside of the command line does it."""
    run = new_run(lambda found: MCPClient(found.url), id="")
    run.pinning = Pinning.IGNORE
    return run


class Noting:
    """A run of calls at the server; what it noted before is not looked at."""

    def __init__(self, url, file):
        self.file = file
        self._before = 0
        self._before = len(self.lines)
        self.route = ServerRoute.parse(url)
        self.run = connect(self.route)
        self.canceled = False

    def workers(self, client):
        """A run whose calls are made on the cluster's workers."""
        make = DaskCalls(client=client, connect=connect).make
        return replace(self.run, id="r1", is_canceled=lambda: self.canceled, make=make, records=RunRecords())

    def call(self, name="note", row=None, **arguments):
        """A call of one of the tools."""
        tool = pinned_tool(self.run.definitions.find(self.route, name), self.route, shown_name=name)
        return PlannedCall(tool=tool, arguments=arguments, input_row=row)

    def remote(self, plan):
        """A call in the form in which it is sent to a worker."""
        return DaskCalls(client=None, connect=connect).remote(CallInProgress(plan, self.run), plan.tool)

    @property
    def lines(self):
        return self.file.read_text("utf-8").splitlines()[self._before :] if self.file.exists() else []

    def said(self, line):
        """How often the server noted this."""
        return self.lines.count(line)

    def wait_for(self, line, times=1):
        """Waits until the server noted this so often, or fails."""
        self.wait(lambda: self.said(line) >= times, f"the server notes {line!r} {times} times")

    def wait(self, condition, what):
        """Waits until a condition holds, or fails."""
        until(condition, lambda: f"{what}. The server noted {self.lines}")


def run(calls, workers, concurrency=2):
    """Makes calls as a batch does; gives their outcomes in order."""
    return list(run_batch(calls, workers.call, failed=workers.not_made, concurrency=concurrency))


def local_cluster(**variables):
    """A Dask cluster of two processes on this machine, with these variables in their environment."""
    from distributed import LocalCluster

    return LocalCluster(
        env=variables,
        n_workers=2,
        threads_per_worker=2,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )
