"""Calls made by other processes: the same records, one chain, lost processes, an orderly end."""

import multiprocessing
import os
import pickle
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import pytest

from knime_mcp.audit.record import CallStatus
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.worker_side import RemoteCall
from knime_mcp.runs.workers import ProcessWorkers
from knime_mcp.types.errors import ArgumentsInvalid
from tests.support.noting import connect, run

SECRET = "canary-51f0c2"


def others_pool():
    """An executor that is not ours."""
    return ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))


def test_no_process_outlives_its_executor():
    before = set(multiprocessing.active_children())
    with ProcessWorkers(3) as executor:
        for future in [executor.submit(os.getpid) for _ in range(3)]:
            future.result(60)
    assert set(multiprocessing.active_children()) <= before


def test_one_session_per_worker_and_server(server, processes):
    call = server.call(text="x")
    before = set(server.lines)
    run([call] * 20, server.workers(processes))
    ports = {line for line in server.lines if line.startswith("from ")} - before
    assert len(ports) <= 2
    assert server.said("done x") == 20


def test_what_fails_here_fails_there(server, processes):
    workers = server.workers(processes)
    wrong = workers.call(server.call(text=["no", "text"])).record
    assert (wrong.status, "/text" in wrong.error) == (CallStatus.INVALID_ARGUMENTS, True)
    known = PlannedCall(tool=server.call().tool, input_row="R7", error=ArgumentsInvalid("The cell is empty"))
    assert "The cell is empty" in workers.call(known).record.error
    assert server.said("begun x") == 0


@pytest.mark.parametrize("pool", [lambda: ProcessWorkers(2), others_pool], ids=["ours", "another's"])
def test_a_killed_process_is_a_row_and_no_second_call(server, pool):
    with pool() as executor:
        workers = server.workers(executor)
        pid = executor.submit(os.getpid).result(30)
        killed, rest = server.call(row="R1", text="slow", seconds=60), server.call(row="R2", text="fast")
        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(workers.call, killed)
            server.wait_for("begun slow")
            for process in _workers_of(executor) or [pid]:
                os.kill(process, signal.SIGKILL)
            record = future.result(30).record
        assert record.status is CallStatus.UNKNOWN
        assert "unknown whether the call ran" in record.error
        assert "row R1" in record.error
        assert record.started_at is not None
        after = workers.call(rest).record
    assert server.said("begun slow") == 1
    if isinstance(executor, ProcessWorkers):
        assert after.result == "noted fast"
    else:
        assert (after.status, server.said("begun fast")) == (CallStatus.FAILED, 0)
        assert "was not made" in after.error
        assert after.started_at is None


def _workers_of(executor):
    pools = getattr(executor, "_pools", [executor])
    return [pid for pool in pools for pid in pool._processes or ()]


@pytest.mark.parametrize("tool", ["look", "put"])
def test_what_may_be_repeated_is_made_again(server, tool):
    with ProcessWorkers(1) as executor, ThreadPoolExecutor(1) as thread:
        future = thread.submit(server.workers(executor).call, server.call(tool, text="again", seconds=3))
        server.wait_for("begun again")
        for process in _workers_of(executor):
            os.kill(process, signal.SIGKILL)
        assert future.result(60).record.result == "noted again"
    assert server.said("begun again") == 2


def test_other_rows_survive_a_killed_process(server):
    with ProcessWorkers(2) as executor, ThreadPoolExecutor(2) as threads:
        workers = server.workers(executor)
        futures = []
        for name, seconds in (("one", 60), ("two", 2)):
            futures.append(threads.submit(workers.call, server.call(text=name, seconds=seconds)))
            server.wait_for(f"begun {name}")
            if name == "one":
                first = _workers_of(executor)
        os.kill(first[0], signal.SIGKILL)
        assert [future.result(30).record.status for future in futures] == ["outcome unknown", "ok"]


def test_processes_that_never_live_are_given_up(server):
    with ProcessWorkers(1) as executor:
        for _ in range(6):
            with pytest.raises(Exception, match="terminated abruptly"):
                executor.submit(os._exit, 1).result(30)
        record = server.workers(executor).call(server.call(text="x")).record
    assert "no worker any more" in record.error
    assert server.said("begun x") == 0


def test_all_processes_killed_at_once_are_replaced(server):
    """As by a person, or by a machine that has no memory left."""
    with ProcessWorkers(6) as executor:
        for lost in [executor.submit(os._exit, 1) for _ in range(6)]:
            with pytest.raises(Exception, match="terminated abruptly"):
                lost.result(60)
        assert server.workers(executor).call(server.call(text="x")).record.result == "noted x"


def test_a_call_that_may_be_repeated_is_not_when_the_run_was_stopped(server):
    with ProcessWorkers(1) as executor, ThreadPoolExecutor(1) as thread:
        future = thread.submit(server.workers(executor).call, server.call("look", text="once", seconds=60))
        server.wait_for("begun once")
        server.canceled = True
        for process in _workers_of(executor):
            os.kill(process, signal.SIGKILL)
        record = future.result(60).record
    assert "unknown whether the call ran" in record.error
    assert "before this call" not in record.error


def test_canceling_tells_what_ran_from_what_did_not(server):
    with ProcessWorkers(1) as executor, ThreadPoolExecutor(2) as threads:
        workers = server.workers(executor)
        running = threads.submit(workers.call, server.call(text="runs", seconds=60))
        server.wait_for("begun runs")
        waiting = threads.submit(workers.call, server.call(text="waits"))
        server.canceled = True
        later = workers.call(server.call(text="later")).record
        assert running.result(30).record.status is CallStatus.CANCELED
        assert waiting.result(30).record.status is CallStatus.CANCELED
        assert "before this call" in later.error
        server.wait_for("canceled runs")  # the worker told the server
    assert server.said("begun waits") == server.said("begun later") == 0


def test_a_call_on_its_way_shows_nothing(server):
    remote = server.remote(server.call(row="R1", text=SECRET))
    assert SECRET not in repr(remote)
    assert "note" in repr(remote)
    again = pickle.loads(pickle.dumps(remote))
    assert isinstance(again, RemoteCall)
    assert again == remote
    assert again.connect is connect


def test_what_may_be_repeated(server):
    assert [server.call(name).tool.may_repeat for name in ("note", "look", "put")] == [False, True, True]
    contradiction = replace(
        server.call("look").tool, annotations={"readOnlyHint": True, "destructiveHint": True}
    )
    assert not contradiction.may_repeat
