import json
import re
import signal

import pytest

from tests.support.scripted_server import (
    ScriptedServer,
    event,
    legacy,
    modern,
    notification,
    reply_event,
    rpc,
    stream,
    text,
    tool,
)

from .conftest import SECRET


def test_prints_the_text(cli, server):
    done = cli("call", server.url, "echo", "text=hello there", "times=2")
    assert (done.code, done.out, done.err) == (0, "hello there hello there\n", "")


def test_values_have_the_types_of_the_schema(cli, server):
    done = cli("call", server.url, "show", "code=007", 'tags=["a", "b"]', "strict=true", "--json")
    record = done.json
    assert record["arguments"] == {"code": "007", "tags": ["a", "b"], "strict": True}
    assert record["structured_result"]["code"] == "007"
    assert (record["status"], record["tool_name"], record["server"]) == ("ok", "show", server.url)
    assert record["protocol"] >= "2025-11-25"


@pytest.mark.parametrize("how", ["call", "batch"])
def test_the_record_has_the_digest_of_the_definition_that_was_used(cli, tmp_path, how):
    (tmp_path / "p.csv").write_text("text\na\nb\n", "utf-8")
    arguments = ["text=a"] if how == "call" else ["p.csv"]
    with ScriptedServer(modern()) as server:
        (listed,) = cli("list", server.url, "--json").json["tools"]
        server.requests.clear()
        assert cli(how, server.url, "echo", *arguments, "--audit", "run.jsonl").code == 0
        assert server.methods.count("tools/list") == 1
    for record in cli("audit", "show", "run.jsonl", "--json").json:
        assert record["digest"] == listed["digest"]
        assert f"#digest={record['digest']}" in json.dumps(record["tool"])


def test_a_schema_that_cannot_be_used_is_said_and_the_call_made(cli):
    script = modern(
        tools__list=rpc({"tools": [tool(inputSchema={"properties": {"a": {"type": "str"}}})]}),
        tools__call=rpc(text("done")),
    )
    with ScriptedServer(script) as server:
        done = cli("call", server.url, "echo", "a=x")
    assert (done.code, done.out) == (0, "done\n")
    assert "were not checked" in done.err


def test_of_a_very_long_error_its_beginning_is_shown(cli):
    failed = rpc({**text("e" * 300_000, resultType="complete"), "isError": True})
    with ScriptedServer(modern(tools__call=failed)) as scripted:
        done = cli("call", scripted.url, "echo", "--json")
    assert len(json.loads(done.out)["error"]) == 300_000
    assert done.err.strip().endswith("e… (300,000 characters in all)")
    assert len(done.err) < 101_000


def test_json_values_and_json_arguments(cli, server, tmp_path):
    (tmp_path / "arguments.json").write_text('{"code": "x", "strict": true}', encoding="utf-8")
    done = cli("call", server.url, "show", 'tags:=["a"]', "--json-arguments", "@arguments.json", "--json")
    assert done.json["arguments"] == {"code": "x", "tags": ["a"], "strict": True}
    done = cli("call", server.url, "add", "--json-arguments", '{"a": 1, "b": 2}')
    assert done.out == "3\n"


def test_a_tool_that_fails_says_so(cli, server):
    done = cli("call", server.url, "fail", "why=because")
    assert (done.code, done.out) == (1, "")
    assert "It went wrong: because" in done.err
    done = cli("call", server.url, "fail", "why=because", "--json")
    assert (done.code, done.json["status"]) == (1, "tool error")


def test_saves_pictures(cli, server, tmp_path):
    done = cli("call", server.url, "picture", "--save-dir", "pictures")
    assert done.code == 0
    assert done.out.startswith("one pixel\n[image image/png, ")
    (saved,) = (tmp_path / "pictures").iterdir()
    assert saved.suffix == ".png"
    assert saved.read_bytes().startswith(b"\x89PNG")
    assert saved.name in done.err


def test_no_picture_takes_the_place_of_another(cli, server, tmp_path):
    """An agent's calls, and commands one after the other, save into one folder."""
    earlier = tmp_path / "pictures" / "result-1.png"
    earlier.parent.mkdir()
    earlier.write_bytes(b"an earlier picture")
    saved = [cli("call", server.url, "picture", "--save-dir", "pictures", "--json").json for _ in range(2)]
    assert earlier.read_bytes() == b"an earlier picture"
    (image,) = {record["image"] for record in saved}  # equal ones are one file
    assert re.fullmatch(r"pictures/result-1-[0-9a-f]{32}\.png", image)
    assert (tmp_path / image).read_bytes().startswith(b"\x89PNG")


def test_a_deep_result_is_not_printed_as_spaces(cli):
    deep = json.loads("[" * 150 + "]" * 150)
    with ScriptedServer(
        modern(tools__call=rpc({"content": [], "structuredContent": {"v": [deep] * 4000}}))
    ) as server:
        out = cli("call", server.url, "echo", "--json").out
    assert len(json.loads(out)["structured_result"]["v"]) == 4000
    assert len(out) < 3 * 4000 * 300


def test_progress_goes_to_standard_error(cli, server):
    done = cli("call", server.url, "slow", "seconds=0.5")
    assert (done.code, done.out) == (0, "done \n")
    assert "step 5 of 10" in done.err


