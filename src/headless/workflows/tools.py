"""Workflows as tools: a tool made of a workflow, and such tools run, as KNIME does both.

KNIME takes the nodes at the edge out of a workflow: *Workflow Input* and *Workflow Output* become the tool's
ports in their order from top to bottom, *Tool Message Output* gives the message, and the Configuration nodes
are the parameters. What is before a Workflow Input or behind an output does not belong to the tool.
"""

from __future__ import annotations

import json
import shutil
import tempfile
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
from ..results import OutputTable
from .configuration import from_json
from .errors import RunError
from .job import World
from .plan import plan_run
from .run import unpack_data_area
from .runner import NodeStatus, run_plan
from .tables import first_cell

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from ...knwf import Configuration, Workflow
    from ..host import ExtensionHost
    from .runner import RunReport
    from .variables import CredentialValue

_MODES: Final = ("DEFAULT", "DETACHED", "DEBUG")
_MAX_DEPTH: Final = 16
_TYPE_NAMES: Final = {
    "string": "String",
    "int": "Number (Integer)",
    "long": "Number (Long)",
    "double": "Number (Float)",
    "boolean": "Boolean",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParts:
    """What a workflow is as a tool.

    Attributes:
        workflow: The workflow without what does not belong to the tool.
        inputs: Its Workflow Inputs, in port order.
        outputs: Its Workflow Outputs and its Tool Message Output, in port order.
        message_index: Which of the outputs is the message, -1 for none.
        configurations: The Configuration nodes by id.
    """

    workflow: Workflow
    inputs: tuple[NativeNode, ...]
    outputs: tuple[NativeNode, ...]
    message_index: int
    configurations: Mapping[int, Configuration]


def tool_parts(workflow: Workflow) -> ToolParts:
    """Takes a workflow apart.

    Raises:
        RunError: KNIME could not make a tool of it: it has several Tool Message Outputs.
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
    """What is before or behind some nodes, without these."""
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
    """Makes a tool of a workflow, as KNIME's node *Workflow to Tool* does.

    Args:
        knwf: The workflow archive. It is copied into a file store of the host.
        name: Name of the tool; the workflow's unless it is given.
        description: What the tool is for, for models; the workflow's unless it is given.
        host: Where the tool can run: the loaded extension. This project's own unless it is given.

    Returns:
        The tool. Its ``parameter_schema`` maps each parameter to type, default and description; nodes of the
        host can run it.

    Raises:
        RunError: No tool can be made of the workflow, or it would not run here; says why.
        OSError: The file cannot be read.
    """
    from .. import load_own_extension

    host = host or load_own_extension()
    workflow = _read(Path(knwf))
    parts = tool_parts(workflow)
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


def _read(file: Path) -> Workflow:
    try:
        return read_workflow(file)
    except KnwfError as error:
        raise RunError(f"{file.name} is no workflow that can be read: {error}") from None


def _schema(parts: ToolParts, workflow: Workflow) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for own in parts.configurations.values():
        if own.parameter in schema:
            raise RunError(
                f"The workflow '{workflow.name}' has two parameters called '{own.parameter}'",
                fix="Rename one of them in its Configuration node",
            )
        schema[own.parameter] = {**_property(own), "description": own.description}
    return schema


def _property(own: Configuration) -> dict[str, Any]:
    if own.kind != "credentials":
        return {"type": {"double": "number"}.get(own.kind, own.kind), "default": own.value}
    login = {"type": "string", "default": own.value or None}
    return {"type": "object", "username": login, "password": {"type": "string", "default": None}}


def _port(node: NativeNode, spec: str) -> ToolPort:
    own = read_boundary(node)
    return ToolPort(own.parameter, own.description, "Table", spec)


def _default_spec(node: NativeNode, workflow: Workflow) -> str:
    """The columns of the table that stands in for an input, where a person typed one."""
    for connection in workflow.connections:
        if connection.destination != node.id or connection.destination_port != 1:
            continue
        source = workflow.node(connection.source)
        if isinstance(source, NativeNode) and source.factory == TABLE_CREATOR_FACTORY:
            columns = [{"name": c.name, "type": _TYPE_NAMES[c.type]} for c in created_columns(source)]
            return json.dumps({"name": "default", "columns": columns}, ensure_ascii=False)
    return ""


def tools_table(host: ExtensionHost, tools: Sequence[WorkflowTool]) -> OutputTable:
    """A table of workflow tools with the column *Tool*, as *Workflow to Tool* gives it."""
    import pyarrow as pa
    from knime.types.tool import WorkflowTool as KnimeTool

    from ...types.columns import knime_value
    from .tables import made_table

    column = host.column_of([knime_value(tool) for tool in tools], KnimeTool)
    return made_table(host, pa.table([column], names=["Tool"]))


class ToolRunner:
    """Runs workflow tools: what a node's ``_execute_tool`` ends in.

    Args:
        host: Where the tools' workflows are stored, and what runs their nodes.
        find_credential: User name and password by name; None where there are none.
        is_canceled: Whether the person wants to stop.
    """

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
        """Whether the workflow of a tool is in a file store here. A tool that KNIME made has no archive."""
        import zipfile

        path = self._path(tool)
        return path is not None and zipfile.is_zipfile(path)

    def __call__(
        self, tool: Any, parameters: Mapping[str, Any], inputs: Sequence[Any], hints: Mapping[str, str]
    ) -> tuple[str, list[Any] | None, list[str]]:
        """Runs a tool.

        Args:
            tool: KNIME's value of it, or our own; both have a name and file store keys.
            parameters: Values of Configuration nodes by the name of the parameter.
            inputs: Tables with KNIME's types, in port order.
            hints: ``execution-mode`` (DEFAULT, DETACHED or DEBUG; all run in the same way here) and
                ``with-view-nodes`` ("true" gives the ids of nodes with a view).

        Returns:
            The message for the model, the output tables in port order (None if the tool failed, the message
            says why), and the ids of nodes with a view.

        Raises:
            RuntimeError: An execution mode that KNIME does not have.
        """
        mode = hints.get("execution-mode", "DEFAULT")
        if mode not in _MODES:
            raise RuntimeError(f"KNIME has no execution mode {mode!r}; it has {', '.join(_MODES)}")
        try:
            parts, report = self._run(tool, parameters, inputs)
        except (RunError, KnwfError, OSError) as error:
            return f"Failed to execute tool: {tool.name}: {error}", None, []
        if not report.ok:
            return f"Tool execution failed with: {_failures(report)}", None, []
        tables = [_arriving(report, node, parts) for node in parts.outputs]
        message = _message(tables, parts.message_index)
        views = [f"{o.node.id}" for o in report.outcomes if o.done.view_html is not None]
        wanted = hints.get("with-view-nodes", "").lower() == "true"
        own = [table.as_input() for i, table in enumerate(tables) if i != parts.message_index]
        return message, own, views if wanted else []

    def _path(self, tool: Any) -> Path | None:
        keys = getattr(tool, "_filestore_keys", None) or getattr(tool, "filestore_keys", None)
        try:
            path = Path(self._host.file_stores.file_store_key_to_absolute_path(str(keys).partition(";")[0]))
        except RuntimeError:
            return None
        return path if path.is_file() else None

    def _run(
        self, tool: Any, parameters: Mapping[str, Any], inputs: Sequence[Any]
    ) -> tuple[ToolParts, RunReport]:
        path = self._path(tool)
        if path is None:
            raise RunError("Its workflow is not here", fix="Make the tool with make_workflow_tool")
        if self._depth >= _MAX_DEPTH:
            raise RunError(f"Tools call each other more than {_MAX_DEPTH} deep")
        parts = tool_parts(read_workflow(path))
        if len(inputs) != len(parts.inputs):
            raise RunError(f"It has {len(parts.inputs)} inputs, but {len(inputs)} tables were given")
        values: dict[int, Any] = _parameter_values(parts, parameters)
        for node, table in zip(parts.inputs, inputs, strict=True):
            values[node.id] = OutputTable(table, (), self._host)
        with tempfile.TemporaryDirectory(prefix="knime-mcp-tool-", ignore_cleanup_errors=True) as folder:
            unpack_data_area(parts.workflow, Path(folder))
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
                credential_names=tuple(own.name for own in parts.workflow.credentials),
                is_canceled=self._is_canceled,
                tool_handler=inner,
                values=values,
            )
            return parts, run_plan(plan_run(parts.workflow, self._host), world)


def _parameter_values(parts: ToolParts, parameters: Mapping[str, Any]) -> dict[int, Any]:
    names: dict[str, int] = {}
    for node_id, own in parts.configurations.items():
        names.setdefault(own.parameter, node_id)
        names[f"{own.parameter}-{node_id}"] = node_id
    values: dict[int, Any] = {}
    for name, value in parameters.items():
        if name not in names:
            known = ", ".join(f'"{own.parameter}"' for own in parts.configurations.values())
            raise RunError(
                f'Parameter name "{name}" doesn\'t match any node in the workflow, valid parameter names are:'
                f" [{known}]"
            )
        values[names[name]] = from_json(parts.configurations[names[name]], value)
    return values


def _arriving(report: RunReport, node: NativeNode, parts: ToolParts) -> OutputTable:
    """The table at an output node's input."""
    source = next(
        c for c in parts.workflow.connections if c.destination == node.id and c.destination_port == 1
    )
    return report.outcome(source.source).done.outputs[source.source_port - 1]


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
