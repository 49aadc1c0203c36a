"""``knime-mcp run`` as people use it: a process, its streams, its files, its exit code."""

import json
import signal
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from knime_mcp.headless.workflows.new_node import new_node
from knime_mcp.knwf import (
    Column,
    Configuration,
    Connection,
    NativeNode,
    VariableControl,
    Workflow,
    WorkflowCredential,
    concatenate_node,
    configuration_node,
    table_creator,
    write_workflow,
)
from knime_mcp.knwf.settings_xml import Config, string
from tests.cli.conftest import SECRET
from tests.headless.workflows.building import component
from tests.support.host import described, get_host


@pytest.fixture(scope="session")
def extension():
    """What is known of this project's nodes, whichever host runs the tests."""
    return described(get_host())


@pytest.fixture
def write(tmp_path):
    """Writes a workflow of nodes and lines; gives the file's name."""

    def make(*nodes, lines=(), name="trial", **parts):
        connections = tuple(Connection(*line) for line in lines)
        write_workflow(Workflow(name, nodes, connections, **parts), tmp_path / "w.knwf")
        return "w.knwf"

    return make


def text(node_id, variable, value, kind="string"):
    own = Configuration(kind=kind, variable=variable, parameter="", value=value)
    return configuration_node(node_id, own)


def table(node_id, *cells, name="text"):
    return table_creator(node_id, [Column(name, "string", cells)])


def caller(extension, node_id, url, tool, **settings):
    variables = settings.pop("variables", ())
    inputs = settings.pop("inputs", None)
    own = {"server_url": url, "tool_name": tool, **settings}
    return new_node(extension, node_id, "mcp_tool_caller", own, inputs=inputs, variables=variables)


def test_calls_per_row_with_what_the_command_line_sets(cli, server, extension, write, tmp_path):
    file = write(
        text(1, "server_url", "http://127.0.0.1:9/mcp"),
        table(2, "a", "b"),
        caller(
            extension,
            3,
            "http://127.0.0.1:9/mcp",
            "echo",
            inputs={"Parameters": 1},
            variables=[VariableControl(("server_url",), used="server_url")],
        ),
        lines=[(1, 1, 3, 0), (2, 1, 3, 1)],
    )
    done = cli("run", file, "--set", f"server_url={server.url}", "--out", "out")
    assert done.code == 0, done.err
    assert "3 of 3 nodes executed" in done.err
    rows = pq.read_table(tmp_path / "out" / "3 MCP Tool Caller.parquet").to_pylist()
    assert [(row["text"], row["Result"]) for row in rows] == [("a", "a"), ("b", "b")]
    assert "<RowID>" not in rows[0]
    assert '"a"' in (tmp_path / "out" / "3 MCP Tool Caller.csv").read_text(encoding="utf-8")
    assert "<html" in (tmp_path / "out" / "3 MCP Tool Caller.html").read_text(encoding="utf-8").lower()
    journals = list((tmp_path / "out" / "workflow" / "data" / "mcp-audit").glob("*.jsonl"))
    assert len(journals) == 1
    shown = cli("run", file, "--set", f"server_url={server.url}")
    assert shown.code == 0
    assert "echo" in shown.out


def test_json_says_what_became_of_each_node(cli, server, extension, write):
    failing = caller(extension, 1, server.url, "fail", on_error="fail")
    file = write(failing, table(2, "a"), concatenate_node(3),
                 lines=[(1, 1, 3, 1), (2, 1, 3, 2)])  # fmt: skip
    done = cli("run", file, "--json", "--out", "out")
    assert done.code == 1
    said = done.json
    assert not said["ok"]
    states = {node["id"]: (node["status"], node["message"]) for node in said["nodes"]}
    assert states[1][0] == "failed"
    assert "It went wrong: no reason" in states[1][1]
    assert states[3] == ("not run", "MCP Tool Caller (#1) was not executed")
    assert said["nodes"][1]["outputs"] == [{"port": "Manually created table", "rows": 1, "columns": ["text"]}]
    assert [name.rsplit("/", 1)[-1] for name in said["files"]] == [
        "2 Table Creator.csv",
        "2 Table Creator.parquet",
    ]
    assert "MCP Tool Caller (#1) failed: " in done.err
    assert "Concatenate (#3) was not run: MCP Tool Caller (#1) was not executed." in done.err


