"""The contexts through which nodes use KNIME: in the dialog, in configure() and in execute()."""

from collections import UserDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from knime.api.table import Table

    from .ports import Port, PortGroup


#: The object behind a context: KNIME's Java side, or here the host's ``…Services`` with the same methods.
JavaContext = Any


@dataclass(frozen=True)
class Credential:
    """A user name and a password, and the name of these credentials in the workflow."""

    username: str
    password: str
    credential_name: str


class FlowVariables(UserDict[str, Any]):
    """Flow variables by name. They cannot be deleted, and names that start with ``knime`` cannot be set."""

    def __init__(self) -> None:  # without arguments as in KNIME, so that | does not work
        super().__init__()

    @classmethod
    def of(cls, values: "Mapping[str, Any]") -> "FlowVariables":
        """The flow variables that a node gets, including those that it could not set."""
        made = cls()
        made.data.update(values)
        return made

    def __setitem__(self, key: str, item: Any) -> None:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the name of a flow variable must be a string, not {type(key).__name__}")
        if key.startswith("knime"):
            raise ValueError(f"{key}: flow variables whose names start with 'knime' cannot be set")
        super().__setitem__(key, item)

    def __delitem__(self, key: str) -> None:
        raise RuntimeError("flow variables cannot be deleted")


class _BaseContext:
    def __init__(self, java_ctx: JavaContext, flow_variables: FlowVariables) -> None:
        self._java_ctx = java_ctx
        self._flow_variables = flow_variables

    @property
    def flow_variables(self) -> FlowVariables:
        """The flow variables: booleans, numbers, texts and lists of these, by name."""
        return self._flow_variables

    def get_credential_names(self) -> list[str]:
        return list(self._java_ctx.get_credential_names())

    def get_credentials(self, identifier: str) -> Credential:
        """The credentials with a name. Raises KeyError: there are no credentials with this name."""
        # KNIME's list may go on with a second factor, which Python nodes do not see.
        username, password, name = list(self._java_ctx.get_credentials(identifier))[:3]
        return Credential(username, password, name)


class DialogCreationContext(_BaseContext):
    """The context of a dialog, which has the specs of inputs but no data."""

    def __init__(self, java_ctx: JavaContext, flow_variables: FlowVariables, specs: list[Any]) -> None:
        super().__init__(java_ctx, flow_variables)
        self._specs = specs

    def get_input_specs(self) -> list[Any]:
        """The spec of each declared input port; None for an unconnected port, a list for a group."""
        return self._specs


class ConfigurationContext(_BaseContext):
    def __init__(
        self,
        java_ctx: JavaContext,
        flow_variables: FlowVariables,
        output_ports: "Sequence[Port | PortGroup]",
    ) -> None:
        super().__init__(java_ctx, flow_variables)
        self._output_ports = output_ports

    def get_connected_output_port_numbers(self) -> list[int]:
        """The number of ports of each declared output: the size of a group, otherwise 1."""
        from .ports import PortGroup

        sizes = {name: len(places) for name, places in self._java_ctx.get_output_port_map().items()}
        return [sizes[port.name] if isinstance(port, PortGroup) else 1 for port in self._output_ports]

    def set_warning(self, message: str) -> None:
        """Sets a warning on the node, in place of an earlier one."""
        self._java_ctx.set_warning(str(message))


class _ToolContext(_BaseContext):
    def _execute_tool(
        self, tool: Any, parameters: dict[str, Any], inputs: "list[Table]", execution_hints: dict[str, str]
    ) -> "tuple[str, list[Table], list[str]]":
        """Runs a workflow tool; returns its message, its output tables and the ids of its view nodes."""
        return self._java_ctx.execute_tool(tool, parameters, inputs, execution_hints)

    def _get_view_data(self) -> "dict[str, Any] | None":
        """What the service of the node's view has handed on; None if nobody has used it."""
        return self._java_ctx.get_view_data()


class ExecutionContext(ConfigurationContext, _ToolContext):
    def set_progress(self, progress: float, message: str | None = None) -> None:
        """Sets the progress of the node, from 0 to 1."""
        if isinstance(progress, int):
            progress = float(progress)
        if not isinstance(progress, float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"progress must be a number, not {type(progress).__name__}")
        # KNIME's tolerance: sums of parts may miss 1 by a rounding error.
        if progress < -0.0001 or progress > 1.0001:
            raise ValueError(f"progress must be between 0 and 1, not {progress}")
        if message is not None and not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the message of a progress must be a string, not {type(message).__name__}")
        self._java_ctx.set_progress(min(1.0, max(0.0, progress)), *([] if message is None else [message]))

    def is_canceled(self) -> bool:
        """Returns whether the user canceled the node. Nodes have to check this themselves."""
        return self._java_ctx.is_canceled()

    def get_workflow_temp_dir(self) -> str:
        return self._java_ctx.get_workflow_temp_dir()

    def get_workflow_data_area_dir(self) -> str:
        """The folder ``data`` in the workflow, which may not exist yet."""
        return str(Path(self._java_ctx.get_workflow_dir(), "data"))


class ViewContext(_ToolContext):
    """The context of a view's data service: it has credentials and tools, and no flow variables."""

    def _init_combined_tools_workflow(
        self, inputs: "list[Table]", execution_mode: str, remove_failed_tools: bool
    ) -> tuple[str, str, list[str]]:
        """Makes the workflow in which tools may run together; nothing runs in it here."""
        return self._java_ctx.init_combined_tools_workflow(inputs, execution_mode, remove_failed_tools)
