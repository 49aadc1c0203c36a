"""What a person sees in a node's dialog, from what the node tells KNIME."""

import pyarrow as pa

from knime_mcp.tools.calling_hints import ParameterHint, ToolChoice, encode_choices

#: The nodes with a dialog, and what is connected to their ports.
NODES = {
    "mcp_tool_provider": ("table", None),
    "mcp_tool_caller": ("tools", "table", None),
    "mcp_agent_prompter": (None, "tools", "table", "group", None),
    "mcp_agent_chat": (None, "tools", "table", "group", None),
    "mcp_resource_reader": ("table", None),
    "mcp_prompt": ("table", None),
    "tool_call_replayer": ("tools", None),
    "openai_compatible_chat_model": (),
}
#: Columns and credentials that saved settings name, but that are not there any more. KNIME says so.
GONE = {
    "server_url_column",
    "credentials_column",
    "tool_column",
    "tool_per_row_column",
    "arguments_column",
    "prompt_column",
    "credentials",
}
_STALE = {**dict.fromkeys(sorted(GONE), "gone"), "tool": "gone", "model": "gone"}
#: Every choice that shows others, and an element of every list.
_CHOSEN = {
    "choices": {
        "recursion_limit_handling": "FINAL_RESPONSE",
        "set_temperature": True,
        "token_limit_as": "max_tokens",
    },
}
_FILLED = {
    "arguments": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}],
    "servers": [{"recorded": "https://old.example/mcp", "new": "https://new.example/mcp"}],
    "tool_mapping": [{"recorded": "old", "new": "new"}],
    "secrets": [{"digest": "0123456789ab", "credential": "new"}],
}

#: What a Provider hands on.
_OFFERED = encode_choices(
    [
        ToolChoice(
            name="add",
            route="http://127.0.0.1:9/mcp",
            description="Adds two numbers.",
            parameters=tuple(ParameterHint(name, "number", is_required=True) for name in "ab"),
        )
    ]
)


def states(host, node):
    """The dialog of a fresh node, a connected one, one with elements in its lists, and of stale settings."""
    fresh, inputs = host.dialog(node), inputs_of(host, node)
    yield "fresh", fresh
    yield (
        "connected",
        host.dialog(node, inputs, credentials={"crm": ("me", "")}, flow_variables={"mcp_tools: 1": _OFFERED}),
    )
    names = ["filled", *(f"stale {name}" for name in _CHOSEN)]
    for name in names:
        saved = saved_in(name, fresh["data"]["model"])
        yield name, host.dialog(node, None, parameters=saved)
        yield f"{name}, connected", host.dialog(node, inputs, parameters=saved)


def saved_in(state, fresh):
    """What a node has saved, of the settings that a fresh one has."""
    kind, _, chosen = state.removesuffix(", connected").partition(" ")
    known = {"filled": _FILLED, "stale": {**_STALE, **_CHOSEN.get(chosen, {})}}.get(kind, {})
    return {key: value for key, value in known.items() if key in fresh}


def inputs_of(host, node):
    """The schemas of what is connected to a node."""
    from knime_mcp.types.tool import MCPTool, to_json_text

    table = host.table(pa.table({"Role": ["user"], "text": ["x"]})).schema
    schema = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
    tool = to_json_text(MCPTool("add", "Adds two numbers.", schema, "http://127.0.0.1:9/mcp", "add"))
    tools = host.table(pa.table({"Tool (JSON)": [tool]})).schema
    kinds = {"table": table, "tools": tools, "group": [table], None: None}
    return [kinds[kind] for kind in NODES[node]]


def missing(dialog):
    """Keys of the settings whose value is not among what is offered; KNIME shows them as missing."""
    found = set()
    schemas = dialog["schema"]["properties"]["model"]["properties"]
    values = dialog["data"]["model"]
    for control in controls(dialog["ui_schema"]):
        parts = control["scope"].split("/properties/")[1:]
        if len(parts) != 2:  # in a group or list
            continue
        key = parts[1]
        offered = [choice["const"] for choice in schemas[key].get("oneOf", ())]
        offered += [choice["id"] for choice in control.get("options", {}).get("possibleValues", ())]
        if offered and values[key] not in ("", None, *offered):
            found.add(key)
    return found


def controls(element):
    """The controls of a dialog's layout, groups opened."""
    if "scope" in element and element["type"] != "Section":
        yield element
    for inner in element.get("elements", []):
        yield from controls(inner)


def shown(dialog):
    """Keys of the settings that a fresh node shows at once, in their order."""
    return [key for _, key in drawn(dialog)]


def drawn(dialog, *, advanced=False):
    """Headings and keys as KNIME draws them: a section is a heading, and what follows belongs to it."""
    return [(heading, element["scope"].rpartition("/")[2]) for heading, element in _all(dialog, advanced)]


def labelled(dialog, *, advanced=False):
    """Headings and labels as a person reads them. A list has a heading only."""
    return [
        (heading, element["label"])
        for heading, element in _all(dialog, advanced)
        if "detail" not in element.get("options", {})
    ]


def _all(dialog, advanced):
    return list(_drawn(dialog["ui_schema"]["elements"], [""], advanced, dialog["data"]))


def _drawn(elements, heading, advanced, values):
    for element in elements:
        if element.get("options", {}).get("isAdvanced") and not advanced:
            continue
        if not _is_visible(element.get("rule"), values):
            continue
        if element["type"] == "Section":
            heading[0] = element["label"]
        elif "scope" in element:
            yield heading[0], element
        yield from _drawn(element.get("elements", []), heading, advanced, values)


def _is_visible(rule, values):
    return rule is None or _holds(rule["condition"], values) is (rule["effect"] == "SHOW")


def _holds(condition, values):
    if "conditions" in condition:
        each = [_holds(part, values) for part in condition["conditions"]]
        return all(each) if condition["type"] == "AND" else any(each)
    if condition["scope"] == "#":
        return condition["schema"] == {"type": ["object"]}
    for name in condition["scope"].split("/properties/")[1:]:
        values = values[name]
    return values in [choice["const"] for choice in condition["schema"]["oneOf"]]
