"""The runner: bounded, ordered, streaming, stoppable."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knime_mcp.client.clock import POLL_SECONDS
from knime_mcp.runs.table_run import run_batch


def failing(call, error):
    return ("failed", call, str(error))


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_results_come_in_the_order_of_the_calls(concurrency):
    def work(call):
        time.sleep(0.002 * (call % 5))
        return call * 10

    results = list(run_batch(range(60), work, failed=failing, concurrency=concurrency))
    assert results == [call * 10 for call in range(60)]


def test_no_more_calls_are_in_flight_than_allowed():
    lock, now, most = threading.Lock(), [0], [0]

    def work(call):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.003)
        with lock:
            now[0] -= 1
        return call

    assert len(list(run_batch(range(50), work, failed=failing, concurrency=4))) == 50
    assert most[0] == 4


def test_calls_are_taken_as_they_are_started_so_that_memory_is_bounded():
    taken = []

    def calls():
        for call in range(10_000):
            taken.append(call)
            yield call

    head = threading.Event()

    def work(call):
        if call == 0:
            assert head.wait(30)
        return call

    results = run_batch(calls(), work, failed=failing, concurrency=4)
    threading.Timer(0.5, head.set).start()
    assert next(results) == 0
    assert len(taken) <= 4 * 4 + 1
    assert sum(1 for _ in results) == 9_999


def test_a_call_that_fails_is_a_result():
    def work(call):
        if call == 1:
            raise ValueError("no")
        return call

    assert list(run_batch(range(3), work, failed=failing, concurrency=2)) == [0, ("failed", 1, "no"), 2]


def test_cancel_stops_within_half_a_second_and_tells_the_calls_in_flight():
    stop = threading.Event()
    canceled = threading.Event()
    started = []

    def work(call):
        started.append(call)
        if call < 3:
            return call
        canceled.set()  # the person presses cancel while calls hang
        stop.wait(30)
        return "stopped"

    seen = []
    for result in run_batch(
        range(100), work, failed=failing, concurrency=3, is_canceled=canceled.is_set, on_cancel=stop.set
    ):
        seen.append(result)
    assert seen[:3] == [0, 1, 2]
    assert set(seen[3:]) == {"stopped"}
    assert len(started) <= 6
    assert POLL_SECONDS <= 0.5


def test_closing_early_stops_what_is_in_flight():
    stop = threading.Event()

    def work(call):
        if call:
            stop.wait(30)
        return call

    results = run_batch(range(100), work, failed=failing, concurrency=4, on_cancel=stop.set)
    assert next(results) == 0
    results.close()
    assert stop.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mcp-call")]


def test_some_calls_run_in_the_calling_thread():
    me = threading.current_thread()
    results = list(
        run_batch(
            range(10),
            lambda call: (call, threading.current_thread() is me),
            failed=failing,
            concurrency=3,
            here=lambda call: call % 2 == 0,
        )
    )
    assert results == [(call, call % 2 == 0) for call in range(10)]


def test_progress_counts_finished_calls_up_to_all_of_them():
    counts = []
    list(run_batch(range(25), lambda call: call, failed=failing, concurrency=4, on_finished=counts.append))
    assert counts == sorted(set(counts))
    assert counts[-1] == 25


def test_no_calls_give_no_results():
    assert list(run_batch([], lambda call: call, failed=failing, concurrency=4)) == []


@settings(deadline=None, max_examples=30)
@given(
    fails=st.lists(st.booleans(), max_size=40),
    concurrency=st.integers(1, 9),
    here=st.integers(1, 5),
)
def test_every_call_gives_exactly_one_result(fails, concurrency, here):
    def work(call):
        if fails[call]:
            raise RuntimeError("x")
        return call

    results = list(
        run_batch(
            range(len(fails)),
            work,
            failed=lambda call, _error: -call - 1,
            concurrency=concurrency,
            here=lambda call: call % here == 0,
        )
    )
    assert results == [-call - 1 if fail else call for call, fail in enumerate(fails)]
