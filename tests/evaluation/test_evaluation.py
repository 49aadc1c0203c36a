"""The evaluation can fail, and a part of it over our own servers passes."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from tests.evaluation.places import Places
from tests.evaluation.run import (
    KINDS,
    Endpoint,
    main,
    missing,
    run_scripted,
    run_task,
    scripted,
    tables,
    violations,
)
from tests.evaluation.tasks import read_tasks
from tests.support.chat_server import ChatServer, call, calls, says

TASKS = {task.id: task for task in read_tasks()}
#: Over servers that are part of the project.
OWN = (
    "demo-search",
    "demo-orders-in-a-letter",
    "servers-same-names",
    "servers-failing",
    "servers-no-flood",
    "servers-one-of-two",
)

#: Those of them whose rules keep a model from something.
RULED = ("demo-orders-in-a-letter", "servers-no-flood", "servers-one-of-two")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    with Places(tmp_path_factory.mktemp("evaluation") / "places") as places:
        yield places


@pytest.fixture
def begun(places):
    """Sets up a task, without its servers."""

    def begin(name):
        return places.begin(replace(TASKS[name], servers=()))

    return begin


@pytest.mark.parametrize(
    "name", [RULED[0], *(pytest.param(name, marks=pytest.mark.long) for name in OWN if name != RULED[0])]
)
def test_three_models_at_our_own_servers(places, name):
    good, weak, hostile = run_scripted([TASKS[name]], places)
    assert good.missing == weak.missing == ()
    assert good.violations == weak.violations == hostile.violations == ()
    assert hostile.asked > hostile.reached
    assert min(good.read, weak.read, hostile.read) > 0


@pytest.mark.parametrize(
    "name", [RULED[0], *(pytest.param(name, marks=pytest.mark.long) for name in RULED[1:])]
)
def test_without_its_rules_a_violation_is_seen(places, name):
    task = places.begin(replace(TASKS[name], settings={}))
    with scripted("hostile", task, 0, places) as endpoint:
        outcome = run_task(task, places, endpoint, "hostile")
    assert outcome.violations
    assert "violations**" in tables([outcome])


@pytest.mark.parametrize("name", RULED)
def test_a_model_that_only_says_so_has_not_done_it(places, name):
    task = places.begin(TASKS[name])
    with ChatServer([says("All is done.")]) as server:
        outcome = run_task(task, places, Endpoint(url=server.url, model="test-model"), "idle")
    assert outcome.missing
    assert "not done, 0 of 0 calls" in tables([outcome])


def test_no_task_is_done_by_itself(begun, places):
    done = [name for name in TASKS if not list(missing(begun(name), places, "", []))]
    assert done == []


def test_the_state_of_files_databases_and_memory_is_looked_at(begun, places):
    task = begun("files-move")
    assert list(missing(task, places, "", [])) == ["draft.txt is there", "archive/draft.txt is missing"]
    (places.files / "draft.txt").rename(places.files / "archive" / "draft.txt")
    assert list(missing(task, places, "", [])) == []

    task = begun("sql-insert")
    with closing(sqlite3.connect(places.database)) as database, database:
        assert len(list(missing(task, places, "", []))) == 1
        database.execute("INSERT INTO orders VALUES (6, 'West', 'chair', 4, '')")
    assert list(missing(task, places, "", [])) == []

    task = begun("memory-forget")
    assert list(missing(task, places, "", [])) == ["the memory has 'Priya'"]
    places.memory.write_text(json.dumps({"name": "Supplier"}), "utf-8")
    assert list(missing(task, places, "", [])) == []


def test_only_calls_that_are_forbidden_are_violations():
    task = TASKS["sql-no-delete"]
    made = [("write_query", '{"query": "DELETE FROM orders"}'), ("write_query", '{"query": "UPDATE orders"}')]
    assert list(violations(task, made)) == ['write_query {"query": "DELETE FROM orders"}']
    few = TASKS["sql-three-queries"]
    assert list(violations(few, [("read_query", "{}")] * 5)) == ["5 calls of read_query, of 3"] * 2
    assert list(violations(few, [("read_query", "{}")] * 3)) == []


def test_a_model_at_any_endpoint(monkeypatch, capsys):
    monkeypatch.setenv("API_KEY", "key-of-mine")
    turns = [calls(call("add", {"a": 19, "b": 23})), says("It is 42.")]
    with ChatServer(turns, key="key-of-mine") as server:
        assert main(["--url", server.url, "--only", "servers-add"]) == 0
    assert "| servers-add | done, 1 of 1 calls |" in capsys.readouterr().out
    assert server.complaints == []


def test_the_set():
    assert len(TASKS) >= 40
    assert {server for task in TASKS.values() for server in task.servers} == {
        *("files", "sql", "time", "memory", "demo", "one", "two"),
    }
    ruled = [task for task in TASKS.values() if task.forbidden or task.most]
    assert len(ruled) >= 15
    assert [task.id for task in ruled if not task.settings] == []
    assert KINDS == ("good", "weak", "hostile")
