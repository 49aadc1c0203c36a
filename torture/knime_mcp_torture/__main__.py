"""``python -m knime_mcp_torture``: runs the scenarios against a client, and writes down what came of it."""

import argparse
import fnmatch
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.scripted_server import ScriptedServer

from . import scenarios_http, scenarios_protocol
from .client_process import ClientProcess
from .grading import OK, Verdict, grade, score
from .known_clients import KNOWN
from .report import RESULTS, markdown, save, update_readme
from .scenario import Outcome, Scenario

STDIO_SERVER = Path(__file__).with_name("stdio_server.py")
ALL = "all"
_OURS = "knime-mcp"
_AT_ONCE = 3
"""Of the other clients: most of their time they wait until their clock has ended, or until they count as hanging."""


def all_scenarios() -> list[Scenario]:
    return [*scenarios_http.scenarios(), *scenarios_protocol.scenarios()]


def run(scenario: Scenario, client: ClientProcess, *, clock: float) -> Verdict:
    task: dict[str, Any] = {"timeout": clock, "calls": ["bad", "good"]}
    if scenario.script is None:
        task["command"] = [sys.executable, str(STDIO_SERVER), str(scenario.command)]
        return grade(scenario, client.run(task), foreign_requests=0)
    with ScriptedServer() as foreign:
        server = ScriptedServer(scenario.script(foreign.url.removesuffix("/mcp")))
        with server:
            outcome: Outcome = client.run({**task, "url": server.url})
        return grade(scenario, outcome, foreign_requests=len(foreign.requests))


def main() -> int:
    options = _options()
    scenarios = [
        scenario
        for scenario in all_scenarios()
        if not options.only or any(fnmatch.fnmatch(scenario.number, wanted) for wanted in options.only)
    ]
    if options.list:
        for scenario in scenarios:
            print(f"{scenario.number:6} {scenario.title}\n       {scenario.rule} {scenario.section}")
            print(f"       must: {scenario.must[:200]}; must not: {scenario.must_not}")
        return 0
    if options.client == ALL:
        return _run_all()
    known = KNOWN.get(options.client)
    name = options.name or (known.name if known else options.client)
    client = ClientProcess(
        known.command if known else shlex.split(options.client),
        cwd=known.cwd if known else None,
        patience=options.patience,
    )
    verdicts: list[Verdict] = []
    try:
        for scenario in scenarios:
            verdict = run(scenario, client, clock=options.clock)
            verdicts.append(verdict)
            cost = f"{verdict.outcome.seconds:5.1f} s {verdict.outcome.memory:5} MiB"
            print(f"{scenario.number:6} {verdict.kind:9} {cost}  {scenario.title}", flush=True)
            if verdict.kind != OK:
                print(f"{'':30}{verdict.why}", flush=True)
    finally:
        client.close()
    print(", ".join(f"{kind} {count}" for kind, count in score(verdicts).items()))
    if options.save:
        slug = options.client if known else name
        save(RESULTS / f"{slug}.json", name, verdicts, all_scenarios())
        update_readme(all_scenarios())
    if options.markdown:
        options.markdown.write_text(markdown(name, verdicts), "utf-8")
    return 0 if score(verdicts)[OK] == len(verdicts) else 1


def _run_all() -> int:
    """Runs each known client that is there in a process of its own, ours first and alone."""
    there = [slug for slug, client in KNOWN.items() if client.is_there]
    for slug in KNOWN.keys() - set(there):
        print(f"{KNOWN[slug].name}: not installed, left out")

    def run_one(slug: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", __package__, *sys.argv[1:], "--client", slug],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(f"{KNOWN[slug].name}: {''.join(done.stdout.splitlines()[-1:])}", flush=True)
        return done.returncode

    ours = run_one(_OURS)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(run_one, (slug for slug in there if slug != _OURS)))
    return ours


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m knime_mcp_torture", description=__doc__)
    parser.add_argument(
        "--client",
        default=_OURS,
        metavar="COMMAND",
        help=f"a program that takes a task per line; or one of {', '.join(KNOWN)}; or {ALL} of these",
    )
    parser.add_argument("--name", help="its name in the report")
    parser.add_argument("--only", nargs="*", metavar="NUMBER", help="such as 4.* 5.5")
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    parser.add_argument("--save", action="store_true", help="put the verdicts into the table of the README")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a report of this run")
    parser.add_argument("--clock", type=float, default=3.0, help="seconds that the client is given (3)")
    parser.add_argument(
        "--patience", type=float, default=20.0, help="seconds after which no answer is a hang (20)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
