"""Plants mistakes in outlines of saved workflows, and counts how many of them `check_workflow` finds.

    python -m node_facts.planted_mistakes FOLDER …

Every workflow, metanode and component below the folders is an outline of its own. It is checked as it was
saved, when each error is a false alarm, and once more with one mistake, when a new error has to come.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.knwf import KnwfError
from knime_mcp.knwf.workflow_file import read_files
from knime_node_knowledge.commands.node_catalogue import open_catalogue
from knime_node_knowledge.configuration_check import check_configuration
from knime_node_knowledge.node_details import BOOLEANS, INTEGERS, NUMBERS
from knime_node_knowledge.outline_check import check_workflow
from knime_node_knowledge.workflow_outline import OutlineConnection

from .check_workflows import workflows_in
from .saved_outlines import outline_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from knime_node_knowledge.catalogue_reader import CatalogueReader
    from knime_node_knowledge.node_model import NodeParameter, NodeSpec
    from knime_node_knowledge.workflow_outline import Outline, OutlineNode

    Plant = Callable[["_Site"], Outline | None]

_LEAST_NODES: Final = 3
_TABLE: Final = "org.knime.core.node.BufferedDataTable"


class _Site:
    """An outline into which a mistake is planted, and what the catalogue has of its nodes."""

    def __init__(self, outline: Outline, reader: CatalogueReader, chance: random.Random) -> None:
        self.outline = outline
        self.chance = chance
        self.specs: dict[str, NodeSpec] = {}
        for node in outline.nodes:
            spec = reader.node(node.reference["id"]) if node.reference else None
            if spec is not None:
                self.specs[node.id] = spec

    def known(self) -> list[OutlineNode]:
        return self.shuffled([node for node in self.outline.nodes if node.id in self.specs])

    def lines(self) -> list[OutlineConnection]:
        """Connections of data between nodes that the catalogue has."""
        lines = [line for line in self.outline.connections if line.source_port and line.target_port]
        return self.shuffled([one for one in lines if {one.source, one.target} <= self.specs.keys()])

    def shuffled(self, entries: list[Any]) -> list[Any]:
        return self.chance.sample(entries, len(entries))

    def with_node(self, node: OutlineNode, **change: Any) -> Outline:
        nodes = (replace(one, **change) if one is node else one for one in self.outline.nodes)
        return replace(self.outline, nodes=tuple(nodes))

    def with_line(self, line: OutlineConnection, **change: Any) -> Outline:
        lines = (replace(one, **change) if one is line else one for one in self.outline.connections)
        return replace(self.outline, connections=tuple(lines))

    def with_more(self, **line: Any) -> Outline:
        lines = (*self.outline.connections, OutlineConnection(**line))
        return replace(self.outline, connections=lines)

    def settings(self) -> Iterator[tuple[OutlineNode, dict[str, Any], NodeParameter]]:
        """Top values of nodes' settings that are judged, with what is known of them."""
        for node in self.known():
            model = (node.settings or {}).get("model")
            spec = self.specs[node.id]
            if isinstance(model, dict) and spec.settings_known and "" not in spec.open_settings:
                values = cast("dict[str, Any]", model)
                for parameter in self.shuffled([one for one in spec.configurations if one.name in values]):
                    if not check_configuration(spec, {"model": values, "variables": {}}).problems:
                        yield node, values, parameter

    def with_setting(self, node: OutlineNode, model: Mapping[str, Any]) -> Outline:
        return self.with_node(node, settings={**(node.settings or {}), "model": dict(model)})


def _unknown_node(site: _Site) -> Outline | None:
    for node in site.known():
        name = site.specs[node.id].name
        return site.with_node(node, reference={"id": f"{name[:3]}{name} Plus"})
    return None


def _missing_end(site: _Site) -> Outline | None:
    return next((site.with_line(line, target=f"{line.target}0000") for line in site.lines()), None)


def _missing_port(site: _Site) -> Outline | None:
    for line in site.lines():
        ports = site.specs[line.target].input_ports
        if not any(port.group for port in ports):
            return site.with_line(line, target_port=len(ports) + 1)
    return None


def _other_type(site: _Site) -> Outline | None:
    """A table leads where something else has to go."""
    tables = [line for line in site.lines() if _type(site.specs[line.source].output_ports, line.source_port)]
    for line in site.lines():
        wanted = site.specs[line.target].input_ports
        is_plain = not any(port.group or port.type_id == "" for port in wanted)
        is_other = is_plain and not _type(wanted, line.target_port)
        for table in tables:
            if is_other and table.target != line.target and table.source != line.target:
                return site.with_line(line, source=table.source, source_port=table.source_port)
    return None


