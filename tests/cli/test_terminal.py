"""What people see on a terminal, as opposed to what programs read from a pipe."""

import fcntl
import functools
import os
import pty
import select
import shlex
import signal
import sys
import termios
import time

from knime_mcp.cli.agent_run import paragraphs
from tests.support import commands
from tests.support.chat_server import ChatServer, says


def on_terminal(folder, *arguments, answer=None, env=None):
    """Runs `knime-mcp` on a terminal of 100 columns; gives exit code and everything that it showed."""
    ours, its = pty.openpty()
    process = commands.Popen(
        [sys.executable, "-m", "knime_mcp.cli.app", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **(env or {})},
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=functools.partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0),  # so that ^C is a signal
    )
    os.close(its)
    shown = b""
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 0.3)[0]:
                # It waits. Not sooner: asking for a secret drops what was typed before.
                if answer and answer[0].encode() in shown:
                    os.write(ours, answer[1].encode())
                    answer = None
                continue
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            shown += data
        return process.wait(30), shown.decode()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(ours)


def test_control_characters_are_shown_not_obeyed(server, tmp_path):
    code, shown = on_terminal(tmp_path, "call", server.url, "nasty")
    assert code == 0
    assert r"red \u{001b}[31m and \u{0007} bell" in shown
    assert "\x07" not in shown


def test_progress_bar_of_a_batch(server, tmp_path):
    (tmp_path / "p.csv").write_text("text\n" + "a\n" * 5, encoding="utf-8")
    code, shown = on_terminal(tmp_path, "batch", server.url, "echo", "p.csv", "--out", "r.csv")
    assert code == 0
    assert "call 5 of 5" in shown
    assert "Wrote 5 rows to r.csv" in shown


def test_progress_of_a_call(server, tmp_path):
    code, shown = on_terminal(tmp_path, "call", server.url, "slow", "seconds=1")
    assert code == 0
    assert "step 5 of 10" in shown


def test_what_a_model_wrote_is_markdown_on_a_terminal_only(cli, tmp_path):
    answer = (
        "Two **desks**:\n\n1. the *red* one\n\n```\nprint('|a|')\n\nx\n```\n\n[here](http://evil.example/x)"
    )
    with ChatServer([says(answer)], repeat=True) as model:
        words = ("agent", "Which?", "--model-url", model.url, "--model", "test-model")
        code, shown = on_terminal(tmp_path, *words)
        shown = shown.rpartition("\x1b[2K")[2]  # before it stands what is being written
        assert (code, "**" in shown, "```" in shown) == (0, False, False)
        assert "http://evil.example/x" in shown  # where it leads is seen
        assert cli(*words).out.strip() == answer
    assert paragraphs(answer[:20]) == ("Two **desks**:", "1. t")
    assert paragraphs(answer[:53])[0].endswith("the *red* one")
    assert paragraphs(answer)[0].endswith("x\n```")


def test_a_table_in_a_pipe_is_as_wide_as_columns_says(cli, server):
    narrow = cli("list", server.url, env={"COLUMNS": "60"})
    assert max(map(len, narrow.out.splitlines()[1:])) <= 60
    assert max(map(len, cli("list", server.url).out.splitlines()[1:])) > 60


def test_how_to_go_on_is_a_whole_command(cli, server, tmp_path):
    (tmp_path / "my table.csv").write_text("a,b\n1,2\nx,4\n")
    typed = ("batch", server.url, "add", "my table.csv", "--out", "done.csv", "--audit=r.jsonl")
    failed = cli(*typed)
    hints = [line.partition(": knime-mcp ")[2] for line in failed.err.splitlines() if ": knime-mcp " in line]
    assert [shlex.split(hint) for hint in hints] == [
        ["batch", server.url, "add", "done.csv", "--out", "done-2.csv", "--only-failed"],
        ["batch", server.url, "add", "my table.csv", "--out", "done.csv", "--resume", "r.jsonl"],
    ]
    for hint in hints:
        assert cli(*shlex.split(hint)).code == 1  # the row is as it was
