"""How the process of a server starts: settings, variables, and probes that it does not survive."""

import json
import sys
from pathlib import Path

import pytest

from knime_mcp.client.transports.stdio_process import MARK
from knime_mcp.tools import MCPClient, StdioServer, Timeouts
from knime_mcp.types.errors import (
    ConnectError,
    SettingInvalid,
    TimedOut,
    VersionError,
)
from tests.client.child_servers import QUICK, child, connected, pid_of

pytestmark = pytest.mark.usefixtures("nothing_is_left")
CANARY = "canary-51c9e7d0"


def test_a_server_that_dies_on_the_probe_is_started_again_and_initialized():
    steps = []
    with connected("dies on probe", trace=steps.append) as client:
        assert client.server.protocol_version == "2025-11-25"
        assert client.call_tool("echo", {"text": "alive"}).text == "alive"
    assert [(step.phase, step.ok) for step in steps] == [
        ("process", True),
        ("protocol", False),
        ("process", True),
        ("protocol", True),
    ]
    assert "exit code 3" in steps[1].detail
    assert "what is server/discover?" in steps[1].detail


def test_a_server_that_refuses_the_probe_and_dies_is_started_again():
    with connected("dies after the probe") as client:
        assert client.call_tool("echo", {"text": "alive"}).text == "alive"


@pytest.mark.parametrize("program", ["true", "false"])
def test_a_program_that_ends_at_once(program):
    with pytest.raises(ConnectError, match=r"ended with exit code \d without a word"):
        MCPClient(stdio=StdioServer("brief", [program]), timeouts=QUICK).connect()


def test_a_server_that_does_not_answer_the_probe_is_initialized_in_the_same_process():
    steps = []
    with connected("silent on probe", timeouts=QUICK, trace=steps.append) as client:
        assert client.server.protocol_version == "2025-11-25"
    assert [step.phase for step in steps].count("process") == 1


def test_a_server_whom_the_probe_breaks_unseen_is_started_again():
    with connected("breaks on probe", timeouts=Timeouts(connect=0.5)) as client:
        assert client.server.protocol_version == "2025-11-25"
        first = pid_of(client)
        with pytest.raises(ConnectError):
            client.call_tool("die", {})
        assert pid_of(client) != first  # remembered: it is not probed, and so not broken, again


def test_a_server_that_never_answers_is_quoted():
    with pytest.raises(TimedOut, match="waiting for the database"):
        MCPClient(stdio=child("silent on probe", "silent"), timeouts=Timeouts(connect=0.3, idle=3)).connect()


def test_a_variable_that_the_server_misses_is_named(monkeypatch):
    monkeypatch.setenv("SEARCH_API_KEY", "hidden-value")
    command = [sys.executable, "-c", "raise SystemExit('SEARCH_API_KEY and SEARCH_TEAM_ID are required')"]
    with pytest.raises(ConnectError) as caught:
        MCPClient(stdio=StdioServer("child", command)).connect()
    assert caught.value.fix == (
        "A server gets few of our environment variables. "
        "Set SEARCH_TEAM_ID and pass SEARCH_API_KEY and SEARCH_TEAM_ID on (--env NAME)"
    )


def test_a_late_answer_to_the_probe_does_no_harm():
    with connected("late probe", timeouts=QUICK) as client:
        assert client.server.protocol_version == "2026-07-28"
        assert client.call_tool("echo", {"text": "x"}).text == "x"


def test_a_server_that_starts_slowly_gets_its_time():
    with connected("slow", timeouts=QUICK) as client:
        assert client.call_tool("echo", {"text": "x"}).text == "x"


def test_a_modern_server_without_a_common_revision_is_not_initialized():
    with pytest.raises(VersionError, match="2099-01-01") as caught:
        connected("draft").connect()
    assert caught.value.server == "stdio:child"


def test_a_slow_modern_server_gets_its_time_where_nothing_else_can_be_asked():
    server = child("modern", "slow")
    with MCPClient(stdio=server, protocol_version="2026-07-28", timeouts=Timeouts(connect=0.2)) as client:
        assert client.server.protocol_version == "2026-07-28"


def test_a_pinned_revision_skips_the_probe():
    steps = []
    with connected("modern", protocol_version="2025-11-25", trace=steps.append) as client:
        assert client.server.protocol_version == "2025-11-25"
    assert not [step for step in steps if "discover" in step.what]


def test_a_program_that_does_not_exist():
    client = MCPClient(stdio=StdioServer("ghost", ["no-such-program-4711"]))
    with pytest.raises(ConnectError, match="no program 'no-such-program-4711'") as caught:
        client.connect()
    assert (caught.value.phase, caught.value.server) == ("process", "stdio:ghost")
    assert "PATH" in caught.value.fix


