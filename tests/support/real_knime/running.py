"""Runs nodes and opens their dialogs through KNIME's own proxy of a node, with the checks that Java makes."""

import base64
import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

from . import ports
from .callbacks import ConfigureCallback, DialogCallback, ExecuteCallback, ViewCallback
from .contexts import ConfigureContext, DialogContext, ExecuteContext, JavaContext, ViewContext
from .java_side import TABLE_CLASS, RigError
from .java_types import JAVA_VALUE_FACTORIES, factory_class
from .tables import OutputTable, java_table, read_sink, table_from_pyarrow


@dataclasses.dataclass
class NodeResult:
    """The fields of `tests.support.knime_host.NodeResult`."""

    ok: bool
    failure: dict[str, Any] | None
    outputs: list[Any]
    specs: list[Any]
    warnings: list[str]
    flow_variables: dict[str, Any] | None
    progress: list[tuple[float, str | None]]
    logs: list[tuple[str, str]]
    view_html: str | None
    parameters: dict[str, Any]
    problems: list[str]


def run_node(host, node_id, inputs=(), parameters=None, context=None, *, execute=True, output_groups=None):
    """Configures and executes a node, each on a fresh object: KNIME may use two processes for them.

    Args:
        host: The loaded extension.
        node_id: Which node.
        inputs: One entry per declared port: a table, a port object, a `CredentialPort` or bytes; None for an
            unconnected optional port, a list for a group.
        parameters: Settings that differ from the defaults.
        context: What Java does for the node.
        execute: False stops after configure().
        output_groups: Number of ports of each output group; 1 unless it is named.
    """
    run = _Run(host, node_id, list(inputs), context or JavaContext(), output_groups or {})
    run.configure(parameters)
    if execute and run.callback.failure is None:
        run.execute()
    return run.result()


class _Run:
    def __init__(self, host, node_id, inputs, context, output_groups):
        self.host, self.node_id, self.context = host, node_id, context
        node = host.proxy(node_id)._node
        context.host = host
        self.inputs, context.input_port_map = ports.connected(node, inputs)
        context.output_port_map, self.output_count = ports.output_map(node, output_groups)
        self.callback = ConfigureCallback(host, context.flow_variables)
        self.flow_variables, self.view = None, None
        self.logs, self.problems, self.specs, self.outputs = [], [], [], []
        self.parameters, self.carried = {}, {}

    def configure(self, parameters):
        proxy = self._loaded(parameters)
        if proxy is not None:
            specs = [ports.java_spec(self.host, port, value) for port, value in self.inputs]
            proxy.initializeJavaCallback(self.callback)
            results = proxy.configure(specs, ConfigureContext(self.context))
            if self.callback.failure is None:
                self._promised(results)
            # KNIME stores what a node sets on itself in configure().
            self.parameters = json.loads(proxy.getParameters())
            self.carried = self.parameters["model"]
            self.flow_variables = self.callback.out_flow_variables
        self.logs += self.callback.logs

    def _promised(self, results):
        if len(results) != self.output_count:
            what = f"({len(results)} instead of {self.output_count})"
            self.callback.set_failure(
                f"Python node configure returned wrong number of output port specs {what}", "", False
            )
        self.specs = [None if spec is None else json.loads(spec.toJsonString()) for spec in results]
        for traits in [traits for spec in self.specs for traits in _traits(spec)]:
            if factory_class(traits) not in JAVA_VALUE_FACTORIES:
                self.problems.append(f"configure: Java cannot resolve the column type {traits}")

    def execute(self):
        variables = {**self.context.flow_variables, **(self.flow_variables or {})}
        self.callback = ExecuteCallback(self.host, variables)
        proxy = self._loaded(self.carried)
        if proxy is not None:
            objects = [ports.java_object(self.host, port, value) for port, value in self.inputs]
            proxy.initializeJavaCallback(self.callback)
            results = proxy.execute(objects, ExecuteContext(self.context))
            if self.callback.out_flow_variables is not None:
                self.flow_variables = self.callback.out_flow_variables
            if self.callback.failure is None:
                self._given(results)
            self.parameters = json.loads(proxy.getParameters())
        self.logs += self.callback.logs

    def _given(self, results):
        if len(results) != self.output_count:
            self.problems.append(f"execute returned {len(results)} port objects, not {self.output_count}")
        self.outputs = [self._output(result) for result in results]
        for index, (spec, made) in enumerate(zip(self.specs, self.outputs, strict=False)):
            if spec and isinstance(made, OutputTable):
                self.problems += _broken_promises(index, spec, made)
        if self.callback.view_sink:
            self.view = Path(self.callback.view_sink.path).read_text(encoding="utf-8")

    def _output(self, result):
        if result.getJavaClassName() == TABLE_CLASS:
            table = OutputTable(read_sink(result.getPythonArrowDataSink()), self.host)
            self.problems += [f"output table: {problem}" for problem in table.problems]
            return table
        if hasattr(result, "getImageBytes"):
            return base64.b64decode(result.getImageBytes())
        if hasattr(result, "getFileStoreKey"):
            spec = json.loads(result.getSpec().toJsonString())
            stored = self.callback.files[result.getFileStoreKey()]
            return spec, stored if stored.is_dir() else stored.read_bytes()
        return result

    def _loaded(self, parameters):
        """A fresh node with settings; None if it refuses them."""
        proxy = self.host.proxy(self.node_id)
        try:
            self.parameters = _apply(self.host, proxy, parameters)
        except RigError as error:
            self.callback.set_failure(str(error), "", True)
            return None
        return proxy

    def result(self):
        failure = self.callback.failure
        return NodeResult(
            ok=failure is None,
            failure=failure,
            outputs=self.outputs,
            specs=self.specs,
            warnings=self.context.warnings,
            flow_variables=self.flow_variables,
            progress=self.context.progress,
            logs=self.logs,
            view_html=self.view,
            parameters=self.parameters,
            problems=self.problems,
        )


