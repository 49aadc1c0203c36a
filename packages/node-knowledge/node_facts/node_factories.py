"""Reads KNIME's registrations of nodes, and of each what its factory says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from knime_node_knowledge.sources.node_descriptions import (
    XmlRefusedError,
    node_type_of,
    read_node_description,
)
from knime_node_knowledge.sources.plugin_bundles import (
    PluginXml,
    Registration,
    category_names,
    read_manifest,
    read_plugin_xml,
    read_properties,
)

from .java_reader import JavaReader
from .java_values import UNKNOWN, Call, Obj, Static
from .node_ports import ENDS, Ports, ports_of_configuration, ports_of_groups, ports_of_model
from .node_sets import members_of_sets

if TYPE_CHECKING:
    from pathlib import Path

    from knime_node_knowledge.node_model import NodeSpec

    from .java_classes import JavaClass, JavaIndex

_TEST: Final = ("test", "example")
_BUILDER: Final = "org.knime.core.node.ConfigurableNodeFactory.PortsConfigurationBuilder"


@dataclass(slots=True)
class Repository:
    name: str  # such as knime/knime-base
    folder: Path
    commit: str


@dataclass(slots=True)
class Registered:
    """A node that a plug-in registers."""

    factory: str
    bundle: str
    version: str
    repository: Repository
    category: tuple[str, ...]
    deprecated: bool
    hidden: bool


def registrations(
    repositories: list[Repository], categories: dict[str, str], index: JavaIndex
) -> list[Registered]:
    """The registered nodes of all plug-ins but those for tests. Adds to the names of categories by path."""
    found: list[tuple[Registration, str, str, Repository]] = []
    for repository in repositories:
        for path in sorted(
            (*repository.folder.rglob("plugin.xml"), *repository.folder.rglob("fragment.xml"))
        ):
            plugin = path.parent
            if any(word in plugin.name for word in _TEST) or "target" in path.parts:
                continue
            texts = plugin / "plugin.properties"
            into = PluginXml()
            try:
                data = path.read_bytes()
                read_plugin_xml(data, read_properties(texts.read_bytes()) if texts.exists() else {}, into)
                into.nodes += members_of_sets(data, index)
            except XmlRefusedError:
                continue
            categories.update(into.categories)
            headers = _headers(plugin)
            bundle = headers.get("Fragment-Host", headers.get("Bundle-SymbolicName", plugin.name))
            name, version = bundle.partition(";")[0].strip(), headers.get("Bundle-Version", "")
            if path.name == "fragment.xml":
                name = headers.get("Bundle-SymbolicName", plugin.name).partition(";")[0].strip()
            found += ((entry, name, version.removesuffix(".qualifier"), repository) for entry in into.nodes)
    seen: set[str] = set()
    listed: list[Registered] = []
    for entry, bundle, version, repository in found:
        if entry.factory not in seen:
            seen.add(entry.factory)
            names = category_names(entry.category_path, categories)
            listed.append(
                Registered(entry.factory, bundle, version, repository, names, entry.deprecated, entry.hidden)
            )
    return listed


def _headers(plugin: Path) -> dict[str, str]:
    manifest = plugin / "META-INF" / "MANIFEST.MF"
    return read_manifest(manifest.read_bytes()) if manifest.exists() else {}


@dataclass(slots=True)
class Factory:
    """What a node's factory says."""

    registered: Registered
    cls: JavaClass
    description: NodeSpec | None = None
    described_by: str = ""
    configuration: Call | None = None
    model: Obj | None = None
    ports: Ports | None = None
    texts: list[Call] = field(default_factory=list[Call])  # of a description in Java

    @property
    def name(self) -> str:
        if self.description is not None:
            return self.description.name
        for call in self.texts:
            if call.name in ("name", "createNodeDescription"):
                name = next((arg for arg in call.args if isinstance(arg, str)), "")
                return " ".join(name.split())
        return ""

    @property
    def kind(self) -> str:
        """KNIME's kind of the node, such as ``LOOP_START``."""
        if self.description is not None:
            return self.description.node_type
        for call in self.texts:
            for arg in call.args:
                if isinstance(arg, Static) and arg.owner.endswith("NodeType"):
                    return node_type_of(arg.name)
        return "UNKNOWN"

    def port_names(self) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
        """The names of inputs and outputs in the description, and whether each stands for a group."""
        if self.description is not None:
            inputs, outputs = (
                [(port.name, port.group) for port in side]
                for side in (self.description.input_ports, self.description.output_ports)
            )
            return inputs, outputs
        for call in self.texts:
            if call.name == "createNodeDescription":
                sides = [_port_names(arg) for arg in call.args if isinstance(arg, list)]
                if len(sides) >= 2:
                    return sides[0], sides[1]
        names: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = ([], [])
        for call in self.texts:
            texts = [arg for arg in call.args if isinstance(arg, str)]
            if texts and call.name.startswith(("addInput", "addOptionalInput", "addOutput")):
                group = call.name.endswith("Group")
                names["Output" in call.name].append(
                    (texts[1] if group and len(texts) > 1 else texts[0], group)
                )
        return names


