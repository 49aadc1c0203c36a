"""KNIME's Workflow to Tool node: makes one from its settings, and reads them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from .nodes import KNIME_VENDOR
from .settings import Config, KnwfError, string
from .string_to_path import CONNECTION_GROUP
from .workflow import ORIGIN, NativeNode, PortGroup, Position, model_of, node_label

WORKFLOW_TO_TOOL_FACTORY: Final = "org.knime.ai.core.node.tool.workflow2tool.WorkflowToToolNodeFactory"
_BUNDLE: Final = ("KNIME AI Extension Java", "org.knime.ai.core", KNIME_VENDOR)

OutputColumnPolicy = Literal["APPEND", "REPLACE", "REPLACE_AND_RENAME"]


@dataclass(frozen=True, slots=True)
class ToolColumn:
    """The settings of a Workflow to Tool node.

    Attributes:
        path_column: The column with the paths of the workflows.
        policy: Adds the tools as a new column, or replaces the paths, under the same or another name.
        name: Name of the new or renamed column.
    """

    path_column: str
    policy: OutputColumnPolicy = "APPEND"
    name: str = "Tool"


def workflow_to_tool_node(
    node_id: int, settings: ToolColumn, *, position: Position = ORIGIN, annotation: str = ""
) -> NativeNode:
    """Makes a Workflow to Tool node."""
    model = (
        string("inputColumnName", settings.path_column),
        string("outputColumnPolicy", settings.policy),
        string("outputColumnName", settings.name),
    )
    return NativeNode(
        id=node_id,
        name="Workflow to Tool",
        factory=WORKFLOW_TO_TOOL_FACTORY,
        model=Config("model", model),
        inputs=1,
        outputs=1,
        port_groups=(PortGroup(CONNECTION_GROUP), PortGroup("Paths"), PortGroup("Tools")),
        position=position,
        annotation=annotation,
        bundle=_BUNDLE,
    )


def read_workflow_to_tool(node: NativeNode) -> ToolColumn:
    """Reads the settings of a Workflow to Tool node.

    Raises:
        KnwfError: The node is of another kind, or its settings are incomplete.
    """
    model = model_of(node, WORKFLOW_TO_TOOL_FACTORY, "Workflow to Tool node")
    if not model.text("inputColumnName"):
        raise KnwfError(f"{node_label(node)} does not say which column has the paths of the workflows")
    policy = model.text("outputColumnPolicy", "APPEND")
    if policy not in get_args(OutputColumnPolicy):
        raise KnwfError(f"{node_label(node)}: what to do with the column, {policy!r}, is not known")
    return ToolColumn(
        model.text("inputColumnName"),
        cast("OutputColumnPolicy", policy),
        model.text("outputColumnName", "Tool"),
    )