def _traits(spec):
    return spec.get("schema", {}).get("traits", []) if spec else []


def _broken_promises(index, spec, table):
    names, found = spec["columnNames"][1:], list(table.logical_types.values())[1:]
    if names != table.column_names:
        return [f"output {index}: columns {table.column_names} but configure promised {names}"]
    wanted = [factory_class(traits) for traits in spec["schema"]["traits"][1:]]
    if wanted != found:
        return [f"output {index}: column types {found} but configure promised {wanted}"]
    return []


class ViewService:
    """The data service of a node's view: called as the page calls it, and handed on as Java does."""

    def __init__(self, host, node_id, inputs, parameters, context):
        self.host, context.host = host, host
        proxy = host.proxy(node_id)
        _apply(host, proxy, parameters)
        given, context.input_port_map = ports.connected(proxy._node, inputs)
        proxy.initializeJavaCallback(ViewCallback(host))
        objects = [ports.java_object(host, port, value) for port, value in given]
        self.proxy, self.context = proxy, ViewContext(context)
        self.service = proxy.getDataService(self.context, objects)

    def __call__(self, method, *params):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = json.loads(self.service.handleJsonRpcRequest(json.dumps(request)))
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]

    def view_data(self):
        # In KNIME the service has a process of its own, in which no node has been executed meanwhile.
        self.proxy._setup_table_backend(self.context)
        handed_on = self.service.getViewData()
        if len(handed_on.data().encode()) > 65_535:
            raise RigError("DataOutputStream.writeUTF: UTFDataFormatException")
        sinks = [read_sink(port.getPythonArrowDataSink()) for port in handed_on.ports()]
        tables = [table_from_pyarrow(sink, "keep", self.host) for sink in sinks]
        return ViewData(handed_on.data(), [java_table(self.host, table) for table in tables])


@dataclasses.dataclass
class ViewData:
    """`PythonViewData` of ``PythonNodeViewProxy.java``, from Java to Python."""

    text: str
    tables: list

    def data(self):
        return self.text

    def ports(self):
        return self.tables

    def portsForIds(self):
        return []


def _merged(base, changes):
    merged = copy.deepcopy(base)
    for name, value in (changes or {}).items():
        if name not in merged:
            raise RigError(f"unknown parameter {name!r}; have {sorted(merged)}")
        both = isinstance(value, dict) and isinstance(merged[name], dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _apply(host, proxy, parameters):
    """Checks settings and sets them, in the order in which KNIME loads them."""
    document = json.loads(proxy.getParameters())
    document["model"] = _merged(document["model"], parameters)
    text = json.dumps(document)
    error = proxy.validateParameters(text, host.version)
    if error is not None:
        raise RigError(f"validateParameters: {error}")
    proxy.setParameters(text, host.version)
    return document


def get_dialog(host, node_id, input_schemas=None, parameters=None, context=None):
    """The documents of a node's dialog: ``data``, ``schema`` and ``ui_schema``.

    Args:
        host: The loaded extension.
        node_id: Which node.
        input_schemas: Per declared port a schema, table, spec, `CredentialPort` or None; a list for a group.
        parameters: Settings that differ from the defaults.
        context: What Java does for the node.
    """
    proxy = host.proxy(node_id)
    context = context or JavaContext()
    context.host = host
    inputs, context.input_port_map = ports.connected(proxy._node, input_schemas, for_dialog=True)
    context.output_port_map, _ = ports.output_map(proxy._node, {})
    context.input_specs = [ports.java_spec(host, port, value) for port, value in inputs]
    callback = DialogCallback(host, context.flow_variables)
    proxy.initializeJavaCallback(callback)
    document = json.loads(proxy.getParameters())
    document["model"] = _merged(document["model"], parameters)
    text = proxy.getDialogRepresentation(json.dumps(document), host.version, DialogContext(context))
    if text is None:
        raise RigError(f"dialog: {callback.failure['message']}\n{callback.failure['details']}")
    return json.loads(text)
