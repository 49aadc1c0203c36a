"""Reads the nodes of KNIME's plug-ins: their registrations joined with the descriptions beside the code.

Types of ports, search words and descriptions that the plug-ins do not have come from `shipped_nodes`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from ..node_model import NodeSpec, Origin, SourceKind
from ..query_words import compact, folded
from .node_descriptions import XmlRefusedError, is_node_description, read_node_description
from .plugin_bundles import (
    Bundle,
    PluginXml,
    Registration,
    UnreadableError,
    category_names,
    find_bundles,
    opened,
    read_plugin_xml,
    read_properties,
    shown,
)
from .shipped_nodes import facts_by_id, shipped_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from ..node_model import Port
    from .catalogue_build import Step


_REGISTRIES: Final = ("plugin.xml", "fragment.xml")
_OUT_OF_USE: Final = re.compile(r"\s*[(\[]\s*(?:deprecated|legacy|obsolete)\s*[)\]]\s*", re.IGNORECASE)
_SOURCES: Final = frozenset({"src", "java", "resources", "eclipse", "bin", "classes"})
"""Source and output folders, which contain packages but are not part of package names."""
_NUMBER: Final = re.compile(r"\d+")
_VERSION: Final = re.compile(r"\d+|[^\d.]+")

NO_XML: Final = "describes itself in Java code, which is not read"
NODE_SET: Final = "is a set of nodes that Java code lists, which is not run"
NOT_REGISTERED: Final = "has a description but is not registered in plugin.xml"
NO_PLUGINS: Final = "has no plug-ins in it"
NO_NODES: Final = "has only plug-ins that register no nodes"
OLDER_DUPLICATE: Final = "is there more than once, and the newest version counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A node, file or plug-in that is not in the catalogue."""

    what: str
    where: str
    reason: str  # always in the same words, so that reports can group by it
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.reason}{': ' if self.detail else ''}{self.detail}"


@dataclass(slots=True, kw_only=True)
class PluginNodes:
    nodes: list[NodeSpec] = field(default_factory=list[NodeSpec])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    without_nodes: list[Path] = field(default_factory=list["Path"])  # roots that were named for nothing
    bundles: int = 0
    well_known: int = 0  # nodes that are described by this program, as their classes are no help


def read_plugins(roots: Iterable[Path], *, on_step: Callable[[Step], None] | None = None) -> PluginNodes:
    """Reads the nodes of installed KNIMEs, folders of plug-ins, and plug-ins."""
    bundles = {root: find_bundles(root) for root in roots}
    locations = {path: root for root, paths in bundles.items() for path in paths}
    result = PluginNodes()
    silent = set(locations)  # neither a node nor a reason
    fertile: set[Path] = set()
    categories: dict[str, str] = {}
    found: list[NodeSpec] = []
    for done, (location, root) in enumerate(locations.items(), 1):
        nodes_before = len(found)
        before = nodes_before + len(result.skipped)
        try:
            with opened(location, root=root) as bundle:
                found += _PluginReader(bundle, result, categories).nodes()
                result.bundles += 1
        except UnreadableError as error:
            result.skipped.append(
                Skipped(
                    what=shown(location.name),
                    where=shown(location),
                    reason="is no readable plug-in",
                    detail=str(error),
                )
            )
        if len(found) + len(result.skipped) > before:
            silent.remove(location)
        if len(found) > nodes_before:
            fertile.add(root)
        if on_step is not None:
            on_step(("Reading plug-ins", done, len(locations)))
    result.without_nodes = [root for root in bundles if root not in fertile]
    for root, paths in bundles.items():
        if silent.issuperset(paths):
            reason = NO_NODES if paths else NO_PLUGINS
            result.skipped.append(Skipped(what=shown(root.resolve().name), where=shown(root), reason=reason))
    kept = _without_duplicates(found, result)
    successors = _successors(kept)
    # After all plug-ins, as any of them may name categories and hold successors.
    result.nodes = completed(_finished(node, categories, successors) for node in kept)
    return result


