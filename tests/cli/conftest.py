"""The command line in a process of its own, and a server for it to talk to."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import commands, peers, waiting
from tests.support.linear_run import programs
from tests.support.recordings import CALLS, record_calls, replayed_server

DEADLINE = 240  # only detects a hang: on a machine with other work, a workflow can take minutes
SECRET = "canary-7f3a9c51d2"
ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "examples" / "audit" / "what-the-agent-did.jsonl"


@dataclass
class Done:
    """A finished run of the command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class TestServer:
    """The server of `server.py`."""

    __test__ = False

    base: str
    events: Path

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def said(self) -> list[str]:
        return self.events.read_text(encoding="utf-8").splitlines() if self.events.exists() else []


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[TestServer]:
    events = tmp_path_factory.mktemp("cli-server") / "events.txt"
    process = commands.Popen(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("server.py")), SECRET, str(events)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        base = process.stdout.readline().strip()
        assert base.startswith("http://127.0.0.1:"), "the test server did not start"
        yield TestServer(base, events)
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class CommandLine:
    """Runs `knime-mcp`, or the product that is named first, as people do: in a process, with its streams."""

    def __init__(
        self,
        folder: Path,
        popen: type[subprocess.Popen[str]] = commands.Popen,
        module: str | None = None,
    ) -> None:
        self.folder = folder
        self._popen = popen
        self._module = module

    def start(self, *arguments: object, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("KNIME_MCP_", "COLUMNS", "FORCE_COLOR"))
        }
        # No keyring, no keys and no named servers of whoever runs the tests.
        kept |= {"KNIME_MCP_AUDIT_KEYS": str(self.folder / "audit-keys.json")}
        kept |= {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "PYTHONWARNINGS": "error"}
        kept |= {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        kept |= {"KNIME_MCP_SERVERS": str(self.folder / "servers.json"), "XDG_CACHE_HOME": str(self.folder)}
        return self._popen(
            [sys.executable, "-m", self._module, *map(str, arguments)]
            if self._module
            else commands.words_of(*arguments),
            cwd=self.folder,
            env=kept | dict(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> Done:
        try:
            out, err = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"did not end within {DEADLINE} s\n{out}\n{err}", pytrace=False)
        assert "Traceback" not in err, err
        assert SECRET not in out + err, "the secret was printed"
        return Done(process.returncode, out, err)

    def __call__(self, *arguments: object, env: Mapping[str, str] | None = None) -> Done:
        return self.finish(self.start(*arguments, env=env))

    def closing(self, what: str, *arguments: object) -> Done:
        """Runs it with a stream closed by the shell, such as ``>&-``."""
        done = subprocess.run(
            f"{shlex.join(commands.words_of(*arguments))} {what}",
            shell=True,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def cli(tmp_path) -> CommandLine:
    return CommandLine(tmp_path)


def linear_line(folder: Path) -> CommandLine:
    """Runs workflows, see `tests.support.linear_run`."""
    return CommandLine(folder, programs.Popen, module="tests.support.linear_run")


@pytest.fixture
def linear(tmp_path) -> CommandLine:
    return linear_line(tmp_path)


@pytest.fixture
def cold_cli(tmp_path) -> CommandLine:
    """Starts Python for each command, for tests of what happens then."""
    return CommandLine(tmp_path, subprocess.Popen)


@pytest.fixture
def until():
    return waiting.until


@pytest.fixture(scope="session")
def replayed(tmp_path_factory):
    """A server whose tools change from path to path."""
    with peers.running(replayed_server(tmp_path_factory.mktemp("replayed") / "notes.txt")) as running:
        yield running


@pytest.fixture
def record(replayed, tmp_path):
    """Records calls at that server in `run.jsonl`."""

    def run(calls=CALLS):
        record_calls(tmp_path / "run.jsonl", replayed.url("/base"), calls)

    return run
