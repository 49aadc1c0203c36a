"""Reads workflows in the clones: which settings nodes have there, and which node follows which. Only counts
leave.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from knime_node_knowledge.configuration_check import check_configuration
from knime_node_knowledge.sources.node_descriptions import XmlRefusedError, parse_xml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from xml.etree import ElementTree

    from knime_node_knowledge.node_model import NodeSpec

ARCHIVES: Final = (".knwf", ".knar")
_INTEGERS: Final = frozenset({"xint", "xlong", "xshort", "xbyte"})
_MOST_NEXT: Final = 10
_LEAST_SEEN: Final = 2


@dataclass(slots=True)
class Workflows:
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    workflows: int = 0


def read_workflows(folders: list[Path]) -> Workflows:
    """All workflows below folders: as folders, and in archives, also nested ones."""
    found = Workflows()
    for folder in folders:
        for path in sorted(folder.rglob("workflow.knime")):
            _workflow(path.read_bytes(), lambda name, base=path.parent: _bytes(base / name), found)
        for path in sorted(entry for entry in folder.rglob("*") if entry.suffix in ARCHIVES):
            _archive(path.read_bytes(), found)
    return found


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _archive(data: bytes, found: Workflows) -> None:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile:
        return
    names = set(archive.namelist())

    def read(base: PurePosixPath) -> Callable[[str], bytes | None]:
        return lambda name: archive.read(str(base / name)) if str(base / name) in names else None

    for name in sorted(names):
        if name.endswith("workflow.knime"):
            _workflow(archive.read(name), read(PurePosixPath(name).parent), found)
        elif name.endswith(ARCHIVES):
            _archive(archive.read(name), found)


def _workflow(data: bytes, read: Callable[[str], bytes | None], found: Workflows) -> None:
    content = _tree_of(data)
    if content is None:
        return
    found.workflows += 1
    factories: dict[int, str] = {}
    for entry in _entries(content.get("nodes")):
        file = entry.get("node_settings_file")
        settings = _tree_of(read(file) or b"") if isinstance(file, str) else None
        if settings is not None and isinstance(factory := settings.get("factory"), str):
            found.nodes.append(settings)
            factories[entry.get("id", -1)] = factory
    for entry in _entries(content.get("connections")):
        source, target = (factories.get(entry.get(key, -1)) for key in ("sourceID", "destID"))
        if source is not None and target is not None:
            found.pairs[source, target] += 1


def _entries(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield from (entry for entry in value.values() if isinstance(entry, dict))


def _tree_of(data: bytes) -> dict[str, Any] | None:
    try:
        return _tree(parse_xml(data)) if data else None
    except XmlRefusedError:
        return None


def _tree(element: ElementTree.Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for child in element:
        key = child.get("key")
        if key is not None:
            found[key] = _tree(child) if child.tag.endswith("config") else _value(child)
    return found


def _value(entry: ElementTree.Element) -> Any:
    kind, value = entry.get("type", ""), entry.get("value")
    if entry.get("isnull") == "true" or value is None:
        return None
    try:
        if kind in _INTEGERS:
            return int(value)
        if kind in ("xdouble", "xfloat"):
            return float(value)
    except ValueError:
        return value
    return value == "true" if kind == "xboolean" else value


def neighbours(pairs: Counter[tuple[str, str]], known: set[str]) -> dict[str, dict[str, list[str]]]:
    """For each node the ones that follow it most often (``next``), and that come before it (``prev``)."""
    found: dict[str, dict[str, list[str]]] = {}
    for (source, target), count in sorted(pairs.items(), key=lambda entry: (-entry[1], entry[0])):
        if count >= _LEAST_SEEN and source in known and target in known and source != target:
            for node, side, other in ((source, "next", target), (target, "prev", source)):
                listed = found.setdefault(node, {}).setdefault(side, [])
                if len(listed) < _MOST_NEXT:
                    listed.append(other)
    return found


def places_to_open(spec: NodeSpec, nodes: list[dict[str, Any]]) -> set[str]:
    """The groups of settings in which workflows have keys that the source does not show."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(model := node.get("model"), dict):
            for problem in check_configuration(spec, {"model": model, "variables": {}}).problems:
                head, _, _ = problem.setting.rpartition(".")
                found.add(f"{head}." if head else "")
    return found