class _PluginReader:
    def __init__(self, bundle: Bundle, result: PluginNodes, categories: dict[str, str]) -> None:
        self._bundle = bundle
        self._result = result
        self._categories = categories
        self._by_file: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name in bundle.files:
            inner = name.rpartition("!/")[2]  # the path inside the inner jar
            if inner.endswith(".xml"):
                self._by_file[inner.rpartition("/")[2]].append((name, inner))

    def nodes(self) -> list[NodeSpec]:
        """The plug-in's nodes. Their category is still a path: other plug-ins may define its names."""
        for what, why in self._bundle.unreadable:
            self._skip(what, "is no readable jar", why)
        registered = self._registered()
        if registered is None:
            return self._all_descriptions()
        self._categories.update(registered.categories)
        for name in registered.node_sets:
            self._skip(name, NODE_SET)
        found: list[NodeSpec] = []
        taken: set[str] = set()
        for registration in registered.nodes:
            file = self._description_of(registration.factory)
            if file is None:
                found += self._from_facts(registration)
                continue
            taken.add(file)
            description = self._described(file, registration.factory)
            if description is not None:
                found.append(self._node(registration, file, description))
        if registered.node_sets:
            # Only Java code lists the nodes of a set, so all unregistered descriptions are taken.
            return found + self._all_descriptions(taken)
        self._note_unregistered(taken)
        return found

    def _registered(self) -> PluginXml | None:
        """The registrations of the plug-in; None if it has neither ``plugin.xml`` nor ``fragment.xml``."""
        texts: dict[str, str] = {}
        if "plugin.properties" in self._bundle.files:
            texts = read_properties(self._bundle.read("plugin.properties"))
        known = [name for name in _REGISTRIES if name in self._bundle.files]
        found = PluginXml()
        for name in known:
            try:
                read_plugin_xml(self._bundle.read(name), texts, found)
            except (XmlRefusedError, UnreadableError) as error:
                self._skip(name, "cannot be read", str(error))
        return found if known else None

    def _description_of(self, factory: str) -> str | None:
        """The file of a factory's description, which has the name of the class and is in its package."""
        package, _, simple = factory.rpartition(".")
        file = f"{simple.rpartition('$')[2]}.xml"
        path = f"{package.replace('.', '/')}/{file}" if package else file
        for name, inner in self._by_file.get(file, ()):
            # In a source checkout the packages begin somewhere below src/.
            if inner == path or inner.endswith(f"/{path}"):
                return name
        return None

    def _from_facts(self, registration: Registration) -> list[NodeSpec]:
        """The node whose description is in its class, if there are facts about that."""
        known = facts_by_id().get(registration.factory)
        if known is None:
            self._skip(registration.factory, NO_XML)
            return []
        self._result.well_known += 1
        return [self._node(registration, "plugin.xml", known)]

    def _all_descriptions(self, taken: Collection[str] = ()) -> list[NodeSpec]:
        """The nodes of all descriptions in the plug-in, for plug-ins without a list of their nodes."""
        found: list[NodeSpec] = []
        for names in self._by_file.values():
            for name, inner in names:
                if name in taken or name in _REGISTRIES or not self._is_description(name):
                    continue
                factory = _class_in(f"{self._bundle.package}/{inner}")
                description = self._described(name, factory)
                if description is not None:
                    found.append(self._node(Registration(factory=factory), name, description))
        return found

    def _note_unregistered(self, taken: set[str]) -> None:
        for file, names in self._by_file.items():
            # By their names, as reading each XML of a plug-in would take long.
            if "Factory" not in file:
                continue
            for name, inner in names:
                if name not in taken and self._is_description(name):
                    self._skip(_class_in(inner), NOT_REGISTERED)

    def _is_description(self, name: str) -> bool:
        try:
            return is_node_description(self._bundle.read(name))
        except UnreadableError as error:
            self._skip(name, "cannot be read", str(error))
            return False

    def _described(self, name: str, factory: str) -> NodeSpec | None:
        try:
            return read_node_description(self._bundle.read(name))
        except (XmlRefusedError, UnreadableError) as error:
            self._skip(factory, "has a description that cannot be read", f"{name} {error}")
            return None

    def _node(self, registered: Registration, file: str, described: NodeSpec) -> NodeSpec:
        name, version, place = self._bundle.name, self._bundle.version, self._bundle.place(file)
        return replace(
            described,
            id=registered.factory,
            subtype=registered.factory,
            version=version or "",
            category=(registered.category_path,),
            deprecated=described.deprecated or registered.deprecated,
            hidden=registered.hidden,
            origin=Origin(kind=SourceKind.KNIME, name=name, version=version, file=place),
        )

    def _skip(self, what: str, reason: str, detail: str = "") -> None:
        where = shown(self._bundle.location)
        self._result.skipped.append(Skipped(what=what, where=where, reason=reason, detail=detail))


