"""The agent's dialog and its checks before anything runs."""

import subprocess
import sys

import pyarrow as pa
import pytest

from tests.support.chat_server import call, calls, says
from tests.support.dialogs import controls


class Nobody:
    """An endpoint that must not get any request."""

    url = "http://127.0.0.1:9/v1"


@pytest.fixture
def model(model_of):
    return model_of(Nobody, check_connection=False)


@pytest.fixture
def configure(host, model):
    """Runs configure() only."""

    def run(tools=None, history=None, data=(), outputs=1, **parameters):
        tables = [None if table is None else host.table(pa.table(table)) for table in (tools, history)]
        given = [host.table(pa.table(table)) for table in data]
        return host.run(
            "mcp_agent_prompter",
            [model, *tables, given, None],
            {"user_message": "?", **parameters},
            output_groups={"Data outputs": outputs},
            execute=False,
        )

    return run


def test_at_most_five_settings_are_visible(host):
    visible = [
        control["scope"]
        for control in controls(host.dialog("mcp_agent_prompter")["ui_schema"])
        if not control.get("options", {}).get("isAdvanced") and "/errors/" not in control["scope"]
    ]
    assert 1 <= len(visible) <= 5, visible  # the group of the errors is advanced as a whole


def test_a_dialog_does_not_change_a_fresh_node(host, model, configure):
    fresh = configure().parameters
    history = host.table(pa.table({"Role": ["user"], "Text": ["x"]}))
    prompts = host.table(pa.table({"prompt": ["x"]}))
    tools = host.table(pa.table({"Tool (JSON)": ["x"]}))
    dialog = host.dialog("mcp_agent_prompter", [model, tools.schema, history.schema, [prompts.schema], None])
    model_settings = dialog["data"]["model"]
    assert model_settings["tool_column"] == "<auto>"
    assert model_settings["prompt_column"] == "<none>"
    assert configure().parameters == fresh


def test_keys_that_knimes_agent_prompter_has(configure):
    settings = configure().parameters["model"]
    assert {
        "developer_message",
        "user_message",
        "tool_column",
        "recursion_limit",
        "recursion_limit_handling",
        "debug",
    } <= set(settings)
    assert len(settings) <= 20


def test_settings_that_cannot_work_say_what_to_do(subtests, configure):
    for inputs, parameters, said in [
        ({"tools": {"a": [1]}}, {}, "no tool column. Connect the Tools output of an MCP Tool Provider"),
        ({"tools": {"Tool (JSON)": ["x"]}}, {"tool_column": "b"}, "no column 'b'"),
        ({}, {"user_message": "  \n"}, "no prompt. Enter a question or task under 'User message'"),
        ({}, {"prompt_column": "text"}, "no table of prompts. Add a 'Data inputs' port"),
        ({"data": [{"n": [1]}]}, {"prompt_column": "n"}, "no text column 'n'"),
        ({"history": {"a": ["x"]}}, {}, "no conversation column"),
        ({}, {"call_limit": "many"}, "The limit of calls cannot be read: 'many'"),
        ({}, {"token_budget": "0"}, "'Most tokens' is no number above 0: '0'"),
        ({}, {"time_limit": "inf"}, "is no number above 0: 'inf'. Enter a number, or nothing for no limit"),
        ({}, {"rules": "never mind"}, "Line 1 of the rules for calls"),
        ({}, {"recursion_limit": -1}, "-1"),
    ]:
        with subtests.test(inputs=inputs, parameters=parameters, said=said):
            result = configure(**inputs, **parameters)
            assert not result.ok
            assert said in result.failure["message"]
            assert result.failure["invalid_settings"]


def test_a_credential_of_the_model_that_is_not_there(host, model_of):
    model = model_of(Nobody, {"key": ("", "secret-key")}, credentials="key", check_connection=False)
    result = host.run(
        "mcp_agent_prompter", [model, None, None, [], None], {"user_message": "?"}, execute=False
    )
    assert not result.ok
    assert "'key'" in result.failure["message"]


@pytest.mark.parametrize("outputs", [0, 2])
def test_configure_promises_the_columns_and_all_data_outputs(configure, outputs):
    result = configure(data=[{"text": ["x"]}], prompt_column="text", outputs=outputs)
    assert result.ok, result.failure
    assert len(result.specs) == 3 + outputs
    names = str(result.specs[0])
    for name in ("Input row", "Conversation", "Errors"):
        assert name in names
    for name in ("text", "Outcome", "Answer", "Error", "Output tokens"):
        assert name in str(result.specs[2])


@pytest.mark.requirement("T49")
def test_the_audit_workflow(servers, script, ask, tools_of, tmp_path):
    from tests.support.archives import read_workflow

    server = script(calls(call("add", {"a": 1}), call("who")), says("2 and one"))
    result = ask(
        server,
        tools_of(servers[0].url("/one")),
        user_message="Add.",
        save_audit_workflow_to="audits/last.knwf",
    )
    assert result.ok, result.failure
    workflow = read_workflow(tmp_path / "workflow" / "data" / "audits" / "last.knwf")
    assert [node.parameters["model"]["tool_name"] for node in workflow.nodes] in (
        ["add", "who"],
        ["who", "add"],
    )
    notes = "".join(annotation.text for annotation in workflow.annotations)
    assert "Add." in notes
    assert "2 and one" in notes


@pytest.mark.parametrize("place", ["file/audit.knwf", "~nobody-of-that-name/audits", "a\0b"])
def test_an_audit_workflow_that_cannot_be_saved_is_a_warning(script, ask, tmp_path, place):
    (tmp_path / "workflow" / "data").mkdir(parents=True)
    (tmp_path / "workflow" / "data" / "file").write_text("in the way", encoding="utf-8")
    result = ask(script(says("hello")), save_audit_workflow_to=place)
    assert result.ok, result.failure
    assert "The audit workflow cannot be written to" in result.warnings[-1]


def test_debug_mode_is_handed_on(workflow_tool, script, ask):
    tools, modes = workflow_tool("w"), []

    def handler(tool, parameters, inputs, hints):
        modes.append(hints["execution-mode"])
        return "done", []

    for debug in (True, False):
        assert ask(script(calls(call("w")), says("ok")), tools, debug=debug, tool_handler=handler).ok
    assert modes == ["DEBUG", "DEFAULT"]


def test_configure_loads_neither_langchain_nor_an_http_client():
    """The dialog of a node, and opening a workflow, wait for it."""
    program = (
        "import sys; from tests.support.knime_host import use_standin; use_standin()\n"
        "import knime_mcp.agents.agent_settings, knime_mcp.agents.prompter.conversation_table\n"
        "print([name for name in ('langchain_core', 'httpx', 'openai') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
