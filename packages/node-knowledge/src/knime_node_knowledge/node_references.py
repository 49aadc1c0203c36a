"""Finds the node that was meant: different case, a ``_NODE`` suffix, old names, ids in the wrong field.

Only unambiguous names are corrected, and always with a warning. For all others similar nodes are suggested.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .node_index import index_of
from .node_search import search
from .query_words import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .catalogue_reader import CatalogueReader
    from .node_index import NodeIndex
    from .node_model import NodeSummary, OldName

SUGGESTIONS: Final = 3
_SUFFIX: Final = "_NODE"
_MOST_COMPARED: Final = 100
_MOST_NAMED: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    node: NodeSummary | None = None  # None if it was not found
    warning: str = ""  # a sentence about the correction; empty without one
    error: str = ""
    hint: str = ""
    suggestions: tuple[NodeSummary, ...] = ()
    valid: tuple[str, ...] = ()  # the subtypes of the type; all types if the type does not exist


def auto_corrected(written: str, meant: str) -> str:
    """The warning about a correction; for the suffix, worded as in the design documents."""
    only_suffix = written.upper() == f"{meant.upper()}{_SUFFIX}"
    how = f"without '{_SUFFIX}' suffix" if only_suffix else f"'{meant}'"
    return f"Auto-corrected: '{written}' → '{meant}'. Please use correct format {how}."


def resolve_type(reader: CatalogueReader, written: str) -> tuple[str | None, str]:
    """Finds a node type by its exact name, in another case, without ``_NODE`` suffix, or by its old name.

    Returns its name in the catalogue, or None, and a warning if the name was corrected.
    """
    known = reader.type_names()
    if written in known:
        return written, ""
    plain = folded(written).replace(" ", "_").upper()
    by_key = {name.upper(): name for name in known}
    old = {
        entry.node_type.upper(): entry.instead[0]
        for entry in index_of(reader).old_names
        if entry.subtype is None and entry.instead
    }
    meant = by_key.get(plain) or old.get(plain) or by_key.get(plain.removesuffix(_SUFFIX))
    if meant is None or meant not in known:
        return None, ""
    return meant, auto_corrected(written, meant)


def resolved_node(reader: CatalogueReader, given: Mapping[str, str]) -> Resolved:
    if given.get("id"):
        return resolve_reference(reader, given["id"])
    return resolve(reader, given.get("node_type", ""), given.get("subtype", ""))


def resolve(reader: CatalogueReader, node_type: str, subtype: str) -> Resolved:
    """Finds a node by type and subtype. The type may be empty if `subtype` is an id or a name."""
    index = index_of(reader)
    exact = index.by_type(node_type, subtype)
    if exact is not None:
        return Resolved(node=exact)
    known_type, corrected = resolve_type(reader, node_type)
    old = _old(index, node_type, subtype)
    if old is not None and old.exact:
        return _renamed(index, old, node_type, subtype)
    if known_type is not None:
        found = _single_node([node for node in _nodes_named(index, subtype) if node.node_type == known_type])
        if found is not None:
            warnings = [corrected]
            if found.subtype != subtype:
                warnings.append(auto_corrected(subtype, found.subtype))
            return Resolved(node=found, warning=" ".join(filter(None, warnings)))
    found = _anywhere(index, node_type, subtype)
    if found is not None:
        written = f"{node_type}.{subtype}" if node_type else subtype
        return Resolved(node=found, warning=auto_corrected(written, f"{found.node_type}.{found.subtype}"))
    return _not_found(reader, node_type, subtype, known_type, old)


def resolve_reference(reader: CatalogueReader, reference: str) -> Resolved:
    """Finds a node by an id, a name, or ``TYPE.SUBTYPE``."""
    index = index_of(reader)
    row = index.row_of(reference)
    if row is not None:
        return Resolved(node=index.summaries[row])
    named = index.exact(folded(reference))
    current = _in_use(named)
    if len(current) == 1:
        return Resolved(node=current[0])
    if current:
        return Resolved(
            error=f"{len(current)} nodes are called so",
            hint=f"Say which by its id: {', '.join(node.id for node in current[:_MOST_NAMED])}.",
            suggestions=tuple(current[:SUGGESTIONS]),
        )
    node_type, _, subtype = reference.rpartition(".")
    return resolve(reader, node_type, subtype)


def _old(index: NodeIndex, node_type: str, subtype: str) -> OldName | None:
    """The entry for an old name; the type may be given by its old or its new name."""
    wanted = subtype.upper()
    fitting = [
        entry for entry in index.old_names if entry.subtype is not None and entry.subtype.upper() == wanted
    ]
    same_type = [entry for entry in fitting if entry.node_type.upper() == node_type.upper()]
    if same_type:
        return same_type[0]
    # Under another type it counts only if it means the same everywhere.
    return fitting[0] if len({entry.instead for entry in fitting}) == 1 else None


def _renamed(index: NodeIndex, old: OldName, node_type: str, subtype: str) -> Resolved:
    row = index.row_of(old.instead[0])
    if row is None:
        return Resolved(error="Node specification not found")
    node = index.summaries[row]
    warnings = [auto_corrected(node_type, node.node_type)] if node_type != node.node_type else []
    if subtype != node.subtype:
        warnings.append(auto_corrected(subtype, node.subtype))
    if old.note:
        warnings.append(old.note)
    return Resolved(node=node, warning=" ".join(warnings))


def _anywhere(index: NodeIndex, node_type: str, subtype: str) -> NodeSummary | None:
    """The node with this id, regardless of the given type; without a type, the only node with this name."""
    row = index.row_of(subtype)
    if row is None and node_type:
        row = index.row_of(f"{node_type}.{subtype}")
    if row is not None:
        return index.summaries[row]
    return None if node_type else _single_node(_nodes_named(index, subtype))


def _nodes_named(index: NodeIndex, written: str) -> list[NodeSummary]:
    """The nodes with this name or subtype, ignoring case, spaces and the suffix."""
    key = folded(written)
    keys = dict.fromkeys((key, key.removesuffix(f" {folded(_SUFFIX)}")))
    return list(dict.fromkeys(node for key in keys for node in index.exact(key)))


def _single_node(nodes: list[NodeSummary]) -> NodeSummary | None:
    current = _in_use(nodes)
    return current[0] if len(current) == 1 else None


def _in_use(nodes: list[NodeSummary]) -> list[NodeSummary]:
    """The nodes that are not deprecated; all nodes if all are deprecated."""
    return [node for node in nodes if not node.deprecated] or nodes


def _not_found(
    reader: CatalogueReader, node_type: str, subtype: str, known_type: str | None, old: OldName | None
) -> Resolved:
    suggestions = _nearest(reader, known_type, node_type, subtype, old)
    shown = ", ".join(f"{node.node_type}.{node.subtype}" for node in suggestions)
    hint = f"Did you mean {shown}? " if suggestions else ""
    if old is not None and old.note:
        hint += f"{old.note.rstrip('.')}. "
    if known_type is None:
        valid = tuple(reader.type_names())
        if node_type:
            hint += f"There is no node type '{node_type[:80]}'; types: {', '.join(valid)}."
        else:
            hint += "No node here has this name or id; search_nodes finds nodes by what they do."
    else:
        valid = index_of(reader).subtypes(known_type)
        hint += f"get_node_types with type_filter '{known_type}' lists its subtypes."
    return Resolved(error="Node specification not found", hint=hint, suggestions=suggestions, valid=valid)


def _nearest(
    reader: CatalogueReader, known_type: str | None, node_type: str, subtype: str, old: OldName | None
) -> tuple[NodeSummary, ...]:
    index = index_of(reader)
    found: dict[int, NodeSummary] = {}
    for target in old.instead if old is not None else ():
        found |= {node.row: node for node in index.targets(target)}
    if known_type is not None:
        # Comparing with thousands of class names would take longer than the search below, and find less.
        names = {entry.upper(): entry for entry in index.subtypes(known_type)[:_MOST_COMPARED]}
        for near in difflib.get_close_matches(subtype.upper(), names, n=SUGGESTIONS, cutoff=0.75):
            node = index.by_type(known_type, names[near])
            if node is not None:
                found.setdefault(node.row, node)
    if len(found) < SUGGESTIONS:
        text = subtype.rpartition(".")[2].removesuffix(_SUFFIX)
        for hit in search(reader, text or node_type, limit=SUGGESTIONS, node_type=known_type).hits:
            found.setdefault(hit.node.row, hit.node)
    if len(found) < SUGGESTIONS and known_type is not None:
        for hit in search(reader, subtype.rpartition(".")[2], limit=SUGGESTIONS).hits:
            found.setdefault(hit.node.row, hit.node)
    return tuple(found.values())[:SUGGESTIONS]
