"""Runs the server scenarios of the official MCP conformance suite against `knime-nodes serve`.

Only scenarios that apply: the others ask for tools, prompts and resources of the suite's own example server.
Of `server-stateless` the checks that need such tools are named below; every other check has to succeed. Needs
what `run.py` needs, and builds it in the same place.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conformance import run as suite

SCENARIOS = (
    ("conformance-latest", None, ("server-initialize", "ping", "tools-list", "dns-rebinding-protection")),
    ("conformance-next", "2025-06-18", ("server-initialize", "ping", "tools-list")),
    (
        "conformance-next",
        "2025-11-25",
        ("server-initialize", "ping", "tools-list", "dns-rebinding-protection"),
    ),
    (
        "conformance-next",
        "2026-07-28",
        ("server-stateless", "tools-list", "dns-rebinding-protection", "http-header-validation"),
    ),
)
NEED_TOOLS_OF_THE_SUITE = {
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
}
START_SECONDS = 60


@contextmanager
def served():
    """The server; gives its URL."""
    command = [sys.executable, "-m", "knime_node_knowledge.commands.program", "serve", "--http", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if line.startswith("Serving at "):
                yield line.split()[-1]
                return
        raise SystemExit("the server did not start")
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        process.stderr.close()


def play(url: str, name: str, revision: str | None, scenario: str, folder: Path) -> tuple[int, list[str]]:
    """Plays one scenario; gives how many checks succeeded, and those that did not."""
    results = folder / f"{name}-{revision}-{scenario}"
    command = [*suite.suite_command(name), "server", "--url", url, "--scenario", scenario]
    command += ["--output-dir", str(results)] + (["--spec-version", revision] if revision else [])
    _, said = suite.finish(command)
    checks = [
        (check["id"], check["status"])
        for file in results.rglob("checks.json")
        for check in json.loads(file.read_text("utf-8"))
    ]
    if not checks or not re.search(r"Passed: \d+/\d+", said):
        return 0, [f"the suite said nothing: {said.strip()[-200:]}"]
    wrong = [
        f"{check} ({status})"
        for check, status in checks
        if status in {"FAILURE", "WARNING"} and check not in NEED_TOOLS_OF_THE_SUITE
    ]
    return sum(status == "SUCCESS" for _, status in checks), wrong


def main() -> int:
    """Plays all scenarios; the exit code is 1 if a check did not succeed."""
    suite.build()
    failed = 0
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    try:
        with served() as url:
            planned = [(name, revision, each) for name, revision, found in SCENARIOS for each in found]
            with ThreadPoolExecutor(2) as pool:
                outcomes = pool.map(lambda plan: play(url, *plan, folder), planned)
                for (name, revision, scenario), (passed, wrong) in zip(planned, outcomes, strict=True):
                    title = f"{name} {suite.version_of(name)} {revision or ''} {scenario}"
                    print(f"{'FAIL' if wrong else 'ok  '} {title}: {passed} checks", *wrong, sep="\n     ")
                    failed += bool(wrong)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
