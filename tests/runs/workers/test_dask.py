"""Calls made by the workers of a real Dask cluster: two processes on this machine, told to die in between."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from knime_mcp.audit.record import CallStatus
from knime_mcp.runs.worker_side import remote_call
from knime_mcp.runs.workers import DaskWorkers
from tests.support.noting import run

from .conftest import dask_client, dask_executor


@pytest.fixture
def doomed():
    """For a test that ends processes."""
    with dask_client() as found:
        yield found


def holders(client, count=1):
    """The processes that run tasks now."""
    busy = [address for address, tasks in client.processing().items() if tasks]
    assert len(busy) == count
    pids = client.run(os.getpid, workers=busy)
    return list(pids.values())


def test_a_killed_worker_is_a_row_and_no_second_call(server, doomed):
    workers = server.workers(dask_executor(doomed))
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(workers.call, server.call(row="R1", text="slow", seconds=60))
        server.wait_for("begun slow")
        for pid in holders(doomed):
            os.kill(pid, signal.SIGKILL)
        record = future.result(60).record
    assert record.status is CallStatus.UNKNOWN
    assert "unknown whether the call ran" in record.error
    assert "row R1" in record.error
    assert server.said("begun slow") == 1
    assert workers.call(server.call(text="after")).record.result == "noted after"


def test_a_worker_that_leaves_in_order_repeats_nothing(server, doomed):
    workers = server.workers(dask_executor(doomed))
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(workers.call, server.call(text="slow", seconds=60))
        server.wait_for("begun slow")
        (busy,) = [address for address, tasks in doomed.processing().items() if tasks]
        doomed.restart_workers([busy], timeout=100)
        record = future.result(60).record
    assert "unknown whether the call ran" in record.error
    assert server.said("begun slow") == 1


@pytest.mark.parametrize("tool", ["look", "put"])
def test_what_may_be_repeated_is_made_again(server, doomed, tool):
    workers = server.workers(dask_executor(doomed))
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(workers.call, server.call(tool, text="again", seconds=8))
        server.wait_for("begun again")
        for pid in holders(doomed):
            os.kill(pid, signal.SIGKILL)
        assert future.result(60).record.result == "noted again"
    assert server.said("begun again") == 2


def test_a_result_that_is_lost_is_not_made_again(server, doomed):
    """Dask computes a result again when the worker that holds it is gone before anybody fetched it."""
    held = doomed.submit(remote_call, server.remote(server.call(text="once")), pure=False, retries=0)
    server.wait_for("done once")
    server.wait(held.done, "the worker has the result")
    (holder,) = next(iter(doomed.who_has([held]).values()))
    os.kill(doomed.run(os.getpid, workers=[holder])[holder], signal.SIGKILL)
    with pytest.raises(Exception, match="unknown whether the call ran"):
        held.result(timeout=60)
    assert server.said("begun once") == 1


def test_notes_at_the_scheduler_go_with_their_calls(server, client):
    run([server.call(text="x")] * 5, server.workers(dask_executor(client)))

    def notes(dask_scheduler):
        return [key for key in dask_scheduler.task_metadata if key.startswith("remote_call")]

    server.wait(lambda: not client.run_on_scheduler(notes), "all notes are forgotten")


def test_canceling_stops_the_call_at_the_server(server, client):
    workers = server.workers(dask_executor(client))
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(workers.call, server.call(text="runs", seconds=60))
        server.wait_for("begun runs")
        server.canceled = True
        record = future.result(30).record
    assert record.status is CallStatus.CANCELED
    assert "unknown whether the call ran" in record.error
    server.wait_for("canceled runs")
    assert "before this call" in workers.call(server.call(text="later")).record.error
    assert server.said("begun later") == 0


def test_a_result_that_cannot_be_fetched_any_more_is_unknown(server, doomed):
    """Its worker was killed between the end of the call and the fetching, which fails in the background."""

    class Lost:
        cancel = done = staticmethod(lambda: True)

        @staticmethod
        def result(timeout):
            raise KeyError("remote_call-1")

    class Fetching:
        submit = staticmethod(lambda *_, **__: Lost())

    with DaskWorkers(Fetching(), 1) as executor:
        record = server.workers(executor).call(server.call(text="x")).record
    assert record.status is CallStatus.UNKNOWN


def test_a_cluster_without_workers_ends_the_run(server, doomed, monkeypatch):
    monkeypatch.setattr("knime_mcp.runs.workers._WORKERLESS_SECONDS", 1.0)
    workers = server.workers(dask_executor(doomed))
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(workers.call, server.call(text="slow", seconds=60))
        server.wait_for("begun slow")
        pids = holders(doomed)  # asked while they are there
        doomed.cluster.scale(0)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert future.result(60).record.status is CallStatus.UNKNOWN
    later = workers.call(server.call(text="later")).record
    assert later.status is CallStatus.FAILED
    assert "no worker any more" in later.error
    assert server.said("begun slow") == 1
    assert server.said("begun later") == 0
