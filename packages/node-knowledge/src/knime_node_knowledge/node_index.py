"""The part of a catalogue that is kept in memory: names and summaries of nodes.

This takes a few megabytes for 5,000 nodes. Whole nodes and the full-text index stay in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from .catalogue_reader import per_version
from .node_model import ENGINE_TYPES
from .query_words import compact, folded, stem, words_in

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .catalogue_reader import CatalogueReader
    from .node_model import NodeSpec, NodeSummary, OldName


T = TypeVar("T")


class NodeIndex:
    """The names in one version of a catalogue."""

    def __init__(self, reader: CatalogueReader) -> None:
        self.summaries: dict[int, NodeSummary] = {entry.row: entry for entry in reader.summaries()}
        self.old_names: tuple[OldName, ...] = tuple(reader.old_names())
        self._by_id: dict[str, int] = {}
        self._by_key: dict[str, list[int]] = {}
        self._by_compact: dict[str, list[int]] = {}
        self._old_by_key: dict[str, tuple[str, ...]] = {}
        for old in self.old_names:
            if old.subtype is not None:
                for key in {folded(old.subtype), folded(f"{old.node_type} {old.subtype}")}:
                    self._old_by_key[key] = (*self._old_by_key.get(key, ()), *old.instead)
        self._name_words: dict[int, tuple[str, ...]] = {}
        self._by_type = {(entry.node_type, entry.subtype): row for row, entry in self.summaries.items()}
        for row, entry in self.summaries.items():
            self._by_id[entry.id] = row
            ids = {folded(entry.id), folded(entry.subtype), folded(f"{entry.node_type} {entry.subtype}")}
            # People search for the last part of a class name such as org.knime.base.node.JoinerNodeFactory.
            for key in {folded(entry.name), *ids, folded(entry.id.rpartition(".")[2])}:
                self._by_key.setdefault(key, []).append(row)
            self._by_compact.setdefault(compact(entry.name), []).append(row)

        ours = (entry.name for entry in self.summaries.values() if not is_engines(entry))
        self._stems = {stem(word) for name in ours for word in words_in(name)}

    def is_elsewhere(self, node: NodeSummary, said: Collection[str]) -> bool:
        """Returns whether a node is of the workflow engine, and nothing that was said is its alone.

        *Sort* and *Filter* are called as KNIME's nodes are; *Slack* has a word that none of KNIME's has, and
        is meant where it is said.
        """
        if not is_engines(node):
            return False
        own = {stem(word) for word in words_in(node.name)} - self._stems
        return own.isdisjoint(map(stem, said))

    def row_of(self, node_id: str) -> int | None:
        return self._by_id.get(node_id)

    def by_type(self, node_type: str, subtype: str) -> NodeSummary | None:
        row = self._by_type.get((node_type, subtype))
        return None if row is None else self.summaries[row]

    def subtypes(self, node_type: str) -> tuple[str, ...]:
        return tuple(subtype for kind, subtype in self._by_type if kind == node_type)

    def exact(self, key: str) -> list[NodeSummary]:
        """The nodes with this folded name or id, with or without its spaces."""
        rows = self._by_key.get(key) or self._by_compact.get(key.replace(" ", ""), [])
        return [self.summaries[row] for row in rows]

    def targets(self, name_or_id: str) -> list[NodeSummary]:
        """The nodes with this id or name, as entries of the vocabulary and old names refer to nodes."""
        row = self._by_id.get(name_or_id)
        if row is not None:
            return [self.summaries[row]]
        return self.exact(folded(name_or_id))

    def old(self, key: str) -> list[NodeSummary]:
        """The nodes that replace nodes with this old folded name or id."""
        targets = self._old_by_key.get(key, ())
        return list(dict.fromkeys(entry for target in targets for entry in self.targets(target)))

    def name_words(self, row: int) -> tuple[str, ...]:
        found = self._name_words.get(row)
        if found is None:
            found = self._name_words[row] = tuple(dict.fromkeys(words_in(self.summaries[row].name)))
        return found


def is_engines(node: NodeSummary | NodeSpec) -> bool:
    """Returns whether a node is one of the workflow engine, and not of KNIME."""
    return node.node_type in ENGINE_TYPES and node.id == f"{node.node_type}.{node.subtype}"


def knimes_first(types: Mapping[str, T]) -> dict[str, T]:
    """The types as people see them; programs get the workflow engine's first, as in its own registry."""
    return dict(sorted(types.items(), key=lambda entry: entry[0] in ENGINE_TYPES))


index_of = per_version(NodeIndex)
