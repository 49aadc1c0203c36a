"""Servers that repeat a token without the scheme that it was sent with."""

import json
import traceback

import pytest

from knime_mcp.tools import BasicAuth, BearerAuth, MCPClient
from knime_mcp.types.errors import MCPError
from tests.faults.rows import PATIENT
from tests.support import commands
from tests.support.canaries import canary, found, spellings
from tests.support.scripted_server import (
    ScriptedServer,
    discover,
    http,
    legacy,
    modern,
    rpc,
    rpc_error,
    text,
    tool,
)

TOKEN = "canary-41d0c5e7"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
REPLIES = {
    "error": rpc_error(-32603, f"bad token {TOKEN}, sent as Bearer {TOKEN}"),
    "refusal": http(403, f"token {TOKEN}", content_type="text/plain"),
    "page": http(503, f"<html><title>No {TOKEN}</title>", content_type="text/html"),
}


@pytest.mark.parametrize("era", [modern, legacy])
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_token_in_a_custom_header_is_not_in_the_error(era, reply):
    with (
        ScriptedServer(era(tools__call=reply)) as server,
        MCPClient(server.url, headers=HEADERS, timeouts=PATIENT) as client,
        pytest.raises(MCPError) as caught,
    ):
        client.call_tool("echo")
    assert TOKEN not in f"{caught.value!r} {caught.value}"
    assert "[secret]" in str(caught.value)


@pytest.mark.parametrize("era", [modern, legacy])
@pytest.mark.parametrize("reply", [*REPLIES.values(), http(401, f'{{"error": "token {TOKEN}"}}')])
def test_a_token_is_not_in_the_steps_of_connecting(era, reply):
    steps = []
    with (
        ScriptedServer(era(server__discover=reply, initialize=reply)) as server,
        pytest.raises(MCPError),
    ):
        MCPClient(server.url, auth=BearerAuth(TOKEN), timeouts=PATIENT, trace=steps.append).connect()
    assert "[secret]" in str(steps)
    assert TOKEN not in str(steps)


@pytest.mark.parametrize("reply", [*REPLIES.values(), rpc(text(f"you are {TOKEN}"))], ids=[*REPLIES, "text"])
def test_a_token_in_a_graph_document_is_not_in_the_journal(reply, tmp_path):
    listed = rpc({"tools": [tool()], "resultType": "complete"})
    with ScriptedServer(modern(tools__call=reply, tools__list=listed)) as server:
        (tmp_path / "g.yaml").write_text(
            'version: "1.0"\nserver: {name: s, version: "1"}\nmcpServers:\n'
            f"  far: {{type: streamableHttp, url: '{server.url}', headers: {HEADERS}}}\n"
            "tools:\n  - name: t\n    description: d\n    inputSchema: {type: object}\n"
            "    outputSchema: {type: object}\n    nodes:\n"
            "      - {id: entry, type: entry, next: x}\n"
            "      - {id: x, type: mcp, server: far, tool: echo, args: {}, next: exit}\n"
            "      - {id: exit, type: exit}\n"
        )
        command = commands.words_of("mcpgraph", "run", "g.yaml", "t", "--audit", "a.jsonl")
        done = commands.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    journal = (tmp_path / "a.jsonl").read_text("utf-8")
    assert '"tool_name":"echo"' in journal, done.stderr
    assert TOKEN not in journal
    if reply in list(REPLIES.values()):
        assert TOKEN not in done.stdout + done.stderr


LONG = "eyJhbGciOi" + "".join(f"{number:04x}" for number in range(400))
CUT_OFF = {
    "error": rpc_error(-32603, f"{'who are you? ' * 70} {LONG} is nobody"),
    "refusal": http(403, f"token {LONG} is unknown", content_type="text/plain"),
    "json": http(500, f'{{"detail": "token {LONG}"}}'),
    "page": http(503, f"<html><title>No {LONG}</title>", content_type="text/html"),
    "challenge": http(401, headers={"WWW-Authenticate": f'Bearer error_description="{"x" * 150} {LONG}"'}),
}


@pytest.mark.parametrize("reply", CUT_OFF.values(), ids=CUT_OFF)
def test_no_part_of_a_long_token_is_left_where_a_text_was_cut_off(reply):
    with (
        ScriptedServer(modern(tools__call=reply)) as server,
        MCPClient(server.url, auth=BearerAuth(LONG), timeouts=PATIENT) as client,
        pytest.raises(MCPError) as caught,
    ):
        client.call_tool("echo")
    assert LONG[:8] not in f"{caught.value!r} {caught.value}"
    assert "[secret]" in str(caught.value)


