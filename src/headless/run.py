"""Runs a node once: configure and execute, each on a new object, with the settings passed in between."""

import json
import threading
import traceback
from typing import TYPE_CHECKING, Any, cast

from knime.api import views
from knime.extension import nodes as kn
from knime.extension import parameter as kp
from knime.extension.contexts import ConfigurationContext, ExecutionContext, FlowVariables, port_counts

from .errors import HeadlessError
from .ports import (
    arranged,
    checked_spec,
    input_object,
    input_spec,
    output,
    per_port,
    require_connected,
    spec_document,
)
from .results import NodeResult, OutputTable
from .services import LogList, Request, RunServices, is_flow_variable
from .tables import promise_problems, type_problems

if TYPE_CHECKING:
    from .host import ExtensionHost


class _Failed(Exception):  # noqa: N818  # carries a failure out of a step, within this module only
    def __init__(self, message: str, *, details: str = "", invalid_settings: bool = False) -> None:
        super().__init__(message)
        self.failure = {"message": message, "details": details, "invalid_settings": invalid_settings}


class Run:
    """Configures and executes a node once."""

    def __init__(self, host: "ExtensionHost", request: Request) -> None:
        self._host = host
        self._request = request
        self._declared = host.declared(request.node_id)
        self._services = RunServices(host, request)
        self._logs = LogList()
        self._problems: list[str] = []
        self._specs: list[Any] = []
        self._documents: list[Any] = []
        self._outputs: list[Any] = []
        self._view: str | None = None
        self._flow_variables: dict[str, Any] | None = None
        self._settings: dict[str, Any] = {}

    def result(self) -> NodeResult:
        """Runs the node on a worker thread, as KNIME does, and waits for its end. Ctrl-C cancels the node."""
        ports = self._declared.input_ports
        require_connected(ports, arranged(ports, self._request.inputs, lambda _, value: value))
        failures: list[dict[str, Any]] = []
        crashes: list[BaseException] = []

        def work() -> None:
            try:
                self._steps()
            except _Failed as failed:
                failures.append(failed.failure)
            except BaseException as crash:
                crashes.append(crash)

        thread = threading.Thread(target=work, name=f"node {self._request.node_id}")
        with self._logs:
            thread.start()
            try:
                thread.join()
            except KeyboardInterrupt:
                self._services.interrupted = True
                thread.join()
                raise
        if crashes:
            raise crashes[0]
        return NodeResult(
            ok=not failures,
            failure=failures[0] if failures else None,
            outputs=self._outputs,
            specs=self._documents,
            warnings=self._services.warnings,
            flow_variables=self._flow_variables,
            progress=self._services.progress,
            logs=self._logs.records,
            view_html=self._view,
            parameters=self._settings,
            problems=self._problems,
        )

    def _steps(self) -> None:
        carried = self._request.parameters
        node = self._load_node(carried)
        try:
            self._configure(node)
        finally:
            # KNIME also stores settings that a node changes on itself in configure().
            self._settings = kp.extract_parameters(node)
        if self._request.execute:
            node = self._load_node(self._settings["model"])
            try:
                with self._host.tables_usable():
                    self._execute(node)
            finally:
                self._settings = kp.extract_parameters(node)

    def _load_node(self, parameters: dict[str, Any]) -> Any:
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
            context = ConfigurationContext(self._services, variables, self._declared.input_ports, ports)
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
            self._documents = [spec_document(port, spec) for port, spec in self._specs]
        except Exception as error:
            raise _failed(error) from error
        self._problems += [problem for _, spec in self._specs for problem in type_problems(spec)]
        self._check_count(len(self._specs), "configure")

    def _check_count(self, count: int, method: str) -> None:
        ports = sum(port_counts(self._declared.output_ports, self._services.get_output_port_map))
        if count != ports:
            raise _Failed(f"{method}() gave {count} outputs for {ports} ports")

    def _execute(self, node: Any) -> None:
        ports = self._declared.output_ports
        variables = FlowVariables.of(self._flow_variables or {})
        try:
            inputs = arranged(
                self._declared.input_ports,
                self._request.inputs,
                lambda port, value: input_object(self._host, port, value),
            )
            context = ExecutionContext(self._services, variables, self._declared.input_ports, ports)
            results = node.execute(context, *inputs)
            if context.is_canceled():
                raise _Failed("Canceled")
            self._store_variables(variables)
            results = self._without_view([] if results is None else results)
            given = [
                (ports[i], value)
                for i, entries in enumerate(per_port(results, ports))
                for value in entries
                if value is not None
            ]
            self._outputs = [output(self._host, port, value) for port, value in given]
        except _Failed:
            raise
        except Exception as error:
            raise _failed(error) from error
        self._check_count(len(self._outputs), "execute")
        self._compare()

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
        if isinstance(shown, list):
            shown = cast("list[Any]", shown)[0]
        page: views.NodeView = shown if isinstance(shown, views.NodeView) else views.view(shown)
        str.encode(page.html)  # KNIME writes the page as UTF-8
        self._view = page.html
        return rest

    def _compare(self) -> None:
        for index, made in enumerate(self._outputs):
            if isinstance(made, OutputTable):
                self._problems += [f"output table: {problem}" for problem in made.problems]
                promised = self._specs[index][1] if index < len(self._specs) else None
                self._problems += promise_problems(index, promised, made.arrow)

    def _store_variables(self, variables: FlowVariables) -> None:
        kept: dict[str, Any] = {}
        for name, given in variables.items():
            value = list(cast("tuple[Any, ...]", given)) if isinstance(given, tuple) else given
            if not is_flow_variable(value):
                raise TypeError(
                    f"flow variable {name!r}: KNIME has no flow variables of {type(value).__name__}"
                )
            if value is None or (isinstance(value, list) and not value):
                dropped = f"flow variable {name!r} is dropped: KNIME has no empty ones"
                self._logs.records.append(("warn", dropped))
            else:
                kept[name] = value
        self._flow_variables = kept


def with_parameters(node: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """A node's settings as a document, with some settings changed.

    Raises:
        HeadlessError: the node has no such setting.
    """
    document = kp.extract_parameters(node)
    return json.loads(json.dumps({"model": _merged(document["model"], parameters)}))


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in changes.items():
        if name not in merged:
            raise HeadlessError(f"there is no setting {name!r}; settings: {', '.join(merged)}")
        both = isinstance(value, dict) and isinstance(merged[name], dict)
        merged[name] = _merged(merged[name], cast("dict[str, Any]", value)) if both else value
    return merged


def _failed(error: Exception) -> _Failed:
    details = "".join(traceback.format_exception(error))
    invalid = isinstance(error, kn.InvalidParametersError)
    return _Failed(str(error), details=details, invalid_settings=invalid)
