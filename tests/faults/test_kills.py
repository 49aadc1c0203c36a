"""The script that kills runs: what it calls wrong, and one trial each of those that no other test has."""

import pytest

from tests.faults import kills
from tests.faults.dask_cluster import clusters
from tests.faults.kill_trials import OK, ROWS, UNKNOWN, Findings

ALL = dict.fromkeys(range(ROWS), OK)
ONCE = {row: ["key"] for row in range(ROWS)}
SAID = "it may have been carried out"


@pytest.mark.parametrize(
    ("statuses", "keys", "said", "wrong"),
    [
        (ALL, ONCE, "", {}),
        ({**ALL, 3: UNKNOWN}, ONCE, SAID, {}),
        ({**ALL, 3: UNKNOWN}, {**ONCE, 3: []}, SAID, {}),
        ({**ALL, 3: UNKNOWN}, ONCE, "", {"unnamed": 1}),
        ({**ALL, 3: UNKNOWN}, {**ONCE, 3: ["a", "b"]}, SAID, {"twice": 1}),
        (dict.fromkeys(range(ROWS - 1), OK), ONCE, "", {"lost": 1}),
        ({**ALL, 3: "failed"}, ONCE, "", {"lost": 1}),
        (ALL, {**ONCE, 3: []}, "", {"lost": 1}),
        (ALL, {**ONCE, 3: ["a", "b"]}, "", {"twice": 1}),
    ],
)
def test_what_is_wrong_after_a_resumption(statuses, keys, said, wrong):
    found = Findings()
    assert found.judge(statuses, keys, said) == {row for row in statuses if statuses[row] == UNKNOWN}
    counts = {name: getattr(found, name) for name in ("lost", "twice", "unnamed")}
    assert {name: count for name, count in counts.items() if count} == wrong
    assert found.is_good is not bool(wrong)


@pytest.mark.parametrize(
    ("statuses", "keys", "wrong"),
    [
        (ALL, {**ONCE, 3: ["a", "a"]}, {}),
        (ALL, {**ONCE, 3: ["a", "b"]}, {"twice": 1}),  # another key
        (ALL, {**ONCE, 3: ["a", "a"], 4: ["b", "b"]}, {"twice": 1}),
        ({**ALL, 3: UNKNOWN}, ONCE, {"lost": 1}),
    ],
)
def test_what_is_wrong_after_somebody_asked_to_repeat_row_3(statuses, keys, wrong):
    found = Findings()
    found.judge_asked(statuses, dict.fromkeys(range(ROWS), 1), keys, {3})
    counts = {name: getattr(found, name) for name in ("lost", "twice")}
    assert {name: count for name, count in counts.items() if count} == wrong


@pytest.mark.long
@pytest.mark.parametrize("name", ["Dask, workers", "Caller node"])
def test_a_killed_run_loses_nothing_and_calls_nothing_twice(name):
    with clusters() as cluster:
        found = kills.trial(name, "quick", cluster)
    assert found.is_good, found