@pytest.mark.parametrize("password", ['two  blanks and "quotes"', "back\\slash-and-ünïcode"])
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_password_that_is_written_another_way_is_recognized(password, content_type):
    said = json.dumps({"said": f"wrong password {password}!"})
    reply = http(500, said if content_type == "application/json" else password, content_type=content_type)
    with (
        ScriptedServer(modern(tools__call=reply)) as server,
        MCPClient(server.url, auth=BasicAuth("me", password), timeouts=PATIENT) as client,
        pytest.raises(MCPError) as caught,
    ):
        client.call_tool("echo")
    assert "[secret]" in str(caught.value)
    assert "blanks" not in str(caught.value)
    assert "slash" not in str(caught.value)


def described(about):
    """A definition that repeats something wherever people and models read."""
    properties = {"token": {"type": "string", "description": about, "default": about, "examples": [about]}}
    schema = {"type": "object", "properties": properties, "required": ["token"]}
    hints = {"title": about, "readOnlyHint": True}
    return tool(description=about, title=about, inputSchema=schema, annotations=hints)


@pytest.mark.parametrize(
    "ways",
    [
        {"auth": BearerAuth(TOKEN)},
        {"auth": BasicAuth("me", TOKEN)},
        {"headers": {"X-Api-Key": TOKEN}},
        {"query": f"?api_key={TOKEN}"},
    ],
    ids=["bearer", "basic", "header", "query"],
)
def test_a_token_in_a_definition_is_in_no_list(ways):
    about = f"You are <b>{TOKEN}</b>, or Bearer {TOKEN}"
    script = modern(
        tools__list=rpc({"tools": [described(about)]}), server__discover=discover(instructions=about)
    )
    options = {key: value for key, value in ways.items() if key != "query"}
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url + ways.get("query", ""), timeouts=PATIENT, **options) as client,
    ):
        (listed,) = client.list_tools()
        said = repr((listed, listed.raw, client.server, client.connect()))
    assert TOKEN not in said
    assert listed.description.startswith("You are <b>[secret]</b>")


def test_a_password_that_is_a_name_does_no_harm_to_calls():
    login = described("The password of the database")
    login["inputSchema"]["properties"] = {"password": {"enum": ["password"], "title": "password"}}
    login["inputSchema"]["required"] = ["password"]
    script = modern(tools__list=rpc({"tools": [{**login, "name": "password"}]}))
    with (
        ScriptedServer(script) as server,
        MCPClient(server.url, auth=BasicAuth("me", "password"), timeouts=PATIENT) as client,
    ):
        (listed,) = client.list_tools()
    assert listed.name == "password"
    assert listed.description == "The password of the database"
    assert listed.input_schema["required"] == ["password"]
    assert listed.input_schema["properties"] == {"password": {"enum": ["password"], "title": "password"}}


def test_the_digest_is_that_of_what_is_shown_and_does_not_change_with_the_token():
    digests = set()
    for token in (TOKEN, LONG):
        script = modern(tools__list=rpc({"tools": [described(f"You are {token}")]}))
        with (
            ScriptedServer(script) as server,
            MCPClient(server.url, auth=BearerAuth(token), timeouts=PATIENT) as client,
        ):
            digests.add(client.list_tools()[0].digest)
    assert len(digests) == 1


LOUD = canary("token")
SAID = "\n".join(spellings(LOUD).values())
LOUD_REPLIES = {
    "refusal": http(401, SAID, headers={"WWW-Authenticate": f'Bearer error="{spellings(LOUD)["url"]}"'}),
    "no JSON": http(200, f"<html>{SAID}"),
    "redirect": http(307, headers={"Location": f"http://127.0.0.1:1/?token={spellings(LOUD)['url']}"}),
    "error": rpc_error(-32603, SAID, {"said": SAID}),
    "broken JSON": http(200, f'{{"jsonrpc": "2.0", "said": {json.dumps(SAID)[:-9]}'),
}


@pytest.mark.parametrize("reply", LOUD_REPLIES.values(), ids=LOUD_REPLIES)
def test_no_spelling_is_in_an_error_with_its_traceback_and_its_causes(reply):
    with (
        ScriptedServer(modern(tools__call=reply)) as server,
        MCPClient(
            f"{server.url}?q={spellings(LOUD)['url']}", headers={"X-More": f"a {LOUD}"}, secrets=[LOUD],
            timeouts=PATIENT,
        ) as client,
        pytest.raises(MCPError) as caught,
    ):  # fmt: skip
        client.call_tool("echo", {"text": "a"})
    error, seen = caught.value, []
    while error is not None:
        seen += [str(error), repr(error), str(vars(error)), *traceback.format_exception(error)]
        error = error.__cause__ or error.__context__
    assert found({"token": LOUD}, *seen) == []
