"""Servers that are child processes: messages, both eras, and all the ways in which a process can go wrong."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from knime_mcp.tools import Limits, MCPClient, Progress, StdioServer, Timeouts
from knime_mcp.types.errors import (
    Canceled,
    ConnectError,
    ResultTooLarge,
    SessionLost,
    SettingInvalid,
    TimedOut,
    VersionError,
)
from tests.support.processes import gone

CHILD = Path(__file__).with_name("stdio_child.py")
QUICK = Timeouts(connect=0.5, idle=20, total=30)
CANARY = "canary-51c9e7d0"


def child(*habits, env=None, cwd=None, arguments=()):
    return StdioServer("child", [sys.executable, str(CHILD), *habits, *arguments], env=env or {}, cwd=cwd)


def connected(*habits, env=None, cwd=None, **options):
    return MCPClient(stdio=child(*habits, env=env, cwd=cwd), **options)


def pid_of(client):
    return int(client.call_tool("pid").text)


def in_background(work):
    box = []

    def run():
        try:
            box.append(work())
        except Exception as error:
            box.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, box


def until(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _nothing_is_left():
    def threads():
        return [t.name for t in threading.enumerate() if t.name.startswith("knime-mcp-stdio")]

    def children():
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
            capture_output=True,
            text=True,
            check=False,
        )
        return [line for line in listed.stdout.splitlines() if "ps -o" not in line]

    before = children()
    yield
    until(lambda: not threads(), f"threads end: {threads()}")
    assert children() == before


@pytest.mark.requirement("T31")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_lists_and_calls_in_both_eras(era):
    steps = []
    with connected(era, trace=steps.append) as client:
        assert (client.server.url, client.server.transport) == ("stdio:child", "stdio")
        assert client.server.protocol_version == ("2026-07-28" if era == "modern" else "2025-11-25")
        assert "echo" in [tool.name for tool in client.list_tools()]
        assert client.call_tool("echo", {"text": "grüß\n€ 😀"}).text == "grüß\n€ 😀"
        pid = pid_of(client)
    assert gone(pid)
    assert [step.phase for step in steps][:2] == ["process", "protocol"]
    assert str(pid) in steps[0].detail
    assert steps[-1].phase == "tools"


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
        MCPClient(
            stdio=child("silent on probe", "silent"), timeouts=Timeouts(connect=0.3, idle=1.5)
        ).connect()


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


def test_a_server_that_asks_before_it_is_asked_gets_its_answer():
    with connected("asks first") as client:
        assert "answer 1" in json.loads(client.call_tool("events").text)


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
    assert set(found["env"]) - {"LC_CTYPE"} <= {"HOME", "LOGNAME", "PATH", "SHELL", "USER", "MY_KEY"}


@pytest.mark.parametrize(
    ("name", "command"),
    [("", ["x"]), ("a b", ["x"]), ("a#b", ["x"]), ("ok", []), ("ok", [" "]), ("ok", ["a\0"])],
)
def test_settings_that_cannot_work(name, command):
    with pytest.raises(SettingInvalid):
        StdioServer(name, command)


def test_a_url_or_a_command_not_both():
    with pytest.raises(SettingInvalid, match="either a URL or a command"):
        MCPClient("http://127.0.0.1:9/mcp", stdio=child())


def test_a_name_alone_starts_nothing():
    with pytest.raises(SettingInvalid):
        MCPClient("stdio:child")


def test_lines_that_are_no_messages_are_skipped():
    with connected("greets") as client:
        assert client.call_tool("noise").text == "quiet\u2028again"


def test_skipped_lines_are_shown_when_the_server_dies():
    with pytest.raises(ConnectError, match="2 lines that are no messages, such as: Welcome to the child!"):
        connected("greets", "dies on initialize").connect()


def test_a_list_of_messages_is_read():
    with connected() as client:
        assert client.call_tool("batch").content == ()


def test_server_requests_are_answered_while_a_call_waits():
    with connected() as client:
        answers = json.loads(client.call_tool("ask").text)
    assert answers == {
        "s-ping": {},
        "s-roots/list": -32601,
        "s-sampling/createMessage": -32601,
        "s-elicitation/create": -32601,
    }


def test_a_form_is_declined_when_the_caller_says_so():
    with connected(elicitation="decline") as client:
        answers = json.loads(client.call_tool("ask").text)
    assert answers["s-elicitation/create"] == {"action": "decline"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_progress(era):
    told = []
    with connected(era) as client:
        assert client.call_tool("count", on_progress=told.append).text == "counted"
    assert told == [Progress(float(step), 3.0) for step in (1, 2, 3)]


def test_many_calls_at_once_share_one_process():
    with connected() as client:
        client.connect()
        runs = [
            in_background(lambda n=n: client.call_tool("echo", {"text": str(n) * 5000}).text)
            for n in range(20)
        ]
        for thread, _ in runs:
            thread.join(20)
        assert [box for _, box in runs] == [[str(n) * 5000] for n in range(20)]


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("error", [Canceled, TimedOut])
def test_cancel_and_timeout_are_told_to_the_server(era, error):
    with connected(era) as client:
        client.connect()
        started = time.monotonic()
        options = {
            Canceled: {"is_canceled": lambda: time.monotonic() > started + 0.3},
            TimedOut: {"timeout": 0.3},
        }
        with pytest.raises(error):
            client.call_tool("hang", **options[error])
        hanging, cancelled = json.loads(client.call_tool("events").text)[-2:]
    assert hanging.split() == ["hanging", cancelled.split()[1]]
    assert cancelled.startswith("cancelled ")


def test_a_large_result():
    with connected() as client:
        assert len(client.call_tool("big", {"bytes": 5_000_000}).text) == 5_000_000
        assert client.call_tool("echo", {"text": "z" * 3_000_000}).text == "z" * 3_000_000


@pytest.mark.parametrize("where", [None, "id last", "no id"])
def test_a_line_that_is_too_long_fails_its_call_only(where):
    limits = Limits(result_bytes=100_000)
    with connected(limits=limits) as client:
        pid = pid_of(client)
        arguments = {"bytes": 1_000_000} | ({where: True} if where else {})
        waiting, box = in_background(lambda: client.call_tool("hang", timeout=3))
        until(lambda: "hanging" in client.call_tool("events").text, "the other call waits")
        with pytest.raises(ResultTooLarge, match="100000 bytes") as caught:
            client.call_tool("big", arguments)
        assert caught.value.limit == 100_000
        assert client.call_tool("echo", {"text": "still"}).text == "still"
        assert pid_of(client) == pid
        waiting.join(10)
    # Without an id nobody knows whose reply was lost.
    assert isinstance(box[0], ResultTooLarge if where == "no id" else TimedOut)


def test_a_flood_on_standard_error_stops_nothing():
    with connected() as client:
        assert client.call_tool("flood", {"lines": 50_000}).text == "flooded"


def test_a_server_that_stops_reading_cannot_hold_a_call_or_the_end():
    with connected() as client:
        pid = pid_of(client)
        client.call_tool("deaf")
        with pytest.raises(TimedOut):
            client.call_tool("echo", {"text": "q" * 1_000_000}, timeout=0.5)
        with pytest.raises(Canceled):
            client.call_tool("echo", {"text": "q"}, is_canceled=lambda: True)
    assert gone(pid)


@pytest.mark.parametrize(("arguments", "words"), [({"code": 9}, "exit code 9"), ({}, "signal SIGKILL")])
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_server_that_dies_fails_all_calls_and_is_started_for_the_next(era, arguments, words):
    with connected(era) as client:
        first = pid_of(client)
        waiting = [in_background(lambda: client.call_tool("hang")) for _ in range(3)]
        until(lambda: client.call_tool("events").text.count("hanging") == 3, "all calls wait")
        with pytest.raises(ConnectError, match=words) as caught:
            client.call_tool("die", arguments)
        for thread, box in waiting:
            thread.join(5)
            assert isinstance(box[0], ConnectError), box
            assert words in str(box[0])
        assert "out of luck" in str(caught.value)
        assert (caught.value.server, caught.value.tool) == ("stdio:child", "die")
        second = pid_of(client)
        assert second != first
        assert gone(first)
    assert gone(second)


def test_a_listing_is_repeated_in_a_new_process(tmp_path):
    with connected("dies once", cwd=str(tmp_path)) as client:
        assert client.list_tools()


def test_a_caller_who_needs_the_state_of_the_process_is_told():
    with connected(reopen_sessions=False) as client:
        with pytest.raises(ConnectError):
            client.call_tool("die", {"code": 1})
        with pytest.raises(SessionLost):
            client.call_tool("echo", {"text": "x"})
        assert client.call_tool("echo", {"text": "x"}).text == "x"


def test_a_server_that_closes_its_output_is_ended():
    with connected() as client:
        pid = pid_of(client)
        with pytest.raises(ConnectError, match="closed its standard output"):
            client.call_tool("close_stdout")
        assert client.call_tool("echo", {"text": "new"}).text == "new"
        assert gone(pid)


def test_a_server_that_ignores_everything_is_killed():
    with connected("stubborn", "grandchild at start") as client:
        pid = pid_of(client)
    assert gone(pid)


def test_a_server_may_finish_talking_when_its_input_is_closed(tmp_path):
    with connected("talks at the end", cwd=str(tmp_path)) as client:
        client.connect()
    assert (tmp_path / "said goodbye").exists()


def test_grandchildren_do_not_outlive_the_server():
    with connected("grandchild at start") as client:
        pid = pid_of(client)
        client.call_tool("grandchild")
        with pytest.raises(ConnectError, match="exit code 9"):  # although its children hold its output open
            client.call_tool("die", {"code": 9})
        assert gone(pid)


def test_a_grandchild_that_left_the_group_holds_nobody():
    with connected() as client:
        escaped = int(client.call_tool("grandchild", {"escapes": True}).text)
        try:
            with pytest.raises(ConnectError, match="exit code 9"):
                client.call_tool("die", {"code": 9})
        finally:
            os.killpg(escaped, 9)


def test_closing_twice_and_connecting_again():
    client = connected()
    first = pid_of(client)
    client.close()
    client.close()
    assert gone(first)
    second = pid_of(client)
    assert second != first
    client.close()
    assert gone(second)


def test_closing_ends_calls_under_way():
    client = connected()
    client.connect()
    thread, box = in_background(lambda: client.call_tool("hang"))
    until(lambda: "hanging" in client.call_tool("events").text, "the call waits")
    client.close()
    thread.join(5)
    assert "client was closed" in str(box[0])


def run_python(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


FORGETFUL = """
import sys
from knime_mcp.tools import MCPClient, StdioServer
client = MCPClient(stdio=StdioServer("child", [sys.executable, *sys.argv[1:]]))
print(client.call_tool("pid").text, flush=True)
"""


def test_the_end_of_the_interpreter_ends_the_process():
    with run_python(FORGETFUL, CHILD, "stubborn", "grandchild at start") as parent:
        pid = int(parent.stdout.readline())
        assert parent.wait(20) == 0
    assert gone(pid)


def test_not_even_a_killed_parent_leaves_a_process():
    with run_python(
        FORGETFUL + "import time; time.sleep(600)", CHILD, "stubborn", "grandchild at start"
    ) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait(5)
    assert gone(pid, seconds=15)
