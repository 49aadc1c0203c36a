"""Checks every workflow in local clones with `check_workflow`, and prints what it says: false alarms.

    python -m node_facts.check_workflows FOLDER … [--every]

Each finding about a workflow that KNIME saved is a false alarm, unless the workflow is broken on purpose
(KNIME's tests have some). ``--every`` prints all of them.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from knime_mcp.knwf import KnwfError
from knime_mcp.knwf.workflow_file import read_files
from knime_node_knowledge.commands.node_catalogue import open_catalogue
from knime_node_knowledge.outline_check import WorkflowCheck, check_workflow

from .saved_outlines import outline_of
from .workflows import ARCHIVES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from knime_node_knowledge.catalogue_reader import CatalogueReader

_SETTINGS = ("settings.xml", "workflow.knime")


def main() -> None:
    parser = argparse.ArgumentParser(prog="node_facts.check_workflows", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--every", action="store_true", help="print every finding")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    with open_catalogue(None) as catalogue, catalogue.reading() as reader:
        for name, files in workflows_in(options.folders):
            counts["workflows"] += 1
            try:
                outline = outline_of(read_files(name, files), lambda id_: _is_known(reader, id_, counts))
            except KnwfError as error:
                counts["workflows that cannot be read"] += 1
                print(f"not read: {name}: {error}") if options.every else None
                continue
            _count(check_workflow(reader, outline), counts, name, every=options.every)
    for what, count in sorted(counts.items()):
        print(f"{count:7,} {what}")


def _is_known(reader: CatalogueReader, node_id: str, counts: Counter[str]) -> bool:
    found = reader.node(node_id) is not None
    counts["nodes that are not in the catalogue"] += not found
    return found


def _count(check: WorkflowCheck, counts: Counter[str], name: str, *, every: bool) -> None:
    counts["nodes"] += check.nodes
    counts["nodes whose settings were judged"] += check.settings
    counts["connections that were judged"] += check.connections
    counts["nodes without known settings"] += len(check.not_judged)
    for finding in check.findings:
        kind = "setting" if finding.setting else " ".join(finding.problem.split()[-6:])
        counts[
            f"{finding.severity}: {kind}" if finding.severity == "error" else _warning(finding.problem)
        ] += 1
        if every and finding.severity == "error":
            print(f"{name}: {finding.where}: {finding.setting} {finding.problem} {finding.fix[:150]}")


def _warning(problem: str) -> str:
    return "warning: deprecated" if "deprecated" in problem else "warning: inputs that are not connected"


def workflows_in(folders: list[Path]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The outermost workflows below folders, and in archives there, with their files of settings."""
    for folder in folders:
        tops: set[Path] = set()
        for path in sorted(folder.rglob("workflow.knime"), key=lambda path: (len(path.parts), path)):
            base = path.parent
            if not tops.intersection(base.parents):
                tops.add(base)
                files = {
                    file.relative_to(base).as_posix(): file.read_bytes()
                    for file in base.rglob("*")
                    if file.name.startswith(_SETTINGS) and file.is_file()
                }
                yield base.relative_to(folder).as_posix(), files
        for path in sorted(
            entry for entry in folder.rglob("*") if entry.suffix in ARCHIVES and entry.is_file()
        ):
            yield from _in_archive(path.relative_to(folder).as_posix(), path.read_bytes())


def _in_archive(name: str, data: bytes) -> Iterator[tuple[str, dict[str, bytes]]]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile:
        return
    names = [entry for entry in archive.namelist() if PurePosixPath(entry).name.startswith(_SETTINGS)]
    tops: list[str] = []
    for entry in sorted(names, key=len):
        base = entry.removesuffix("workflow.knime")
        if entry.endswith("workflow.knime") and not any(base.startswith(top) for top in tops):
            tops.append(base)
            files = {other[len(base) :]: archive.read(other) for other in names if other.startswith(base)}
            yield f"{name}!/{base}", files
    for entry in archive.namelist():
        if entry.endswith(ARCHIVES):
            yield from _in_archive(f"{name}!/{entry}", archive.read(entry))


if __name__ == "__main__":
    main()
