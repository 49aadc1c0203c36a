"""The page of `demo --open`: all of what the demo did, without scripts, for this machine only."""

import http.client
import signal
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from knime_mcp.cli.demo_page import DemoPage, ToolCatalogue, served
from tests.cli.conftest import RECORDED

TOOL = {
    "Tool name": "count",
    "Parameters": '{"properties": {"path": {"type": "string"}}}',
    "Description": "<b>",
}
ROWS = (
    {"path": "a.txt", "Status": "ok", "Structured result": '{"words": 82}', "Error": None},
    {"path": "<script>", "Status": "tool error", "Structured result": None, "Error": "There is no file"},
)


@pytest.fixture
def shown(tmp_path):
    (tmp_path / "run.jsonl").write_bytes(RECORDED.read_bytes())
    return DemoPage(tmp_path, [ToolCatalogue("http://127.0.0.1:1/mcp", [TOOL])], ROWS)


def test_all_parts_are_on_the_page(shown):
    page = shown.html("SVERWEIS")
    for text in (
        "82 words",
        "tool error",
        "There is no file",
        "Value Lookup",
        "summarize_csv",
        "<svg",
        "count",
    ):
        assert text in page
    assert "&lt;script&gt;" in page
    assert "<script" not in page


def test_a_changed_record_is_seen(shown):
    assert 'class="note bad">Each record' not in shown.html("")
    file = shown.journals / "run.jsonl"
    file.write_text(file.read_text("utf-8").replace("summarize_csv", "summarize_all", 1), "utf-8")
    assert 'class="note bad">Each record' in shown.html("")


def test_a_question_finds_nodes(shown):
    with served(shown, "VLOOKUP") as url:
        assert "Value Lookup" in urlopen(url, timeout=60).read().decode()
        assert "Row Sampling" in urlopen(f"{url}?q=Row+Sampling", timeout=60).read().decode()
        assert "Nothing was found" in urlopen(f"{url}?q=qqqqzzzz", timeout=60).read().decode()


@pytest.mark.parametrize(("path", "host"), [("/etc/passwd", None), ("/", "evil.example:80")])
def test_nothing_else_is_served(shown, path, host):
    with served(shown, "") as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.request("GET", path, headers={"Host": host} if host else {})
        assert connection.getresponse().status == 404
        connection.close()


def test_the_command_shows_the_page_until_it_is_ended(cli):
    process = cli.start("demo", "--open", env={"BROWSER": "true"})
    try:
        urls = (line.split()[-1] for line in process.stdout if "as a page" in line)
        url = next(urls, None)
        assert url, process.stderr.read()
        assert "7</b>calls, all recorded" in urlopen(url, timeout=60).read().decode()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
