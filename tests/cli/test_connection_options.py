"""Servers that the command line starts itself."""

import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from knime_mcp.cli.command_errors import _SENT_TWICE_SECONDS, UsageError
from knime_mcp.cli.connection_options import ConnectionOptions, parse_servers
from knime_mcp.cli.sessions import CommandSessions
from knime_mcp.types.errors import SettingInvalid
from knime_mcp.types.routing import ServerRoute
from tests.support.processes import gone

CHILD = Path(__file__).parents[1] / "client" / "stdio_child.py"
CANARY = "canary-90aa1c"


def command(*habits):
    return shlex.join([sys.executable, str(CHILD), *habits])


def test_a_command_is_listed_by_its_name(cli):
    done = cli("list", "--stdio", f"mine={command('modern')}", "--json")
    assert (done.code, done.err) == (0, "")
    assert "echo" in [tool["tool_name"] for tool in done.json["tools"]]
    assert {tool["server"] for tool in done.json["tools"]} == {"stdio:mine"}


def test_list_with_a_url_and_two_commands(cli, server):
    done = cli("list", server.url, "--stdio", f"a={command()}", "--stdio", f"b={command()}", "--json")
    assert done.code == 0
    assert [about["server"] for about in done.json["servers"]] == [server.url, "stdio:a", "stdio:b"]


def test_the_name_is_that_of_the_program(cli):
    done = cli("list", "--stdio", command())
    assert done.code == 0
    assert f"stdio:{Path(sys.executable).name}" in done.out


@pytest.mark.parametrize("position", ["before", "after"])
def test_the_command_may_stand_before_or_behind_the_words(cli, position):
    stdio, words = ["--stdio", command()], ["echo", "text=grüß dich"]
    done = cli("call", *(stdio + words if position == "before" else words + stdio))
    assert (done.code, done.out.strip()) == (0, "grüß dich")


def test_the_record_of_a_call_names_the_server(cli):
    record = cli("call", "--stdio", f"mine={command()}", "echo", "text=x", "--json").json
    assert record["server"] == "stdio:mine"


def test_batch_uses_one_process_for_all_rows(cli, tmp_path):
    (tmp_path / "rows.csv").write_text("text\n" + "".join(f"t{n}\n" for n in range(30)))
    done = cli("batch", "--stdio", command(), "echo", "rows.csv", "--json")
    assert done.code == 0, done.err
    assert [row["result"] for row in done.json] == [f"t{n}" for n in range(30)]
    done = cli("batch", "--stdio", command(), "pid", "rows.csv", "--json")
    assert len({row["result"] for row in done.json}) == 1


def test_inspect_shows_start_probe_and_tools(cli):
    found = cli("inspect", "--stdio", f"mine={command()}", "--json").json
    assert (found["ok"], found["url"], found["server"]["transport"]) == (True, "stdio:mine", "stdio")
    assert [(step["phase"], step["ok"]) for step in found["steps"]] == [
        ("process", True),
        ("protocol", False),
        ("protocol", True),
        ("tools", True),
    ]
    assert "server/discover" in found["steps"][1]["what"]
    done = cli("inspect", "--stdio", command())
    assert "over stdio" in done.out
    assert "knime-mcp list --stdio" in done.out


def test_a_server_that_dies_says_why(cli):
    done = cli(
        "inspect", "--stdio", command("dies on initialize"), "--env", "API_KEY", env={"API_KEY": CANARY}
    )
    assert done.code == 1
    assert "exit code 7" in done.out
    assert "no license for" in done.out
    assert CANARY not in done.out + done.err


def test_a_program_that_does_not_exist(cli):
    done = cli("inspect", "--stdio", "no-such-program-4711 x", "--json")
    assert (done.code, done.json["error"]["phase"]) == (1, "process")
    assert "no-such-program-4711" in done.json["error"]["what"]


def test_a_command_in_the_place_of_a_url_is_pointed_to_stdio(cli):
    done = cli("list", f"env API_KEY={CANARY} npx some-server")
    assert done.code == 2
    assert "--stdio 'COMMAND'" in done.err
    assert CANARY not in done.err


