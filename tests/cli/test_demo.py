import contextlib
import csv
import json
import re
import signal

import httpx
import pytest

from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file
from tests.support.pages import RunPage


def test_the_main_job_from_start_to_end(cli, tmp_path):
    out = tmp_path / "demo-output"
    for _ in range(2):  # the second run finds what the first one made, and keeps nothing of it
        done = cli("demo")
        assert done.code == 0, done.err
    for words in (
        "1. The tools of the server, as MCP Tool Provider lists them",
        "search_text",
        "2. count_words, called once per row of a table",
        "$ knime-mcp audit show",
        "complete in itself, but nobody vouches for it",
    ):
        assert words in done.out
    assert "There is no file 'lost_chapter.txt'" in done.err
    assert sorted(file.name for file in out.iterdir()) == ["audit.html", "calls.jsonl", "results.csv"]
    with (out / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["Status"] for row in rows] == ["ok", "ok", "ok", "tool error", "ok"]
    page = RunPage((out / "audit.html").read_text("utf-8"))
    assert len(page.calls) == 5
    (error,) = [call["error"] for call in page.calls if "error" in call]
    assert "There is no file 'lost_chapter.txt'" in error
    assert verify_file(out / "calls.jsonl").verdict is Verdict.UNANCHORED
    assert not answers(re.search(r"http://\S+", done.out)[0])


def answers(url):
    with contextlib.suppress(httpx.TransportError):
        httpx.post(url, json={}, timeout=30, trust_env=False)
        return True
    return False


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_it(cli, stop):
    process = cli.start("demo", "--serve")
    url = re.search(r"http://\S+", process.stdout.readline())[0]
    assert json.loads(cli("list", url, "--json").out)["tools"]
    process.send_signal(stop)
    process.communicate(timeout=30)
    assert process.returncode == (0 if stop != signal.SIGKILL else -signal.SIGKILL)
    assert not answers(url)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_the_middle_it_says_so(cli, stop):
    process = cli.start("demo")
    while "knime-mcp list" not in (line := process.stdout.readline()):
        assert line
    process.send_signal(stop)
    done = cli.finish(process)
    assert done.code in (0, 3)
    assert (done.code == 3) == ("Canceled" in done.err)


def test_a_port_that_is_taken_is_said(cli, server):
    done = cli("demo", "--serve", "--port", server.base.rpartition(":")[2])
    assert done.code == 1
    assert "Nothing can listen at 127.0.0.1" in done.err
