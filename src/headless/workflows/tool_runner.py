"""Runs workflow tools, which nodes call with ``_execute_tool``."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...knwf import KnwfError, read_workflow
from ..results import OutputTable
from .errors import RunError
from .node_kinds.configuration import from_json
from .node_kinds.node_kind import World
from .node_kinds.tables import first_cell
from .plan import plan_run
from .plan_runner import NodeStatus, run_plan
from .run import unpack_data_area
from .workflow_tool import tool_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...knwf import NativeNode
    from ..host import ExtensionHost
    from .plan_runner import RunReport
    from .variables import CredentialValue
    from .workflow_tool import ToolParts

_MODES: Final = ("DEFAULT", "DETACHED", "DEBUG")
_MAX_DEPTH: Final = 16


class ToolRunner:
    """Runs workflow tools.

    Args:
        host: The host, which stores the tools' workflows and runs their nodes.
        find_credential: Returns user name and password by name; None for an unknown name.
        is_canceled: Returns whether the person canceled the run.
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
        """Returns whether a tool's workflow is an archive in a file store. KNIME's own tools have none."""
        path = self._path(tool)
        return path is not None and zipfile.is_zipfile(path)

    def __call__(
        self, tool: Any, parameters: Mapping[str, Any], inputs: Sequence[Any], hints: Mapping[str, str]
    ) -> tuple[str, list[Any] | None, list[str]]:
        """Runs a tool.

        Args:
            tool: The tool as KNIME's value or as our own value, which have a name and file store keys.
            parameters: The values of Configuration nodes, by the name of the parameter.
            inputs: Tables with KNIME's types, in port order.
            hints: ``execution-mode`` (DEFAULT, DETACHED or DEBUG, with the same effect here) and
                ``with-view-nodes`` ("true" to return the ids of nodes with a view).

        Returns:
            The message for the model; the output tables in port order, or None if the tool failed for the
            reason in the message; and the ids of nodes with a view.

        Raises:
            RuntimeError: KNIME does not have the execution mode.
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
        tables = [_input_table(report, node, parts) for node in parts.outputs]
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
    for node_id, config in parts.configurations.items():
        names.setdefault(config.parameter, node_id)
        names[f"{config.parameter}-{node_id}"] = node_id
    values: dict[int, Any] = {}
    for name, value in parameters.items():
        if name not in names:
            known = ", ".join(f'"{config.parameter}"' for config in parts.configurations.values())
            raise RunError(
                f'Parameter name "{name}" doesn\'t match any node in the workflow, valid parameter names are:'
                f" [{known}]"
            )
        values[names[name]] = from_json(parts.configurations[names[name]], value)
    return values


def _input_table(report: RunReport, node: NativeNode, parts: ToolParts) -> OutputTable:
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
