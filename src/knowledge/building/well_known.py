"""Facts about KNIME's well-known nodes that their plug-ins do not contain.

These are types of ports, search words, and descriptions of nodes that otherwise have them only in Java code.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from ..packs.included_files import basic_nodes
from ..words import folded
from .port_types import typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..model import NodeSpec, Port
    from .port_types import Type

_KNIMES_OWN: Final = "org.knime."
_CLASS: Final = re.compile(r"(?:.*[.$])?(\w+?)\d*NodeFactory\d*")


def completed(nodes: Iterable[NodeSpec]) -> list[NodeSpec]:
    """The nodes, with keywords and port types added from well-known nodes of the same name."""
    return [_completed(node, _by_name().get(_key(node.name))) for node in nodes]


def description_by_class(factory: str) -> NodeSpec | None:
    """The description for one of KNIME's own factories, found by class name; None for other factories."""
    name = _CLASS.fullmatch(factory)
    known = _by_name().get(_key(name[1])) if name and factory.startswith(_KNIMES_OWN) else None
    return None if known is None else replace(known, node_type="UNKNOWN")


@cache
def _by_name() -> Mapping[str, NodeSpec]:
    return {_key(node.name): node for node in basic_nodes()}


def _key(name: str) -> str:
    return folded(name).replace(" ", "")


def _completed(node: NodeSpec, known: NodeSpec | None) -> NodeSpec:
    if known is None:
        return node
    return replace(
        node,
        keywords=tuple(dict.fromkeys((*node.keywords, *known.keywords))),
        input_ports=typed(node.input_ports, _types(known.input_ports)),
        output_ports=typed(node.output_ports, _types(known.output_ports)),
    )


def _types(ports: tuple[Port, ...]) -> list[Type]:
    return [(port.type, port.type_id) for port in ports if not port.group]
