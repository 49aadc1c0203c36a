"""What a node is given to run with, and what it gives back: the interface of all kinds of nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ...knwf import Config, NativeNode
    from ..host import ExtensionHost
    from ..services import ToolHandler
    from .variables import CredentialValue, FlowVariable, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What all nodes of a run share.

    Attributes:
        host: Makes tables and keeps file stores; runs the nodes of its extension.
        workflow_dir: The folder of the workflow, with its data area.
        beside: The folder that the workflow's file lies in, with other workflows; None where it is not known.
        find_credential: User name and password by name; None, or an `MCPError` that says where they could
            be, where there are none.
        credential_names: Names of the credentials that the whole workflow has.
        is_canceled: Whether the person wants to stop.
        tool_handler: Runs workflow tools for nodes.
        values: What callers set: a value for a Configuration node, a table for a Workflow Input, by node id.
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
    """One node to run.

    Attributes:
        node: The node, with what flow variables put into its settings.
        inputs: What arrives at the ports from 1 on: an `OutputTable`, bytes, or a port object; None where
            nothing is connected.
        stack: The flow variables that arrive.
        world: What all nodes share.
        on_progress: Is told how far the node is (0 to 1), with a message or None.
    """

    node: NativeNode
    inputs: tuple[Any, ...]
    stack: Stack
    world: World
    on_progress: Callable[[float, str | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a node gave.

    Attributes:
        outputs: What leaves the ports from 1 on, as `Job.inputs`; None for a port of flow variables.
        variables: Flow variables that the node made, the last one on top.
        warnings: What it warns of.
        view_html: The page of its view.
        logs: What it logged, as (severity, text).
    """

    outputs: tuple[Any, ...] = ()
    variables: tuple[FlowVariable, ...] = ()
    warnings: tuple[str, ...] = ()
    view_html: str | None = None
    logs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Ports:
    """The data ports of a node, port 1 first.

    Attributes:
        inputs: Names of the inputs.
        required: Which of them have to be connected.
        outputs: Names of the outputs.
    """

    inputs: tuple[str, ...] = ()
    required: tuple[bool, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """A node that was looked at before anything runs.

    Attributes:
        ports: Its ports.
        model: Settings to be used in place of its own; None for its own.
        notes: What a person should know, in sentences.
    """

    ports: Ports
    model: Config | None = None
    notes: tuple[str, ...] = ()


class NodeKind(Protocol):
    """A kind of node that runs here."""

    def ready(self, node: NativeNode) -> Ready:
        """Looks at a node before anything runs.

        Raises:
            RunError: It cannot run here.
            KnwfError: Its settings are broken.
        """
        ...

    def run(self, job: Job) -> Done:
        """Runs a node.

        Raises:
            RunError: It failed.
            HeadlessError: KNIME would not take its table.
            KnwfError: With the flow variables in them, its settings are broken.
        """
        ...
