"""The host's services for a running node: credentials, cancel, progress, tools, logs."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from knime.api import types as kt
from knime.extension.ports import Port, PortGroup

from .tables import source_table, written
from .value_types import TOOL_VALUE, java_type

if TYPE_CHECKING:
    from .host import ExtensionHost

ToolHandler = Callable[[Any, dict[str, Any], list[Any], dict[str, str]], Any]


@dataclass(kw_only=True)
class Request:
    """The arguments of a run or dialog; see `ExtensionHost.run_node`."""

    node_id: str
    inputs: list[Any] | None
    parameters: dict[str, Any]
    credentials: dict[str, tuple[str, str]]
    flow_variables: dict[str, Any]
    workflow_dir: Path
    output_groups: dict[str, int]
    cancel: bool | int | Callable[[], bool] = False
    tool_handler: ToolHandler | None = None
    on_progress: Callable[[float, str | None], None] | None = None
    execute: bool = True


class RunServices:
    """The host's side of contexts during a run, which in KNIME is Java: answers calls, keeps reports."""

    def __init__(self, host: "ExtensionHost", request: Request) -> None:
        self._host = host
        self._request = request
        self._asked = 0
        self.interrupted = False
        self.warnings: list[str] = []
        self.progress: list[tuple[float, str | None]] = []

    def get_credential_names(self) -> list[str]:
        """The names of the credentials."""
        return list(self._request.credentials)

    def get_credentials(self, name: str) -> tuple[str, str, str]:
        """User name, password and name; KeyError for an unknown name."""
        if name not in self._request.credentials:
            raise KeyError(f"the workflow has no credentials named {name!r}")
        return (*self._request.credentials[name], name)

    def set_warning(self, message: str) -> None:
        """Stores a warning."""
        self.warnings.append(message)

    def set_progress(self, progress: float, message: str | None = None) -> None:
        """Stores the node's progress and calls `on_progress`."""
        self.progress.append((progress, message))
        if self._request.on_progress is not None:
            self._request.on_progress(progress, message)

    def is_canceled(self) -> bool:
        """Returns whether the node has to stop. Each call counts for a `cancel` that is a number."""
        self._asked += 1
        cancel = self._request.cancel
        if self.interrupted:
            return True
        if isinstance(cancel, bool):
            return cancel
        return self._asked >= cancel if isinstance(cancel, int) else bool(cancel())

    def get_workflow_dir(self) -> str:
        """The folder of the workflow."""
        return _made_folder(self._request.workflow_dir)

    def get_workflow_temp_dir(self) -> str:
        """A folder for temporary files."""
        return _made_folder(self._host.folder / "temp")

    def get_knime_home_dir(self) -> str:
        """A folder in place of KNIME's own."""
        return _made_folder(self._host.folder / "home")

    def get_input_specs(self) -> list[Any] | None:
        """The inputs of the declared ports."""
        return self._request.inputs

    def get_input_port_map(self) -> dict[str, range]:
        """The positions of the ports of each group of inputs."""
        ports = self._host.declared(self._request.node_id).input_ports
        given = self._request.inputs or [None] * len(ports)
        sizes = [
            len(value or []) if isinstance(p, PortGroup) else 1 for p, value in zip(ports, given, strict=True)
        ]
        return _positions(ports, sizes)

    def get_output_port_map(self) -> dict[str, range]:
        """The positions of the ports of each group of outputs."""
        ports = self._host.declared(self._request.node_id).output_ports
        groups = self._request.output_groups
        return _positions(ports, [groups.get(p.name, 1) if isinstance(p, PortGroup) else 1 for p in ports])

    def execute_tool(
        self, tool: Any, parameters: dict[str, Any], inputs: list[Any], hints: dict[str, str]
    ) -> tuple[str, list[Any], list[str]]:
        """Runs a workflow tool. Tool, parameters and tables are serialized and read again, as in KNIME."""
        tables = [written(table) for table in inputs]
        cell = _encoded_and_read(tool)
        arguments = json.loads(json.dumps(parameters))
        bad = {k: v for k, v in hints.items() if not (isinstance(k, str) and isinstance(v, str))}  # pyright: ignore[reportUnnecessaryIsInstance]
        if bad:
            raise RuntimeError(f"execution hints must be strings, names and values: {bad}")
        handler = self._request.tool_handler or self._tool_runner(cell)
        answer = handler(cell, arguments, tables, dict(hints))
        message, outputs, view_ids = _tool_answer(answer)
        if outputs is None:
            raise RuntimeError(message)
        return message, [source_table(table, "auto") for table in outputs], view_ids

    def _tool_runner(self, tool: Any) -> ToolHandler:
        """A runner for tools made by `make_workflow_tool`, with the credentials of this run."""
        from .workflows.tool_runner import ToolRunner
        from .workflows.variables import CredentialValue

        known = {name: CredentialValue(*own) for name, own in self._request.credentials.items()}
        runner = ToolRunner(self._host, find_credential=known.get, is_canceled=self.is_canceled)
        if not runner.has_workflow(tool):
            raise RuntimeError(
                f"the workflow tool {tool.name!r} cannot run here: its workflow is not in a file store here,"
                " and run_node was given no tool_handler"
            )
        return runner


def _made_folder(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder.absolute())


def _positions(ports: list[Port | PortGroup], sizes: list[int]) -> dict[str, range]:
    """The positions of the ports of each group, from the number of ports of each declaration."""
    ends = list(accumulate(sizes))
    return {
        port.name: range(end - size, end)
        for port, size, end in zip(ports, sizes, ends, strict=True)
        if isinstance(port, PortGroup)
    }


def _encoded_and_read(tool: Any) -> Any:
    """The tool as KNIME's Java side reads it from the one-row table in which a node passes the tool.

    Raises:
        TypeError: no value factory is registered for the tool's class.
        RuntimeError: KNIME does not run cells of this class as tools.
    """
    bundle = kt.get_value_factory_bundle_for_python_type(tool.__class__)
    known = java_type(bundle)
    if known is None or known.preferred != TOOL_VALUE:
        raise RuntimeError(f"KNIME does not run {type(tool).__name__} values as tools")
    import pyarrow as pa
    from knime._arrow import logical_type_of

    dtype = logical_type_of(bundle)
    cell = pa.ExtensionArray.from_storage(dtype, pa.array([dtype.encode(tool)], type=dtype.storage_type))
    return cell.to_pylist()[0]


def _tool_answer(answer: Any) -> tuple[str, list[Any] | None, list[str]]:
    """The message, tables and view node ids in a handler's answer, in which the later parts are optional."""
    if isinstance(answer, str):
        return answer, [], []
    parts = tuple(answer)
    return parts[0], parts[1], list(parts[2]) if len(parts) > 2 and parts[2] else []


_SCALARS = (bool, int, float, str)


def is_flow_variable(value: Any) -> bool:
    """Returns whether KNIME allows the value in a flow variable: a plain value, or a list of one kind."""
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return (
            all(isinstance(entry, _SCALARS) for entry in entries)
            and len({entry.__class__ for entry in entries}) <= 1
        )
    return value is None or isinstance(value, _SCALARS)


_SEVERITIES = ((logging.ERROR, "error"), (logging.WARNING, "warn"), (logging.INFO, "info"))


class LogList(logging.Handler):
    """Collects log records between enter and exit, in the form of KNIME's console."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(name)s:%(message)s"))  # appends tracebacks
        self.records: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Stores a record."""
        severity = next((name for level, name in _SEVERITIES if record.levelno >= level), "debug")
        self.records.append((severity, self.format(record)))

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
