"""Runs a node once: configure and execute, each on a new object, with the settings passed in between.

In KNIME this is ``_PythonNodeProxy`` of ``_node_backend_launcher.py`` (knime-python) and the Java that calls
it.
"""

import json
import logging
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from knime.api import types as kt
from knime.api import views
from knime.extension import nodes as kn
from knime.extension import parameter as kp
from knime.extension.contexts import (
    ConfigurationContext,
    DialogCreationContext,
    ExecutionContext,
    FlowVariables,
    ViewContext,
)
from knime.extension.ports import PortGroup

from .column_types import TOOL_VALUE, java_type
from .node_results import HostError, NodeResult, OutputTable
from .port_values import (
    arranged,
    as_list,
    checked_spec,
    input_object,
    input_spec,
    output,
    per_port,
    promise_problems,
    require_connected,
    source_table,
    spec_document,
    through_json,
    type_problems,
    written,
)

if TYPE_CHECKING:
    from .host import ExtensionHost


ToolHandler = Callable[[Any, dict[str, Any], list[Any], dict[str, str]], Any]


@dataclass(frozen=True)
class Request:
    """What is asked of a node in a run, a view or a dialog.

    Attributes:
        inputs: one entry per declared port: a table (knext.Table, pyarrow.Table), a port object or a
            `CredentialPort`; None for an unconnected optional port; a list for a group. Without `inputs`
            nothing is connected.
        parameters: settings that differ from the defaults.
        workflow_dir: the folder of the workflow; a temporary folder by default.
        credentials: name -> (user name, password).
        flow_variables: the flow variables that arrive at the node.
        output_groups: the number of ports of output groups by name; 1 by default.
        cancel: whether the node is canceled: from the start (True), from the n-th `is_canceled` on (a number
            from 1), or by a function.
        tool_handler: runs workflow tools: (tool, parameters, input tables as Arrow, hints) -> message,
            (message, tables) or (message, tables, view node ids); tables None: the tool failed.
        view_data: what the service of the node's view has handed on.
        number: the node's number in its workflow, such as 4:2 in a metanode.
        execute: False stops after configure().
    """

    node_id: str
    inputs: Sequence[Any] | None
    parameters: Mapping[str, Any]
    workflow_dir: Path
    credentials: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    flow_variables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    output_groups: Mapping[str, int] = field(default_factory=dict[str, int])
    cancel: bool | int | Callable[[], bool] = False
    tool_handler: ToolHandler | None = None
    view_data: Mapping[str, Any] | None = None
    number: str = "1"
    execute: bool = True


# What KNIME's Java side is for the contexts, one class per context as there: who may call what when is in
# `tests/standin/test_who_may_call.py`.


class DialogServices:
    def __init__(self, host: "ExtensionHost", request: Request, result: NodeResult) -> None:
        self._host = host
        self._request = request
        self._result = result

    def get_credential_names(self) -> list[str]:
        return list(self._request.credentials)

    def get_credentials(self, name: str) -> tuple[str, str, str]:
        """User name, password and name; KeyError for an unknown name."""
        if name not in self._request.credentials:
            raise KeyError(f"the workflow has no credentials named {name!r}")
        return (*self._request.credentials[name], name)

    def get_output_port_map(self) -> dict[str, range]:
        """The positions of the ports of each group."""
        ports = self._host.declared(self._request.node_id).output_ports
        groups = self._request.output_groups
        sizes = [groups.get(port.name, 1) if isinstance(port, PortGroup) else 1 for port in ports]
        return {
            port.name: range(end - size, end)
            for port, size, end in zip(ports, sizes, accumulate(sizes), strict=True)
            if isinstance(port, PortGroup)
        }


class ConfigureServices(DialogServices):
    def get_node_id(self) -> str:
        """The node's name and the numbers of the workflow and of the node in it."""
        return f"{self._host.declared(self._request.node_id).name} 0:{self._request.number}"

    def set_warning(self, message: str) -> None:
        self._result.warnings.append(message)


