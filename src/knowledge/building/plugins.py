"""Makes nodes of KNIME's plug-ins: what they register, joined with the descriptions beside the code."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ..model import NodeSpec, Origin, SourceKind
from ..schema import folded
from .bundles import Bundle, UnreadableError, find_bundles, inner_names, opened
from .class_files import ClassFileError
from .java_descriptions import read_class, superclass_of
from .node_descriptions import NodeDescription, is_node_description, read_node_description
from .plugin_xml import PluginXml, Registration, read_plugin_xml, read_properties
from .safe_xml import XmlRefusedError
from .well_known import description_by_class, with_known_types

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

_REGISTRIES: Final = ("plugin.xml", "fragment.xml")
_OUT_OF_USE: Final = re.compile(r"\s*[(\[]\s*(?:deprecated|legacy|obsolete)\s*[)\]]\s*", re.IGNORECASE)
_MOST_ANCESTORS: Final = 8
_SOURCES: Final = frozenset({"src", "java", "resources", "eclipse", "bin", "classes"})
"""Folders that packages begin in, rather than packages."""
_NUMBER: Final = re.compile(r"\d+")
_VERSION: Final = re.compile(r"\d+|[^\d.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something that is not in the catalogue.

    Attributes:
        what: The node, file or plug-in.
        where: The plug-in or file it is in.
        reason: Why, the same words for the same reason.
        detail: What is particular about this one.
    """

    what: str
    where: str
    reason: str
    detail: str = ""


NO_XML: Final = "describes itself in Java code that cannot be read without running it"
NODE_SET: Final = "is a set of nodes that Java code lists, which is not run"
NOT_REGISTERED: Final = "has a description but is not registered in plugin.xml"
OLDER_TWIN: Final = "is there more than once, and the newest version counts"


