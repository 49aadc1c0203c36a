"""Runs a tool's segment as KNIME's Java does: Configuration nodes set flow variables, the last node calls.

Written after `StringDialogNodeValue` and `BooleanDialogNodeValue` of KNIME, and without the project's runner.
"""

import json
from decimal import Decimal
from typing import Any

from knime_mcp.knwf import read_segment

STRING = "org.knime.js.base.node.configuration.input.string.StringDialogNodeFactory"
BOOLEAN = "org.knime.js.base.node.configuration.input.bool.BooleanDialogNodeFactory"


def chain(segment):
    """The nodes in the order of their flow variable connections."""
    after = {line.source: line for line in segment.workflow.connections}
    first = {node.id for node in segment.workflow.nodes} - {line.destination for line in after.values()}
    (at,) = first
    ordered = [segment.workflow.node(at)]
    while at in after:
        line = after[at]
        assert (line.source_port, line.destination_port) == (1, 0)
        at = line.destination
        ordered.append(segment.workflow.node(at))
    assert len(ordered) == len(segment.workflow.nodes)
    return ordered


def variables_of(store: bytes, parameters: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The flow variables that Java makes of the parameters of a call, and the node that calls."""
    *configurations, last = chain(read_segment(store))
    given = json.loads(json.dumps(parameters), parse_float=Decimal)  # as Java reads what Python sends
    variables: dict[str, Any] = {}
    for node in configurations:
        name = node.model.text("parameterName")
        value = given.pop(name)
        if node.factory == BOOLEAN:
            assert isinstance(value, bool), f"{name}: KNIME refuses {value!r}"
        else:
            assert node.factory == STRING
            assert isinstance(value, str | int | Decimal), f"{name}: KNIME refuses {value!r}"
            assert not isinstance(value, bool), f"{name}: KNIME refuses {value!r}"
            value = str(value)
        variables[node.model.text("flowVariableName")] = value
    assert not given, f"KNIME knows no parameters {list(given)}"
    return variables, last


def run_segment(host, store: bytes, parameters: dict[str, Any], **options: Any):
    """The result of the node in a segment, on either host."""
    variables, node = variables_of(store, parameters)
    assert (node.extension_id, node.node_id) == ("org.knime_mcp.mcp", "mcp_tool_in_segment")
    return host.run("mcp_tool_in_segment", [], node.parameters["model"], flow_variables=variables, **options)


def as_a_model_gives(parameters, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a model that reads schemas and descriptions gives for the arguments that it means."""
    given: dict[str, Any] = {}
    left = dict(arguments)
    for parameter in parameters:
        shown = parameter.shown
        if parameter.name is None:
            given[parameter.knime_name] = json.dumps(left) if left else ""
            left = {}
            continue
        if parameter.name not in left:
            given[parameter.knime_name] = ""
            continue
        value = left.pop(parameter.name)
        about = shown["description"]
        if shown.get("type") == "string" or ("enum" in shown and "" in shown["enum"]):
            as_json = "JSON in a text" in about or ", as text." in about or "true" in shown.get("enum", ())
            empty = value is None and '""' in about and "JSON in a text" not in about
            value = "" if empty else json.dumps(value) if as_json else value
        given[parameter.knime_name] = value
    assert not left, f"no parameter takes {list(left)}"
    return given