class _ToolServices(DialogServices):
    def execute_tool(
        self, tool: Any, parameters: dict[str, Any], inputs: list[Any], hints: dict[str, str]
    ) -> tuple[str, list[Any], list[str]]:
        """Runs a workflow tool. Tool, parameters and tables are serialized and read again, as in KNIME."""
        tables = [written(table) for table in inputs]
        cell = _encoded_and_read(tool)
        arguments = through_json(parameters)
        bad = {k: v for k, v in hints.items() if not (isinstance(k, str) and isinstance(v, str))}  # pyright: ignore[reportUnnecessaryIsInstance]
        if bad:
            raise RuntimeError(f"execution hints must be strings, names and values: {bad}")
        handler = self._request.tool_handler
        if handler is None:
            raise RuntimeError(f"run_node was given no tool_handler for the workflow tool {cell.name!r}")
        answer = handler(cell, arguments, tables, dict(hints))
        message, outputs, *view_ids = (answer, []) if isinstance(answer, str) else answer
        # Java's sign that the tool failed.
        if outputs is None:
            raise RuntimeError(message)
        return message, [source_table(table, "auto") for table in outputs], *(view_ids or ([],))

    def get_view_data(self) -> dict[str, Any] | None:
        view_data = self._request.view_data
        return None if view_data is None else dict(view_data)


class ExecuteServices(ConfigureServices, _ToolServices):
    """Attributes: whether the person has ``interrupted`` the run."""

    def __init__(self, host: "ExtensionHost", request: Request, result: NodeResult) -> None:
        super().__init__(host, request, result)
        self._asked = 0
        self.interrupted = False

    def set_progress(self, progress: float, message: str | None = None) -> None:
        self._result.progress.append((progress, message))

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
        return _made_folder(self._request.workflow_dir)

    def get_workflow_temp_dir(self) -> str:
        return _made_folder(self._host.folder / "temp")


class ViewServices(_ToolServices):
    def init_combined_tools_workflow(
        self, inputs: list[Any], execution_mode: str, remove_failed_tools: bool
    ) -> tuple[str, str, list[str]]:
        """Ids of a workflow that nothing runs in, and of its inputs."""
        if inputs or execution_mode not in ("DEFAULT", "DETACHED", "DEBUG"):
            raise RuntimeError("tools do not run together in one workflow here")
        return "project", "workflow", []


def _made_folder(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder.absolute())


def _encoded_and_read(tool: Any) -> Any:
    """The tool as KNIME's Java side reads it from the one-row table in which a node passes the tool."""
    bundle = kt.get_value_factory_bundle_for_python_type(tool.__class__)
    known = java_type(bundle)
    if known is None or known.preferred != TOOL_VALUE:
        raise RuntimeError(f"KNIME does not run {type(tool).__name__} values as tools")
    import pyarrow as pa
    from knime._arrow import logical_type_of

    dtype = logical_type_of(bundle)
    cell = pa.ExtensionArray.from_storage(dtype, pa.array([dtype.encode(tool)], type=dtype.storage_type))
    return cell.to_pylist()[0]


_LONGEST_VIEW_DATA = 65_535  # bytes: DataOutputStream.writeUTF
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

    def __init__(self, records: list[tuple[str, str]]) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(name)s:%(message)s"))  # appends tracebacks
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        severity = next((name for level, name in _SEVERITIES if record.levelno >= level), "debug")
        self._records.append((severity, self.format(record)))

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)


class _Failed(Exception):  # noqa: N818  # carries a failure out of a step, within this module only
    def __init__(self, message: str, *, details: str = "", invalid_settings: bool = False) -> None:
        super().__init__(message)
        self.failure = {"message": message, "details": details, "invalid_settings": invalid_settings}


