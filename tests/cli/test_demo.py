import json
import os
import re
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_main_job_from_start_to_end(cli, tmp_path):
    done = cli("demo")
    assert done.code == 0, done.err
    for words in (
        "MCP Tool Provider",
        "MCP Tool Caller",
        "count_words",
        "There is no file 'lost_chapter.txt'",
    ):
        assert words in done.out
    out = tmp_path / "demo-output"
    tools = pq.read_table(out / "tools.parquet")
    assert tools["Tool name"].to_pylist() == [
        "list_files", "count_words", "search_text", "summarize_csv", "convert_csv", "plot_column",
    ]  # fmt: skip
    results = pq.read_table(out / "results.parquet")
    assert results["Status"].to_pylist() == ["ok", "ok", "ok", "tool error", "ok"]
    assert (out / "tools.csv").stat().st_size > 0
    assert (out / "results.csv").stat().st_size > 0
    assert not alive(int(re.search(r"process (\d+)", done.out)[1]))


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_it(cli, until, stop):
    process = cli.start("demo", "--serve")
    line = process.stdout.readline()
    url = re.search(r"http://\S+", line)[0]
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1
    assert json.loads(cli("list", url, "--json").out)["tools"]
    process.send_signal(stop)
    process.communicate(timeout=30)
    assert process.returncode == (0 if stop != signal.SIGKILL else -signal.SIGKILL)
    until(lambda: not alive(int(children[0])), "the server ended")


def test_ctrl_c_in_the_middle_leaves_nothing_running(cli, until):
    process = cli.start("demo")
    line = process.stdout.readline()
    while "process" not in line:
        line = process.stdout.readline()
    pid = int(re.search(r"process (\d+)", line)[1])
    process.send_signal(signal.SIGINT)
    done = cli.finish(process)
    assert done.code in (0, 3)
    until(lambda: not alive(pid), "the server ended")


def test_taken_port(cli, server):
    done = cli("demo", "--serve", "--port", server.base.rpartition(":")[2])
    assert done.code == 1
    assert "did not start" in done.err