def test_a_row_that_failed_is_a_failure_as_it_is_in_a_batch(cli, server, extension, write):
    """The node executed, and its table has the row with its error, but not everything went well."""
    calls = caller(extension, 2, server.url, "fail", inputs={"Parameters": 1})
    rows = table_creator(1, [Column("why", "string", ("one", "other"))])
    done = cli("run", write(rows, calls, lines=[(1, 1, 2, 1)]))
    assert done.code == 1
    assert done.err.splitlines()[0].startswith("1 of 2: Table Creator (#1)")
    assert "2 of 2 nodes executed" in done.err
    assert "MCP Tool Caller (#2): 2 of 2 calls failed; first: row Row0, " in done.err
    header = next(line for line in done.out.splitlines() if "Status" in line)
    assert "Error" in header  # the table has more columns than a terminal
    assert "It went wrong: other" in done.out
    told = cli("run", "w.knwf", "--json").json
    assert not told["ok"]
    assert [node["failed_calls"] for node in told["nodes"]] == [0, 2]


def test_nodes_that_do_not_run_here_are_named_before_anything_runs(cli, server, extension, write, tmp_path):
    unknown = NativeNode(id=2, name="Row Filter", factory="org.knime.x.RowFilterFactory", outputs=1, inputs=1,
                         bundle=("b", "b", "v"))  # fmt: skip
    file = write(caller(extension, 1, server.url, "echo"), unknown, lines=[(1, 1, 2, 1)])
    before = len(server.said())
    done = cli("run", file, "--out", "out")
    assert done.code == 1
    assert "Row Filter (#2): Only KNIME runs this node (org.knime.x.RowFilterFactory)" in done.err
    assert "nothing was run" in done.err
    assert len(server.said()) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--set", "x"], 2, "--set x has no value. Write it as NAME=VALUE."),
        (["--set", "x=1", "--set", "x=2"], 2, "--set names 'x' twice"),
        (["--set", "y=1"], 2, "nothing called 'y' to set; it has: x"),
        (["--set", "x=many"], 2, "'x' is 'many', but it has to be a whole number"),
        (["--input", "rows=t.csv"], 2, "no input called 'rows'"),
    ],
)
def test_what_cannot_be_set(cli, write, tmp_path, arguments, code, message):
    (tmp_path / "t.csv").write_text("a\n1\n")
    done = cli("run", write(text(1, "x", 5, "integer")), *arguments)
    assert (done.code, done.out) == (code, "")
    assert message in done.err


def test_files_that_are_no_workflow(cli, tmp_path):
    assert cli("run", "nowhere.knwf").code == 1
    (tmp_path / "odd.knwf").write_bytes(b"no zip")
    done = cli("run", "odd.knwf")
    assert done.code == 1
    assert "odd.knwf cannot be read as a workflow" in done.err


def test_credentials_come_from_the_environment(cli, server, extension, write):
    url = f"{server.base}/guarded/mcp"
    node = caller(extension, 2, url, "echo", credentials="prod", arguments=[{"name": "text", "value": "hi"}])
    file = write(text(1, "prod", "", "credentials"), node, lines=[(1, 1, 2, 0)])
    done = cli("run", file, "--json", env={"KNIME_MCP_PROD_PASSWORD": SECRET})
    assert done.code == 0, done.err
    other = cli("run", file, "--credential", "prod=test", env={"KNIME_MCP_TEST_PASSWORD": SECRET})
    assert other.code == 0, other.err
    missing = cli("run", file)
    assert missing.code == 1
    assert "Credentials Configuration (#1) failed: There is no credential 'prod'" in missing.err
    assert "KNIME_MCP_PROD_PASSWORD" in missing.err
    renamed = cli("run", file, "--credential", "prod=nowhere")
    assert "KNIME_MCP_NOWHERE_PASSWORD" in renamed.err