@dataclass(slots=True, kw_only=True)
class PluginNodes:
    """What was found in plug-ins.

    Attributes:
        nodes: The nodes.
        skipped: What was not taken.
        bundles: How many plug-ins were read.
        from_code: How many nodes were described by constants in compiled code, which tell no options.
        well_known: How many nodes are described in this program's words, as their classes tell nothing.
    """

    nodes: list[NodeSpec] = field(default_factory=list[NodeSpec])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    bundles: int = 0
    from_code: int = 0
    well_known: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A node that was read, before categories and successors are known."""

    factory: str
    description: NodeDescription
    registration: Registration | None
    origin: Origin


def read_plugins(roots: Iterable[Path], *, on_step: Callable[[int, int], None] | None = None) -> PluginNodes:
    """Reads the nodes of all plug-ins in some folders.

    Args:
        roots: Installed KNIMEs, folders of plug-ins, or plug-ins.
        on_step: Is told (plug-ins done, of how many).

    Raises:
        OSError: A root cannot be read.
    """
    locations = {path: root for root in roots for path in find_bundles(root)}
    result = PluginNodes()
    categories: dict[str, str] = {}
    found: list[_Found] = []
    for done, (location, root) in enumerate(locations.items(), 1):
        try:
            with opened(location, root=root) as bundle:
                found += _Reading(bundle, result, categories).nodes()
                result.bundles += 1
        except UnreadableError as error:
            result.skipped.append(
                Skipped(
                    what=location.name,
                    where=str(location),
                    reason="is no readable plug-in",
                    detail=str(error),
                )
            )
        if on_step is not None:
            on_step(done, len(locations))
    kept = _without_twins(found, result)
    successors = _successors(kept)
    result.nodes = with_known_types(_node(entry, categories, successors) for entry in kept)
    return result


class _Reading:
    """Reads one plug-in."""

    def __init__(self, bundle: Bundle, result: PluginNodes, categories: dict[str, str]) -> None:
        self._bundle = bundle
        self._result = result
        self._categories = categories
        self._by_file: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._classes: dict[str, str] = {}
        for name, inner in inner_names(bundle):
            if inner.endswith(".class"):
                # Eclipse compiles into bin/, Maven into target/classes/.
                self._classes.setdefault(inner.removeprefix("bin/").removeprefix("target/classes/"), name)
            elif inner.endswith(".xml"):
                self._by_file[inner.rpartition("/")[2]].append((name, inner))

    def nodes(self) -> list[_Found]:
        for what, why in self._bundle.unreadable:
            self._skip(what, "is no readable jar", why)
        registered = self._registered()
        if registered is None:
            return self._all_descriptions()
        self._categories.update(registered.categories)
        for name in registered.node_sets:
            self._skip(name, NODE_SET)
        found: list[_Found] = []
        taken: set[str] = set()
        for registration in registered.nodes:
            file = self._description_of(registration.factory)
            if file is None:
                found += self._from_code(registration)
                continue
            taken.add(file)
            description = self._described(file, registration.factory)
            if description is not None:
                found.append(self._found(registration.factory, file, description, registration))
        if registered.node_sets:
            # What the sets list only their code knows, but these descriptions are there for something.
            return found + self._all_descriptions(taken)
        self._note_unregistered(taken)
        return found

    def _registered(self) -> PluginXml | None:
        """What the plug-in registers; None if it has no such file at all."""
        texts: dict[str, str] = {}
        if "plugin.properties" in self._bundle.files:
            texts = read_properties(self._bundle.read("plugin.properties"))
        known = [name for name in _REGISTRIES if name in self._bundle.files]
        nodes: list[Registration] = []
        sets: list[str] = []
        categories: dict[str, str] = {}
        for name in known:
            try:
                one = read_plugin_xml(self._bundle.read(name), texts)
            except (XmlRefusedError, UnreadableError) as error:
                self._skip(name, "cannot be read", str(error))
                continue
            nodes += one.nodes
            sets += one.node_sets
            categories.update(one.categories)
        if not known:
            return None
        return PluginXml(nodes=tuple(nodes), node_sets=tuple(sets), categories=categories)

    def _description_of(self, factory: str) -> str | None:
        """The file where KNIME looks for a factory's description: named like the class, in its package."""
        package, _, simple = factory.rpartition(".")
        file = f"{simple.rpartition('$')[2]}.xml"
        path = f"{package.replace('.', '/')}/{file}" if package else file
        for name, inner in self._by_file.get(file, ()):
            # In a source checkout the packages begin somewhere below src/.
            if inner == path or inner.endswith(f"/{path}"):
                return name
        return None

    def _from_code(self, registration: Registration) -> list[_Found]:
        """The node whose description is in its compiled class, or in the XML of a class that it extends."""
        factory = registration.factory
        for _ in range(_MOST_ANCESTORS):
            name = self._classes.get(factory.replace(".", "/") + ".class")
            if name is None:
                break
            try:
                data = self._bundle.read(name)
                description, factory = read_class(data), superclass_of(data)
            except (ClassFileError, UnreadableError) as error:
                self._skip(registration.factory, NO_XML, f"{name} {error}")
                return []
            if description is not None:
                self._result.from_code += 1
                return [self._found(registration.factory, name, description, registration)]
            file = self._description_of(factory)
            description = self._described(file, registration.factory) if file is not None else None
            if file is not None and description is not None:
                return [self._found(registration.factory, file, description, registration)]
        description = description_by_class(registration.factory)
        if description is None:
            self._skip(registration.factory, NO_XML)
            return []
        self._result.well_known += 1
        return [self._found(registration.factory, "plugin.xml", description, registration)]

    def _all_descriptions(self, taken: Collection[str] = ()) -> list[_Found]:
        """The nodes of a plug-in that does not say which it has: whatever is a description."""
        found: list[_Found] = []
        for names in self._by_file.values():
            for name, inner in names:
                if name in taken or name in _REGISTRIES or not self._is_description(name):
                    continue
                factory = _class_in(f"{self._bundle.package}/{inner}")
                description = self._described(name, factory)
                if description is not None:
                    found.append(self._found(factory, name, description, None))
        return found

    def _note_unregistered(self, taken: set[str]) -> None:
        for file, names in self._by_file.items():
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

    def _described(self, name: str, factory: str) -> NodeDescription | None:
        try:
            return read_node_description(self._bundle.read(name))
        except (XmlRefusedError, UnreadableError) as error:
            self._skip(factory, "has a description that cannot be read", f"{name} {error}")
            return None

    def _found(
        self, factory: str, file: str, description: NodeDescription, registration: Registration | None
    ) -> _Found:
        origin = Origin(
            kind=SourceKind.KNIME,
            name=self._bundle.name,
            version=self._bundle.version,
            file=self._bundle.place(file),
        )
        return _Found(factory=factory, description=description, registration=registration, origin=origin)

    def _skip(self, what: str, reason: str, detail: str = "") -> None:
        where = str(self._bundle.location)
        self._result.skipped.append(Skipped(what=what, where=where, reason=reason, detail=detail))


