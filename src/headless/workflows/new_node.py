"""Makes nodes of a loaded extension for workflow files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...knwf import declared_ports, extension_node
from ...knwf.workflow_model import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...knwf import CanvasPosition, NativeNode, VariableControl
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
    position: CanvasPosition = ORIGIN,
    annotation: str = "",
) -> NativeNode:
    """Makes a node of a loaded extension, with all of its settings.

    ``parameters`` differ from the defaults, those of a group as an object. ``inputs`` and ``outputs`` have
    the numbers of ports of optional ports and groups, by name; 0 by default.
    """
    described = {own["id"]: own for own in host.describe()["nodes"]}
    host.declared(extension_node_id)  # raises an error with all ids if there is no such node
    own = described[extension_node_id]
    dialog = host.get_dialog(extension_node_id)
    return extension_node(
        node_id,
        own["name"],
        extension_id=host.id,
        extension_node_id=extension_node_id,
        version=host.version,
        title=host.title,
        vendor=host.vendor,
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
        # A group is completed setting by setting, as KNIME refuses a document in which one is missing.
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value  # pyright: ignore[reportUnknownArgumentType]
    return merged