def test_credentials_of_the_workflow(cli, server, extension, write):
    url = f"{server.base}/guarded/mcp"
    node = caller(extension, 1, url, "echo", credentials="prod", arguments=[{"name": "text", "value": "hi"}],
                  on_error="fail")  # fmt: skip
    file = write(node, credentials=(WorkflowCredential("prod"),))
    assert cli("run", file, env={"KNIME_MCP_PROD_PASSWORD": SECRET}).code == 0
    missing = cli("run", file)
    assert missing.code == 1
    assert "prod" in missing.err


def test_ctrl_c_cancels_and_keeps_what_ran(cli, server, extension, write, tmp_path, until):
    slow = caller(
        extension,
        2,
        server.url,
        "slow",
        arguments=[{"name": "seconds", "value": "60"}, {"name": "label", "value": "in a workflow"}],
    )
    file = write(
        table(1, "kept"), slow, table(3, "x"), concatenate_node(4), lines=[(2, 1, 4, 1), (3, 1, 4, 2)]
    )
    process = cli.start("run", file, "--out", "out")
    until(lambda: "started in a workflow" in server.said(), "the call began")
    process.send_signal(signal.SIGINT)
    done = cli.finish(process)
    assert done.code == 3
    assert "Canceled after" in done.err
    assert pq.read_table(tmp_path / "out" / "1 Table Creator.parquet").to_pylist() == [{"text": "kept"}]
    assert not (tmp_path / "out" / "4 Concatenate.parquet").exists()


def test_a_failed_run_says_where_its_files_are(cli, server, extension, write):
    done = cli("run", write(caller(extension, 1, server.url, "fail", on_error="fail")))
    assert done.code == 1
    assert "Files of this run are in " in done.err


def test_control_characters_of_the_file_are_shown_not_obeyed(cli, write):
    done = cli("run", write(replace(table(1, "x\x1b[31m"), annotation="a\x1b[31m"), name="n\x1b[31m"))
    assert done.code == 0
    assert "\x1b" not in done.out + done.err


def test_lists_and_odd_values_in_files(cli, server, extension, write, tmp_path):
    file = write(new_node(extension, 1, "mcp_tool_provider", {"server_url": server.url}))
    done = cli("run", file, "--out", "out", "--json")
    assert done.code == 0, done.err
    tools = pq.read_table(tmp_path / "out" / "1 MCP Tool Provider - Tools.parquet").to_pylist()
    assert {tool["Tool name"] for tool in tools} >= {"echo", "add"}
    assert all(json.loads(tool["Tool"])["name"] == tool["Tool name"] for tool in tools)
    servers = pq.read_table(tmp_path / "out" / "1 MCP Tool Provider - Servers.parquet").to_pylist()
    assert len(servers) == 1


def test_another_server(cli, server, extension, write):
    old = "stdio:local"
    file = write(
        caller(extension, 1, old, "echo", arguments=[{"name": "text", "value": "a"}], on_error="fail"),
        caller(extension, 2, server.url, "echo", arguments=[{"name": "text", "value": "b"}]),
    )
    refused = cli("run", file)
    assert refused.code == 1
    assert "command on this computer" in refused.err
    done = cli("run", file, "--server", f"{old}={server.url}")
    assert done.code == 0, done.err
    assert "1 of 2: MCP Tool Caller (#1): " in done.err
    assert " s, 1 row" in done.err


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ("https://a.example", "does not say which server to call instead of which"),
        ("https://a.example=stdio:x", "does not say which server to call instead of which"),
        (
            "https://a.example=http://127.0.0.1:1/mcp",
            "No node of the workflow names the server https://a.example",
        ),
        ("http://old.example=http://u:p@127.0.0.1:1/mcp", "user"),
    ],
)
def test_servers_that_cannot_be(cli, extension, write, mapping, message):
    done = cli("run", write(caller(extension, 1, "http://old.example/mcp", "echo")), "--server", mapping)
    assert done.code == 2
    assert message in done.err


