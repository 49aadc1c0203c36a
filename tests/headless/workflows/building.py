"""Short ways to build workflows of the trial extension's nodes and native ones."""

import json
from pathlib import Path

from knime_mcp.headless.workflows import RunOptions, run_workflow
from knime_mcp.headless.workflows.new_node import new_node
from knime_mcp.knwf import (
    Column,
    Configuration,
    Connection,
    NativeNode,
    Workflow,
    configuration_node,
    table_creator,
)


def variable(node_id, name, value, **says):
    kinds = {bool: "boolean", int: "integer", float: "double", str: "string"}
    kind = says.pop("kind", kinds[type(value)])
    own = Configuration(kind=kind, variable=name, parameter=says.pop("parameter", ""), value=value, **says)
    return configuration_node(node_id, own)


def numbers(node_id, *cells, name="n", kind="int"):
    return table_creator(node_id, [Column(name, kind, cells)])


def workflow(*nodes, lines=(), **parts):
    """A workflow; a line is (source, port, destination, port)."""
    return Workflow("trial", nodes, tuple(Connection(*line) for line in lines), **parts)


def java_node(node_id, name="Row Filter", factory="org.knime.F", **parts):
    """A node that only KNIME runs."""
    parts = {"outputs": 1, "inputs": 0, **parts}
    return NativeNode(id=node_id, name=name, factory=factory, bundle=("b", "b", "v"), **parts)


def run(host, flow, folder, **options):
    return run_workflow(flow, host, RunOptions(workflow_dir=Path(folder), **options))


def context(host, node_id, what="", **options):
    """The node that says what it was given."""
    return new_node(host, node_id, "Context", {"what": what, **options.pop("parameters", {})}, **options)


def seen(report, node_id):
    """What the `context` node with an id was given."""
    rows = report.outcome(node_id).done.outputs[0].to_pylist()
    return {row["name"]: json.loads(row["value"]) for row in rows}


def table_of(report, node_id, port=1):
    table = report.outcome(node_id).done.outputs[port - 1]
    return table.row_ids, table.to_pylist()
