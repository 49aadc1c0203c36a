"""Builds a catalogue from all of its sources, and reports which nodes were left out and why.

It is written to a new file, which replaces the old one when it is complete.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sqlite3
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.system import replace_file, sync_folder
from knime_mcp.version import VERSION

from ..catalogue_file import (
    APPLICATION_ID,
    FIELDS,
    SCHEMA_VERSION,
    TABLES,
    CatalogueError,
    checksum,
    packed,
    to_json,
)
from ..node_model import CatalogueOrigin, SourceKind, SourceSummary
from ..packs import own_packs
from ..query_words import folded, identifiers, spellings, words_in
from ..word_meanings import foreign_words
from .knime_plugins import PluginNodes, Skipped, read_plugins
from .phrase_tables import phrase_tables
from .plugin_bundles import shown
from .spec_packs import Pack, read_pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..catalogue_reader import Catalogue
    from ..node_model import NodeSpec, OldName


_MOST_REASONS: Final = 3
_KNIMES_BASE: Final = "org.knime.base."
"""How the factories of the plug-in begin that is in every installed KNIME."""
_STAND_INS: Final = "knime-basics"
"""The pack of our summaries: nodes of it alone are those whose sources are not public."""
_FACTS: Final = "KNIME's nodes"


_SHORTEST_SPELLED: Final = 4
_SHORTEST_SAID: Final = 7
_OFTEN: Final = 2
"""Of what people say, words as long as this and in so many phrases are found when misspelled. Others are
often a letter away from another right word, in one of four languages."""

_SPELLED_FIELDS: Final = 3
"""The number of first fields (names, aliases, categories) whose words are also found when misspelled."""

_DRAFT: Final = ".knime-mcp-catalogue."
_LONGEST_BUILD: Final = 3600.0
Step = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    path: Path
    origin: CatalogueOrigin
    plugins: PluginNodes
    kept: int  # nodes that an earlier catalogue had
    seconds: float
    size: int

    def reasons(self) -> dict[str, tuple[Skipped, ...]]:
        """The skipped nodes by reason, the most frequent reason first."""
        skipped = self.plugins.skipped
        counts = Counter(entry.reason for entry in skipped)
        return {
            reason: tuple(entry for entry in skipped if entry.reason == reason)
            for reason, _ in counts.most_common()
        }


def build_catalogue(
    path: Path,
    *,
    plugins: Sequence[Path] = (),
    packs: Sequence[Path] = (),
    with_own_packs: bool = True,
    further: Sequence[NodeSpec] = (),
    stand_ins: Sequence[NodeSpec] = (),
    earlier: Catalogue | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> BuildReport:
    """Builds a catalogue. The file is replaced only once the new catalogue is complete.

    `plugins` are installed KNIMEs, folders of plug-ins, or plug-ins. A pack with the name of an included pack
    replaces that pack. `further` are nodes that come along, such as this extension's. The nodes of an
    `earlier` catalogue stay, unless their source is read anew; `stand_ins` are for where KNIME's own nodes
    are in neither. A source that was named but has no nodes is an error.
    """
    begin = time.perf_counter()
    read = _read_packs(packs, with_own_packs)
    found = read_plugins(plugins, on_step=on_step) if plugins else PluginNodes()
    named = [*(node for pack in read for node in pack.nodes), *further, *found.nodes]
    kept, old_names = _kept(earlier, named, plugins) if earlier is not None else ([], [])
    nodes = [*named, *kept]
    if not any(node.id.startswith(_KNIMES_BASE) for node in nodes):
        known = {node.id for node in nodes}
        nodes += (node for node in stand_ins if node.id not in known)
    if found.without_nodes or not nodes:
        where = ", ".join(map(shown, found.without_nodes)) or "the sources"
        reasons = [
            entry for entry in found.skipped if entry.where.startswith(tuple(map(shown, found.without_nodes)))
        ]
        why = "".join(f". {entry}" for entry in reasons[:_MOST_REASONS])
        raise CatalogueError(
            f"There are no nodes in {where}{why}",
            fix="Name the folder of an installed KNIME (with 'plugins' in it), or a folder of plug-ins.",
        )
    types = [name for pack in read for name in pack.types]
    types += (node.node_type for node in kept if node.origin.kind is SourceKind.SPEC_PACK)
    origin = write_catalogue(
        path,
        nodes,
        type_order=tuple(dict.fromkeys(types)),
        old_names=dict.fromkeys([*(name for pack in read for name in pack.old_names), *old_names]),
        on_step=on_step,
    )
    return BuildReport(
        path=path,
        origin=origin,
        plugins=found,
        kept=len(kept),
        seconds=time.perf_counter() - begin,
        size=path.stat().st_size,
    )


def _kept(
    earlier: Catalogue, named: Sequence[NodeSpec], roots: Sequence[Path]
) -> tuple[list[NodeSpec], list[OldName]]:
    """What stays of an earlier catalogue: nodes of sources that were not read anew, and their old names."""
    anew = {(node.origin.kind, node.origin.name) for node in named}
    taken = {key for node in named for key in _keys(node)}
    folders = tuple(f"{root.absolute()}{os.sep}" for root in roots)

    def stays(node: NodeSpec) -> bool:
        origin = node.origin
        # A plug-in that was removed from an installation is in no list of what was read.
        gone = origin.kind is SourceKind.KNIME and str(Path(origin.file or "").absolute()).startswith(folders)
        return not gone and (origin.kind, origin.name) not in anew and taken.isdisjoint(_keys(node))

    with earlier.reading() as reader:
        nodes = [node for node in reader.nodes() if not _is_stand_in(node) and stays(node)]
        known = {name for node in nodes for name in (node.id, node.node_type)}
        return nodes, [old for old in reader.old_names() if known.issuperset(old.instead)]


def _is_stand_in(node: NodeSpec) -> bool:
    return node.origin.kind is SourceKind.FACTS or node.origin.name == _STAND_INS


def _read_packs(packs: Sequence[Path], with_own: bool) -> list[Pack]:
    own = [read_pack(path, shown_as=f"packs/{path.name}") for path in own_packs()] if with_own else []
    given = [read_pack(path) for path in packs]
    names = {pack.name for pack in given}
    # A pack that is given takes the place of ours with its name.
    return [*(pack for pack in own if pack.name not in names), *given]


def write_catalogue(
    path: Path,
    nodes: Iterable[NodeSpec],
    *,
    type_order: Sequence[str] = (),
    old_names: Iterable[OldName] = (),
    on_step: Callable[[Step], None] | None = None,
) -> CatalogueOrigin:
    """Writes a catalogue. An existing one stays readable until the new one is complete on disk.

    The types in `type_order` come first, and their nodes keep their order; others are sorted by name.
    """
    tell: Callable[[Step], None] = on_step or (lambda _: None)
    ordered = _in_order(list(nodes), type_order)
    _refuse_duplicates(ordered)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path.parent)
    # In the same folder, as only there a file can take the place of another at once.
    handle, name = tempfile.mkstemp(prefix=_DRAFT, dir=path.parent)
    os.close(handle)
    new = Path(name)
    try:
        try:
            with contextlib.closing(sqlite3.connect(new)) as db:
                origin = _fill(db, ordered, list(old_names), tell)
        except sqlite3.OperationalError as error:  # the disk is full, or broken
            raise OSError(errno.EIO, str(error), str(path)) from None
        # A catalogue is for everybody on the machine; temporary files are for their owner.
        new.chmod(0o644)
        with new.open("rb+") as file:
            file.write(checksum(file).to_bytes(4, "little"))
            file.flush()
            # Before it takes its name, so that a power failure leaves the old catalogue or the new one.
            os.fsync(file.fileno())
        _put_in_place(new, path)
    finally:
        new.unlink(missing_ok=True)
    return origin


def _remove_abandoned(folder: Path) -> None:
    """Removes the unfinished files of builds that were killed."""
    for draft in folder.glob(f"{_DRAFT}*"):
        with contextlib.suppress(OSError):  # another process was faster
            if time.time() - draft.stat().st_mtime > _LONGEST_BUILD:
                draft.unlink()


def _in_order(nodes: list[NodeSpec], type_order: Sequence[str]) -> list[NodeSpec]:
    first = {name: position for position, name in enumerate(type_order)}
    last = len(first)

    def key(entry: tuple[int, NodeSpec]) -> tuple[Any, ...]:
        position, node = entry
        known = first.get(node.node_type)
        if known is not None:
            return known, "", position, "", ""
        return last, node.node_type, node.deprecated, folded(node.name), node.id

    return [node for _, node in sorted(enumerate(nodes), key=key)]


def _refuse_duplicates(nodes: list[NodeSpec]) -> None:
    seen: dict[tuple[str, ...], NodeSpec] = {}
    for node in nodes:
        for key in _keys(node):
            other = seen.setdefault(key, node)
            if other is not node:
                where, there = (found.origin.file or found.origin.name for found in (other, node))
                raise CatalogueError(
                    f"Two nodes are called {'.'.join(key)}: in {where} and in {there}",
                    fix="Build the catalogue with one of the two sources, or rename one.",
                )


def _keys(node: NodeSpec) -> tuple[tuple[str, ...], ...]:
    """What may be in a catalogue only once."""
    return (node.id,), (node.node_type, node.subtype)


def _fill(
    db: sqlite3.Connection, nodes: list[NodeSpec], old_names: list[OldName], tell: Callable[[Step], None]
) -> CatalogueOrigin:
    # No other process uses the new file: it needs no journal, and is synced only once, at the end.
    db.executescript("PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
    db.executescript(TABLES)
    content = hashlib.sha256()
    words: set[str] = set()
    for row, node in enumerate(nodes, 1):
        body = packed(node)
        # Of each node's own, so that the end of one and the beginning of the next cannot be mistaken.
        content.update(hashlib.sha256(body).digest())
        _add_node(db, row, node, body)
        keys = identifiers(" ".join(entry.name for entry in node.configurations))
        db.executemany("INSERT INTO settings VALUES (?, ?)", [(key, row) for key in sorted(keys)])
        texts = _texts(node)
        db.execute("INSERT INTO texts VALUES (?, ?, ?, ?, ?, ?)", (row, *texts))
        for text in texts[:_SPELLED_FIELDS]:
            words.update(w for w in text.split() if len(w) >= _SHORTEST_SPELLED and w.isalpha())
        tell(("Writing nodes", row, len(nodes)))
    for entry in old_names:
        values = (entry.node_type, entry.subtype, json.dumps(entry.instead), entry.exact, entry.note)
        content.update(repr(values).encode())
        db.execute("INSERT INTO old_names VALUES (?, ?, ?, ?, ?)", values)
    tell(("Indexing", 0, 2))
    # The index has no texts of its own: it is made of those in `texts`.
    db.execute("INSERT INTO search (search) VALUES ('rebuild')")
    db.execute("INSERT INTO search (search) VALUES ('optimize')")
    phrases, asked = phrase_tables(nodes)
    db.executemany("INSERT INTO phrases VALUES (?, ?, ?)", phrases)
    db.executemany("INSERT INTO asked VALUES (?, ?, ?)", asked)
    tell(("Indexing", 1, 2))
    said = Counter(word for *_, phrase in phrases for word in folded(phrase).split())
    often = (*(word for word, times in said.items() if times >= _OFTEN), *map(folded, foreign_words()))
    words.update(word for word in often if len(word) >= _SHORTEST_SAID and word.isalpha())
    pairs = sorted({(key, word) for word in words for key in spellings(word)})
    db.executemany("INSERT INTO spelling VALUES (?, ?)", pairs)
    subtypes: dict[str, list[str]] = {}
    for node in nodes:
        subtypes.setdefault(node.node_type, []).append(node.subtype)
    types = [(name, json.dumps(found, ensure_ascii=False)) for name, found in subtypes.items()]
    db.executemany("INSERT INTO types (name, subtypes) VALUES (?, ?)", types)
    origin = _origin(nodes, content.hexdigest())
    db.execute("INSERT INTO meta VALUES (?)", (json.dumps(to_json(origin)),))
    db.executescript(
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; ANALYZE; "
    )
    db.commit()
    tell(("Indexing", 2, 2))
    return origin


def _add_node(db: sqlite3.Connection, row: int, node: NodeSpec, body: bytes) -> None:
    db.execute(
        "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            row,
            node.id,
            node.node_type,
            node.subtype,
            node.name,
            " / ".join(node.category),
            node.short_description,
            node.deprecated,
            node.successor,
            body,
        ),
    )
    sides = {"input": node.input_ports, "output": node.output_ports}
    db.executemany(
        "INSERT INTO ports VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (row, side, position, port.type, port.type_id, port.optional, port.group)
            for side, ports in sides.items()
            for position, port in enumerate(ports)
        ],
    )


def _texts(node: NodeSpec) -> tuple[str, ...]:
    """The words of the node for each of `FIELDS`."""
    # Facts have the keys of settings, also hidden ones: nobody asks for a node by these.
    parameters = () if node.origin.kind is SourceKind.FACTS else node.parameters
    ports = (*node.input_ports, *node.output_ports)
    runtime = (*node.input_params, *node.output_params)
    fields = {
        "name": [node.name, node.subtype.rpartition(".")[2]],
        "aliases": [*node.aliases, *node.keywords, *node.tags],
        "category": [*node.category, node.node_type],
        "parameters": [
            *(text for p in parameters for text in (p.name, p.label)),
            *(text for p in parameters for o in p.options for text in (str(o.value), o.label)),
            *(p.name for p in (*ports, *runtime)),
        ],
        "description": [
            node.short_description,
            node.description,
            *(p.description for p in node.parameters),
            *(p.description for p in ports),
            *(p.description for p in runtime),
            *(view.description for view in node.views),
        ],
    }
    return tuple(" ".join(words_in(" ".join(fields[field]))) for field in FIELDS)


def _source(node: NodeSpec) -> tuple[SourceKind, str, str | None]:
    origin = node.origin
    if origin.kind is SourceKind.FACTS:  # of dozens of plug-ins, which each answer would name
        return origin.kind, _FACTS, None
    return origin.kind, origin.name, origin.version


def _origin(nodes: list[NodeSpec], content: str) -> CatalogueOrigin:
    counts = Counter(_source(node) for node in nodes)
    sources = [
        SourceSummary(kind=kind, name=name, version=version, nodes=count)
        for (kind, name, version), count in counts.items()
    ]
    return CatalogueOrigin(
        version=content[:12],
        built_at=datetime.now(UTC).isoformat(timespec="seconds"),
        built_by=VERSION,
        nodes=len(nodes),
        sources=tuple(sorted(sources, key=lambda source: (source.kind, source.name, source.version or ""))),
    )


def _put_in_place(new: Path, path: Path) -> None:
    try:
        replace_file(new, path)
    except PermissionError as error:
        raise CatalogueError(
            f"{path} cannot be replaced: {error.strerror}",
            fix="Stop the programs that read it, or build to another file with --out.",
        ) from None
    # The name itself is in the folder, which is written apart from the file.
    sync_folder(path.parent)
