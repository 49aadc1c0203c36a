"""The verdicts as JSON, as a report in Markdown, and as the table of the README."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from .grading import CRASH, FAILED, HANG, INFORMAL, MEANING, MEMORY, OK, Verdict
from .scenario import Scenario

FOLDER = Path(__file__).parent.parent
RESULTS = FOLDER / "results"
README = FOLDER / "README.md"
BEGIN, END = "<!-- results: written by the program -->", "<!-- end of results -->"
GROUPS = {
    1: "connections",
    2: "statuses and redirects",
    3: "JSON",
    4: "event streams",
    5: "sizes and compression",
    6: "messages",
    7: "beginning of a session",
    8: "lists of tools",
    9: "results and schemas",
    10: "logins and other servers",
    11: "processes (stdio)",
}
KINDS = (OK, INFORMAL, FAILED, MEMORY, HANG, CRASH)


def save(file: Path, name: str, verdicts: list[Verdict], scenarios: list[Scenario]) -> None:
    """Writes the verdicts, beside those of earlier runs on other scenarios."""
    rows = json.loads(file.read_text("utf-8"))["scenarios"] if file.exists() else {}
    for verdict in verdicts:
        rows[verdict.scenario.number] = {
            "verdict": verdict.kind,
            "why": verdict.why,
            "seconds": round(verdict.outcome.seconds, 1),
            "memory": verdict.outcome.memory,
        }
    ordered = {scenario.number: rows[scenario.number] for scenario in scenarios if scenario.number in rows}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"client": name, "scenarios": ordered}, indent=1) + "\n", "utf-8")


def markdown(name: str, verdicts: list[Verdict]) -> str:
    lines = [f"# {name}", "", "| | scenario | verdict | s | MiB | |", "|---|---|---|---|---|---|"]
    for verdict in verdicts:
        cost = f"{verdict.outcome.seconds:.1f} | {verdict.outcome.memory}"
        why = verdict.why.replace("|", "\\|").replace("\n", " ")
        lines.append(
            f"| {verdict.scenario.number} | {verdict.scenario.title} | {verdict.kind} | {cost} | {why} |"
        )
    return "\n".join(lines) + "\n"


def update_readme(scenarios: list[Scenario]) -> None:
    """Writes the tables of all saved results into the README."""
    found = [json.loads(file.read_text("utf-8")) for file in sorted(RESULTS.glob("*.json"))]
    found.sort(key=lambda one: -_counts(one)[OK])
    text = README.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    written = README.with_suffix(f".{os.getpid()}")  # as the runs of several clients may end at once
    written.write_text(f"{before}{BEGIN}\n\n{_tables(found, scenarios)}\n{END}{after}", "utf-8")
    written.replace(README)


def _counts(one: dict[str, Any]) -> Counter[str]:
    return Counter(row["verdict"] for row in one["scenarios"].values())


def _tables(found: list[dict[str, Any]], scenarios: list[Scenario]) -> str:
    lines = [
        f"| client | {' | '.join(KINDS)} | longest | most memory |",
        f"|---|{'---|' * len(KINDS)}---|---|",
    ]
    for one in found:
        rows, counts = one["scenarios"].values(), _counts(one)
        numbers = [f"{counts[OK]} of {len(rows)}", *(str(counts[kind]) for kind in KINDS[1:])]
        cost = f"{max(row['seconds'] for row in rows):.0f} s | {max(row['memory'] for row in rows)} MiB"
        lines.append(f"| {one['client']} | {' | '.join(numbers)} | {cost} |")
    lines += ["", *(f"- **{kind}**: {MEANING[kind]}" for kind in KINDS), ""]
    lines += [
        f"| group | scenarios | {' | '.join(one['client'] for one in found)} |",
        f"|---|---|{'---|' * len(found)}",
    ]
    for number, title in GROUPS.items():
        mine = [scenario.number for scenario in scenarios if scenario.number.startswith(f"{number}.")]
        cells = [
            str(sum(one["scenarios"].get(name, {}).get("verdict") == OK for name in mine)) for one in found
        ]
        lines.append(f"| {number} {title} | {len(mine)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
