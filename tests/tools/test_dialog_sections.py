"""Where settings stand in KNIME's dialog: a group or array is a heading, and what follows belongs to it."""

import itertools

import pytest

from tests.support.dialogs import GONE, NODES, drawn, missing, saved_in, states

#: Headings in the order that all nodes have. Those in one place are of different nodes.
ORDER = [
    {"Connection", "Other servers"},
    {"Prompt"},
    {"Model"},
    {"Tool", "Tools", "Resources"},
    {"Renamed tools"},
    {"Arguments", "Secret arguments"},
    {"Rows"},
    {"Limits"},
    {"Errors"},
    {"Output", "Comparison"},
    {"Audit"},
    {"Advanced"},
]
PLACES = {label: place for place, labels in enumerate(ORDER) for label in labels}
BELONGS = {
    "Prompt": "prompt pinned_digest if_changed developer_message user_message prompt_column"
    " answer_schema questions",
    "Connection": "server_url server_url_column credentials credentials_column connection_options"
    " extra_headers base_url check_connection",
    "Other servers": "servers",
    "Model": "model model_name set_temperature temperature token_limit_as token_limit top_p reasoning_effort"
    " request_fields",
    "Resources": "uri uri_column if_changed",
    "Tool": "tool tool_name tool_column pinning",
    "Tools": "include also_call call_changed tool_column pinning rules trusted_servers debug ask_first",
    "Renamed tools": "tool_mapping",
    "Arguments": "arguments arguments_json arguments_column",
    "Secret arguments": "secrets",
    "Rows": "tool_per_row_column prompt_concurrency",
    "Limits": "recursion_limit recursion_limit_handling call_limit token_budget time_limit",
    "Errors": "on_error on_failure resume",
    "Output": "all_columns json_cells column_form for_agents save_components_to reexecution_trigger",
    "Comparison": "ignore twice rules",
    "Audit": "secret_arguments save_audit_workflow_to expected_head",
    "Advanced": "connection_options idle_timeout total_timeout timeout",
}


@pytest.mark.parametrize("node", NODES)
def test_every_setting_stands_below_its_heading(host, node):
    for (_, dialog), advanced in itertools.product(states(host, node), (False, True)):
        found = drawn(dialog, advanced=advanced)
        assert found
        for heading, key in found:
            assert key in BELONGS[heading].split(), (heading, key)


@pytest.mark.parametrize("node", NODES)
def test_headings_have_one_order_in_all_nodes(host, node):
    for _, dialog in states(host, node):
        places = [PLACES[heading] for heading, _ in drawn(dialog, advanced=True)]
        assert places == sorted(places)
    assert len(set(places)) >= 3


@pytest.mark.parametrize("node", NODES)
def test_few_settings_are_seen_at_first(host, node):
    found = dict(states(host, node))
    assert 1 <= len(drawn(found["fresh"])) <= 4
    assert 1 <= len(drawn(found["connected"])) <= 4


@pytest.mark.parametrize("node", NODES)
def test_opening_a_dialog_changes_no_value(host, node):
    fresh = host.dialog(node)["data"]["model"]
    for name, dialog in states(host, node):
        assert dialog["data"]["model"] == {**fresh, **saved_in(name, fresh)}
    assert host.dialog(node)["data"]["model"] == fresh


@pytest.mark.parametrize("node", NODES)
def test_a_saved_choice_is_offered_though_it_is_gone(host, node):
    """KNIME writes (MISSING) in front of a choice that is not offered."""
    for name, dialog in states(host, node):
        allowed = GONE if name.startswith("stale") else set()
        assert missing(dialog) <= allowed, name


def test_a_node_that_is_not_among_these_is_no_node(host):
    assert {node["id"] for node in host.describe()["nodes"] if not node["is_hidden"]} == set(NODES)
