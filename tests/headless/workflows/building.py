"""Short ways to build workflows of the trial extension's nodes and native ones."""

import json
from pathlib import Path

from knime_mcp.headless.workflows import RunOptions, run_workflow
from knime_mcp.headless.workflows.new_node import new_node
from knime_mcp.knwf import (
    COMPONENT_INPUT_FACTORY,
    COMPONENT_OUTPUT_FACTORY,
    Column,
    Config,
    Configuration,
    Connection,
    NativeNode,
    OtherNode,
    Workflow,
    configuration_node,
    table_creator,
)
from knime_mcp.knwf.settings_xml import array, boolean, from_xml, integer, string, to_xml
from knime_mcp.knwf.workflow_file import workflow_files


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


def metanode(node_id, inner, name="Part", kind="metanode", border=()):
    """A metanode with a workflow in it, and its files; ``border`` has the lines from and to its own ports."""
    folder = f"{name} (#{node_id})"
    files = {f"{folder}/{path}": data for path, data in workflow_files(inner).items()}
    if border:
        path = f"{folder}/workflow.knime"
        keys = ("sourceID", "sourcePort", "destID", "destPort")
        lines = Config(
            "connections",
            tuple(
                Config(f"connection_{n}", tuple(map(integer, keys, line))) for n, line in enumerate(border)
            ),
        )
        whole = from_xml(files[path], path)
        children = (own for own in whole if own.key != lines.key)
        files[path] = to_xml(Config("workflow.knime", (*children, lines)))
    file = "settings.xml" if kind == "component" else "workflow.knime"
    files.setdefault(f"{folder}/{file}", b'<config key="settings.xml"/>')
    return OtherNode(node_id, name, kind, f"{folder}/{file}"), files


def edge(node_id, factory, ports, passed, prefix=None, excludes=False):
    """*Component Input* or *Component Output*; ``passed`` has names of flow variables, or a pattern."""
    table = Config("type", (string("object_class", "org.knime.core.node.BufferedDataTable"),))
    is_pattern = isinstance(passed, str)
    chosen = Config(
        "variable-filter",
        (
            string("filter-type", "name_pattern" if is_pattern else "STANDARD"),
            array("included_names", "xstring", () if is_pattern or excludes else passed),
            array("excluded_names", "xstring", passed if excludes else ()),
            string("enforce_option", "EnforceExclusion" if excludes else "EnforceInclusion"),
            Config(
                "name_pattern",
                (string("pattern", passed if is_pattern else ""), string("type", "Wildcard"),
                 boolean("caseSensitive", value=True)),
            ),
        ),
    )  # fmt: skip
    return NativeNode(
        id=node_id,
        name="Component Input" if factory == COMPONENT_INPUT_FACTORY else "Component Output",
        factory=factory,
        factory_settings=Config(
            "factory_settings", tuple(Config(f"port_{n}", (integer("index", n), table)) for n in range(ports))
        ),
        model=Config("model", (chosen, string("variable-prefix", prefix))),
        outputs=ports if factory == COMPONENT_INPUT_FACTORY else 0,
        inputs=None,
        bundle=("KNIME Core API", "org.knime.core", "KNIME AG, Zurich, Switzerland"),
    )


def component(
    node_id, *nodes, ins=1, outs=1, lets_in=(), lets_out=(), dialog=(), lines=(), name="Comp", **parts
):
    """A component, and its files. In it, 100 is the *Component Input* and 101 the *Component Output*."""
    inner = workflow(
        edge(100, COMPONENT_INPUT_FACTORY, ins, lets_in),
        edge(101, COMPONENT_OUTPUT_FACTORY, outs, lets_out, **parts.pop("out", {})),
        *nodes,
        lines=lines,
        **parts,
    )
    node, files = metanode(node_id, inner, name, "component")
    settings = (integer("virtual-in-ID", 100), integer("virtual-out-ID", 101), Config("model", dialog))
    return node, files | {node.settings_file: to_xml(Config("settings.xml", settings))}