def _texts(described: Any) -> list[Call]:
    """The calls that describe a node; ``createNodeDescription(configuration)`` only passes on."""
    if not isinstance(described, Call):
        return []
    inner = next((arg for arg in described.args if isinstance(arg, Call)), None)
    if (
        described.name == "createNodeDescription"
        and inner is not None
        and not isinstance(described.args[0], str)
    ):
        return inner.chain()
    return described.chain()


def _port_names(given: list[Any]) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    for entry in given:
        if isinstance(entry, (Call, Obj)):
            texts = [arg for arg in entry.args if isinstance(arg, str)]
            group = isinstance(entry, Call) and entry.name == "dynamicPort"
            if texts:
                found.append((texts[1] if group and len(texts) > 1 else texts[0], group))
    return found


class FactoryReader:
    def __init__(self, index: JavaIndex) -> None:
        self.index = index
        self.reader = JavaReader(index, ends=ENDS)

    def read(self, registered: Registered) -> Factory | None:
        """The facts of a factory; None without its source."""
        cls = self.index.find(registered.factory)
        if cls is None:
            return None
        found = Factory(registered, cls)
        self.reader.start()
        factory = self.reader.new(registered.factory)
        found.configuration = self._configuration(factory)
        found.description = self._description(found)
        self.reader.start()
        found.texts = _texts(found.configuration or self.reader.call(factory, "createNodeDescription"))
        found.ports = self._ports(found, factory)
        return found

    def _configuration(self, factory: Obj) -> Call | None:
        if factory.base is None or not factory.base[0].endswith(("WebUINodeFactory", "DefaultNodeFactory")):
            return None
        return next((arg for arg in factory.base[1] if isinstance(arg, Call)), None)

    def _description(self, found: Factory) -> NodeSpec | None:
        for cls in found.cls.ancestors():
            path = cls.unit.path.with_name(f"{cls.name.rpartition('.')[2]}.xml")
            if path.exists():
                try:
                    found.described_by = str(path)
                    return read_node_description(path.read_bytes())
                except XmlRefusedError:
                    continue
        return None

    def _ports(self, found: Factory, factory: Obj) -> Ports | None:
        if found.configuration is not None:
            ports = ports_of_configuration(found.configuration, self.reader)
            if ports is not None:
                found.model = self._model(factory)
                return self._as_the_model_has_them(ports, found)
        self.reader.start()
        if any(name.endswith("ConfigurableNodeFactory") for name in found.cls.ancestor_names()):
            builder = self._builder(factory)
            found.model = self._model(factory)
            if builder is not None:
                return ports_of_groups(builder, self.reader)
        found.model = self._model(factory)
        return ports_of_model(found.model, self.reader) if found.model is not None else None

    def _as_the_model_has_them(self, described: Ports, found: Factory) -> Ports:
        """The described ports, with the types of the model: KNIME connects by these, and descriptions err."""
        ports = ports_of_model(found.model, self.reader) if found.model is not None else None
        if ports is None or ports.way != "model":
            return described
        for ours, models in ((described.inputs, ports.inputs), (described.outputs, ports.outputs)):
            if len(ours) == len(models) and not any(port.group is not None for port in ours):
                for port, other in zip(ours, models, strict=True):
                    if other.type is not None and other.type != port.type:
                        print(found.registered.factory, port.type, other.type)
                    port.type = other.type or port.type
        return described

    def _builder(self, factory: Obj) -> Obj | None:
        result = self.reader.call(factory, "createPortsConfigBuilder")
        return result if isinstance(result, Obj) else None

    def _model(self, factory: Obj) -> Obj | None:
        for args in ([], [UNKNOWN], [UNKNOWN, UNKNOWN]):
            result = self.reader.call(factory, "createNodeModel", args)
            if isinstance(result, Obj):
                return result
        return None
