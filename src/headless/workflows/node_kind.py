"""The interface of all kinds of nodes: the job with its inputs, the result, and the errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ...types.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ...knwf import Config, NativeNode
    from ..host import ExtensionHost
    from ..node_run import ToolHandler
    from .flow_variables import CredentialValue, FlowVariable, Stack


class RunError(MCPError):
    """A workflow or one of its nodes cannot run here. The message says why and what to do."""


class NodeFailed(RunError):  # noqa: N818  # an event, as in KNIME's messages
    """A node ran and failed. The message is the node's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The surroundings of a run, which all of its nodes share.

    Attributes:
        host: The host, which makes tables, keeps file stores and runs the nodes of its extension.
        workflow_dir: The folder of the workflow, with its data area.
        beside: The folder that contains the workflow's file and other workflows; None if it is unknown.
        find_credential: Returns user name and password by name. For unknown names it returns None, or raises
            an `MCPError` that says where credentials can be stored.
        credential_names: The names of the workflow's credentials.
        is_canceled: Returns whether the person canceled the run.
        tool_handler: Runs workflow tools for nodes.
        values: The callers' values by node id: for Configuration nodes, and tables for Workflow Inputs.
    """

    host: ExtensionHost
    workflow_dir: Path
    beside: Path | None = None
    find_credential: Callable[[str], CredentialValue | None]
    credential_names: Sequence[str] = ()
    is_canceled: Callable[[], bool] = bool
    tool_handler: ToolHandler | None = None
    values: Mapping[int, Any] = field(default_factory=dict[int, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The run of one node.

    Attributes:
        node: The node. Flow variables are already applied to its settings.
        inputs: The inputs of the ports from 1 on: an `OutputTable`, bytes, or a port object; None for an
            unconnected port.
        stack: The flow variables that arrive.
        world: The surroundings of the run.
        on_progress: Called with the node's progress (0 to 1), and a message or None.
    """

    node: NativeNode
    inputs: tuple[Any, ...]
    stack: Stack
    world: World
    on_progress: Callable[[float, str | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a node.

    Attributes:
        outputs: The outputs of the ports from 1 on, as in `Job.inputs`; None for a port of flow variables.
        variables: The flow variables that the node made, the last one on top.
        warnings: The node's warnings.
        view_html: The page of the node's view.
    """

    outputs: tuple[Any, ...] = ()
    variables: tuple[FlowVariable, ...] = ()
    warnings: tuple[str, ...] = ()
    view_html: str | None = None


@dataclass(frozen=True, slots=True)
class Ports:
    """The data ports of a node, port 1 first.

    Attributes:
        inputs: The names of the inputs.
        required: For each input, whether it must be connected.
        outputs: The names of the outputs.
    """

    inputs: tuple[str, ...] = ()
    required: tuple[bool, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """The result of checking a node before the workflow runs.

    Attributes:
        ports: The node's ports.
        model: Settings to use instead of the node's settings; None to keep these.
        notes: Remarks for the person, in sentences.
    """

    ports: Ports
    model: Config | None = None
    notes: tuple[str, ...] = ()


class NodeKind(Protocol):
    def ready(self, node: NativeNode) -> Ready:
        """Checks a node before the workflow runs.

        Raises:
            RunError: The node cannot run here.
            KnwfError: The node's settings are broken.
        """
        ...

    def run(self, job: Job) -> Done:
        """Runs a node.

        Raises:
            RunError: The node failed.
            HeadlessError: KNIME would refuse the node's table.
            KnwfError: The settings are broken after flow variables were applied.
        """
        ...
