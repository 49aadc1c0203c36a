"""What things cost, beside the same thing done without us and by others, in one run: `make bench`.

Each group adds its lines to a table; all together become `RESULTS.md`, with the
budgets and how cost grows before them. Nothing is asserted about time.
A group that fails or hangs costs its own figures and no others. `--smoke` only shows that everything runs,
leaves out peers that were not built, and writes nothing.
"""

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

import agent_bytes
import agent_loop
import agent_tools
import audit_cost
import batch
import budgets
import caller_rows
import cold
import columns
import graph
import graph_hostile
import growth
import machine
import node_search
import replay_rate
import warm
from growth import Curve
from processes import HERE
from timing import Table

T = TypeVar("T")
GROUP_SECONDS = 900


#: Title and what measures; growth gives curves instead of adding to a table.
GROUPS: dict[str, tuple[str, Callable[..., None] | None]] = {
    "warm": ("Warm calls", warm.measure),
    "cold": ("Fresh processes and listings", cold.measure),
    "batch": ("Batches", batch.measure),
    "caller": ("Caller over many rows", caller_rows.measure),
    "columns": ("Tool columns", columns.measure),
    "agent-tools": ("Agent: tools", agent_tools.measure),
    "agent-loop": ("Agent: loop", agent_loop.measure),
    "agent-bytes": ("Agent: what is paid for", agent_bytes.measure),
    "audit": ("Audit", audit_cost.measure),
    "replay": ("Replay", replay_rate.measure),
    "graph": ("Graphs", graph.measure),
    "graph-hostile": ("Graphs: hostile expressions", graph_hostile.measure),
    "nodes": ("Node knowledge", node_search.measure),
    "growth": ("How cost grows", None),
}


def limited(name: str, seconds: int) -> None:
    """Ends a group that hangs: raises in the main thread, wherever it waits."""

    def over(*_: object) -> None:
        raise TimeoutError(f"{name} was not done within {seconds} s")

    signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)


def attempt(name: str, work: Callable[[], T]) -> tuple[T | None, str | None]:
    """Runs a group, and gives its result, or why there is none: one that fails ends no others."""
    start = time.perf_counter()
    try:
        limited(name, GROUP_SECONDS)
        return work(), None
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        return None, f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
        print(f"{time.perf_counter() - start:.0f} s", flush=True)


def run(names: Iterable[str], *, smoke: bool, rounds: int) -> tuple[list[Table], list[Curve], list[str]]:
    """Runs groups one after the other: tables, curves, and what failed."""
    tables: list[Table] = []
    curves: list[Curve] | None = None
    failures: list[str] = []
    for name in names:
        title, measure = GROUPS[name]
        print(f"\n{title}", flush=True)
        if measure is None:
            curves, failure = attempt(name, partial(growth.measure, smoke=smoke, rounds=min(rounds, 3)))
        else:
            table = Table(title)
            _, failure = attempt(name, partial(measure, table, smoke=smoke, rounds=rounds))
            if failure:
                table.notes.append(f"**This group failed** and is not complete: {failure}")
            tables.append(table)
        if failure:
            failures.append(f"{title}: {failure}")
    return tables, curves or [], failures


def write(out: Path, about: list[str], tables: list[Table], curves: list[Curve]) -> None:
    """Writes the page, and the picture beside it."""
    head = ["# What things cost", "", "Written by `make bench`. Medians over rounds in which all ways take"]
    head += ["turns; a ratio is the median of the ratios within the rounds.", "", *about, ""]
    has_picture = bool(curves) and growth.plot(curves, out.with_name(growth.PICTURE))
    parts = [
        budgets.markdown(tables, curves),
        *([growth.markdown(curves, has_picture=has_picture)] if curves else []),
    ]
    out.write_text("\n".join([*head, *parts, *(table.markdown() for table in tables)]), encoding="utf-8")
    print(f"written to {out}")


def main() -> int:
    """Measures what is chosen; 1 if a group failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="small counts: shows only that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this one; may be repeated")
    parser.add_argument("--out", type=Path, help=f"default: {HERE.name}/RESULTS.md for a full run")
    options = parser.parse_args()
    about, start = machine.about(), time.perf_counter()
    rounds = 1 if options.smoke else options.rounds
    tables, curves, failures = run(options.group or GROUPS, smoke=options.smoke, rounds=rounds)
    full = not options.smoke and not options.group
    out = options.out or (HERE / "RESULTS.md" if full else None)
    if out is not None:
        write(out, [*about, f"- Duration: {(time.perf_counter() - start) / 60:.0f} minutes"], tables, curves)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