def test_a_flood_of_progress_is_told_in_some_lines(cli):
    """The most is told of the first hundred reports, and then of one in a second."""

    def report(request):
        token = request.json["params"]["_meta"]["progressToken"]
        told = {"progressToken": token, "progress": 1, "message": "x" * 5000}
        return event(notification("notifications/progress", **told))

    flood = stream(*[report] * 500, reply_event(text("done")))
    with ScriptedServer(legacy(tools__list=rpc({"tools": [tool()]}), tools__call=flood)) as server:
        done = cli("call", server.url, "echo")
    *told, last = done.err.splitlines()
    left_out = int(re.fullmatch(r"(\d+) further reports? of progress left out", last)[1])
    assert (done.code, len(told) + left_out) == (0, 500)
    assert all(len(line) == 1000 for line in told)


def test_unknown_tool_with_suggestion(cli, server):
    done = cli("call", server.url, "ecko", "text=a")
    assert done.code == 1
    assert "no tool 'ecko'" in done.err
    assert "Did you mean echo?" in done.err
    assert "knime-mcp list" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["text=a", "times=many"], "times"),
        ([], "text"),
    ],
)
def test_invalid_arguments_are_not_sent(cli, server, arguments, words):
    before = len(server.said())
    done = cli("call", server.url, "echo", *arguments)
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert len(server.said()) == before


def test_an_argument_that_the_tool_does_not_declare_is_remarked_on(cli, server):
    done = cli("call", server.url, "echo", "text=a", "tmies=2")
    assert (done.code, done.out) == (0, "a\n")
    assert "no argument 'tmies'. Did you mean 'times'?" in done.err


def test_an_argument_that_is_given_twice(cli, server):
    done = cli("call", server.url, "echo", "text=a", "text=b")
    assert done.code == 2
    assert "'text' is given 2 times" in done.err
    done = cli("call", server.url, "echo", "--json-arguments", '{"text": "a"}', "text=b")
    assert done.out == "b\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["text"], "key=value"),
        (["times:=many"], "is not JSON"),
        (["--json-arguments", "[1]"], "arguments are an object"),
        (["--json-arguments", "{"], "is not JSON"),
        (["--json-arguments", "@nowhere.json"], "nowhere.json"),
    ],
)
def test_malformed_arguments(cli, server, arguments, words):
    done = cli("call", server.url, "echo", *arguments)
    assert done.code in (1, 2)
    assert words in done.err


@pytest.mark.parametrize("path", ["/mcp", "/stateful/mcp", "/old/sse"])
def test_ctrl_c_cancels_in_the_protocols_way(cli, server, until, path):
    label = f"stop-{path}"
    process = cli.start("call", server.base + path, "slow", "seconds=60", f"label={label}")
    until(lambda: f"started {label}" in server.said(), "the call reached the server")
    process.send_signal(signal.SIGINT)
    done = cli.finish(process)
    assert done.code == 3
    said = server.said()
    until(lambda: "canceled" in server.said()[said.index(f"started {label}") :], "the server heard of it")


@pytest.mark.parametrize(
    ("options", "env"),
    [
        (["--bearer-env", "TOKEN_OF_MINE"], {"TOKEN_OF_MINE": SECRET}),
        (["--credential", "prod"], {"KNIME_MCP_PROD_PASSWORD": SECRET}),
        (
            ["--credential", "prod", "--send-credentials-as", "basic"],
            {"KNIME_MCP_PROD_USERNAME": "anna", "KNIME_MCP_PROD_PASSWORD": SECRET},
        ),
        (
            ["--credential", "prod", "--send-credentials-as", "header", "--header-name", "X-API-Key"],
            {"KNIME_MCP_PROD_PASSWORD": SECRET},
        ),
    ],
)
def test_credentials_reach_the_server_and_nobody_else(cli, server, options, env):
    """CommandLine.finish fails if the secret is printed; the tool even echoes it."""
    done = cli("call", f"{server.base}/guarded/mcp", "echo", f"text={SECRET}", "--json", *options, env=env)
    assert (done.code, done.json["status"]) == (0, "ok")


def test_refused_without_credentials(cli, server):
    done = cli("call", f"{server.base}/guarded/mcp", "echo", "text=a")
    assert done.code == 1
    assert "401: the server wants a Bearer token; you send no credentials" in done.err


def test_control_characters_stay_in_a_pipe_and_json_is_valid(cli, server):
    assert "\x1b[31m" in cli("call", server.url, "nasty").out
    assert "\x1b[31m" in json.loads(cli("call", server.url, "nasty", "--json").out)["result"]


def test_a_header_of_ones_own_that_is_refused_is_named(cli, server):
    header = ("-H", "Authorization: Bearer {credential.password}", "--credential", "prod")
    url = f"{server.base}/guarded/mcp"
    done = cli("call", url, "echo", "text=a", *header, env={"KNIME_MCP_PROD_PASSWORD": "wrong-one"})
    assert done.code == 1
    assert "does not accept what you send: your own header Authorization (Bearer)" in done.err
    assert "Check that header" in done.err
    assert "wrong-one" not in done.err
    done = cli("call", url, "echo", "text=a", *header, "--json", env={"KNIME_MCP_PROD_PASSWORD": SECRET})
    assert done.json["status"] == "ok"
