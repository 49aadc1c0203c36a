"""Reads, writes and checks KNIME's workflow archives (``.knwf``), without KNIME.

`read_workflow` reads a `Workflow`, `write_workflow` writes one, `check` and `check_archive` list problems.
`extension_node` and `table_creator` make nodes, `arranged` places them.
"""

from .archive import ArchiveLimits
from .boundary import BOUNDARY_FACTORIES, Boundary, boundary_node, read_boundary
from .check import check, check_archive
from .concatenate import CONCATENATE_FACTORY, Concatenation, concatenate_node, read_concatenation
from .configuration import (
    CONFIGURATION_FACTORIES,
    Configuration,
    configuration_node,
    read_configuration,
    with_value,
)
from .graph import arranged
from .nodes import PYTHON_FACTORY, Port, declared_ports, extension_node
from .reader import read_inside, read_workflow
from .settings import Config, Entry, KnwfError
from .string_to_path import (
    STRING_TO_PATH_FACTORY,
    PathConversion,
    read_string_to_path,
    string_to_path_node,
)
from .table_creator import TABLE_CREATOR_FACTORY, Column, created_columns, table_creator
from .workflow import (
    VARIABLE_PORT,
    Annotation,
    Connection,
    NativeNode,
    Node,
    NodeState,
    OtherNode,
    PortGroup,
    Position,
    Problem,
    VariableControl,
    Workflow,
    WorkflowCredential,
    WorkflowVariable,
)
from .workflow_to_tool import (
    WORKFLOW_TO_TOOL_FACTORY,
    ToolColumn,
    read_workflow_to_tool,
    workflow_to_tool_node,
)
from .writer import write_workflow

__all__ = [
    "BOUNDARY_FACTORIES",
    "CONCATENATE_FACTORY",
    "CONFIGURATION_FACTORIES",
    "PYTHON_FACTORY",
    "STRING_TO_PATH_FACTORY",
    "TABLE_CREATOR_FACTORY",
    "VARIABLE_PORT",
    "WORKFLOW_TO_TOOL_FACTORY",
    "Annotation",
    "ArchiveLimits",
    "Boundary",
    "Column",
    "Concatenation",
    "Config",
    "Configuration",
    "Connection",
    "Entry",
    "KnwfError",
    "NativeNode",
    "Node",
    "NodeState",
    "OtherNode",
    "PathConversion",
    "Port",
    "PortGroup",
    "Position",
    "Problem",
    "ToolColumn",
    "VariableControl",
    "Workflow",
    "WorkflowCredential",
    "WorkflowVariable",
    "arranged",
    "boundary_node",
    "check",
    "check_archive",
    "concatenate_node",
    "configuration_node",
    "created_columns",
    "declared_ports",
    "extension_node",
    "read_boundary",
    "read_concatenation",
    "read_configuration",
    "read_inside",
    "read_string_to_path",
    "read_workflow",
    "read_workflow_to_tool",
    "string_to_path_node",
    "table_creator",
    "with_value",
    "workflow_to_tool_node",
    "write_workflow",
]
