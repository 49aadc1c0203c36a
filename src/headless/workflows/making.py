"""Makes nodes of a loaded extension to put into a workflow file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...knwf import declared_ports, extension_node
from ...knwf.workflow import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...knwf import NativeNode, Position, VariableControl
    from ..host import ExtensionHost


def new_node(
    host: ExtensionHost,
    node_id: int,
    extension_node_id: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    inputs: Mapping[str, int] | None = None,
    outputs: Mapping[str, int] | None = None,
    variables: Sequence[VariableControl] = (),
    position: Position = ORIGIN,
    annotation: str = "",
) -> NativeNode:
    """A node of a loaded extension, with all of its settings.

    Args:
        host: The extension.
        node_id: Id in the workflow.
        extension_node_id: The node's id in the extension.
        parameters: Settings that differ from the defaults; those of a group as an object.
        inputs: How often the node has its optional input ports and groups; 0 where nothing is said.
        outputs: The same for groups of outputs.
        variables: Settings that flow variables control.
        position: Place on the canvas.
        annotation: Label below the node.

    Raises:
        HeadlessError: There is no such node.
        KnwfError: A setting or port that the node does not have.
    """
    described = {own["id"]: own for own in host.describe()["nodes"]}
    host.declared(extension_node_id)  # says what there is
    own = described[extension_node_id]
    dialog = host.get_dialog(extension_node_id)
    return extension_node(
        node_id,
        own["name"],
        extension_id=host.id,
        extension_node_id=extension_node_id,
        version=host.version,
        parameters={"model": _merged(dialog["data"]["model"], parameters or {})},
        schema=dialog["schema"],
        inputs=declared_ports(own["input_port_specifier"], inputs),
        outputs=declared_ports(own["output_port_specifier"], outputs),
        variables=variables,
        position=position,
        annotation=annotation,
    )


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value  # pyright: ignore[reportUnknownArgumentType]
    return merged
