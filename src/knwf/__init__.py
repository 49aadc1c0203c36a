"""Writes and checks KNIME's workflow archives (``.knwf``), without KNIME.

`write_workflow` writes a `Workflow`, `write_component` a component, `check` lists problems. `read_segment`
and `write_segment` are for the workflow in a tool's cell; `extension_node` and `configuration_node` make
nodes.
"""

from .component_file import (
    COMPONENT_INPUT_FACTORY,
    COMPONENT_OUTPUT_FACTORY,
    Component,
    ComponentFace,
    edge_node,
    write_component,
)
from .configuration_nodes import (
    CONFIGURATION_FACTORIES,
    Configuration,
    configuration_node,
    read_configuration,
    with_value,
)
from .node_file import PYTHON_FACTORY, DeclaredPort, extension_node
from .segment_file import PortOf, Segment, read_segment, segment_digest, write_segment
from .settings_xml import Config, KnwfError, SettingsEntry
from .workflow_check import check
from .workflow_file import read_files, write_workflow
from .workflow_model import (
    VARIABLE_PORT,
    Annotation,
    CanvasPosition,
    Connection,
    NativeNode,
    Node,
    NodeState,
    OtherNode,
    PortGroup,
    VariableControl,
    Workflow,
    WorkflowCredential,
    WorkflowProblem,
    WorkflowVariable,
)

__all__ = [
    "COMPONENT_INPUT_FACTORY",
    "COMPONENT_OUTPUT_FACTORY",
    "CONFIGURATION_FACTORIES",
    "PYTHON_FACTORY",
    "VARIABLE_PORT",
    "Annotation",
    "CanvasPosition",
    "Component",
    "ComponentFace",
    "Config",
    "Configuration",
    "Connection",
    "DeclaredPort",
    "KnwfError",
    "NativeNode",
    "Node",
    "NodeState",
    "OtherNode",
    "PortGroup",
    "PortOf",
    "Segment",
    "SettingsEntry",
    "VariableControl",
    "Workflow",
    "WorkflowCredential",
    "WorkflowProblem",
    "WorkflowVariable",
    "check",
    "configuration_node",
    "edge_node",
    "extension_node",
    "read_configuration",
    "read_files",
    "read_segment",
    "segment_digest",
    "with_value",
    "write_component",
    "write_segment",
    "write_workflow",
]
