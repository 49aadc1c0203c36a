"""Runs the nodes of an archive one after the other, with their saved settings, on either host of nodes.

    python -m tests.support.linear_run FILE.knwf FOLDER [NAME=VALUE …]

writes the tables into the folder, as ``<id> <port> <name>.json``, beside ``workflow``, which is the
workflow's own, and tells warnings on standard error; the exit code is 2 if a node failed, 1 if a call of a
Caller did.

It knows this extension's nodes, a table, several behind one another, and Configuration nodes. What another
node does is told by whoever runs its workflow.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from examples.knime_nodes import CONCATENATE_FACTORY, MESSAGE_OUTPUT_FACTORY, TABLE_CREATOR_FACTORY
from knime_mcp.knwf import (
    COMPONENT_INPUT_FACTORY,
    COMPONENT_OUTPUT_FACTORY,
    CONFIGURATION_FACTORIES,
    OtherNode,
    PortOf,
    Segment,
    read_configuration,
    read_segment,
    write_segment,
    write_workflow,
)
from knime_mcp.types.arrow import store_file
from knime_mcp.types.columns import ColumnForm, read_tools, write_tools
from tests.support import commands
from tests.support.archives import created_columns, read_inside, read_workflow
from tests.support.host import REAL_KNIME, get_host

KINDS = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
#: What a node of KNIME does: its input tables, as Arrow without RowIDs, become its output tables.
Does = Callable[..., Sequence[Any]]


NODE_FAILED = 2
ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
#: KNIME's own sources are put on the path of a process that has imported nothing.
programs = subprocess if REAL_KNIME else commands


def command(file, folder, *settings):
    """The command line that runs a workflow in a process of its own."""
    return [sys.executable, "-m", "tests.support.linear_run", str(file), str(folder), *settings]


#: How a Configuration node reads what is typed.
TYPED = {"integer": int, "double": float, "boolean": "true".__eq__}


class NodeFailed(Exception):  # noqa: N818 - what KNIME calls it
    """A node ran and failed; its message."""


@dataclass
class LinearRun:
    """A run of a workflow in its folder; ``settings`` are values of Configuration nodes, by any name."""

    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    does: Mapping[int, Does] = field(default_factory=dict)
    outputs: dict[int, list[Any]] = field(default_factory=dict)  # by the id of the node
    results: dict[int, Any] = field(default_factory=dict)  # what the host says of a node of ours
    _variables: dict[int, dict[str, Any]] = field(default_factory=dict)

    def run(self, workflow, within=""):
        """Runs all nodes; NodeFailed at the first that fails."""
        host = get_host()
        for node in in_order(workflow):
            lines = [line for line in workflow.connections if line.destination == node.id]
            # The first input has priority, and later ones over earlier ones.
            for line in sorted(lines, key=lambda line: line.destination_port or len(lines) + 100):
                self._variables.setdefault(node.id, {}).update(self._variables[line.source])
            variables = self._variables.setdefault(node.id, {})
            arrive = {
                line.destination_port: self.outputs[line.source][line.source_port - 1]
                for line in lines
                if line.destination_port
            }
            self.outputs[node.id] = list(self._executed(host, workflow, node, arrive, variables, within))
        return self

    def rows(self, node_id, port=1):
        """A table's rows, without its tools: KNIME's own Python cannot read a missing one."""
        return _rows(self.outputs[node_id][port - 1])

    def _executed(self, host, workflow, node, arrive, variables, within):
        if isinstance(node, OtherNode):
            inside = LinearRun(self.folder, self.settings, self.does)
            inside.run(read_inside(workflow, node), within=f"{within}{node.id}:")
            self.results |= {f"{node.id}:{inner}": result for inner, result in inside.results.items()}
            return []
        if node.extension_id:
            return self._ours(host, node, arrive, variables, within)
        if node.id in self.does:
            tables = [_plain(arrive[port]) for port in sorted(arrive)]
            return [host.table(table) for table in self.does[node.id](*tables)]
        if node.factory in CONFIGURATION_FACTORIES:
            own = read_configuration(node)
            given = {own.variable, own.parameter} & self.settings.keys()
            value = self.settings[given.pop()] if given else own.value
            if own.kind in TYPED and isinstance(value, str):
                value = TYPED[own.kind](value)
            if own.kind == "file":
                variables[f"{own.variable} (URL)"] = Path(value).as_uri() if value else ""
            variables[own.variable] = value
            return []
        if node.factory == TABLE_CREATOR_FACTORY:
            columns = created_columns(node)
            return [host.table(pa.table({own.name: pa.array(own.cells, KINDS[own.type]) for own in columns}))]
        if node.factory == CONCATENATE_FACTORY:
            return [host.table(_concatenated(host, [_plain(arrive[port]) for port in sorted(arrive)]))]
        if node.factory in (COMPONENT_INPUT_FACTORY, COMPONENT_OUTPUT_FACTORY):
            return [arrive[port] for port in sorted(arrive)]
        if node.factory == MESSAGE_OUTPUT_FACTORY:
            return [arrive[1]]
        raise AssertionError(f"nobody says what node {node.id} ({node.name}) does")

    def _ours(self, host, node, arrive, variables, within):
        names = node.input_names
        inputs = []
        for port in _declared(node.node_id, "input"):
            values = [arrive.get(number) for number, name in enumerate(names, 1) if name == port["name"]]
            values = [value.as_input() if hasattr(value, "as_input") else value for value in values]
            inputs.append(values if port["group"] else (values or [None])[0])
        parameters = node.parameters["model"]
        for control in node.variables:
            place = parameters
            *above, last = (int(key) if key.isdecimal() else key for key in control.path)
            for key in above:
                place = place[key]
            value = variables[control.used]
            # A variable of another type is a text where the setting is one.
            is_other = isinstance(place[last], str) and not isinstance(value, str)
            place[last] = json.dumps(value) if is_other else value
        groups = [port["name"] for port in _declared(node.node_id, "output") if port["group"]]
        result = self.results[node.id] = host.run(
            node.node_id,
            inputs,
            parameters,
            flow_variables=dict(variables),
            tool_handler=self._tool,
            output_groups={name: node.output_names.count(name) for name in groups},
            workflow_dir=self.folder,
            number=f"{within}{node.id}",
        )
        if not result.ok:
            raise NodeFailed(result.failure["message"])
        assert not result.problems
        variables |= result.flow_variables
        return [host.port_object(own) if isinstance(own, tuple) else own for own in result.outputs]

    def _tool(self, tool, parameters, inputs, hints):
        """Runs the workflow of a tool, as KNIME does: a node that fails is the message for the model."""
        segment = read_segment(self._stored(tool))
        known = {own.parameter for own in map(read_configuration, _configurations(segment.workflow))}
        if unknown := parameters.keys() - known:
            return f'Failed to execute tool: Parameter name "{unknown.pop()}" doesn\'t match any node', None
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "tool.knwf"
            write_workflow(segment.workflow, file)
            # In a process of its own, as KNIME's is beside the node that calls the tool.
            settings = [f"{name}={value}" for name, value in parameters.items()]
            done = programs.run(
                command(file, folder, *settings), env=ENVIRONMENT, capture_output=True, text=True
            )
            if done.returncode == NODE_FAILED:
                return f"Workflow contains one node with execution failure: {done.stderr}", None
            assert done.returncode == 0, done.stderr
            (port,) = segment.outputs
            (made,) = Path(folder).glob(f"{port.node} {port.index} *.json")
            (cell,) = json.loads(made.read_text("utf-8"))[0].values()
        return cell, []

    def _stored(self, tool):
        return store_file(tool._filestore_keys).read_bytes()


def in_order(workflow):
    """The nodes, each behind those whose outputs it takes."""
    done: dict[int, Any] = {}
    while left := [node for node in workflow.nodes if node.id not in done]:
        ready = [
            n for n in left if all(c.source in done for c in workflow.connections if c.destination == n.id)
        ]
        done |= {node.id: node for node in ready}
        assert ready, "the nodes wait for each other"
    return done.values()


@cache
def _declared(node_id, side):
    (node,) = [own for own in get_host().describe()["nodes"] if own["id"] == node_id]
    return node[f"{side}_port_specifier"]


def _plain(table):
    """A table as Arrow data without RowIDs."""
    data = (table.as_input() if hasattr(table, "as_input") else table).to_pyarrow()
    return data.drop_columns(data.column_names[:1])


def _concatenated(host, tables):
    """The columns that all tables have, with tools of both kinds in one form, as KNIME has one cell type."""
    names = [name for name in tables[0].column_names if all(name in own.column_names for own in tables)]
    kept = [own.select(names) for own in tables]
    if any(own.schema != kept[0].schema for own in kept) and names == ["Tool"]:
        with host.executing():
            tools = [tool for own in kept for tool in read_tools(host.table(own), "Tool")]
            return pa.table({"Tool": write_tools(tools, ColumnForm.NATIVE)})
    return pa.concat_tables(kept)


def _rows(table):
    if not hasattr(table, "arrow"):  # made here, of what needs no file stores
        return _plain(table).to_pylist()
    table = copy.copy(table)
    tools = [name for name in table.column_names if name == "Tool"]
    object.__setattr__(table, "arrow", table.arrow.drop_columns(tools))
    return table.to_pylist()


def _configurations(workflow):
    return [node for node in workflow.nodes if getattr(node, "factory", None) in CONFIGURATION_FACTORIES]


def tools_of(*files):
    """A table of workflow tools, which *Workflow to Tool* makes of such archives."""
    from knime.types.tool import WorkflowTool

    host, tools = get_host(), []
    for number, file in enumerate(files):
        workflow = read_workflow(file)
        (message,) = [n for n in workflow.nodes if n.factory == MESSAGE_OUTPUT_FACTORY]
        (line,) = [c for c in workflow.connections if c.destination == message.id]
        kept = replace(
            workflow,
            nodes=tuple(node for node in workflow.nodes if node is not message),
            connections=tuple(own for own in workflow.connections if own is not line),
        )
        segment = Segment(workflow=kept, outputs=(PortOf(line.source, line.source_port),))
        key = host.add_file_store(f"{file.stem}-{number}", write_segment(segment))
        schema = {
            own.parameter: {"type": own.kind, "default": own.value, "description": own.description}
            for own in map(read_configuration, _configurations(workflow))
        }
        tools.append(WorkflowTool(workflow.name, workflow.description, schema, 0, [], [], key))
    return pa.table({"Tool": host.tool_column(tools)})


def main(file, folder, *settings):
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    workflow = read_workflow(file)
    done = LinearRun(out / "workflow", dict(setting.split("=", 1) for setting in settings))
    try:
        done.run(workflow)
    except NodeFailed as error:
        print(error, file=sys.stderr)
        return NODE_FAILED
    failed = False
    for node_id, tables in done.outputs.items():
        node = workflow.node(node_id)
        for warning in done.results[node_id].warnings if node_id in done.results else ():
            print(warning, file=sys.stderr)
        for port, table in enumerate(tables, 1):
            if hasattr(table, "column_names"):
                rows = _rows(table)
                failed |= any(row.get("Status", "ok") != "ok" for row in rows)
                name = node.output_names[port - 1] if node.extension_id else node.name
                text = json.dumps(rows, default=str)
                (out / f"{node_id} {port} {name}.json").write_text(text, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
