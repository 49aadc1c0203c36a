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
    from ..node_results import CredentialValue
    from ..node_run import ToolHandler
    from .flow_variables import FlowVariable, Stack


class WorkflowError(MCPError):
    """A workflow or one of its nodes cannot run here. The message says why and what to do."""

    CODE = "KMCP-WORKFLOW"


class NodeFailed(WorkflowError):  # noqa: N818  # an event, as in KNIME's messages
    """A node ran and failed. The message is the node's own."""

    CODE = "KMCP-NODE"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The surroundings of a run, which all of its nodes share."""

    host: ExtensionHost  # the host, which makes tables, keeps file stores and runs the nodes of its extension
    workflow_dir: Path  # the folder of the workflow, with its data area
    #: The folder that contains the workflow's file and other workflows; None if it is unknown.
    beside: Path | None = None
    #: Returns user name and password by name. For unknown names it returns None, or raises an `MCPError` that
    #: says where credentials can be stored.
    find_credential: Callable[[str], CredentialValue | None]
    credential_names: Sequence[str] = ()  # the names of the workflow's credentials
    is_canceled: Callable[[], bool] = bool  # returns whether the person canceled the run
    tool_handler: ToolHandler | None = None  # runs workflow tools for nodes
    #: The callers' values by node id: for Configuration nodes, and tables for Workflow Inputs.
    values: Mapping[int, Any] = field(default_factory=dict[int, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    node: NativeNode  # The node. Flow variables are already applied to its settings
    #: The inputs of the ports from 1 on: an `OutputTable`, bytes, or a port object; None for an unconnected
    #: port.
    inputs: tuple[Any, ...]
    stack: Stack  # the flow variables that arrive
    world: World  # the surroundings of the run
    #: Called with the node's progress (0 to 1), and a message or None.
    on_progress: Callable[[float, str | None], None]
    number: str  # the node's number in its workflow, such as 4:2 in a metanode


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    #: The outputs of the ports from 1 on, as in `Job.inputs`; None for a port of flow variables.
    outputs: tuple[Any, ...] = ()
    variables: tuple[FlowVariable, ...] = ()  # the flow variables that the node made, the last one on top
    warnings: tuple[str, ...] = ()  # the node's warnings
    view_html: str | None = None  # the page of the node's view


@dataclass(frozen=True, slots=True)
class Ports:
    """The data ports of a node, port 1 first."""

    inputs: tuple[str, ...] = ()  # the names of the inputs
    required: tuple[bool, ...] = ()  # for each input, whether it must be connected
    outputs: tuple[str, ...] = ()  # the names of the outputs


@dataclass(frozen=True, slots=True)
class Ready:
    """The result of checking a node before the workflow runs."""

    ports: Ports  # the node's ports
    model: Config | None = None  # settings to use instead of the node's settings; None to keep these
    notes: tuple[str, ...] = ()  # remarks for the person, in sentences


class NodeKind(Protocol):
    def ready(self, node: NativeNode) -> Ready:
        """Checks a node before anything runs. A WorkflowError or KnwfError says why it cannot run here."""
        ...

    def run(self, job: Job) -> Done:
        """Runs a node. A WorkflowError is its failure; tables that KNIME refuses are a HeadlessError."""
        ...
