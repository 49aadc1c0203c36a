"""What Java does for a node through its context: credentials, progress, cancel, folders, tools."""

import json
from pathlib import Path

from .java_side import JavaObject, RigError, ToolResult, java_error
from .tables import java_table, read_sink, unreadable_by_java


class JavaContext:
    """What Java knows of a node, behind its contexts, which have the methods that KNIME's have.

    Args:
        credentials: name -> (user name, password).
        flow_variables: What arrives at the node.
        cancel: False, True, a function, or the number of the question from which on the node is canceled;
            the framework itself asks once after execute().
        tool_handler: (tool, parameters, input tables as Arrow, hints) -> message, (message, tables) or
            (message, tables, view node ids); tables None: the tool failed.
        workflow_dir: The folder of the workflow.
        view_data: What the service of the node's view has handed on.
        number: The node's number in its workflow, such as 4:2.

    Attributes:
        progress: (progress, message) as the node told them.
        warnings: The node's warnings.
    """

    def __init__(
        self,
        credentials=None,
        flow_variables=None,
        cancel=False,
        tool_handler=None,
        workflow_dir=None,
        view_data=None,
        number="1",
    ):
        self.credentials = dict(credentials or {})
        self.flow_variables = dict(flow_variables or {})
        self.cancel, self.cancel_checks = cancel, 0
        self.tool_handler = tool_handler
        self.workflow_dir = workflow_dir
        self.view_data = view_data
        self.number = number
        self.progress = []
        self.warnings = []
        self.input_specs = []
        self.input_port_map = {}
        self.output_port_map = {}
        self.host = None


class _Context(JavaObject):
    def __init__(self, java):
        self._java = java

    def get_credential_names(self):
        return list(self._java.credentials)

    def get_credentials(self, identifier):
        if identifier not in self._java.credentials:
            raise java_error(f'No credentials stored to name "{identifier}"')
        return [*self._java.credentials[identifier][:2], identifier]

    def get_input_port_map(self):
        return self._java.input_port_map

    def get_output_port_map(self):
        return self._java.output_port_map


class DialogContext(_Context):
    def get_input_specs(self):
        return self._java.input_specs


class ConfigureContext(_Context):
    def set_warning(self, message):
        self._java.warnings.append(message)

    def get_node_id(self):
        # First the workflow's, another one at each opening.
        return f"Node {id(self._java) % 100}:{self._java.number}"


class _ToolContext(_Context):
    def execute_tool(self, tool_table, parameters, inputs, hints):
        tables = [read_sink(table.getPythonArrowDataSink()) for table in inputs]
        tool = _read_tool(tool_table)
        if not isinstance(parameters, str):
            raise RigError("Java wants the parameters of a tool as JSON text")
        bad = {k: v for k, v in dict(hints).items() if not (isinstance(k, str) and isinstance(v, str))}
        if bad:
            raise RigError(f"execution hints must be texts, names and values: {bad}")
        handler = self._java.tool_handler
        if handler is None:
            raise java_error("no tool handler configured in the rig")
        answer = handler(tool, json.loads(parameters) if parameters else {}, tables, dict(hints))
        if isinstance(answer, str):
            answer = (answer, [])
        message, outputs, view_ids = (*answer, None, None)[:3]
        given = None if outputs is None else [java_table(self._java.host, table) for table in outputs]
        return ToolResult(message, given, view_ids or [])

    def get_view_data(self):
        return self._java.view_data


class ExecuteContext(ConfigureContext, _ToolContext):
    def set_progress(self, progress, message=None):
        self._java.progress.append((progress, message))

    def is_canceled(self):
        self._java.cancel_checks += 1
        cancel = self._java.cancel
        if callable(cancel):
            return bool(cancel())
        if isinstance(cancel, bool):
            return cancel
        return self._java.cancel_checks >= cancel

    def get_workflow_temp_dir(self):
        return _made(self._java.host.dir / "temp")

    def get_workflow_dir(self):
        folder = self._java.workflow_dir
        return _made(Path(folder) if folder else self._java.host.dir / "workflow")

    def get_knime_home_dir(self):
        return _made(self._java.host.dir / "home")

    def get_combined_tools_workflow(self):
        raise RigError("tools do not run together in one workflow here")

    def init_combined_tools_workflow(self, *_):
        raise java_error("Initializing a combined tools workflow is not supported here.")

    def execute_tool_in_combined_workflow(self, *_):
        raise java_error("Executing a tool with input IDs is not supported here.")


class ViewContext(_ToolContext):
    def init_combined_tools_workflow(self, inputs, *_):
        if inputs:
            raise RigError("tools do not run together in one workflow here")
        return CombinedTools()

    def execute_tool_in_combined_workflow(self, *_):
        raise RigError("tools do not run together in one workflow here")

    def get_combined_tools_workflow(self):
        raise java_error("Getting the combined-tools workflow is not supported from within a view context.")


class CombinedTools:
    """A workflow in which nothing runs."""

    projectId = workflowId = staticmethod(lambda: "0:1")  # noqa: N815  # as in Java
    inputPortIds = staticmethod(list)  # noqa: N815


def _made(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _read_tool(tool_table):
    table = read_sink(tool_table.getPythonArrowDataSink())
    if table.num_rows != 1:
        raise RigError("a tool table must have exactly one row")
    problems = unreadable_by_java(table)
    if problems:
        raise RigError("Java could not read the tool cell: " + "; ".join(problems))
    return table.column(1).to_pylist()[0]
