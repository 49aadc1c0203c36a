import json
import re
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.processes import gone


def test_the_main_job_from_start_to_end(cli, tmp_path):
    done = cli("demo")
    assert done.code == 0, done.err
    for words in (
        "1. MCP Tool Provider lists the tools of node knowledge",
        "check_configuration",
        "Value Lookup",
        "MCP Tool Caller",
        "count_words",
        "There is no file 'lost_chapter.txt'",
    ):
        assert words in done.out
    out = tmp_path / "demo-output"
    knowledge = pq.read_table(out / "node-knowledge.parquet")
    assert knowledge["Tool name"].to_pylist() == [
        "get_node_types", "get_node_details", "search_nodes", "find_compatible", "check_configuration",
        "check_workflow",
    ]  # fmt: skip
    tools = pq.read_table(out / "tools.parquet")
    assert tools["Tool name"].to_pylist() == [
        "list_files", "count_words", "search_text", "summarize_csv", "convert_csv", "plot_column",
        "check_columns", "report_page",
    ]  # fmt: skip
    results = pq.read_table(out / "results.parquet")
    assert results["Status"].to_pylist() == ["ok", "ok", "ok", "tool error", "ok"]
    assert (out / "tools.csv").stat().st_size > 0
    assert (out / "results.csv").stat().st_size > 0
    pids = [int(pid) for pid in re.findall(r"process\s+(\d+)", done.out)]
    assert len(pids) == 2
    assert all(map(gone, pids))


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_it(cli, stop):
    process = cli.start("demo", "--serve")
    line = process.stdout.readline()
    url = re.search(r"http://\S+", line)[0]
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1
    assert json.loads(cli("list", url, "--json").out)["tools"]
    process.send_signal(stop)
    process.communicate(timeout=30)
    assert process.returncode == (0 if stop != signal.SIGKILL else -signal.SIGKILL)
    assert gone(int(children[0]))


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_in_the_middle_it_leaves_nothing_running(cli, stop):
    process = cli.start("demo")
    read = ""
    while len(pids := re.findall(r"process\s+(\d+)", read)) < 2:
        line = process.stdout.readline()
        assert line, read
        read += line
    process.send_signal(stop)
    done = cli.finish(process)
    assert done.code in ((0, 3) if stop != signal.SIGKILL else (-signal.SIGKILL,))
    assert all(map(gone, pids))


def test_a_port_that_is_taken_is_said(cli, server):
    done = cli("demo", "--serve", "--port", server.base.rpartition(":")[2])
    assert done.code == 1
    assert "did not start" in done.err
