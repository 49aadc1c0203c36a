"""Runs the nodes of a Python extension through its host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knime.extension import parameter as kp
from knime.extension.ports import PortGroup, PortType

from ...knwf import KnwfError, NodeState
from ...knwf.json_parameters import to_model
from ...types.errors import MCPError
from ..node_results import HeadlessError, OutputTable
from .flow_variables import credentials, pushed, python_values
from .node_kind import Done, NodeFailed, Ports, Ready, WorkflowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...knwf import Config, NativeNode
    from ..host import ExtensionHost
    from ..port_values import AnyPort
    from .node_kind import Job


class PythonNode:
    """Runs nodes of one extension."""

    def __init__(self, host: ExtensionHost) -> None:
        self._host = host

    def ready(self, node: NativeNode) -> Ready:
        node_id = node.node_id or ""
        try:
            declared = self._host.declared(node_id)
        except HeadlessError:
            raise WorkflowError(
                f"The extension {self._host.id} {self._host.version} has no node '{node_id}'",
                fix="Install a newer version of knime-mcp",
            ) from None
        inputs = _port_counts(declared.input_ports, node)
        outputs = _port_counts(declared.output_ports, node)
        ports = Ports(
            tuple(port.name for port, count in inputs for _ in range(count)),
            # All ports have to be connected, except optional ones.
            tuple(
                isinstance(port, PortGroup) or not port.optional
                for port, count in inputs
                for _ in range(count)
            ),
            tuple(port.name for port, count in outputs for _ in range(count)),
        )
        return Ready(ports, *self._checked_settings(node, node_id))

    def _checked_settings(self, node: NativeNode, node_id: str) -> tuple[Config | None, tuple[str, ...]]:
        """The default settings and a note if the node does not accept its own; otherwise None and no note."""
        if node.model is None:
            return self._defaults(node_id), ()
        try:
            self._loaded_settings(node)
        except Exception as error:  # a node's own validation can raise any error
            # KNIME loads a node that was saved idle silently with the defaults; of a configured one it
            # reports the error.
            if node.state is not NodeState.IDLE:
                raise WorkflowError(
                    f"It does not accept its settings: {error}",
                    fix="Open the workflow in KNIME, correct the node's settings and save it",
                ) from None
            note = f"it does not accept its settings ({error}) and runs with the defaults, as KNIME would do"
            return self._defaults(node_id), (note,)
        return None, ()

    def _defaults(self, node_id: str) -> Config:
        return to_model(kp.extract_parameters(self._host.new_node(node_id)), self._host.version)

    def _loaded_settings(self, node: NativeNode) -> dict[str, Any]:
        saved, version = node.parameters, node.parameters_version
        return self._host.load_parameters(node.node_id or "", saved, version)["model"]

    def run(self, job: Job) -> Done:
        node, world = job.node, job.world
        node_id = node.node_id or ""
        declared = self._host.declared(node_id)
        try:
            parameters = self._loaded_settings(node)
        except KnwfError:
            raise
        except Exception as error:
            raise NodeFailed(str(error)) from None
        before = python_values(job.stack)
        try:
            result = self._host.run_node(
                node_id,
                _inputs_by_port(declared.input_ports, node, job.inputs),
                parameters,
                credentials=_credentials(job),
                flow_variables=before,
                cancel=world.is_canceled,
                tool_handler=world.tool_handler,
                output_groups={
                    port.name: count
                    for port, count in _port_counts(declared.output_ports, node)
                    if isinstance(port, PortGroup)
                },
                workflow_dir=world.workflow_dir,
                on_progress=job.on_progress,
                number=job.number,
            )
        except NotImplementedError as error:
            raise WorkflowError(str(error)) from None
        if not result.ok:
            raise NodeFailed((result.failure or {}).get("message") or "It failed without saying why")
        if result.problems:
            raise NodeFailed(f"KNIME would not take what the node gave: {'; '.join(result.problems)}")
        ports = [port for port, count in _port_counts(declared.output_ports, node) for _ in range(count)]
        return Done(
            outputs=tuple(self._value(port, v) for port, v in zip(ports, result.outputs, strict=True)),
            variables=pushed(before, result.flow_variables or {}),
            warnings=tuple(result.warnings[-1:]),  # KNIME shows the last one
            view_html=result.view_html,
        )

    def _value(self, port: AnyPort, value: Any) -> Any:
        return self._host.port_object(value) if isinstance(port.type, PortType) else value


def _port_counts(ports: Sequence[AnyPort], node: NativeNode) -> list[tuple[AnyPort, int]]:
    """The declared ports with the number of ports that the node has for each."""
    added = {group.id: group.count for group in node.port_groups if not group.fixed}
    return [
        (
            port,
            added.get(port.name, 0) if isinstance(port, PortGroup) or getattr(port, "optional", False) else 1,
        )
        for port in ports
    ]


def _inputs_by_port(ports: Sequence[AnyPort], node: NativeNode, inputs: Sequence[Any]) -> list[Any]:
    """One entry per declared port: a list for a group, None for a port that is absent or not connected."""
    given = iter(inputs)
    entries: list[Any] = []
    for port, count in _port_counts(ports, node):
        arrived = [next(given) for _ in range(count)]
        own = [value.as_input() if isinstance(value, OutputTable) else value for value in arrived]
        entries.append(own if isinstance(port, PortGroup) else (own[0] if own else None))
    return entries


def _credentials(job: Job) -> dict[str, tuple[str, str]]:
    """The credentials for the node: those of the workflow, and those among the flow variables."""
    found: dict[str, tuple[str, str]] = {}
    for name in job.world.credential_names:
        try:
            value = job.world.find_credential(name)
        except MCPError:
            continue  # the node raises an error if it needs these credentials
        if value is not None:
            found[name] = (value.login, value.password)
    return found | {name: (value.login, value.password) for name, value in credentials(job.stack).items()}
