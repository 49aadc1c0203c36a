"""Makes tools from workflows, by KNIME's rules, and runs them for nodes that call ``_execute_tool``.

*Workflow Input* and *Workflow Output* nodes become the tool's ports, in their order from top to bottom. *Tool
Message Output* has the message, and the Configuration nodes are the parameters. Nodes before a Workflow Input
or after an output do not belong to the tool.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...knwf import (
    BOUNDARY_FACTORIES,
    CONFIGURATION_FACTORIES,
    TABLE_CREATOR_FACTORY,
    Connection,
    KnwfError,
    NativeNode,
    PortOf,
    Segment,
    boundary_node,
    created_columns,
    read_boundary,
    read_configuration,
    read_segment,
    read_workflow,
    write_segment,
)
from ...types.tool import ToolPort, WorkflowTool
from ..column_types import PRIMITIVE_NAMES
from ..node_results import OutputTable
from .native_kinds import first_cell, from_json
from .node_kind import WorkflowError, World
from .workflow_plan import plan_run
from .workflow_run import NodeStatus, run_plan, unpack_data_area

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from ...knwf import Configuration, Workflow
    from ..host import ExtensionHost
    from ..node_results import CredentialValue
    from .workflow_run import RunReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParts:
    workflow: Workflow  # the workflow without nodes that do not belong to the tool
    inputs: tuple[NativeNode, ...]  # the Workflow Inputs, in port order
    outputs: tuple[NativeNode, ...]  # the Workflow Outputs and the Tool Message Output, in port order
    message_index: int  # the index of the Tool Message Output in `outputs`; -1 if there is none
    configurations: Mapping[int, Configuration]  # the Configuration nodes by id


def tool_parts(workflow: Workflow) -> ToolParts:
    """Finds the parts of a workflow that is a tool; WorkflowError if KNIME cannot make a tool from it."""
    natives = sorted(
        (node for node in workflow.nodes if isinstance(node, NativeNode)),
        key=lambda node: (node.position.y, node.id),
    )
    edges = {node.id: BOUNDARY_FACTORIES.get(node.factory) for node in natives}
    messages = [node for node in natives if edges[node.id] == "message"]
    if len(messages) > 1:
        raise WorkflowError(
            f"The workflow '{workflow.name}' has {len(messages)} Tool Message Output nodes, not one"
        )
    fed = {own.source for own in workflow.connections if own.source_port > 0}
    taken = {own.destination for own in workflow.connections if own.destination_port > 0}
    sources = [node for node in natives if edges[node.id] == "input"]
    inputs = [node for node in sources if node.id in fed]
    outputs = [node for node in natives if edges[node.id] in ("output", "message") and node.id in taken]
    # As WorkflowToolCell.createFromAndModifyWorkflow does in KNIME.
    gone = _reached({node.id for node in sources}, workflow, upstream=True)
    gone |= _reached({node.id for node in outputs}, workflow, upstream=False)
    kept = replace(
        workflow,
        nodes=tuple(node for node in workflow.nodes if node.id not in gone),
        connections=tuple(c for c in workflow.connections if not {c.source, c.destination} & gone),
    )
    return ToolParts(
        workflow=kept,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        message_index=next((i for i, node in enumerate(outputs) if edges[node.id] == "message"), -1),
        configurations=_configurations(kept),
    )


def _configurations(workflow: Workflow) -> dict[int, Configuration]:
    return {
        node.id: read_configuration(node)
        for node in sorted(workflow.nodes, key=lambda node: node.id)
        if isinstance(node, NativeNode) and node.factory in CONFIGURATION_FACTORIES
    }


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
    host: ExtensionHost,
    *,
    name: str | None = None,
    description: str | None = None,
) -> WorkflowTool:
    """Makes a tool from a workflow, as KNIME's node *Workflow to Tool* does; nodes of the host can run it.

    The workflow goes as a segment into a file store of the host. Name and description are by default those
    of the workflow. The tool's ``parameter_schema`` has type, default and description of each parameter.
    WorkflowError says why a workflow cannot be a tool, or cannot run here.
    """
    try:
        workflow = read_workflow(knwf)
        parts = tool_parts(workflow)
    except KnwfError as error:
        raise WorkflowError(f"{Path(knwf).name} cannot be read as a workflow: {error}") from None
    # Only for its errors: a tool that cannot run is refused here, not when a model calls it.
    plan_run(parts.workflow, host)
    outputs = [node for i, node in enumerate(parts.outputs) if i != parts.message_index]
    path, key = host.file_stores.create_file_store()
    Path(path).write_bytes(write_segment(_segment(parts)))
    return WorkflowTool(
        name if name is not None else workflow.name,
        description if description is not None else workflow.description or "",
        _schema(parts, workflow),  # pyright: ignore[reportArgumentType]  # the field takes a dict
        message_output_port_index=parts.message_index,
        input_ports=tuple(_port(node, _default_spec(node, workflow)) for node in parts.inputs),
        output_ports=tuple(_port(node, "") for node in outputs),
        filestore_keys=key,
    )


def _segment(parts: ToolParts) -> Segment:
    """The workflow without its input and output nodes, as KNIME keeps it in a tool's cell."""
    gone = {node.id for node in (*parts.inputs, *parts.outputs)}
    lines = parts.workflow.connections
    for node in parts.inputs:
        # Both ends of such a line are stripped: the segment could not say where the table goes.
        if any(own.source == node.id and own.destination in gone for own in lines):
            raise WorkflowError(
                f"The input '{read_boundary(node).parameter}' leads straight to an output",
                fix="Put a node between: KNIME makes a tool of such a workflow, which then fails",
            )
    return Segment(
        workflow=replace(
            parts.workflow,
            nodes=tuple(
                node
                for node in parts.workflow.nodes
                if not isinstance(node, NativeNode) or node.factory not in BOUNDARY_FACTORIES
            ),
            connections=tuple(own for own in lines if not {own.source, own.destination} & gone),
        ),
        inputs=tuple(
            tuple(PortOf(own.destination, own.destination_port) for own in lines if own.source == node.id)
            for node in parts.inputs
        ),
        outputs=tuple(
            next(PortOf(own.source, own.source_port) for own in lines if own.destination == node.id)
            for node in parts.outputs
        ),
    )


