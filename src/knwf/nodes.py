"""Makes nodes of Python extensions for a workflow.

Pure. The caller, which has the extension's declarations, passes the ports and parameters of a node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .parameters import to_model
from .settings import Config, KnwfError, string
from .workflow import ORIGIN, NativeNode, PortGroup, Position, VariableControl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PYTHON_FACTORY: Final = (
    "org.knime.python3.nodes.extension.ExtensionNodeSetFactory$DynamicExtensionNodeFactory"
)
KNIME_VENDOR: Final = "KNIME AG, Zurich, Switzerland"
_PYTHON_BUNDLE: Final = ("KNIME Python 3 - Nodes", "org.knime.python3.nodes", KNIME_VENDOR)
_BLOB_CLASS: Final = "org.knime.python3.nodes.ports.PythonBinaryBlobFileStorePortObject"
#: Java class of a port by the prefix of its type's name in Python; the first prefix that fits.
_OBJECT_CLASSES: Final = (
    ("PortType.TABLE", "org.knime.core.node.BufferedDataTable"),
    ("PortType.IMAGE", "org.knime.core.node.port.image.ImagePortObject"),
    ("PortType.CREDENTIAL", "org.knime.credentials.base.CredentialPortObject"),
    (
        "PortType.HUB_AUTHENTICATION",
        "org.knime.workflowservices.connection.AbstractHubAuthenticationPortObject",
    ),
    ("PortType.WORKFLOW", "org.knime.core.node.workflow.capture.WorkflowPortObject"),
    ("ConnectionPortType", "org.knime.python3.nodes.ports.PythonTransientConnectionPortObject"),
)
_FIXED_GROUP: Final = re.compile(r"(Input|Output) .* # [0-9]+", re.DOTALL)


def object_class(port_type: str) -> str:
    """The Java class of a port's objects.

    Args:
        port_type: The type as a Python extension declares it: ``PortType.TABLE``, …, or the id of the
            extension's own port type, for all of which KNIME has one class.
    """
    return next((java for prefix, java in _OBJECT_CLASSES if port_type.startswith(prefix)), _BLOB_CLASS)


def is_fixed_group(group_id: str) -> bool:
    """Returns whether a port group of a Python node is a single port that is always present."""
    return _FIXED_GROUP.fullmatch(group_id) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port as a Python node declares it, and the number of such ports in this node.

    Attributes:
        name: Name of the port.
        type: The port's type, as in `object_class`.
        optional: Whether the port can be absent.
        group: Whether a node can have any number of these ports.
        present: The number of ports: 0 or 1 for an optional port, any number for a group, 1 for others.
    """

    name: str
    type: str = "PortType.TABLE"
    optional: bool = False
    group: bool = False
    present: int = 1


def declared_ports(
    specifiers: Sequence[Mapping[str, Any]], present: Mapping[str, int] | None = None
) -> tuple[Port, ...]:
    """Makes ports from a node's description by a host of extensions.

    Args:
        specifiers: ``input_port_specifier`` or ``output_port_specifier`` of a described node: objects with
            ``name``, ``type_string``, ``group`` and ``optional``.
        present: The numbers of a node's optional ports and groups, by name; 0 by default.

    Raises:
        KnwfError: ``present`` names a port that the node does not declare.
    """
    counts = dict(present or {})
    ports = tuple(
        Port(
            name=port["name"],
            type=port["type_string"],
            optional=bool(port.get("optional")),
            group=bool(port.get("group")),
            present=counts.pop(port["name"], 0 if port.get("optional") or port.get("group") else 1),
        )
        for port in specifiers
    )
    if counts:
        raise KnwfError(f"the node declares no port {', '.join(map(repr, counts))}")
    return ports


def extension_node(
    node_id: int,
    name: str,
    *,
    extension_id: str,
    extension_node_id: str,
    version: str,
    parameters: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    inputs: Sequence[Port] = (),
    outputs: Sequence[Port] = (),
    variables: Sequence[VariableControl] = (),
    position: Position = ORIGIN,
    annotation: str = "",
) -> NativeNode:
    """Makes a node of a Python extension.

    Args:
        node_id: Id in the workflow.
        name: Name of the node, as people see it.
        extension_id: Id of the extension, such as ``org.knime_mcp.mcp``.
        extension_node_id: The node's id in the extension.
        version: The extension's version, for the parameters.
        parameters: The *whole* JSON document ``{"model": {…}}``: KNIME refuses a document that lacks a
            parameter of this version. None leaves the defaults.
        schema: The node's schema; see `parameters.to_model`.
        inputs: All declared input ports, in order.
        outputs: All declared output ports, in order.
        variables: Parameters that flow variables control.
        position: Place on the canvas.
        annotation: Label below the node.

    Raises:
        KnwfError: The parameters or the numbers of ports are not possible.
    """
    groups_in = tuple(_port_group(port, "Input", i) for i, port in enumerate(inputs))
    groups_out = tuple(_port_group(port, "Output", i) for i, port in enumerate(outputs))
    return NativeNode(
        id=node_id,
        name=name,
        factory=PYTHON_FACTORY,
        factory_settings=Config(
            "factory_settings", (string("extension_id", extension_id), string("node_id", extension_node_id))
        ),
        model=None if parameters is None else to_model(parameters, version, schema=schema),
        inputs=sum(group.count for group in groups_in),
        outputs=sum(group.count for group in groups_out),
        port_groups=groups_in + groups_out,
        variables=tuple(variables),
        position=position,
        annotation=annotation,
        bundle=_PYTHON_BUNDLE,
    )


def _port_group(port: Port, direction: str, index: int) -> PortGroup:
    fixed = not (port.optional or port.group)
    if port.present < 0 or (not port.group and port.present > 1) or (fixed and port.present != 1):
        raise KnwfError(f"port {port.name!r} cannot be there {port.present} times")
    if fixed:
        return PortGroup(f"{direction} {port.name} # {index}", fixed=True)
    return PortGroup(port.name, (object_class(port.type),) * port.present)
