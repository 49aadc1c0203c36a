"""``--executor``: the command line with calls made elsewhere."""

import signal

import pytest

from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file
from tests.cli.conftest import SECRET
from tests.support.files import csv_rows
from tests.support.noting import local_cluster

GUARDED = ("--credential", "tests", "--executor")
PASSWORD = "KNIME_MCP_TESTS_PASSWORD"


@pytest.fixture(scope="module")
def dask():
    """Two workers, whose environment has the credential."""
    with local_cluster(**{PASSWORD: SECRET}) as cluster:
        yield f"dask://{cluster.scheduler_address.removeprefix('tcp://')}"


@pytest.fixture
def table(tmp_path):
    (tmp_path / "p.csv").write_text("text\na\na\nb\nc\n", encoding="utf-8")
    return "p.csv"


def test_a_batch_goes_to_the_workers_and_its_journal_stays_here(cli, server, table, tmp_path, dask):
    options = ("--out", "r.csv", "--audit", "run.jsonl")
    url = f"{server.base}/guarded/mcp"
    done = cli("batch", url, "echo", table, *options, *GUARDED, dask, env={PASSWORD: SECRET})
    assert done.code == 0, done.err
    assert [row["Result"] for row in csv_rows(tmp_path / "r.csv")] == ["a", "a", "b", "c"]
    assert verify_file(tmp_path / "run.jsonl").verdict is Verdict.UNANCHORED
    written = (tmp_path / "r.csv").read_text("utf-8") + (tmp_path / "run.jsonl").read_text("utf-8")
    assert SECRET not in written


def test_pictures_are_saved_here(cli, server, tmp_path, dask):
    (tmp_path / "p.jsonl").write_text("{}\n{}\n", encoding="utf-8")
    done = cli("batch", server.url, "picture", "p.jsonl", "--save-dir", "files", "--executor", dask, "--json")
    assert done.code == 0, done.err
    assert sorted(file.name for file in (tmp_path / "files").iterdir()) == ["row-1-1.png", "row-2-1.png"]
    assert [record["image"] for record in done.json] == ["files/row-1-1.png", "files/row-2-1.png"]


def test_a_replay_goes_to_the_workers(cli, record, tmp_path, dask):
    record([("add", {"a": n, "b": 2}) for n in range(5)])
    done = cli("replay", "run.jsonl", "--executor", dask, "--audit", "again.jsonl")
    assert done.code == 0, done.err
    assert "5 same" in done.out
    assert verify_file(tmp_path / "again.jsonl").verdict is Verdict.UNANCHORED


def test_ctrl_c_says_what_ran(cli, server, tmp_path, until, dask):
    labels = [f"dask-{number}" for number in range(6)]
    rows = "".join(f"60,{label}\n" for label in labels)
    (tmp_path / "p.csv").write_text(f"seconds,label\n{rows}", "utf-8")
    options = ("--concurrency", "2", "--executor", dask, "--out", "r.csv")
    process = cli.start("batch", server.url, "slow", "p.csv", *options)
    until(lambda: {f"started {label}" for label in labels[:2]} <= set(server.said()), "two calls began", 60)
    before = server.said().count("canceled")
    process.send_signal(signal.SIGINT)
    assert cli.finish(process).code == 3
    found = csv_rows(tmp_path / "r.csv")
    assert [row["Status"] for row in found] == ["canceled"] * 6
    assert all("before this call" in row["Error"] for row in found[2:])
    assert not any("before this call" in row["Error"] for row in found[:2])
    until(lambda: server.said().count("canceled") >= before + 2, "the server was told of both")


def test_a_credential_that_workers_do_not_have(cli, server, table, dask, tmp_path):
    env = {"KNIME_MCP_OTHER_PASSWORD": SECRET}
    url = f"{server.base}/guarded/mcp"
    done = cli("batch", url, "echo", table, "--credential", "other", "--executor", dask, "--json", env=env)
    assert done.code == 1
    assert {record["status"] for record in done.json} == {"failed"}
    assert "There is no credential 'other'" in done.json[0]["error"]


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        ("workers:2", "Write threads, or dask://HOST:PORT"),
        ("dask://nohost", "dask://HOST:PORT"),
    ],
)
def test_an_executor_that_cannot_work(cli, server, table, executor, said):
    done = cli("batch", server.url, "echo", table, "--executor", executor)
    assert done.code == 2
    assert said in done.err


def test_no_scheduler(cli, server, table):
    done = cli("batch", server.url, "echo", table, "--executor", "dask://127.0.0.1:9")
    assert done.code == 1
    assert "No Dask scheduler answers at 127.0.0.1:9" in done.err
