"""Calls made by the workers of a real Dask cluster: two processes on this machine, told to die in between."""

import os
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from distributed import Client

from knime_mcp.audit.record import CallStatus
from knime_mcp.audit.verify import verify_file
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.dask_calls import DaskCalls, RemoteCall, StoppedWithin, remote_call
from knime_mcp.runs.replaying import Replayer, ReplayOptions, read_recording
from knime_mcp.types.errors import ArgumentsInvalid
from tests.support import noting, peers
from tests.support.noting import connect, run

SECRET = "canary-51f0c2"


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """The address of a server, and the file of its notes."""
    file = tmp_path_factory.mktemp("noting") / "notes.txt"
    with peers.running(noting.noting_server(file)) as running:
        yield running.url("/mcp"), file


@pytest.fixture
def server(notes):
    """A run of calls at the server."""
    found = noting.Noting(*notes)
    with found.run.pool:
        yield found


@contextmanager
def dask_client():
    """A client of a cluster with Dask's own settings, which run tasks of a lost worker again."""
    with noting.local_cluster() as made, Client(made, set_as_default=False) as found:
        yield found


@pytest.fixture(scope="module")
def client():
    """For the tests that leave all processes alive."""
    with dask_client() as found:
        yield found


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


def test_rows_come_in_order_into_one_chain(server, client, tmp_path):
    workers = server.workers(client)
    calls = [server.call(row=f"R{n}", text=f"t{n}", seconds=0.1 * (n % 3)) for n in range(12)]
    with workers.open_journal(tmp_path / "run.jsonl", about=""):
        found = [outcome.record for outcome in run(calls, workers, concurrency=4)]
    assert [record.input_row for record in found] == [f"R{n}" for n in range(12)]
    assert [record.result for record in found] == [f"noted t{n}" for n in range(12)]
    assert sorted(record.call for record in found) == list(range(1, 13))
    assert verify_file(tmp_path / "run.jsonl").consistent


def test_equal_rows_are_two_calls(server, client):
    call = server.call(text="twice")
    assert [outcome.record.status for outcome in run([call, call], server.workers(client))] == ["ok"] * 2
    assert server.said("done twice") == 2


def test_a_replay_goes_to_the_workers(server, client, tmp_path):
    workers, file = server.workers(client), tmp_path / "run.jsonl"
    with workers.open_journal(file, about=""):
        run([server.call("look", text=f"t{n}") for n in range(6)], workers)
    workers.records.journal = None
    replayer = Replayer(workers, ReplayOptions(concurrency=4))
    done = list(replayer.replay(read_recording(file).calls))
    assert [call.verdict.value for call in done] == ["same"] * 6
    assert server.said("done t3") == 2


def test_one_session_per_worker_and_server(server, client):
    call = server.call(text="x")
    before = set(server.lines)
    run([call] * 20, server.workers(client))
    ports = {line for line in server.lines if line.startswith("from ")} - before
    assert len(ports) <= 4  # two workers with two threads each
    assert server.said("done x") == 20


def test_what_fails_here_fails_there(server, client):
    workers = server.workers(client)
    wrong = workers.call(server.call(text=["no", "text"])).record
    assert (wrong.status, "/text" in wrong.error) == (CallStatus.INVALID_ARGUMENTS, True)
    known = PlannedCall(tool=server.call().tool, input_row="R7", error=ArgumentsInvalid("The cell is empty"))
    assert "The cell is empty" in workers.call(known).record.error
    assert server.said("begun x") == 0


def test_a_killed_worker_is_a_row_and_no_second_call(server, doomed):
    workers = server.workers(doomed)
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


def test_a_run_that_is_stopped_does_not_wait_for_a_result_that_was_lost():
    class Lost:
        """A task that has ended, and whose result comes from no worker."""

        asked = threading.Event()
        canceled = threading.Event()

        def add_done_callback(self, tell):
            tell(self)

        def result(self, timeout):
            self.asked.set()
            assert self.canceled.wait(timeout)

        def cancel(self):
            self.canceled.set()

    task = Lost()
    with pytest.raises(StoppedWithin):
        DaskCalls(client=None, connect=connect)._answer(task, task.asked.is_set)
    assert task.canceled.is_set()


@pytest.mark.long
def test_a_worker_that_leaves_in_order_repeats_nothing(server, doomed):
    workers = server.workers(doomed)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(workers.call, server.call(text="slow", seconds=60))
        server.wait_for("begun slow")
        (busy,) = [address for address, tasks in doomed.processing().items() if tasks]
        doomed.restart_workers([busy], timeout=100)
        record = future.result(60).record
    assert "unknown whether the call ran" in record.error
    assert server.said("begun slow") == 1


@pytest.mark.long
@pytest.mark.parametrize("tool", ["look", "put"])
def test_what_may_be_repeated_is_made_again(server, doomed, tool):
    workers = server.workers(doomed)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(workers.call, server.call(tool, text="again", seconds=8))
        server.wait_for("begun again")
        for pid in holders(doomed):
            os.kill(pid, signal.SIGKILL)
        assert future.result(60).record.result == "noted again"
    assert server.said("begun again") == 2


@pytest.mark.long
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
    run([server.call(text="x")] * 5, server.workers(client))

    def notes(dask_scheduler):
        return [key for key in dask_scheduler.task_metadata if key.startswith("remote_call")]

    server.wait(lambda: not client.run_on_scheduler(notes), "all notes are forgotten")


def test_canceling_stops_the_call_at_the_server(server, client):
    workers = server.workers(client)
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


def read_slowly(outcome):
    time.sleep(1)
    return outcome


class Large:
    """An outcome that takes a second to arrive."""

    def __init__(self, outcome):
        self.outcome = outcome

    def __reduce__(self):
        return read_slowly, (self.outcome,)


def large_result(remote):
    return Large(remote_call(remote))


def test_a_result_that_takes_long_to_arrive_is_waited_for(server, client, monkeypatch):
    monkeypatch.setattr("knime_mcp.runs.dask_calls.remote_call", large_result)
    assert server.workers(client).call(server.call(text="large")).record.result == "noted large"


def test_a_result_that_cannot_be_fetched_any_more_is_unknown(server):
    """Its worker was killed between the end of the call and the fetching, which fails in the background."""

    class Lost:
        cancel = done = release = staticmethod(lambda: True)

        def add_done_callback(self, told):
            told(self)

        @staticmethod
        def result(timeout):
            raise KeyError("remote_call-1")

    class Fetching:
        submit = staticmethod(lambda *_, **__: Lost())

    record = server.workers(Fetching()).call(server.call(text="x")).record
    assert record.status is CallStatus.UNKNOWN


@pytest.mark.long
def test_a_cluster_without_workers_ends_the_run(server, doomed, monkeypatch):
    monkeypatch.setattr("knime_mcp.runs.dask_calls._WORKERLESS_SECONDS", 1.0)
    workers = server.workers(doomed)
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


def test_a_call_that_may_be_repeated_is_not_when_the_run_was_stopped(server, client):
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(server.workers(client).call, server.call("look", text="once", seconds=60))
        server.wait_for("begun once")
        server.canceled = True
        record = future.result(60).record
    assert record.status is CallStatus.CANCELED
    assert "unknown whether the call ran" in record.error
    server.wait_for("canceled once")
    assert server.said("begun once") == 1


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
