"""Finds the cycles of a workflow, and places its nodes on the canvas by their order. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .workflow import Position

if TYPE_CHECKING:
    from .workflow import Workflow

_STEP_X: Final = 160
_STEP_Y: Final = 140
_MARGIN: Final = 80


def _layers(workflow: Workflow) -> tuple[dict[int, int], list[int]]:
    """The nodes that can run, in order and with their layers, and the nodes in or behind cycles.

    Connections from or to nodes that do not exist are ignored.
    """
    ids = {node.id for node in workflow.nodes}
    successors: dict[int, list[int]] = {node_id: [] for node_id in ids}
    open_inputs = dict.fromkeys(ids, 0)
    for connection in workflow.connections:
        if connection.source in ids and connection.destination in ids:
            successors[connection.source].append(connection.destination)
            open_inputs[connection.destination] += 1
    layer = {node_id: 0 for node_id in sorted(ids) if not open_inputs[node_id]}
    ready = list(layer)
    for node_id in ready:  # the list grows during the loop
        for next_id in successors[node_id]:
            open_inputs[next_id] -= 1
            layer[next_id] = max(layer.get(next_id, 0), layer[node_id] + 1)
            if not open_inputs[next_id]:
                ready.append(next_id)
    return {node_id: layer[node_id] for node_id in ready}, sorted(ids - set(ready))


def nodes_in_cycles(workflow: Workflow) -> tuple[int, ...]:
    """Ids of the nodes that are in a cycle or depend on one, in order."""
    return tuple(_layers(workflow)[1])


def arranged(workflow: Workflow) -> Workflow:
    """A copy of the workflow with every node in a column to the right of the nodes on which it depends."""
    layers, _ = _layers(workflow)
    rows: dict[int, int] = {}
    places: dict[int, Position] = {}
    for node_id in sorted(node.id for node in workflow.nodes):
        column = layers.get(node_id, 0)
        rows[column] = rows.get(column, -1) + 1
        places[node_id] = Position(_MARGIN + column * _STEP_X, _MARGIN + rows[column] * _STEP_Y)
    return replace(workflow, nodes=tuple(replace(n, position=places[n.id]) for n in workflow.nodes))
