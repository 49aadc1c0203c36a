import json
import signal
import socket

import pyarrow.parquet as pq
import pytest

from tests.support.files import csv_rows, json_lines
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

pytestmark = pytest.mark.quick


TOOLS = ["echo", "add", "show", "fail", "picture", "slow", "nasty"]


def test_tools_are_shown_with_their_descriptions(cli, server):
    done = cli("list", server.url)
    assert done.code == 0
    for name in TOOLS:
        assert name in done.out
    assert "Add two numbers." in done.out
    assert f": {len(TOOLS)} tools " in done.out
    assert f": 1 of {len(TOOLS)} tools " in cli("list", server.url, "--include", "echo").out


def test_one_tool_is_not_called_tools(cli):
    with ScriptedServer(modern()) as server:
        assert ": 1 tool " in cli("list", server.url).out


def test_tools_and_servers_as_json(cli, server):
    done = cli("list", server.url, "--json")
    assert [tool["tool_name"] for tool in done.json["tools"]] == TOOLS
    tool = done.json["tools"][0]
    assert tool["parameters"]["required"] == ["text"]
    assert tool["server"] == server.url
    assert tool["tool"]["tool_type"] == 1 or tool["tool"]
    (about,) = done.json["servers"]
    assert (about["status"], about["tools"]) == ("ok", len(TOOLS))


def test_thousands_of_tools_are_lines_with_columns(cli):
    tools = [tool(f"tool {n}\nx\x1b" + "y" * (n == 7), description="What it does") for n in range(2500)]
    with ScriptedServer(modern(tools__list=rpc({"tools": tools, "resultType": "complete"}))) as server:
        title, heads, *lines = cli("list", server.url).out.splitlines()
    assert ": 2,500 tools " in title
    assert heads.split() == ["tool", "parameters", "description"]
    assert [line[: len(f"tool {n} x")] for n, line in enumerate(lines)] == [
        f"tool {n} x" for n in range(2500)
    ]
    assert {line.index("What") for line in lines} == {heads.index("description")}
    assert "\x1b" not in "".join(lines)


def test_several_servers_with_equal_names(cli, server):
    done = cli("list", server.url, f"{server.base}/old/sse", "--include", "echo,add", "--json")
    assert len(done.json["tools"]) == 4
    assert len({tool["tool_name"] for tool in done.json["tools"]}) == 4


def test_only_some_tools_with_a_prefix(cli, server):
    done = cli("list", server.url, "--include", "!s*, !fail", "--prefix", "t_", "--json")
    assert [tool["tool_name"] for tool in done.json["tools"]] == ["t_echo", "t_add", "t_picture", "t_nasty"]


def test_one_server_down_keeps_the_others(cli, server):
    done = cli("list", server.url, "http://127.0.0.1:9/mcp", "--json")
    assert done.code == 1
    assert len(done.json["tools"]) == len(TOOLS)
    assert [about["status"] == "ok" for about in done.json["servers"]] == [True, False]
    assert "127.0.0.1:9" in done.err


@pytest.mark.parametrize("ending", ["csv", "parquet", "json", "jsonl"])
def test_the_tools_in_a_file(cli, server, tmp_path, ending):
    done = cli("list", server.url, "--out", f"tools.{ending}")
    assert done.code == 0
    assert f"tools.{ending}" in done.err
    file = tmp_path / f"tools.{ending}"
    match ending:
        case "csv":
            names = [row["Tool name"] for row in csv_rows(file)]
        case "parquet":
            names = pq.read_table(file)["Tool name"].to_pylist()
        case "jsonl":
            names = [row["Tool name"] for row in json_lines(file)]
        case _:
            names = [tool["tool_name"] for tool in json.loads(file.read_text(encoding="utf-8"))["tools"]]
    assert names == TOOLS


def test_unknown_ending_is_refused_before_anything_is_done(cli):
    done = cli("list", "http://127.0.0.1:9/mcp", "--out", "tools.xls")
    assert done.code == 2
    assert ".parquet" in done.err


@pytest.mark.parametrize("command", [["list"], ["inspect"], ["call", "echo"]])
def test_ctrl_c_while_a_server_is_silent(cli, command):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        name, *rest = command
        process = cli.start(name, f"http://127.0.0.1:{silent.getsockname()[1]}/mcp", *rest)
        connection, _ = silent.accept()
        with connection:
            connection.settimeout(30)
            assert connection.recv(10)
            process.send_signal(signal.SIGINT)
            done = cli.finish(process)
    assert (done.code, done.out) == (3, "")
    assert "Canceled" in done.err