def _class_in(inner: str) -> str:
    """The class that a description belongs to, as its path says: its packages begin below the sources."""
    *folders, file = inner.removesuffix(".xml").split("/")
    for position in range(len(folders), 0, -1):
        name = folders[position - 1]
        if name in _SOURCES or not name.isidentifier():
            return ".".join([*folders[position:], file])
    return ".".join([*folders, file])


def _without_twins(found: list[_Found], result: PluginNodes) -> list[_Found]:
    """Each factory once: where two versions of a plug-in lie in a folder, the newer one's."""
    best: dict[str, _Found] = {}
    for entry in found:
        other = best.get(entry.factory)
        if other is None:
            best[entry.factory] = entry
            continue
        newer, older = (
            (entry, other) if _order(entry.origin.version) > _order(other.origin.version) else (other, entry)
        )
        best[entry.factory] = newer
        result.skipped.append(
            Skipped(what=older.factory, where=older.origin.file or older.origin.name, reason=OLDER_TWIN)
        )
    return list(best.values())


def _order(version: str | None) -> tuple[tuple[int, str], ...]:
    return tuple(
        (int(part), "") if part.isdecimal() else (-1, part) for part in _VERSION.findall(version or "")
    )


def _is_deprecated(entry: _Found) -> bool:
    registered = entry.registration is not None and entry.registration.deprecated
    return registered or entry.description.deprecated


def _successors(found: list[_Found]) -> dict[str, str]:
    """Name, or class without numbers -> the one node in use that has it; KNIME names successors nowhere."""
    in_use: dict[str, list[str]] = defaultdict(list)
    for entry in found:
        hidden = entry.registration is not None and entry.registration.hidden
        if not _is_deprecated(entry) and not hidden:
            for key in _successor_keys(entry):
                in_use[key].append(entry.factory)
    return {key: factories[0] for key, factories in in_use.items() if len(factories) == 1}


def _successor_keys(entry: _Found) -> tuple[str, str]:
    """What a node has in common with the one that took its place: the name, or joiner3.Joiner3NodeFactory."""
    return _name_key(entry.description.name), "class " + _NUMBER.sub("", entry.factory).lower()


def _name_key(name: str) -> str:
    return folded(_OUT_OF_USE.sub(" ", name))


def _node(entry: _Found, categories: dict[str, str], successors: dict[str, str]) -> NodeSpec:
    told = entry.description
    path = entry.registration.category_path if entry.registration is not None else ""
    deprecated = _is_deprecated(entry)
    node = NodeSpec(
        id=entry.factory,
        node_type=told.node_type,
        subtype=entry.factory,
        name=told.name,
        version=entry.origin.version or "",
        category=_names(path, categories),
        short_description=told.short_description,
        description=told.description,
        keywords=told.keywords,
        parameters=told.parameters,
        input_ports=told.input_ports,
        output_ports=told.output_ports,
        views=told.views,
        deprecated=deprecated,
        hidden=entry.registration is not None and entry.registration.hidden,
        origin=entry.origin,
    )
    if not deprecated:
        return node
    known = [successors[key] for key in _successor_keys(entry) if key in successors]
    return replace(node, successor=known[0] if known else None)


def _names(path: str, categories: dict[str, str]) -> tuple[str, ...]:
    """A category's path as the names that are shown; the identifier where nobody registers a name."""
    parts = [part for part in path.split("/") if part]
    return tuple(
        categories.get("/" + "/".join(parts[: depth + 1])) or part for depth, part in enumerate(parts)
    )
