"""Runs the official MCP conformance suite against our client: `make conformance`.

Two releases of the suite, the client scenarios of each in several revisions of the protocol, one process per
scenario (the suite's own way to run many ignores exit codes and timeouts). A warning is a failure.
`expected_failures.yaml` says what fails today and why; a failure that it does not name fails the run, and so
does a success where it expects a failure. Needs the Node of `make peers`; the suite goes to
`.peers/conformance`.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.peers import build_peers as peers  # noqa: E402 - needs the line above when run as a script

HOME = peers.ROOT / "conformance"
NODE_PROJECT = HERE / "node"
BASELINE = HERE / "expected_failures.yaml"
SCENARIO_SECONDS = 30
ANSI = re.compile(r"\x1b\[[0-9;]*m")
LISTED = re.compile(r"^  - (\S+) \[([^\]]*)\]$")
TOTAL = re.compile(r"^Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings", re.MULTILINE)


@dataclass(frozen=True)
class Leg:
    """Scenarios of one release of the suite, in one revision of the protocol.

    Attributes:
        suite: Name of the npm alias.
        revision: What the suite is told to speak; None leaves it to each scenario.
    """

    suite: str
    revision: str | None = None

    @property
    def title(self) -> str:
        return f"{self.suite} {version_of(self.suite)}, {self.revision or 'all scenarios as they are'}"


LEGS = (
    Leg("conformance-latest"),
    Leg("conformance-next"),
    Leg("conformance-next", "2026-07-28"),
    Leg("conformance-next", "2025-11-25"),
    Leg("conformance-next", "2025-06-18"),
    Leg("conformance-next", "2025-03-26"),
)


@dataclass(frozen=True)
class Outcome:
    """What came of one scenario.

    Attributes:
        passed: Strictly: exit code, at least one success, no failure, no warning, not skipped.
        checks: ``passed/all``.
        wrong: The checks that did not succeed, with the suite's own words.
        client: The client's last words.
    """

    scenario: str
    passed: bool
    checks: str
    wrong: tuple[str, ...]
    client: str


def version_of(suite: str) -> str:
    """The pinned version of an npm alias."""
    pins = json.loads((NODE_PROJECT / "package.json").read_text("utf-8"))["dependencies"]
    return pins[suite].rpartition("@")[2]


def build() -> None:
    """Make `.peers/conformance` what the pins say; does nothing if it is that already."""
    if not peers.is_fresh("node"):
        sys.exit("Node is missing or outdated: run `make peers`")
    stamp = "".join(file.read_text("utf-8") for file in sorted(NODE_PROJECT.iterdir()))
    mark = HOME / "stamp.txt"
    with peers._alone():
        if mark.is_file() and mark.read_text("utf-8") == stamp:
            return
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir()
        peers._npm_ci(HOME, NODE_PROJECT)
        mark.write_text(stamp, "utf-8")


def environment() -> dict[str, str]:
    """Our environment with Node first on the path."""
    path = os.pathsep.join([str(peers.node().parent), os.environ.get("PATH", os.defpath)])
    return os.environ | {"PATH": path}


def suite_command(suite: str) -> list[str]:
    return [str(peers.node()), "--no-deprecation", str(HOME / "node_modules" / suite / "dist" / "index.js")]


def scenarios(leg: Leg) -> list[str]:
    """The client scenarios of a leg, as the suite lists them."""
    done = subprocess.run(
        [*suite_command(leg.suite), "list"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        check=True,
    )
    _, _, clients = done.stdout.partition("Client scenarios")
    clients = clients.partition("\n\n")[0]  # other roles follow
    listed = [match for line in clients.splitlines() if (match := LISTED.match(line))]
    assert listed, "the suite's list has another form than expected"
    return [
        name
        for name, revisions in (match.groups() for match in listed)
        if leg.revision is None or leg.revision in revisions.split(",")
    ]


def play(leg: Leg, scenario: str) -> Outcome:
    """Play one scenario in a process of its own."""
    # The suite splits the command at spaces, and a checkout may lie in a folder with one.
    client = " ".join(os.path.relpath(path, HOME.resolve()) for path in (sys.executable, HERE / "client.py"))
    results = HOME / "results" / f"{leg.suite}-{leg.revision or 'any'}-{scenario.replace('/', '-')}"
    shutil.rmtree(results, ignore_errors=True)
    command = [*suite_command(leg.suite), "client", "--scenario", scenario, "--output-dir", str(results)]
    command += ["--command", client, "--timeout", str(SCENARIO_SECONDS * 1000)]
    command += ["--spec-version", leg.revision] if leg.revision else []
    code, said = finish(command)
    if code is None:
        return Outcome(scenario, False, "-", ("neither suite nor client ended",), last_words(results))
    text = ANSI.sub("", said)
    total = TOTAL.search(text)
    checks = f"{total[1]}/{total[2]}" if total else "-"
    made = [check for file in results.rglob("checks.json") for check in json.loads(file.read_text("utf-8"))]
    wrong = [
        f"{check['id']} ({check['status']}): {check.get('errorMessage') or check.get('description', '')}"
        for check in made
        if check["status"] in {"FAILURE", "WARNING"}
    ]
    if not any(check["status"] == "SUCCESS" for check in made):
        # The suite itself calls a scenario passed whose checks were all skipped.
        skipped = sum(check["status"] == "SKIPPED" for check in made)
        wrong.append(f"no check succeeded, {skipped} were skipped")
    if "SKIPPED: scenario" in text:
        wrong.append("the suite skipped it")
    if code and not wrong:
        wrong.append(f"exit code {code}: " + " / ".join(text.strip().splitlines()[-3:]))
    passed = code == 0 and not wrong and total is not None
    return Outcome(scenario, passed, checks, tuple(wrong), last_words(results))


def finish(command: list[str]) -> tuple[int | None, str]:
    """Run a command in a process group of its own; exit code (None if it was killed) and all that it said.

    The suite kills a client that takes too long only as far as the shell around it, and then waits for it.
    """
    process = subprocess.Popen(
        command,
        cwd=HOME,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=SCENARIO_SECONDS + 10)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return None, said


def last_words(results: Path) -> str:
    """The end of what the client said to standard error."""
    return "\n".join(file.read_text("utf-8").strip() for file in results.rglob("stderr.txt"))[-600:]


def expected_failures(leg: Leg) -> dict[str, str]:
    """Scenario -> reason, for one leg."""
    entries = yaml.safe_load(BASELINE.read_text("utf-8"))["expected_failures"]
    for entry in entries:
        assert set(entry) <= {"suite", "revision", "scenario", "reason"}, entry
        assert entry["reason"].strip(), f"{entry['scenario']} has no reason"
    return {
        entry["scenario"]: entry["reason"]
        for entry in entries
        if entry["suite"] == version_of(leg.suite) and entry.get("revision", leg.revision) == leg.revision
    }


def run_leg(leg: Leg, wanted: Callable[[str], bool], workers: int) -> tuple[int, list[str]]:
    """Run a leg and print its table; the number of scenarios, and what was not as expected."""
    names = [name for name in scenarios(leg) if wanted(name)]
    known = expected_failures(leg)
    print(f"\n{leg.title}", flush=True)
    surprises: list[str] = []
    passed = 0
    with ThreadPoolExecutor(workers) as pool:
        for outcome in pool.map(lambda name: play(leg, name), names):
            passed += outcome.passed
            match outcome.passed, outcome.scenario in known:
                case True, False:
                    verdict = "pass"
                case False, True:
                    verdict = "fail, as expected"
                case True, True:
                    verdict = "PASS, but a failure was expected"
                case _:
                    verdict = "FAIL"
            print(f"  {outcome.scenario:45} {outcome.checks:>7}  {verdict}", flush=True)
            if verdict.startswith(("FAIL", "PASS")):
                surprises.append(f"{leg.title}: {outcome.scenario}: {verdict}")
                for line in outcome.wrong:
                    print(f"      {line}")
                if outcome.client:
                    print("      client: " + outcome.client.replace("\n", "\n              "), flush=True)
    print(f"  {passed} of {len(names)} passed", flush=True)
    return len(names), surprises


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every scenario came out as the baseline says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", metavar="REGEX", default="", help="scenarios whose name this finds")
    parser.add_argument(
        "--leg",
        type=int,
        choices=range(1, len(LEGS) + 1),
        help="one of: " + ", ".join(f"{number} = {leg.title}" for number, leg in enumerate(LEGS, 1)),
    )
    parser.add_argument("--workers", type=int, default=2, help="scenarios at a time")
    options = parser.parse_args(arguments)
    build()
    started = time.monotonic()
    chosen = LEGS if options.leg is None else (LEGS[options.leg - 1],)
    results = [
        run_leg(leg, lambda name: re.search(options.only, name) is not None, options.workers)
        for leg in chosen
    ]
    surprises = [each for _, found in results for each in found]
    count = sum(number for number, _ in results)
    print(f"\n{count} scenarios in {time.monotonic() - started:.0f} s, {len(surprises)} not as expected")
    for each in surprises:
        print(f"  {each}")
    return 1 if surprises or not count else 0


if __name__ == "__main__":
    sys.exit(main())
