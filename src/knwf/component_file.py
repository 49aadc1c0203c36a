"""A component's own file (``settings.xml``), and the two nodes at its edge. Pure.

A component is a workflow behind a node. *Component Input* inside has the inputs of the component as its
outputs, *Component Output* the outputs as its inputs, and both say which flow variables cross the edge. What
a person set in the component's dialog stands in its own file, by parameter and number of the Configuration
node. KNIME's side: `FileSubNodeContainerPersistor`, `SubNodeContainer` and `VirtualSubNodeInputNodeModel` in
https://github.com/knime/knime-core.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from .configuration_nodes import CONFIGURATION_FACTORIES, read_configuration
from .settings_xml import Config, KnwfError, array_values, from_xml
from .workflow_file import read_inside
from .workflow_model import NativeNode, OtherNode, Workflow, node_label

if TYPE_CHECKING:
    from collections.abc import Iterable

_PACKAGE: Final = "org.knime.core.node.workflow.virtual.subnode"
COMPONENT_INPUT_FACTORY: Final = f"{_PACKAGE}.VirtualSubNodeInputNodeFactory"
COMPONENT_OUTPUT_FACTORY: Final = f"{_PACKAGE}.VirtualSubNodeOutputNodeFactory"


@dataclass(frozen=True, slots=True)
class Component:
    """What is in a component."""

    workflow: (
        Workflow  # its nodes; Configuration nodes have the values that were set in the component's dialog
    )
    entry: int  # the id of *Component Input*
    exit: int  # the id of *Component Output*


@dataclass(frozen=True, slots=True)
class Edge:
    """The settings of *Component Input* or *Component Output*."""

    ports: int  # how many ports it has, without that for flow variables
    passed: VariableFilter  # the flow variables that cross
    prefix: str  # what is put before their names

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the ports, as KNIME shows them."""
        return tuple(f"Port {number}" for number in range(1, self.ports + 1))


@dataclass(frozen=True, slots=True)
class VariableFilter:
    """A selection of flow variables, by names or by a pattern."""

    names: frozenset[str] = frozenset()
    excludes: bool = False  # True for all variables but those names
    pattern: re.Pattern[str] | None = None  # the whole name must match; the names do not count then

    def chosen(self, available: Iterable[str]) -> list[str]:
        """The names that are selected, in their order."""
        if self.pattern is not None:
            return [name for name in available if self.pattern.fullmatch(name)]
        return [name for name in available if (name in self.names) is not self.excludes]


def read_component(workflow: Workflow, node: OtherNode) -> Component:
    """Reads what is in a component of a workflow; KnwfError if the files are no component."""
    inside = read_inside(workflow, node)
    stored = workflow.files.get(node.settings_file)
    if stored is None:
        raise KnwfError(f"{node.settings_file} is missing")
    settings = from_xml(stored, node.settings_file)
    entry = _end(inside, settings, "virtual-in-ID", COMPONENT_INPUT_FACTORY)
    leaving = _end(inside, settings, "virtual-out-ID", COMPONENT_OUTPUT_FACTORY)
    if any(line.source == leaving or line.destination == entry for line in inside.connections):
        raise KnwfError("a connection leads out of its Component Output, or into its Component Input")
    dialog = settings.config("model") or Config("model")
    nodes = tuple(_as_set(own, dialog) if isinstance(own, NativeNode) else own for own in inside.nodes)
    return Component(replace(inside, nodes=nodes), entry, leaving)


def _end(inside: Workflow, settings: Config, key: str, factory: str) -> int:
    number = settings.integer(key)
    if number is None:
        raise KnwfError(f"the component's settings have no {key}")
    node = inside.node(number)
    if isinstance(node, OtherNode) and node.problem:
        raise KnwfError(f"{node_label(node)} cannot be read ({node.problem}); is the component locked?")
    if not isinstance(node, NativeNode) or node.factory != factory:
        raise KnwfError(f"{node_label(node)} is not the node that {key} says")
    return number


def _as_set(node: NativeNode, dialog: Config) -> NativeNode:
    """A Configuration node with the value of the component's dialog, which is stored as its default is."""
    if node.factory not in CONFIGURATION_FACTORIES or node.model is None:
        return node
    parameter = read_configuration(node).parameter
    value = dialog.config(f"{parameter}-{node.id}" if parameter else str(node.id))
    if value is None:
        return node
    default = Config("defaultValue", tuple(value))
    kept = tuple(default if child.key == default.key else child for child in node.model)
    return replace(node, model=Config(node.model.key, kept))


def read_edge(node: NativeNode) -> Edge:
    """Reads *Component Input* or *Component Output*; KnwfError for settings that are not understood."""
    # The factory gets the ports from the component.
    ports = [own for own in node.factory_settings.configs() if own.config("type") is not None]
    model = node.model or Config("model")
    chosen = _filter(model.config("variable-filter") or Config("variable-filter"), node)
    return Edge(len(ports), chosen, model.text("variable-prefix"))


def _filter(config: Config, node: NativeNode) -> VariableFilter:
    match config.text("filter-type", "STANDARD"):
        case "STANDARD":
            excludes = config.text("enforce_option") == "EnforceExclusion"
            names = config.config("excluded_names" if excludes else "included_names")
            listed = cast("list[Any]", [] if names is None else array_values(names))
            return VariableFilter(frozenset(map(str, listed)), excludes)
        case "name_pattern":
            inner = config.config("name_pattern") or Config("name_pattern")
            text = inner.text("pattern")
            if inner.text("type") == "Wildcard":
                text = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
            flags = re.DOTALL if inner.value("caseSensitive") is True else re.DOTALL | re.IGNORECASE
            try:
                return VariableFilter(pattern=re.compile(text, flags))
            except re.error as error:
                what = f"the pattern {text!r} cannot be read here: {error}"
                raise KnwfError(f"{node_label(node)}: {what}") from None
        case other:
            raise KnwfError(
                f"{node_label(node)} selects flow variables by {other!r}, which is not known here"
            )
