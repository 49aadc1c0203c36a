"""Where settings stand in KNIME's dialog, which draws an array and a group as a section of their own."""

import pytest

NODES = [
    "mcp_tool_provider",
    "mcp_tool_caller",
    "mcp_agent_prompter",
    "tool_call_replayer",
    "openai_compatible_chat_model",
]
#: The parts of a dialog, in the order that all nodes have.
ORDER = [
    [
        "server_url",
        "server_url_column",
        "credentials",
        "credentials_column",
        "send_credentials_as",
        "transport",
    ],
    ["tool", "tool_name", "prefix", "include", "exclude", "tool_column", "pinning"],
    ["arguments_json", "arguments_column"],
    ["tool_per_row_column"],
    ["on_error", "on_failure", "resume"],
    ["result_columns", "expand_structured", "column_form"],
    ["save_audit_workflow_to"],
    ["connect_timeout", "total_timeout"],
]


@pytest.mark.parametrize("node", NODES)
def test_no_setting_stands_under_a_foreign_heading(host, node):
    elements = host.dialog(node)["ui_schema"]["elements"]
    kinds = [element["type"] for element in elements]
    if "Section" in kinds:
        assert set(kinds[kinds.index("Section") :]) == {"Section"}, kinds


@pytest.mark.parametrize("node", ["mcp_tool_provider", "mcp_tool_caller"])
def test_nodes_have_the_parts_of_a_dialog_in_the_same_order(host, node):
    elements = host.dialog(node)["ui_schema"]["elements"]
    keys = [element["scope"].rpartition("/")[2] for element in elements if "scope" in element]
    part_of = {key: place for place, part in enumerate(ORDER) for key in part}
    places = [part_of[key] for key in keys if key in part_of]
    assert places == sorted(places)
    assert len(places) > 5
