"""``examples/agent.knwf``: made by its script, sound, and run with the demo's server and a scripted model."""

import pyarrow.parquet as pq
import pytest

from knime_mcp.knwf import NativeNode, NodeState, check, read_workflow
from tests.examples.running import EXAMPLES, command, without_nulls
from tests.support import real_knime as rig
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.host import get_host

AGENT = EXAMPLES / "agent.knwf"


def test_the_file_is_what_its_script_makes(tmp_path):
    command(EXAMPLES / "make_agent_example.py", tmp_path, folder=tmp_path)
    made = read_workflow(tmp_path / "agent.knwf")
    assert made == read_workflow(AGENT), "run: python examples/make_agent_example.py"


def test_it_is_sound():
    workflow = read_workflow(AGENT)
    assert list(check(workflow)) == []
    assert all(isinstance(node, NativeNode) and node.state is NodeState.CONFIGURED for node in workflow.nodes)
    assert all(node.annotation for node in workflow.nodes)
    places = {(node.position.x, node.position.y) for node in workflow.nodes}
    assert len(places) == len(workflow.nodes)


def test_its_settings_load_in_the_nodes():
    host = get_host()
    own = [node for node in read_workflow(AGENT).nodes if node.extension_id]
    assert len(own) == 3
    for node in own:
        loaded = host.load_parameters(node.node_id, node.parameters, node.parameters_version)
        assert without_nulls(loaded["model"]) == node.parameters["model"]


@pytest.mark.real_knime
def test_the_rig_finds_nothing_wrong():
    assert rig.check_knwf(str(AGENT), get_host().host)["problems"] == []


@pytest.mark.requirement("T26")
def test_it_runs_without_knime(demo, tmp_path):
    def looks(request):
        names = {tool["function"]["name"] for tool in request.body["tools"]}
        assert names == {
            "list_files",
            "search_text",
            "summarize_csv",
            "convert_csv",
            "plot_column",
            "word-count-tool",
        }
        counted = {"server-url": demo, "path": "customer_letter.txt"}
        return calls(
            call("search_text", {"text": "desk"}),
            call("plot_column", {"path": "orders.csv", "column": "quantity"}),
            call("word-count-tool", {"configuration": counted}),
        )

    def reads(request):
        kinds = [message["role"] for message in request.messages]
        assert kinds[:6] == ["system", "user", "assistant", "tool", "tool", "tool"]
        return says("Desks, says orders.csv.")

    with ChatServer([looks, reads]) as chat:
        settings = [f"server_url={demo}", f"model_url={chat.url}", "model=test-model"]
        options = [word for setting in settings for word in ("--set", setting)]
        command("-m", "knime_mcp.cli.app", "run", AGENT, *options, "--out", "out", folder=tmp_path)
        assert chat.complaints == []
        assert chat.unplayed == 0
    files = {path.name: path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    (recorded,) = [path for name, path in files.items() if "Tool calls" in name and name.endswith(".parquet")]
    rows = pq.read_table(recorded).to_pylist()
    assert {(row["Tool name"], row["Status"]) for row in rows} == {
        ("search_text", "ok"),
        ("plot_column", "ok"),
        ("word-count-tool", "ok"),
    }
    (talk,) = [path for name, path in files.items() if "Conversation" in name and name.endswith(".csv")]
    text = talk.read_text(encoding="utf-8")
    assert "user: Which product" in text
    assert "search_text(" in text
    assert "tool plot_column: " in text
    assert "ai: Desks, says orders.csv." in text
    (page,) = [path for name, path in files.items() if name.endswith(".html") and "Agent" in name]
    assert "Desks, says orders.csv." in page.read_text(encoding="utf-8")
    (exported,) = [path for name, path in files.items() if name.endswith(".knwf")]
    steps = [node.name for node in read_workflow(exported).nodes]
    assert len(steps) == len(rows)


@pytest.mark.requirement("T68")
def test_the_tool_workflow_runs_for_an_agent(demo, tmp_path):
    def counts(request):
        (function,) = [tool["function"] for tool in request.body["tools"]]
        assert "Counts the words" in function["description"]
        return calls(call(function["name"], {"configuration": {"server-url": demo, "path": "orders.csv"}}))

    with ChatServer([counts, lambda request: says(f"It says {request.last}")]) as chat:
        done = command(
            "-m",
            "knime_mcp.cli.app",
            "agent",
            "How many words?",
            "--workflow",
            EXAMPLES / "word-count-tool.knwf",
            "--model-url",
            chat.url,
            "--model",
            "test-model",
            folder=tmp_path,
        )
        assert chat.complaints == []
    assert "orders.csv" in done.stdout
    assert "⧉ workflow word-count-tool ok" in done.stderr