def _with_inputs(segment: Segment) -> tuple[Workflow, tuple[NativeNode, ...]]:
    """The workflow with a node for each input, and these nodes."""
    first = 1 + max((node.id for node in segment.workflow.nodes), default=0)
    nodes = tuple(
        boundary_node(first + i, "input", parameter=f"input-{i}") for i in range(len(segment.inputs))
    )
    lines = [
        Connection(node.id, 1, port.node, port.index)
        for node, ports in zip(nodes, segment.inputs, strict=True)
        for port in ports
    ]
    workflow = segment.workflow
    return replace(workflow, nodes=workflow.nodes + nodes, connections=(*workflow.connections, *lines)), nodes


def _schema(parts: ToolParts, workflow: Workflow) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for config in parts.configurations.values():
        if config.parameter in schema:
            raise WorkflowError(
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
    if config.kind == "date":
        return {"type": "string", "format": "ZonedDateTime", "default": config.value}
    if config.kind in ("choice", "file"):
        name = {"fileName": ""} if config.kind == "file" else {}
        return {"type": "string", "default": config.value, **name}
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
                columns = [{"name": c.name, "type": PRIMITIVE_NAMES[c.type]} for c in created_columns(source)]
                return json.dumps({"name": "default", "columns": columns}, ensure_ascii=False)
    return ""


def tools_table(host: ExtensionHost, tools: Sequence[WorkflowTool]) -> OutputTable:
    """A table of workflow tools in the column *Tool*, as *Workflow to Tool* outputs it."""
    import pyarrow as pa
    from knime.types.tool import WorkflowTool as KnimeTool

    from ...types.columns import knime_value
    from .native_kinds import made_table

    column = host.column_of([knime_value(tool) for tool in tools], KnimeTool)
    return made_table(host, pa.table([column], names=["Tool"]))


_MODES: Final = ("DEFAULT", "DETACHED", "DEBUG")
_MAX_DEPTH: Final = 16


class ToolRunner:
    """Runs workflow tools, whose archives the host stores."""

    def __init__(
        self,
        host: ExtensionHost,
        *,
        find_credential: Callable[[str], CredentialValue | None] = lambda _: None,
        is_canceled: Callable[[], bool] = bool,
        depth: int = 0,
    ) -> None:
        self._host = host
        self._find_credential = find_credential
        self._is_canceled = is_canceled
        self._depth = depth

    def has_workflow(self, tool: Any) -> bool:
        """Returns whether a tool's workflow is in a file store."""
        path = self._path(tool)
        try:
            return path is not None and bool(read_segment(path.read_bytes()))
        except KnwfError:
            return False

    def __call__(
        self, tool: Any, parameters: Mapping[str, Any], inputs: Sequence[Any], hints: Mapping[str, str]
    ) -> tuple[str, list[Any] | None, list[str]]:
        """Runs a tool, which is KNIME's value or our own; parameters are by name, tables in port order.

        ``hints`` has ``execution-mode`` (DEFAULT, DETACHED or DEBUG, with the same effect here) and
        ``with-view-nodes`` ("true" to return the ids of nodes with a view). Returns the message for the
        model, the output tables in port order (None: the tool failed, and the message says why), and the ids
        of view nodes.
        """
        mode = hints.get("execution-mode", "DEFAULT")
        if mode not in _MODES:
            raise RuntimeError(f"KNIME has no execution mode {mode!r}; it has {', '.join(_MODES)}")
        try:
            segment, report = self._run(tool, parameters, inputs)
        except (WorkflowError, KnwfError, OSError) as error:
            return f"Failed to execute tool: {tool.name}: {error}", None, []
        if not report.ok:
            return f"Tool execution failed with: {_failures(report)}", None, []
        index = tool.message_output_port_index
        tables = [report.outcome(port.node).done.outputs[port.index - 1] for port in segment.outputs]
        views = [f"{o.node.id}" for o in report.outcomes if o.done.view_html is not None]
        wanted = hints.get("with-view-nodes", "").lower() == "true"
        own = [table.as_input() for i, table in enumerate(tables) if i != index]
        return _message(tables, index), own, views if wanted else []

    def _path(self, tool: Any) -> Path | None:
        keys = getattr(tool, "_filestore_keys", None) or getattr(tool, "filestore_keys", None)
        try:
            # Behind the semicolon is the tool's data area, which KNIME may have stored as well.
            path = Path(self._host.file_stores.file_store_key_to_absolute_path(str(keys).partition(";")[0]))
        except RuntimeError:
            return None
        return path if path.is_file() else None

    def _run(
        self, tool: Any, parameters: Mapping[str, Any], inputs: Sequence[Any]
    ) -> tuple[Segment, RunReport]:
        path = self._path(tool)
        if path is None:
            raise WorkflowError("Its workflow is not here", fix="Make the tool with make_workflow_tool")
        # A tool's workflow may have an agent that is given the tool itself.
        if self._depth >= _MAX_DEPTH:
            raise WorkflowError(f"Tools call each other more than {_MAX_DEPTH} deep")
        segment = read_segment(path.read_bytes())
        workflow, sources = _with_inputs(segment)
        if len(inputs) != len(sources):
            raise WorkflowError(f"It has {len(sources)} inputs, but {len(inputs)} tables were given")
        values: dict[int, Any] = _parameter_values(_configurations(workflow), parameters)
        for node, table in zip(sources, inputs, strict=True):
            values[node.id] = OutputTable(table, (), self._host)
        # Each call has its own data area, so that calls side by side do not see each other's files.
        with tempfile.TemporaryDirectory(prefix="knime-mcp-tool-", ignore_cleanup_errors=True) as folder:
            unpack_data_area(workflow, Path(folder))
            inner = ToolRunner(
                self._host,
                find_credential=self._find_credential,
                is_canceled=self._is_canceled,
                depth=self._depth + 1,
            )
            world = World(
                host=self._host,
                workflow_dir=Path(folder),
                find_credential=self._find_credential,
                credential_names=tuple(own.name for own in workflow.credentials),
                is_canceled=self._is_canceled,
                tool_handler=inner,
                values=values,
            )
            return segment, run_plan(plan_run(workflow, self._host), world)


def _parameter_values(
    configurations: Mapping[int, Configuration], parameters: Mapping[str, Any]
) -> dict[int, Any]:
    names: dict[str, int] = {}
    for node_id, config in configurations.items():
        # KNIME takes a parameter with and without the number of its node.
        names.setdefault(config.parameter, node_id)
        names[f"{config.parameter}-{node_id}"] = node_id
    values: dict[int, Any] = {}
    for name, value in parameters.items():
        if name not in names:
            known = ", ".join(f'"{config.parameter}"' for config in configurations.values())
            raise WorkflowError(
                f'Parameter name "{name}" doesn\'t match any node in the workflow, valid parameter names are:'
                f" [{known}]"
            )
        values[names[name]] = from_json(configurations[names[name]], value)
    return values


def _message(tables: Sequence[OutputTable], index: int) -> str:
    if index < 0:
        return "Tool executed successfully (no custom tool message output)"
    message = first_cell(tables[index])
    return "Tool executed successfully (empty custom tool message)" if message is None else message


def _failures(report: RunReport) -> str:
    failed = [o for o in report.outcomes if o.status in (NodeStatus.FAILED, NodeStatus.CANCELED)]
    count = "one node" if len(failed) == 1 else f"{len(failed)} nodes"
    lines = ",\n".join(f"{outcome.node.name} #{outcome.node.id}: {outcome.message}" for outcome in failed)
    return f"Workflow contains {count} with execution failure:\n{lines}"