class NodeRun:
    def __init__(self, host: "ExtensionHost", request: Request) -> None:
        self._host = host
        self._request = request
        self._declared = host.declared(request.node_id)
        self._result = NodeResult()
        self._configuring = ConfigureServices(host, request, self._result)
        self._executing = ExecuteServices(host, request, self._result)
        self._specs: list[Any] = []

    def result(self) -> NodeResult:
        """Runs the node on a worker thread, as KNIME does, and waits for its end. Ctrl-C cancels the node."""
        ports = self._declared.input_ports
        require_connected(ports, arranged(ports, self._request.inputs, lambda _, value: value))
        crashes: list[BaseException] = []

        def work() -> None:
            try:
                self._steps()
            except _Failed as failed:
                self._result.failure = failed.failure
            except BaseException as crash:
                crashes.append(crash)

        # As KNIME does it: code that needs the main thread, such as signal handlers, fails there, too.
        thread = threading.Thread(target=work, name=f"node {self._request.node_id}")
        with LogList(self._result.logs):
            thread.start()
            try:
                thread.join()
            except KeyboardInterrupt:
                self._executing.interrupted = True
                thread.join()
                raise
        if crashes:
            raise crashes[0]
        return self._result

    def _steps(self) -> None:
        node = self._load_node(self._request.parameters)
        try:
            self._configure(node)
        finally:
            # KNIME also stores settings that a node changes on itself in configure().
            self._result.parameters = kp.extract_parameters(node)
        if self._request.execute:
            # A new object, as KNIME may execute in another process: only the settings survive.
            node = self._load_node(self._result.parameters["model"])
            try:
                with self._host.tables_usable():
                    self._execute(node)
            finally:
                self._result.parameters = kp.extract_parameters(node)

    def _load_node(self, parameters: Mapping[str, Any]) -> Any:
        """A new node with settings that are checked and loaded as in KNIME."""
        node = self._host.new_node(self._request.node_id)
        try:
            document = with_parameters(node, parameters)
            kp.validate_parameters(node, document, self._host.version)
            kp.inject_parameters(node, document, self._host.version)
        except Exception as error:
            # KNIME shows only the message of such an error.
            raise _Failed(str(error), invalid_settings=True) from error
        return node

    def _configure(self, node: Any) -> None:
        ports = self._declared.output_ports
        variables = FlowVariables.of(self._request.flow_variables)
        try:
            specs = arranged(
                self._declared.input_ports,
                self._request.inputs,
                lambda port, value: input_spec(self._host, port, value),
            )
            context = ConfigurationContext(self._configuring, variables, ports)
            kp.validate_specs(node, specs)
            results = node.configure(context, *specs)
            self._store_variables(variables)
            if results is None:
                results = [None] * len(ports)
            self._specs = [
                (ports[i], checked_spec(self._host, ports[i], spec))
                for i, entries in enumerate(per_port(results, ports))
                for spec in entries
            ]
            self._result.specs = [spec_document(port, spec) for port, spec in self._specs]
        except Exception as error:
            raise _failed(error) from error
        self._result.problems += [problem for _, spec in self._specs for problem in type_problems(spec)]
        self._check_count(len(self._specs), "configure")

    def _check_count(self, count: int, method: str) -> None:
        groups = self._configuring.get_output_port_map()
        ports = sum(len(groups[p.name]) if p.name in groups else 1 for p in self._declared.output_ports)
        if count != ports:
            raise _Failed(f"{method}() gave {count} outputs for {ports} ports")

    def _execute(self, node: Any) -> None:
        ports = self._declared.output_ports
        variables = FlowVariables.of(self._result.flow_variables or {})
        try:
            inputs = arranged(
                self._declared.input_ports,
                self._request.inputs,
                lambda port, value: input_object(self._host, port, value),
            )
            context = ExecutionContext(self._executing, variables, ports)
            results = node.execute(context, *inputs)
            # KNIME throws away what a node returns after a cancel.
            if context.is_canceled():
                raise _Failed("Canceled")
            self._store_variables(variables)
            results = self._without_view([] if results is None else as_list(results))
            self._result.outputs = [
                output(self._host, ports[i], value)
                for i, entries in enumerate(per_port(results, ports))
                for value in entries
                if value is not None
            ]
        except _Failed:
            raise
        except Exception as error:
            raise _failed(error) from error
        self._check_count(len(self._result.outputs), "execute")
        for index, (made, (_, promised)) in enumerate(zip(self._result.outputs, self._specs, strict=True)):
            if isinstance(made, OutputTable):
                self._result.problems += [f"output table: {found}" for found in made.problems]
                self._result.problems += promise_problems(index, promised, made.arrow)

    def _without_view(self, results: Any) -> Any:
        """The results without the last one, which is the view; stores the view's page."""
        view = self._declared.views[0]
        if view is None or view.index_html_path is not None:
            return results
        if not isinstance(results, list):
            shown, rest = results, []
        elif not results:
            raise ValueError("the node has a view, but execute() returned none")
        else:
            entries = cast("list[Any]", results)
            shown, rest = entries[-1], entries[:-1]
        if not isinstance(shown, views.NodeView):
            raise TypeError(f"the last result of execute() must be the view, not {type(shown).__name__}")
        str.encode(shown.html)  # KNIME writes the page as UTF-8
        self._result.view_html = shown.html
        return rest

    def _store_variables(self, variables: FlowVariables) -> None:
        kept: dict[str, Any] = {}
        for name, given in variables.items():
            value = list(cast("tuple[Any, ...]", given)) if isinstance(given, tuple) else given
            if not is_flow_variable(value):
                raise TypeError(
                    f"flow variable {name!r}: KNIME has no flow variables of {type(value).__name__}"
                )
            # KNIME's Java side drops these with a warning, and fails for other types.
            if value is None or (isinstance(value, list) and not value):
                dropped = f"flow variable {name!r} is dropped: KNIME has no empty ones"
                self._result.logs.append(("warn", dropped))
            else:
                kept[name] = value
        self._result.flow_variables = kept


