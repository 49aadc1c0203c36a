"""A Dask cluster of processes that can be killed, and that end with the process that began them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
# Somebody may kill the script that kills: nothing is to stay behind.
TIED = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


class Cluster:
    """A Dask scheduler and two workers, as processes that can be killed."""

    def __init__(self, folder: Path, *, nanny: bool) -> None:
        self._folder, self._nanny = folder, "--nanny" if nanny else "--no-nanny"
        self._workers: list[subprocess.Popen[bytes]] = []
        self._scheduler = self._begun(
            "dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", "s.json"
        )
        file = folder / "s.json"
        while not file.exists() or not file.read_text().endswith("}"):
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"].replace("tcp://", "dask://")

    def _begun(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *TIED,
                sys.executable,
                "-m",
                f"distributed.cli.{name}",
                "--host",
                "127.0.0.1",
                "--no-dashboard",
                *options,
            ],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(SRC)},
            start_new_session=True,
        )

    def complete(self) -> None:
        """Waits until there are two workers, and starts those that are not there."""
        from distributed import Client

        self._workers = [worker for worker in self._workers if worker.poll() is None]
        while len(self._workers) < 2:
            options = ("--scheduler-file", "s.json", "--no-dashboard", "--nthreads", "2", self._nanny)
            self._workers.append(self._begun("dask_worker", *options))
        with Client(scheduler_file=str(self._folder / "s.json"), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=600)

    def worker_pids(self) -> list[int]:
        """The processes that make calls: those of nannies' children, or the workers themselves."""
        if self._nanny == "--no-nanny":
            return [worker.pid for worker in self._workers]
        return spawned({worker.pid for worker in self._workers})

    def close(self) -> None:
        for process in (*self._workers, self._scheduler):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def spawned(parents: set[int]) -> list[int]:
    """The processes of multiprocessing that these processes have started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    found = (line.split(None, 2) for line in listed.stdout.splitlines())
    return [int(pid) for pid, parent, args in found if int(parent) in parents and "spawn_main" in args]


@contextmanager
def clusters():
    """Makes clusters as they are needed."""
    with ExitStack() as stack:
        made: dict[str, Cluster] = {}

        def cluster(kind: str) -> Cluster:
            if kind not in made:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                made[kind] = Cluster(folder, nanny="nanny" in kind)
                stack.callback(made[kind].close)
            made[kind].complete()
            return made[kind]

        yield cluster
