"""Writes facts about KNIME's nodes from local clones of its public repositories.

    python -m node_facts --clones FOLDER --to FILE

`FOLDER` has one folder per repository, named like it (``OWNER+NAME`` for those of others), checked out, and
beside it a file ``NAME.commit`` with the commit, unless the folder is a clone. Nothing is downloaded,
compiled or run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

from knime_node_knowledge.sources.shipped_nodes import settings_of_line

from .facts_file import PortTypes, write_facts
from .java_classes import JavaIndex
from .node_factories import FactoryReader, Repository, registrations
from .node_facts import fact_of, python_facts
from .successors import successors
from .workflows import neighbours, places_to_open, read_workflows

_LAST: Final = ("knime-filehandling-core", "knime-python-legacy")
"""Repositories whose classes went to others later: those count."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="node_facts", description=__doc__)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--owner", default="knime")
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    sys.setrecursionlimit(20_000)
    repositories = _repositories(options.clones, options.owner)
    folders = [entry.folder for entry in repositories]
    index = JavaIndex(folders)
    types = PortTypes(index, folders)
    reader = FactoryReader(index)
    numbers = {entry.name: number for number, entry in enumerate(repositories)}
    nodes: list[dict[str, Any]] = []
    missing: Counter[str] = Counter()
    categories: dict[str, str] = {}
    registered = registrations(repositories, categories, index)
    found = [factory for entry in registered if (factory := reader.read(entry)) is not None]
    instead = successors(found, index)
    for factory in found:
        fact = fact_of(factory, types, instead, numbers, reader.reader)
        if fact is None:
            missing["no name"] += 1
            continue
        missing["ports unknown"] += "in" not in fact
        nodes.append(fact)
    nodes += python_facts(repositories, types, categories)
    known = {node["id"] for node in nodes}
    for node in nodes:
        if node.get("successor") not in known:
            node.pop("successor", None)
    _learn(nodes, folders)
    header = {
        "format": 1,
        "repositories": [[entry.name, entry.commit] for entry in repositories],
        "types": types.as_json(),
    }
    write_facts(options.to, header, nodes)
    current = sum("deprecated" not in node and "hidden" not in node for node in nodes)
    print(f"{len(nodes)} nodes, {current} of them current; {dict(missing)}")


def _learn(nodes: list[dict[str, Any]], folders: list[Path]) -> None:
    """What workflows in the clones say: neighbours, and where settings are that the sources do not show."""
    seen = read_workflows(folders)
    beside = neighbours(seen.pairs, {node["id"] for node in nodes})
    by_factory: dict[str, list[dict[str, Any]]] = {}
    for settings in seen.nodes:
        by_factory.setdefault(settings["factory"], []).append(settings)
    for node in nodes:
        node |= beside.get(node["id"], {})
        if "settings" in node and node["id"] in by_factory:
            places = places_to_open(settings_of_line(node), by_factory[node["id"]])
            if places:
                node["open"] = sorted({*node.get("open", ()), *places})
    print(f"{seen.workflows} workflows with {len(seen.nodes)} nodes, {len(by_factory)} kinds of them")


def _repositories(clones: Path, owner: str) -> list[Repository]:
    names = sorted(
        (entry.name for entry in clones.iterdir() if entry.is_dir()), key=lambda name: (name in _LAST, name)
    )
    return [
        Repository(
            name.replace("+", "/") if "+" in name else f"{owner}/{name}",
            clones / name,
            _commit(clones / name),
        )
        for name in names
    ]


def _commit(folder: Path) -> str:
    noted = folder.with_name(f"{folder.name}.commit")
    if noted.exists():
        return noted.read_text().strip()
    done = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