def _type(ports: tuple[Any, ...], number: Any) -> bool:
    return len(ports) >= number and ports[number - 1].type_id == _TABLE and not any(p.group for p in ports)


def _flow_variables(site: _Site) -> Outline | None:
    lines = (one for one in site.lines() if _type(site.specs[one.target].input_ports, one.target_port))
    return next((site.with_line(line, source_port=0) for line in lines), None)


def _second_line(site: _Site) -> Outline | None:
    for line in site.lines():
        for other in site.lines():
            ends = {"target": line.target, "target_port": line.target_port}
            if other.target != line.target and other.source != line.source and other.source != line.target:
                return site.with_more(source=other.source, source_port=other.source_port, **ends)
    return None


def _circle(site: _Site) -> Outline | None:
    for line in site.lines():
        return site.with_more(source=line.target, source_port=0, target=line.source, target_port=0)
    return None


def _misspelt_setting(site: _Site) -> Outline | None:
    for node, model, parameter in site.settings():
        name = parameter.name
        if len(name) > 5:
            wrong = f"{name[:2]}{name[3]}{name[2]}{name[4:]}"
            if wrong != name:
                members = {wrong if key == name else key: value for key, value in model.items()}
                return site.with_setting(node, members)
    return None


def _wrong_kind(site: _Site) -> Outline | None:
    for node, model, parameter in site.settings():
        if (parameter.type or "").lower() in {*NUMBERS, *INTEGERS, *BOOLEANS} and not parameter.enum_values:
            return site.with_setting(node, {**model, parameter.name: "some of them"})
    return None


def _unoffered_choice(site: _Site) -> Outline | None:
    for node, model, parameter in site.settings():
        if parameter.enum_values and isinstance(model[parameter.name], str):
            return site.with_setting(node, {**model, parameter.name: "SOMETHING_ELSE"})
    return None


KINDS: Final[dict[str, Plant]] = {
    "a node that there is not": _unknown_node,
    "a connection to a node that is not there": _missing_end,
    "an input that the node does not have": _missing_port,
    "a table where something else has to go": _other_type,
    "flow variables where data has to go": _flow_variables,
    "a second connection to one input": _second_line,
    "nodes that wait for each other": _circle,
    "a misspelt setting": _misspelt_setting,
    "a text where a number or truth belongs": _wrong_kind,
    "a choice that is not offered": _unoffered_choice,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="node_facts.planted_mistakes", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    planted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    outlines = refused = 0
    with open_catalogue(None) as catalogue, catalogue.reading() as reader:
        for name, outline in _outlines(parser.parse_args().folders, reader):
            before = _errors(reader, outline)
            outlines += 1
            refused += bool(before)
            site = _Site(outline, reader, random.Random(name))
            # Each kind in turn, the next ones where the outline has no place for it.
            for kind in [*KINDS][outlines % len(KINDS) :] + [*KINDS][: outlines % len(KINDS)]:
                wrong = KINDS[kind](site)
                if wrong is not None:
                    planted[kind] += 1
                    found[kind] += bool(_errors(reader, wrong) - before)
                    break
    for kind in KINDS:
        print(f"{found[kind]:4} of {planted[kind]:4} found: {kind}")
    print(f"{found.total():4} of {planted.total():4} found in all")
    print(f"{refused:4} of {outlines:4} right outlines refused")


def _outlines(folders: list[Path], reader: CatalogueReader) -> Iterator[tuple[str, Outline]]:
    for name, files in workflows_in(folders):
        try:
            whole = outline_of(read_files(name, files), lambda node_id: reader.node(node_id) is not None)
        except KnwfError:
            continue
        for place, outline in _levels(name, whole):
            if sum(node.reference is not None for node in outline.nodes) >= _LEAST_NODES:
                yield place, outline


def _levels(name: str, outline: Outline) -> Iterator[tuple[str, Outline]]:
    """An outline without the insides of its nodes, and those as outlines of their own."""
    yield name, replace(outline, nodes=tuple(replace(node, inside=None) for node in outline.nodes))
    for node in outline.nodes:
        if node.inside is not None:
            yield from _levels(f"{name}:{node.id}", node.inside)


def _errors(reader: CatalogueReader, outline: Outline) -> set[tuple[str, str, str]]:
    findings = check_workflow(reader, outline).findings
    return {(one.where, one.setting, one.problem) for one in findings if one.severity == "error"}


if __name__ == "__main__":
    main()
