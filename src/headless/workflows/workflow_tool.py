"""Makes tools from workflows, by KNIME's rules.

*Workflow Input* and *Workflow Output* nodes become the tool's ports, in their order from top to bottom. *Tool
Message Output* has the message, and the Configuration nodes are the parameters. Nodes before a Workflow Input
or after an output do not belong to the tool.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...knwf import (
    BOUNDARY_FACTORIES,
    CONFIGURATION_FACTORIES,
    TABLE_CREATOR_FACTORY,
    KnwfError,
    NativeNode,
    created_columns,
    read_boundary,
    read_configuration,
    read_workflow,
)
from ...types.tool import ToolPort, WorkflowTool
from .errors import RunError
from .plan import plan_run

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from ...knwf import Configuration, Workflow
    from ..host import ExtensionHost
    from ..results import OutputTable

_TYPE_NAMES: Final = {
    "string": "String",
    "int": "Number (Integer)",
    "long": "Number (Long)",
    "double": "Number (Float)",
    "boolean": "Boolean",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParts:
    """The parts of a workflow that is a tool.

    Attributes:
        workflow: The workflow without nodes that do not belong to the tool.
        inputs: The Workflow Inputs, in port order.
        outputs: The Workflow Outputs and the Tool Message Output, in port order.
        message_index: The index of the Tool Message Output in `outputs`; -1 if there is none.
        configurations: The Configuration nodes by id.
    """

    workflow: Workflow
    inputs: tuple[NativeNode, ...]
    outputs: tuple[NativeNode, ...]
    message_index: int
    configurations: Mapping[int, Configuration]


def tool_parts(workflow: Workflow) -> ToolParts:
    """Finds the parts of a workflow that is a tool.

    Raises:
        RunError: The workflow has several Tool Message Outputs, so KNIME cannot make a tool from it.
        KnwfError: The settings of a Configuration node are broken.
    """
    natives = sorted(
        (node for node in workflow.nodes if isinstance(node, NativeNode)),
        key=lambda node: (node.position.y, node.id),
    )
    edges = {node.id: BOUNDARY_FACTORIES.get(node.factory) for node in natives}
    messages = [node for node in natives if edges[node.id] == "message"]
    if len(messages) > 1:
        raise RunError(
            f"The workflow '{workflow.name}' has {len(messages)} Tool Message Output nodes, not one"
        )
    fed = {own.source for own in workflow.connections if own.source_port > 0}
    taken = {own.destination for own in workflow.connections if own.destination_port > 0}
    sources = [node for node in natives if edges[node.id] == "input"]
    inputs = [node for node in sources if node.id in fed]
    outputs = [node for node in natives if edges[node.id] in ("output", "message") and node.id in taken]
    gone = _reached({node.id for node in sources}, workflow, upstream=True)
    gone |= _reached({node.id for node in outputs}, workflow, upstream=False)
    kept = replace(
        workflow,
        nodes=tuple(node for node in workflow.nodes if node.id not in gone),
        connections=tuple(c for c in workflow.connections if not {c.source, c.destination} & gone),
    )
    configurations = {
        node.id: read_configuration(node)
        for node in sorted(natives, key=lambda node: node.id)
        if node.factory in CONFIGURATION_FACTORIES and node.id not in gone
    }
    return ToolParts(
        workflow=kept,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        message_index=next((i for i, node in enumerate(outputs) if edges[node.id] == "message"), -1),
        configurations=configurations,
    )


def _reached(start: set[int], workflow: Workflow, *, upstream: bool) -> set[int]:
    """The nodes before or after the `start` nodes, without these."""
    ends = [
        (c.destination, c.source) if upstream else (c.source, c.destination) for c in workflow.connections
    ]
    found: set[int] = set()
    waiting = list(start)
    while waiting:
        node_id = waiting.pop()
        new = {end for begin, end in ends if begin == node_id} - found
        found |= new
        waiting += new
    return found - start


def make_workflow_tool(
    knwf: str | os.PathLike[str],
    *,
    name: str | None = None,
    description: str | None = None,
    host: ExtensionHost | None = None,
) -> WorkflowTool:
    """Makes a tool from a workflow, as KNIME's node *Workflow to Tool* does.

    Args:
        knwf: The workflow archive. It is copied into a file store of the host.
        name: The name of the tool; by default the workflow's name.
        description: The description for models; by default the workflow's description.
        host: The host that can run the tool; by default with this project's own extension.

    Returns:
        The tool, which nodes of the host can run. Its ``parameter_schema`` has type, default and description
        of each parameter.

    Raises:
        RunError: The workflow cannot be a tool, or cannot run here; the error says why.
        OSError: The file cannot be read.
    """
    from .. import load_own_extension

    host = host or load_own_extension()
    try:
        workflow = read_workflow(knwf)
        parts = tool_parts(workflow)
    except KnwfError as error:
        raise RunError(f"{Path(knwf).name} cannot be read as a workflow: {error}") from None
    plan_run(parts.workflow, host)
    outputs = [node for i, node in enumerate(parts.outputs) if i != parts.message_index]
    path, key = host.file_stores.create_file_store()
    shutil.copyfile(knwf, path)
    return WorkflowTool(
        name if name is not None else workflow.name,
        description if description is not None else workflow.description or "",
        _schema(parts, workflow),  # pyright: ignore[reportArgumentType]  # the field takes a dict
        message_output_port_index=parts.message_index,
        input_ports=tuple(_port(node, _default_spec(node, workflow)) for node in parts.inputs),
        output_ports=tuple(_port(node, "") for node in outputs),
        filestore_keys=key,
    )


def _schema(parts: ToolParts, workflow: Workflow) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for config in parts.configurations.values():
        if config.parameter in schema:
            raise RunError(
                f"The workflow '{workflow.name}' has two parameters called '{config.parameter}'",
                fix="Rename one of them in its Configuration node",
            )
        schema[config.parameter] = {**_property(config), "description": config.description}
    return schema


def _property(config: Configuration) -> dict[str, Any]:
    if config.kind == "double":
        # JSON has only finite numbers.
        known = isinstance(config.value, float) and math.isfinite(config.value)
        return {"type": "number"} | ({"default": config.value} if known else {})
    if config.kind != "credentials":
        return {"type": config.kind, "default": config.value}
    login = {"type": "string", "default": config.value or None}
    return {"type": "object", "username": login, "password": {"type": "string", "default": None}}


def _port(node: NativeNode, spec: str) -> ToolPort:
    boundary = read_boundary(node)
    return ToolPort(boundary.parameter, boundary.description, "Table", spec)


def _default_spec(node: NativeNode, workflow: Workflow) -> str:
    """The columns of an input's default table as JSON, if that is a Table Creator; otherwise empty."""
    for connection in workflow.connections:
        if connection.destination != node.id or connection.destination_port != 1:
            continue
        source = next((own for own in workflow.nodes if own.id == connection.source), None)
        if isinstance(source, NativeNode) and source.factory == TABLE_CREATOR_FACTORY:
            with contextlib.suppress(KnwfError):  # the Table Creator is not part of the tool
                columns = [{"name": c.name, "type": _TYPE_NAMES[c.type]} for c in created_columns(source)]
                return json.dumps({"name": "default", "columns": columns}, ensure_ascii=False)
    return ""


def tools_table(host: ExtensionHost, tools: Sequence[WorkflowTool]) -> OutputTable:
    """A table of workflow tools in the column *Tool*, as *Workflow to Tool* outputs it."""
    import pyarrow as pa
    from knime.types.tool import WorkflowTool as KnimeTool

    from ...types.columns import knime_value
    from .node_kinds.tables import made_table

    column = host.column_of([knime_value(tool) for tool in tools], KnimeTool)
    return made_table(host, pa.table([column], names=["Tool"]))
