"""Streams, disks, encodings and signals as shells and systems have them, beside what a terminal is."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.files import csv_rows

from .conftest import RECORDED


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", [["audit", "show", RECORDED], ["knime-nodes", "search", "VLOOKUP"]])
def test_what_an_encoding_cannot_say_is_an_escape(cli, encoding, command):
    done = cli(*command, env={"PYTHONIOENCODING": encoding})
    assert done.code == 0, done.err
    assert r"\u2026" in done.out


def test_a_name_that_is_not_utf_8(cli, tmp_path):
    name = os.fsdecode(b"caf\xe9.jsonl")
    (tmp_path / name).write_bytes(RECORDED.read_bytes())
    done = cli("audit", "verify", name)
    assert (done.code, done.out.partition(":")[0]) == (4, r"caf\udce9.jsonl")  # signed by nobody


def test_a_hash_stays_in_one_line(cli):
    """On a terminal, too, where it is copied from."""
    done = cli("audit", "verify", RECORDED, env={"FORCE_COLOR": "1", "COLUMNS": "40"})
    assert any(
        "sha256:" in line and len(line.partition("sha256:")[2]) >= 64 for line in done.out.splitlines()
    )


@pytest.mark.parametrize("where", ["2> /dev/full", "2> >(true)"])
def test_results_do_not_need_a_reader_of_remarks(cli, server, tmp_path, where):
    (tmp_path / "p.csv").write_text("text\n" + "a\n" * 40, encoding="utf-8")
    words = f"batch {server.url} echo p.csv --concurrency 1 --out r.csv {where}"
    command = f"sleep 0.2; {sys.executable} -m knime_mcp.cli.app {words}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == 0
    assert [row["Status"] for row in csv_rows(tmp_path / "r.csv")] == ["ok"] * 40


def test_remarks_into_a_log_load_no_console():
    """What a tool reports comes in the thread that reads, whatever the others are importing."""
    script = (
        "import sys\n"
        "from knime_mcp.cli.terminal import CallProgress\n"
        "from knime_mcp.cli.terminal import complain\n"
        "from knime_mcp.client.mcp_client import Progress\n"
        "with CallProgress() as progress:\n"
        "    progress(Progress(progress=1, total=2, message='half \\x1b'))\n"
        "complain('gone')\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'rich'])\n"
    )
    kept = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=kept
    )
    assert (done.stdout, done.stderr) == ("[]\n", "1 of 2: half \\u{001b}\ngone\n")


def test_standard_output_on_a_full_disk(cli, server):
    done = cli.closing("> /dev/full", "call", server.url, "echo", "text=a")
    assert (done.code, done.err) == (1, "Standard output: no space left on device. [KMCP-FILE]\n")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("full.csv", "batch URL echo p.csv --out full.csv"),
        ("full.parquet", "batch URL echo p.csv --out full.parquet"),
        ("full.json", "batch URL echo p.csv --out full.json"),
        ("full.jsonl", "batch URL echo p.csv --audit full.jsonl"),
        ("full.parquet", "list URL --out full.parquet"),
        ("full.html", f"audit show {RECORDED} --html full.html"),
        ("full.csv", f"audit show {RECORDED} --out full.csv"),
        ("full.html", f"replay {RECORDED} --html full.html"),
    ],
)
def test_a_full_disk_names_the_file(cli, server, tmp_path, name, command):
    (tmp_path / name).symlink_to("/dev/full")
    (tmp_path / "p.csv").write_text("text\na\n", encoding="utf-8")
    done = cli(*command.replace("URL", server.url).split())
    assert done.code == 1
    assert name in done.err.splitlines()[-1]
    code = "KMCP-JOURNAL-WRITE" if name.endswith(".jsonl") else "KMCP-FILE"
    assert done.err.endswith(f": no space left on device. [{code}]\n")


def test_a_disk_that_has_no_room_for_results_says_how_to_go_on(cli, server, tmp_path):
    (tmp_path / "full.csv").symlink_to("/dev/full")
    (tmp_path / "p.csv").write_text("text\na\n", encoding="utf-8")
    words = ("batch", server.url, "echo", "p.csv")
    done = cli(*words, "--out", "full.csv", "--audit", "run.jsonl")
    assert done.code == 1
    assert "What has finished is in run.jsonl. Go on with: knime-mcp batch" in done.err
    called = len(server.said())
    again = cli(*words, "--resume", "run.jsonl", "--audit", tmp_path / "run.jsonl", "--out", "r.csv")
    assert again.code == 0, again.err
    assert len(server.said()) == called


def test_a_picture_that_no_disk_holds(cli, server, tmp_path):
    """The call was made, so the row says that, too."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "result-1.png").symlink_to("/dev/full")
    done = cli("call", server.url, "picture", "--save-dir", "files")
    assert done.code == 1
    assert "The tool has answered, but files/result-1.png could not be written: no space left" in done.err


def test_a_file_that_leads_nowhere_is_refused_before_anything_is_called(cli, server, tmp_path):
    (tmp_path / "p.csv").write_text("text\na\n", encoding="utf-8")
    (tmp_path / "r.csv").symlink_to("nowhere/r.csv")
    called = len(server.said())
    done = cli("batch", server.url, "echo", "p.csv", "--out", "r.csv")
    assert done.code == 2
    assert "There is no folder" in done.err
    assert len(server.said()) == called


def test_a_folder_that_nobody_may_write_into(cli, server, tmp_path):
    (tmp_path / "p.csv").write_text("text\na\n", encoding="utf-8")
    (tmp_path / "closed").mkdir(mode=0o555)
    may = os.access(tmp_path / "closed", os.W_OK)  # as root
    called = len(server.said())
    done = cli("batch", server.url, "echo", "p.csv", "--out", "closed/r.csv")
    assert done.code == (0 if may else 2)
    assert len(server.said()) == called + may


@pytest.mark.parametrize("folder", ["taken", "taken/deep/below"])
def test_the_folder_of_the_demo_is_refused_before_it_runs(cli, tmp_path, folder):
    (tmp_path / "taken").write_text("x", encoding="utf-8")
    done = cli("demo", "--out", folder)
    assert done.code == 2
    assert "taken is a file. Name a folder." in done.err


def test_terminated_twice_at_once(cli, server, tmp_path, until):
    """As `timeout` does it: to the process, and to its group. What ran and what did not is still told."""
    labels = [f"group-{number}" for number in range(4)]
    rows = "".join(f"60,{label}\n" for label in labels)
    (tmp_path / "p.csv").write_text(f"seconds,label\n{rows}", "utf-8")
    process = cli.start(
        *("batch", server.url, "slow", "p.csv", "--concurrency", "2"),
        *("--out", "r.csv", "--audit", "run.jsonl"),
    )
    until(lambda: {f"started {label}" for label in labels[:2]} <= set(server.said()), "two calls began", 60)
    before = server.said().count("canceled")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    os.killpg(process.pid, signal.SIGTERM)
    assert cli.finish(process).code == 3
    found = csv_rows(tmp_path / "r.csv")
    assert [row["Status"] for row in found] == ["canceled"] * 4
    assert not any("unknown whether" in row["Error"] for row in found)
    until(lambda: server.said().count("canceled") >= before + 2, "the server was told of both")
    assert cli("audit", "verify", "run.jsonl").code == 4  # consistent, and signed by nobody
