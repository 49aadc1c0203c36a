"""What is known of KNIME's well-known nodes where their plug-ins do not say it.

That is types of ports, and what a node does whose description is in Java code that cannot be read.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from ..packs.basics import basic_nodes
from ..schema import folded
from .node_descriptions import NodeDescription

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..model import NodeSpec, Port

_KNIMES_OWN: Final = "org.knime."
_CLASS: Final = re.compile(r"(?:.*[.$])?(\w+?)\d*NodeFactory\d*")


def with_known_types(nodes: Iterable[NodeSpec]) -> list[NodeSpec]:
    """The same nodes; ports without a type have that of the well-known node of the same name."""
    return [_typed(node, _by_name().get(_key(node.name))) for node in nodes]


def description_by_class(factory: str) -> NodeDescription | None:
    """What the node of a factory of KNIME's own does, if its class is called like a well-known node.

    Args:
        factory: The class.
    """
    name = _CLASS.fullmatch(factory)
    known = _by_name().get(_key(name[1])) if name and factory.startswith(_KNIMES_OWN) else None
    if known is None:
        return None
    return NodeDescription(
        name=known.name,
        node_type="UNKNOWN",
        deprecated=False,
        short_description=known.short_description,
        description=known.description,
        parameters=known.parameters,
        input_ports=known.input_ports,
        output_ports=known.output_ports,
        views=(),
        keywords=known.keywords,
    )


@cache
def _by_name() -> Mapping[str, NodeSpec]:
    return {_key(node.name): node for node in basic_nodes()}


def _key(name: str) -> str:
    return folded(name).replace(" ", "")


def _typed(node: NodeSpec, known: NodeSpec | None) -> NodeSpec:
    if known is None:
        return node
    return replace(
        node,
        input_ports=_ports(node.input_ports, known.input_ports),
        output_ports=_ports(node.output_ports, known.output_ports),
    )


def _ports(ports: tuple[Port, ...], known: tuple[Port, ...]) -> tuple[Port, ...]:
    """Ports with the types of others at the same place; groups do not count, and keep what they have."""
    types = [port.type for port in known if not port.group]
    if len(types) != sum(not port.group for port in ports):
        return ports
    left = iter(types)
    return tuple(port if port.group else _with_type(port, next(left)) for port in ports)


def _with_type(port: Port, kind: str) -> Port:
    return port if port.type else replace(port, type=kind)