def test_a_credential_does_not_go_to_another_host(extension):
    from knime_mcp.headless.workflows.workflow_run import with_servers

    own = caller(extension, 1, "https://old.example/mcp", "echo", credentials="prod")
    other = caller(
        extension,
        2,
        "https://old.example/mcp",
        "echo",
        variables=[VariableControl(("server_url",), used="u")],
    )
    flow = Workflow("w", (own, other))

    def mapped(old, new):
        found = with_servers(flow, {old: new}, extension.id).nodes
        assert found[1] == other
        model = found[0].parameters["model"]
        assert model.keys() == own.parameters["model"].keys()
        return model["server_url"], model["credentials"]

    assert mapped("https://old.example", "https://new.example") == ("https://new.example/mcp", "")
    assert mapped("https://old.example/mcp", "https://old.example/v2") == ("https://old.example/v2", "prod")
    given = mapped("https://old.example/mcp", "https://new.example/mcp#credential=test")
    assert given == ("https://new.example/mcp", "test")


def test_a_metanode_on_its_own(cli, write):
    from knime_mcp.knwf import OtherNode
    from knime_mcp.knwf.workflow_file import workflow_files

    inner = workflow_files(Workflow("inner", (table(1, "in a metanode"),)))
    node = OtherNode(2, "Part", "metanode", "Part (#2)/workflow.knime")
    component = OtherNode(3, "Closed", "component", "Closed (#3)/settings.xml")
    files = {f"Part (#2)/{path}": data for path, data in inner.items()} | {
        "Closed (#3)/settings.xml": b"<config/>"
    }
    file = write(table(1, "x"), node, component, files=files)
    done = cli("run", file)
    assert done.code == 0, done.err
    assert "in a metanode" in done.out
    assert (
        "Closed (#3) was left out: it cannot be read: workflow.knime is missing. No other node needs it"
        in done.err
    )
    said = cli("run", file, "--json").json
    assert said["left_out"] == [
        {"id": 3, "name": "Closed", "why": "it cannot be read: workflow.knime is missing"}
    ]
    assert [own["inside"] for own in said["nodes"]] == [None, "Part"]


def test_the_workflow_of_an_agent_of_knime_runs_again(cli, server, write, tmp_path):
    """Its combined workflow: each call of a tool is a component, with the arguments in its dialog."""
    from knime_mcp.knwf import read_segment
    from knime_mcp.tools.tool_segment import tool_cell
    from knime_mcp.types.tool import MCPTool

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    times = {"connect_timeout": 5.0, "idle_timeout": 30.0, "total_timeout": 60.0}
    tool = MCPTool("echo", "Says it again", schema, server.url, "echo")
    segment = read_segment(tool_cell(tool, "echo", times).store)
    message = segment.outputs[0]
    nodes, files = [], {}
    for number, said in ((3, "one"), (4, "two")):
        node, own = component(
            number,
            *segment.workflow.nodes,
            ins=0,
            lines=[
                *((c.source, c.source_port, c.destination, c.destination_port)
                  for c in segment.workflow.connections),
                (message.node, message.index, 101, 1),
            ],
            dialog=(Config("text-1", (string("string", said),)),),
            name=f"echo {said}",
        )  # fmt: skip
        nodes, files = [*nodes, node], files | own
    file = write(*nodes, concatenate_node(9), lines=[(3, 1, 9, 1), (4, 1, 9, 2)], files=files)
    done = cli("run", file, "--out", "out")
    assert done.code == 0, done.err
    rows = pq.read_table(tmp_path / "out" / "9 Concatenate.parquet").to_pylist()
    assert [row["Message"] for row in rows] == ["one", "two"]
    journals = list((tmp_path / "out" / "workflow" / "data" / "mcp-audit").glob("*.agent.jsonl"))
    assert len(journals) == 1