def with_parameters(node: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A node's settings as a document, with some settings changed."""
    settings = kp.extract_parameters(node)["model"]
    unknown = [name for name in parameters if name not in settings]
    if unknown:
        raise HostError(f"there is no setting {unknown[0]!r}; settings: {', '.join(settings)}")
    return through_json({"model": {**settings, **parameters}})


def _failed(error: Exception) -> _Failed:
    details = "".join(traceback.format_exception(error))
    invalid = isinstance(error, kn.InvalidParametersError)
    return _Failed(str(error), details=details, invalid_settings=invalid)


class ViewService:
    """The data service of a node's view, as the page and KNIME use it."""

    def __init__(self, host: "ExtensionHost", request: Request) -> None:
        self._host = host
        declared = host.declared(request.node_id)
        node = host.new_node(request.node_id)
        document = with_parameters(node, request.parameters)
        kp.inject_parameters(node, document, host.version)
        with host.tables_usable():
            inputs = arranged(declared.input_ports, request.inputs, lambda p, v: input_object(host, p, v))
        context = ViewContext(ViewServices(host, request, NodeResult()), FlowVariables())
        with host.tables_usable(in_view=True):
            self._service = node.get_data_service(context, *inputs)

    def __call__(self, method: str, *params: Any) -> Any:
        """Calls a method by its name with values of JSON; RuntimeError with the message of what it raises."""
        if not hasattr(self._service, method):
            raise RuntimeError(f"Method '{method}' not found")
        try:
            with self._host.tables_usable(in_view=True):
                result = getattr(self._service, method)(*through_json(params))
        except Exception as error:
            raise RuntimeError(str(error)) from error
        return through_json(result)

    def view_data(self) -> dict[str, Any]:
        """What the service hands on, as KNIME stores it and gives it to `run_node` and the next service."""
        with self._host.tables_usable(in_view=True):
            handed_on = self._service.get_view_data()
            text = json.dumps(handed_on["data"])
            if len(text.encode()) > _LONGEST_VIEW_DATA:
                raise ValueError(f"KNIME cannot store view data of {len(text):,} characters")
            ports = [source_table(written(table), "keep") for table in handed_on["ports"]]
        return {"data": json.loads(text), "ports": ports, "ports_for_ids": []}


def open_dialog(host: "ExtensionHost", request: Request) -> dict[str, Any]:
    declared = host.declared(request.node_id)
    node = host.new_node(request.node_id)
    try:
        document = with_parameters(node, request.parameters)
        kp.inject_parameters(node, document, host.version)
        specs = arranged(declared.input_ports, request.inputs, lambda p, v: input_spec(host, p, v))
        services = DialogServices(host, request, NodeResult())
        context = DialogCreationContext(services, FlowVariables.of(request.flow_variables), specs)
        documents = {
            "data": kp.extract_parameters(node),
            "schema": kp.extract_schema(node, host.version, context),
            "ui_schema": kp.extract_ui_schema(node, context),
        }
        return through_json(documents)
    except Exception as error:
        raise HostError(f"the dialog of {request.node_id} would not open: {error}") from error