def test_variables_are_passed_on_by_name_and_kept_out_of_records(cli):
    env = {"API_KEY": CANARY, "OTHER": "not passed"}
    done = cli("call", "--stdio", command(), "--env", "API_KEY", "env", "--json", env=env)
    assert done.code == 0
    assert '"API_KEY"' in done.json["result"]
    assert "OTHER" not in done.json["result"]
    assert CANARY not in done.out + done.err


@pytest.mark.parametrize("how", ["list", "call", "inspect"])
def test_ctrl_c_ends_the_process_group(cli, tmp_path, until, how):
    pids = tmp_path / "pid"
    script = f"echo $$ > {pids}; sleep 600 & exec sleep 600"
    words = ["echo"] if how == "call" else []
    process = cli.start(how, "--stdio", shlex.join(["sh", "-c", script]), *words)
    until(lambda: pids.exists() and pids.read_text().strip(), "the server starts")
    process.send_signal(signal.SIGINT)
    done = cli.finish(process)
    assert (done.code, done.out) == (3, "")
    assert gone(int(pids.read_text()))


def test_ctrl_c_twice_does_not_wait_for_a_stubborn_server(cli, tmp_path, until):
    pids = tmp_path / "pid"
    script = f"trap '' TERM; echo $$ > {pids}; while :; do sleep 0.2; done"
    process = cli.start("inspect", "--stdio", shlex.join(["sh", "-c", script]))
    until(lambda: pids.exists() and pids.read_text().strip(), "the server starts")
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("Stopping.")
    time.sleep(_SENT_TWICE_SECONDS)  # a signal before that counts as the first one, sent twice
    process.send_signal(signal.SIGINT)
    assert cli.finish(process).code == 3
    assert gone(int(pids.read_text()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list"], "Which server"),
        (["call"], "Which server"),
        (["call", "--stdio", "x"], "Which tool"),
        (["batch", "--stdio", "x", "tool"], "the table"),
        (["inspect"], "Which server"),
        (["call", "http://127.0.0.1:9/mcp", "echo", "--stdio", "x"], "cannot be used together"),
        (["inspect", "--stdio", "a", "--stdio", "b"], "one server"),
        (["list", "--stdio", "python a", "--stdio", "python b"], "called 'python'"),
        (["list", "--stdio", "python 'a"], "quotation mark"),
        (["list", "--stdio", "  "], "empty"),
        (["list", "--stdio", "x", "--credential", "prod"], "--env VARIABLE"),
        (["list", "--stdio", "x", "--env", "NOT_SET_ANYWHERE"], "is not set"),
        (["list", "--stdio", "x", "--env", f"KEY={CANARY}"], "--env NAME"),
        (["list", "http://127.0.0.1:9/mcp", "--env", "HOME"], "--env is for"),
        (["list", "stdio:mine"], "--stdio 'mine=COMMAND'"),
    ],
)
def test_what_cannot_work_is_a_matter_of_usage(cli, words, said):
    done = cli(*words)
    assert done.code in {1, 2}
    assert said in " ".join(done.err.split())
    assert CANARY not in done.out + done.err


def test_commands_are_split_as_a_shell_would_but_nothing_is_expanded():
    (server,) = parse_servers(["""fs=npx -y "my server" '$HOME' # *"""], [])
    assert (server.name, server.command) == ("fs", ("npx", "-y", "my server", "$HOME", "#", "*"))
    (server,) = parse_servers(["/opt/my tools/run --db=a=b"], [])
    assert (server.name, server.command) == ("my", ("/opt/my", "tools/run", "--db=a=b"))


def test_a_route_starts_only_what_the_command_line_names():
    options = ConnectionOptions(stdio=["mine=true"])
    with CommandSessions(options, lambda: False) as sessions:
        assert sessions.client(ServerRoute("stdio:mine"))
        with pytest.raises(SettingInvalid, match="Nothing says which command stdio:other is"):
            sessions.client(ServerRoute("stdio:other"))
    with pytest.raises(UsageError):
        ConnectionOptions().routes([])