def test_a_file_that_is_not_executable(tmp_path):
    script = tmp_path / "server.py"
    script.write_text("print()")
    with pytest.raises(ConnectError, match="may not be executed"):
        MCPClient(stdio=StdioServer("file", [str(script)])).connect()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("#!/nowhere/bin/python\n", "first line of the script .*program that does not exist"),
        ("#!/bin/sh\r\nexit 1\r\n", "Windows line ends"),
        ("print()\n", "script without its interpreter"),
    ],
)
def test_a_script_whose_interpreter_cannot_be_found(tmp_path, content, words):
    script = tmp_path / "server"
    script.write_text(content, newline="")
    script.chmod(0o755)
    with pytest.raises(ConnectError, match=words):
        MCPClient(stdio=StdioServer("script", [str(script)])).connect()


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(ConnectError, match=r"no folder .*nowhere"):
        connected(cwd=str(tmp_path / "nowhere")).connect()


def test_a_server_that_dies_on_start_is_quoted_without_secrets():
    server = child("dies on initialize", env={"API_KEY": CANARY}, arguments=["--token", CANARY + "2"])
    steps = []
    with pytest.raises(ConnectError) as caught:
        MCPClient(stdio=server, trace=steps.append).connect()
    text = str(caught.value)
    assert "exit code 7" in text
    assert "no license for [secret]" in text
    assert "\x1b" not in text
    assert CANARY not in text + repr(steps) + repr(server) + repr(caught.value)


def test_it_starts_with_few_variables_and_those_that_it_is_given(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "/knime")
    monkeypatch.setenv("OTHER_SERVERS_KEY", CANARY)
    monkeypatch.setenv("TERM", "() { :; }; echo no")
    with connected(env={"MY_KEY": "mine"}, cwd=str(tmp_path)) as client:
        found = json.loads(client.call_tool("env").text)
    assert found["cwd"] == str(tmp_path)
    assert found["env"]["MY_KEY"] == "mine"
    # LC_CTYPE is set by Python itself (PEP 538).
    assert set(found["env"]) - {"LC_CTYPE"} <= {"HOME", "LOGNAME", "PATH", "SHELL", "USER", "MY_KEY", MARK}


@pytest.mark.parametrize(
    ("name", "command"),
    [("", ["x"]), ("a b", ["x"]), ("a#b", ["x"]), ("ok", []), ("ok", [" "]), ("ok", ["a\0"])],
)
def test_settings_that_cannot_work(name, command):
    with pytest.raises(SettingInvalid):
        StdioServer(name, command)


@pytest.mark.parametrize("env", [{"A": 1}, {"A": None}, {"A=B": "1"}, {"": "1"}, {"A": "\0"}])
def test_variables_that_no_process_can_have(env):
    with pytest.raises(SettingInvalid):
        StdioServer("ok", ["x"], env=env)


def test_a_command_in_one_text_is_refused_and_paths_are_taken():
    with pytest.raises(SettingInvalid, match="Give a list"):
        StdioServer("ok", "npx -y server")
    assert StdioServer("ok", [Path("/bin/cat"), "-u"]).command == ("/bin/cat", "-u")


def test_a_url_or_a_command_not_both():
    with pytest.raises(SettingInvalid, match="either a URL or a command"):
        MCPClient("http://127.0.0.1:9/mcp", stdio=child())


def test_a_name_alone_starts_nothing():
    with pytest.raises(SettingInvalid):
        MCPClient("stdio:child")


def say(code, **env):
    """The error about a server that runs some code and ends."""
    with pytest.raises(ConnectError) as caught:
        MCPClient(
            stdio=StdioServer("talker", [sys.executable, "-c", f"import os, sys\n{code}"], env=env)
        ).connect()
    return str(caught.value)


def test_no_part_of_a_long_secret_is_in_what_a_server_is_quoted_with():
    key = "key-" + "".join(f"{number:05d}" for number in range(2000))
    assert "[secret]" in (said := say("print('my key is', os.environ['KEY'])", KEY=key))
    assert key[:8] not in said
    assert "[secret]" in (said := say("sys.stderr.write(os.environ['KEY'])", KEY=key))
    assert key[-8:] not in said


def test_a_secret_that_is_the_beginning_of_another_one_does_not_show_its_end():
    said = say(
        "print(os.environ['B_TOKEN']); sys.exit(os.environ['B_TOKEN'])",
        A_TOKEN="token-1234",
        B_TOKEN="token-1234-5678",
    )
    assert said.count("[secret]") == 2
    assert "5678" not in said
