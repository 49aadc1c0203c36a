"""The nodes at the edge of a workflow: Workflow Input, Workflow Output, Tool Message Output.

When KNIME makes a tool of a workflow, it removes these nodes: inputs and outputs become the tool's ports, and
the first cell of the table at the Tool Message Output becomes the message for the model. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .nodes import KNIME_VENDOR, object_class
from .settings import Config, KnwfError, string
from .workflow import ORIGIN, NativeNode, PortGroup, Position, node_label

BoundaryKind = Literal["input", "output", "message"]

_CALLEE: Final = "org.knime.workflowservices.knime.callee"
BOUNDARY_FACTORIES: Final[dict[str, BoundaryKind]] = {
    f"{_CALLEE}.WorkflowInputNodeFactory": "input",
    f"{_CALLEE}.WorkflowOutputNodeFactory": "output",
    "org.knime.ai.core.node.tool.output.ToolMessageOutputNodeFactory": "message",
}
_SERVICES: Final = (
    "KNIME Nodes to build and use KNIME workflow services",
    "org.knime.workflowservices",
    KNIME_VENDOR,
)
_BUNDLES: Final = {
    "input": _SERVICES,
    "output": _SERVICES,
    "message": ("KNIME AI Extension Java", "org.knime.ai.core", KNIME_VENDOR),
}
_NAMES: Final = {"input": "Workflow Input", "output": "Workflow Output", "message": "Tool Message Output"}
_DEFAULT_PARAMETERS: Final = {
    "input": "input-parameter",
    "output": "output-parameter",
    "message": "tool-message-output",
}
_GROUPS: Final = {"input": "Callee Workflow Input", "output": "Callee Workflow Output"}
_TABLE: Final = object_class("PortType.TABLE")


@dataclass(frozen=True, slots=True)
class Boundary:
    """The settings of a node at the edge of a workflow.

    Attributes:
        kind: The kind of node.
        parameter: The name of the input or output for callers.
        description: The purpose of the input or output. Agents read it.
        is_table: True for a table, as only tables can be ports of tools.
    """

    kind: BoundaryKind
    parameter: str
    description: str = ""
    is_table: bool = True


def boundary_node(
    node_id: int,
    kind: BoundaryKind,
    *,
    parameter: str = "",
    description: str = "",
    position: Position = ORIGIN,
    annotation: str = "",
) -> NativeNode:
    """Makes a node at the edge of a workflow, for a table: input, output, or the message for the model.

    ``parameter`` is its name for callers, by default KNIME's; ``description`` tells callers its purpose.
    """
    settings = [string("parameterName", parameter or _DEFAULT_PARAMETERS[kind])]
    if kind != "message":
        settings.append(string("parameterDescription", description))
    groups = () if kind == "message" else (PortGroup(_GROUPS[kind], (_TABLE,), exchangeable=True),)
    return NativeNode(
        id=node_id,
        name=_NAMES[kind],
        factory=next(name for name, known in BOUNDARY_FACTORIES.items() if known == kind),
        model=Config("model", tuple(settings)),
        inputs=1,
        outputs=1 if kind == "input" else 0,
        port_groups=groups,
        position=position,
        annotation=annotation,
        bundle=_BUNDLES[kind],
    )


def read_boundary(node: NativeNode) -> Boundary:
    """Reads the settings of a node at the edge of a workflow.

    Raises:
        KnwfError: The node is of another kind.
    """
    kind = BOUNDARY_FACTORIES.get(node.factory)
    if kind is None:
        raise KnwfError(f"{node_label(node)} is no input or output of a workflow")
    model = node.model or Config("model")
    classes = [java for group in node.port_groups if group.exchangeable for java in group.object_classes]
    return Boundary(
        kind,
        model.text("parameterName") or _DEFAULT_PARAMETERS[kind],
        model.text("parameterDescription"),
        all(java == _TABLE for java in classes),
    )
