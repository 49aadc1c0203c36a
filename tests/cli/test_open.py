"""``knime-mcp open``: what the page asks for, over HTTP, and who is refused."""

import contextlib
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.verify import verify_file
from knime_mcp.cli.command_errors import CommandError
from knime_mcp.cli.open import TriedCalls, _summary, _text
from knime_mcp.tools.views import run_page
from knime_mcp.tools.views.journal_page import news
from tests.audit.calls import record, write_run
from tests.support.files import json_lines
from tests.support.pages import RunPage
from tests.support.typed_terminal import Terminal

from .conftest import SECRET


@contextlib.contextmanager
def opened(cli, folder, env=None):
    """A client of the page of a folder, until the command is ended."""
    process = cli.start("open", folder, env=env)
    url = process.stdout.readline().removeprefix("Open in a browser: ").strip()
    try:
        assert url.startswith("http://127.0.0.1:"), process.stderr.read()
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            yield client
    finally:
        process.send_signal(signal.SIGINT)
        assert cli.finish(process).code == 0


JSON = {"Content-Type": "application/json"}


def asked(client, what, **body):
    answer = client.post(what, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def test_a_run_is_shown_while_it_goes_on(cli, folder):
    write_run(folder / "done.jsonl", 3)
    (folder / "other.jsonl").write_text('{"a": 1}\n')
    with opened(cli, folder) as client, Journal(folder / "now.jsonl", run="r9") as journal:
        journal.append(record(1, run="r9"))
        runs = {run["name"]: run for run in asked(client, "runs")}
        outcomes = {"done.jsonl": "complete", "other.jsonl": "no journal", "now.jsonl": "goes on"}
        assert {name: run["outcome"] for name, run in runs.items()} == outcomes
        link = runs["now.jsonl"]["link"]
        page = RunPage(client.get(link).text)
        assert "This run goes on" in page.html
        assert "Records:" not in page.html
        (cursor,) = [part.split('"')[0] for part in page.html.split('data-cursor="')[1:]]
        news = f"{link.rpartition('/')[0]}/news"
        assert client.get(news, params={"after": cursor}).json()["steps"] == []
        journal.append(record(2, run="r9"))
        told = client.get(news, params={"after": cursor}).json()
        assert [step["number"] for step in told["steps"]] == ["2"]
        # A line that is only half there is told once it is whole.
        with (folder / "half.jsonl").open("wb") as half:
            lines = (folder / "done.jsonl").read_bytes()
            half.write(lines[:-20])
            half.flush()
            first = client.get("runs/half.jsonl/run.html").text
            cursor = first.split('data-cursor="')[1].split('"')[0]
            half.write(lines[-20:])
        told = client.get("runs/half.jsonl/news", params={"after": cursor}).json()
        assert [step["name"] for step in told["steps"]] == ["End"]
        journal.close("complete")
        assert "complete in itself, but nobody vouches for it" in client.get(link).text


def test_a_list_of_runs_has_those_in_several_files_and_leaves_out_what_cannot_be_read(folder, monkeypatch):
    monkeypatch.setenv("KNIME_MCP_AUDIT_PART", "300")
    write_run(folder / "long.jsonl", 3)
    assert (folder / "long.jsonl.2").is_file()
    shown = _summary(folder / "long.jsonl")
    assert (shown["outcome"], shown["calls"]) == ("complete", 3)
    (folder / "odd.jsonl").write_bytes((folder / "long.jsonl").read_bytes())
    (folder / "odd.jsonl.2").mkdir()
    assert _summary(folder / "odd.jsonl") is None
    assert _summary(folder / "gone.jsonl") is None


def test_news_that_have_no_room_are_told_the_next_time(folder, monkeypatch):
    monkeypatch.setattr(run_page, "_MOST", 5)
    file = folder / "run.jsonl"
    with Journal(file, run="r9") as journal:
        for number in range(12):
            journal.note("prompt", {"row": str(number), "text": "?"})
        told, cursor, verified = [], "1-0-0", verify_file(file)
        for _ in range(4):
            more = json.loads(news(file, cursor, verified))
            told, cursor = told + more["steps"], more["cursor"]
    assert [step.get("row") for step in told] == [None, *map(str, range(12))]


def test_who_has_not_the_address_from_the_command_gets_nothing(cli, folder):
    write_run(folder / "a.jsonl", 1)
    (folder.parent / "secret.jsonl").write_bytes((folder / "a.jsonl").read_bytes())
    with opened(cli, folder) as client:
        base = str(client.base_url)
        root = base[: base.rindex("/", 0, -1) + 1]
        host = root.split("/")[2]
        wanted = {
            "no token": (httpx.get(root), 404),
            "another token": (httpx.get(f"{root}x/"), 404),
            "rebound name": (client.get("", headers={"Host": f"evil.example:{host.split(':')[1]}"}), 403),
            "another port": (client.get("", headers={"Host": "127.0.0.1:1"}), 403),
            "another site": (client.post("runs", json={}, headers={"Origin": "http://evil.example"}), 403),
            "no site": (client.post("runs", json={}, headers={"Origin": "null"}), 403),
            "form": (client.post("runs", content="{}", headers={"Content-Type": "text/plain"}), 415),
            "without a length": (client.post("runs", content=iter([b"{}"]), headers=JSON), 413),
            "outside": (client.get("runs/..%2fsecret.jsonl/run.html"), 404),
            "outside of pages": (client.get("runs/a.jsonl/..%2frun.html"), 404),
            "unknown": (client.post("shell", json={}), 404),
            "no list": (client.post("tools", json=[]), 400),
            "cursor": (client.get("runs/a.jsonl/run.html") and client.get("runs/a.jsonl/news?after=x"), 400),
        }
        assert {name: answer.status_code for name, (answer, _) in wanted.items()} == {
            name: status for name, (_, status) in wanted.items()
        }
        assert all(answer.headers["x-content-type-options"] == "nosniff" for answer, _ in wanted.values())


def test_the_browser_is_told_the_address_by_a_file_that_is_its_users_only(
    tmp_path, folder, until, monkeypatch
):
    browser, told = tmp_path / "browser.sh", tmp_path / "told"
    browser.write_text(
        f'#!/bin/sh\nfile="${{1#file://}}"; stat -c %a "$file" > {told}.part\n'
        f'echo "$*" >> {told}.part; cat "$file" >> {told}.part; mv {told}.part {told}\n'
    )
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    terminal = Terminal(tmp_path, "open", folder)
    try:
        terminal.until("Open in a browser: ")
        url = terminal.until("Ctrl-C").strip()
        until(told.is_file, "the browser was started")
        mode, words, page = told.read_text().splitlines()
        assert mode == "600"
        assert page == f'<meta http-equiv="refresh" content="0; url={url}">'
        assert url.split("/")[3] not in words
        assert httpx.get(url, trust_env=False, timeout=60).status_code == 200
        until(lambda: not Path(words.removeprefix("file://")).exists(), "the file is gone")
        terminal.interrupt()
        assert terminal.ends() == 0
    finally:
        terminal.close()


def test_a_tool_is_tried_recorded_and_copied(cli, server, folder, tmp_path):
    env = {"TOKEN": SECRET}
    added = cli("config", "add", "mine", f"{server.base}/guarded/mcp", "--bearer-env", "TOKEN", env=env)
    assert added.code == 0, added.err
    with opened(cli, folder, env) as client:
        assert 'value="mine"' in client.get("").text
        tools = {tool["name"]: tool for tool in asked(client, "tools", server=server.url)}
        assert json.loads(tools["echo"]["schema"])["properties"].keys() == {"text", "times"}
        typed = {"arguments": ["text=it's", "times:=2"], "server": server.url, "tool": "echo"}
        found = asked(client, "call", **typed)
        assert (found["steps"][0]["status"], found["steps"][0]["came"]) == ("ok", "it's it's")
        wrong = asked(client, "call", **{**typed, "arguments": ["times=many"]})
        assert wrong["steps"][0]["status"] == "invalid arguments"
        refused = client.post("call", json={**typed, "tool": "ecko"})
        assert (refused.status_code, "echo" in refused.json()["error"]) == (422, True)
        assert client.post("tools", json={"server": "nobody"}).status_code == 422
        secret = asked(client, "call", server="mine", tool="echo", arguments=["text=x"])
        assert SECRET not in json.dumps(secret)
        assert "os.environ['TOKEN']" in secret["copies"]["Python"]
    (journal,) = folder.glob("tried-*.jsonl")
    kinds = [(line["kind"], line.get("status")) for line in json_lines(journal)]
    assert [status for kind, status in kinds if kind == "call"] == ["ok", "invalid arguments", "ok"]
    assert kinds[-1][0] == "end"
    assert SECRET not in journal.read_text()
    copies = found["copies"]
    assert "Tool name: echo\n  Arguments:\n    text = it's\n    times = 2" in copies["Node settings"]
    python = subprocess.run(
        [sys.executable, "-c", copies["Python"]], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert python.stdout == "it's it's\n", python.stderr
    assert cli(*shlex.split(copies["Command"])[1:]).out == "it's it's\n"


def test_two_names_of_one_address_do_not_share_a_session(folder, tmp_path, monkeypatch):
    servers = {name: {"url": f"https://host.example/mcp?key={name}"} for name in ("one", "two")}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    monkeypatch.setenv("KNIME_MCP_SERVERS", str(tmp_path / "servers.json"))
    with TriedCalls(folder, lambda: False) as tried:
        assert tried._route(" one ") == tried._route("one")
        with pytest.raises(CommandError, match="'two' has the address of 'one'"):
            tried._route("two")


def test_variables_of_every_form_come_from_the_environment_in_python():
    assert _text("a ${env:T}") == "'a ' + os.environ['T']"
    assert _text("${T:-d}") == "os.environ.get('T', 'd')"
