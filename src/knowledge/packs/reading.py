"""Reads spec packs: YAML files of node specifications, with the order of types and old names.

::

    pack: {name: workflow-engine, version: 3.0.0, description: …}
    types: [{name: TRIGGER, description: …, old_names: [TRIGGER_NODE]}]
    old_names:
      - {node_type: AI_AGENT_NODE, subtype: OPENAI_NODE, instead: AI_AGENT.OPENAI_CHATGPT}
      - {node_type: ACTION_NODE, subtype: RUN_CODE, nearest: [ACTION.DATA_TRANSFORMATION], note: …}
    nodes: [ … ]

The format of nodes is described in docs/node-packs.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...yaml_text import Rules, Yaml, YamlError, read
from ..errors import PackError
from ..model import NodeSpec, OldName
from .pack_checks import Fields, Problems
from .pack_nodes import read_node

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LARGEST: Final = 16 * 1024 * 1024
_RULES: Final = Rules(merge_keys=False, most_values=200_000, deepest=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A spec pack, with types and nodes in the order of the file."""

    name: str
    version: str
    types: tuple[str, ...]
    nodes: tuple[NodeSpec, ...]
    old_names: tuple[OldName, ...]


def read_pack(path: Path, *, shown_as: str | None = None) -> Pack:
    """Reads a pack.

    Args:
        path: The file.
        shown_as: The name of the file in errors and origins; the path by default.

    Raises:
        PackError: The file is not a valid pack. The message has all problems with line and key.
        OSError: The file cannot be read.
    """
    shown = shown_as or str(path)
    if path.stat().st_size > _LARGEST:
        raise PackError(f"{shown} has more than {_LARGEST:,} bytes", fix="Split it into several packs.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PackError(f"{shown} is no UTF-8 text (byte {error.start})", fix="Save it as UTF-8.") from None
    return parse_pack(text, file=shown)


def parse_pack(text: str, *, file: str) -> Pack:
    """Reads the text of a pack.

    Args:
        text: The pack.
        file: The name of the file in errors and origins.

    Raises:
        PackError: The text is not a valid pack. The message has all problems with line and key.
    """
    try:
        source = read(text, _RULES)
    except YamlError as error:
        raise _refused(Problems(file, Yaml(problems=error.problems))) from None
    problems = Problems(file, source)
    root = Fields(source.data, (), problems)
    root.allow("pack", "types", "old_names", "nodes")
    head = root.inside("pack")
    head.allow("name", "version", "description")
    name, version = head.text("name", required=True), head.text("version", required=True)
    nodes = tuple(read_node(entry, problems, pack=name, version=version) for entry in root.each("nodes"))
    if not nodes and not problems:
        problems.add((), "the pack has no 'nodes'")
    types, type_names = _types(root, nodes)
    old_names = (*type_names, *_old_names(root, nodes))
    _check_duplicates(nodes, problems)
    _check_references(nodes, problems)
    if problems:
        raise _refused(problems)
    return Pack(name=name, version=version, types=types, nodes=nodes, old_names=old_names)


def _refused(problems: Problems) -> PackError:
    count = len(problems.lines)
    what = f"{problems.file} has {count} problem{'' if count == 1 else 's'}:\n{problems.text()}"
    return PackError(what, fix="The format is described in docs/node-packs.md.")


def _types(root: Fields, nodes: Iterable[NodeSpec]) -> tuple[tuple[str, ...], tuple[OldName, ...]]:
    names: list[str] = []
    old: list[OldName] = []
    for entry in root.each("types"):
        entry.allow("name", "description", "old_names")
        name = entry.text("name", required=True)
        names.append(name)
        old += [OldName(node_type=was, subtype=None, instead=(name,)) for was in entry.texts("old_names")]
    # Declared types come first; then undeclared types, in the order of the nodes.
    return tuple(dict.fromkeys((*names, *(node.node_type for node in nodes)))), tuple(old)


def _old_names(root: Fields, nodes: tuple[NodeSpec, ...]) -> tuple[OldName, ...]:
    known = {node.id for node in nodes}
    found: list[OldName] = []
    for entry in root.each("old_names"):
        entry.allow("node_type", "subtype", "instead", "nearest", "note")
        exact = "instead" in entry
        if exact and "nearest" in entry:
            entry.wrong("nearest", "stands beside 'instead': either it is the same thing or it is not")
        instead = (entry.text("instead", required=True),) if exact else entry.texts("nearest")
        for node_id in instead:
            if node_id and node_id not in known:
                entry.wrong("instead" if exact else "nearest", f"there is no node {node_id} in this pack")
        found.append(
            OldName(
                node_type=entry.text("node_type", required=True),
                subtype=entry.text("subtype", required=True),
                instead=instead,
                exact=exact,
                note=entry.text("note"),
            )
        )
    return tuple(found)


def _check_duplicates(nodes: tuple[NodeSpec, ...], problems: Problems) -> None:
    seen: set[str] = set()
    for index, node in enumerate(nodes):
        if node.id in seen:
            problems.add(("nodes", index), f"{node.id} is in this pack twice")
        seen.add(node.id)


def _check_references(nodes: tuple[NodeSpec, ...], problems: Problems) -> None:
    known = {node.id for node in nodes} | {node.node_type for node in nodes}
    for index, node in enumerate(nodes):
        for position, name in enumerate(node.attached_nodes or ()):
            if name not in known:
                problems.add(
                    ("nodes", index, "attached_nodes", position),
                    f"there is no node or type {name} in this pack",
                )
        if node.successor is not None and node.successor not in known:
            problems.add(("nodes", index, "successor"), f"there is no node {node.successor} in this pack")
