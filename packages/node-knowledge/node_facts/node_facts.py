"""What is written down of a node: facts, and no sentence of its description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from knime_node_knowledge.sources.node_descriptions import node_type_of
from knime_node_knowledge.sources.plugin_bundles import category_names

from .facts_file import PortTypes, ports_as_json, settings_as_json
from .node_ports import PortFact
from .node_settings import settings_of
from .python_nodes import read_extension_sources
from .successors import is_deprecated

if TYPE_CHECKING:
    from .java_reader import JavaReader
    from .node_factories import Factory, Repository

_EXTENSIONS_OF_TESTS: Final = ("test", "example", "template")


def fact_of(
    found: Factory, types: PortTypes, instead: dict[str, str], numbers: dict[str, int], reader: JavaReader
) -> dict[str, Any] | None:
    """The line of a node; None without a name."""
    registered = found.registered
    if not found.name:
        return None
    path = found.cls.unit.path.relative_to(registered.repository.folder).as_posix()
    inside = f"{registered.factory.partition('$')[0].replace('.', '/')}.java"
    fact: dict[str, Any] = {
        "id": registered.factory,
        "name": found.name,
        "kind": found.kind,
        "bundle": registered.bundle,
        "version": registered.version,
        "category": list(registered.category),
        "at": [numbers[registered.repository.name], path.removesuffix(inside)],
    }
    if is_deprecated(found):
        fact["deprecated"] = 1
        if registered.factory in instead:
            fact["successor"] = instead[registered.factory]
    if registered.hidden:
        fact["hidden"] = 1
    sides = _sides(found)
    if sides is not None:
        fact["in"], fact["out"] = (ports_as_json(side, types) for side in sides)
    settings = settings_of(found, reader)
    if settings is not None and not found.registered.hidden:
        fact |= settings_as_json(settings)
    return fact


def _sides(found: Factory) -> tuple[list[PortFact], list[PortFact]] | None:
    """The ports by the code, with names of the description; by that alone where code is missing."""
    described = found.port_names()
    if found.ports is None:
        if found.description is None:
            return None
        inputs, outputs = (
            [PortFact(None, port.name, port.optional, addable=port.group) for port in side]
            for side in (found.description.input_ports, found.description.output_ports)
        )
        return inputs, outputs
    for side, names in zip((found.ports.inputs, found.ports.outputs), described, strict=True):
        _name(side, names)
    return found.ports.inputs, found.ports.outputs


def _name(ports: list[PortFact], names: list[tuple[str, bool]]) -> None:
    """Gives ports the names of a description if the two agree on their number."""
    fixed = [name for name, group in names if not group]
    groups = [name for name, group in names if group]
    unnamed_fixed = [port for port in ports if not port.addable]
    unnamed_groups = [port for port in ports if port.addable]
    for side, given in ((unnamed_fixed, fixed), (unnamed_groups, groups)):
        if len(side) == len(given):
            for port, name in zip(side, given, strict=True):
                port.name = port.name or name
    for port in unnamed_groups:
        port.name = port.name or port.group or ""


def python_facts(
    repositories: list[Repository], types: PortTypes, categories: dict[str, str]
) -> list[dict[str, Any]]:
    """The lines of the nodes of Python extensions."""
    found: list[dict[str, Any]] = []
    for number, repository in enumerate(repositories):
        for knime_yml in sorted(repository.folder.rglob("knime.yml")):
            place = knime_yml.relative_to(repository.folder).as_posix()
            if any(word in f"{repository.name}/{place}" for word in _EXTENSIONS_OF_TESTS):
                continue
            extension = read_extension_sources(knime_yml)
            if extension is None:
                continue
            types.add(extension.types)
            for node in extension.nodes:
                fact: dict[str, Any] = {
                    "id": f"{extension.id}.{node.id}",
                    "name": node.name,
                    "kind": node_type_of(node.kind.title()),
                    "bundle": extension.id,
                    "version": extension.version,
                    "category": list(
                        category_names(f"/{node.category.strip('/')}", {**categories, **extension.categories})
                    ),
                    "at": [number, node.file.relative_to(repository.folder).as_posix()],
                    "python": 1,
                }
                if node.deprecated:
                    fact["deprecated"] = 1
                if node.hidden:
                    fact["hidden"] = 1
                fact["in"], fact["out"] = (ports_as_json(side, types) for side in (node.inputs, node.outputs))
                found.append(fact)
    current: dict[tuple[str, str], str] = {
        (fact["bundle"], fact["name"]): fact["id"]
        for fact in found
        if not fact.keys() & {"deprecated", "hidden"}
    }
    for fact in found:
        if "deprecated" in fact and (fact["bundle"], fact["name"]) in current:
            fact["successor"] = current[fact["bundle"], fact["name"]]
    return found