def _class_in(inner: str) -> str:
    """The class of a description, from its path: package names begin below the source folder."""
    *folders, file = inner.removesuffix(".xml").split("/")
    for position in range(len(folders), 0, -1):
        name = folders[position - 1]
        if name in _SOURCES or not name.isidentifier():
            return ".".join([*folders[position:], file])
    return ".".join([*folders, file])


def _without_duplicates(found: list[NodeSpec], result: PluginNodes) -> list[NodeSpec]:
    """Removes duplicate factories: of two versions of a plug-in, the newer one is kept."""
    best: dict[str, NodeSpec] = {}
    for node in found:
        other = best.setdefault(node.id, node)
        if other is node:
            continue
        is_newer = _order(node.version) > _order(other.version)
        best[node.id], older = (node, other) if is_newer else (other, node)
        where = older.origin.file or older.origin.name
        result.skipped.append(Skipped(what=older.id, where=where, reason=OLDER_DUPLICATE))
    return list(best.values())


def _order(version: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _VERSION.findall(version))


def _successors(found: list[NodeSpec]) -> dict[str, str]:
    """The only node in use for each key of `_successor_keys`, as KNIME itself does not name successors."""
    in_use: dict[str, list[str]] = defaultdict(list)
    for node in found:
        if not node.deprecated and not node.hidden:
            for key in _successor_keys(node):
                in_use[key].append(node.id)
    return {key: factories[0] for key, factories in in_use.items() if len(factories) == 1}


def _successor_keys(node: NodeSpec) -> tuple[str, str]:
    """Keys that a node shares with its replacement: the name, and the class name without digits."""
    return folded(_OUT_OF_USE.sub(" ", node.name)), "class " + _NUMBER.sub("", node.id).lower()


def _finished(node: NodeSpec, categories: dict[str, str], successors: dict[str, str]) -> NodeSpec:
    known = (successors[key] for key in _successor_keys(node) if key in successors)
    return replace(
        node,
        category=category_names("".join(node.category), categories),
        successor=next(known, None) if node.deprecated else None,
    )


def completed(nodes: Iterable[NodeSpec]) -> list[NodeSpec]:
    """The nodes, with port types and search words added from the facts of the same factory, or else name."""
    return [
        _completed(node, facts_by_id().get(node.id) or _by_name().get(compact(node.name))) for node in nodes
    ]


@cache
def _by_name() -> Mapping[str, NodeSpec]:
    return {compact(node.name): node for node in shipped_nodes() if not node.deprecated and not node.hidden}


def _completed(node: NodeSpec, known: NodeSpec | None) -> NodeSpec:
    if known is None:
        return node
    return replace(
        node,
        keywords=tuple(dict.fromkeys((*node.keywords, *known.keywords))),
        input_ports=_typed(node.input_ports, known.input_ports),
        output_ports=_typed(node.output_ports, known.output_ports),
    )


def _typed(ports: tuple[Port, ...], known: tuple[Port, ...]) -> tuple[Port, ...]:
    """The ports with the types of the known ones, in order. Ports with a type keep it; groups are skipped."""
    types = [(port.type, port.type_id) for port in known if not port.group]
    # Nobody can say then which type is whose.
    if len(types) != sum(not port.group for port in ports):
        return ports
    left = iter(types)
    found: list[Port] = []
    for port in ports:
        kind, type_id = ("", None) if port.group else next(left)
        found.append(port if port.type or not kind else replace(port, type=kind, type_id=type_id))
    return tuple(found)
