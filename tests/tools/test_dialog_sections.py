"""Where settings stand in KNIME's dialog: a group or array is a heading, and what follows belongs to it."""

import itertools

import pyarrow as pa
import pytest

from knime_mcp.types.tool import MCPTool, to_json_text
from tests.support.dialogs import drawn

#: Headings in the order that all nodes have. Those in one place are of different nodes.
ORDER = [
    {"Connection", "Other servers"},
    {"Prompt"},
    {"Other credentials"},
    {"Model"},
    {"Tool", "Tools", "Resources"},
    {"Renamed tools"},
    {"Arguments", "Secret arguments"},
    {"Rows"},
    {"Limits"},
    {"Errors"},
    {"Output"},
    {"Audit"},
    {"Advanced"},
]
PLACES = {label: place for place, labels in enumerate(ORDER) for label in labels}
BELONGS = {
    "Prompt": "prompt pinned_digest if_changed developer_message user_message prompt_column"
    " conversation_column data_message_prefix send_images questions",
    "Connection": "server_url server_url_column credentials credentials_column send_credentials_as"
    " header_name issuer scope extra_headers transport base_url check_connection",
    "Other servers": "servers",
    "Other credentials": "credential_mapping",
    "Model": "model model_name",
    "Resources": "uri uri_column if_changed",
    "Tool": "tool tool_name tool_column pinning pinned_digest",
    "Tools": "include exclude prefix prefix_column also_call call_changed tool_column pinning rules"
    " trusted_servers suspicious_tools parallel_calls tool_budget result_limit debug ask_first",
    "Renamed tools": "tool_mapping",
    "Arguments": "arguments arguments_json arguments_source arguments_column omit_empty",
    "Secret arguments": "secrets",
    "Rows": "rows tool_per_row_column concurrency prompt_concurrency",
    "Limits": "recursion_limit recursion_limit_handling recursion_limit_prompt call_limit calls_per_tool"
    " token_budget prices time_limit longest_wait",
    "Errors": "on_error on_failure on_tool_error resume repeat_unknown stop_at_first_difference"
    " error_handling use_existing_error_column error_column_name error_column",
    "Output": "answer_schema answer_repairs top_p reasoning_effort request_fields"
    " result_columns json_cells expand_structured column_form for_agents save_components_to ignore"
    " unordered tolerance twice rules hand_on conversation_form conversation_column_name set_temperature"
    " temperature token_limit_as token_limit",
    "Audit": "secret_arguments save_audit_workflow_to expected_head force_altered",
    "Advanced": "connect_timeout idle_timeout total_timeout timeout dry_run",
}
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
#: What saved settings name that is not there any more, and every choice that shows others.
STALE = {
    "server_url_column": "gone",
    "credentials_column": "gone",
    "prefix_column": "gone",
    "tool_column": "gone",
    "tool_per_row_column": "gone",
    "arguments_column": "gone",
    "prompt_column": "gone",
    "conversation_column": "gone",
    "credentials": "gone",
    "tool": "gone",
    "model": "gone",
}
CHOSEN = [
    {"send_credentials_as": "header", "arguments_source": "json_column"},
    {
        "send_credentials_as": "client_credentials",
        "recursion_limit_handling": "FINAL_RESPONSE",
        "set_temperature": True,
        "token_limit_as": "max_tokens",
    },
]


@pytest.fixture
def inputs_of(host):
    table = host.table(pa.table({"Role": ["user"], "text": ["x"]})).schema
    tool = to_json_text(MCPTool("add", "", {}, "http://127.0.0.1:9/mcp", "add"))
    tools = host.table(pa.table({"Tool (JSON)": [tool]})).schema
    kinds = {"table": table, "tools": tools, "group": [table], None: None}
    return lambda node: [kinds[kind] for kind in NODES[node]]


def states(host, node, inputs):
    """The dialog of a fresh node, a connected one, and of ones with stale settings."""
    fresh = host.dialog(node)
    yield fresh
    yield host.dialog(node, inputs)
    for chosen in CHOSEN:
        stale = {key: value for key, value in {**STALE, **chosen}.items() if key in fresh["data"]["model"]}
        for given in (None, inputs):
            yield host.dialog(node, given, parameters=stale)


@pytest.mark.parametrize("node", NODES)
def test_every_setting_stands_below_its_heading(host, inputs_of, node):
    for dialog, advanced in itertools.product(states(host, node, inputs_of(node)), (False, True)):
        found = drawn(dialog, advanced=advanced)
        assert found
        for heading, key in found:
            assert key in BELONGS[heading].split(), (heading, key)


@pytest.mark.parametrize("node", NODES)
def test_headings_have_one_order_in_all_nodes(host, inputs_of, node):
    for dialog in states(host, node, inputs_of(node)):
        places = [PLACES[heading] for heading, _ in drawn(dialog, advanced=True)]
        assert places == sorted(places)
    assert len(set(places)) > 3


@pytest.mark.parametrize("node", NODES)
def test_few_settings_are_seen_at_first(host, inputs_of, node):
    assert 1 <= len(drawn(host.dialog(node))) <= 5
    assert 1 <= len(drawn(host.dialog(node, inputs_of(node)))) <= 4


@pytest.mark.parametrize("node", NODES)
def test_opening_a_dialog_changes_no_value(host, inputs_of, node):
    fresh = host.dialog(node)["data"]["model"]
    for stale in ({}, *({**STALE, **chosen} for chosen in CHOSEN)):
        saved = {**fresh, **{key: value for key, value in stale.items() if key in fresh}}
        for given in (None, inputs_of(node)):
            assert host.dialog(node, given, saved)["data"]["model"] == saved
    assert host.dialog(node)["data"]["model"] == fresh


@pytest.mark.parametrize("node", NODES)
def test_a_saved_choice_is_offered_though_it_is_gone(host, inputs_of, node):
    """KNIME writes (MISSING) in front of a choice that is not offered."""
    fresh = host.dialog(node)["data"]["model"]
    saved = {key: "gone" for key in ("tool", "model") if key in fresh}
    dialog = host.dialog(node, inputs_of(node), saved)
    for key, setting in dialog["schema"]["properties"]["model"]["properties"].items():
        if key in ("tool", "model"):
            assert "gone" in [choice["const"] for choice in setting["oneOf"]]
