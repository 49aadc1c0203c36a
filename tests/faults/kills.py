"""Runs that are killed at random moments with SIGKILL, and resumed, against a server that counts.

Run as a script it prints a table, and fails if a row was lost, a call was made twice without having been
named *unknown* first and asked for, or a run did not end::

    python -m tests.faults.kills --trials 200 --seed 24

A trial: a run is killed, its resumption perhaps too, in one of four trials two are started at once; then what
is unknown is asked for again. Each row does something, so the tool may not be called twice.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import asdict
from itertools import cycle, islice
from pathlib import Path

from tests.faults.dask_cluster import clusters
from tests.faults.kill_trials import (
    Agent,
    AgentNode,
    Batch,
    Findings,
    KilledDaskWorkers,
    Node,
    pay,
)
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

KINDS = {
    "threads": (Batch, {}),
    "Dask, the command": (Batch, {"executor": "dask"}),
    "Dask, workers": (KilledDaskWorkers, {"executor": "dask"}),
    "Dask, workers with nannies": (KilledDaskWorkers, {"executor": "dask+nanny"}),
    "Caller node": (Node, {}),
    "agent": (Agent, {}),
    "agent node, four prompts": (AgentNode, {}),
}


def trial(name: str, seed: str, cluster) -> Findings:
    kind, options = KINDS[name]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    dialogue = modern(tools__list=rpc({"tools": [tool("pay", inputSchema=schema)]}), tools__call=pay)
    with tempfile.TemporaryDirectory() as folder, ScriptedServer(dialogue) as server:
        made = kind(Path(folder), random.Random(seed), server, **options)
        if options.get("executor", "").startswith("dask"):
            made.cluster = cluster(options["executor"])
            made.executor = made.cluster.address
        return made.run()


def table(found: dict[str, Findings]) -> str:
    heads = (
        "killed",
        "trials",
        "kills",
        "lost",
        "twice",
        "unknown",
        "unnamed",
        "hung",
        "wrong",
        "s",
    )
    total = Findings()
    for one in found.values():
        total.add(one)
    rows = [heads]
    for name, one in {**found, "all": total}.items():
        counts = [getattr(one, head) for head in heads[1:-1]]
        rows.append((name, *map(str, counts), f"{one.seconds:.0f}"))
    return "\n".join(f"{name:<30}" + "".join(f"{cell:>9}" for cell in cells) for name, *cells in rows)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", default="24")
    parser.add_argument("--only", default="", help="A part of the name of what is killed.")
    parser.add_argument("--kept", type=Path, help="A file with a line per trial, to go on from.")
    options = parser.parse_args()
    names = [name for name in KINDS if options.only in name]
    found = {name: Findings() for name in names}
    done = set()
    if options.kept and options.kept.exists():
        for line in options.kept.read_text().splitlines():
            kept = json.loads(line)
            done.add(kept["seed"])
            found[kept["killed"]].add(Findings(**kept["found"]))
    try:
        with clusters() as cluster:
            for number, name in enumerate(islice(cycle(names), options.trials)):
                seed = f"{options.seed}-{number}"
                if seed in done:
                    continue
                seen = trial(name, seed, cluster)
                found[name].add(seen)
                for detail in seen.details:
                    print(f"{name}, seed {seed}: {detail}", flush=True)
                if options.kept:
                    with options.kept.open("a") as file:
                        print(json.dumps({"seed": seed, "killed": name, "found": asdict(seen)}), file=file)
    finally:  # also if somebody stops it
        print(table(found), flush=True)
    return 0 if all(one.is_good for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
